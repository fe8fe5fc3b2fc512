"""A function as a DSPy language model, and how such a model reads the prompt it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import dspy
from dspy import lm15

from ace.react.lm_engine import AsyncLMEngine, LMEngine


@dataclass(frozen=True)
class Prompt:
    """A chat-adapter prompt, parsed on access; nothing but the prompt's own text is known."""

    text: str
    """The last user message."""
    system: str = ""
    before: tuple[str, ...] = ()
    """The messages between the two: demonstrations, and earlier turns of a conversation."""

    @property
    def whole(self) -> str:
        """All messages as one text."""
        return "\n\n".join([self.system, *self.before, self.text])

    @cached_property
    def _parts(self) -> tuple[str, str]:
        """The input fields, and the request for outputs after them."""
        body, _, request = self.text.rpartition("Respond with the corresponding output fields")
        return (body, request) if body else (self.text, "")

    @cached_property
    def fields(self) -> dict[str, str]:
        """Input fields of the last user message by name."""
        _, *found = _FIELD.split(self._parts[0])
        return {name: text.strip() for name, text in zip(found[::2], found[1::2], strict=True)}

    @cached_property
    def wants(self) -> tuple[str, ...]:
        """The requested output fields; in a conversation the first message says which."""
        request = self._parts[1]
        if not request and self.before:
            request = next((found for text in self.before if (found := Prompt(text)._parts[1])), "")
        return tuple(name for name in _WANTED.findall(request) if name != "completed")

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The catalog: tool name to its entry; in a conversation it stands in the first message."""
        if "tools" in self.fields:
            return dict(_catalog(self.fields["tools"]))
        return next((found for text in self.before if (found := Prompt(text).tools)), dict[str, dict[str, Any]]())

    @property
    def steps(self) -> list[dict[str, str]]:
        """The trajectory: one dict of thought, tool_name, tool_args, observation per step."""
        found: dict[int, dict[str, str]] = {}
        for name, number, text in self._trajectory:
            if name in _OF_A_STEP:
                found.setdefault(int(number), {}).setdefault(name, text)
        return [found[n] for n in sorted(found)]

    @property
    def rejected(self) -> list[str]:
        """Notes about replies of this turn that were rejected."""
        return [text for name, _, text in self._trajectory if name == "rejected_reply"]

    @cached_property
    def _trajectory(self) -> list[tuple[str, str, str]]:
        """The trajectory in parts: what it is, the number of its step, its text."""
        _, *found = _PART.split(self.fields.get("trajectory", ""))
        return [(name, n, text.strip()) for name, n, text in zip(found[::3], found[1::3], found[2::3], strict=True)]


@lru_cache(maxsize=64)
def _catalog(text: str) -> dict[str, dict[str, Any]]:
    """Tools as JSON lines; cached, as a run has the same ones at every step."""
    entries = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return {entry["name"]: entry for entry in entries}


_OF_A_STEP = ("thought", "tool_name", "tool_args", "observation")
_INNER = rf"({'|'.join(_OF_A_STEP)}|rejected_reply)_(\d+)"
# headings alone, to split at: a pattern that looks for the end of each text, too, takes a hundred times as long
_PART = re.compile(rf"^\[\[ ## {_INNER} ## \]\][ \t]*\n?", re.M)
_FIELD = re.compile(rf"^\[\[ ## (?!(?:{'|'.join(_OF_A_STEP)}|rejected_reply)_\d+ ## )(\w+) ## \]\][ \t]*\n?", re.M)
_WANTED = re.compile(r"\[\[ ## (\w+) ## \]\]")


def read_prompt(messages: list[dict[str, str]]) -> Prompt:
    """Parse the messages of DSPy's chat adapter."""
    system = next((m["content"] for m in messages if m["role"] == "system"), "")
    before = tuple(m["content"] for m in messages[:-1] if m["role"] != "system")
    return Prompt(messages[-1]["content"], system, before)


def render_reply(**fields: Any) -> str:
    """Output fields as DSPy's chat adapter expects them in a completion."""
    parts = [f"[[ ## {name} ## ]]\n{v if isinstance(v, str) else json.dumps(v)}" for name, v in fields.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])


class _Engine(LMEngine):
    """Answers with a function of the prompt."""

    supports_function_calling = False
    supports_response_schema = False
    supports_reasoning = False
    supported_params = frozenset({"temperature", "max_tokens"})

    def __init__(self, answer: Callable[[Prompt], str]) -> None:
        self.answer = answer

    def complete(self, request: Any) -> Any:
        """The function's answer; tokens are counted as four characters each."""
        system = request.system
        if system is not None and not isinstance(system, str):
            system = "".join(part.text for part in system)
        messages = [{"role": "system", "content": system or ""}]
        messages += [{"role": m.role, "content": m.text or ""} for m in request.messages]
        reply = self.answer(read_prompt(messages))
        spent_in, spent_out = sum(len(m["content"]) for m in messages) // 4, len(reply) // 4
        usage = lm15.Usage(input_tokens=spent_in, output_tokens=spent_out, total_tokens=spent_in + spent_out)
        message = lm15.Message.assistant([lm15.TextPart(reply)])
        return lm15.Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


class FunctionLM(dspy.LM):
    """A `dspy.LM` that answers with a function of the prompt; no network, no cache.

    Examples:
        >>> lm = FunctionLM("test/echo", lambda prompt: render_reply(answer=prompt.fields["question"]))
        >>> with dspy.context(lm=lm):
        ...     dspy.Predict("question -> answer")(question="hi").answer
        'hi'
    """

    label = ""
    """What results are labelled with; empty for none."""

    def __init__(self, model: str, answer: Callable[[Prompt], str]) -> None:
        engine = _Engine(answer)
        asynchronous = AsyncLMEngine(engine, in_thread=False)
        cast(Any, super()).__init__(model, engine=engine, async_engine=asynchronous, cache=False, num_retries=0)

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionLM:
        return self
