"""How `ReActGenerator` prepares, drives, streams and resumes its runs."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import anyio.to_thread
import dspy
from pydantic import ValidationError

from ace._cards import descriptions, record_calls
from ace._dspy import PredictorModel, Prompts
from ace.agent import (
    Agent,
    AgentRun,
    ResumeDecision,
    RunSnapshot,
    RunSpec,
    RunStore,
    adrive,
    drive,
    go_on,
    restore,
    snapshot,
)
from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import (
    AGENT_ERRORS,
    BudgetExceeded,
    CancellationToken,
    Event,
    InvalidModelAction,
    SignatureError,
    TokenPrices,
    UsageLimits,
    clean_text,
    clean_value,
    current_context,
)
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.render import render_bullets
from ace.prediction import ReActPrediction
from ace.tasks import TaskInput, TaskOutput

_log = logging.getLogger(__name__)
DEFAULT_MAX_ITERS = 10
"""The system's limit when neither the task nor the agent sets one."""

_TASK_OPTIONS = ("task_id", "domain", "tenant", "max_iters")
_RUN_OPTIONS = ("lm", "limits", "cancellation", "run_id")


class BulletSource(Protocol):
    """Where bullets come from: a `Playbook`, or anything that answers this one question."""

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """The bullets to show for a task, best first, to an agent with these tools (name to schema hash)."""
        ...


class Running(dspy.Module, Agent):
    """The part of `ReActGenerator` that runs; the settings are the generator's own."""

    @property
    def run_store(self) -> RunStore:
        """Where runs are kept."""
        return self._store.value

    def run(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """Solve one task and return the plain `TaskOutput`."""
        return self._drive(*self._prepare(task, fields))

    async def arun(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """`run` for async callers."""
        return await self._adrive(*await self._aprepare(task, fields))

    def stream(self, task: TaskInput | str | None = None, /, **fields: Any) -> RunStream[Event, TaskOutput]:
        """Solve one task and give its events as they happen, pieces of the model's replies included.

        Example:
            >>> from ace import ReActGenerator
            >>> from ace.testing import ScriptedLM, decision
            >>> agent = ReActGenerator(tools=[], lm=ScriptedLM([decision("finish", answer="42")]))
            >>> with agent.stream("What is 6 times 7?") as stream:
            ...     kinds = [event.kind for event in stream]
            >>> kinds[0], kinds[-1], stream.output.answer
            ('run_started', 'run_completed', '42')
        """
        token = fields.pop("cancellation", None) or CancellationToken()
        return RunStream.of(self.astream(task, cancellation=token, **fields))

    def astream(self, task: TaskInput | str | None = None, /, **fields: Any) -> AsyncRunStream[Event, TaskOutput]:
        """`stream` for async callers."""
        token = fields.pop("cancellation", None) or CancellationToken()

        async def start(listener: Callable[[Event], None]) -> TaskOutput:
            options = {**fields, "cancellation": token}
            return await self._adrive(*await self._aprepare(task, options, listener))

        return AsyncRunStream(start, token)

    def resume(
        self,
        run_id: str,
        decision: ResumeDecision | None = None,
        *,
        lm: Any = None,
        cancellation: CancellationToken | None = None,
    ) -> ReActPrediction:
        """Go on with a run that was paused, cancelled, or cut off with its process.

        Args:
            run_id: `out.run_id`, or one of `run_store.run_ids()`.
            decision: For a run that waits for one (`out.request`): ``"approve"``, ``"deny"``, `Approve` with other
                arguments, or `Deny` with a reason that the model reads.
            lm: A model for the rest of the run.
            cancellation: A token for the rest of the run.

        Raises:
            RunStoreError: The run is unknown, damaged, driven by another process, or began with other tools.
            ResumeError: A decision is missing or not needed; nothing has changed.
        """
        with self.run_store.claim(run_id):
            run, model = self._reopen(run_id, decision, lm, cancellation)
            return self._prediction(self._drive(run, model, claimed=True))

    async def aresume(
        self,
        run_id: str,
        decision: ResumeDecision | None = None,
        *,
        lm: Any = None,
        cancellation: CancellationToken | None = None,
    ) -> ReActPrediction:
        """`resume` for async callers."""
        with self.run_store.claim(run_id):
            run, model = await anyio.to_thread.run_sync(self._reopen, run_id, decision, lm, cancellation)
            return self._prediction(await self._adrive(run, model, claimed=True))

    def stream_resume(
        self,
        run_id: str,
        decision: ResumeDecision | None = None,
        *,
        lm: Any = None,
        cancellation: CancellationToken | None = None,
    ) -> RunStream[Event, TaskOutput]:
        """`resume` as a stream of the events from there on."""
        return RunStream.of(self.astream_resume(run_id, decision, lm=lm, cancellation=cancellation))

    def astream_resume(
        self,
        run_id: str,
        decision: ResumeDecision | None = None,
        *,
        lm: Any = None,
        cancellation: CancellationToken | None = None,
    ) -> AsyncRunStream[Event, TaskOutput]:
        """`stream_resume` for async callers."""
        token = cancellation or CancellationToken()

        async def start(listener: Callable[[Event], None]) -> TaskOutput:
            with self.run_store.claim(run_id):
                run, model = await anyio.to_thread.run_sync(self._reopen, run_id, decision, lm, token, listener)
                return await self._adrive(run, model, claimed=True)

        return AsyncRunStream(start, token)

    # -- how ------------------------------------------------------------------------------------------------------------

    def _prepare(
        self,
        task: TaskInput | str | None,
        fields: dict[str, Any],
        listener: Callable[[Event], None] | None = None,
    ) -> tuple[AgentRun, PredictorModel]:
        names = self.signature.input_fields
        options = {name: fields.pop(name) for name in _RUN_OPTIONS if name in fields and name not in names}
        given = self._task(task, fields)
        if self.run_store.every_step:
            _check_json(given)
        source = self.playbook
        bullets = source.retrieve_for(given, self.registry.schema_hashes) if source is not None else []
        limit = next((n for n in (given.max_iters, self.max_iters) if n is not None), DEFAULT_MAX_ITERS)
        limits, token, outer = self.limits, options.get("cancellation"), current_context()
        if options.get("limits") is not None:
            limits = limits.tighter(options["limits"])
        if outer is not None:  # this run serves a tool of another run: it gets no more than that one has left
            limits = limits.tighter(outer.remaining.left(outer.tally.usage))
            if outer.seconds_left is not None:
                limits = limits.tighter(UsageLimits(seconds=outer.seconds_left))
        check_prices(limits if outer is None else options.get("limits"), self.prices)
        token = _linked(token)
        text = clean_text(render_bullets(bullets))
        spec = self._spec(
            given,
            max_iters=limit if limits.iterations is None else min(limit, limits.iterations),
            limits=limits,
            injected_bullets=tuple(bullet.id for bullet in bullets),
            context={"playbook": text},
            metadata=_kept_away(bullets),
            cancellation=token,
            listeners=(listener,) if listener else (),
        )
        run = AgentRun(spec, options.get("run_id") or "")
        return run, self._model(run, text, options.get("lm"), streaming=listener is not None)

    async def _aprepare(
        self,
        task: TaskInput | str | None,
        fields: dict[str, Any],
        listener: Callable[[Event], None] | None = None,
    ) -> tuple[AgentRun, PredictorModel]:
        await self._pacer.value.turn()
        if self.playbook is None:
            return self._prepare(task, fields, listener)
        # retrieval embeds and reads a database: not on the event loop
        return await anyio.to_thread.run_sync(self._prepare, task, fields, listener)

    def _spec(self, task: TaskInput, **options: Any) -> RunSpec:
        return RunSpec(
            task=task,
            registry=self.registry,
            finish=self.finish,
            policy=self.policy,
            summary=self.summary,
            agent=self,
            relays=self._relays.value,
            prices=self.prices,
            tally=outer.tally if (outer := current_context()) is not None else None,
            **options,
        )

    def _model(self, run: AgentRun, playbook: str, lm: Any, streaming: bool = False) -> PredictorModel:
        catalogue = self._catalogue.value
        if self.cards:
            catalogue = catalogue.described(descriptions(self.cards))
        prompts = Prompts(self.agent, catalogue, self.tool_calling == "native", getattr(self, "summarizer", None))
        on_delta = run.model_delta if streaming else None
        return PredictorModel(prompts, run.spec.task.inputs, playbook, lm or self.lm, on_delta)

    def _reopen(
        self,
        run_id: str,
        decision: ResumeDecision | None,
        lm: Any,
        cancellation: CancellationToken | None,
        listener: Callable[[Event], None] | None = None,
    ) -> tuple[AgentRun, PredictorModel]:
        stored: RunSnapshot = self.run_store.load(run_id)
        spec = self._spec(
            stored.task,
            max_iters=stored.max_iters,
            cancellation=_linked(cancellation),
            listeners=(listener,) if listener else (),
        )
        run = restore(stored, spec)
        go_on(run, decision)
        return run, self._model(run, stored.context.get("playbook", ""), lm, streaming=listener is not None)

    def _save(self, run: AgentRun) -> None:
        self.run_store.save(snapshot(run))

    @contextmanager
    def _kept(self, run: AgentRun, claimed: bool) -> Generator[Callable[[AgentRun], None] | None]:
        """Hold a run while it is driven; what to call before each step. One that stops to wait is kept in any case."""
        store = self.run_store
        with nullcontext() if claimed else store.claim(run.run_id):
            if claimed and not store.every_step:
                store.save(snapshot(run))  # the decision is used up: nobody may give it twice
            try:
                yield self._save if store.every_step else None
            finally:
                if not store.every_step and (claimed or run.state.kind == "interrupted"):
                    store.save(snapshot(run))

    def _drive(self, run: AgentRun, model: PredictorModel, claimed: bool = False) -> TaskOutput:
        with self._kept(run, claimed) as save:
            return self._checked(drive(run, model, save), run)

    async def _adrive(self, run: AgentRun, model: PredictorModel, claimed: bool = False) -> TaskOutput:
        with self._kept(run, claimed) as save:
            return self._checked(await adrive(run, model, save, self._pacer.value), run)

    def _task(self, task: TaskInput | str | None, fields: dict[str, Any]) -> TaskInput:
        """Whatever the caller passed, as a `TaskInput` whose fields fit the signature."""
        names = tuple(self.signature.input_fields)
        if isinstance(task, TaskInput):
            if fields:
                raise SignatureError(f"pass a TaskInput or fields, not both; got also {sorted(fields)}")
            given = task
        else:
            options = {name: fields.pop(name) for name in _TASK_OPTIONS if name in fields and name not in names}
            if task is not None:
                if len(names) != 1:
                    raise SignatureError(f"the signature has the inputs {list(names)}; pass them by name")
                fields = {names[0]: task, **fields}
            try:
                given = TaskInput(inputs=fields, **{k: v for k, v in options.items() if v is not None})
            except ValidationError as error:
                problem = error.errors(include_url=False)[0]
                raise SignatureError(f"{problem['loc'][0]}: {problem['msg']}, got {problem['input']!r}") from error
        if set(given.inputs) != set(names):
            raise SignatureError(f"expected the input fields {sorted(names)}, got {sorted(given.inputs)}")
        try:
            return given.model_copy(update={"inputs": clean_value(given.inputs)})
        except RecursionError as error:
            raise SignatureError("an input is nested too deeply to be shown to a model") from error

    def _checked(self, output: TaskOutput, run: AgentRun) -> TaskOutput:
        waits = output.termination_reason == "interrupted"  # no failure: it can go on
        if self.raise_on_failure and output.error is not None and not waits:
            if run.error is not None:
                raise run.error
            if output.error.kind == "invalid_model_action":
                raise InvalidModelAction("unparsable", output.error.message)
            kind = AGENT_ERRORS.get(output.error.kind, BudgetExceeded)
            raise kind(output.error.message)
        return output

    def _prediction(self, output: TaskOutput) -> ReActPrediction:
        if self.cards:
            record_calls(self.cards, output.structured_trace)
        return ReActPrediction.of(output, self.signature.output_fields, self.output_mode)


def check_prices(limits: UsageLimits | None, prices: TokenPrices | None) -> None:
    """A limit in dollars needs to know what tokens cost.

    Raises:
        SignatureError: It says how to give prices.
    """
    if limits is not None and limits.cost is not None and prices is None:
        raise SignatureError(
            "limits.cost needs prices=TokenPrices(input=..., output=...) in dollars per million tokens"
        )


def _kept_away(bullets: Any) -> dict[str, Any]:
    """What a coin decided and what a changed tool hid, for the record of the run; a hidden lesson is also logged."""
    told = {name: list(getattr(bullets, name, ())) for name in ("withheld", "tossed", "explored", "stale")}
    if told["stale"]:
        _log.warning(
            "%d bullets are hidden, because one of their tools has changed its signature since: %s; "
            "playbook.confirm(ids, tools) shows them again",
            len(told["stale"]),
            ", ".join(told["stale"][:10]),
        )
    return {f"{name}_bullets": ids for name, ids in told.items() if ids}


def _linked(token: CancellationToken | None) -> CancellationToken:
    """The run's token; inside a tool of another run, cancelled with that call."""
    token, outer = token or CancellationToken(), current_context()
    if outer is not None and outer.cancellation is not token:
        outer.cancellation.link(token)
    return token


def _check_json(task: TaskInput) -> None:
    """A stored run has to come back as it was: its inputs must be JSON.

    Raises:
        SignatureError: It names the input that is not.
    """
    for name, value in task.inputs.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise SignatureError(
                f"input {name!r} is no plain JSON, and run_store keeps runs as JSON; pass text or numbers"
            )


class Shared:
    """Keeps what must not be copied (a database, a model handle) shared when an optimizer deep-copies the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared:
        return self
