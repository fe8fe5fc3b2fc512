"""What the peers' agents share: tools and a model that live in the process that asked, behind JSON lines."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class Driver:
    """The process that asked: it executes tools and is the model."""

    def __init__(self) -> None:
        self._out, sys.stdout = sys.stdout, sys.stderr  # stray prints must not stand between the lines

    def say(self, value: dict[str, Any]) -> None:
        """Say one line."""
        print(json.dumps(value), file=self._out, flush=True)

    def ask(self, value: dict[str, Any]) -> dict[str, Any]:
        """Send one line, and read one line back."""
        self.say(value)
        return json.loads(sys.stdin.readline())

    def function(self, tool: dict[str, Any]) -> Callable[..., Any]:
        """Make a tool an annotated function, as users of the framework would write it; its body runs there."""

        def call(**arguments: Any) -> str:
            return self.ask({"call": tool["name"], "args": arguments})["observation"]

        schema = tool["schema"]
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=part.get("default", inspect.Parameter.empty),
                annotation=TYPES[part["type"]],
            )
            for name, part in schema.get("properties", {}).items()
        ]
        call.__name__ = tool["name"]
        call.__doc__ = tool["description"]
        call.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": str}
        return call

    def serve(self, versions: dict[str, str], solve: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer requests until stdin ends; what a framework raises is an answer too."""
        self.say({"ready": True, "versions": versions})
        for line in sys.stdin:
            try:
                answer = solve(json.loads(line))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            self.say({"done": True, **answer})
