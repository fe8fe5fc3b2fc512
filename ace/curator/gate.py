"""The acceptance gate: a proposal must help on held-in tasks and must not hurt on held-out ones, or nothing is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.playbook.delta import Delta

_Means = tuple[float, float]
MIN_GAIN = 0.05
"""On held-in tasks the mean score must rise by at least this (ax's playbook evolution uses the same)."""
MAX_LOSS = 0.01
"""On held-out tasks it may fall by at most this."""


@dataclass(frozen=True)
class GateVerdict:
    """What a gate said of a proposal: `GateVerdict(False, "3 of 10 tasks got worse")`."""

    accepted: bool
    reason: str
    calls: int = 0
    """Runs that it cost."""
    held_in: tuple[float, float] | None = None
    """Mean score before and with the proposal."""
    held_out: tuple[float, float] | None = None
    families: int = 0
    """Of the tasks that were run: means over few families say little of others."""


Gate = Callable[[Playbook, Sequence[Delta]], GateVerdict]
"""Looks at a playbook and says whether deltas may be committed: `lambda book, deltas: GateVerdict(True, "fine")`."""


@dataclass(eq=False, repr=False)
class AcceptanceGate:
    """Runs tasks with the book as it is and with a copy that has the proposal, and compares the mean scores.

    The copy lives in memory: a proposal that is refused leaves no trace in the book. Scores of the book as it is are kept
    until it changes. Held-out tasks are not run when the held-in ones already refuse.

    Args:
        score: Runs one task with a playbook and gives its score, from 0 to 1. The second argument counts repeats: the same
            number should give the same draws, so that both sides are compared in pairs.
        held_in: Tasks that the lessons came from, or tasks like them.
        held_out: Tasks that no lesson came from.
        gain: The least rise on held-in tasks.
        loss: The most that held-out tasks may lose.
        repeats: Runs of each task on each side.
        max_calls: Runs in the whole life of the gate; afterwards it refuses and says so.

    Raises:
        ValueError: There are no held-in tasks, or a number is out of range.

    Examples:
        >>> from ace.playbook import Add, CallableEmbedder, PlaybookBullet
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> gate = AcceptanceGate(lambda task, repeat, book: float(len(book) > 0), held_in=["t1", "t2"])
        >>> verdict = gate(book, [Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask first."))])
        >>> verdict.accepted, verdict.held_in, len(book)
        (True, (0.0, 1.0), 0)
    """

    score: Callable[[Any, int, Playbook], float]
    held_in: Sequence[Any]
    held_out: Sequence[Any] = ()
    _: KW_ONLY
    gain: float = MIN_GAIN
    loss: float = MAX_LOSS
    repeats: int = 1
    max_calls: int = 1_000

    def __post_init__(self) -> None:
        self.held_in, self.held_out = list(self.held_in), list(self.held_out)
        if not self.held_in:
            raise ValueError("an acceptance gate needs held_in tasks: without them nothing can be shown to help")
        if self.repeats < 1 or self.max_calls < 1:
            raise ValueError(f"repeats and max_calls must be at least 1, got {self.repeats!r} and {self.max_calls!r}")
        self.calls = 0
        self._before: dict[tuple[int, int, str], float] = {}

    def __call__(self, playbook: Playbook, deltas: Sequence[Delta], /) -> GateVerdict:
        """Look at a proposal."""
        start = self.calls
        known = [name for name in ("in", "out") if (id(playbook), playbook.revision, name) in self._before]
        need = sum(len(tasks) * (1 if name in known else 2) for name, tasks in self._sets()) * self.repeats
        if self.calls + need > self.max_calls:
            why = f"the gate has {self.max_calls - self.calls} of {self.max_calls} runs left and may need {need}"
            return GateVerdict(False, why)
        with playbook.fork() as copy:
            try:
                copy.commit(deltas, author="gate")
            except PlaybookError as error:
                return GateVerdict(False, f"the proposal does not apply: {error}")
            inside = (self._mean("in", playbook, playbook), self._mean("in", copy))
            if inside[1] - inside[0] < self.gain:
                why = f"held-in tasks go from {inside[0]:.3f} to {inside[1]:.3f}, expected a gain of {self.gain}"
                return self._verdict(False, why, start, inside)
            if not self.held_out:
                return self._verdict(True, "held-in tasks gain, none are held out", start, inside)
            outside = (self._mean("out", playbook, playbook), self._mean("out", copy))
        if outside[0] - outside[1] > self.loss:
            why = f"held-out tasks go from {outside[0]:.3f} to {outside[1]:.3f}, at most {self.loss} may be lost"
            return self._verdict(False, why, start, inside, outside)
        return self._verdict(True, "held-in tasks gain, held-out ones do not lose", start, inside, outside)

    def _verdict(
        self, accepted: bool, why: str, start: int, inside: _Means, outside: _Means | None = None
    ) -> GateVerdict:
        """Make the verdict, with how many families were seen; a task without a `group` is a family by itself."""
        tasks: list[Any] = [*self.held_in, *(self.held_out if outside else [])]
        families = len({getattr(task, "group", "") or number for number, task in enumerate(tasks)})
        seen = f"{why} ({families} {'family' if families == 1 else 'families'} of tasks)"
        return GateVerdict(accepted, seen, self.calls - start, inside, outside, families)

    def _sets(self) -> list[tuple[str, Sequence[Any]]]:
        return [("in", self.held_in), ("out", self.held_out)]

    def _mean(self, name: str, source: Playbook, current: Playbook | None = None) -> float:
        """Return the mean score over one set of tasks; that of the current book is kept until it changes."""
        key = (id(source), source.revision, name)
        if current is not None and key in self._before:
            return self._before[key]
        scores: list[float] = []
        for task in dict(self._sets())[name]:
            for repeat in range(self.repeats):
                self.calls += 1  # also one that raises was paid for
                scores.append(float(self.score(task, repeat, source)))
        mean = sum(scores) / len(scores)
        if current is not None:
            self._before = {k: v for k, v in self._before.items() if k[:2] == key[:2]} | {key: mean}
        return mean
