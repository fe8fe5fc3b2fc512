"""The errors of the library, one class per category.

Everything a caller may want to catch derives from `AceError`; what can end a run derives from `AgentError`. Each message
states what was wrong, what was expected, and what to do. Text for the operator (``str(error)``) and text for the model
(``model_message``) are separate, so that no path, traceback or secret reaches a prompt.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, Literal, get_args

ToolErrorKind = Literal[
    "unknown_tool",
    "invalid_args",
    "unparsable",
    "length",
    "content_filter",
    "error",
    "empty",
    "refused",
    "not_found",
    "permission_denied",
    "cancelled",
    "budget",
    "unavailable",
    "timeout",
    "rate_limited",
    "network",
    "exception",
]
"""Why a tool call failed: the first seven are the model's fault, the others the tool's or the run's.

`length`, `content_filter`, `error` and `empty` say how a reply ended that holds nothing to do.
"""


@dataclass(frozen=True)
class KindTraits:
    """The consequences of each kind of failure, unless a policy decides otherwise."""

    retryable: bool = False
    """Whether the same call may well succeed a moment later."""
    counts: bool = False
    """Whether it counts against the tool: only such failures open its circuit breaker."""


TOOL_ERROR_KINDS: dict[ToolErrorKind, KindTraits] = {
    **dict.fromkeys(get_args(ToolErrorKind), KindTraits()),
    "timeout": KindTraits(retryable=True, counts=True),
    "rate_limited": KindTraits(retryable=True, counts=True),
    "network": KindTraits(retryable=True, counts=True),
    "exception": KindTraits(counts=True),
}
"""The traits of each kind, so that a new kind cannot be missing in one place."""


class AceError(Exception):
    """Base class of every error that this library raises on purpose: `Playbook.open("no/folder/a.db")` raises one."""


class SignatureError(AceError, ValueError):
    """A DSPy signature cannot be used: `ReActGenerator("tools -> answer", tools=[look_up])` has a reserved name."""


class SuiteError(AceError, ValueError):
    """A task suite, or a file that belongs to one, is missing or malformed: `load_suite("no-such-suite")` raises it."""


class RunStoreError(AceError, ValueError):
    """A stored run is missing, damaged, in use elsewhere or of another agent: `agent.resume("no-such-run")` raises it."""


class ResumeError(AceError, ValueError):
    """A run cannot go on as asked: `agent.resume(waiting.run_id)` of one that waits for a decision raises it."""


class EventGrammarError(AceError, ValueError):
    """A stream of events breaks the grammar of ``contracts/events.md``: `check_events(events[1:])` raises it."""


class PlaybookError(AceError, ValueError):
    """The playbook refused a change or could not be read: `book.get("b-999")` raises it; nothing was written.

    Args:
        message: What was wrong, what was expected, and what to do.
        out_of_reach: Whether the same may well succeed later: the database, its file, its disk, the embedder or the
            time is not there.
        seconds: Of CPU time that were not enough to learn from a run; 0 where time was not the reason.
    """

    def __init__(self, message: str, *, out_of_reach: bool = False, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.out_of_reach = out_of_reach
        self.seconds = seconds


class ToolRegistrationError(AceError, ValueError, TypeError):
    """A function or class cannot become a tool: `tool(lambda x: x)` raises it, as nothing says what it does."""


class ToolError(AceError):
    """A tool failed, with one text for the operator and one for the model.

    A tool may raise it to choose what the model sees.

    Args:
        kind: Why it failed.
        message: Text for the operator.
        model_message: Text for the model; `message` if empty.
        source: The exception behind it, if any.

    Examples:
        >>> ToolError("refused", "card 17 is blocked in vault-3", "The card is blocked.").model_message
        'The card is blocked.'
    """

    def __init__(
        self, kind: ToolErrorKind, message: str, model_message: str = "", source: BaseException | None = None
    ) -> None:
        super().__init__(message)
        # tools are foreign code: an unknown kind or an odd message must not crash the run
        self.kind: ToolErrorKind = kind if kind in TOOL_ERROR_KINDS else "exception"
        self.message = str(message)
        self.model_message = str(model_message or message)
        self.source = source


class Pause(ABC):  # noqa: B024 - others register with it
    """What a tool raises to stop its run until somebody has answered; the call is made again when the run goes on.

    Frameworks register their own exception for it, as `ace.graph` does LangGraph's.

    Examples:
        >>> isinstance(ValueError("no"), Pause)
        False
    """


class AgentError(AceError):
    """Base class of what can end a run, `AgentError("out of time")`; its `kind` is stable in outputs and events."""

    kind = "agent_error"
    usage: Any = None
    """What the request behind it cost, a `RunUsage`; None where that is not known."""


class ModelTransport(AgentError):
    """The language model could not be reached, or failed to answer: `ModelTransport("the connection was refused")`."""

    kind = "model_transport"


class ContextOverflow(AgentError):
    """The prompt does not fit the model's context window: `ContextOverflow("9,000 tokens for 8,192", keep=0.6)`.

    Args:
        message: What was too long, and for what.
        keep: The share of the trajectory, from 0 to 1, that would fit.
    """

    kind = "model_transport"

    def __init__(self, message: str, keep: float = 0.5) -> None:
        super().__init__(message)
        self.keep = keep


class InvalidModelAction(AgentError):
    """The model answered with no legal action: `check_call(registry, "no_such_tool", {}, "call-1")` raises it.

    Args:
        reason: Which rule it broke (`unknown_tool`, `invalid_args` or `unparsable`), or how the reply ended that held
            nothing to do (`length`, `content_filter`, `error`, `empty`).
        message: What was wrong, what was expected, and what to do; fit for the model to read.
        step_id: The step it happened in.
        tool_name: The tool that was named, if any.
        received_args: The arguments as they came, of any type.
        raw_response: The model's raw reply, where there is one.
    """

    kind = "invalid_model_action"

    def __init__(
        self,
        reason: ToolErrorKind,
        message: str,
        *,
        step_id: str = "",
        tool_name: str | None = None,
        received_args: Any = None,
        raw_response: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason: ToolErrorKind = reason
        self.message = message
        self.step_id = step_id
        self.tool_name = tool_name
        self.received_args = received_args
        self.raw_response = raw_response


class ToolDispatch(AgentError):
    """A tool failed and the policy ended the run: `ToolDispatch("refund failed: the shop is closed", tool="refund")`.

    Args:
        message: What the model would have read.
        tool: The tool's name.
        error_kind: Why it failed.
        source: What it raised; only in the process where it did.
        operator_message: What it says to its operator beside that.
    """

    kind = "tool_dispatch"

    def __init__(
        self,
        message: str,
        *,
        tool: str = "",
        error_kind: ToolErrorKind = "exception",
        source: BaseException | None = None,
        operator_message: str = "",
    ) -> None:
        super().__init__(message)
        self.tool = tool
        self.error_kind: ToolErrorKind = error_kind
        self.source = source
        self.operator_message = operator_message


class BudgetExceeded(AgentError):
    """A limit on iterations, calls, tokens or time was reached: `BudgetExceeded("all 10 iterations are used")`."""

    kind = "budget_exceeded"


class UsageLimitExceeded(BudgetExceeded):
    """A limit of `UsageLimits` was reached, `agent.forward("x", limits=UsageLimits(lm_calls=0))`; what was found is kept."""


class PolicyConfigInvalid(AgentError, ValueError):
    """A policy contradicts itself or has no bound: `UpTo(0)` raises it, at construction."""

    kind = "policy_config_invalid"


class PolicyRuntimeViolation(AgentError):
    """A policy gave a decision that is illegal in that state: `PolicyRuntimeViolation("Retry of a call that was made")`."""

    kind = "policy_runtime_violation"


class InternalInvariant(AgentError):
    """A bug in this library, `InternalInvariant("acting without a call")`: a transition that must not happen."""

    kind = "internal_invariant"


AGENT_ERRORS: dict[str, type[AgentError]] = {
    error.kind: error
    for error in (ModelTransport, ToolDispatch, UsageLimitExceeded, PolicyRuntimeViolation, InternalInvariant)
}
"""The error that a failed run raises under ``raise_on_failure``, by kind."""
