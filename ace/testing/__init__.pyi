# What `import ace.testing` offers; loaded on first use.
from .engine import FunctionLM as FunctionLM
from .faulty import FaultyTool as FaultyTool
from .grammar import EventGrammar as EventGrammar, check_events as check_events
from .graph_grammar import check_graph_events as check_graph_events
from .proposer import SimulatedProposer as SimulatedProposer
from .scripted import ScriptedLM as ScriptedLM, decision as decision
from .simulated import SimulatedLM as SimulatedLM
