"""Tools of other frameworks as ours: hand-written JSON specs, LangChain tools, MCP tools.

Their arguments are checked against their own JSON Schema before the call, as ours are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, cast

from jsonschema import exceptions
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ace.core import ToolError, ToolRegistrationError, value_to_text
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

    Example:
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


def from_langchain(tool: Any, **options: Any) -> Tool:
    """A LangChain tool (`BaseTool`, or a function under ``@tool``) as one of ours: `from_langchain(langchain_tool)`.

    It is called through `invoke`, in a thread with a time limit like any sync tool.

    Raises:
        ToolRegistrationError: It is no LangChain tool.
    """
    if not (hasattr(tool, "invoke") and hasattr(tool, "args_schema") and hasattr(tool, "name")):
        raise ToolRegistrationError(f"expected a LangChain tool with name, args_schema and invoke, got {tool!r}")
    source = tool.args_schema
    schema = (
        cast("dict[str, Any]", source)
        if isinstance(source, dict)
        else source.model_json_schema()
        if source
        else {"type": "object"}
    )

    def call(**arguments: Any) -> Any:
        return tool.invoke(arguments)

    return from_json_schema(tool.name, tool.description, schema, call, **options)


def from_mcp(session: Any, tool: Any, **options: Any) -> Tool:
    """An MCP server's tool, `from_mcp(session, mcp_tool)`; read-only and idempotent by the server's annotations.

    Args:
        session: An open client session with `call_tool`. It lives on one event loop: run the agent there, with `arun`.
        tool: One of ``(await session.list_tools()).tools``.
        **options: As for `Tool.from_function`; they win over the server's annotations.

    Raises:
        ToolRegistrationError: It is no MCP tool.
    """
    schema: Any = _either(tool, "input_schema", "inputSchema")
    if not isinstance(schema, dict):
        raise ToolRegistrationError(f"expected an MCP tool with name and input schema, got {tool!r}")
    hints = getattr(tool, "annotations", None)
    declared = {
        "read_only": bool(_either(hints, "read_only_hint", "readOnlyHint")),
        "idempotent": bool(_either(hints, "idempotent_hint", "idempotentHint")),
    }

    async def call(**arguments: Any) -> Any:
        result = await session.call_tool(tool.name, arguments)
        text = "\n".join(getattr(part, "text", None) or value_to_text(part) for part in result.content)
        if _either(result, "is_error", "isError"):
            raise ToolError("refused", text)
        return text

    return from_json_schema(
        tool.name, tool.description or tool.name, cast("dict[str, Any]", schema), call, **{**declared, **options}
    )


def _either(source: Any, new: str, old: str) -> Any:
    """A field as the MCP SDK calls it since version 2, or before."""
    found = getattr(source, new, None)
    return getattr(source, old, None) if found is None else found
