"""A simple retrieval graph: look something up, then answer with it. No key is needed: a scripted model plays the LM."""

from langgraph.graph import START, StateGraph

from ace import Playbook, ReActGenerator, graph
from ace.graph import ReActAgentNode, RetrieveNode, WorkflowState
from ace.playbook import CallableEmbedder
from ace.testing import ScriptedLM, decision

book = Playbook(
    embedder=CallableEmbedder("letters", lambda texts: [[t.count(c) + 0.01 for c in "aeiorst"] for t in texts])
)
book.add(section="Observations", trigger="When are orders sent?", content="Orders are sent on Mondays.")

agent = ReActGenerator("context, task -> answer", tools=[], lm=ScriptedLM([decision("submit", answer="On Monday.")]))
builder = StateGraph(WorkflowState)
builder.add_node("retrieve", RetrieveNode(book))
builder.add_node("agent", ReActAgentNode(agent, inputs={"context": "context", "task": "user_input"}))
builder.add_edge(START, "retrieve").add_edge("retrieve", "agent")

state = graph.compile(builder).invoke({"user_input": "When is my order sent?"})
print("retrieved:", state["context"])
print("answer:", state["final_output"])
