"""The language model of a run: DSPy's predictors behind the `Model` protocol, the tool catalog, and what adapters raise."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import anyio.to_thread
import dspy
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError
from dspy.utils.usage_tracker import UsageTracker
from pydantic import BaseModel

from ace.agent import AskModel, ModelReply
from ace.agent.conversation import TURN_LAYOUT, ShownTurn
from ace.agent.machine import FINISH
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
    value_to_text,
)
from ace.playbook.render import count_tokens
from ace.react.adapter import CachedChatAdapter, conversing, reading
from ace.react.answer_stream import AnswerStream
from ace.react.native import CUT_SHORT, NativeAdapter, function_specs, read_reply
from ace.react.reading.reader import CallReader
from ace.react.seen import SeenTools
from ace.tasks import RunSummary, answer_field
from ace.tools import Tool, ToolRegistry
from ace.tools.media import Media


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
        on_delta: Receives each piece of a reply and what it adds to the answer, for streaming.
    """

    prompts: Prompts
    inputs: dict[str, Any]
    playbook: str
    lm: Any = None
    config: Mapping[str, Any] | None = None
    on_delta: Callable[[str, str], None] | None = None

    def __post_init__(self) -> None:
        options = {"lm": self.lm, "config": self.config}
        self.options = {name: value for name, value in options.items() if value is not None}
        self.shown = {name: _as_data(value) for name, value in self.inputs.items()}
        self._rendered: tuple[tuple[ShownTurn, ...], dict[str, dict[Any, list[dict[str, Any]]]]] = ((), {})

    def ask(self, request: AskModel) -> ModelReply:
        """Ask and wait."""
        adapter, fields = self._adapter(request), self._fields(request)
        self._check_window(request, fields)
        with _asking(adapter, self._stream(request)) as asked:
            return self._reply(request, adapter, self._predictor(request)(**fields), asked)

    async def aask(self, request: AskModel) -> ModelReply:
        """Ask without blocking the loop; a model that can only be asked and waited for is, in a thread."""
        if _only_waits(self.options.get("lm") or getattr(self._predictor(request), "lm", None) or dspy.settings.lm):
            return await anyio.to_thread.run_sync(self.ask, request)
        adapter, fields = self._adapter(request), self._fields(request)
        self._check_window(request, fields)
        with _asking(adapter, self._stream(request)) as asked:
            return self._reply(request, adapter, await self._predictor(request).acall(**fields), asked)

    def _adapter(self, request: AskModel) -> Any:
        """The adapter of this request: DSPy's configured one, where there is one.

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
            native = NativeAdapter(self.prompts.catalog.functions(request.excluded), self.prompts.catalog.signatures)
            return self._conversing(native, request)
        adapter = dspy.settings.adapter or _ADAPTER
        if request.purpose == "decide":
            adapter = reading(adapter, self.prompts.catalog.reader, lambda: self._data(request))
        return adapter if request.purpose == "summarize" else self._conversing(adapter, request)

    def _conversing(self, adapter: Any, request: AskModel) -> Any:
        """An adapter that shows the earlier turns; their texts are made once while nothing of them is shortened."""
        if not request.turns:
            return adapter
        if self._rendered[0] != request.turns:
            self._rendered = (request.turns, {})
        return conversing(adapter, self._turns(request), self._rendered[1].setdefault(request.purpose, {}))

    def _turns(self, request: AskModel) -> list[dict[str, Any]]:
        """The earlier turns as fields of the predictor: each ended with its `finish`."""
        turns: list[dict[str, Any]] = []
        for turn in request.turns:
            fields = {**turn.inputs, "trajectory": turn.trajectory}
            if request.purpose == "extract":
                turns.append({**fields, "reasoning": turn.thought, **turn.outputs})
                continue
            call = {"name": FINISH, "args": dict(turn.args)}
            said = {"next_thought": turn.thought, "next_tool_name": FINISH, "next_tool_args": call["args"]}
            turns.append({**fields, "playbook": turn.playbook, **said, "next_tool_calls": [call]})
        return turns

    def _media(self, request: AskModel) -> str:
        """What tools gave that is no text, as DSPy marks it in a prompt; nothing for a model that cannot take it."""
        if not request.media:
            return ""
        if not _sees(self.options.get("lm") or getattr(self._predictor(request), "lm", None) or dspy.settings.lm):
            return ""
        shown = [(name, dspy.Image(item.url) if isinstance(item, Media) else item)
                 for name, item in request.media if not isinstance(item, Media) or item.kind == "image"]  # fmt: skip
        return "".join(f"\n\n[[ ## content_of_{name} ## ]]\n{item}" for name, item in shown)

    def _check_window(self, request: AskModel, fields: dict[str, Any]) -> None:
        """Measure the prompt against the model's window, where DSPy knows it.

        Raises:
            ContextOverflow: It is too long; nothing was sent.
        """
        before = sum(len(turn) + TURN_LAYOUT for turn in request.turns)
        if len(request.trajectory) + before < SHORT:
            return
        # what tools gave as images is no text, and stands in the field beside the trajectory
        beside = [text for name, text in fields.items() if isinstance(text, str) and name != "trajectory"]
        length = len(request.trajectory) + before + sum(map(len, beside))
        predictor = self._predictor(request)
        window = _window(self.options.get("lm") or getattr(predictor, "lm", None) or dspy.settings.lm)
        if window is None or length <= window:  # a token is a character or more
            return
        rest = [getattr(getattr(predictor, "signature", None), "instructions", ""), *beside]
        run = count_tokens("\n".join([*(turn.text for turn in request.turns), request.trajectory]))
        run += TURN_LAYOUT // 4 * len(request.turns)
        other = count_tokens("\n".join(rest))
        room = int(window * 0.95) - other - LAYOUT_TOKENS
        if run > room:
            # in a conversation more than must go, or the next message would have to be shortened as well
            keep = max(0.0, room / run) * (AFTER_A_CUT if request.turns else 1)
            error = ContextOverflow(f"{other + run:,} tokens for a window of {window:,}", keep=keep)
            error.usage = RunUsage()  # pyright: ignore[reportAttributeAccessIssue] - nothing was sent
            raise error

    def _stream(self, request: AskModel) -> AnswerStream | None:
        """Where the pieces of the reply go; None where DSPy's own way is right, or nobody listens."""
        outer = dspy.settings.send_stream
        if outer is None and self.on_delta is None:
            return None
        listeners = dspy.settings.stream_listeners or ()
        outputs = list(self.prompts.react.signature.output_fields)
        fields = {listener.signature_field_name for listener in listeners} & set(outputs)
        if request.purpose != "decide" or outer is None or not fields:
            return None if self.on_delta is None else AnswerStream(None, (), self.on_delta, answer_field(outputs))
        return AnswerStream(outer, fields, self.on_delta, answer_field(outputs))

    def _predictor(self, request: AskModel) -> Any:
        react = self.prompts.react
        if request.purpose == "decide":
            return react.react
        return react.extract if request.purpose == "extract" else self.prompts.summarizer

    def _fields(self, request: AskModel) -> dict[str, Any]:
        fields = {**self.shown, "trajectory": request.trajectory + self._media(request), **self.options}
        if request.purpose == "decide":
            fields["playbook"] = self.playbook if request.playbook else ""
            if not self.prompts.native:
                fields["tools"] = self.prompts.catalog.text(request.excluded)
        return fields

    def _data(self, request: AskModel) -> str:
        """What the prompt holds of others: a call that stands there is quoted in a reply, not made."""
        earlier = (turn.text for turn in request.turns)
        return "\n".join([*earlier, *map(value_to_text, self.shown.values()), self.playbook, request.trajectory])

    def _reply(self, request: AskModel, adapter: Any, prediction: Any, asked: _Asked) -> ModelReply:
        usage = asked.usage()
        if request.purpose == "summarize":
            return ModelReply(outputs={name: prediction[name] for name in RunSummary.model_fields}, usage=usage)
        if request.purpose == "extract":
            outputs = {name: getattr(prediction, name) for name in self.prompts.react.signature.output_fields}
            return ModelReply(str(getattr(prediction, "reasoning", None) or ""), outputs=outputs, usage=usage)
        if self.prompts.native:
            return read_reply(prediction, self.prompts.catalog, usage, asked.ended(), self._data(request))
        return ModelReply(
            thought=str(prediction.next_thought or ""),
            tool_name=prediction.next_tool_name,
            tool_args=prediction.next_tool_args,
            unmade=getattr(adapter, "unmade", ()),
            usage=usage,
        )


SHORT = 2_000
"""Characters of a trajectory below which nothing would be won by shortening it: its prompt is not measured."""
LAYOUT_TOKENS = 400
"""About what an adapter's own layout takes in a prompt."""


AFTER_A_CUT = 0.6
"""Of the room for a conversation, what is used right after it was shortened."""


def _window(lm: Any) -> int | None:
    """Tokens of a prompt that a model takes, where DSPy has its metadata in memory: nothing is fetched for this."""
    metadata = sys.modules.get("dspy.clients.model_metadata")
    if not isinstance(lm, dspy.LM) or metadata is None or getattr(metadata, "_data", None) is None:
        return None
    return _known_window(str(lm.model))


@lru_cache(maxsize=64)
def _known_window(name: str) -> int | None:
    found = _metadata(name).get("max_input_tokens")
    return int(found) if isinstance(found, (int, float)) else None


@lru_cache(maxsize=64)
def _metadata(name: str) -> dict[str, Any]:
    provider, _, model = name.partition("/")
    return sys.modules["dspy.clients.model_metadata"].model_info(provider, model)


def _only_waits(lm: Any) -> bool:
    """Whether a model of the user's own has no async way: DSPy's documents show one with `forward` alone."""
    kind = type(lm)
    return (
        isinstance(lm, dspy.BaseLM)
        and not isinstance(lm, dspy.LM)
        and kind.aforward is dspy.BaseLM.aforward
        and kind.acall is dspy.BaseLM.acall
    )


def _sees(lm: Any) -> bool:
    """Whether a model takes images: as it says itself, as DSPy's metadata have it, else as DSPy assumes it."""
    said = getattr(lm, "supports_vision", None)
    if isinstance(said, bool):
        return said
    return _window(lm) is None or _metadata(str(lm.model)).get("supports_vision") is not False


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
        self.reader = CallReader({tool.name: tool.schema for tool in (*registry, finish)})
        """Reads the calls in replies."""
        self.seen = SeenTools()
        """Makes the calls where tracers see them."""

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


@contextmanager
def _asking(adapter: Any, stream: AnswerStream | None = None):
    """Count what a request costs and turn every failure into an `AgentError` that carries the count."""
    asked, outer = _Asked(), dspy.settings.usage_tracker
    callers = [*(dspy.settings.caller_modules or ()), asked]
    settings: dict[str, Any] = {"usage_tracker": asked.tracker, "adapter": adapter, "caller_modules": callers}
    if stream is not None:
        settings |= {"send_stream": stream, "stream_listeners": []}
    try:
        with dspy.context(**settings):
            yield asked
    except Exception as error:  # border to a foreign model: whatever it raises, the run decides what it means
        failure = asked.explained(_translate(error))
        failure.usage = asked.usage()  # pyright: ignore[reportAttributeAccessIssue]
        raise failure from error
    finally:
        if outer is not None:  # as `dspy.track_usage` does
            for lm, entries in asked.tracker.usage_data.items():
                outer.usage_data[lm].extend(entries)


_ADAPTER = CachedChatAdapter()


class _Asked:
    """What is known of one request: what it cost, and why its reply ended.

    DSPy adds the reply to the `history` of every module that stands above the call, this one among them: so it is this
    request's own, also when many runs share a model. Under ``disable_history`` there is none, and a reply ended by itself.
    """

    def __init__(self) -> None:
        self.tracker = UsageTracker()
        self.history: list[dict[str, Any]] = []

    def usage(self) -> RunUsage:
        """Tokens, and how often a model was asked."""
        tokens = self.tracker.get_total_tokens().values()
        return RunUsage(
            # an adapter with a fallback of its own may have asked more than once
            lm_calls=max(1, sum(len(entries) for entries in self.tracker.usage_data.values())),
            input_tokens=sum(int(t.get("prompt_tokens") or 0) for t in tokens),
            output_tokens=sum(int(t.get("completion_tokens") or 0) for t in tokens),
        )

    def ended(self) -> str:
        """``stop``, ``length``, ``content_filter`` ...; empty where DSPy does not tell."""
        response: Any = self.history[-1].get("response") if self.history else None
        response = response[0] if isinstance(response, tuple) and response else response
        choices = getattr(response, "choices", None)
        source = choices[0] if choices else response
        return str(getattr(source, "finish_reason", None) or "")

    def explained(self, error: AgentError) -> AgentError:
        """An unreadable reply by the name of what ended it, where that was not the model itself."""
        ended = self.ended()
        if isinstance(error, InvalidModelAction) and error.reason in ("unparsable", "empty") and ended in CUT_SHORT:
            return InvalidModelAction(ended, CUT_SHORT[ended], raw_response=error.raw_response)
        return error


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
    """Say what is wrong with an answer that the adapter could not read."""
    raw = raw if isinstance(raw, str) else str(raw)
    found = dict(re.findall(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?(.*?)(?=^\[\[ ## |\Z)", raw, re.M | re.S))
    missing = [field for field in wanted if not found.get(field, "").strip()]
    nothing = raw.strip() in ("", "None") or "'text': None" in raw or "'text': ''" in raw
    return InvalidModelAction(
        "empty" if nothing else "unparsable",
        f"The reply could not be read: {', '.join(missing) or 'a field'} is missing or malformed. Write each of "
        f"{', '.join(wanted)} once, in the format that was asked for.",
        raw_response=raw,
    )
