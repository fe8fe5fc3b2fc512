"""Where a recorded run, driven live through the agent, differs from the replay that published scores rest on.

There are four ways: arguments keep their types (a replay makes text of them), unknown arguments are refused, a plain string
instead of an argument object is refused (it spoilt the whole replay), and a tool that raises becomes an observation.
"""

from __future__ import annotations

from typing import Any, cast

from ace.suites.protocol import SuiteTask
from ace.tasks import TaskOutput
from ace_suites.workbench.recordings import RecordedStep, Recording
from ace_suites.workbench.suite import WorkBenchSuite, parse_call


def ways(recording: Recording, output: TaskOutput) -> list[str]:
    """Return the ways that a run falls under, from the recorded steps and what became of them."""
    found: set[str] = set()
    for step, done in zip(recording.steps, output.structured_trace, strict=False):
        if not isinstance(step.args, dict):
            found.add("string_input")
        elif any(not isinstance(value, str) for value in cast(dict[str, Any], step.args).values()):
            found.add("argument_types")
        if done.error and done.error.kind == "exception":
            found.add("exception")
        if done.error and done.error.kind == "invalid_args" and "is not an argument" in done.error.message:
            found.add("unknown_argument")
    return sorted(found)


def replay_is_right(suite: WorkBenchSuite, task: SuiteTask, recording: Recording) -> bool:
    """Check whether the run counts as correct when its calls are written as text and replayed, as the benchmark scores."""
    if recording.answer is None or any(not isinstance(step.args, dict) for step in recording.steps):
        return False
    sandbox = suite.sandbox()
    for step in recording.steps:
        try:
            call = parse_call(_as_text(step))
        except (ValueError, SyntaxError):
            continue  # what is no valid call has no effect
        sandbox.call(call.name, call.args)
    return sandbox.same_state(suite.replay(task.gold))


def _as_text(step: RecordedStep) -> str:
    """Write a step as the benchmark logged it: every value between double quotes, without escaping."""
    arguments = ", ".join(f'{name}="{value}"' for name, value in cast(dict[str, Any], step.args).items())
    return f"{step.tool}.func({arguments})"
