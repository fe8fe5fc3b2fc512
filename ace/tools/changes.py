"""What has changed between the tools at learning time and the tools now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ace.tools.registry import ToolRegistry

Described = Mapping[str, Mapping[str, Any]]
"""Tool name to its `description` and JSON `schema`."""


def describe_tools(registry: ToolRegistry) -> dict[str, dict[str, Any]]:
    """Describe the tools as plain JSON, to compare with later."""
    return {tool.name: {"description": tool.description, "schema": tool.schema} for tool in registry}


def tool_changes(before: Described, after: Described) -> dict[str, list[str]]:
    """Say what is different, in words, by tool; tools that are as they were are left out.

    Args:
        before: From `describe_tools` then.
        after: From `describe_tools` now.

    Examples:
        >>> def find(name: str) -> str:
        ...     "Find somebody."
        ...     return name
        >>> then = describe_tools(ToolRegistry([find]))
        >>> def find(name: str, limit: int) -> str:
        ...     "Find somebody."
        ...     return name
        >>> tool_changes(then, describe_tools(ToolRegistry([find])))
        {'find': ["argument 'limit' is new and required"]}
    """
    found = {name: ["is gone"] for name in before if name not in after}
    found |= {name: ["is new"] for name in after if name not in before}
    for name in before.keys() & after.keys():
        changes = _arguments(before[name]["schema"], after[name]["schema"])
        if before[name]["description"] != after[name]["description"]:
            changes.append("has another description")
        if changes:
            found[name] = changes
    return dict(sorted(found.items()))


def interface_changed(changes: list[str]) -> bool:
    """Check whether more than a description is different."""
    return any(change != "has another description" for change in changes)


def _arguments(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = before.get("properties", {}), after.get("properties", {})
    was, now = set(before.get("required", ())), set(after.get("required", ()))
    changes = [f"argument {name!r} is gone" for name in old if name not in new]
    for name, shape in new.items():
        if name not in old:
            changes.append(f"argument {name!r} is new{' and required' if name in now else ''}")
            continue
        if old[name] != shape:
            changes.append(f"argument {name!r} was {_shape(old[name])} and is {_shape(shape)}")
        if (name in was) != (name in now):
            changes.append(f"argument {name!r} is {'required now' if name in now else 'no longer required'}")
    if not changes and before != after:
        changes.append("has another schema")
    return changes


def _shape(schema: Any) -> str:
    return json.dumps(schema, sort_keys=True, ensure_ascii=False)
