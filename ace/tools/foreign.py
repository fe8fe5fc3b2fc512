"""Tools of other frameworks as ours: hand-written JSON specs, LangChain tools, DSPy tools.

Their arguments are checked against their own JSON Schema before the call, as ours are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from inspect import Parameter
from typing import Any, cast

from pydantic import TypeAdapter

from ace.core import ToolError, ToolRegistrationError, current_context, value_to_text
from ace.tools.schema import SchemaArguments
from ace.tools.tool import Tool, checked_options


def from_json_schema(
    name: str,
    description: str,
    schema: dict[str, Any],
    func: Callable[..., Any],
    *,
    afunc: Callable[..., Any] | None = None,
    **options: Any,
) -> Tool:
    """Make a tool from a hand-written specification, as other frameworks keep them.

    Args:
        name: The name the model uses.
        description: What the model reads.
        schema: JSON Schema of the arguments, an object with `properties`.
        func: Called with the arguments by keyword; sync or async.
        afunc: Called in place of a sync `func` where an async caller waits.
        **options: As for `Tool.from_function`.

    Raises:
        ToolRegistrationError: The schema is no JSON Schema of an object, or the description is empty.

    Examples:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> double = from_json_schema("double", "Twice a number.", schema, lambda n: 2 * n)
        >>> double.schema == schema
        True
    """
    if not str(description or "").strip():
        raise ToolRegistrationError(f"tool {name!r} has no description; the model chooses tools by it")
    return Tool(
        name=name,
        description=description.strip(),
        func=func,
        afunc=afunc,
        arguments=SchemaArguments(name, schema),
        made=partial(from_json_schema, name, description, schema, func, afunc=afunc, **options),
        **checked_options(dict(options)),
    )


def from_langchain(tool: Any, injected: Mapping[str, Any] | None = None, **options: Any) -> Tool:
    """Convert a LangChain tool (`BaseTool`, or a function under ``@tool``) to ours: `from_langchain(langchain_tool)`.

    It is called through `invoke`, in a thread with a time limit like any sync tool, or through `ainvoke`: in async runs,
    and where it has no sync body. Arguments that LangChain injects are no part of the schema: a model neither sees nor
    sets them.

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
    given = dict(injected or {})
    shown, hidden = _langchain_schema(tool)
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

    has_async = getattr(tool, "coroutine", None) is not None
    only_async = has_async and getattr(tool, "func", None) is None
    afunc = acall if has_async or _overridden(tool, "_arun") else None
    return from_json_schema(tool.name, tool.description, shown, acall if only_async else call, afunc=afunc, **options)


def _overridden(tool: Any, method: str) -> bool:
    """Check whether a class of the user's own, and none of LangChain's, has the method."""
    owner = next((base for base in type(tool).__mro__ if method in vars(base)), object)
    return not owner.__module__.startswith("langchain_core.")


def _langchain_schema(tool: Any) -> tuple[Any, dict[str, Any]]:
    """Return the schema that a LangChain tool shows, and the arguments that it takes and does not show, with their types.

    Of the second, those that have a default are left out.
    """
    if isinstance(tool.args_schema, dict):
        return cast(Any, tool.args_schema), {}
    if tool.args_schema is None and list(tool.args) == ["tool_input"]:  # a `langchain.Tool` around one text
        return {"type": "object", "properties": tool.args, "required": ["tool_input"]}, {}
    shown = tool.tool_call_schema.model_json_schema()
    fields: Mapping[str, Any] = getattr(tool.get_input_schema(), "model_fields", {})
    known: Mapping[str, Any] = shown.get("properties", {})
    return shown, {
        name: [field.annotation, *field.metadata]
        for name, field in fields.items()
        if name not in known and field.is_required()
    }


def _content(answer: Any) -> Any:
    """Return what the model reads of a LangChain answer: of a `ToolMessage` its content, without the artifact.

    Raises:
        ToolError: The tool says that it failed.
    """
    if type(answer).__name__ != "ToolMessage":
        return answer
    if getattr(answer, "status", "") == "error":
        raise ToolError("refused", value_to_text(answer.content))
    return answer.content


def from_dspy(tool: Any, **options: Any) -> Tool:
    """Convert a `dspy.Tool` to one of ours, with its name, its schema and its descriptions.

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

    types: Mapping[str, Any] = tool.arg_types or {}
    adapters = {name: TypeAdapter[Any](kind) for name, kind in types.items() if kind is not Any}

    def typed(arguments: dict[str, Any]) -> dict[str, Any]:
        return {k: adapters[k].validate_python(v) if k in adapters else v for k, v in arguments.items()}

    def call(**arguments: Any) -> Any:
        return tool.func(**typed(arguments))

    async def acall(**arguments: Any) -> Any:
        return await tool.func(**typed(arguments))

    body = acall if inspect.iscoroutinefunction(tool.func) else call
    text = (tool.desc or "").strip() or tool.name
    return from_json_schema(tool.name, text, _dspy_schema(tool), body, **options)


def _dspy_schema(tool: Any) -> dict[str, Any]:
    """Return the schema of a `dspy.Tool`; a converted one says in its descriptions what is required."""
    described: Mapping[str, str] = tool.arg_desc or {}
    given: Mapping[str, Mapping[str, Any]] = tool.args or {}
    read = tool.func if inspect.isroutine(tool.func) else tool.func.__call__  # what DSPy read it off
    kinds = {name: spec.kind for name, spec in inspect.signature(read).parameters.items()}
    many = {name for name, kind in kinds.items() if kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)}
    properties = {name: dict(part) for name, part in given.items() if name not in many}
    for name, part in properties.items():
        text = described.get(name, "").removesuffix(" (Required)")
        if text and not text.startswith("No description provided."):
            part.setdefault("description", text)
    # DSPy lists a function's own **kwargs like an argument; those of a converted tool are its wrapper's
    free = any(kinds[name] is Parameter.VAR_KEYWORD for name in many & given.keys())
    told = {name for name, text in described.items() if text.endswith(" (Required)")}
    converted = tool.has_kwargs and tool.arg_desc is not None and not free
    required = [name for name, part in properties.items() if (name in told if converted else "default" not in part)]
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": True} if free else schema
