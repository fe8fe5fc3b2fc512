"""One run of an agent: a state machine without I/O, the policy it asks, and the drivers that execute its steps."""

from ace.agent.breaker import BreakerPolicy
from ace.agent.drivers import AdmissionControl, adrive, drive
from ace.agent.episode import Episode
from ace.agent.hooks import Agent, AgentState
from ace.agent.machine import AgentRun
from ace.agent.policy import (
    AppendErrorAndContinue,
    Fail,
    FailedCall,
    ForceAnswer,
    Interrupt,
    OnceWithToolCatalog,
    Policy,
    PolicyDecision,
    PolicyEngine,
    Reprompt,
    Retry,
    UpTo,
)
from ace.agent.progress import NoProgress
from ace.agent.record import RunSnapshot, RunSpec
from ace.agent.retry import RetryPolicy
from ace.agent.states import (
    Acting,
    Approve,
    AskModel,
    CallTool,
    Completed,
    Deny,
    Done,
    Failed,
    Idle,
    Interrupted,
    ModelReply,
    Observing,
    RequestedTool,
    ResumeDecision,
    State,
    Thinking,
    Wait,
)
from ace.agent.store import FolderRunStore, MemoryRunStore, RunStore
from ace.agent.summary import Summary

__all__ = [
    "Acting",
    "AdmissionControl",
    "Agent",
    "AgentRun",
    "AgentState",
    "AppendErrorAndContinue",
    "Approve",
    "AskModel",
    "BreakerPolicy",
    "CallTool",
    "Completed",
    "Deny",
    "Done",
    "Episode",
    "Fail",
    "Failed",
    "FailedCall",
    "FolderRunStore",
    "ForceAnswer",
    "Idle",
    "Interrupt",
    "Interrupted",
    "MemoryRunStore",
    "ModelReply",
    "NoProgress",
    "Observing",
    "OnceWithToolCatalog",
    "Policy",
    "PolicyDecision",
    "PolicyEngine",
    "Reprompt",
    "RequestedTool",
    "ResumeDecision",
    "Retry",
    "RetryPolicy",
    "RunSnapshot",
    "RunSpec",
    "RunStore",
    "State",
    "Summary",
    "Thinking",
    "UpTo",
    "Wait",
    "adrive",
    "drive",
]
