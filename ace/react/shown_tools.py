"""Which tools a prompt shows where it does not show all: those nearest to the request, and more when the model asks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from ace.core.language import name_as_text
from ace.react.signatures import signature_of
from ace.tools import Tool, ToolRegistry

MORE = "more_tools"
"""The tool by which a model asks for tools that it was not shown."""


class ShownTools:
    """Finds the tools that fit a request by what their names and descriptions mean.

    Args:
        registry: All tools.
        count: How many a prompt shows, and how many `more_tools` adds.

    Raises:
        PlaybookError: The embedder's weights are not there.
    """

    def __init__(self, registry: ToolRegistry, count: int) -> None:
        self.registry = registry
        self.count = count
        self._vectors = _embed([f"{name_as_text(tool.name)}: {tool.description}" for tool in registry])

    def nearest(self, text: str) -> list[str]:
        """Name the tools that fit a text, best first."""
        order = (self._vectors @ _embed([text])[0]).argsort(kind="stable")[::-1]
        return [self.registry.names[index] for index in order[: self.count]]

    def for_run(self, request: str, lessons: str) -> tuple[str, ...]:
        """Name the tools that a run begins with: those nearest to its request, and those that its lessons name."""
        said = set(re.findall(r"[\w.-]+", lessons))
        shown = {*self.nearest(request), *said}
        return tuple(name for name in self.registry.names if name in shown)

    @cached_property
    def more(self) -> Tool:
        """The tool that shows others."""

        def more_tools(what: str) -> str:
            """Show more tools, for what you want to do: say it in a few words."""
            return "\n".join(signature_of(self.registry.get(name)) for name in self.nearest(what))

        return Tool.from_function(more_tools, name=MORE, read_only=True)


def _embed(texts: list[str]) -> Any:
    """Embed texts as one row of length one for each."""
    from ace.playbook.index.minilm import MiniLMEmbedder, embedded  # loads a model: only where it is asked for

    return embedded(MiniLMEmbedder(), texts)
