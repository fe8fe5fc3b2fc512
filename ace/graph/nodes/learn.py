"""`LearnNode`: lessons from the run in the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from ace.graph.nodes.base import Node
from ace.graph.state import needed, read
from ace.learner import Learner
from ace.tasks import Feedback, TaskOutput


@dataclass(eq=False, repr=False)
class LearnNode(Node):
    """Reflects on ``run``, curates and commits; each run once, also when the graph is resumed inside the node.

    Args:
        learner: Has the playbook, the reflector and the curator.
        score: Decides whether a run succeeded; without it the state's ``feedback`` does.
        run: The field with the `TaskOutput`.
        feedback: The field with the `Feedback`; True, False or a number are short for one.
        revision: Field for the playbook's revision.

    Examples:
        >>> from ace.playbook import CallableEmbedder, Playbook
        >>> from ace.tasks import TaskInput
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> run = TaskOutput(task_id="t", run_id="r", task=TaskInput(inputs={"task": "Greet"}),
        ...                  termination_reason="completed", answer="hello")
        >>> LearnNode(Learner(book)).invoke({"run": run, "feedback": True})
        {'playbook_revision': 1}
    """

    learner: Learner
    _: KW_ONLY
    score: Callable[[TaskOutput], Feedback | bool | float] | None = None
    run: str = "run"
    feedback: str = "feedback"
    revision: str = "playbook_revision"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class.

        Raises:
            ValueError: There is no run, or no feedback on it.
        """
        run: TaskOutput = needed(input, self.run, "LearnNode")
        verdict = self.score(run) if self.score is not None else read(input, self.feedback)
        if verdict is None:
            raise ValueError(
                f"LearnNode needs feedback: set the state's field {self.feedback!r}, or construct it with score=..."
            )
        if not self._learned(run):
            self.learner.learn(run, Feedback.of(verdict))
        return {self.revision: self.learner.playbook.revision}

    def _learned(self, run: TaskOutput) -> bool:
        """Check whether the playbook has learned from this run: an earlier process died before the graph was saved."""
        book = self.learner.playbook
        book.refresh()
        return any(run.run_id in bullet.provenance.run_ids for bullet in book.bullets)
