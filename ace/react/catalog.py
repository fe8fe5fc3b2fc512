"""The tools of an agent as a model is told of them: as signatures in a prompt, or as declarations of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, cast

import dspy
from pydantic import Field

from ace.agent.history import ENDS, ends_run
from ace.core import as_data, clean_text
from ace.react.reading.reader import CallReader
from ace.react.shown_tools import ShownTools
from ace.react.signatures import signature_of
from ace.tools import Tool, ToolRegistry


class DeclaredTool(dspy.Tool):
    """A tool as the API's ``tools`` parameter declares it, with its own JSON Schema; it is never called."""

    parameters: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, tool: Tool) -> DeclaredTool:
        """Declare a tool."""
        kept = {key: value for key, value in tool.schema.items() if key in ("properties", "required", "$defs")}
        text = as_data("\n".join([tool.description, *(f"Example: {example}" for example in tool.examples)]))
        made = cast(Any, cls)(_never_called, name=tool.name, desc=text, args={}, arg_types={})
        made.parameters = {"type": "object", "properties": {}, **kept}
        return made

    def format_as_litellm_function_call(self) -> dict[str, Any]:
        """Declare it as OpenAI's API takes it."""
        declared = {"name": self.name, "description": self.desc, "parameters": self.parameters}
        return {"type": "function", "function": declared}


def _never_called(**_arguments: Any) -> None:
    """Stand in for a tool where DSPy wants one: calls go through the registry, and nothing here needs copying."""


class ToolCatalog:
    """The tools of one agent as prompts show them, rendered once.

    Args:
        registry: The tools.
        finish: Ends a run with its outputs.
        shown: Chooses the tools that a prompt shows; None where it shows all.
        extra: Tools of one run alone.
    """

    def __init__(
        self, registry: ToolRegistry, finish: Tool, shown: ShownTools | None = None, extra: tuple[Tool, ...] = ()
    ) -> None:
        self.registry = registry
        self.finish = finish
        self.shown = shown
        self._own = (*extra, finish) if shown is None else (*extra, shown.more, finish)
        self._hidden: frozenset[str] = frozenset()
        self._text: tuple[tuple[str, ...], str] = ((), "")
        self._declared: dict[str, DeclaredTool] = {}
        schemas = {tool.name: tool.schema for tool in (*registry, *self._own)}
        self.reader = CallReader({**schemas, **dict.fromkeys(sorted(ENDS, reverse=True), finish.schema)})
        """Reads the calls in replies."""

    def only_reads(self, name: Any) -> bool:
        """Check whether a tool of that name changes nothing; to end a run changes nothing either."""
        own = ends_run(name) or any(name == tool.name for tool in self._own)
        return own or (self.reader.has(name) and self.registry.get(name).read_only)

    def with_plan(self, plan: Tool | None) -> ToolCatalog:
        """Return the catalog of a run that is offered a plan."""
        return self if plan is None else ToolCatalog(self.registry, self.finish, self.shown, (plan,))

    def for_run(self, request: str, lessons: str) -> ToolCatalog:
        """Return the catalog as a run's prompts show it."""
        if self.shown is None:
            return self
        chosen = copy(self)
        chosen._hidden = frozenset(self.registry.names) - frozenset(self.shown.for_run(request, lessons))
        chosen._text = ((), "")
        return chosen

    def tools(self, asked_for: Iterable[str] = ()) -> list[Tool]:
        """Return the tools that are shown, those of the run-time last.

        Args:
            asked_for: What the model has asked `more_tools` for.
        """
        found = {name for what in asked_for if self.shown is not None for name in self.shown.nearest(what)}
        hidden = self._hidden - found
        return [*(tool for tool in self.registry if tool.name not in hidden), *self._own]

    def described(self, descriptions: Mapping[str, str]) -> ToolCatalog:
        """Return the same tools with other descriptions."""
        tools = [replace(tool, description=descriptions.get(tool.name, tool.description)) for tool in self.registry]
        return ToolCatalog(ToolRegistry(tools), self.finish, self.shown)

    def text(self) -> str:
        """Write it as an input of the first turn: one signature per tool. It stays as it is for the whole run."""
        if self._text[0] != self.registry.names or not self._text[1]:
            lines = "\n".join(map(signature_of, self.tools()))
            self._text = (self.registry.names, as_data(clean_text(lines)))
        return self._text[1]

    def declared(self, excluded: tuple[str, ...] = (), asked_for: Iterable[str] = ()) -> list[DeclaredTool]:
        """Declare the tools for the API's parameter, without those that are out of service."""
        tools = [tool for tool in self.tools(asked_for) if tool.name not in excluded]
        for tool in tools:
            if tool.name not in self._declared:
                self._declared[tool.name] = DeclaredTool.of(tool)
        return [self._declared[tool.name] for tool in tools]
