"""Learning with a person in between: ``graph_review.py run``, and later, in another process, ``graph_review.py approve``.

No key is needed: a scripted model plays the LM, and the playbook is a file in this folder.
"""

import sys

from ace import Playbook, ReActGenerator, tool
from ace.graph import JsonlCheckpointer, WorkflowInterrupted, learning_workflow
from ace.playbook import CallableEmbedder
from ace.testing import ScriptedLM, decision


@tool(read_only=True)
def find_order(customer: str) -> str:
    """Find a customer's last order."""
    return "17"


@tool
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


script = [decision("find_order", customer="Ana"), decision("refund", order="17"), decision("submit", answer="done")]
embedder = CallableEmbedder("letters", lambda texts: [[t.count(c) + 0.01 for c in "aeiorst"] for t in texts])

with Playbook.open("shop.db", embedder=embedder) as book:
    workflow = learning_workflow(
        ReActGenerator(tools=[find_order, refund], lm=ScriptedLM(script)),
        book,
        score=lambda run: any(
            step.tool_name == "refund" and step.outcome == "success" for step in run.structured_trace
        ),
        risky=lambda book, delta, tools: "new words" if delta.kind == "add" else "",
        checkpointer=JsonlCheckpointer("threads"),
    )
    what = sys.argv[1] if len(sys.argv) > 1 else "run"
    try:
        if what == "run":
            workflow.invoke({"user_input": "Refund Ana's last order"}, thread_id="ana")
        else:
            workflow.resume("ana", {"decision": what, "reviewer": "Ben"})
    except WorkflowInterrupted as pause:
        print(pause.interrupts[0].value["diff"])
        print("waits for: approve, edit or reject")
    print("in the playbook:", [bullet.content for bullet in book.bullets])
