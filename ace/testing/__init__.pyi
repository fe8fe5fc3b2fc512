# What `import ace.testing` offers; loaded on first use.
from .clock import ManualClock as ManualClock
from .engine import FunctionLM as FunctionLM
from .faulty import FaultPlan as FaultPlan, FaultyLM as FaultyLM, FaultyTool as FaultyTool
from .proposer import SimulatedProposer as SimulatedProposer
from .scripted import ScriptedLM as ScriptedLM, decision as decision
from .simulated import SimulatedLM as SimulatedLM
