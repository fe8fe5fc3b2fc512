"""Test doubles for your own tests: models that need no network, tools and models that fail on demand, a clock by hand.

What the simulated models produce is labelled.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.testing.clock import ManualClock
    from ace.testing.engine import FunctionLM
    from ace.testing.faulty import FaultPlan, FaultyLM, FaultyTool
    from ace.testing.proposer import SimulatedProposer
    from ace.testing.scripted import ScriptedLM, decision
    from ace.testing.simulated import SimulatedLM

_HOME_OF = {
    "FaultPlan": "ace.testing.faulty",
    "FaultyLM": "ace.testing.faulty",
    "FaultyTool": "ace.testing.faulty",
    "FunctionLM": "ace.testing.engine",
    "ManualClock": "ace.testing.clock",
    "ScriptedLM": "ace.testing.scripted",
    "SimulatedProposer": "ace.testing.proposer",
    "SimulatedLM": "ace.testing.simulated",
    "decision": "ace.testing.scripted",
}

__all__ = [
    "FaultPlan",
    "FaultyLM",
    "FaultyTool",
    "FunctionLM",
    "ManualClock",
    "ScriptedLM",
    "SimulatedLM",
    "SimulatedProposer",
    "decision",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ace.testing' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
