"""Replies with native tool calls, and texts in their place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from ace.agent import ModelReply, RequestedTool
from ace.agent.history import SUBMIT
from ace.core import InvalidModelAction, RunUsage, ToolErrorKind, truncate
from ace.react.adapter import ReplyReader, nothing_to_do
from ace.react.reading.objects import is_object
from ace.react.reading.reader import CallReader, speaks
from ace.tools import Tool

CUT_SHORT: dict[ToolErrorKind, str] = {
    "length": f"The reply was cut off at the model's limit of tokens. Write less, and call a tool or `{SUBMIT}`.",
    "content_filter": f"The reply was stopped by a content filter. Call a tool, or `{SUBMIT}` with what can be said.",
    "error": f"The reply ended with an error of the model's provider. Call a tool, or `{SUBMIT}` with the outputs.",
}
"""Ends of a reply that are not the model's own doing, and what the model is told."""
IN_PROSE = (
    "The reply writes a call inside a text, and nothing was made. If it is to be made, call the tool; if the text is the "
    f"answer, call `{SUBMIT}` with it."
)


def cut_short(ended: str, reply: str | None) -> InvalidModelAction | None:
    """Make the error of a reply that ended so; None where that was the model's own doing."""
    kind = cast(ToolErrorKind, ended)
    return InvalidModelAction(kind, CUT_SHORT[kind], raw_response=reply) if kind in CUT_SHORT else None


def thought_of(prediction: Any) -> str:
    """Return what the model said before its calls: `thought_of(dspy.Prediction(next_thought="look"))`."""
    thought = getattr(prediction, "next_thought", None)
    return str(getattr(thought, "content", thought) or "")


def decision(thought: str, calls: Sequence[RequestedTool], usage: RunUsage, raw: str) -> ModelReply:
    """Make the reply that asks for calls, `decision("look", [RequestedTool("look_up", {"key": "a"})], RunUsage(),
    "...")`."""
    first, *more = calls
    return ModelReply(thought, first.name, first.args, first.id, tuple(more), usage=usage, raw=raw)


def read_reply(prediction: Any, replies: ReplyReader, usage: RunUsage, ended: str) -> ModelReply:
    """Read a native reply as a decision; without calls, a text that the model finished by itself is the answer.

    Args:
        prediction: The thought and the calls, as DSPy has read them.
        replies: The text of the reply, the tools, and what of the prompt others wrote.
        usage: What the reply cost.
        ended: Why it ended.

    Raises:
        InvalidModelAction: Nothing can be made of it; the raw reply is part of the error.
    """
    catalog, text = replies.catalog, replies.text or thought_of(prediction)
    calls: list[Any] = getattr(getattr(prediction, "tool_calls", None), "tool_calls", None) or []
    if calls:
        asked = [_requested(call, catalog.reader) for call in calls]
        return decision(text, asked, usage, json.dumps([call.model_dump() for call in calls], default=str))
    if (cut := cut_short(ended, text)) is not None:
        raise cut
    found = catalog.reader.read(text, replies.shown)
    known = [call for call in found.calls if catalog.reader.knows(call)]
    if known:
        if speaks(text, known) and not all(catalog.only_reads(call.name) for call in known):
            raise InvalidModelAction("unparsable", IN_PROSE, raw_response=text)
        asked = [RequestedTool(call.name, call.args) for call in replies.together(text, known)]
        return decision(found.thought, asked, usage, text)
    if found.cut and any(name in text for name in catalog.reader.schemas):
        raise nothing_to_do(found, text)
    return ModelReply("", SUBMIT, _answer(text, catalog.finish), usage=usage, raw=text)


def _requested(call: Any, reader: CallReader) -> RequestedTool:
    """Read one call as the provider sent it, its names as in text; what DSPy wraps broken arguments in is taken off."""
    name, args = reader.name(call.name), call.args
    own = reader.properties(name)
    if is_object(args) and len(args) == 1:
        if "partial_json" in args and "partial_json" not in own:
            raise InvalidModelAction(
                "unparsable",
                f"The arguments of {name} are no JSON: {truncate(str(args['partial_json']), 100)!r}. Write a JSON object.",
                tool_name=name,
                received_args=args["partial_json"],
                raw_response=json.dumps(call.model_dump(), default=str),
            )
        if "value" in args and "value" not in own and not isinstance(args["value"], dict):
            return RequestedTool(name, args["value"], call.id or "")
    return RequestedTool(name, reader.arguments(name, args), call.id or "")


def _answer(text: str, finish: Tool) -> dict[str, Any]:
    fields = [name for name in finish.parameters if name != "cited_bullets"]
    if not text.strip():
        raise InvalidModelAction(
            "empty", f"The reply was empty. Call a tool, or `{SUBMIT}` with the outputs.", raw_response=text
        )
    if len(fields) == 1 and finish.schema["properties"][fields[0]].get("type") == "string":
        return {fields[0]: text.strip()}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidModelAction(
            "unparsable",
            f"The reply calls no tool and is no JSON with {', '.join(fields)}. Call `{SUBMIT}` with them.",
            raw_response=text,
        ) from error
    return value if is_object(value) else {fields[0]: value}
