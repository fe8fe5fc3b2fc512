"""Replies with native tool calls, and texts in their place."""

from __future__ import annotations

import json
from typing import Any

from ace.agent import ModelReply, RequestedTool
from ace.agent.history import SUBMIT
from ace.core import InvalidModelAction, RunUsage, ToolErrorKind, truncate
from ace.react.adapter import ReplyReader, made_together, nothing_to_do
from ace.react.catalog import ToolCatalog
from ace.react.reading.objects import is_object
from ace.react.reading.reader import speaks
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


def cut_short(ended: str) -> ToolErrorKind | None:
    """The kind of error of a reply that ended so, where that was not the model's own doing."""
    return next((kind for kind in CUT_SHORT if kind == ended), None)


def read_reply(prediction: Any, catalog: ToolCatalog, replies: ReplyReader, usage: RunUsage, ended: str) -> ModelReply:
    """A native reply as a decision; without calls, a text that the model finished by itself is the answer.

    Args:
        prediction: The thought and the calls, as DSPy has read them.
        catalog: The tools, and the reader for calls that were written as text.
        replies: The text of the reply, and what of the prompt others wrote.
        usage: What the reply cost.
        ended: Why it ended.

    Raises:
        InvalidModelAction: Nothing can be made of it; the raw reply is part of the error.
    """
    thought = getattr(prediction, "next_thought", None)
    text = replies.text or str(getattr(thought, "content", thought) or "")
    calls: list[Any] = getattr(getattr(prediction, "tool_calls", None), "tool_calls", None) or []
    if calls:
        first, *more = [_requested(call, catalog) for call in calls]
        raw = json.dumps([call.model_dump() for call in calls], default=str)
        return ModelReply(text, first.name, first.args, first.id, tuple(more), usage=usage, raw=raw)
    if (cut := cut_short(ended)) is not None:
        raise InvalidModelAction(cut, CUT_SHORT[cut], raw_response=text)
    found = catalog.reader.read(text, replies.shown)
    known = [call for call in found.calls if catalog.reader.knows(call)]
    if known:
        if speaks(text, known) and not all(catalog.only_reads(call.name) for call in known):
            raise InvalidModelAction("unparsable", IN_PROSE, raw_response=text)
        made = made_together(text, known, catalog.only_reads, replies.shown)
        first, *more = [RequestedTool(call.name, call.args) for call in made]
        return ModelReply(found.thought, first.name, first.args, more=tuple(more), usage=usage, raw=text)
    if found.cut and catalog.reader.mentions(text):
        raise nothing_to_do(found, text)
    return ModelReply("", SUBMIT, _answer(text, catalog.finish), usage=usage, raw=text)


def _requested(call: Any, catalog: ToolCatalog) -> RequestedTool:
    """One call as the provider sent it, its names as in text; what DSPy wraps broken arguments in is taken off."""
    tools = catalog.reader.tools
    name, args = tools.name(call.name), call.args
    own = tools.properties(name)
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
    return RequestedTool(name, tools.arguments(name, args), call.id or "")


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
