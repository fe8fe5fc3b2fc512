"""Observes runs until it is killed: ``python learner_harness.py FOLDER FIRST``; each line is a run that `observe` took."""

import sys
from pathlib import Path

from ace import Learner, Playbook
from ace.playbook import CallableEmbedder
from ace.tasks import ReasoningStep, TaskInput, TaskOutput


def run(number):
    """Every run teaches another strategy."""
    step = ReasoningStep(
        iteration=1, tool_call_id="c", tool_name=f"tool{number}", outcome="success", observation="ok", changes_state=True,
        executed=True,
    )  # fmt: skip
    task = TaskInput(task_id=f"t{number}", inputs={"task": f"Task {number}"})
    return TaskOutput(
        task_id=f"t{number}", run_id=f"r{number}", task=task, structured_trace=(step,), termination_reason="completed"
    )


def embedder():
    """Numbers apart, so that nothing merges."""
    return CallableEmbedder("numbers", lambda texts: [[1.0, hash(text) % 97, hash(text) % 89] for text in texts])


def main():
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    with (
        Playbook.open(folder / "book.db", embedder=embedder()) as book,
        Learner(book, state=folder / "runs") as learner,
    ):
        print("ready", flush=True)
        while True:
            learner.observe(run(number), True)
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    main()
