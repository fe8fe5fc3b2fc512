"""`ReActGenerator`: the DSPy module that users call."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import anyio.to_thread
import dspy
from pydantic import ValidationError

from ace._dspy import (
    PredictorModel,
    adopt_react_state,
    build_react,
    check_fields,
    finish_tool,
    render_catalogue,
    unwrap_tools,
)
from ace.agent import AgentRun, Policy, PolicyEngine, RunSpec, adrive, drive
from ace.core import (
    AgentError,
    BudgetExceeded,
    Observer,
    SignatureError,
    ToolRegistrationError,
    clean_text,
    clean_value,
)
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.render import render_bullets
from ace.tasks import TaskInput, TaskOutput
from ace.tools import Tool, ToolRegistry, TypedTool

DEFAULT_MAX_ITERS = 10
"""The system's limit when neither the task nor the agent sets one."""

_CALL_OPTIONS = ("task_id", "domain", "tenant", "max_iters")


class BulletSource(Protocol):
    """Where bullets come from: a `Playbook`, or anything that answers this one question."""

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """The bullets to show for a task, best first, to an agent with these tools (name to schema hash)."""
        ...


class ReActPrediction(dspy.Prediction):
    """The signature's outputs, plus `.output`, a `TaskOutput` that unknown names fall through to.

    The signature's fields win; `keys()`, `toDict()` and saved demos hold them alone.
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._output = None

    @classmethod
    def of(cls, output: TaskOutput, fields: Iterable[str]) -> ReActPrediction:
        """The prediction of a run."""
        prediction = cls(**{name: output.outputs.get(name) for name in fields})
        prediction._output = output
        return prediction

    def copy(self, **fields: Any) -> ReActPrediction:
        """A copy with other fields; the run behind it stays."""
        twin = type(self)(**{**self._store, **fields})
        twin._output = self._output
        return twin

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_store", {}):
            return own["_store"][name]
        output = own.get("_output")
        if output is not None and not name.startswith("_"):
            if name == "output":
                return output
            if name in TaskOutput.model_fields or name in _PROPERTIES:
                return getattr(output, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_PROPERTIES = frozenset({"completed", "tool_usage", "reasoning_trace"})


class ReActGenerator(dspy.Module):
    """A tool-calling agent with validated tools, a strict run-time and a playbook.

    It wraps `dspy.ReAct`: the predictors that run are ``self.agent.react`` and ``self.agent.extract.predict``, so that
    optimizers, `save` and `load` work as for any DSPy program.

    Args:
        signature: Any DSPy signature; the default takes a `task` and gives an `answer`.
        tools: Functions, `Tool`s or `TypedTool`s.
        playbook: A `Playbook`, or anything with `retrieve_for`.
        lm: The language model; DSPy's configured one by default.
        max_iters: Limit on iterations; a task's own limit goes first, 10 is the default.
        policy: What to do about bad replies and failed tools.
        observers: Called with every event of every run.
        raise_on_failure: Whether `forward` raises what ended a run instead of returning it.

    Raises:
        SignatureError: A field name is reserved.
        ToolRegistrationError: Something cannot become a tool.

    Example:
        >>> from ace.testing import ScriptedLM, decision
        >>> from ace.tools import calculator
        >>> lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("finish", answer="42")])
        >>> ReActGenerator(tools=[calculator], lm=lm).forward("What is 6 times 7?").answer
        '42'
    """

    def __init__(
        self,
        signature: str | type[dspy.Signature] = "task -> answer",
        *,
        tools: Iterable[Tool | TypedTool[Any, Any] | Callable[..., Any]] | ToolRegistry,
        playbook: BulletSource | None = None,
        lm: Any = None,
        max_iters: int | None = None,
        policy: PolicyEngine | None = None,
        observers: Iterable[Observer] = (),
        raise_on_failure: bool = False,
    ) -> None:
        super().__init__()
        if max_iters is not None and max_iters < 0:
            raise SignatureError(f"max_iters must be 0 or more, got {max_iters!r}")
        self.signature = dspy.Signature(signature) if isinstance(signature, str) else signature
        check_fields(self.signature)
        self.registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(unwrap_tools(tools))
        self.agent = build_react(self.signature, self.registry, max_iters or DEFAULT_MAX_ITERS)
        self.finish = finish_tool(self.signature)
        self.playbook = playbook
        self.lm = lm
        self.max_iters = max_iters
        self.policy = policy or Policy()
        self.observers = tuple(observers)
        self.raise_on_failure = raise_on_failure

    # -- what must be shared, not copied, when an optimizer deep-copies the program ---------------------------------

    @property
    def playbook(self) -> Any:
        """Where bullets come from; None for no memory."""
        return self._playbook.value

    @playbook.setter
    def playbook(self, source: BulletSource | None) -> None:
        self._playbook = _Shared(source)

    @property
    def lm(self) -> Any:
        """This agent's own model; None for DSPy's configured one."""
        return self._lm.value

    @lm.setter
    def lm(self, lm: Any) -> None:
        self._lm = _Shared(lm)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Called with every event of every run."""
        return self._observers.value

    @observers.setter
    def observers(self, observers: Iterable[Observer]) -> None:
        self._observers = _Shared(tuple(observers))

    def set_lm(self, lm: Any) -> None:
        """Set the model of both predictors, in place of the agent's own."""
        super().set_lm(lm)
        self.lm = None

    # -- calling -----------------------------------------------------------------------------------------------------

    def forward(self, task: TaskInput | str | None = None, /, **fields: Any) -> ReActPrediction:
        """Solve one task.

        Args:
            task: A `TaskInput`, or the text of the signature's only input field.
            **fields: The signature's input fields, and `task_id`, `domain`, `tenant`, `max_iters`; `lm` overrides the
                model for this call.

        Returns:
            The outputs; `termination_reason` and `error` say whether the model finished.

        Raises:
            SignatureError: Input fields are missing or unknown.
        """
        if not _called_as_module(self):  # a direct call gets the same callbacks and usage as agent(...)
            return self(task, **fields) if task is not None else self(**fields)
        return self._prediction(self.run(task, **fields))

    async def aforward(self, task: TaskInput | str | None = None, /, **fields: Any) -> ReActPrediction:
        """`forward` for async callers; async tools run on the event loop."""
        return self._prediction(await self.arun(task, **fields))

    def run(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """Solve one task and return the plain `TaskOutput`."""
        run, model = self._prepare(task, fields)
        return self._checked(drive(run, model), run)

    async def arun(self, task: TaskInput | str | None = None, /, **fields: Any) -> TaskOutput:
        """`run` for async callers."""
        # retrieval embeds and reads a database: not on the event loop
        run, model = await anyio.to_thread.run_sync(self._prepare, task, fields)
        return self._checked(await adrive(run, model), run)

    def bound_to(
        self, registry: ToolRegistry, *, playbook: BulletSource | None = None, lm: Any = None
    ) -> ReActGenerator:
        """This agent over another world: same predictors and policy, tools with other bodies.

        Args:
            registry: Tools with the same names and schemas, bound to something else.
            playbook: Another memory; none when left out.
            lm: Another model; this agent's own when left out.

        Raises:
            ToolRegistrationError: The tools differ in more than their bodies.
        """
        if registry.schema_hashes != self.registry.schema_hashes:
            raise ToolRegistrationError("bound_to needs tools with the same names and schemas; construct a new agent")
        twin = copy.copy(self)
        twin.registry = registry
        twin.playbook = playbook
        twin.lm = lm if lm is not None else self.lm
        return twin

    # -- how -----------------------------------------------------------------------------------------------------------

    def _prepare(self, task: TaskInput | str | None, fields: dict[str, Any]) -> tuple[AgentRun, PredictorModel]:
        lm = fields.pop("lm", None) or self.lm
        given = self._task(task, fields)
        source = self.playbook
        bullets = source.retrieve_for(given, self.registry.schema_hashes) if source is not None else []
        limit = next((n for n in (given.max_iters, self.max_iters) if n is not None), DEFAULT_MAX_ITERS)
        spec = RunSpec(
            task=given,
            registry=self.registry,
            finish=self.finish,
            max_iters=limit,
            policy=self.policy,
            observers=self.observers,
            injected_bullets=tuple(bullet.id for bullet in bullets),
        )
        catalogue = clean_text(render_catalogue(self.registry, self.finish))
        model = PredictorModel(self.agent, given.inputs, catalogue, clean_text(render_bullets(bullets)), lm)
        return AgentRun(spec), model

    def _task(self, task: TaskInput | str | None, fields: dict[str, Any]) -> TaskInput:
        """Whatever the caller passed, as a `TaskInput` whose fields fit the signature."""
        names = tuple(self.signature.input_fields)
        if isinstance(task, TaskInput):
            if fields:
                raise SignatureError(f"pass a TaskInput or fields, not both; got also {sorted(fields)}")
            given = task
        else:
            options = {name: fields.pop(name) for name in _CALL_OPTIONS if name in fields and name not in names}
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
        if self.raise_on_failure and output.error is not None:
            error = getattr(run.state, "error", None)
            raise error if isinstance(error, AgentError) else BudgetExceeded(output.error.message)
        return output

    def _prediction(self, output: TaskOutput) -> ReActPrediction:
        return ReActPrediction.of(output, self.signature.output_fields)

    # -- DSPy's habits -------------------------------------------------------------------------------------------------

    def __getattribute__(self, name: str) -> Any:
        # DSPy warns on every direct call of forward; here that is a supported way to call
        if name == "forward":
            return object.__getattribute__(self, name)
        return super().__getattribute__(name)

    def load_state(self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load state saved by this class or by a plain `dspy.ReAct` over the same signature."""
        super().load_state(adopt_react_state(state, self.agent), allow_unsafe_lm_state=allow_unsafe_lm_state)


def _called_as_module(module: dspy.Module) -> bool:
    callers = dspy.settings.caller_modules
    return bool(callers) and callers[-1] is module


class _Shared:
    """Keeps what must not be copied (a database, a model handle) shared when an optimizer deep-copies the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shared:
        return self
