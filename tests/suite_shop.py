"""A shop as a suite from files."""

import json

from ace.evaluation import evaluate
from ace.tasks import TaskInput, TaskOutput
from ace.testing import SimulatedLM

SHOP = '''
"""A shop."""
from typing import Any

READ_ONLY = {"find_order"}


def find_order(state: dict[str, Any], order: str) -> str:
    """Look an order up."""
    return state["orders"].get(order, "Error: order not found")


def refund(state: dict[str, Any], order: str, amount: float = 10.0) -> str:
    """Refund an order."""
    state.setdefault("refunds", []).append([order, amount])
    return "done"
'''


def rows():
    for number in range(6):
        call = {"name": "refund", "args": {"order": f"o{number}"}}
        yield {
            "id": f"refund-{number}",
            "task": f"Refund order o{number}",
            "gold": [{"name": "find_order", "args": {"order": f"o{number}"}}, call],
            "family": f"refunds {number % 2}",
            "split": "train" if number < 2 else "test",
            "time": f"2026-01-0{9 - number}",
        }
    yield {"id": "status", "task": "What is the status of o1?", "answer": ["open", "not closed"], "gold": [], "split": "train",
           "time": "2026-01-01T00:00:00Z"}  # fmt: skip


def write(folder, tasks, tools=SHOP):
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tasks), encoding="utf-8")
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    state = {"orders": {f"o{n}": "open" for n in range(6)}}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def run(suite, arms=("none",), lm="oracle", **options):
    return list(evaluate(suite, lambda seed: SimulatedLM(suite, lm, seed=seed), arms=arms, **options))


def output(answer, completed=True):
    task = TaskInput(task_id="t", inputs={"task": "what?"})
    return TaskOutput(
        task_id="t",
        run_id="r",
        task=task,
        answer=answer,
        termination_reason="completed" if completed else "max_iterations",
    )
