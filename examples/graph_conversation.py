"""A conversation that outlives the process: ``graph_conversation.py TEXT`` again and again, in one folder. No key is needed.

The model is a stand-in that repeats what it can see of the conversation.
"""

import sys

from langgraph.graph import START, StateGraph

from ace import ReActGenerator, graph
from ace.graph import ConversationBufferNode, ConversationSummaryNode, JsonlCheckpointer, ReActAgentNode, WorkflowState
from ace.testing import FunctionLM, decision


def reply(prompt):
    """Return what the stand-in says."""
    seen = prompt.text.rsplit("[[ ## conversation ## ]]", 1)[-1].split("[[ ##", 1)[0].strip()
    return decision("submit", answer=f"so far I saw {seen.count('User:')} turns")


agent = ReActGenerator("conversation, task -> answer", tools=[], lm=FunctionLM("example/parrot", reply))
builder = StateGraph(WorkflowState)
builder.add_node("sum", ConversationSummaryNode(lambda prompt: "what was said before", max_tokens=500))
builder.add_node("hear", ConversationBufferNode("user"))
builder.add_node("agent", ReActAgentNode(agent, inputs={"conversation": "conversation", "task": "user_input"}))
builder.add_node("remember", ConversationBufferNode("assistant"))
builder.add_edge(START, "sum").add_edge("sum", "hear").add_edge("hear", "agent").add_edge("agent", "remember")

workflow = graph.compile(builder, checkpointer=JsonlCheckpointer("conversations"))
state = workflow.invoke({"user_input": " ".join(sys.argv[1:]) or "Hello!"}, thread_id="ana")
print(len(state["messages"]), "messages;", state["final_output"])
