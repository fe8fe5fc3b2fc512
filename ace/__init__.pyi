# What `import ace` offers; loaded on first use.
__version__: str
from .agent import (
    Agent as Agent,
    Approve as Approve,
    BreakerPolicy as BreakerPolicy,
    Deny as Deny,
    FolderRunStore as FolderRunStore,
    NoProgress as NoProgress,
    Policy as Policy,
    RetryPolicy as RetryPolicy,
    Summary as Summary,
)
from .core import (
    AceError as AceError,
    AgentError as AgentError,
    BudgetExceeded as BudgetExceeded,
    CancellationToken as CancellationToken,
    Event as Event,
    EventGrammarError as EventGrammarError,
    InternalInvariant as InternalInvariant,
    InvalidModelAction as InvalidModelAction,
    ModelTransport as ModelTransport,
    PolicyConfigInvalid as PolicyConfigInvalid,
    PolicyRuntimeViolation as PolicyRuntimeViolation,
    ResumeError as ResumeError,
    RunStoreError as RunStoreError,
    RunUsage as RunUsage,
    TokenPrices as TokenPrices,
    ToolContext as ToolContext,
    ToolDispatch as ToolDispatch,
    ToolError as ToolError,
    UsageLimitExceeded as UsageLimitExceeded,
    UsageLimits as UsageLimits,
    current_context as current_context,
)
from .curator import Curator as Curator
from .learner import Learner as Learner
from .playbook import Filters as Filters, Playbook as Playbook, PlaybookBullet as PlaybookBullet
from .react import ReActGenerator as ReActGenerator, ReActPrediction as ReActPrediction
from .reflector import Reflector as Reflector
from .tasks import (
    Feedback as Feedback,
    ReasoningStep as ReasoningStep,
    TaskInput as TaskInput,
    TaskOutput as TaskOutput,
)
from .testing import check_events as check_events
from .tools import (
    Tool as Tool,
    ToolRegistry as ToolRegistry,
    ToolResult as ToolResult,
    TypedTool as TypedTool,
    tool as tool,
)
