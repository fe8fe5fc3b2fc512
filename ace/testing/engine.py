"""A function as a DSPy language model, and how such a model reads the prompt it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import dspy
from dspy import lm15


@dataclass(frozen=True)
class Prompt:
    """The messages of a request, parsed on access; nothing but their own text is known.

    Examples:
        >>> prompt = Prompt((("system", "Tools:\\nlook(key: str): Look."), ("user", "[[ ## task ## ]]\\nFind a"),
        ...                  ("assistant", '{"name": "look", "args": {"key": "a"}}'), ("user", "[[ ## result ## ]]\\n7")))
        >>> prompt.fields["task"], prompt.steps[0]["observation"], list(prompt.tools)
        ('Find a', '7', ['look'])
    """

    messages: tuple[tuple[str, str], ...]
    """Role and text of each."""

    @property
    def text(self) -> str:
        """The last message."""
        return self.messages[-1][1]

    @property
    def system(self) -> str:
        """The system message."""
        return next((text for role, text in self.messages if role == "system"), "")

    @property
    def before(self) -> tuple[str, ...]:
        """The messages between the two: demonstrations, and earlier turns."""
        return tuple(text for role, text in self.messages[:-1] if role != "system")

    @property
    def whole(self) -> str:
        """All messages as one text."""
        return "\n\n".join(text for _, text in self.messages)

    @cached_property
    def _turns(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The messages from each one that asks for something on: the last of them are the present task's."""
        turns: list[list[tuple[str, str]]] = [[]]
        for role, text in self.messages:
            if role == "user" and _inputs(text).keys() - {"tools"}:  # ReActV2 lists its tools with each request
                turns.append([])
            turns[-1].append((role, text))
        return tuple(map(tuple, turns))

    @cached_property
    def fields(self) -> dict[str, str]:
        """The input fields of what is asked for, by name."""
        role, text = self._turns[-1][0]
        return _inputs(text) if role == "user" else {}

    @cached_property
    def wants(self) -> tuple[str, ...]:
        """The requested output fields; of a decision, `next_thought` and `tool_calls`, and of the last one the outputs."""
        if (end := _END.search(_without_request(self.text))) is not None:
            return tuple(str(end[1]).split(", "))
        requests = [text.rpartition(_REQUEST)[2] for _, text in self.messages if _REQUEST in text]
        if not requests:
            return ("next_thought", "tool_calls") if self.tools else ()
        return tuple(name for name in _WANTED.findall(requests[-1]) if name != "completed")

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The catalog: a tool's name to its `description` and `args`, with the `properties` and what is `required`."""
        said = (_inputs(text) for role, text in self.messages if role == "user")
        named = next((found["tools"] for found in said if "tools" in found), "")
        return dict(_catalog(named or self.system.partition("Tools:\n")[2].partition("\n\nReply with")[0]))

    @cached_property
    def _replies(self) -> list[tuple[str, list[dict[str, Any]], list[str]]]:
        """Each reply to the present task: what was said, its calls, and the messages that came back."""
        found: list[tuple[str, list[dict[str, Any]], list[str]]] = []
        for role, text in self._turns[-1][1:]:
            if role == "assistant":
                thought, calls = _reply(text)
                found.append((thought, calls, []))
            elif found:
                found[-1][2].append(text)
        return found

    @property
    def steps(self) -> list[dict[str, str]]:
        """The calls so far: one dict of thought, tool_name, tool_args, observation each."""
        steps: list[dict[str, str]] = []
        for thought, calls, answers in self._replies:
            results = [text for answer in answers for text in _results(answer)]
            for index, call in enumerate(calls):
                observed = results[index] if index < len(results) else ""
                args = json.dumps(call.get("args"), ensure_ascii=False)
                name = str(call.get("name"))
                steps.append({"thought": thought, "tool_name": name, "tool_args": args, "observation": observed})
        return steps

    @property
    def rejected(self) -> list[str]:
        """Notes about replies since the last call that were rejected."""
        notes: list[str] = []
        for _, calls, answers in self._replies:
            notes = [] if calls else [*notes, *(_without_request(text) for text in answers)]
        return notes

    @property
    def must_end(self) -> bool:
        """Whether the answer is asked for now, whatever is left to do."""
        return _END.search(_without_request(self.text)) is not None


_END = re.compile(r"(?:\A|\n)Now end with what is there: call submit with ([^\n]*), and no other tool\.\Z")
_REQUEST = "Respond with the corresponding output fields"
_FIELD = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.M)
_RESULT = re.compile(r"result(_\d+)?|tool_call_results")
_WANTED = re.compile(r"\[\[ ## (\w+) ## \]\]")
_SIGNATURE = re.compile(r"^([^\s(]+)\((.*)\): (.*)$", re.M)
_ARGUMENT = re.compile(r"(?:^|, )([\w-]+)(\?)?: ")
_NESTED = re.compile(r"\{[^{}]*\}|\"(?:[^\"\\]|\\.)*\"|\[[^\[\]]*\]")


def _without_request(text: str) -> str:
    return text.partition(_REQUEST)[0].strip()


def _sections(text: str) -> dict[str, str]:
    _, *found = _FIELD.split(text)
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}


@lru_cache(maxsize=256)
def _inputs(text: str) -> dict[str, str]:
    """Read the input fields of a message; none for results."""
    return {name: part for name, part in _sections(_without_request(text)).items() if not _RESULT.fullmatch(name)}


def _results(text: str) -> list[str]:
    """Read the results that a message brings."""
    sections = _sections(_without_request(text))
    if "tool_call_results" in sections:
        results = json.loads(sections["tool_call_results"])["tool_call_results"]
        return [value if isinstance(value := result["value"], str) else json.dumps(value) for result in results]
    return [part for name, part in sections.items() if _RESULT.fullmatch(name)]


def _reply(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Read what an earlier reply said, and its calls."""
    sections = _sections(text)
    if "tool_calls" in sections:
        return sections.get("next_thought", ""), _loaded(sections["tool_calls"]).get("tool_calls", [])
    lines = text.splitlines()
    calls: list[dict[str, Any]] = []
    while lines and (call := _loaded(lines[-1])).keys() == {"name", "args"}:
        calls.insert(0, call)
        lines.pop()
    return "\n".join(lines), calls


def _loaded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@lru_cache(maxsize=64)
def _catalog(text: str) -> dict[str, dict[str, Any]]:
    """Read tools as signatures, a line each; cached, as a run has the same ones at every step."""
    tools: dict[str, dict[str, Any]] = {}
    for name, shown, description in _SIGNATURE.findall(text):
        plain = shown
        while plain != (plain := _NESTED.sub("_", plain)):
            pass
        parts = [(m[1], bool(m[2]) or "=" in plain[m.end() :].partition(", ")[0]) for m in _ARGUMENT.finditer(plain)]
        args = {
            "properties": {argument: dict[str, Any]() for argument, _ in parts},
            "required": [argument for argument, optional in parts if not optional],
        }
        tools[name] = {"name": name, "description": description, "args": args}
    return tools


def read_prompt(messages: Iterable[Mapping[str, str]]) -> Prompt:
    """Parse the messages of a request."""
    return Prompt(tuple((message["role"], message["content"]) for message in messages))


def render_reply(**fields: Any) -> str:
    """Write output fields as DSPy's chat adapter expects them in a completion."""
    parts = [f"[[ ## {name} ## ]]\n{v if isinstance(v, str) else json.dumps(v)}" for name, v in fields.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])


class FunctionEngine:
    """The engine contract of DSPy 3.4: answers with a function of the prompt."""

    supports_function_calling = False
    supports_response_schema = False
    supports_reasoning = False
    supported_params = frozenset({"temperature", "max_tokens"})

    def __init__(self, answer: Callable[[Prompt], str]) -> None:
        self.answer = answer

    def stream(self, request: lm15.Request) -> Any:
        """Yield the whole answer, as the events of a stream."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionEngine:
        return self

    def complete(self, request: Any) -> Any:
        """Return the function's answer; tokens are counted as four characters each."""
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


class AsyncEngine:
    """An engine for async callers: `AsyncEngine(FunctionEngine(answer))`.

    Args:
        engine: What answers, without blocking.
    """

    def __init__(self, engine: FunctionEngine) -> None:
        self.engine = engine

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the answer to one request."""
        return self.engine.complete(request)

    async def stream(self, request: lm15.Request) -> Any:
        """Yield the whole answer, as the events of a stream."""
        for event in lm15.response_to_events(self.engine.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncEngine:
        return self


_ROLLOUT: ContextVar[int | None] = ContextVar("rollout", default=None)


def current_rollout() -> int | None:
    """Return the rollout of the request under way, which DSPy does not pass on to an engine; None when it names none."""
    return _ROLLOUT.get()


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
        engine = FunctionEngine(answer)
        cast(Any, super()).__init__(model, engine=engine, async_engine=AsyncEngine(engine), cache=False, num_retries=0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer as `dspy.LM` does."""
        before = _ROLLOUT.set(kwargs.get("rollout_id", self.kwargs.get("rollout_id")))
        try:
            return cast(Any, super()).__call__(*args, **kwargs)
        finally:
            _ROLLOUT.reset(before)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Answer as `dspy.LM` does."""
        before = _ROLLOUT.set(kwargs.get("rollout_id", self.kwargs.get("rollout_id")))
        try:
            return await cast(Any, super()).acall(*args, **kwargs)
        finally:
            _ROLLOUT.reset(before)

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionLM:
        return self
