"""`ReActPrediction`: what a `ReActGenerator` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import dspy

from ace.agent.history import CALLS, RESULTS, SoFar
from ace.core import value_to_text
from ace.core.text import counted
from ace.tasks import TaskOutput


class ReActPrediction(dspy.Prediction):
    """The signature's outputs of `agent.forward("x")`, plus `.output`, a `TaskOutput` that unknown names fall through to.

    `history` is the conversation with this run, a `dspy.History` as DSPy's ReAct gives it; `trajectory` and `reasoning` are
    views of the run as the old `dspy.ReAct` gave them, for one release. The signature's fields win; `keys()`, `toDict()` and
    saved demos hold them alone.
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)  # pyright: ignore[reportUnknownMemberType]
        self._details: dict[str, Any] = {}

    @classmethod
    def of(
        cls, output: TaskOutput, fields: Iterable[str], shown: Any, told: Mapping[str, Any] | None = None
    ) -> ReActPrediction:
        """Make the prediction of a run.

        Args:
            output: The run.
            fields: Names of the signature's outputs.
            shown: What `Agent.format_result` made of the output: `formatted`, and what ``str()`` gives.
            told: `trajectory`, `reasoning` and `history`.
        """
        prediction = cls(**{name: output.outputs.get(name) for name in fields})
        prediction._details = {**(told or {}), "output": output, "formatted": shown}
        return prediction

    def __str__(self) -> str:
        shown = self._details.get("formatted")
        return super().__str__() if shown is self._details.get("output") else value_to_text(shown)

    def __repr__(self) -> str:
        own: dict[str, Any] = self.__dict__["_store"]
        shown = ", ".join(f"{name}={value!r}" for name, value in own.items())
        run = self.__dict__.get("_details", {}).get("output")
        ended = "" if run is None else f"; {run.termination_reason} after {counted(len(run.structured_trace), 'call')}"
        return f"{type(self).__name__}({shown}{ended})"

    def _repr_markdown_(self) -> str:
        run = self.__dict__.get("_details", {}).get("output")
        return repr(self) if run is None else run._repr_markdown_()

    def copy(self, **fields: Any) -> ReActPrediction:
        """Copy it with other fields; the run behind it stays."""
        own: dict[str, Any] = self.__dict__["_store"]
        copied = type(self)(**{**own, **fields})
        copied._details = self._details
        return copied

    def __getattr__(self, name: str) -> Any:
        own, told = self.__dict__.get("_store", {}), self.__dict__.get("_details", {})
        if name in own:
            return own[name]
        if name in told:
            return as_history(told[name]) if isinstance(told[name], SoFar) else told[name]
        if "output" in told and (name in TaskOutput.model_fields or name in _PROPERTIES):
            return getattr(told["output"], name)  # fall through to the run behind it
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getitem__(self, key: str) -> Any:
        told: dict[str, Any] = self.__dict__.get("_details", {})
        own: dict[str, Any] = self.__dict__["_store"]
        return getattr(self, key) if key in told and key not in own else super().__getitem__(key)  # pyright: ignore


def as_history(so_far: SoFar) -> dspy.History:
    """Return a conversation as DSPy's ReAct gives it, with its calls as `dspy.ToolCalls`."""
    return dspy.History(messages=[_turn(entry) for entry in so_far.entries()])


def _turn(entry: Mapping[str, Any]) -> dict[str, Any]:
    held = entry.get(CALLS)
    if not isinstance(held, Mapping):
        return dict(entry)
    fields = cast("Mapping[str, Any]", held)
    calls = dspy.ToolCalls(tool_calls=[dspy.ToolCalls.ToolCall(**call) for call in fields[CALLS]])
    results = dspy.ToolCallResults.model_validate(fields.get(RESULTS) or [])
    return {**entry, CALLS: calls.model_copy(update={RESULTS: results})}


_PROPERTIES = frozenset({"completed", "tool_usage", "reasoning_trace", "trace"})
