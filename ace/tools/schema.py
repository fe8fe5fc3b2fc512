"""The arguments of a tool: their JSON Schema, which the model reads, and the check of a call as a whole."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator, exceptions
from jsonschema.validators import validator_for
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from ace.core import ToolContext, ToolRegistrationError, truncate, value_to_text

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, populate_by_name=False)
_DIALECTS: tuple[Any, ...] = (Draft202012Validator, Draft7Validator, Draft4Validator)
"""What a schema without ``$schema`` may be written in; the first in which it is legal."""
_deepest = cast(Any, exceptions).best_match
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}
)
"""A schema of arguments with one of these says itself what is allowed beside its `properties`."""
_SHOWN = 5
"""At most so many problems of one call are named."""


class WrongArguments(ValueError):
    """Arguments that do not fit, each one named: `WrongArguments("'key' is required and missing")`."""


class SchemaArguments:
    """Arguments that a hand-written JSON Schema describes, in its own dialect: `SchemaArguments("look_up", schema)`.

    Names that the schema does not list are refused where it says nothing of them.

    Args:
        name: The tool's name, for messages.
        schema: JSON Schema of an object.

    Raises:
        ToolRegistrationError: It is no JSON Schema of an object, or refers to what is not there.

    Examples:
        >>> SchemaArguments("look_up", {"properties": {"key": {"type": "string"}}}).check({"key": "a"})
        {'key': 'a'}
    """

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        given: Any = schema  # what is passed in practice may be anything
        whole = isinstance(given, dict) and schema.get("type", "object") == "object"
        if not whole or not isinstance(schema.get("properties", {}), dict):
            raise ToolRegistrationError(
                f"tool {name!r}: expected a JSON Schema of an object with properties, got {value_to_text(given, 200)}"
            )
        self.schema = schema
        self._listed = frozenset(cast("dict[str, Any]", schema.get("properties", {})))
        self._validator = _validator(name, schema)

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validate a call's arguments as a whole, `arguments.check({"key": "a"})`; the keyword arguments for the function.

        Raises:
            WrongArguments: They do not fit.
        """
        problems = self._problems(args)
        if problems:
            args = self.without_nulls(args)
            problems = self._problems(args)
        if problems:
            raise WrongArguments("; ".join(problems[:_SHOWN]))
        return dict(args)

    def without_nulls(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without each null that the schema forbids and that may be left out: it stands for "not
        given"."""
        rest = copy.deepcopy(dict(args))
        for error in _every(self._validator.iter_errors(args)):
            *above, last = error.absolute_path or (None,)
            steps = list(error.absolute_schema_path)
            listed = any(pair == ("properties", last) for pair in pairwise(steps))
            if error.instance is None and listed and (above or last not in self.schema.get("required", ())):
                functools.reduce(lambda part, key: part[key], above, cast(Any, rest)).pop(last, None)
        return rest

    def _problems(self, args: Mapping[str, Any]) -> list[str]:
        extra = set[str]() if _OPEN & self.schema.keys() else args.keys() - self._listed
        found = [f"{name!r} is not an argument" for name in sorted(extra)]
        for error in self._validator.iter_errors(args):
            deepest = _deepest([error])
            where = ".".join(str(part) for part in deepest.absolute_path)
            text = truncate(deepest.message, 300)
            found.append(f"{where!r}: {text}" if where else text)
        return found


def _every(errors: Iterable[Any]) -> Iterator[Any]:
    """Yield errors, and those behind them: of each branch of an ``anyOf``."""
    for error in errors:
        yield error
        yield from _every(error.context or ())


def _validator(name: str, schema: dict[str, Any]) -> Any:
    own = schema.get("$schema")
    named: Any = validator_for(schema, default=cast(Any, None)) if isinstance(own, str) else None
    problems: list[str] = []
    for dialect in (named,) if named else _DIALECTS:
        try:
            dialect.check_schema(schema)
            written_in = specification_with(dialect.META_SCHEMA["$schema"])
            registry: Registry[Any] = Registry()  # nothing is fetched from elsewhere
            resource = written_in.create_resource(schema)
            _check_references(resource, registry.resolver_with_root(resource))
            return dialect(schema, registry=registry)
        except exceptions.SchemaError as error:
            problems.append(error.message)
        except Unresolvable as error:
            problems.append(f"it refers to {error.ref!r}, which is not in it")
    raise ToolRegistrationError(f"tool {name!r}: its schema is no JSON Schema ({truncate(problems[0], 300)})")


def _check_references(resource: Any, resolver: Any) -> None:
    contents = resource.contents
    if isinstance(contents, dict) and isinstance(ref := cast("dict[str, Any]", contents).get("$ref"), str):
        resolver.lookup(ref)
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part))


@dataclass(frozen=True)
class ModelArguments:
    """Arguments that a pydantic model checks and gives their types."""

    model: type[BaseModel]
    parameters: Mapping[str, str]
    """Each field of the model, and the parameter of the function that it is for."""
    filled: frozenset[str] = frozenset()
    """Fields whose default, if there is one, the model holds; the other defaults are the function's own."""
    whole: str | None = None
    """The parameter that takes the model itself, in place of single fields (a `TypedTool`)."""

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The model's JSON Schema without the titles that pydantic adds: they only cost tokens."""
        return cast(dict[str, Any], _without_titles(self.model.model_json_schema(by_alias=True)))

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validate a call's arguments as a whole, `arguments.check({"a": "2"})`; the keyword arguments for the function.

        Raises:
            WrongArguments: They do not fit. A validator of the user's own may raise anything else.
        """
        try:
            checked = self.model.model_validate(args)
        except ValidationError as error:
            rest = self._nulls.without_nulls(args)
            try:
                checked = self.model.model_validate(rest)
            except ValidationError:
                raise WrongArguments(_explained(error)) from error
        if self.whole is not None:
            return {self.whole: checked}
        # only what was given: the function's own defaults stay its own, mutable ones included
        wanted = checked.model_fields_set | self.filled
        return {name: getattr(checked, field) for field, name in self.parameters.items() if field in wanted}

    @functools.cached_property
    def _nulls(self) -> SchemaArguments:
        return SchemaArguments(self.model.__name__, self.schema)


Arguments = SchemaArguments | ModelArguments
"""What a tool takes: a `schema`, and a `check` of a call."""


def _explained(error: ValidationError) -> str:
    parts: list[str] = []
    for item in error.errors(include_url=False, include_context=False)[:_SHOWN]:
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        if item["type"] == "extra_forbidden":
            parts.append(f"{where!r} is not an argument")
        elif item["type"] == "missing":
            parts.append(f"{where!r} is required and missing")
        else:
            parts.append(f"{where!r}: {item['msg']}, got {value_to_text(item['input'], 100)!r}")
    return "; ".join(parts)


def function_arguments(name: str, func: Callable[..., Any]) -> tuple[ModelArguments, str | None]:
    """Read the arguments off the signature of `func`, `function_arguments("add", add)`; and the name of its context.

    A parameter annotated ``ToolContext`` is filled in by the run-time and no argument. A default may be pydantic's `Field`.

    Fields of the model are called ``p0, p1 ...`` with the parameter's name as alias, so that a parameter may be called
    ``json`` or ``schema`` without clashing with pydantic.

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
    context = next((parameter for parameter in parameters if _is_context(hints.get(parameter))), None)
    fields: dict[str, Any] = {}
    named: dict[str, str] = {}
    filled: set[str] = set()
    for parameter, spec in parameters.items():
        if parameter == context:
            continue
        if spec.kind not in (spec.POSITIONAL_OR_KEYWORD, spec.KEYWORD_ONLY):
            raise ToolRegistrationError(
                f"tool {name!r}: parameter {parameter!r} is {spec.kind.description}; a model can only give named "
                "arguments, so declare each one by name"
            )
        if parameter not in hints:
            raise ToolRegistrationError(
                f"tool {name!r}: parameter {parameter!r} has no type annotation; write for example `{parameter}: str`"
            )
        field = f"p{len(fields)}"
        named[field] = parameter
        hint = hints[parameter]
        if isinstance(spec.default, FieldInfo):
            hint = typing.Annotated[hint, spec.default]
        own = spec.default is not spec.empty and not isinstance(spec.default, FieldInfo)
        fields[field] = (hint, Field(spec.default, alias=parameter) if own else Field(alias=parameter))
        if not own:
            filled.add(field)
    try:
        arguments = ModelArguments(create_model(f"{name}_args", __config__=_CONFIG, **fields), named, frozenset(filled))
        _ = arguments.schema
    except PydanticUserError as error:
        raise ToolRegistrationError(
            f"tool {name!r}: a parameter's type cannot be shown to a model as JSON Schema ({error.message}); use plain "
            "types, dataclasses or pydantic models"
        ) from error
    return arguments, context


def _is_context(hint: Any) -> bool:
    """Check whether an annotation is `ToolContext`, optional or not."""
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def context_parameter(func: Callable[..., Any]) -> str | None:
    """Find the parameter of `func` that is annotated ``ToolContext``; None where there is none."""
    return next((name for name, hint in _hints(func).items() if name != "return" and _is_context(hint)), None)


def returned_type(func: Callable[..., Any]) -> Any:
    """Return the type that `func` says it returns; None where it says nothing, or nothing that can be read."""
    return _hints(func).get("return")


def _hints(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of `func`; none where they cannot be read."""
    try:
        return typing.get_type_hints(_annotated(func))
    except (NameError, SyntaxError, TypeError, AttributeError):
        return {}


def _annotated(func: Callable[..., Any]) -> Any:
    """Find the function that carries the annotations: behind a partial, or the ``__call__`` of an object."""
    if isinstance(func, functools.partial):
        return _annotated(cast(Callable[..., Any], func.func))
    return func if inspect.isroutine(func) else type(func).__call__


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
    """Hash a tool's interface, short and stable; a bullet names the hashes of the tools it mentions."""
    text = json.dumps([name, schema], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
