"""Runs made by hand."""

from ace.tasks import ReasoningStep, TaskInput, TaskOutput


def step(name, observation="ok", *, changes=False, failed="", **args):
    """A call; `failed` names the kind of its error."""
    return ReasoningStep(
        iteration=1,
        tool_call_id="c",
        tool_name=name,
        tool_args=args,
        outcome="failed" if failed else "success",
        observation=observation,
        changes_state=changes,
        executed=True,
        error={"kind": failed, "message": "no"} if failed else None,
    )


def run_of(*steps, text="Refund the order of Ana", run_id="r1", task_id="t1", **changes):
    """A completed run."""
    return TaskOutput(
        task_id=task_id,
        run_id=run_id,
        task=TaskInput(task_id=task_id, inputs={"task": text}, domain="shop"),
        structured_trace=steps,
        termination_reason="completed",
    ).model_copy(update=changes)
