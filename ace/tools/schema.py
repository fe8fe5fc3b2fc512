"""From a Python signature to a pydantic model of the arguments, and to the JSON Schema that the model reads."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import typing
from collections.abc import Callable
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError

from ace.core import ToolContext, ToolRegistrationError

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, populate_by_name=False)


def args_model(name: str, func: Callable[..., Any]) -> tuple[type[BaseModel], tuple[str, ...], str | None]:
    """Build the model that validates a call of `func` as a whole, the names of its parameters, and its context's name.

    A parameter annotated ``ToolContext`` is filled in by the run-time and no part of the model.

    Fields are called ``p0, p1 ...`` with the parameter's name as alias, so that a parameter may be called ``json`` or
    ``schema`` without clashing with pydantic.

    Raises:
        ToolRegistrationError: A parameter has no annotation, is ``*args``, ``**kwargs`` or positional-only, or its
            type has no JSON Schema.
    """
    try:
        hints = typing.get_type_hints(_annotated(func), include_extras=True)
        parameters = inspect.signature(func).parameters
    except (NameError, SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise ToolRegistrationError(
            f"tool {name!r}: its signature cannot be read ({error}); annotate each parameter with a type that is imported "
            "at module level"
        ) from error
    fields: dict[str, Any] = {}
    context = next((parameter for parameter in parameters if is_context(hints.get(parameter))), None)
    shown = {parameter: spec for parameter, spec in parameters.items() if parameter != context}
    for index, (parameter, spec) in enumerate(shown.items()):
        if spec.kind not in (spec.POSITIONAL_OR_KEYWORD, spec.KEYWORD_ONLY):
            raise ToolRegistrationError(
                f"tool {name!r}: parameter {parameter!r} is {spec.kind.description}; a model can only give named "
                "arguments, so declare each one by name"
            )
        if parameter not in hints:
            raise ToolRegistrationError(
                f"tool {name!r}: parameter {parameter!r} has no type annotation; write for example `{parameter}: str`"
            )
        default = ... if spec.default is spec.empty else spec.default
        fields[f"p{index}"] = (hints[parameter], Field(default, alias=parameter))
    try:
        model = create_model(f"{name}_args", __config__=_CONFIG, **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        raise ToolRegistrationError(
            f"tool {name!r}: a parameter's type cannot be shown to a model as JSON Schema ({error.message}); use plain "
            "types, dataclasses or pydantic models"
        ) from error
    return model, tuple(shown), context


def is_context(hint: Any) -> bool:
    """Whether an annotation is `ToolContext`, optional or not."""
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def context_parameter(func: Callable[..., Any]) -> str | None:
    """The parameter of `func` that is annotated ``ToolContext``, if there is one."""
    try:
        hints = typing.get_type_hints(_annotated(func))
    except (NameError, TypeError, AttributeError):
        return None
    return next((name for name, hint in hints.items() if name != "return" and is_context(hint)), None)


def _annotated(func: Callable[..., Any]) -> Any:
    """The function that carries the annotations: behind a partial, or the ``__call__`` of an object."""
    if isinstance(func, functools.partial):
        return _annotated(cast(Callable[..., Any], func.func))
    return func if inspect.isroutine(func) else type(func).__call__


def tidy_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema without the titles that pydantic adds: they only cost tokens."""
    return cast(dict[str, Any], _without_titles(model.model_json_schema(by_alias=True)))


def _without_titles(node: Any, named: bool = False) -> Any:
    """Drop "title" keys, but not a property that is itself called "title" (`named` marks a map of properties)."""
    if isinstance(node, dict):
        items = cast(dict[str, Any], node).items()
        return {
            key: _without_titles(value, named=not named and key in ("properties", "$defs"))
            for key, value in items
            if named or key != "title"
        }
    if isinstance(node, list):
        return [_without_titles(value) for value in cast(list[Any], node)]
    return node


def schema_hash(name: str, schema: dict[str, Any]) -> str:
    """A short stable hash of a tool's interface; a bullet names the hashes of the tools it mentions."""
    text = json.dumps([name, schema], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
