"""From the arguments of a call to a `TaskInput` that fits the signature."""

from __future__ import annotations

import difflib
import json
import logging
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from ace.core import CancellationToken, SignatureError, UsageLimits, clean_value
from ace.react.history import HistoryReader
from ace.react.program import history_field
from ace.tasks import TaskInput

_log = logging.getLogger(__name__)
_TASK_OPTIONS = ("task_id", "domain", "tenant", "user", "max_iters")


@dataclass(frozen=True)
class RunOptions:
    """What holds for one call alone."""

    lm: Any = None
    config: Mapping[str, Any] | None = None
    """For the model's API, as `dspy.Predict` takes it: ``{"temperature": 0.7, "rollout_id": 1}``."""
    limits: UsageLimits | None = None
    cancellation: CancellationToken | None = None
    run_id: str = ""

    @classmethod
    def pop(cls, fields: dict[str, Any], signature_fields: Iterable[str]) -> RunOptions:
        """Take the options out of a call's keywords; a field of the signature with such a name stays."""
        names = {name for name in cls.__dataclass_fields__ if name in fields} - set(signature_fields)
        taken = {name: fields.pop(name) for name in names}
        return cls(**{name: value for name, value in taken.items() if value is not None})


_OURS = ("history", *_TASK_OPTIONS, *RunOptions.__dataclass_fields__)


class InputFields:
    """The inputs of a signature, `InputFields(dspy.Signature("question -> answer"))`, and what callers pass for them."""

    def __init__(self, signature: type[dspy.Signature]) -> None:
        takes_history = history_field(signature)
        self._fields = {name: field for name, field in signature.input_fields.items() if name != takes_history}
        self._history = takes_history or "history"
        self.history = HistoryReader(list(self._fields), signature.output_fields).read
        self.names = tuple(self._fields)
        self._ignored: set[str] = set()

    def task(self, task: TaskInput | str | None, fields: dict[str, Any]) -> TaskInput:
        """Make a `TaskInput` of what the caller passed; its inputs are those of the signature.

        As in DSPy, an input that the signature does not name is ignored, with one warning, and one that has a default may be
        left out.

        Args:
            task: A `TaskInput`, or the text of the only input field.
            fields: The call's keywords: input fields, `history`, and `task_id`, `domain`, `tenant`, `user`, `max_iters`.

        Raises:
            SignatureError: A field is missing, nested too deeply, or nearly the name of an option.
        """
        if isinstance(task, TaskInput):
            if fields:
                raise SignatureError(f"pass a TaskInput or fields, not both; got also {sorted(fields)}")
            given, history = task, self.history(task.history)
        else:
            options = {name: fields.pop(name) for name in _TASK_OPTIONS if name in fields and name not in self.names}
            named = [name for name in (self._history, "history") if name in fields and name not in self.names]
            history = self.history(fields.pop(named[0]) if named else ())
            if task is not None:
                fields = {**fields, self._only(): task}
            try:
                given = TaskInput(inputs=fields, **{k: v for k, v in options.items() if v is not None})
            except ValidationError as error:
                problem = error.errors(include_url=False)[0]
                raise SignatureError(f"{problem['loc'][0]}: {problem['msg']}, got {problem['input']!r}") from error
        inputs = self._known(given.inputs) if given.inputs or not history else {}
        try:
            return given.model_copy(update={"inputs": clean_value(inputs), "history": history})
        except RecursionError as error:
            raise SignatureError("an input is nested too deeply to be shown to a model") from error

    def _only(self) -> str:
        """Name the field that a bare text is for."""
        needed = [name for name in self.names if self._needed(name)]
        if len(self.names) != 1 and len(needed) != 1:
            raise SignatureError(f"the signature has the inputs {list(self.names)}; pass them by name")
        return needed[0] if needed else self.names[0]

    def _needed(self, name: str) -> bool:
        return self._fields[name].default is PydanticUndefined and not _allows_none(self._fields[name].annotation)

    def _known(self, given: Mapping[str, Any]) -> dict[str, Any]:
        extra = [name for name in given if name not in self._fields]
        missing = [name for name in self.names if name not in given and self._needed(name)]
        for name in extra:
            if near := difflib.get_close_matches(name, [*missing, *_OURS], n=1, cutoff=0.75):
                raise SignatureError(f"there is no input {name!r}; did you mean {near[0]!r}?")
        if missing:
            raise SignatureError(
                f"expected the input fields {sorted(self.names)}, got {sorted(given)}; missing: {', '.join(missing)}"
            )
        if new := set(extra) - self._ignored:
            self._ignored |= new
            _log.warning(
                "ignored %s, which the signature does not name; its inputs are %s", sorted(new), list(self.names)
            )
        defaults = {
            name: field.default for name, field in self._fields.items() if field.default is not PydanticUndefined
        }
        return {**defaults, **{name: value for name, value in given.items() if name in self._fields}}


def _allows_none(annotation: Any) -> bool:
    return annotation is type(None) or type(None) in typing.get_args(annotation)


def check_json(task: TaskInput) -> None:
    """Check that the inputs are JSON: a stored run has to come back as it was.

    Raises:
        SignatureError: It names the input that is not.
    """
    for name, value in task.inputs.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise SignatureError(
                f"input {name!r} is no plain JSON, and run_store keeps runs as JSON; pass text or numbers"
            )
