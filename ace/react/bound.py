"""The JSON Schema that binds a reply: the name of a tool, then its arguments by that tool's own schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ace.tools import Tool


def response_format(tools: Sequence[Tool]) -> dict[str, Any]:
    """Return a request's `response_format` for a reply that calls one of some tools.

    Definitions of the tools' schemas move to the root, under names that no two tools share.

    Examples:
        >>> from ace.tools import calculator
        >>> response_format([calculator])["json_schema"]["schema"]["anyOf"][0]["properties"]["name"]
        {'const': 'calculator'}
    """
    calls: list[Any] = []
    known: dict[str, Any] = {}
    for number, tool in enumerate(tools):
        schema = dict(tool.schema)
        for place in ("$defs", "definitions"):
            for name, part in cast("Mapping[str, Any]", schema.pop(place, {})).items():
                known[f"{number}-{name}"] = _moved(part, number)
        own = {"name": {"const": tool.name}, "args": _moved({"type": "object", **schema}, number)}
        calls.append({"type": "object", "properties": own, "required": [*own], "additionalProperties": False})
    schema = {"anyOf": calls, **({"$defs": known} if known else {})}
    return {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}


def _moved(part: Any, number: int) -> Any:
    """Lead the references of a schema to where the definitions of its tool went."""
    if isinstance(part, list):
        return [_moved(one, number) for one in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    moved = {name: _moved(value, number) for name, value in cast("dict[str, Any]", part).items()}
    place, _, name = str(moved.get("$ref", "")).rpartition("/")
    if place in ("#/$defs", "#/definitions"):
        moved["$ref"] = f"#/$defs/{number}-{name}"
    return moved
