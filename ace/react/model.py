"""The language model of a run: DSPy's predictors behind the `Model` protocol, the tool catalog, and what adapters raise."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError
from dspy.utils.usage_tracker import UsageTracker
from json_repair import repair_json
from pydantic import BaseModel

from ace.agent import AskModel, ModelReply
from ace.core import (
    AgentError,
    ContextOverflow,
    InvalidModelAction,
    ModelTransport,
    RunUsage,
    SignatureError,
    as_data,
    clean_text,
    describe_error,
    truncate,
    value_as_data,
)
from ace.react.adapter import CachedChatAdapter
from ace.react.native import NativeAdapter, function_specs, read_reply
from ace.tasks import RunSummary
from ace.tools import Tool, ToolRegistry


@dataclass(frozen=True)
class Prompts:
    """What asks the model: the program's own predictors, and the catalog they show."""

    react: dspy.ReAct
    catalog: ToolCatalog
    native: bool = False
    summarizer: Any = None


@dataclass(eq=False, repr=False)
class PredictorModel:
    """The model of one run: the program's own predictors behind the `Model` protocol.

    Args:
        prompts: The predictors, and what they have in common over all runs.
        inputs: The task's input fields.
        playbook: The bullets, rendered.
        lm: A model for this run; the predictors' own or DSPy's configured one by default.
        config: For the model's API, as `dspy.Predict` takes it.
        on_delta: Receives each piece of a reply, for streaming.
    """

    prompts: Prompts
    inputs: dict[str, Any]
    playbook: str
    lm: Any = None
    config: Mapping[str, Any] | None = None
    on_delta: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        options = {"lm": self.lm, "config": self.config}
        self.options = {name: value for name, value in options.items() if value is not None}
        self.shown = {name: _as_data(value) for name, value in self.inputs.items()}

    def ask(self, request: AskModel) -> ModelReply:
        """Ask and wait."""
        adapter = self._adapter(request)
        with _asking(adapter) as spent:
            return self._reply(request, self._predictor(request)(**self._fields(request)), spent())

    async def aask(self, request: AskModel) -> ModelReply:
        """Ask without blocking the loop."""
        adapter = self._adapter(request)
        with _asking(adapter, self.on_delta) as spent:
            return self._reply(request, await self._predictor(request).acall(**self._fields(request)), spent())

    def _adapter(self, request: AskModel) -> Any:
        """The adapter of this request; None leaves the choice to DSPy's settings.

        Raises:
            SignatureError: The model cannot be called natively.
        """
        if self.prompts.native and request.purpose == "decide":
            lm = self.options.get("lm") or self.prompts.react.react.lm or dspy.settings.lm
            # what a server behind an address can do is not known here: the caller who asks for native mode knows it
            declared = not isinstance(getattr(lm, "engine", ""), str)
            if lm is not None and declared and not getattr(lm, "supports_function_calling", False):
                raise SignatureError(
                    f"tool_calling='native' needs a model with function calling, and {lm.model!r} declares none; use "
                    "tool_calling='text'"
                )
            return NativeAdapter(self.prompts.catalog.functions(request.excluded), self.prompts.catalog.signatures)
        # one request per decision: asking again is the policy's business, not the adapter's
        return _ADAPTER if dspy.settings.adapter is None else None

    def _predictor(self, request: AskModel) -> Any:
        react = self.prompts.react
        return {"decide": react.react, "extract": react.extract, "summarize": self.prompts.summarizer}[request.purpose]

    def _fields(self, request: AskModel) -> dict[str, Any]:
        fields = {**self.shown, "trajectory": request.trajectory, **self.options}
        if request.purpose == "decide":
            fields["playbook"] = self.playbook if request.playbook else ""
            if not self.prompts.native:
                fields["tools"] = self.prompts.catalog.text(request.excluded)
        return fields

    def _reply(self, request: AskModel, prediction: Any, usage: RunUsage) -> ModelReply:
        if request.purpose == "summarize":
            return ModelReply(outputs={name: prediction[name] for name in RunSummary.model_fields}, usage=usage)
        if request.purpose == "extract":
            outputs = {name: getattr(prediction, name) for name in self.prompts.react.signature.output_fields}
            return ModelReply(str(getattr(prediction, "reasoning", None) or ""), outputs=outputs, usage=usage)
        if self.prompts.native:
            return read_reply(prediction, self.prompts.catalog.finish, self.prompts.catalog.registry, usage)
        return ModelReply(
            thought=str(prediction.next_thought or ""),
            tool_name=prediction.next_tool_name,
            tool_args=prediction.next_tool_args,
            usage=usage,
        )


def _as_data(value: Any) -> Any:
    """An input as a prompt may hold it; images and the like are left to DSPy."""
    if isinstance(value, BaseModel) and not isinstance(value, dspy.Type):
        fields = {name: _as_data(getattr(value, name)) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, (list, tuple)):
        return [_as_data(item) for item in value]
    return value_as_data(value)


class ToolCatalog:
    """The tools of one agent as prompts show them, rendered once per set of tools in service."""

    def __init__(self, registry: ToolRegistry, finish: Tool) -> None:
        self.registry = registry
        self.finish = finish
        self.signatures: dict[str, Any] = {}
        """Derived signatures of the native adapter."""
        self._texts: dict[tuple[str, ...], str] = {}
        self._functions: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self._described: dict[tuple[tuple[str, str], ...], ToolCatalog] = {}

    def described(self, descriptions: Mapping[str, str]) -> ToolCatalog:
        """The same tools with other descriptions."""
        key = tuple(sorted(descriptions.items()))
        if key not in self._described:
            tools = [replace(tool, description=descriptions.get(tool.name, tool.description)) for tool in self.registry]
            self._described[key] = ToolCatalog(ToolRegistry(tools), self.finish)
        return self._described[key]

    def text(self, excluded: tuple[str, ...] = ()) -> str:
        """As an input field."""
        key = (*self.registry.names, "/", *excluded)
        if key not in self._texts:
            self._texts[key] = as_data(clean_text(render_catalog(self.registry, self.finish, excluded)))
        return self._texts[key]

    def functions(self, excluded: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """As the API's parameter."""
        key = (*self.registry.names, "/", *excluded)
        if key not in self._functions:
            self._functions[key] = function_specs(self.registry, self.finish, excluded)
        return self._functions[key]


def render_catalog(registry: ToolRegistry, finish: Tool, excluded: tuple[str, ...] = ()) -> str:
    """One JSON line per tool that is in service: name, description, arguments, and examples where it has some."""
    return "\n".join(
        json.dumps(
            {
                "name": tool.name,
                "description": " ".join(tool.description.split()),
                "args": {k: v for k, v in tool.schema.items() if k in ("properties", "required", "$defs") and v},
                **({"examples": tool.examples} if tool.examples else {}),
            },
            ensure_ascii=False,
            default=str,
        )
        for tool in (*registry, finish)
        if tool.name not in excluded
    )


class _Deltas:
    """Takes the pieces of a reply from DSPy while it streams."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell

    async def send(self, chunk: Any) -> None:
        """One chunk; only its text is told."""
        delta = chunk.choices[0].delta if getattr(chunk, "choices", None) else None
        if text := getattr(delta, "content", None):
            self.tell(text)


@contextmanager
def _asking(adapter: Any, on_delta: Callable[[str], None] | None = None):
    """Count what a request costs and turn every failure into an `AgentError` that carries the count."""
    tracker, outer = UsageTracker(), dspy.settings.usage_tracker
    settings: dict[str, Any] = {"usage_tracker": tracker}
    if adapter is not None:
        settings["adapter"] = adapter
    if on_delta is not None:
        settings |= {"send_stream": _Deltas(on_delta), "stream_listeners": []}
    try:
        with dspy.context(**settings):
            yield lambda: _spent(tracker)
    except Exception as error:  # border to a foreign model: whatever it raises, the run decides what it means
        failure = _translate(error)
        failure.usage = _spent(tracker)  # pyright: ignore[reportAttributeAccessIssue]
        raise failure from error
    finally:
        if outer is not None:  # as `dspy.track_usage` does
            for lm, entries in tracker.usage_data.items():
                outer.usage_data[lm].extend(entries)


_ADAPTER = CachedChatAdapter()


def _spent(tracker: Any) -> RunUsage:
    tokens = tracker.get_total_tokens().values()
    return RunUsage(
        # an adapter with a fallback of its own may have asked more than once
        lm_calls=max(1, sum(len(entries) for entries in tracker.usage_data.values())),
        input_tokens=sum(int(t.get("prompt_tokens") or 0) for t in tokens),
        output_tokens=sum(int(t.get("completion_tokens") or 0) for t in tokens),
    )


def _translate(error: Exception) -> AgentError:
    if isinstance(error, AgentError):
        return error
    if isinstance(error, AdapterParseError):
        return _unparsable(error.lm_response, tuple(error.signature.output_fields))
    if isinstance(error, RecursionError):
        return InvalidModelAction("invalid_args", "The reply is nested too deeply.")
    if isinstance(error, ContextWindowExceededError):
        return ContextOverflow("the prompt does not fit the model's context window, shortened as far as it can be")
    return ModelTransport(truncate(describe_error(error), 500))


def _unparsable(raw: Any, wanted: tuple[str, ...]) -> InvalidModelAction:
    """Say as exactly as possible what is wrong with a reply that the adapter could not read."""
    raw = raw if isinstance(raw, str) else str(raw)
    found = dict(re.findall(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?(.*?)(?=^\[\[ ## |\Z)", raw, re.M | re.S))
    name = found.get("next_tool_name", "").strip() or None
    args = found.get("next_tool_args")
    if name and args is not None:
        value = repair_json(args.strip(), return_objects=True)
        if not isinstance(value, dict):
            value = args.strip() if value == "" else value
            got = f"{type(value).__name__} {truncate(str(value), 100)!r}" if value != "" else "nothing"
            return InvalidModelAction(
                "invalid_args",
                f"{name}: next_tool_args must be a JSON object, got {got}",
                tool_name=name,
                received_args=value,
                raw_response=raw,
            )
    missing = [field for field in wanted if not found.get(field, "").strip()]
    return InvalidModelAction(
        "unparsable",
        f"The reply could not be read: {', '.join(missing) or 'a field'} is missing or malformed. Write each of "
        f"{', '.join(wanted)} once, in the format that was asked for; next_tool_args is a JSON object.",
        tool_name=name,
        received_args=args,
        raw_response=raw,
    )
