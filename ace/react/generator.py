"""`ReActGenerator`: the DSPy module that users call."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import anyio.to_thread
import dspy

from ace.agent import (
    Agent,
    AgentRun,
    FolderRunStore,
    Policy,
    PolicyEngine,
    ResumeDecision,
    RunSnapshot,
    RunSpec,
    RunStore,
    Summary,
    adrive,
    drive,
)
from ace.agent.history import PLAYBOOK
from ace.agent.hooks import OutputMode
from ace.agent.output import error_of
from ace.agent.record import DEFAULT_MAX_ITERS
from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import (
    CancellationToken,
    Event,
    Observer,
    ObserverThread,
    PlaybookError,
    SignatureError,
    TokenPrices,
    ToolRegistrationError,
    UsageLimits,
    as_data,
    clean_text,
    current_context,
)
from ace.core.text import counted
from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.release import PlanMode
from ace.playbook.render import render_bullets
from ace.react.chat import Chat
from ace.react.inputs import InputFields, RunOptions, check_json
from ace.react.memory import MEMORY_TIMEOUT, Memory, PlaybookLearning
from ace.react.model import PredictorModel, as_data_value
from ace.react.plans import PLAN, PlanTool, as_plan, offered
from ace.react.prediction import ReActPrediction
from ace.react.program import (
    adopt_react_state,
    build_react,
    build_summarizer,
    check_fields,
    history_position,
    saved_state,
    without_history,
    without_keys,
)
from ace.react.seen import SeenTools
from ace.react.shared import Shared
from ace.react.spans import Span, span
from ace.react.tool_cards import TOOLS_KEY, adopt_cards, build_cards, descriptions, record_calls
from ace.tasks import Feedback, TaskInput, TaskOutput, run_of
from ace.tools import Tool, ToolRegistry, TypedTool, from_dspy
from ace.tools.changes import describe_tools

if TYPE_CHECKING:
    from ace.learner import Learner, LearningReport

_log = logging.getLogger(__name__)
_SETTINGS: Any = dspy.settings
Token = CancellationToken | None
Decision = ResumeDecision | None
Listener = Callable[[Event], None]
_Listener = Listener | None
_Task = TaskInput | str | None
_Prepared = tuple[AgentRun, PredictorModel]


class BulletSource(Protocol):
    """Where bullets come from, a `Playbook` or anything like it: `ReActGenerator(tools=[look_up], playbook=book)`."""

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """Choose the bullets to show for a task, best first, to an agent with these tools (name to schema hash)."""
        ...


class ReActGenerator(dspy.Module, Agent):
    """A tool-calling agent with validated tools, a strict run-time and a playbook.

    It wraps DSPy's ReAct (`dspy.ReActV2`; from DSPy 3.5 on `dspy.ReAct`): the predictor that runs is ``self.agent.react``,
    so that optimizers, `save` and `load` work as for any DSPy program.

    Args:
        signature: Any DSPy signature; the default takes a `task` and gives an `answer`.
        tools: Functions, `Tool`s, `TypedTool`s or `dspy.Tool`s; one alone needs no list.
        playbook: A `Playbook`, its path, or anything with `retrieve_for`.
        memory_timeout: Seconds that a run waits for its bullets; then it goes on without, and `out.memory` says so. None
            waits as long as it takes.
        lm: The language model; DSPy's configured one by default.
        max_iters: Limit on iterations; a task's own limit goes first, 10 is the default.
        limits: What a run may spend on requests, tool calls, tokens, money and time.
        policy: What to do about bad replies, failed tools and loops. By default ``"forgiving"``: after a bad reply the
            model is told what fits, and the run goes on. ``"lenient"`` asks again, ``"default"`` ends the run.
        tool_calling: ``text``: the catalog is part of the prompt and any model works. ``native``: it is the API's
            ``tools`` parameter, and the model may ask for several calls at once; those that only read run side by side.
        plans: Offer the plan of a lesson as one tool: the model fills what it leaves open, and the run makes its calls, each
            like any other; at the first surprise the model goes on. ``approved`` offers what a person released (`ace
            playbook release`), ``proven`` also what was measured to help (`Experiment(holdout=...)`).
        tools_shown: Show only so many tools, those nearest to the request, and those that the lessons name; the model asks
            for others with `more_tools`. None shows all.
        replies: ``bound`` binds each reply of a text to a JSON schema, where the server can do that (`response_format`): the
            name of a tool, then its arguments by that tool's schema. What comes is checked all the same.
        output_mode: What ``str()`` of a prediction is: the bare answer (``simple``) or all fields (``structured``).
        summary: Keep a running summary.
        run_store: A folder: every step of every run is on the disk before it is done, and `resume` goes on after a crash.
            Without one, runs that wait for a decision are kept in this process.
        prices: What the model's tokens cost, for `limits.cost` and `usage.cost`.
        observers: Called with every event of every run, each in a thread of its own.
        raise_on_failure: Whether `forward` raises what ended a run instead of returning it.
        metric: Judges a run for `learn` where no verdict is given: ``metric(example, prediction)``, as any of DSPy's; the
            example holds the run's inputs.

    Attributes:
        tool_changes: After `load`: in words, what is different about the tools since the state was saved.

    Raises:
        SignatureError: A field name is reserved, or two settings contradict each other.
        ToolRegistrationError: Something cannot become a tool.

    Examples:
        >>> from ace.testing import ScriptedLM, decision
        >>> from ace.tools import calculator
        >>> lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("submit", answer="42")])
        >>> ReActGenerator(tools=[calculator], lm=lm).forward("What is 6 times 7?").answer
        '42'
    """

    def __init__(
        self,
        signature: str | type[dspy.Signature] = "task -> answer",
        *,
        tools: Iterable[Tool | TypedTool[Any, Any] | Callable[..., Any]] | ToolRegistry | Callable[..., Any],
        playbook: BulletSource | str | Path | None = None,
        memory_timeout: float | None = MEMORY_TIMEOUT,
        lm: Any = None,
        max_iters: int | None = None,
        limits: UsageLimits | None = None,
        policy: PolicyEngine | Literal["default", "forgiving", "lenient", "replay"] | None = None,
        tool_calling: Literal["text", "native"] = "text",
        plans: PlanMode = "off",
        tools_shown: int | None = None,
        replies: Literal["free", "bound"] = "free",
        output_mode: OutputMode = "structured",
        summary: Summary | None = None,
        run_store: RunStore | str | Path | None = None,
        prices: TokenPrices | None = None,
        observers: Iterable[Observer] = (),
        raise_on_failure: bool = False,
        metric: Callable[..., Any] | None = None,
    ) -> None:
        _untyped(super()).__init__()
        _check_one_of("tool_calling", tool_calling, ("text", "native"))
        _check_one_of("output_mode", output_mode, ("simple", "structured"))
        _check_one_of("replies", replies, ("free", "bound"))
        _check_one_of("plans", plans, ("off", "approved", "proven"))
        if replies == "bound" and tool_calling == "native":
            raise SignatureError("replies='bound' is for tool_calling='text': with native calls the API writes them")
        _check_least("max_iters", max_iters, 0, f"{DEFAULT_MAX_ITERS} iterations")
        _check_least("tools_shown", tools_shown, 1, "all tools")
        _check_parts(lm, memory_timeout, observers)
        check_prices(limits, prices)
        self.signature: Any = _untyped(dspy).Signature(signature) if isinstance(signature, str) else signature
        check_fields(self.signature)
        self.tool_changes: list[str] = []
        self.registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(_as_tools(tools))
        message = without_history(self.signature)
        self.agent: Any = build_react(message, self.registry, max_iters or DEFAULT_MAX_ITERS, tool_calling == "native")
        self.cards: dict[str, Any] = {}
        self.tool_calling = tool_calling
        self.replies = replies
        self.plans: PlanMode = plans
        self.output_mode: OutputMode = output_mode
        self.summary = summary
        self.summarizer = None if summary is None else build_summarizer(message)
        self.max_iters = max_iters
        self.limits = limits or UsageLimits()
        self.prices = prices
        self.policy: PolicyEngine = Policy.named(policy) if isinstance(policy, str) else policy or Policy.forgiving()
        source = Playbook.open(playbook) if isinstance(playbook, (str, Path)) else playbook
        store = FolderRunStore(run_store) if isinstance(run_store, (str, Path)) else run_store
        memory = Memory(source, memory_timeout)
        self._shared = Shared.of(self.signature, self.registry, memory, lm, observers, store, tools_shown)
        self.raise_on_failure = raise_on_failure
        self.metric = metric

    # -- what copies share -----------------------------------------------------------------------------------------------

    def __copy__(self) -> ReActGenerator:
        copied = self.__class__.__new__(self.__class__)
        vars(copied).update(vars(self))
        return copied

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        fields = " -> ".join(", ".join(side) for side in (self.signature.input_fields, self.signature.output_fields))
        model = getattr(self.lm, "model", "DSPy's configured model")
        memory = "no playbook" if self.playbook is None else repr(self.playbook)
        return f"<{type(self).__name__} {fields}: {counted(len(self.registry), 'tool')}, {model}, {memory}>"

    def _repr_markdown_(self) -> str:
        tools = (f"* `{tool.name}`: {tool.description}" for tool in self.registry)
        return "\n".join([repr(self).strip("<>"), "", *tools])

    @property
    def finish(self) -> Tool:
        """The tool that ends a run."""
        return self._shared.catalog.finish

    @property
    def memory_timeout(self) -> float | None:
        """Seconds that a run waits for its bullets."""
        return self._shared.memory.timeout

    @property
    def playbook(self) -> Any:
        """Where bullets come from; None for no memory."""
        return self._shared.memory.source

    @playbook.setter
    def playbook(self, source: BulletSource | None) -> None:
        self._shared = self._shared.with_memory(Memory(source, self.memory_timeout))

    @property
    def lm(self) -> Any:
        """This agent's own model; None for DSPy's configured one."""
        return self._shared.lm

    @lm.setter
    def lm(self, lm: Any) -> None:
        self._shared = replace(self._shared, lm=lm)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Called with every event of every run."""
        return tuple(thread.observer for thread in self._shared.observers)

    @observers.setter
    def observers(self, observers: Iterable[Observer]) -> None:
        threads: tuple[ObserverThread[Event], ...] = tuple(map(ObserverThread, observers))
        self._shared = replace(self._shared, observers=threads)

    def set_lm(self, lm: Any) -> None:
        """Set the model of the predictors, in place of the agent's own."""
        _untyped(super()).set_lm(lm)
        self.lm = None

    def get_lm(self) -> Any:
        """Return the model that the predictors use: the agent's own, or the one that was set for all of them."""
        return _untyped(super()).get_lm() if self.lm is None else self.lm

    def _check_lm(self, lm: Any) -> None:
        """Refuse a run without a model now, and not after a playbook was searched."""
        _check_no_name(lm)
        chosen = lm or self.lm or getattr(self.agent.react, "lm", None) or _SETTINGS.lm
        if isinstance(self.agent.react, dspy.Predict) and not isinstance(chosen, dspy.BaseLM):
            problem = (
                "no language model is configured" if chosen is None else f"expected a dspy.BaseLM, got {chosen!r:.100}"
            )
            raise ValueError(f"{problem}; use dspy.configure(lm=dspy.LM(...)) or lm=dspy.LM(...)")

    # -- calling -----------------------------------------------------------------------------------------------------

    def forward(self, *task: TaskInput | str, **fields: Any) -> ReActPrediction:
        """Solve one task.

        Args:
            task: A `TaskInput`, or the text of the signature's only input field.
            **fields: The signature's input fields; `history`, the conversation so far (`out.history`, a `dspy.History`, or
                messages); and `task_id`, `domain`, `tenant`, `user`, `max_iters`. For this call alone: `lm`, a model;
                `config`, for the model's API; `limits`, tighter `UsageLimits`; `cancellation`, a `CancellationToken`;
                `run_id`, for a run that is to be found again in the `run_store`.

        Returns:
            The outputs; `termination_reason` and `error` say whether the model finished.

        Raises:
            SignatureError: Input fields are missing, or a keyword is nearly an option's.
            ValueError: There is no model; DSPy's own error.
        """
        if not _called_as_module(self):  # a direct call gets the same callbacks and usage as agent(...)
            return _untyped(self)(*task, **fields)
        return self._solve(_only(task), fields)

    async def aforward(self, *task: TaskInput | str, **fields: Any) -> ReActPrediction:
        """Run as `forward` does, for async callers; async tools run on the event loop."""
        return await self._asolve(_only(task), fields)

    async def apredict(
        self, task: TaskInput | str | None = None, /, *, listener: Listener, **fields: Any
    ) -> ReActPrediction:
        """Run as `aforward` does, and tell a function every event as it happens: a stream that ends with a prediction."""
        return await self._asolve(task, fields, listener)

    def chat(self, chat_id: str | None = None, **options: Any) -> Chat:
        """Begin a conversation, or open one that is in the `run_store`.

        Args:
            chat_id: Its name; a new one by default.
            **options: For each message, as `forward` takes them.

        Examples:
            >>> from ace.testing import ScriptedLM, decision
            >>> lm = ScriptedLM([decision("submit", answer="At home"), decision("submit", answer="At the depot")])
            >>> chat = ReActGenerator(tools=[], lm=lm).chat()
            >>> chat.send("Where is Ana's order?").answer, chat.send("And Ben's?").answer
            ('At home', 'At the depot')
        """
        return Chat(self, chat_id, **options)

    def entries_of(self, history: Any) -> tuple[dict[str, Any], ...]:
        """Return a history, `out.history` for example, as plain JSON."""
        return self._shared.inputs.history(history)

    def history_of(self, stored: RunSnapshot) -> tuple[dict[str, Any], ...]:
        """Return the conversation that a stored run belongs to, with that run as its last turn, whatever tools it had."""
        record = stored.reopened(self.finish)
        return self._shared.inputs.history(record.so_far(record.steps).entries())

    def output_of(self, stored: RunSnapshot) -> TaskOutput:
        """Return what came out of a stored run.

        Raises:
            RunStoreError: It began with other tools.
        """
        return AgentRun.restore(stored, self._spec(stored.task, "", None, None, max_iters=stored.max_iters)).output()

    @property
    def run_store(self) -> RunStore:
        """Where runs are kept."""
        return self._shared.store

    def run(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """Solve one task and return the plain `TaskOutput`."""
        return run_of(self._solve(task, fields))

    async def arun(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """Run as `run` does, for async callers."""
        return run_of(await self._asolve(task, fields))

    def stream(self, task: TaskInput | str | None = None, /, **fields: Any) -> RunStream[Event, TaskOutput]:
        """Solve one task and give its events as they happen, pieces of the model's replies included.

        Examples:
            >>> from ace import ReActGenerator
            >>> from ace.testing import ScriptedLM, decision
            >>> agent = ReActGenerator(tools=[], lm=ScriptedLM([decision("submit", answer="42")]))
            >>> with agent.stream("What is 6 times 7?") as stream:
            ...     kinds = [event.kind for event in stream]
            >>> kinds[0], kinds[-1], stream.output.answer
            ('run_started', 'run_completed', '42')
        """
        self._check_loop()
        return RunStream[Event, TaskOutput].of(self.astream(task, **fields))

    def astream(self, task: TaskInput | str | None = None, /, **fields: Any) -> AsyncRunStream[Event, TaskOutput]:
        """Stream as `stream` does, for async callers."""
        token = fields.pop("cancellation", None) or CancellationToken()

        async def start(listener: Listener) -> TaskOutput:
            options = {**fields, "cancellation": token}
            return run_of(await self._asolve(task, options, listener))

        return AsyncRunStream(start, token)

    def resume(
        self, run_id: str, decision: Decision = None, *, lm: Any = None, cancellation: Token = None
    ) -> ReActPrediction:
        """Go on with a run that was paused, cancelled, or cut off with its process.

        Args:
            run_id: `out.run_id`, or one of `run_store.run_ids()`.
            decision: For a run that waits for one (`out.request`): ``"approve"``, ``"deny"``, `Approve` with other
                arguments, or `Deny` with a reason that the model reads; or one of these by the id of each call that
                waits, ``{"s1-c1": "approve", "s1-c2": "deny"}`` (`out.request.calls[i].tool_call_id`).
            lm: A model for the rest of the run; the agent's own by default.
            cancellation: A token for the rest of the run.

        Raises:
            RunStoreError: The run is unknown, damaged, driven by another process, or began with other tools.
            ResumeError: A decision is missing or not needed; nothing has changed.
        """
        self._check_loop()
        with self.run_store.claim(run_id):
            run, model = self._reopen(run_id, decision, lm=lm, cancellation=cancellation)
            with self._span() as open_span:
                return _report_to(open_span, self._drive(run, model, claimed=True))

    async def aresume(
        self, run_id: str, decision: Decision = None, *, lm: Any = None, cancellation: Token = None
    ) -> ReActPrediction:
        """Resume as `resume` does, for async callers."""
        return await self._aresumed(run_id, decision, lm=lm, cancellation=cancellation)

    async def _aresumed(self, run_id: str, *given: Any, **options: Any) -> ReActPrediction:
        with self.run_store.claim(run_id):
            run, model = await anyio.to_thread.run_sync(partial(self._reopen, run_id, *given, **options))
            with self._span() as open_span:
                return _report_to(open_span, await self._adrive(run, model, claimed=True))

    def stream_resume(
        self, run_id: str, decision: Decision = None, *, lm: Any = None, cancellation: Token = None
    ) -> RunStream[Event, TaskOutput]:
        """Resume as `resume` does, as a stream of the events from there on."""
        self._check_loop()
        return RunStream[Event, TaskOutput].of(self.astream_resume(run_id, decision, lm=lm, cancellation=cancellation))

    def astream_resume(
        self, run_id: str, decision: Decision = None, *, lm: Any = None, cancellation: Token = None
    ) -> AsyncRunStream[Event, TaskOutput]:
        """Resume as `stream_resume` does, for async callers."""
        token = cancellation or CancellationToken()

        async def start(listener: Listener) -> TaskOutput:
            return run_of(await self._aresumed(run_id, decision, listener, lm=lm, cancellation=token))

        return AsyncRunStream(start, token)

    def bound_to(
        self, registry: ToolRegistry, *, playbook: BulletSource | None = None, lm: Any = None
    ) -> ReActGenerator:
        """Return this agent over another world: same predictors and policy, tools with other bodies.

        Args:
            registry: Tools with the same names and schemas, bound to something else.
            playbook: Another memory; none when left out.
            lm: Another model; this agent's own when left out.

        Raises:
            ToolRegistrationError: The tools differ in more than their bodies.
        """
        if registry.schema_hashes != self.registry.schema_hashes:
            raise ToolRegistrationError("bound_to needs tools with the same names and schemas; construct a new agent")
        bound = copy.copy(self)
        bound.registry = registry
        bound.playbook = playbook
        bound.lm = lm if lm is not None else self.lm
        return bound

    def with_tool_cards(self) -> ReActGenerator:
        """Copy it with tool descriptions that are components which optimizers may rewrite, one per tool.

        Each tool becomes a predictor (``cards['NAME']``) that is never sent to a model: its instructions are what the
        catalog says of the tool, and every call is an example for it. Names and arguments stay as they are.

        Examples:
            >>> from ace.tools import calculator
            >>> carded = ReActGenerator(tools=[calculator]).with_tool_cards()
            >>> [name for name, _ in carded.named_predictors()]
            ['agent.react', "cards['calculator']"]
        """
        carded = self.deepcopy()
        carded.cards = carded.cards or build_cards(carded.registry)
        return carded

    def learn(self, output: Any, success: Feedback | bool | float | None = None, *, group: str = "") -> LearningReport:
        """Learn from a run of this agent: what worked becomes a lesson in its playbook, and what did not a warning.

        A later verdict on the same run takes the place of the earlier one: what rested on that alone is withdrawn. A run
        that did not end by itself teaches no Strategy, whatever the verdict.

        Args:
            output: What `forward` or `run` returned.
            success: Whether it did what it should; a number counts as success from 0.5, `Feedback` says more. Needed where
                the agent has no `metric`: that the model finished says nothing about it.
            group: The task's family.

        Returns:
            What was learned; `postponed` is 1 where the playbook was out of reach, or learning took more than 5 s of CPU
            time, and the run is kept for later.

        Raises:
            ValueError: There is no verdict, or it is no verdict, or the agent has no playbook to write to.
            PlaybookError: The playbook is out of reach, and so is the file in which the run would wait for it; it waits in
                this process.

        Examples:
            >>> from ace.playbook import CallableEmbedder, Playbook
            >>> from ace.testing import ScriptedLM, decision
            >>> from ace.tools import calculator
            >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
            >>> lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("submit", answer="42")])
            >>> agent = ReActGenerator(tools=[calculator], lm=lm, playbook=book)
            >>> agent.learn(agent.forward("What is 6 * 7?"), success=True).added
            1
        """
        verdict, run = self._verdict(output, success), run_of(output)
        learn = partial(self._learner().learn_or_keep, run, verdict, group=group)
        with span("upsert_memory") as open_span:
            report: LearningReport = _untyped(PlaybookLearning(learn))(
                run_id=run.run_id, success=verdict.success
            ).report
            open_span.set(memory__record__count=report.added + report.merged)
        return report

    def retract(self, output: Any) -> None:
        """Take back what a run has taught this agent's playbook, and its credit: `agent.retract(out)`.

        Args:
            output: What `forward` or `run` returned, or the run's id.

        Raises:
            ValueError: The agent has no playbook to write to.
            PlaybookError: The playbook has learned nothing from the run.
        """
        self._learner().retract(output)

    def _learner(self) -> Learner:
        from ace.learner import Learner
        from ace.reflector import Reflector

        if not isinstance(self.playbook, Playbook):
            raise ValueError(
                "learn needs an agent with a playbook of its own: ReActGenerator(..., playbook=Playbook(...))"
            )
        if not self._shared.learner:
            source = str(getattr(self.lm or _SETTINGS.lm, "model", ""))
            if isinstance(self.run_store, FolderRunStore):
                self.playbook.remember_queue(self.run_store.folder)
            self._shared.learner.append(Learner(self.playbook, reflector=Reflector(source), tools=self.registry))
        return self._shared.learner[0]

    def _verdict(self, output: Any, success: Feedback | bool | float | None) -> Feedback:
        """Return the verdict on a run: the one that was given, or the metric's."""
        if success is not None:
            return Feedback.of(success)
        if self.metric is None:
            raise ValueError(
                "learn needs a verdict, as a run that ended may not have done what it should: learn(out, success=True) "
                "or False, a number, a Feedback; or give the agent a metric: ReActGenerator(..., metric=...)"
            )
        example = _untyped(dspy).Example(**run_of(output).task.inputs)
        return Feedback.by(self.metric, example.with_inputs(*self.signature.input_fields), output)

    def save(
        self, path: str | Path, save_program: bool = False, modules_to_serialize: list[ModuleType] | None = None
    ) -> None:
        """Save the state to a file, or the whole program to a folder, as any DSPy module does; keys of models stay behind.

        Args:
            path: The file, ``.json`` or ``.pkl``, or the folder.
            save_program: Whether the whole program is saved.
            modules_to_serialize: Modules that are written into it by value.
        """
        program = self
        if save_program:
            program = self.deepcopy()
            program.lm = without_keys(self.lm)
            for predictor in _untyped(program).predictors():
                predictor.lm = without_keys(predictor.lm)
        _untyped(super(ReActGenerator, program)).save(path, save_program, modules_to_serialize)

    # -- what DSPy calls -----------------------------------------------------------------------------------------------

    def __getattribute__(self, name: str) -> Any:
        # DSPy warns on every direct call of forward; here that is a supported way to call
        if name == "forward":
            return object.__getattribute__(self, name)
        return _untyped(super()).__getattribute__(name)

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Return the predictors' state, and the tools it was learned with."""
        state = saved_state(_untyped(super()).dump_state(json_mode=json_mode), self.agent)
        book = {PLAYBOOK: self.playbook.dump_state()} if isinstance(self.playbook, Playbook) else {}
        return {**state, TOOLS_KEY: describe_tools(self.registry), **book}

    def load_state(self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load state saved by this class or by a plain ReAct of DSPy over the same signature.

        When the tools have changed since, a warning and `tool_changes` say exactly how. What was learned of a tool whose
        arguments are others now is left behind; the rest is loaded. The playbook comes back too, its lessons or the book on
        disk by its path, where this agent has no lessons and no book on a disk; a warning says where that cannot be.
        """
        state = dict(state)
        self._load_playbook(state.pop(PLAYBOOK, None))
        adopted = adopt_react_state(state, self.agent, history_position(self.signature))
        if self.cards or any(name.startswith("cards[") for name in adopted):
            # made again: what an earlier state said of a tool is not this one's
            self.cards = build_cards(self.registry)
        own = _untyped(super()).dump_state()
        adopted, self.tool_changes = adopt_cards(adopted, self.registry, own)
        _untyped(super()).load_state(adopted, allow_unsafe_lm_state=allow_unsafe_lm_state)

    def _load_playbook(self, saved: Any) -> None:
        own = self.playbook
        replaceable = own is None or (isinstance(own, Playbook) and own.in_memory and not len(own))
        if saved is None or not replaceable:
            return
        try:
            self.playbook = Playbook.load_state(saved)
        except PlaybookError as error:
            _log.warning("the program was saved with a playbook, and is loaded without: %s", error)
            warnings.warn(
                f"the program was saved with a playbook, and is loaded without: {error}. Put the file back and load again, "
                "or give the agent a playbook: agent.playbook = Playbook(path)",
                stacklevel=3,
            )

    # -- preparing, driving and closing a run ---------------------------------------------------------------------------

    def _span(self) -> AbstractContextManager[Span]:
        name = type(self).__name__
        return span("invoke_agent", name, agent__name=name)

    def _solve(self, task: _Task, fields: dict[str, Any]) -> ReActPrediction:
        self._check_loop()
        with self._span() as open_span:
            return _report_to(open_span, self._drive(*self._prepare(task, fields)))

    def _check_loop(self) -> None:
        """Refuse a sync run that would wait for a session on this very loop, while the loop waits for the run."""
        loops = {tool.metadata.get("loop") for tool in self.registry} - {None}
        if loops and asyncio._get_running_loop() in loops:
            raise ToolRegistrationError(
                "this agent's MCP session lives on the event loop that runs here, and a sync run would wait for itself; "
                "use `await agent.acall(...)` or `await agent.arun(...)`"
            )

    async def _asolve(self, task: _Task, fields: dict[str, Any], listener: _Listener = None) -> ReActPrediction:
        with self._span() as open_span:
            return _report_to(open_span, await self._adrive(*await self._aprepare(task, fields, listener)))

    def _prepare(self, task: _Task, fields: dict[str, Any], listener: _Listener = None) -> _Prepared:
        inputs: InputFields = self._shared.inputs
        options = RunOptions.pop(fields, inputs.names)
        given = inputs.task(task, fields)
        self._check_lm(options.lm)
        if self.run_store.every_step:
            check_json(given)
        recalled = self._shared.memory.recall(given, self.registry.schema_hashes)
        limit = next((n for n in (given.max_iters, self.max_iters) if n is not None), DEFAULT_MAX_ITERS)
        limits, outer = self.limits, current_context()
        if options.limits is not None:
            limits = limits.tighter(options.limits)
        if outer is not None:  # this run serves a tool of another run: it gets no more than that one has left
            limits = limits.tighter(outer.remaining.left(outer.tally.usage))
            if outer.seconds_left is not None:
                limits = limits.tighter(UsageLimits(seconds=outer.seconds_left))
        check_prices(limits if outer is None else options.limits, self.prices)
        bullets = recalled.bullets
        plan = offered(bullets, self.plans, self.registry)
        text = as_data(clean_text(render_bullets(as_plan(bullets, plan))))
        spec = self._spec(
            given,
            text,
            options.cancellation,
            listener,
            plan=plan,
            max_iters=limit if limits.iterations is None else min(limit, limits.iterations),
            limits=limits,
            injected_bullets=tuple(bullet.id for bullet in bullets),
            context={"playbook": text} if plan is None else {"playbook": text, PLAN: plan.stored()},
            metadata=_left_out(bullets) if plan is None else {**_left_out(bullets), **plan.metadata},
            memory=recalled.use,
        )
        run = AgentRun(spec, options.run_id)
        return run, self._model(run, options)

    async def _aprepare(self, task: _Task, fields: dict[str, Any], listener: _Listener = None) -> _Prepared:
        await self._shared.admission.turn()
        if self.playbook is None and self._shared.catalog.shown is None:
            return self._prepare(task, fields, listener)
        # retrieval embeds and reads a database: not on the event loop
        return await anyio.to_thread.run_sync(self._prepare, task, fields, listener)

    def _reopen(
        self, run_id: str, decision: Decision, listener: _Listener = None, *, lm: Any, cancellation: Token
    ) -> _Prepared:
        stored: RunSnapshot = self.run_store.load(run_id)
        text = stored.context.get("playbook", "")
        plan = PlanTool.of_stored(stored.context[PLAN], self.registry) if PLAN in stored.context else None
        spec = self._spec(stored.task, text, cancellation, listener, plan=plan, max_iters=stored.max_iters)
        run = AgentRun.restore(stored, spec)
        run.resume(decision)
        return run, self._model(run, RunOptions(lm=lm))

    def _spec(
        self,
        task: TaskInput,
        playbook: str,
        cancellation: Token,
        listener: _Listener,
        plan: PlanTool | None = None,
        **options: Any,
    ) -> RunSpec:
        shown = self._shared.catalog.shown
        own = [*([] if shown is None else [shown.more]), *([] if plan is None else [plan.tool])]
        said = {name: as_data_value(value) for name, value in task.inputs.items()}
        return RunSpec(
            task=task,
            opening={**said, PLAYBOOK: playbook} if playbook else said,
            cancellation=_linked(cancellation),
            listeners=(listener,) if listener else (),
            registry=self.registry.extended(*own) if own else self.registry,
            plan=plan,
            finish=self.finish,
            policy=self.policy,
            summary=self.summary,
            agent=self,
            observers=self._shared.observers,
            prices=self.prices,
            tally=outer.tally if (outer := current_context()) is not None else None,
            **options,
        )

    def _model(self, run: AgentRun, options: RunOptions) -> PredictorModel:
        catalog = self._shared.catalog
        if self.cards:
            catalog = catalog.described(descriptions(self.cards))
        catalog = catalog.with_plan(None if run.spec.plan is None else run.spec.plan.tool)
        catalog = catalog.for_run(run.spec.task.text, run.spec.context.get("playbook", ""))
        said = {"lm": options.lm or self.lm, "config": options.config}
        return PredictorModel(
            self.agent,
            catalog,
            run.spec.task,
            {name: value for name, value in said.items() if value is not None},
            native=self.tool_calling == "native",
            bound=self.replies == "bound",
            summarizer=self.summarizer,
            on_delta=run.model_delta if run.spec.listeners else None,
        )

    @contextmanager
    def _held(self, run: AgentRun, claimed: bool) -> Generator[Callable[[AgentRun], None] | None]:
        """Hold a run in the store while it is driven; gives what to call before each step.

        A store that does not keep every step gets the run when it stops to wait.
        """
        store = self.run_store
        with nullcontext() if claimed else store.claim(run.run_id):
            if claimed and not store.every_step:
                store.save(run.snapshot())  # the decision is used up: nobody may give it twice
            try:
                yield (lambda run: store.save(run.snapshot())) if store.every_step else None
            finally:
                if not store.every_step and (claimed or run.state.kind == "interrupted"):
                    store.save(run.snapshot())

    def _drive(self, run: AgentRun, model: PredictorModel, claimed: bool = False) -> ReActPrediction:
        with self._held(run, claimed) as save:
            return self._finished(drive(run, model, save, SeenTools()), run)

    async def _adrive(self, run: AgentRun, model: PredictorModel, claimed: bool = False) -> ReActPrediction:
        with self._held(run, claimed) as save:
            output = await adrive(run, model, save, self._shared.admission, SeenTools())
            return self._finished(output, run)

    def _finished(self, output: TaskOutput, run: AgentRun) -> ReActPrediction:
        """Make a prediction of a run's output, with what `format_result` makes of it."""
        waits = output.termination_reason == "interrupted"  # no failure: it can go on
        if self.raise_on_failure and output.error is not None and not waits:
            raise run.error or error_of(output)
        if self.cards:
            record_calls(self.cards, output.structured_trace)
        told = {"trajectory": run.fields(), "reasoning": run.reasoning, "history": run.so_far()}
        return ReActPrediction.of(output, self.signature.output_fields, self.formatted(output), told)

    def formatted(self, output: TaskOutput) -> Any:
        """Return what `format_result` makes of a finished run, `agent.formatted(out)`; the run as it is where the hook
        raises."""
        try:
            return self.format_result(output, self.output_mode)
        except Exception:  # a border: what the user's hook does must not lose a run that was paid for
            _log.warning("format_result of %s failed; the result is shown as it is", type(self).__name__, exc_info=True)
            return Agent.format_result(self, output, self.output_mode)


def _only(task: tuple[TaskInput | str, ...]) -> TaskInput | str | None:
    """Return the task that was given without a name.

    Raises:
        TypeError: There are several.
    """
    if len(task) > 1:
        raise TypeError(f"one task may be given without a name, got {len(task)}; give the inputs by their names")
    return task[0] if task else None


def _untyped(thing: Any) -> Any:
    """Return what DSPy leaves untyped, as that."""
    return thing


def _check_one_of(name: str, value: Any, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise SignatureError(f"{name} must be {' or '.join(map(repr, legal))}, got {value!r}")


def _check_least(name: str, value: int | None, least: int, default: str) -> None:
    if value is not None and value < least:
        raise SignatureError(f"{name} must be {least} or more, or None for {default}, got {value!r}")


def _report_to(open_span: Span, prediction: ReActPrediction) -> ReActPrediction:
    """Tell a span what came out."""
    output = run_of(prediction)
    usage = output.usage
    open_span.set(usage__input_tokens=usage.input_tokens, usage__output_tokens=usage.output_tokens)
    if output.error is not None:
        open_span.fail(output.error.kind)
    return prediction


def _check_parts(lm: Any, memory_timeout: float | None, observers: Iterable[Observer]) -> None:
    _check_no_name(lm)
    if memory_timeout is not None and not memory_timeout > 0:
        raise SignatureError(
            f"memory_timeout must be more than 0 seconds, or None for no limit, got {memory_timeout!r}"
        )
    for observer in observers:
        if not callable(observer):
            raise SignatureError(f"observers are functions of an event, got {observer!r}")


def _check_no_name(lm: Any) -> None:
    if isinstance(lm, str):
        raise SignatureError(f"lm must be a model, got the text {lm!r}; write lm=dspy.LM({lm!r})")


def _as_tools(tools: Any) -> Iterable[Any]:
    """Return the tools, where one of them may be given alone; a `dspy.Tool` becomes one of ours."""
    if isinstance(tools, (str, bytes)):
        raise ToolRegistrationError(f"tools must be functions or tools, got the text {tools!r}")
    if isinstance(tools, (Tool, TypedTool, dspy.Tool)) or inspect.isroutine(tools):
        tools = [tools]
    return [from_dspy(tool) if isinstance(tool, dspy.Tool) else tool for tool in tools]


def _called_as_module(module: dspy.Module) -> bool:
    callers = _SETTINGS.caller_modules
    return bool(callers) and callers[-1] is module


def check_prices(limits: UsageLimits | None, prices: TokenPrices | None) -> None:
    """Check that what tokens cost is known where there is a limit in dollars.

    Raises:
        SignatureError: It says how to give prices.
    """
    if limits is not None and limits.cost is not None and prices is None:
        raise SignatureError(
            "limits.cost needs prices=TokenPrices(input=..., output=...) in dollars per million tokens"
        )


def _left_out(bullets: Any) -> dict[str, Any]:
    """Say in the run's metadata what chance and changed tools kept out of the prompt; a hidden lesson is also logged."""
    named = {name: list(getattr(bullets, name, ())) for name in ("held_back_at_random", "randomized", "outdated")}
    if named["outdated"]:
        _log.warning(
            "%d bullets are hidden, because one of their tools has changed its signature since: %s; "
            "playbook.review.confirm(ids, tools) shows them again",
            len(named["outdated"]),
            ", ".join(named["outdated"][:10]),
        )
    return {f"{name}_bullets": ids for name, ids in named.items() if ids}


def _linked(token: CancellationToken | None) -> CancellationToken | None:
    """Return the run's token; inside a tool of another run, one that is cancelled with that call."""
    outer = current_context()
    if outer is not None and outer.cancellation is not token:
        outer.cancellation.link(token := token or CancellationToken())
    return token
