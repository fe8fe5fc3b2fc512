"""A tool: a validated callable with what a model and a policy need to know about it."""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast, overload

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from ace.core import InvalidModelAction, ToolError, ToolRegistrationError, describe_error, value_to_text
from ace.tools.process import importable
from ace.tools.schema import (
    Arguments,
    ModelArguments,
    WrongArguments,
    context_parameter,
    function_arguments,
    returned_type,
    schema_hash,
)

A = TypeVar("A", bound=BaseModel)
R = TypeVar("R")

DEFAULT_TIMEOUT = 30.0
"""Default time limit of a tool, in seconds."""


@dataclass(frozen=True)
class Tool:
    """A callable that a model may use, checked at construction.

    Make one with `Tool.from_function`, the decorator `tool`, or a `TypedTool`.

    Examples:
        >>> def add(a: int, b: int) -> int:
        ...     "Add two integers."
        ...     return a + b
        >>> Tool.from_function(add, read_only=True).schema["required"]
        ['a', 'b']
    """

    name: str
    description: str
    func: Callable[..., Any]
    arguments: Arguments
    """What it takes: a function's annotations, a model, or a JSON Schema."""
    afunc: Callable[..., Any] | None = None
    """The async way of a tool that has both ways; async callers take it."""
    category: str = "general"
    examples: tuple[str, ...] = ()
    """Inputs or calls that show the model how the tool is used; part of the catalog."""
    idempotent: bool = False
    """Whether running it twice does no more than running it once."""
    read_only: bool = False
    """Whether it changes nothing."""
    trusted: bool = False
    """Whether its answers are the program's own words, and not those of whoever writes what it reads: what they ask for may
    be learned."""
    requires_approval: bool = False
    timeout: float = DEFAULT_TIMEOUT
    """Seconds."""
    isolation: Literal["thread", "process"] = "thread"
    """``process`` runs each call in an interpreter of its own, which a time-out or a cancellation kills."""
    context: str | None = None
    """The parameter that takes the `ToolContext`, if there is one."""
    output: Any = None
    """The type that its results are checked against, or a JSON Schema that only tells of them."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    made: Callable[[], Tool] | None = field(default=None, compare=False, repr=False)
    """Makes it again, in another process: its class of arguments cannot travel."""

    @classmethod
    def from_function(
        cls,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Any,
    ) -> Tool:
        """Make a tool from an annotated function with a docstring.

        Args:
            func: Sync or async; every parameter annotated (none is fine).
            name: The name the model uses; the function's own by default.
            description: What the model reads; the docstring by default.
            **options: `category`, `examples`, `idempotent`, `read_only`, `requires_approval`, `timeout`,
                `isolation`, `metadata`, `trusted`, `output`.

        Raises:
            ToolRegistrationError: It names what is missing and how to fix it.
        """
        source: Any = func  # what is passed in practice may be anything
        if isinstance(source, type):
            raise ToolRegistrationError(f"{source.__name__!r} is a class; pass an instance of it or a function")
        if not callable(source):
            raise ToolRegistrationError(
                f"{source!r} is not callable ({type(source).__name__}); expected a function, a Tool or a TypedTool"
            )
        name = str(name or getattr(source, "__name__", type(source).__name__))
        if name == "<lambda>":
            raise ToolRegistrationError("a lambda has no name to call it by; define a function with `def`")
        description = inspect.cleandoc(description or getattr(func, "__doc__", None) or "").strip()
        if not description:
            raise ToolRegistrationError(
                f"tool {name!r} has no docstring; the model chooses tools by it, so say in one line what the tool does"
            )
        arguments, context = function_arguments(name, func)
        again = partial(cls.from_function, func, name=name, description=description, **options)
        made = cls(
            name=name,
            description=description,
            func=func,
            arguments=arguments,
            context=context,
            made=again,
            **checked_options(options),
        )
        if made.isolation == "process":
            if context or made.is_async:
                raise ToolRegistrationError(
                    f"tool {name!r}: isolation='process' needs a sync function without a ToolContext parameter"
                )
            importable(name, func)
        return made

    @classmethod
    def of(cls, source: Tool | TypedTool[Any, Any] | Callable[..., Any]) -> Tool:
        """Convert anything a user may pass as a tool to a `Tool`."""
        if isinstance(source, Tool):
            return source
        if isinstance(source, TypedTool):
            return source.as_tool()  # pyright: ignore[reportUnknownMemberType]
        return cls.from_function(source)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.arguments.schema

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(self.schema.get("properties", {}))

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the results; None where nothing says what they are.

        Examples:
            >>> def add(a: int, b: int) -> int:
            ...     "Add two integers."
            ...     return a + b
            >>> Tool.from_function(add).output_schema
            {'type': 'integer'}
        """
        if isinstance(self.output, dict):
            return cast("dict[str, Any]", self.output)
        kind = self.output if self.output is not None else returned_type(self.func)
        try:
            return None if kind is None else TypeAdapter(kind).json_schema()
        except PydanticUserError:  # an annotation that no JSON Schema can tell of
            return None

    @cached_property
    def schema_hash(self) -> str:
        """Changes when the name or the arguments change."""
        return schema_hash(self.name, self.schema)

    @property
    def repeatable(self) -> bool:
        """Whether running it again by mistake does no harm."""
        return self.idempotent or self.read_only

    @property
    def is_async(self) -> bool:
        """Whether calling it gives a coroutine."""
        return inspect.iscoroutinefunction(self.func) or inspect.iscoroutinefunction(
            getattr(self.func, "__call__", None)  # noqa: B004 - looks for an async __call__, not for callability
        )

    def checked(self, args: Any) -> dict[str, Any]:
        """Validate the arguments of a call as a whole: what `func` is called with, with its types.

        A null for an argument that may be left out, and cannot be null, is left out.

        Raises:
            InvalidModelAction: They do not fit; each one is named with what came and what is expected.

        Examples:
            >>> def add(a: int, b: int = 1) -> int:
            ...     "Add two integers."
            ...     return a + b
            >>> Tool.from_function(add).checked({"a": "2", "b": None})
            {'a': 2}
        """
        if not isinstance(args, dict):
            problem = f"the arguments must be a JSON object, got {type(args).__name__} {value_to_text(args, 100)!r}"
            raise self._refusal(args, problem)
        try:
            return self.arguments.check(cast("dict[str, Any]", args))
        except WrongArguments as error:
            raise self._refusal(args, str(error)) from error
        except Exception as error:  # a validator of the user's own may raise anything
            raise self._refusal(args, f"the arguments were refused: {describe_error(error)}") from error

    def _refusal(self, args: Any, problem: str) -> InvalidModelAction:
        expected = f"an object with {', '.join(self.parameters)}" if self.parameters else "an empty object {}"
        text = f"{self.name}: {problem}; expected {expected}"
        return InvalidModelAction("invalid_args", text, tool_name=self.name, received_args=args)

    def checked_result(self, value: Any) -> Any:
        """Check a result, as `output` says; return it unchanged where that is no type.

        Raises:
            ToolError: It does not fit.
        """
        if self.output is None or isinstance(self.output, dict):
            return value
        try:
            return self._output_type.validate_python(value)
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in item["loc"]) or "the result"
            text = f"{self.name} gave a result that its output type does not allow: {where!r}: {item['msg']}"
            got = value_to_text(item["input"], 200)
            raise ToolError("exception", f"{text}, got {got!r}", f"{text}.", source=error) from error

    @cached_property
    def _output_type(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.output)

    def bind(self, func: Callable[..., Any]) -> Tool:
        """Return the same tool with another body: a suite binds its tools to a fresh sandbox for each task."""
        bound = replace(self, func=func, afunc=None, made=partial(self.bind, func))
        # what a tool tells of itself is worked out once for all its bodies: a suite binds every tool for every task
        vars(bound).update(output_schema=self.output_schema, schema_hash=self.schema_hash)
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function behind it, unchecked: a decorated function stays one."""
        if isinstance(self.arguments, ModelArguments) and self.arguments.whole is not None:
            return self.func(**self.checked(kwargs))
        return self.func(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.made is None:
            raise TypeError(
                f"tool {self.name!r} was put together by hand and cannot be pickled; use Tool.from_function"
            )
        return self.made, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tool:
        # optimizers deep-copy programs; a copied bound method would act on a forked database
        return self


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """Check the keyword options of a tool, and return them once they make sense."""
    known = {"category", "examples", "idempotent", "read_only", "requires_approval", "timeout", "trusted"}
    known |= {"isolation", "metadata", "output"}
    if unknown := sorted(options.keys() - known):
        raise ToolRegistrationError(f"unknown tool options {unknown}; known are {sorted(known)}")
    timeout = options.get("timeout", DEFAULT_TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < threading.TIMEOUT_MAX:
        raise ToolRegistrationError(f"timeout must be a positive, finite number of seconds, got {timeout!r}")
    if (isolation := options.get("isolation", "thread")) not in ("thread", "process"):
        raise ToolRegistrationError(f"isolation must be 'thread' or 'process', got {isolation!r}")
    if isinstance(examples := options.get("examples", ()), str):
        raise ToolRegistrationError(f"examples must be a list of calls, got the text {examples!r}")
    if "examples" in options:
        options["examples"] = tuple(examples)
    return options


class TypedTool(ABC, Generic[A, R]):
    """A tool as a class: pydantic models for what goes in and what comes out.

    Examples:
        >>> class Args(BaseModel):
        ...     text: str
        >>> class Shout(TypedTool[Args, str]):
        ...     "Say it loudly."
        ...     name = "shout"
        ...     Args = Args
        ...     def run(self, args: Args) -> str:
        ...         return args.text.upper()
        >>> Tool.of(Shout()).name
        'shout'
    """

    name: ClassVar[str]
    Args: ClassVar[type[BaseModel]]
    Output: ClassVar[Any] = None
    """Optional: the type of the result; another one is a failed call."""
    options: ClassVar[dict[str, Any]] = {}
    """As the keyword options of `Tool.from_function`."""

    @abstractmethod
    def run(self, args: A) -> R:
        """Do the work; may be ``async def``."""

    def as_tool(self) -> Tool:
        """Return this object as a `Tool`.

        Raises:
            ToolRegistrationError: `name`, `Args` or the docstring is missing.
        """
        cls = type(self)
        name = getattr(cls, "name", None)
        model = getattr(cls, "Args", None)
        if not isinstance(name, str) or not name:
            raise ToolRegistrationError(f"{cls.__name__} has no name; set `name = 'my_tool'` in the class")
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise ToolRegistrationError(f"tool {name!r} has no `Args`; set it to a pydantic model of the arguments")
        description = inspect.cleandoc(cls.__doc__ or "").strip()
        if not description or cls.__doc__ == TypedTool.__doc__:
            raise ToolRegistrationError(f"tool {name!r} has no docstring; say in one line what the tool does")
        if issubclass(model, RootModel):
            raise ToolRegistrationError(f"tool {name!r}: `Args` is a RootModel; use a BaseModel with named fields")
        try:
            model.model_json_schema()
        except PydanticUserError as error:
            raise ToolRegistrationError(f"tool {name!r}: `Args` has no JSON Schema ({error.message})") from error
        options = dict(self.options)
        if options.get("isolation") == "process":
            raise ToolRegistrationError(f"tool {name!r}: isolation='process' needs a function, not a TypedTool")
        context = context_parameter(self.run)
        takes = next((name for name in inspect.signature(self.run).parameters if name != context), "args")
        strict = type(model.__name__, (model,), {"model_config": {"extra": "forbid"}, "__doc__": model.__doc__})
        return Tool(
            name=name,
            description=description,
            func=self.run,
            arguments=ModelArguments(strict, {}, whole=takes),
            context=context,
            made=self.as_tool,
            **checked_options({"output": self.Output, **options}),
        )


@overload
def tool(func: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(func: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool, as a decorator with or without options.

    Examples:
        >>> @tool(read_only=True, category="math")
        ... def double(x: float) -> float:
        ...     "Twice a number."
        ...     return 2 * x
        >>> double.category
        'math'
    """
    if func is not None:
        return Tool.from_function(func, **options)
    return cast("Callable[[Callable[..., Any]], Tool]", partial(Tool.from_function, **options))
