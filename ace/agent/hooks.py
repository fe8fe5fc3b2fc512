"""The base class of agents: hooks that the state machine calls, which define a step.

`ReActGenerator` is one; another agent overrides `execute_step` and gets the whole run-time with it: policies, budgets,
retries, events, resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ace.agent.states import AskModel, CallTool, Done
from ace.core import PolicyRuntimeViolation, RunUsage
from ace.tasks import ReasoningStep, RunSummary, TaskInput, TaskOutput

OutputMode = Literal["simple", "structured"]


@dataclass(frozen=True)
class AgentState:
    """What a policy knows of a run, as in `policy.on_model_error(state, error)`: it is read, and nothing can be written."""

    user_input: str
    """The task's text."""
    step_count: int
    """Committed decisions so far."""
    correlation_id: str
    """The task's id."""
    attempt: int
    """How often the request or the call in question was made, this one included."""
    reprompts: int
    """Replies right before this one that were rejected as well."""
    usage: RunUsage
    """What was spent so far, without the time since the last stop."""

    def append_scratchpad(self, entry: ReasoningStep) -> None:
        """Refuse it.

        Raises:
            PolicyRuntimeViolation: Always; the run ends with it.
        """
        raise _read_only("append_scratchpad")

    def set_final_output(self, outputs: dict[str, Any]) -> None:
        """Refuse it.

        Raises:
            PolicyRuntimeViolation: Always; the run ends with it.
        """
        raise _read_only("set_final_output")


def _read_only(method: str) -> PolicyRuntimeViolation:
    return PolicyRuntimeViolation(f"{method} is not for policies: they read the state and answer with a decision")


@dataclass(frozen=True)
class StepView:
    """What a hook may look at: a copy, so that hooks stay pure."""

    task: TaskInput
    steps: Sequence[ReasoningStep]
    usage: RunUsage
    summary: RunSummary | None = None
    scratch: dict[str, Any] = field(default_factory=dict[str, Any])
    """What `initialize` gave."""

    @property
    def last(self) -> ReasoningStep | None:
        """The last step, if there is one."""
        return self.steps[-1] if self.steps else None


class Agent:
    """A ReAct loop by default: ask the model, run what it decides, ask again.

    Override what differs. The hooks must be pure: the machine may call them again after a crash.

    Examples:
        >>> class LookUpFirst(Agent):
        ...     "Always begins with the same call."
        ...     def execute_step(self, state: StepView) -> AskModel | CallTool | Done:
        ...         if not state.steps:
        ...             return CallTool.of("lookup", key=state.task.text)
        ...         return AskModel("decide")
    """

    def initialize(self, task: TaskInput) -> dict[str, Any]:
        """Return JSON data of the agent's own, kept with the run."""
        return {}

    def should_stop(self, state: StepView) -> bool:
        """Decide whether to ask for the answer now, although budget is left."""
        return False

    def execute_step(self, state: StepView) -> AskModel | CallTool | Done:
        """Return the next step: ask the model, make a call without asking, or end with outputs."""
        return AskModel("decide")

    def update_summary(self, state: StepView, step: ReasoningStep) -> RunSummary | None:
        """Write a running summary without the model; None leaves it to the agent's `Summary` setting."""
        return None

    def format_result(self, output: TaskOutput, mode: OutputMode) -> Any:
        """Return what a caller is shown: the bare answer or everything; `ReActGenerator` calls it for every finished run."""
        return output.answer if mode == "simple" else output
