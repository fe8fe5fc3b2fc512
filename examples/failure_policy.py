"""A failure policy: what happens when tools and models misbehave, and how to change one answer of it.

``python examples/failure_policy.py``; the model is scripted, the tool fails on demand.
"""

from __future__ import annotations

from ace import BreakerPolicy, Policy, ReActGenerator, RetryPolicy, tool
from ace.agent import AgentState, FailedCall, Interrupt, PolicyDecision
from ace.testing import FaultyTool, ScriptedLM, decision


@tool(read_only=True)
def read_sensor(name: str) -> str:
    """Read a sensor."""
    return f"{name}: 21 °C"


@tool(read_only=True)
def read_backup(name: str) -> str:
    """Read a sensor from the backup system."""
    return f"{name}: 20 °C"


class AskOnPermission(Policy):
    """The library's policy, but a refused permission stops the run and waits for somebody."""

    def on_tool_error(self, state: AgentState, failed: FailedCall) -> PolicyDecision:
        """Interrupt for one kind of failure, else decide as before."""
        if failed.result.error_kind == "permission_denied":
            return Interrupt(f"{failed.tool.name} needs a permission")
        return super().on_tool_error(state, failed)


def main() -> None:
    """Show a retry that works, a breaker that opens, and a policy of one's own."""
    quick = RetryPolicy(initial_interval=0.01)
    script = [decision("read_sensor", name="hall"), decision("submit", answer="21 °C")]
    once = FaultyTool(read_sensor, ["timeout"])
    out = ReActGenerator(tools=[once.tool], lm=ScriptedLM(script), policy=Policy(tool_retry=quick)).run(
        "How warm is it?"
    )
    print("retried:", out.structured_trace[0].attempts, "attempts,", out.answer)

    broken = FaultyTool(read_sensor, then="network")
    script = [
        decision("read_sensor", name="hall"),
        decision("read_backup", name="hall"),
        decision("submit", answer="20 °C"),
    ]
    lm = ScriptedLM(script)
    policy = Policy(tool_retry=quick, breaker=BreakerPolicy(threshold=3))
    out = ReActGenerator(tools=[broken.tool, read_backup], lm=lm, policy=policy).run("How warm is it?")
    print("out of service:", "read_sensor is out of service" in lm.prompts[1].text, "and the answer is", out.answer)

    locked = FaultyTool(read_sensor, ["permission_denied"])
    agent = ReActGenerator(tools=[locked.tool], lm=ScriptedLM(script[:1]), policy=AskOnPermission())
    out = agent.run("How warm is it?")
    print("stopped:", out.termination_reason, "-", out.error.message if out.error else "")


if __name__ == "__main__":
    main()
