"""`ReActGenerator`: the DSPy module that users call."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import dspy

from ace._cards import TOOLS_KEY, adopt_cards, build_cards
from ace._dspy import (
    Catalogue,
    adopt_react_state,
    build_react,
    build_summarizer,
    check_fields,
    finish_tool,
    unwrap_tools,
)
from ace._running import DEFAULT_MAX_ITERS, BulletSource, Running, Shared, check_prices
from ace.agent import FolderRunStore, MemoryRunStore, OutputMode, Pacer, Policy, PolicyEngine, RunStore, Summary
from ace.core import Observer, Relay, SignatureError, TokenPrices, ToolRegistrationError, UsageLimits
from ace.prediction import ReActPrediction
from ace.tasks import TaskInput
from ace.tools import Tool, ToolRegistry, TypedTool
from ace.tools.changes import describe_tools

__all__ = ["DEFAULT_MAX_ITERS", "BulletSource", "ReActGenerator", "ReActPrediction"]


class ReActGenerator(Running):
    """A tool-calling agent with validated tools, a strict run-time and a playbook.

    It wraps `dspy.ReAct`: the predictors that run are ``self.agent.react`` and ``self.agent.extract.predict``, so that
    optimizers, `save` and `load` work as for any DSPy program.

    Args:
        signature: Any DSPy signature; the default takes a `task` and gives an `answer`.
        tools: Functions, `Tool`s or `TypedTool`s.
        playbook: A `Playbook`, or anything with `retrieve_for`.
        lm: The language model; DSPy's configured one by default.
        max_iters: Limit on iterations; a task's own limit goes first, 10 is the default.
        limits: What a run may spend on requests, tool calls, tokens, money and time.
        policy: What to do about bad replies, failed tools and circles.
        tool_calling: ``text``: the catalogue is part of the prompt and any model works. ``native``: it is the API's
            ``tools`` parameter, and the model may ask for several calls at once; those that only read run side by side.
        output_mode: What ``str()`` of a prediction is: the bare answer (``simple``) or all fields (``structured``).
        summary: Keep a running summary.
        run_store: A folder: every step of every run is on the disk before it is done, and `resume` goes on after a crash.
            Without one, runs that wait for a decision are kept in this process.
        prices: What the model's tokens cost, for `limits.cost` and `usage.cost`.
        observers: Called with every event of every run, each in a thread of its own.
        raise_on_failure: Whether `forward` raises what ended a run instead of returning it.

    Attributes:
        tool_changes: After `load`: in words, what is different about the tools since the state was saved.

    Raises:
        SignatureError: A field name is reserved, or two settings contradict each other.
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
        limits: UsageLimits | None = None,
        policy: PolicyEngine | None = None,
        tool_calling: Literal["text", "native"] = "text",
        output_mode: OutputMode = "structured",
        summary: Summary | None = None,
        run_store: RunStore | str | Path | None = None,
        prices: TokenPrices | None = None,
        observers: Iterable[Observer] = (),
        raise_on_failure: bool = False,
    ) -> None:
        super().__init__()
        _check_settings(max_iters, limits, prices, tool_calling, output_mode)
        self.signature = dspy.Signature(signature) if isinstance(signature, str) else signature
        check_fields(self.signature)
        self.tool_changes: list[str] = []
        self.registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(unwrap_tools(tools))
        native = tool_calling == "native"
        self.agent = build_react(self.signature, self.registry, max_iters or DEFAULT_MAX_ITERS, native)
        self.cards: dict[str, dspy.Predict] = {}
        self.finish = finish_tool(self.signature)
        self.tool_calling = tool_calling
        self.output_mode = output_mode
        self.summary = summary
        if summary is not None:
            self.summarizer = build_summarizer(self.signature)
        self.playbook = playbook
        self.lm = lm
        self.max_iters = max_iters
        self.limits = limits or UsageLimits()
        self.prices = prices
        self.policy = policy or Policy()
        store = FolderRunStore(run_store) if isinstance(run_store, (str, Path)) else run_store
        self._store = Shared(store or MemoryRunStore())
        self._pacer = Shared(Pacer())
        self._catalogue = Shared(Catalogue(self.registry, self.finish))
        self.observers = tuple(observers)
        self.raise_on_failure = raise_on_failure

    # -- what must be shared, not copied, when an optimizer deep-copies the program ---------------------------------

    @property
    def playbook(self) -> Any:
        """Where bullets come from; None for no memory."""
        return self._playbook.value

    @playbook.setter
    def playbook(self, source: BulletSource | None) -> None:
        self._playbook = Shared(source)

    @property
    def lm(self) -> Any:
        """This agent's own model; None for DSPy's configured one."""
        return self._lm.value

    @lm.setter
    def lm(self, lm: Any) -> None:
        self._lm = Shared(lm)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Called with every event of every run."""
        return tuple(relay.observer for relay in self._relays.value)

    @observers.setter
    def observers(self, observers: Iterable[Observer]) -> None:
        self._relays = Shared(tuple(Relay(observer) for observer in observers))

    def set_lm(self, lm: Any) -> None:
        """Set the model of both predictors, in place of the agent's own."""
        super().set_lm(lm)
        self.lm = None

    # -- calling -----------------------------------------------------------------------------------------------------

    def forward(self, task: TaskInput | str | None = None, /, **fields: Any) -> ReActPrediction:
        """Solve one task.

        Args:
            task: A `TaskInput`, or the text of the signature's only input field.
            **fields: The signature's input fields, and `task_id`, `domain`, `tenant`, `max_iters`. For this call alone:
                `lm`, a model; `limits`, tighter `UsageLimits`; `cancellation`, a `CancellationToken`; `run_id`, for a
                run that is to be found again in the `run_store`.

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

    def with_tool_cards(self) -> ReActGenerator:
        """A copy whose tool descriptions are components that optimizers may rewrite, one per tool.

        Each tool becomes a predictor (``cards['NAME']``) that is never sent to a model: its instructions are what the
        catalogue says of the tool, and every call is an example for it. Names and arguments stay as they are.

        Example:
            >>> from ace.tools import calculator
            >>> carded = ReActGenerator(tools=[calculator]).with_tool_cards()
            >>> [name for name, _ in carded.named_predictors()]
            ['agent.react', 'agent.extract.predict', "cards['calculator']"]
        """
        twin = self.deepcopy()
        twin.cards = twin.cards or build_cards(twin.registry)
        return twin

    # -- DSPy's habits -------------------------------------------------------------------------------------------------

    def __getattribute__(self, name: str) -> Any:
        # DSPy warns on every direct call of forward; here that is a supported way to call
        if name == "forward":
            return object.__getattribute__(self, name)
        return super().__getattribute__(name)

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The predictors' state, and the tools it was learned with."""
        return {**super().dump_state(json_mode=json_mode), TOOLS_KEY: describe_tools(self.registry)}

    def load_state(self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load state saved by this class or by a plain `dspy.ReAct` over the same signature.

        When the tools have changed since, a warning and `tool_changes` say exactly how. What was learned of a tool whose
        arguments are others now is left behind; the rest is loaded.
        """
        adopted = adopt_react_state(state, self.agent)
        if self.cards or any(name.startswith("cards[") for name in adopted):
            self.cards = build_cards(self.registry)  # anew: what an earlier state said of a tool is not this one's
        own = super().dump_state()
        adopted, self.tool_changes = adopt_cards(adopted, self.registry, own)
        super().load_state(adopted, allow_unsafe_lm_state=allow_unsafe_lm_state)


def _check_settings(
    max_iters: int | None, limits: UsageLimits | None, prices: TokenPrices | None, tool_calling: str, output_mode: str
) -> None:
    if max_iters is not None and max_iters < 0:
        raise SignatureError(f"max_iters must be 0 or more, got {max_iters!r}")
    check_prices(limits, prices)
    if tool_calling not in ("text", "native"):
        raise SignatureError(f"tool_calling must be 'text' or 'native', got {tool_calling!r}")
    if output_mode not in ("simple", "structured"):
        raise SignatureError(f"output_mode must be 'simple' or 'structured', got {output_mode!r}")


def _called_as_module(module: dspy.Module) -> bool:
    callers = dspy.settings.caller_modules
    return bool(callers) and callers[-1] is module
