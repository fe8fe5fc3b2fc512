"""The answer's tokens while they come: out of the arguments of `finish`, for `dspy.streamify` and its listeners."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, cast

import jiter
from dspy.streaming.messages import StreamResponse

_ARGS = re.compile(r"\[\[ ## next_tool_name ## \]\]\s*finish\s*\[\[ ## next_tool_args ## \]\]\s*(\{.*)", re.S)


class AnswerStream:
    """Takes the pieces of a decision from DSPy, and sends on what they add to the answer.

    Args:
        outer: DSPy's stream that somebody listens to; None for nobody.
        fields: The outputs that are listened to.
        tell: Receives every piece of text.
    """

    def __init__(self, outer: Any, fields: Collection[str], tell: Callable[[str], None] | None) -> None:
        self._outer = outer
        self._fields = fields
        self._tell = tell
        self._text = ""
        self._name = ""
        self._args = ""
        self._sent: dict[str, int] = {}

    async def send(self, chunk: Any) -> None:
        """One piece of the reply; a message of somebody else is passed on."""
        choices = getattr(chunk, "choices", None)
        if not choices:
            if self._outer is not None:
                await self._outer.send(chunk)
            return
        delta = choices[0].delta
        if text := getattr(delta, "content", None):
            if self._tell is not None:
                self._tell(text)
            self._text += text
        for call in getattr(delta, "tool_calls", None) or ():
            function = getattr(call, "function", None)
            self._name += getattr(function, "name", None) or ""
            self._args += getattr(function, "arguments", None) or ""
        if self._outer is not None and self._fields:
            for name, growth in self._growth():
                await self._outer.send(StreamResponse("agent", name, growth, is_last_chunk=False))

    def _growth(self) -> list[tuple[str, str]]:
        if self._name == "finish":
            begun = self._args
        else:
            found = _ARGS.search(self._text)
            begun = found[1].partition("\n[[ ##")[0] if found else ""
        if not begun:
            return []
        try:
            known: Any = jiter.from_json(begun.encode(), partial_mode="trailing-strings")
        except ValueError:
            return []
        grown: list[tuple[str, str]] = []
        for name, value in cast("dict[str, Any]", known).items() if isinstance(known, dict) else ():
            if name in self._fields and isinstance(value, str) and len(value) > self._sent.get(name, 0):
                grown.append((name, value[self._sent.get(name, 0) :]))
                self._sent[name] = len(value)
        return grown
