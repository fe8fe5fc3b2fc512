"""The playbook as an agent sees it that is learned from."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from ace.playbook import Filters, Playbook, Retrieved, Trial
from ace.tasks import TaskInput


class LearningMemory:
    """Retrieves with exploration and coins, with fresh luck for every run of a task.

    Args:
        playbook: The book.
        explore: With this probability a run is shown bullets by Thompson sampling, one shadow bullet among them at most.
        withhold: With this probability each, a bullet is left out that would have come: the only unbiased estimate of what
            it does.
        seed: Of the draws.

    Example:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> _ = book.add(section="Pitfalls", content="Ask first.")
        >>> LearningMemory(book, withhold=1.0).retrieve_for(TaskInput(inputs={"task": "Ask"}), {}).withheld
        ('b-1',)
    """

    def __init__(self, playbook: Playbook, explore: float = 0.0, withhold: float = 0.0, seed: int = 0) -> None:
        self.playbook = playbook
        self.trial = Trial(explore=explore, withhold=withhold, seed=seed)
        self._runs: Counter[str] = Counter()
        self._lock = threading.Lock()

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str], filters: Filters | None = None) -> Retrieved:
        """See `Playbook.retrieve_for`."""
        if not self.trial.explore and not self.trial.withhold:
            return self.playbook.retrieve_for(task, tools, filters)
        with self._lock:
            number = self._runs[task.task_id]
            self._runs[task.task_id] += 1
        run = Trial(self.trial.explore, self.trial.withhold, self.trial.seed, f"{task.task_id}/{number}")
        return self.playbook.retrieve_for(task, tools, filters, run)
