"""From the arguments of a call to a `TaskInput` that fits the signature."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ace.core import CancellationToken, SignatureError, UsageLimits, clean_value
from ace.tasks import TaskInput

_TASK_OPTIONS = ("task_id", "domain", "tenant", "max_iters")


@dataclass(frozen=True)
class RunOptions:
    """What holds for one call alone."""

    lm: Any = None
    limits: UsageLimits | None = None
    cancellation: CancellationToken | None = None
    run_id: str = ""

    @classmethod
    def pop(cls, fields: dict[str, Any], signature_fields: Iterable[str]) -> RunOptions:
        """Take the options out of a call's keywords; a field of the signature with such a name stays."""
        names = {name for name in cls.__dataclass_fields__ if name in fields} - set(signature_fields)
        taken = {name: fields.pop(name) for name in names}
        return cls(**{name: value for name, value in taken.items() if value is not None})


def task_input(task: TaskInput | str | None, fields: dict[str, Any], names: tuple[str, ...]) -> TaskInput:
    """What the caller passed, as a `TaskInput` whose inputs are those of the signature.

    Args:
        task: A `TaskInput`, or the text of the only input field.
        fields: The call's keywords: input fields, and `task_id`, `domain`, `tenant`, `max_iters`.
        names: The signature's input fields.

    Raises:
        SignatureError: A field is missing, unknown, or nested too deeply.
    """
    if isinstance(task, TaskInput):
        if fields:
            raise SignatureError(f"pass a TaskInput or fields, not both; got also {sorted(fields)}")
        given = task
    else:
        options = {name: fields.pop(name) for name in _TASK_OPTIONS if name in fields and name not in names}
        if task is not None:
            if len(names) != 1:
                raise SignatureError(f"the signature has the inputs {list(names)}; pass them by name")
            fields = {names[0]: task, **fields}
        try:
            given = TaskInput(inputs=fields, **{k: v for k, v in options.items() if v is not None})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise SignatureError(f"{problem['loc'][0]}: {problem['msg']}, got {problem['input']!r}") from error
    if set(given.inputs) != set(names):
        raise SignatureError(f"expected the input fields {sorted(names)}, got {sorted(given.inputs)}")
    try:
        return given.model_copy(update={"inputs": clean_value(given.inputs)})
    except RecursionError as error:
        raise SignatureError("an input is nested too deeply to be shown to a model") from error


def check_json(task: TaskInput) -> None:
    """A stored run has to come back as it was: its inputs must be JSON.

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
