"""Tools of other frameworks as ours: hand-written JSON specs, LangChain tools, DSPy tools.

Their arguments are checked against their own JSON Schema before the call, as ours are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, cast

from jsonschema import exceptions
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ace.core import ToolError, ToolRegistrationError, current_context, value_to_text
from ace.tools.tool import Tool, checked_options

_best_match = cast(Any, exceptions).best_match


def from_json_schema(
    name: str, description: str, schema: dict[str, Any], func: Callable[..., Any], **options: Any
) -> Tool:
    """A tool from a hand-written specification, as other frameworks keep them.

    Args:
        name: The name the model uses.
        description: What the model reads.
        schema: JSON Schema of the arguments, an object with `properties`.
        func: Called with the arguments by keyword; sync or async.
        **options: As for `Tool.from_function`.

    Raises:
        ToolRegistrationError: The schema is no JSON Schema of an object, or the description is empty.

    Examples:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> double = from_json_schema("double", "Twice a number.", schema, lambda n: 2 * n)
        >>> double.schema == schema
        True
    """
    if not description.strip():
        raise ToolRegistrationError(f"tool {name!r} has no description; the model chooses tools by it")
    properties: object = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise ToolRegistrationError(
            f"tool {name!r}: expected a JSON Schema of an object with properties, got {schema!r}"
        )
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise ToolRegistrationError(f"tool {name!r}: its schema is no JSON Schema ({error.message})") from error
    tool = Tool(
        name=name,
        description=description.strip(),
        func=func,
        args_model=_model(name, schema, cast("dict[str, Any]", properties)),
        parameters=tuple(cast("dict[str, Any]", properties)),
        made=partial(from_json_schema, name, description, schema, func, **options),
        **checked_options(dict(options)),
    )
    tool.__dict__["schema"] = schema  # theirs, word for word
    return tool


def _model(name: str, schema: dict[str, Any], properties: dict[str, Any]) -> type[BaseModel]:
    required = set(schema.get("required", ()))
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    fields: dict[str, Any] = {}
    for index, (parameter, part) in enumerate(properties.items()):
        kind = Annotated[Any, AfterValidator(_checker({**shared, **part})), WithJsonSchema(part)]
        fields[f"p{index}"] = (kind, Field(... if parameter in required else None, alias=parameter))
    extra = "allow" if schema.get("additionalProperties") not in (None, False) else "forbid"
    return create_model(f"{name}_args", __config__=ConfigDict(extra=extra), **fields)


def _checker(part: dict[str, Any]) -> Callable[[Any], Any]:
    validator = validator_for(part)(part)

    def check(value: Any) -> Any:
        problem: Any = _best_match(validator.iter_errors(value))
        if problem is not None:
            raise ValueError(problem.message)
        return value

    return check


def from_langchain(tool: Any, injected: Mapping[str, Any] | None = None, **options: Any) -> Tool:
    """A LangChain tool (`BaseTool`, or a function under ``@tool``) as one of ours: `from_langchain(langchain_tool)`.

    It is called through `invoke`, in a thread with a time limit like any sync tool, or through `ainvoke` where it has no
    sync body. Arguments that LangChain injects are no part of the schema: a model neither sees nor sets them.

    Args:
        tool: The tool.
        injected: The arguments that LangChain would inject (`InjectedToolArg`, `InjectedState`, `InjectedStore` ...):
            values, or functions without arguments that give them at each call. The call's id is filled in by itself.
        **options: As for `Tool.from_function`.

    Raises:
        ToolRegistrationError: It is no LangChain tool, or an injected argument has no value.
    """
    if not (hasattr(tool, "invoke") and hasattr(tool, "args_schema") and hasattr(tool, "name")):
        raise ToolRegistrationError(f"expected a LangChain tool with name, args_schema and invoke, got {tool!r}")
    source, given = tool.args_schema, dict(injected or {})
    whole = not isinstance(source, dict) and source is not None
    shown = cast(Any, tool.tool_call_schema.model_json_schema() if whole else source or {"type": "object"})
    hidden = _hidden(tool, shown) if whole else {}
    ids = {name for name, kind in hidden.items() if "InjectedToolCallId" in str(kind)}
    missing = [name for name in hidden if name not in given and name not in ids]
    if missing:
        raise ToolRegistrationError(
            f"LangChain tool {tool.name!r}: {', '.join(missing)} is injected by its host; give it with "
            f"from_langchain(tool, injected={{{missing[0]!r}: ...}})"
        )
    as_call = bool(ids) or getattr(tool, "response_format", "") == "content_and_artifact"

    def asked(arguments: dict[str, Any]) -> Any:
        values = {name: value() if callable(value) else value for name, value in given.items()}
        args = {**arguments, **values}
        if not as_call:
            return args
        context = current_context()
        call_id = context.tool_call_id if context is not None and context.tool_call_id else "call"
        return {"name": tool.name, "args": args, "id": call_id, "type": "tool_call"}

    def call(**arguments: Any) -> Any:
        return _content(tool.invoke(asked(arguments)))

    async def acall(**arguments: Any) -> Any:
        return _content(await tool.ainvoke(asked(arguments)))

    sync = getattr(tool, "func", None) is not None or getattr(tool, "coroutine", None) is None
    return from_json_schema(tool.name, tool.description, shown, call if sync else acall, **options)


def _hidden(tool: Any, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a LangChain tool takes and does not show, with their types; those that have a default aside."""
    fields: Mapping[str, Any] = getattr(tool.get_input_schema(), "model_fields", {})
    known: Mapping[str, Any] = shown.get("properties", {})
    return {
        name: [field.annotation, *field.metadata]
        for name, field in fields.items()
        if name not in known and field.is_required()
    }


def _content(answer: Any) -> Any:
    """What the model reads of a LangChain answer: of a `ToolMessage` its content, without the artifact.

    Raises:
        ToolError: The tool says that it failed.
    """
    if type(answer).__name__ != "ToolMessage":
        return answer
    if getattr(answer, "status", "") == "error":
        raise ToolError("refused", value_to_text(answer.content))
    return answer.content


def from_dspy(tool: Any, **options: Any) -> Tool:
    """A `dspy.Tool` as one of ours, with its name, its schema and its descriptions.

    A plain function is taken as it is, where it has what a `Tool` needs; everything else is called as DSPy would call it.

    Examples:
        >>> import dspy
        >>> from_dspy(dspy.Tool(lambda n: 2 * n, name="double", desc="Twice.")).schema["required"]
        ['n']
    """
    inferred = tool.arg_desc is None and not tool.has_kwargs
    if inferred and inspect.isroutine(tool.func) and type(tool)(tool.func).args == tool.args:
        with suppress(ToolRegistrationError):
            return Tool.from_function(tool.func, name=tool.name, description=tool.desc, **options)

    def call(**arguments: Any) -> Any:
        return tool.func(**tool._validate_and_parse_args(**arguments))

    async def acall(**arguments: Any) -> Any:
        return await tool.func(**tool._validate_and_parse_args(**arguments))

    body = acall if inspect.iscoroutinefunction(tool.func) else call
    text = (tool.desc or "").strip() or tool.name
    return from_json_schema(tool.name, text, _dspy_schema(tool), body, **options)


def _dspy_schema(tool: Any) -> dict[str, Any]:
    """The schema of a `dspy.Tool`; a converted one says in its descriptions what is required."""
    described: Mapping[str, str] = tool.arg_desc or {}
    given: Mapping[str, Mapping[str, Any]] = tool.args or {}
    properties = {name: dict(part) for name, part in given.items()}
    for name, part in properties.items():
        text = described.get(name, "").removesuffix(" (Required)")
        if text and not text.startswith("No description provided."):
            part.setdefault("description", text)
    told = {name for name, text in described.items() if text.endswith(" (Required)")}
    converted = tool.has_kwargs and tool.arg_desc is not None
    required = [name for name, part in properties.items() if (name in told if converted else "default" not in part)]
    return {"type": "object", "properties": properties, "required": required}
