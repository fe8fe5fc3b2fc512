"""The forms in which frameworks record a run, each read as the same few events.

Nothing of another framework is imported: objects are read by their attributes, JSON by its keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ace.agent.history import Message, read_messages
from ace.core import clean_text, value_to_text

MAX_NAME = 256
"""Characters of a tool's name."""
Kind = Literal["user", "thought", "call", "result", "answer"]


@dataclass(frozen=True)
class TraceEvent:
    """One thing that happened in a recorded run."""

    kind: Kind
    text: str = ""
    """The message, or the result of the tool."""
    name: str = ""
    """The tool of a call."""
    args: Any = None
    call_id: str = ""
    """Of a call, and of the result that answers it; "" for the latest call."""
    failed: bool | None = None
    """Whether a result is an error; None when the form does not record it."""
    words: str | None = None
    """Of the user: the message without its images, sounds and files, which `text` names; None where it has none."""


def events_of(trace: Any) -> Iterator[TraceEvent]:
    """Read the events of a run in any known form.

    Raises:
        ValueError: The form is not known.
    """
    readers = {"trajectory": _trajectory, "messages": _messages, "history": _turns}
    for wanted, reader in readers.items():
        found = field_of(trace, wanted)
        if found is not None:
            yield from reader(trace, found)
            return
    if isinstance(trace, Sequence) and trace:
        yield from _messages(trace, cast("Sequence[Any]", trace))
        return
    keys = sorted(map(str, cast("Mapping[Any, Any]", trace)))[:8] if isinstance(trace, Mapping) else []
    kind = f"keys {keys}" if keys else f"type {type(cast(object, trace)).__name__}"
    raise ValueError(
        f"not a known trace ({kind}); expected `history` or `trajectory` (DSPy), `messages` (OpenAI, LangGraph, "
        "Pydantic AI), a list of messages, or a TaskOutput"
    )


def field_of(thing: Any, name: str, default: Any = None) -> Any:
    """Read a field of an object or a dict: `field_of({"role": "user"}, "role")`."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(name, default)
    return default if isinstance(thing, (str, bytes, list, tuple)) else getattr(thing, name, default)


# -- DSPy --------------------------------------------------------------------------------------------------------------


def _trajectory(trace: Any, trajectory: Any) -> Iterator[TraceEvent]:
    """Read the flat dict of `dspy.ReAct`: thought_0, tool_name_0, tool_args_0, observation_0, thought_1 ..."""
    if not isinstance(trajectory, Mapping):
        raise ValueError(
            f"its `trajectory` is {type(trajectory).__name__}, expected DSPy's dict: thought_0, tool_name_0 ..."
        )
    said = cast("Mapping[str, Any]", trajectory)
    asked = (field_of(trace, name) for name in ("task", "question", "input", "query"))
    if text := next((found for found in asked if isinstance(found, str)), ""):
        yield TraceEvent("user", text)
    for index in sorted(int(name.rpartition("_")[2]) for name in said if re.fullmatch(r"tool_name_\d+", name)):
        yield TraceEvent("thought", value_to_text(said.get(f"thought_{index}") or ""))
        if (name := str(said[f"tool_name_{index}"])) != "finish":
            yield TraceEvent("call", name=name, args=said.get(f"tool_args_{index}"))
            if (observed := said.get(f"observation_{index}")) is not None:
                yield TraceEvent("result", value_to_text(observed))
    answer = field_of(trace, "answer")
    yield TraceEvent("answer", value_to_text(answer) if answer is not None else "")


def _turns(_trace: Any, history: Any) -> Iterator[TraceEvent]:
    """Read the `dspy.History` of `dspy.ReActV2`, or of any conversation with its calls."""
    for number, message in enumerate(read_messages(list(field_of(history, "messages", history)))):
        yield from message_events(message, number)


def message_events(message: Message, number: int = 0) -> Iterator[TraceEvent]:
    """Read a message of a history as events; a call's id is its own in the whole conversation."""
    if said := "\n".join(value_to_text(value) for value in message.inputs.values()):
        yield TraceEvent("user", said)
    for index, (thought, call) in enumerate(message.steps):
        call_id = f"m{number}-c{index}"
        yield TraceEvent("thought", thought)
        yield TraceEvent("call", name=call.name, args=call.args, call_id=call_id)
        yield TraceEvent("result", call.result, call_id=call_id, failed=call.failed or None)
    yield TraceEvent("answer", "\n".join(value_to_text(value) for value in message.outputs.values()))


# -- messages ----------------------------------------------------------------------------------------------------------


def _messages(_: Any, messages: Sequence[Any]) -> Iterator[TraceEvent]:
    """Read messages of OpenAI's API, LangGraph or Pydantic AI."""
    for message in messages:
        parts = field_of(message, "parts")
        yield from _parts(parts) if parts is not None else _message(message)


def _message(message: Any) -> Iterator[TraceEvent]:
    role = str(field_of(message, "role") or field_of(message, "type") or "")
    content = field_of(message, "content")
    blocks = cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()
    if any(field_of(b, "type") in ("tool_use", "tool_result") for b in blocks):
        yield from _blocks(role, blocks)
    elif role in ("user", "human"):
        yield _user_event(content)
    elif role in ("assistant", "ai"):
        legacy = field_of(message, "function_call")
        calls = field_of(message, "tool_calls") or ([legacy] if legacy else ())
        if said := _content(content) or _content(field_of(message, "refusal")):
            yield TraceEvent("thought" if calls else "answer", said)
        yield from map(_call, calls)
    elif role == "function_call":  # this, the next and reasoning are items of OpenAI's Responses API
        yield _call(message)
    elif role in ("function_call_output", "tool", "function"):
        # LangGraph marks what a tool raised; "success" is its default also for a tool that returned its error as text
        yield _result(message, failed=field_of(message, "status") == "error")
    elif role not in ("system", "developer", "reasoning"):
        raise ValueError(f"a message has the role {role!r}; expected user, assistant, tool or system")


def _call(item: Any) -> TraceEvent:
    """Read a call in whatever form: of a message, a block, a part."""
    made = field_of(item, "function") or field_of(item, "custom") or item
    name, args = _first(made, "name", "tool_name"), _first(made, "arguments", "args", "input")
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(
            f"the assistant calls a tool whose name is {value_to_text(name, 40)!r}, expected 1 to {MAX_NAME} characters"
        )
    if isinstance(args, str) and field_of(item, "custom"):
        args = {"input": args}  # a custom tool of OpenAI's API is called with a bare text
    return TraceEvent("call", name=name, args=args, call_id=str(_first(item, "call_id", "tool_call_id", "id") or ""))


def _result(item: Any, *, failed: bool) -> TraceEvent:
    """Read a result in whatever form; that it is not marked as failed says nothing."""
    call_id = str(_first(item, "call_id", "tool_call_id", "tool_use_id") or "")
    return TraceEvent("result", _content(_first(item, "content", "output")), call_id=call_id, failed=failed or None)


def _first(thing: Any, *names: str) -> Any:
    """Return the first of some fields that is there."""
    return next((found for name in names if (found := field_of(thing, name)) is not None), None)


def _blocks(role: str, blocks: Sequence[Any]) -> Iterator[TraceEvent]:
    """Read the content blocks of Anthropic's API: text, calls, and results inside a message of the user."""
    for block in blocks:
        kind = field_of(block, "type")
        if kind == "tool_use":
            yield _call(block)
        elif kind == "tool_result":
            yield _result(block, failed=bool(field_of(block, "is_error")))
        elif kind == "text":
            yield TraceEvent("user" if role == "user" else "thought", str(field_of(block, "text", "")))


def _parts(parts: Sequence[Any]) -> Iterator[TraceEvent]:
    """Read the parts of a Pydantic AI request or response."""
    calls = any(field_of(part, "part_kind") == "tool-call" for part in parts)
    for part in parts:
        kind, content, name = (field_of(part, field) for field in ("part_kind", "content", "tool_name"))
        ends = str(name or "").startswith("final_result")
        if kind == "user-prompt":
            yield _user_event(content)
        elif kind == "thinking" or (kind == "text" and calls):
            yield TraceEvent("thought", _content(content))
        elif kind == "text":
            yield TraceEvent("answer", _content(content))
        elif kind == "tool-call":
            yield TraceEvent("answer", value_to_text(field_of(part, "args"))) if ends else _call(part)
        elif kind == "tool-return" and not ends:
            # newer versions mark in `outcome` that a call was retried, denied or interrupted; older ones sent a retry-prompt
            yield _result(part, failed=field_of(part, "outcome", "success") != "success")
        elif kind == "retry-prompt" and name and field_of(part, "tool_call_id"):
            yield _result(part, failed=True)


def _content(content: Any) -> str:
    """Return the plain text of a content that may be text, a list of parts, or any value."""
    if content is None:
        return ""
    parts = cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()
    if parts or isinstance(content, str):
        return clean_text("\n".join(map(_part, parts or [content])))
    return value_to_text(content)


def _user_event(content: Any) -> TraceEvent:
    """Read what the user said."""
    parts = cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()
    said = [part for part in parts if media_of(part) is None]
    words = None if len(said) == len(parts) else _content(said) if said else ""
    return TraceEvent("user", _content(content), words=words)


def in_words(events: Iterator[TraceEvent]) -> list[TraceEvent]:
    """Reduce what the user says to words: an image beside them is no part of a task's text.

    Examples:
        >>> picture = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        >>> talk = [{"role": "user", "content": [picture, {"type": "text", "text": "What is this?"}]}]
        >>> [event.text for event in in_words(events_of(talk))]
        ['What is this?']
    """
    return [event if event.words is None else replace(event, text=event.words) for event in events]


def media_of(part: Any) -> str | None:
    """Return the type of a part of a content that is an image, a sound or a file: `media_of({"type": "image_url"})`; else
    None."""
    if isinstance(part, str) or field_of(part, "text") is not None:
        return None
    kind = str(field_of(part, "type") or field_of(part, "kind") or type(part).__name__)
    media = any(word in kind.lower() for word in ("image", "audio", "video", "file", "document", "binary", "url"))
    return kind if media else None


def _part(part: Any) -> str:
    """Read a part of a content: its text, or the name of what is none."""
    if isinstance(part, str):
        return part
    if (text := field_of(part, "text")) is not None:
        return str(text)
    kind = media_of(part)
    return f"[{kind}]" if kind is not None else value_to_text(part)
