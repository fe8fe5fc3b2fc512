"""The tools of one agent, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ace.core import ToolRegistrationError
from ace.tools.tool import Tool, TypedTool

RESERVED_NAMES = frozenset({"finish", "submit", "more_tools"})
"""What a model calls to end a run, and to be shown other tools."""


class ToolRegistry:
    """An ordered set of tools with unique names.

    Examples:
        >>> def now() -> str:
        ...     "The time."
        ...     return "noon"
        >>> registry = ToolRegistry([now])
        >>> registry.names, registry.has("later")
        (('now',), False)
    """

    def __init__(self, tools: Iterable[Tool | TypedTool[Any, Any] | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for source in tools:
            self.register(source)

    def __repr__(self) -> str:
        return f"<ToolRegistry: {', '.join(self._tools) or 'no tools'}>"

    def register(self, source: Tool | TypedTool[Any, Any] | Callable[..., Any]) -> Tool:
        """Add a tool.

        Raises:
            ToolRegistrationError: The name is taken or reserved, or the source cannot become a tool.
        """
        tool = Tool.of(source)
        if tool.name in RESERVED_NAMES:
            raise ToolRegistrationError(f"tool name {tool.name!r} is reserved; choose another name")
        if not tool.name.strip() or any(ch.isspace() for ch in tool.name):
            raise ToolRegistrationError(f"tool name {tool.name!r} is empty or holds white space; use for example a_b")
        if tool.name in self._tools:
            raise ToolRegistrationError(
                f"two tools are called {tool.name!r}; rename one with Tool.from_function(f, name=...), or give those of a "
                "server a prefix with McpServer.tools(prefix=...)"
            )
        self._tools[tool.name] = tool
        return tool

    def extended(self, *own: Tool) -> ToolRegistry:
        """Return these tools and some of the library's own, whose names are reserved."""
        extended = ToolRegistry()
        extended._tools = {**self._tools, **{tool.name: tool for tool in own}}
        return extended

    def get(self, name: str) -> Tool:
        """Return the tool of that name.

        Raises:
            KeyError: There is none; the message names the nearest ones.
        """
        if name not in self._tools:
            raise KeyError(f"no tool {name!r}; nearest: {self.near(name)}")
        return self._tools[name]

    def has(self, name: str) -> bool:
        """Check whether there is a tool of that name."""
        return name in self._tools

    def list(self, category: str | None = None) -> tuple[Tool, ...]:
        """Return all tools in order of registration, or those of one category."""
        return tuple(t for t in self._tools.values() if category is None or t.category == category)

    def near(self, name: str, n: int = 3) -> tuple[str, ...]:
        """Find names that resemble `name`, best first; a shared last part counts (``search`` is near ``mail.search``)."""
        last = name.rsplit(".", 1)[-1].lower()
        shared = [t for t in self._tools if t.rsplit(".", 1)[-1].lower() == last]
        close = difflib.get_close_matches(name, self._tools, n=n, cutoff=0.5)
        return tuple(dict.fromkeys([*shared, *close]))[:n]

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order of registration."""
        return tuple(self._tools)

    @property
    def schema_hashes(self) -> dict[str, str]:
        """Each tool's schema hash."""
        return {name: tool.schema_hash for name, tool in self._tools.items()}

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """What learning from a run has to know of its tools: description, JSON Schemas, schema hash."""
        return {
            name: {
                "description": tool.description,
                "parameters": tool.schema,
                "returns": tool.output_schema,
                "hash": tool.schema_hash,
                "read_only": tool.read_only,
                "trusted": tool.trusted,
            }
            for name, tool in self._tools.items()
        }

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolRegistry:
        # shared, like its tools: what they act on must not fork when an optimizer copies a program
        return self
