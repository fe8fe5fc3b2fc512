"""What every package shares: errors, events, cancellation, clock, usage, clean text. Imports no other package of `ace`."""

from ace.core.cancellation import CancellationToken
from ace.core.clock import Clock, SystemClock
from ace.core.context import ToolContext, current_context
from ace.core.errors import (
    TOOL_ERROR_KINDS,
    AceError,
    AgentError,
    BudgetExceeded,
    EventGrammarError,
    InternalInvariant,
    InvalidModelAction,
    ModelTransport,
    PlaybookError,
    PolicyConfigInvalid,
    PolicyRuntimeViolation,
    ResumeError,
    RunStoreError,
    SignatureError,
    SuiteError,
    ToolDispatch,
    ToolError,
    ToolErrorKind,
    ToolRegistrationError,
    UsageLimitExceeded,
)
from ace.core.events import Event, EventKind, Observer
from ace.core.grammar import EventGrammar, check_events
from ace.core.observers import ObserverThread
from ace.core.text import clean_text, clean_value, describe_error, json_line, json_value, truncate, value_to_text
from ace.core.usage import RunUsage, TokenPrices, UsageLimits

__all__ = [
    "TOOL_ERROR_KINDS",
    "AceError",
    "AgentError",
    "BudgetExceeded",
    "CancellationToken",
    "Clock",
    "Event",
    "EventGrammar",
    "EventGrammarError",
    "EventKind",
    "InternalInvariant",
    "InvalidModelAction",
    "ModelTransport",
    "Observer",
    "ObserverThread",
    "PlaybookError",
    "PolicyConfigInvalid",
    "PolicyRuntimeViolation",
    "ResumeError",
    "RunStoreError",
    "RunUsage",
    "SignatureError",
    "SuiteError",
    "SystemClock",
    "TokenPrices",
    "ToolContext",
    "ToolDispatch",
    "ToolError",
    "ToolErrorKind",
    "ToolRegistrationError",
    "UsageLimitExceeded",
    "UsageLimits",
    "check_events",
    "clean_text",
    "clean_value",
    "current_context",
    "describe_error",
    "json_line",
    "json_value",
    "truncate",
    "value_to_text",
]
