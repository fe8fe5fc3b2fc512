"""The answer's tokens while they come: out of the arguments of `submit`, for `dspy.streamify` and its listeners."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

import jiter
from dspy.streaming.messages import StreamResponse

from ace.agent.history import ENDS
from ace.react.reading.objects import balanced

_SUBMIT = re.compile(
    r"\"(?:name|tool|next_tool_name)\"\s*:\s*\"(?:submit|finish)\"\s*,\s*\"(?:args|arguments|next_tool_args)\"\s*:\s*(?=\{)"
    r"|\[\[ ## next_tool_name ## \]\]\s*(?:submit|finish)\s*\[\[ ## next_tool_args ## \]\]\s*(?=\{)"
    r"|<next_tool_name>\s*(?:submit|finish)\s*</next_tool_name>\s*<next_tool_args>\s*(?=\{)"
)
"""What stands before the outputs, in any layout."""


@dataclass(eq=False)
class AnswerStream:
    """Takes the pieces of a decision from DSPy, and sends on what they add to the answer.

    Args:
        outer: DSPy's stream that somebody listens to; None for nobody.
        fields: The outputs that are listened to.
        tell: Receives every piece of text, and what it adds to the answer.
        answer: The output that is the answer.
    """

    outer: Any
    fields: Collection[str]
    tell: Callable[[str, str], None] | None
    answer: str
    _text: str = ""
    _name: str = ""
    _args: str = ""
    _sent: dict[str, int] = field(default_factory=dict[str, int])

    async def send(self, chunk: Any) -> None:
        """Take in one piece of the reply; a message of somebody else is passed on."""
        choices = getattr(chunk, "choices", None)
        if not choices:
            if self.outer is not None:
                await self.outer.send(chunk)
            return
        delta = choices[0].delta
        text = getattr(delta, "content", None) or ""
        self._text += text
        for call in getattr(delta, "tool_calls", None) or ():
            function = getattr(call, "function", None)
            self._name += getattr(function, "name", None) or ""
            self._args += getattr(function, "arguments", None) or ""
        grown = self._growth()
        if self.tell is not None and (text or self.answer in grown):
            self.tell(text, grown.get(self.answer, ""))
        if self.outer is not None:
            for name in grown.keys() & set(self.fields):
                await self.outer.send(StreamResponse("agent", name, grown[name], is_last_chunk=False))

    def _outputs(self) -> Any:
        """Return the arguments of the call that ends the run, so far."""
        if self._name:
            return _partial(self._args) if self._name in ENDS else None
        found = _SUBMIT.search(self._text) if any(name in self._text for name in ENDS) else None
        if found is None:
            return None
        end, left = balanced(self._text, found.end())
        return _partial(self._text[found.end() : end] if left == [] else self._text[found.end() :])

    def _growth(self) -> dict[str, str]:
        """Return what the last piece has added to the outputs that somebody wants."""
        known = self._outputs()
        grown: dict[str, str] = {}
        for name, value in cast("dict[str, Any]", known).items() if isinstance(known, dict) else ():
            wanted = name in self.fields or name == self.answer
            if wanted and isinstance(value, str) and len(value) > self._sent.get(name, 0):
                grown[name] = value[self._sent.get(name, 0) :]
                self._sent[name] = len(value)
        return grown


def _partial(text: str) -> Any:
    """Read an object that has not come to its end; None for what is none."""
    try:
        return jiter.from_json(text.encode(), partial_mode="trailing-strings")
    except ValueError:
        return None
