"""The worker of the gate: runs scenarios with whatever `ace` is on its path, and speaks JSON lines.

For each line ``{"scenario": "one_hop", "runs": 5}`` it answers ``{"ms": [...], "steps": n, "errors": n, "peak_mb": x}``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import dspy

from ace import Policy, ReActGenerator
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt

HOPS = {"short_answer": 0, "one_hop": 1, "multi_hop": 10, "malformed_recovery": 2}


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


def answer(hops: int, spoil: bool) -> Callable[[Prompt], str]:
    """A model that looks up `hops` keys; each first try is garbage when `spoil`."""

    def reply(prompt: Prompt) -> str:
        done = prompt.text.count("[[ ## observation_")
        if spoil and "[[ ## rejected_reply_" not in prompt.text:
            return "I would rather not say."
        return decision("lookup", key=f"k{done}") if done < hops else decision("finish", answer="done")

    return reply


def main() -> None:
    """Serve requests until the input ends."""
    dspy.configure(trace=None, disable_history=True)
    agents: dict[str, Any] = {}
    for name, hops in HOPS.items():
        lm = FunctionLM("gate/model", answer(hops, name == "malformed_recovery"))
        agents[name] = ReActGenerator(tools=[lookup], lm=lm, max_iters=25, policy=Policy.lenient())
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        agent, taken, steps, errors = agents[asked["scenario"]], [], 0, 0
        for _ in range(asked["runs"]):
            started = time.perf_counter()
            try:
                output = agent.run("x")
                errors += not output.completed
                steps = output.usage.iterations
            except Exception:
                errors += 1
            taken.append(1_000 * (time.perf_counter() - started))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"ms": taken, "steps": steps, "errors": errors, "peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
