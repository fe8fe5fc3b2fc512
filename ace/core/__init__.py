"""What every room shares: errors, events, the usage ledger, clean text. Imports no other room."""

from ace.core.errors import (
    AceError,
    AgentError,
    BudgetExceeded,
    InternalInvariant,
    InvalidModelAction,
    ModelTransport,
    PlaybookError,
    PolicyConfigInvalid,
    PolicyRuntimeViolation,
    SignatureError,
    SuiteError,
    ToolDispatch,
    ToolError,
    ToolErrorKind,
    ToolRegistrationError,
)
from ace.core.events import Event, EventKind, Observer
from ace.core.text import clean_text, clean_value, describe_error, truncate, value_to_text
from ace.core.usage import RunUsage

__all__ = [
    "AceError",
    "AgentError",
    "BudgetExceeded",
    "Event",
    "EventKind",
    "InternalInvariant",
    "InvalidModelAction",
    "ModelTransport",
    "Observer",
    "PlaybookError",
    "PolicyConfigInvalid",
    "PolicyRuntimeViolation",
    "RunUsage",
    "SignatureError",
    "SuiteError",
    "ToolDispatch",
    "ToolError",
    "ToolErrorKind",
    "ToolRegistrationError",
    "clean_text",
    "clean_value",
    "describe_error",
    "truncate",
    "value_to_text",
]
