"""How two values of one field become one; a field without a reducer keeps the last value that was written.

Use them in a state's annotations: ``steps: Annotated[list[str], append]``. LangGraph applies what several nodes wrote in
one step in the order of the nodes, not in the order in which they finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")


def append(old: list[T] | None, new: list[T] | tuple[T, ...] | T) -> list[T]:
    """Make a longer list: a list or a tuple is added item by item, anything else is one item.

    Examples:
        >>> append([1], [2, 3]), append([1], 2), append(None, [1])
        ([1, 2, 3], [1, 2], [1])
    """
    items = list(cast("list[T]", new)) if isinstance(new, (list, tuple)) else [new]
    return [*(old or []), *items]


def merge_map(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both maps; where both have a key, the newer value.

    Examples:
        >>> merge_map({"a": 1, "b": 1}, {"b": 2})
        {'a': 1, 'b': 2}
    """
    return {**(old or {}), **new}


def counter(old: int | None, new: int) -> int:
    """Return the sum.

    Examples:
        >>> counter(2, 3)
        5
    """
    return (old or 0) + new


def override(old: Any, new: Any) -> Any:
    """Return the newer value: unlike without a reducer, several nodes may write in one step, and the last one wins.

    Examples:
        >>> override("a", "b")
        'b'
    """
    return new
