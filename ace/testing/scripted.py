"""`ScriptedLM`: plays a list of replies."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from ace.testing.engine import FunctionLM, Prompt, render_reply


def decision(tool: str, thought: str = "", /, **args: Any) -> str:
    """Write one ReAct turn as a completion.

    Examples:
        >>> "tool_calls" in decision("submit", answer="42")
        True
    """
    calls = {"tool_calls": [{"name": tool, "args": args}]}
    return render_reply(next_thought=thought or f"I use {tool}.", tool_calls=calls)


class ScriptedLM(FunctionLM):
    """Answers with the given completions, in order; an exception among them is raised.

    Args:
        replies: Completions, for example from `decision`.

    Raises:
        RuntimeError: At the call after the last reply; the agent sees it as a transport error.

    Examples:
        >>> lm = ScriptedLM([decision("submit", answer="42")])
        >>> lm.prompts
        []
    """

    def __init__(self, replies: Iterable[str | Exception]) -> None:
        self._replies = iter(list(replies))
        self._lock = threading.Lock()
        self.prompts: list[Prompt] = []
        super().__init__("scripted/lm", self._answer)

    def _answer(self, prompt: Prompt) -> str:
        with self._lock:
            self.prompts.append(prompt)
            reply = next(self._replies, None)
            if reply is None:
                raise RuntimeError(f"the script has no reply number {len(self.prompts)}")
        if isinstance(reply, Exception):
            raise reply
        return reply
