"""Approval of a tool: the run stops before the call, and goes on with a decision, in another process if need be.

``python examples/tool_approval.py [--yes | --no]``; asks on the terminal otherwise. The model is scripted.
"""

from __future__ import annotations

import argparse
import tempfile

from ace import Deny, ReActGenerator, tool
from ace.testing import ScriptedLM, decision


@tool(requires_approval=True)
def pay(recipient: str, amount: float) -> str:
    """Pay an amount to a recipient."""
    return f"paid {amount:.2f} to {recipient}"


def agent(folder: str, *replies: str) -> ReActGenerator:
    """Make the same agent in both processes: what they share is the folder."""
    return ReActGenerator(tools=[pay], lm=ScriptedLM(replies), run_store=folder)


def main() -> None:
    """Ask, wait, decide, go on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--no", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = agent(folder, decision("pay", recipient="Ana", amount=12.5)).forward("Pay Ana's invoice")
        request = out.request
        assert request is not None
        for call in request.calls:
            print(f"the agent wants: {call.tool_name}({call.tool_args})")
        approved = given.yes or (not given.no and input("approve? [y/N] ").strip().lower() == "y")
        choice = "approve" if approved else Deny("not this month")
        done = agent(folder, decision("submit", answer="settled" if approved else "not paid")).resume(
            out.run_id, choice
        )
        print(done.structured_trace[0].observation, "->", done.answer)


if __name__ == "__main__":
    main()
