"""The language model of a run: DSPy's predictor behind the `Model` protocol, and what adapters raise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import anyio.to_thread
import dspy
from dspy.clients import model_metadata
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError
from dspy.utils.usage_tracker import UsageTracker
from pydantic import BaseModel

from ace.agent import AskModel, ModelReply, RequestedTool
from ace.agent.history import CALLS, ENDS, NOTE, SUBMIT, TOOLS, Entry, as_text, measure, texts
from ace.core import (
    AgentError,
    ContextOverflow,
    InvalidModelAction,
    ModelTransport,
    RunUsage,
    SignatureError,
    describe_error,
    truncate,
    value_as_data,
)
from ace.playbook.render import count_tokens
from ace.react.adapter import ReplyReader, TurnsAdapter, WrittenTurns, reading
from ace.react.answer_stream import AnswerStream
from ace.react.bound import response_format
from ace.react.catalog import ToolCatalog
from ace.react.native import cut_short, decision, read_reply, thought_of
from ace.react.shown_tools import MORE
from ace.tasks import RunSummary, TaskInput, answer_field
from ace.tools.media import Media

CACHED = "cached_replies"
"""In a usage tracker's entry: that a cache answered."""
_DSPY: Any = dspy
_SETTINGS: Any = dspy.settings
"""What DSPy leaves untyped."""


@dataclass(eq=False, repr=False)
class PredictorModel:
    """The model of one run: the program's own predictor behind the `Model` protocol.

    Args:
        react: DSPy's ReAct.
        catalog: The tools that it shows.
        task: Its input fields, and what holds for it beside the predictor's own instructions.
        options: For each request: `lm`, in the place of the predictors' own or DSPy's configured one, and `config`, for the
            model's API, as `dspy.Predict` takes it.
        native: Whether the tools are the API's parameter.
        bound: Whether replies are bound to a JSON schema.
        summarizer: Writes the running summary, where there is one.
        on_delta: Receives each piece of a reply and what it adds to the answer, for streaming.
    """

    react: Any
    catalog: ToolCatalog
    task: TaskInput
    options: dict[str, Any]
    _: KW_ONLY
    native: bool = False
    bound: bool = False
    summarizer: Any = None
    on_delta: Callable[[str, str], None] | None = None
    written: WrittenTurns = field(default_factory=list[Any])
    """The turns so far as messages."""

    def ask(self, request: AskModel) -> ModelReply:
        """Ask and wait."""
        asking = _Request(self, request)
        with _asking(asking.adapter, asking.replies, self._stream(request)) as asked:
            return asking.reply(asking.predictor(**asking.fields), asked)

    async def aask(self, request: AskModel) -> ModelReply:
        """Ask without blocking the loop; a model that can only be asked and waited for is, in a thread."""
        asking = _Request(self, request)
        if _only_waits(asking.lm):
            return await anyio.to_thread.run_sync(self.ask, request)
        with _asking(asking.adapter, asking.replies, self._stream(request)) as asked:
            return asking.reply(await asking.predictor.acall(**asking.fields), asked)

    def _stream(self, request: AskModel) -> AnswerStream | None:
        """Say where the pieces of the reply go; None where DSPy's own way is right, or nobody listens."""
        outer, outputs = _SETTINGS.send_stream, list(self.react.signature.output_fields)
        fields = {listener.signature_field_name for listener in _SETTINGS.stream_listeners or ()} & set(outputs)
        if request.purpose == "summarize" or not fields:
            outer = None
        if outer is None and self.on_delta is None:
            return None
        return AnswerStream(outer, fields, self.on_delta, answer_field(outputs))


class _Request:
    """One request: what is sent, and how its reply is read."""

    def __init__(self, model: PredictorModel, request: AskModel) -> None:
        self.model = model
        self.request = request
        self.predictor = model.summarizer if request.purpose == "summarize" else model.react.react
        self.lm = model.options.get("lm") or getattr(self.predictor, "lm", None) or _SETTINGS.lm
        outputs = tuple(model.react.signature.output_fields) if request.purpose == "extract" else ()
        self.replies = ReplyReader(model.catalog, self._foreign, outputs)
        self._native = model.native and request.purpose != "summarize"
        self.fields = self._summary_fields() if request.purpose == "summarize" else self._turn_fields()
        self.adapter = self._adapter()
        self._check_window()

    def _adapter(self) -> Any:
        """Return the adapter of this request: DSPy's configured one, where there is one.

        Raises:
            SignatureError: The model cannot be called natively.
        """
        if self._native:
            # what a server behind an address can do is not known here: the caller who asks for native mode knows it
            declared = not isinstance(getattr(self.lm, "engine", ""), str)
            if self.lm is not None and declared and not getattr(self.lm, "supports_function_calling", False):
                raise SignatureError(
                    f"tool_calling='native' needs a model with function calling, and {self.lm.model!r} declares none; use "
                    "tool_calling='text'"
                )
        turns = TurnsAdapter("" if self._native else self.model.catalog.text(), self.model.written)
        own = dspy.ChatAdapter() if self.request.purpose == "summarize" else turns
        return reading(_SETTINGS.adapter or own, self.replies, native=self._native)

    def _summary_fields(self) -> dict[str, Any]:
        request = self.request
        shown = {name: as_data_value(value) for name, value in self.model.task.inputs.items()}
        return {**shown, "trajectory": as_text([*request.turns, request.said]), **self.model.options}

    def _turn_fields(self) -> dict[str, Any]:
        """Return the turns before as a history, and what this request says."""
        catalog = self.model.catalog
        entries = [*self.request.turns, self.request.said]
        if self.request.media and _sees(self.lm):
            entries = _with_media(entries, self.request.media)
        if not self._native:
            entries = [_without_end(entry) for entry in entries]
            if _SETTINGS.adapter is not None:  # else the tools stand in the system message
                entries[0] = {**entries[0], TOOLS: catalog.text()}
        *before, now = entries
        fields: dict[str, Any] = {"history": dspy.History(messages=before), **now, **self.model.options}
        if self.model.task.instructions:
            fields["signature"] = self.predictor.signature.with_instructions(self._instructions())
        if _is_own(self.lm):
            fields["lm"] = _with_read_usage(self.lm)
        if self._native:
            fields["lm"] = _taking_tools(fields.get("lm", self.lm))
            fields[TOOLS] = catalog.declared(self.request.excluded, _asked_for(entries))
            if self.request.purpose == "extract":
                choice = {"type": "function", "function": {"name": SUBMIT}}
                given: dict[str, Any] = fields.get("config") or {}
                fields["config"] = {**given, "tool_choice": choice, "reasoning_effort": None}
        elif self.model.bound:
            tools = [catalog.finish] if self.request.purpose == "extract" else catalog.tools(_asked_for(entries))
            form = response_format([tool for tool in tools if tool.name not in self.request.excluded])
            fields["config"] = {**(fields.get("config") or {}), "response_format": form}
        return fields

    def _instructions(self) -> str:
        return "\n\n".join(filter(None, [str(self.predictor.signature.instructions), self.model.task.instructions]))

    def _check_window(self) -> None:
        """Measure the prompt against the model's window, where DSPy knows it.

        Raises:
            ContextOverflow: It is too long; nothing was sent.
        """
        window = _window(self.lm)
        if window is None:
            return
        said = {name: text for name, text in self.request.said.items() if isinstance(text, str)}
        before = measure(self.request.turns) + TURN_LAYOUT * len(self.request.turns)
        catalog = self.model.catalog.text()
        if before < SHORT or before + measure([said]) + len(catalog) <= window:  # a token is a character or more
            return
        other = count_tokens("\n".join([self._instructions(), catalog, *said.values()]))
        run = count_tokens("\n".join(text for entry in self.request.turns for text in texts(entry, of_model=True)))
        run += TURN_LAYOUT // 4 * len(self.request.turns)
        room = int(window * 0.95) - other - LAYOUT_TOKENS
        if run > room:
            # in a conversation more than must go, or the next message would have to be shortened as well
            keep = max(0.0, room / run) * (AFTER_A_CUT if self.request.conversation else 1)
            error = ContextOverflow(f"{other + run:,} tokens for a window of {window:,}", keep=keep)
            error.usage = RunUsage()  # nothing was sent
            raise error

    def _foreign(self) -> str:
        """Return what the prompt holds of others: a call that stands there is quoted in a reply, not made."""
        return "\n".join(text for entry in (*self.request.turns, self.request.said) for text in texts(entry))

    def reply(self, prediction: Any, asked: _Asked) -> ModelReply:
        """Return what the model answered."""
        usage = asked.usage()
        if self.request.purpose == "summarize":
            return ModelReply(outputs={name: prediction[name] for name in RunSummary.model_fields}, usage=usage)
        if self._native:
            return read_reply(prediction, self.replies, usage, asked.ended())
        made: Iterable[Any] = self.replies.made
        if self.replies.text is None:  # an adapter of the user's own has read it
            made = dspy.ToolCalls.model_validate(prediction.tool_calls).tool_calls
        calls = [RequestedTool(call.name, call.args) for call in made] or [RequestedTool(None)]
        reply = decision(thought_of(prediction), calls, usage, self.replies.text or "")
        return replace(reply, ignored=self.replies.ignored)


def _asked_for(entries: Iterable[Entry]) -> list[str]:
    """Return what the model has asked `more_tools` for."""
    calls = (call for entry in entries if CALLS in entry for call in entry[CALLS][CALLS])
    return [str(call["args"].get("what", "")) for call in calls if call["name"] == MORE]


def _without_end(entry: Entry) -> Entry:
    """Drop from a turn that ended a message the result of its call, which says nothing; the API alone wants one."""
    calls = entry.get(CALLS)
    if calls is None or any(call["name"] not in ENDS for call in calls[CALLS]):
        return entry
    return {**entry, CALLS: {CALLS: [{"name": call["name"], "args": call["args"]} for call in calls[CALLS]]}}


def _with_media(entries: list[Entry], media: tuple[tuple[str, Any], ...]) -> list[Entry]:
    """Put images that a tool gave behind its result in the turns, as DSPy marks them in a prompt."""
    shown = [
        (call_id, dspy.Image(item.url) if isinstance(item, Media) else item)
        for call_id, item in media
        if not isinstance(item, Media) or item.kind == "image"
    ]
    found = [dict(entry) for entry in entries]
    for before, after in pairwise(found):
        ids: set[str] = {call["id"] for call in before.get(CALLS, {}).get(CALLS, ())}
        parts = [f"Content of the result of {call_id}:\n{item}" for call_id, item in shown if call_id in ids]
        if parts:
            after[NOTE] = "\n\n".join([*parts, *filter(None, [after.get(NOTE, "")])])
    return found


SHORT = 2_000
"""Characters of turns below which nothing would be won by shortening them: their prompt is not measured."""
TURN_LAYOUT = 60
"""About what the layout around a turn takes, in characters."""
LAYOUT_TOKENS = 400
"""About what an adapter's own layout takes in a prompt."""
AFTER_A_CUT = 0.6
"""Of the room for a conversation, what is used right after it was shortened."""


def _window(lm: Any) -> int | None:
    """Return the tokens of a prompt that a model takes, where DSPy's metadata know it."""
    if not isinstance(lm, dspy.LM) or not isinstance(getattr(lm, "engine", ""), (str, type(None))):
        return None  # a model behind an engine of its own is none that they know
    found = _metadata(str(cast(Any, lm).model)).get("max_input_tokens")
    return int(found) if isinstance(found, (int, float)) else None


@lru_cache(maxsize=64)
def _metadata(name: str) -> dict[str, Any]:
    provider, _, model = name.partition("/")
    return cast(Any, model_metadata).model_info(provider, model)


def _only_waits(lm: Any) -> bool:
    """Check whether a model of the user's own has no async way: DSPy's documents show one with `forward` alone."""
    kind, base = cast(Any, type(lm)), _DSPY.BaseLM
    return _is_own(lm) and kind.aforward is base.aforward and kind.acall is base.acall


def _is_own(lm: Any) -> bool:
    """Check whether a model is a class of the user's own."""
    return isinstance(lm, _DSPY.BaseLM) and not isinstance(lm, dspy.LM)


def _with_read_usage(lm: Any) -> Any:
    """Wrap a user's own model, whose replies may be objects of any class: DSPy takes their usage for something like a
    dict."""
    copied = copy.copy(lm)

    def forward(*args: Any, **kwargs: Any) -> Any:
        reply: Any = lm.forward(*args, **kwargs)
        usage: Any = getattr(reply, "usage", None)
        if usage is not None and not hasattr(usage, "__iter__"):
            reply.usage = dict(usage.__dict__)
        return reply

    copied.forward = forward
    return copied


class _ToolCallingLM(dspy.LM):
    """A model of which DSPy does not know that it takes tools: the caller who asks for native mode knows it."""

    @property
    def supports_function_calling(self) -> bool:
        """True."""
        return True


def _taking_tools(lm: Any) -> Any:
    """Prepare the model for a request that brings tools; DSPy would leave them out where its metadata do not know the
    model."""
    if type(lm) is not dspy.LM or lm.supports_function_calling:
        return lm
    copied = copy.copy(lm)
    copied.__class__ = _ToolCallingLM
    return copied


def _sees(lm: Any) -> bool:
    """Check whether a model takes images: as it says itself, as DSPy's metadata have it, else as DSPy assumes it."""
    said = getattr(lm, "supports_vision", None)
    if isinstance(said, bool):
        return said
    return _window(lm) is None or _metadata(str(lm.model)).get("supports_vision") is not False


def as_data_value(value: Any) -> Any:
    """Return an input as a prompt may hold it; images and the like are left to DSPy."""
    if isinstance(value, BaseModel) and not isinstance(value, dspy.Type):
        fields = {name: as_data_value(getattr(value, name)) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, (list, tuple)):
        return [as_data_value(item) for item in cast("list[Any]", value)]
    return value_as_data(value)


@contextmanager
def _asking(adapter: Any, replies: ReplyReader, stream: AnswerStream | None = None) -> Generator[_Asked]:
    """Count what a request costs and turn every failure into an `AgentError` that carries the count."""
    asked, outer = _Asked(), _SETTINGS.usage_tracker
    callers = [*(_SETTINGS.caller_modules or ()), asked]
    settings: dict[str, Any] = {"usage_tracker": asked.tracker, "adapter": adapter, "caller_modules": callers}
    if stream is not None:
        settings |= {"send_stream": stream, "stream_listeners": []}
    try:
        with _DSPY.context(**settings):
            yield asked
    except Exception as error:  # border to a foreign model: whatever it raises, the run decides what it means
        failure = asked.explained(_translate(error, replies))
        failure.usage = asked.usage()
        raise failure from error
    finally:
        if outer is not None:  # as `dspy.track_usage` does
            for lm, entries in asked.tracker.usage_data.items():
                outer.usage_data[lm].extend(entries)


class _Asked:
    """What is known of one request: what it cost, and why its reply ended.

    DSPy adds the reply to the `history` of every module that stands above the call, this one among them: so it is this
    request's own, also when many runs share a model. Under ``disable_history`` there is none, and a reply ended by itself.
    """

    def __init__(self) -> None:
        self.tracker: Any = UsageTracker()
        self.history: list[dict[str, Any]] = []

    def usage(self) -> RunUsage:
        """Count the tokens, and how often a model was asked."""
        tokens = self.tracker.get_total_tokens().values()
        return RunUsage(
            # an adapter with a fallback of its own may have asked more than once
            lm_calls=max(1, sum(len(entries) for entries in self.tracker.usage_data.values())),
            input_tokens=sum(int(t.get("prompt_tokens") or 0) for t in tokens),
            output_tokens=sum(int(t.get("completion_tokens") or 0) for t in tokens),
            cached=sum(int(t.get(CACHED) or 0) for t in tokens),
        )

    def ended(self) -> str:
        """Say how a reply ended, ``stop``, ``length``, ``content_filter`` ...; empty where DSPy does not tell."""
        response: Any = self.history[-1].get("response") if self.history else None
        if isinstance(response, tuple):
            response = cast(Any, response)[0]
        choices: Any = getattr(response, "choices", None)
        source: Any = choices[0] if choices else response
        return str(getattr(source, "finish_reason", None) or "")

    def explained(self, error: AgentError) -> AgentError:
        """Name an unreadable reply by what ended it, where that was not the model itself."""
        if isinstance(error, InvalidModelAction) and error.reason in ("unparsable", "empty"):
            return cut_short(self.ended(), error.raw_response) or error
        return error


def _translate(error: Exception, replies: ReplyReader) -> AgentError:
    if isinstance(error, AgentError):
        return error
    if isinstance(error, AdapterParseError):
        text = replies.text or ""
        wanted = ", ".join(cast(Any, error.signature).output_fields)
        said = "was empty" if not text.strip() else "could not be read"
        return InvalidModelAction(
            "unparsable" if text.strip() else "empty",
            f"The reply {said}. Write {wanted} in the format that was asked for.",
            raw_response=text,
        )
    if isinstance(error, RecursionError):
        return InvalidModelAction("invalid_args", "The reply is nested too deeply.")
    if isinstance(error, ContextWindowExceededError):
        return ContextOverflow("the prompt does not fit the model's context window, shortened as far as it can be")
    return ModelTransport(truncate(describe_error(error), 500))
