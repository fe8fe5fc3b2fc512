"""One run of an agent: a state machine without I/O, the policy it asks, and the drivers that do what it says."""

from ace.agent.drivers import Model, adrive, drive
from ace.agent.machine import AgentRun, RunSpec
from ace.agent.policy import (
    Continue,
    Decision,
    Fail,
    Interrupt,
    Observe,
    Policy,
    PolicyEngine,
    Reprompt,
    Retry,
)
from ace.agent.states import (
    Acting,
    AskModel,
    CallTool,
    Completed,
    Done,
    Failed,
    Idle,
    Interrupted,
    ModelReply,
    Observing,
    Thinking,
)
from ace.agent.trajectory import render_trajectory

__all__ = [
    "Acting",
    "AgentRun",
    "AskModel",
    "CallTool",
    "Completed",
    "Continue",
    "Decision",
    "Done",
    "Fail",
    "Failed",
    "Idle",
    "Interrupt",
    "Interrupted",
    "Model",
    "ModelReply",
    "Observe",
    "Observing",
    "Policy",
    "PolicyEngine",
    "Reprompt",
    "Retry",
    "RunSpec",
    "Thinking",
    "adrive",
    "drive",
    "render_trajectory",
]
