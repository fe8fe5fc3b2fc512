# What `import ace.core` offers; loaded on first use.
from .cancellation import CancellationToken as CancellationToken
from .clock import Clock as Clock, SystemClock as SystemClock
from .context import ToolContext as ToolContext, current_context as current_context
from .errors import (
    TOOL_ERROR_KINDS as TOOL_ERROR_KINDS,
    AceError as AceError,
    AgentError as AgentError,
    BudgetExceeded as BudgetExceeded,
    ContextOverflow as ContextOverflow,
    EventGrammarError as EventGrammarError,
    InternalInvariant as InternalInvariant,
    InvalidModelAction as InvalidModelAction,
    ModelTransport as ModelTransport,
    Pause as Pause,
    PlaybookError as PlaybookError,
    PolicyConfigInvalid as PolicyConfigInvalid,
    PolicyRuntimeViolation as PolicyRuntimeViolation,
    ResumeError as ResumeError,
    RunStoreError as RunStoreError,
    SignatureError as SignatureError,
    SuiteError as SuiteError,
    ToolDispatch as ToolDispatch,
    ToolError as ToolError,
    ToolErrorKind as ToolErrorKind,
    ToolRegistrationError as ToolRegistrationError,
    UsageLimitExceeded as UsageLimitExceeded,
)
from .events import Event as Event, EventKind as EventKind, Observer as Observer
from .foreign_text import (
    as_data as as_data,
    value_as_data as value_as_data,
    visible as visible,
    visible_json as visible_json,
)
from .observers import ObserverThread as ObserverThread
from .text import (
    clean_text as clean_text,
    clean_value as clean_value,
    describe_error as describe_error,
    json_line as json_line,
    json_value as json_value,
    truncate as truncate,
    value_to_text as value_to_text,
)
from .usage import RunUsage as RunUsage, TokenPrices as TokenPrices, UsageLimits as UsageLimits
