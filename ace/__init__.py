"""ACE for DSPy: a tool-calling agent that learns a playbook from its own runs.

The names below load on first use, so that ``import ace`` and ``ace --help`` answer at once: neither DSPy, FAISS, torch
nor SQLAlchemy is imported until something needs it.

Example:
    >>> import ace
    >>> ace.TaskInput(inputs={"task": "Add 2 and 3"}).text
    'Add 2 and 3'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ace.agent import (
        Agent,
        Approve,
        BreakerPolicy,
        Deny,
        FolderRunStore,
        NoProgress,
        Policy,
        RetryPolicy,
        Summary,
    )
    from ace.core import (
        AceError,
        AgentError,
        BudgetExceeded,
        CancellationToken,
        Event,
        EventGrammarError,
        InternalInvariant,
        InvalidModelAction,
        ModelTransport,
        PolicyConfigInvalid,
        PolicyRuntimeViolation,
        ResumeError,
        RunStoreError,
        RunUsage,
        TokenPrices,
        ToolContext,
        ToolDispatch,
        ToolError,
        UsageLimitExceeded,
        UsageLimits,
        check_events,
        current_context,
    )
    from ace.curator import Curator
    from ace.learner import Learner
    from ace.playbook import Filters, Playbook, PlaybookBullet
    from ace.react import ReActGenerator, ReActPrediction
    from ace.reflector import Reflector
    from ace.tasks import Feedback, ReasoningStep, TaskInput, TaskOutput
    from ace.tools import Tool, ToolRegistry, ToolResult, TypedTool, tool

_HOMES = {
    "ace.agent": (
        "Agent",
        "Approve",
        "BreakerPolicy",
        "Deny",
        "FolderRunStore",
        "NoProgress",
        "Policy",
        "RetryPolicy",
        "Summary",
    ),
    "ace.core": (
        "AceError",
        "AgentError",
        "BudgetExceeded",
        "CancellationToken",
        "Event",
        "EventGrammarError",
        "InternalInvariant",
        "InvalidModelAction",
        "ModelTransport",
        "PolicyConfigInvalid",
        "PolicyRuntimeViolation",
        "ResumeError",
        "RunStoreError",
        "RunUsage",
        "TokenPrices",
        "ToolContext",
        "ToolDispatch",
        "ToolError",
        "UsageLimitExceeded",
        "UsageLimits",
        "check_events",
        "current_context",
    ),
    "ace.curator": ("Curator",),
    "ace.react": ("ReActGenerator", "ReActPrediction"),
    "ace.learner": ("Learner",),
    "ace.playbook": ("Filters", "Playbook", "PlaybookBullet"),
    "ace.reflector": ("Reflector",),
    "ace.tasks": ("Feedback", "ReasoningStep", "TaskInput", "TaskOutput"),
    "ace.tools": ("Tool", "ToolRegistry", "ToolResult", "TypedTool", "tool"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AceError",
    "Agent",
    "AgentError",
    "Approve",
    "BreakerPolicy",
    "BudgetExceeded",
    "CancellationToken",
    "Curator",
    "Deny",
    "Event",
    "EventGrammarError",
    "Feedback",
    "Filters",
    "FolderRunStore",
    "InternalInvariant",
    "InvalidModelAction",
    "Learner",
    "ModelTransport",
    "NoProgress",
    "Playbook",
    "PlaybookBullet",
    "Policy",
    "PolicyConfigInvalid",
    "PolicyRuntimeViolation",
    "ReActGenerator",
    "ReActPrediction",
    "ReasoningStep",
    "Reflector",
    "ResumeError",
    "RetryPolicy",
    "RunStoreError",
    "RunUsage",
    "Summary",
    "TaskInput",
    "TaskOutput",
    "TokenPrices",
    "Tool",
    "ToolContext",
    "ToolDispatch",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "TypedTool",
    "UsageLimitExceeded",
    "UsageLimits",
    "check_events",
    "current_context",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ace' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
