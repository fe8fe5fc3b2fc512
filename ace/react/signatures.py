"""A tool as a signature: what it takes and does, in one line that a model of any size reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ace.core import value_to_text
from ace.tools import Tool

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict",
    "array": "list",
}  # fmt: skip
_SAID = frozenset({"type", "enum", "const", "default", "description", "title", "items", "anyOf", "oneOf", "properties"})
"""Keywords of a schema that a signature or the line below it says."""
MAX_FIELDS = 6
"""An object with more fields, or deeper ones, is shown by its JSON Schema."""


def signature_of(tool: Tool) -> str:
    """Write a tool as a signature with what it does, and a line for each argument that needs one.

    A JSON Schema is shown only for what a signature cannot say: bounds, patterns, nested objects.

    Examples:
        >>> from typing import Literal
        >>> def find_orders(customer: str, status: Literal["open", "shipped"] | None = None, limit: int = 10) -> str:
        ...     "Find a customer's orders."
        ...     return ""
        >>> print(signature_of(Tool.from_function(find_orders)))
        find_orders(customer: str, status: "open" | "shipped" | None = None, limit: int = 10): Find a customer's orders.
    """
    schema: Mapping[str, Any] = tool.schema
    known: Mapping[str, Any] = schema.get("$defs") or schema.get("definitions") or {}
    needed = set(schema.get("required", ()))
    shown: list[str] = []
    lines: list[str] = []
    for name, part in cast("Mapping[str, Any]", schema.get("properties", {})).items():
        part = _resolved(part, known)
        kind = _type(part, known)
        default = f" = {_literal(part['default'])}" if "default" in part else ""
        optional = "?" if name not in needed and not default else ""
        shown.append(f"{name}{optional}: {kind or 'dict'}{default}")
        beside = part if kind is None else {key: value for key, value in part.items() if key not in _SAID}
        text = " ".join(str(part.get("description", "")).split())
        rest = {key: value for key, value in beside.items() if key not in ("title", "description", "default")}
        extra = [json.dumps(rest, ensure_ascii=False, default=value_to_text)] if rest else []
        if text or extra:
            lines.append(f"  {name}: {' '.join(filter(None, [text, *extra]))}")
    lines += [f"  Example: {example}" for example in tool.examples]
    head = f"{tool.name}({', '.join(shown)}): {' '.join(tool.description.split())}"
    return "\n".join([head, *lines])


def _resolved(part: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """Look up a property's schema where it is a reference to the tool's definitions."""
    if not isinstance(part, Mapping):
        return {}
    found = cast("Mapping[str, Any]", part)
    name = str(found.get("$ref", "")).rpartition("/")[2]
    if name and isinstance(known.get(name), Mapping):
        return {**known[name], **{key: value for key, value in found.items() if key != "$ref"}}
    return found


def _type(part: Mapping[str, Any], known: Mapping[str, Any], depth: int = 0) -> str | None:
    """Write a schema as a type; None where only the schema itself says it."""
    part = _resolved(part, known)
    if "enum" in part or "const" in part:
        return " | ".join(_literal(value) for value in part.get("enum", [part.get("const")]))
    choices = part.get("anyOf") or part.get("oneOf")
    if choices:
        kinds = [_type(choice, known, depth + 1) for choice in choices]
        return None if None in kinds else " | ".join(dict.fromkeys(cast("list[str]", kinds)))
    kind = part.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(str(one), "Any") for one in cast("list[Any]", kind))
    if kind == "array" and isinstance(part.get("items"), Mapping):
        inner = _type(part["items"], known, depth + 1)
        return None if inner is None else f"list[{inner}]"
    if kind == "object" and part.get("properties"):
        return _object(part, known, depth)
    if "$ref" in part or any(key in part for key in ("allOf", "not", "if", "prefixItems")):
        return None
    return _TYPES.get(str(kind), "Any")


def _object(part: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> str | None:
    fields: Mapping[str, Any] = part["properties"]
    if depth > 1 or len(fields) > MAX_FIELDS:
        return None
    needed = set(part.get("required", ()))
    kinds = {name: _type(field, known, depth + 1) for name, field in fields.items()}
    if None in kinds.values():
        return None
    shown = (f"{name}: {kind}" if name in needed else f"{name}?: {kind}" for name, kind in kinds.items())
    return f"{{{', '.join(shown)}}}"


def _literal(value: Any) -> str:
    return "None" if value is None else json.dumps(value, ensure_ascii=False, default=value_to_text)
