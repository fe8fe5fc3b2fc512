"""A ReAct agent as a node: its steps are in the state, its events in the graph's stream. No key is needed."""

from langgraph.graph import START, StateGraph

from ace import ReActGenerator, graph
from ace.graph import ReActAgentNode, WorkflowState
from ace.testing import ScriptedLM, decision
from ace.tools import calculator

lm = ScriptedLM([decision("calculator", expression="17 * 2.4"), decision("submit", answer="40.8")])
builder = StateGraph(WorkflowState)
builder.add_node("agent", ReActAgentNode(ReActGenerator(tools=[calculator], lm=lm)))
builder.add_edge(START, "agent")

with graph.compile(builder, max_steps=20).stream({"user_input": "What is 17 times 2.4?"}) as stream:
    for event in stream:
        print(event.seq, event.kind, event.node, event.agent.kind if event.agent else "")
state = stream.output
for step in state["scratchpad"]:
    print(f"{step.tool_name}({step.tool_args}) -> {step.observation}")
print("answer:", state["final_output"], "after", state["iterations"], "iterations")
