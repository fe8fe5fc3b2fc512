# What `import ace.agent` offers; loaded on first use.
from .breaker import BreakerPolicy as BreakerPolicy
from .drivers import AdmissionControl as AdmissionControl, adrive as adrive, drive as drive
from .episode import Episode as Episode
from .hooks import Agent as Agent, AgentState as AgentState
from .machine import AgentRun as AgentRun
from .policy import (
    AppendErrorAndContinue as AppendErrorAndContinue,
    Fail as Fail,
    FailedCall as FailedCall,
    ForceAnswer as ForceAnswer,
    Interrupt as Interrupt,
    OnceWithToolCatalog as OnceWithToolCatalog,
    Policy as Policy,
    PolicyDecision as PolicyDecision,
    PolicyEngine as PolicyEngine,
    Reprompt as Reprompt,
    Retry as Retry,
    UpTo as UpTo,
)
from .progress import NoProgress as NoProgress
from .record import RunSnapshot as RunSnapshot, RunSpec as RunSpec
from .retry import RetryPolicy as RetryPolicy
from .states import (
    Acting as Acting,
    Approve as Approve,
    AskModel as AskModel,
    CallTool as CallTool,
    Completed as Completed,
    Deny as Deny,
    Done as Done,
    Failed as Failed,
    Idle as Idle,
    Interrupted as Interrupted,
    ModelReply as ModelReply,
    Observing as Observing,
    RequestedTool as RequestedTool,
    ResumeDecision as ResumeDecision,
    State as State,
    Thinking as Thinking,
    Wait as Wait,
)
from .store import FolderRunStore as FolderRunStore, MemoryRunStore as MemoryRunStore, RunStore as RunStore
from .summary import Summary as Summary
