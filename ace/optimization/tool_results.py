"""Results of tools in the journal: a call that was made is not made again when a job goes on after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic import BaseModel

from ace.core import ToolError, value_to_text
from ace.optimization.journal import CompletionJournal
from ace.tools import Tool, ToolRegistry


class ToolResults:
    """Tools whose results are kept in a journal.

    A call is known by the inputs of its run, by how many runs had those inputs before, and by how often this run made the
    same call before. What JSON cannot hold, errors that are no `ToolError`, and tools in processes of their own are not
    written down: such a call is made again.

    Args:
        tools: The tools.
        journal: Where results are kept.

    Examples:
        >>> from ace.tools import calculator
        >>> results = ToolResults(ToolRegistry([calculator]), CompletionJournal(getfixture("tmp_path") / "journal.jsonl"))
        >>> results.for_run({"task": "What is 6 times 7?"}).get("calculator").func(expression="6 * 7")
        42
    """

    def __init__(self, tools: ToolRegistry, journal: CompletionJournal) -> None:
        self.tools = tools
        self.journal = journal
        self._runs: Counter[str] = Counter()
        self._lock = Lock()

    def for_run(self, inputs: Mapping[str, Any]) -> ToolRegistry:
        """The tools, for the next run with these inputs."""
        name = _digest(dict(inputs))
        with self._lock:
            self._runs[name] += 1
            run = _Run(f"tool/{name}/{self._runs[name]}", self.journal)
        return ToolRegistry(tool if tool.isolation == "process" else run.bound(tool) for tool in self.tools)


class _Run:
    """One run's calls."""

    def __init__(self, prefix: str, journal: CompletionJournal) -> None:
        self.prefix = prefix
        self.journal = journal
        self._calls: Counter[str] = Counter()
        self._lock = Lock()

    def bound(self, tool: Tool) -> Tool:
        """The same tool, whose results are written down."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._slot(tool, args, kwargs) as slot:
                if not slot.known:
                    slot.value = tool.func(*args, **kwargs)
            return slot.value

        async def acall(*args: Any, **kwargs: Any) -> Any:
            with self._slot(tool, args, kwargs) as slot:
                if not slot.known:
                    slot.value = await tool.func(*args, **kwargs)
            return slot.value

        return tool.bind(acall if tool.is_async else call)

    @contextmanager
    def _slot(self, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Generator[_Slot]:
        """The recorded result of a call, or where to put the new one."""
        shown = [arg.model_dump(mode="json") if isinstance(arg, BaseModel) else arg for arg in args]
        call = _digest([tool.name, shown, {name: value for name, value in kwargs.items() if name != tool.context}])
        with self._lock:
            self._calls[call] += 1
            key = f"{self.prefix}/{call}/{self._calls[call]}"
        if key in self.journal:
            yield _Slot(_replayed(self.journal.answer(key, dict, counted=False)), known=True)
            return
        slot = _Slot()
        try:
            yield slot
        except ToolError as error:
            self._keep(key, {"error": error.message, "kind": error.kind, "model_message": error.model_message})
            raise
        self._keep(key, {"value": slot.value})

    def _keep(self, key: str, entry: dict[str, Any]) -> None:
        if _is_json(entry):
            self.journal.answer(key, lambda: entry, counted=False)


@dataclass
class _Slot:
    value: Any = None
    known: bool = False


def _replayed(entry: Mapping[str, Any]) -> Any:
    if "error" in entry:
        raise ToolError(entry["kind"], entry["error"], entry["model_message"])
    return entry["value"]


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError, RecursionError):
        return False


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=value_to_text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
