"""What a prompt leaves out when it is too long for the model's window, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ace.agent import history as talk
from ace.agent.history import GONE, STUB, Called, Conversation
from ace.tasks import ReasoningStep


class Shortening:
    """Cuts of a run's steps and of the turns before it, each only while the prompt is still too long.

    A call and its result stay or go together, and the present task is never touched.

    Args:
        steps: All steps of the run.
        cuts: A step's index to the characters of its observation that are shown, or to `GONE`.
        first: The first step that is shown at all.
        conversation: The earlier turns.

    Attributes:
        cuts: As given, with what `to` has cut.
        levels: The same of the turns, see `Conversation`.

    Examples:
        >>> call = {"tool_call_id": "c", "tool_name": "look_up", "outcome": "success"}
        >>> step = ReasoningStep(iteration=1, observation="x" * 900, **call)
        >>> shorter = Shortening([step, step], {}, 0, Conversation([]))
        >>> shorter.to(0.7), shorter.cuts
        (True, {0: 200})
    """

    def __init__(
        self, steps: Sequence[ReasoningStep], cuts: Mapping[int, int], first: int, conversation: Conversation
    ) -> None:
        self.cuts = dict(cuts)
        self.levels = dict(conversation.levels)
        self._steps, self._conversation = steps, conversation
        shown = (index for index in range(first, len(steps)) if cuts.get(index) != GONE)
        self._sizes = {index: self._step(index, cuts.get(index)) for index in shown}
        self._turns = {index: conversation.size(index, level) for index, level in self.levels.items()}
        self._over = 0.0

    def to(self, keep: float) -> bool:
        """Shorten to a share of the present length: old observations first, then old calls as a whole, then old turns, and
        the newest observation last, in its middle.

        Args:
            keep: From 0 to 1.

        Returns:
            Whether anything was left that could go.
        """
        before = (dict(self.cuts), dict(self.levels))
        self._over = (sum(self._sizes.values()) + sum(self._turns.values())) * (1 - keep)
        *older, newest = self._sizes or (None,)
        for turn_level, limit in ((talk.SHORT, STUB), (talk.NO_CALLS, GONE)):
            self._cut_turns(turn_level)
            for index in older:
                self._cut(index, limit)
        self._cut_turns(talk.LEFT_OUT)
        if newest is not None:
            length = len(self._steps[newest].observation)
            self._cut(newest, max(STUB, int(min(length, self.cuts.get(newest, length)) - self._over)))
        return before != (self.cuts, self.levels)

    def _cut(self, index: int, limit: int) -> None:
        size = self._step(index, limit) if limit != GONE else 0
        if self._over > 0 and size < self._sizes[index]:
            self._over -= self._sizes[index] - size
            self._sizes[index], self.cuts[index] = size, limit

    def _cut_turns(self, level: int) -> None:
        for index, before in self._turns.items():
            size = self._conversation.size(index, level)
            if self._over > 0 and size < before and self.levels[index] < level:
                self._over -= before - size
                self._turns[index], self.levels[index] = size, level

    def _step(self, index: int, limit: int | None) -> int:
        thought = len(self._steps[index].thought)
        kept = thought if limit is None else min(thought, max(limit, talk.KEPT))
        return kept + Called.of(self._steps[index]).size(limit)
