"""What a failed call lacks: where the id that it was given can be found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ace.tasks import ReasoningStep
from ace.tools import ToolRegistry

_ID = re.compile(r"(\w+?)(?:_id|_ID|Id|ID)")
SHOWN = 3
"""Of the ids that were found, and of the tools that find some, so many are named."""
LONGEST = 60
"""Characters of an id; a longer text is none."""


def where_to_find(args: Mapping[str, Any], tools: ToolRegistry, steps: Sequence[ReasoningStep]) -> str:
    """Say where the ids of a failed call come from: earlier results, or else the tools that find such things.

    Empty where every id stands in a result already, or nothing is known of it.

    Examples:
        >>> from ace.tools import Tool
        >>> def find_orders(customer: str) -> str:
        ...     "Find a customer's orders."
        ...     return ""
        >>> finder = Tool.from_function(find_orders, read_only=True)
        >>> where_to_find({"order_id": "12345"}, ToolRegistry([finder]), [])
        '(Look `order_id` up with find_orders first.)'
    """
    found: list[str] = []
    well = [step for step in steps if step.outcome == "success"]
    for argument, value in args.items():
        if not isinstance(value, str) or (kind := _ID.fullmatch(argument)) is None:
            continue
        given = list(dict.fromkeys(one for step in well for one in _under(argument, step)))
        if value in given:
            continue
        noun = kind[1].lower()
        finders = [
            tool.name
            for tool in tools
            if tool.read_only and argument not in tool.parameters and noun in tool.name.lower()
        ]
        if given:
            found.append(f"`{argument}` in the results above: {', '.join(map(repr, given[-SHOWN:]))}.")
        elif finders:
            found.append(f"Look `{argument}` up with {' or '.join(finders[:SHOWN])} first.")
    return f"({' '.join(found)})" if found else ""


def ids_in(args: Any) -> list[str]:
    """Return the ids among arguments: `ids_in({"order_id": "o-1", "status": "open"})` is `["o-1"]`."""
    named = cast("dict[str, Any]", args) if isinstance(args, dict) else {}
    return [value for name, value in named.items() if isinstance(value, str) and _ID.fullmatch(name)]


def _under(key: str, step: ReasoningStep) -> Iterator[str]:
    """Yield the texts under a key in a result that is JSON."""
    try:  # a remark of the run-time may follow
        waiting: list[Any] = [json.JSONDecoder().raw_decode(step.result)[0]]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(cast("list[Any]", value))
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            waiting += reversed(list(fields.values()))
            if isinstance(one := fields.get(key), str) and len(one) <= LONGEST:
                yield one
