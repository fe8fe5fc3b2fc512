"""`ReActPrediction`: what a `ReActGenerator` returns."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dspy

from ace.agent import OutputMode
from ace.core import value_to_text
from ace.tasks import TaskOutput


class ReActPrediction(dspy.Prediction):
    """The signature's outputs, plus `.output`, a `TaskOutput` that unknown names fall through to.

    The signature's fields win; `keys()`, `toDict()` and saved demos hold them alone.
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._output = None
        self._mode = "structured"

    @classmethod
    def of(cls, output: TaskOutput, fields: Iterable[str], mode: OutputMode = "structured") -> ReActPrediction:
        """The prediction of a run."""
        prediction = cls(**{name: output.outputs.get(name) for name in fields})
        prediction._output, prediction._mode = output, mode
        return prediction

    def __str__(self) -> str:
        if self._mode == "simple" and self._output is not None:
            return value_to_text(self._output.answer)
        return super().__str__()

    def copy(self, **fields: Any) -> ReActPrediction:
        """A copy with other fields; the run behind it stays."""
        twin = type(self)(**{**self._store, **fields})
        twin._output, twin._mode = self._output, self._mode
        return twin

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_store", {}):
            return own["_store"][name]
        output = own.get("_output")
        if output is not None and not name.startswith("_"):  # fall through to the run behind it
            if name == "output":
                return output
            if name in TaskOutput.model_fields or name in _PROPERTIES:
                return getattr(output, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_PROPERTIES = frozenset({"completed", "tool_usage", "reasoning_trace"})
