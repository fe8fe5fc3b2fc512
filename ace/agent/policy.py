"""What to do about a bad reply or a failed tool: pure, deterministic, bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ace.agent.breaker import BreakerPolicy
from ace.agent.hooks import AgentState
from ace.agent.progress import NoProgress
from ace.agent.retry import RetryPolicy
from ace.core import AgentError, InvalidModelAction, ModelTransport, PolicyConfigInvalid
from ace.tools import Tool, ToolCall, ToolResult

MAX_REPROMPTS = 10
"""More reprompts for one decision than this is a loop, not a policy."""
BAD_IN_A_ROW = 3
"""Bad replies in a row that end a run that forgives them."""


@dataclass(frozen=True)
class OnceWithToolCatalog:
    """Ask once again, with the names of all tools: `Policy(on_invalid_action=OnceWithToolCatalog())`."""

    n: int = field(default=1, init=False)


@dataclass(frozen=True)
class UpTo:
    """Ask up to `n` times again for one decision: `Policy(on_invalid_action=UpTo(2))`.

    Raises:
        PolicyConfigInvalid: `n` is not between 1 and `MAX_REPROMPTS`.
    """

    n: int

    def __post_init__(self) -> None:
        n: Any = self.n  # what is passed in practice may be anything
        if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_REPROMPTS:
            raise PolicyConfigInvalid(
                f"reprompts must be a whole number from 1 to {MAX_REPROMPTS} per decision, got {self.n!r}"
            )


RepromptStrategy = OnceWithToolCatalog | UpTo


@dataclass(frozen=True)
class Fail:
    """End the run: `Fail()`."""


@dataclass(frozen=True)
class Retry:
    """Repeat the same request or call, `Retry(RetryPolicy(max_attempts=2))`; the model does not see it.

    A tool that is neither idempotent nor read-only may have done its work before it failed: it is called again only with
    ``approve_unsafe_replay=True``.
    """

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    """How often, and how long to wait in between."""
    consume_budget: bool = True
    """Whether each attempt spends an iteration's worth of budget. Risky when False: only `policy` bounds it then."""
    approve_unsafe_replay: bool = False


@dataclass(frozen=True)
class Reprompt:
    """Reject the reply, tell the model what was wrong, ask again: `Reprompt(UpTo(2))`."""

    strategy: RepromptStrategy = OnceWithToolCatalog()
    consume_budget: bool = True
    """Whether each reprompt spends an iteration's worth of budget. Risky when False: only `strategy` bounds it then."""


@dataclass(frozen=True)
class AppendErrorAndContinue:
    """Make the error the observation, `AppendErrorAndContinue("try another")`; an invalid action is a failed step."""

    note: str = ""
    """Added to the observation."""


@dataclass(frozen=True)
class ForceAnswer:
    """Ask for the answer now, without tools: `ForceAnswer()`; the output is marked partial."""


@dataclass(frozen=True)
class Interrupt:
    """Stop and wait for a decision: `Interrupt("a person has to look at this")`."""

    reason: str


PolicyDecision = Fail | Retry | Reprompt | AppendErrorAndContinue | ForceAnswer | Interrupt
"""Any decision that a policy may answer with."""


LEGAL: dict[str, tuple[type, ...]] = {
    "a model that cannot be asked": (Fail, Retry, Interrupt, ForceAnswer),
    "an invalid action": (Fail, Retry, Interrupt, ForceAnswer, Reprompt, AppendErrorAndContinue),
    "a failed tool": (Fail, Interrupt, AppendErrorAndContinue, Retry),
    "a run that loops": (Fail, Interrupt, AppendErrorAndContinue, ForceAnswer),
}
"""What a policy may answer to each situation; `Retry` of a tool only where that is safe or approved."""


@dataclass(frozen=True)
class FailedCall:
    """A call that failed: `policy.on_tool_error(state, FailedCall(look_up, call, result))` says what follows."""

    tool: Tool
    call: ToolCall
    result: ToolResult


class PolicyEngine(Protocol):
    """Decides, and knows nothing but its arguments, as `Policy()` does; subclass that to change one answer."""

    @property
    def name(self) -> str:
        """Shown by the command line."""
        ...

    @property
    def breaker(self) -> BreakerPolicy | None:
        """When a tool is taken out of service; None for never."""
        ...

    @property
    def no_progress(self) -> NoProgress | None:
        """When a run loops; None for never."""
        ...

    def on_model_error(self, state: AgentState, error: AgentError) -> PolicyDecision:
        """Decide about a reply that is no legal action, or that did not come."""
        ...

    def on_tool_error(self, state: AgentState, failed: FailedCall) -> PolicyDecision:
        """Decide about a call that failed."""
        ...

    def on_no_progress(self, state: AgentState, call: ToolCall, times: int) -> PolicyDecision:
        """Decide about the same call with the same result for the nth time."""
        ...


@dataclass(frozen=True)
class Policy:
    """The policy that comes with the library.

    Raises:
        PolicyConfigInvalid: The settings contradict each other or have no bound.

    Examples:
        >>> Policy.lenient().on_invalid_action, Policy().on_invalid_action
        (UpTo(n=2), 'fail')
    """

    name: str = "default"
    on_invalid_action: Literal["fail", "forgive", "observe"] | RepromptStrategy = "fail"
    """An unknown tool, arguments that do not fit, an unreadable reply. ``forgive`` and ``observe`` make it an observation
    that says what fits; ``forgive`` ends the run at the third in a row, and leaves an argument out that a tool does not have
    where everything else fits and the tool only reads."""
    tool_error: Literal["append_and_continue", "fail_fast"] = "append_and_continue"
    model_retry: RetryPolicy | None = None
    """For a model that cannot be reached; None leaves that to the `dspy.LM`, which has retries of its own."""
    tool_retry: RetryPolicy | None = field(default_factory=RetryPolicy)
    """For tools that may be called twice; None never calls a tool again."""
    breaker: BreakerPolicy | None = field(default_factory=BreakerPolicy)
    no_progress: NoProgress | None = field(default_factory=NoProgress)
    consume_budget: bool = True
    """Whether retries and reprompts spend iterations. False is for special workloads: the settings above bound it then."""

    def __post_init__(self) -> None:
        action: Any = self.on_invalid_action  # what is passed in practice may be anything
        if action not in ("fail", "forgive", "observe") and not isinstance(action, (OnceWithToolCatalog, UpTo)):
            raise PolicyConfigInvalid(
                "on_invalid_action must be 'fail', 'forgive', 'observe', OnceWithToolCatalog() or UpTo(n), "
                f"got {self.on_invalid_action!r}"
            )
        if self.tool_error not in ("append_and_continue", "fail_fast"):
            raise PolicyConfigInvalid(
                f"tool_error must be 'append_and_continue' or 'fail_fast', got {self.tool_error!r}"
            )
        if self.tool_error == "fail_fast" and self.breaker is not None and self.breaker != BreakerPolicy():
            raise PolicyConfigInvalid(
                "tool_error='fail_fast' ends the run at the first failure: a breaker never gets to act"
            )

    @classmethod
    def forgiving(cls) -> Policy:
        """Answer a bad reply with an observation of what fits, which spends an iteration; three in a row end the run."""
        return cls(name="forgiving", on_invalid_action="forgive")

    @classmethod
    def lenient(cls) -> Policy:
        """Ask twice again after a bad reply."""
        return cls(name="lenient", on_invalid_action=UpTo(2))

    @classmethod
    def replay(cls) -> Policy:
        """Answer a bad call with an observation, which spends an iteration, as in a recorded run; nothing else steps in."""
        return cls(name="replay", on_invalid_action="observe", tool_retry=None, breaker=None, no_progress=None)

    @classmethod
    def named(cls, name: str) -> Policy:
        """Return one of the policies that come with the library, by its name: `Policy.named("lenient")`.

        Raises:
            PolicyConfigInvalid: There is none of that name.
        """
        known = {"default": cls, "forgiving": cls.forgiving, "lenient": cls.lenient, "replay": cls.replay}
        if name not in known:
            raise PolicyConfigInvalid(f"there is no policy {name!r}; there are {', '.join(map(repr, known))}")
        return known[name]()

    def on_model_error(self, state: AgentState, error: AgentError) -> PolicyDecision:
        """See `PolicyEngine`."""
        if isinstance(error, ModelTransport) and self.model_retry is not None:
            return Retry(self.model_retry, self.consume_budget)
        if not isinstance(error, InvalidModelAction) or self.on_invalid_action == "fail":
            return Fail()
        if self.on_invalid_action == "forgive":
            return Fail() if state.reprompts + 1 >= BAD_IN_A_ROW else AppendErrorAndContinue()
        if self.on_invalid_action == "observe":
            return AppendErrorAndContinue()
        return Reprompt(self.on_invalid_action, self.consume_budget)

    def on_tool_error(self, state: AgentState, failed: FailedCall) -> PolicyDecision:
        """See `PolicyEngine`."""
        kind = failed.result.error_kind or "exception"
        if (
            self.tool_retry is not None
            and failed.tool.repeatable
            and state.attempt < self.tool_retry.max_attempts
            and self.tool_retry.matches(kind, failed.result.message)
        ):
            return Retry(self.tool_retry, self.consume_budget)
        return Fail() if self.tool_error == "fail_fast" else AppendErrorAndContinue()

    def on_no_progress(self, state: AgentState, call: ToolCall, times: int) -> PolicyDecision:
        """See `PolicyEngine`."""
        stop_after = None if self.no_progress is None else self.no_progress.stop_after
        if stop_after is not None and times >= stop_after:
            return ForceAnswer()
        return AppendErrorAndContinue(
            f"(The same call gave the same result {times} times; try something else, or finish.)"
        )
