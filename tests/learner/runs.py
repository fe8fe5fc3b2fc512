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


def refund(number=0, text=None):
    """A run that refunded; another number is another task."""
    return run_of(
        step("refund", changes=True, order="o"),
        text=text or f"Refund order {'x' * number}",
        run_id=f"r{number}",
        task_id=f"t{number}",
    )


REFUNDED = (
    step("find", "[{'id': 'o-17'}]", customer="Ana"),
    step("find", "[{'id': 'o-17'}]", customer="Ana"),
    step("refund", "No such order", changes=True, failed="refused", order="o-1"),
    step("refund", changes=True, order="o-17", note="because it came broken and late"),
)
"""A detour, a refusal, and what worked."""

OLD = [
    {"role": "user", "content": "Refund Ana's order"},
    {"role": "assistant", "content": None, "function_call": {"name": "refund", "arguments": '{"order": "o-17"}'}},
    {"role": "function", "name": "refund", "content": "refunded"},
    {"role": "assistant", "content": "Done."},
]
"""Messages as older releases of OpenAI's API had them."""
