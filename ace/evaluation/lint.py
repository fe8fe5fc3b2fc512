"""Whether a suite is sound: its reference solutions run and are right, doing nothing is not, and ids are unique."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from ace.core import InvalidModelAction, describe_error
from ace.evaluation.reports import TasksReport
from ace.evaluation.suite import Suite, SuiteTask
from ace.learner import Episode
from ace.tasks import Feedback, ReasoningStep, TaskOutput
from ace.tools import call_tool, check_call


def lint(suite: Suite, on_task: Callable[[], None] = lambda: None) -> TasksReport:
    """Play every task's reference solution in a fresh world, and leave the same task alone in another.

    Args:
        suite: The suite.
        on_task: Called after each task.
    """
    ids = [task.id for task in suite.tasks]
    report = TasksReport(
        n=len(ids), gold_plans_run=0, oracle_right=0, empty_wrong=0, empty_expected=0,
        unique_ids=len(set(ids)) == len(ids), problems=[],
    )  # fmt: skip
    if not report.unique_ids:
        twice = sorted({name for name in ids if ids.count(name) > 1})
        report.problems.append(f"ids come twice: {', '.join(twice[:5])}")
    for task in suite.tasks:
        episode = suite.episode(task)
        played, failures = _played(episode, task)
        gold = _scored(episode, played)
        report.gold_plans_run += not failures
        report.oracle_right += gold.success
        if failures or not gold.success:
            verdict = "right" if gold.success else f"wrong ({gold.text})"
            report.problems.append(f"{task.id}: {_told(failures)}, scored {verdict}")
        idle = _scored(suite.episode(task), _output(task, (), None))
        states = [feedback.details.get("state_sha256") for feedback in (idle, gold)]
        answered = "answer_right" in gold.details or "judge_right" in gold.details
        if states[0] != states[1] or None in states or answered:
            report.empty_expected += 1
            report.empty_wrong += not idle.success
            if idle.success:
                report.problems.append(f"{task.id}: doing nothing is scored right")
        elif task.gold and idle.success:
            report.idle_right += 1
        on_task()
    return report


def _scored(episode: Episode, output: TaskOutput) -> Feedback:
    try:
        return episode.score(output)
    except Exception as error:  # a border: metrics are the user's
        return Feedback(success=False, text=f"the scorer fails with {describe_error(error)}")


def _told(failures: Sequence[str]) -> str:
    return f"{len(failures)} gold calls fail, {failures[0]}" if failures else "0 gold calls fail"


def _played(episode: Episode, task: SuiteTask) -> tuple[TaskOutput, list[str]]:
    """The reference solution as a run, and which of its calls failed."""
    steps: list[ReasoningStep] = []
    failures: list[str] = []
    for number, call in enumerate(task.gold):
        try:
            checked = check_call(episode.registry, call.name, copy.deepcopy(call.args), f"c{number}")
        except InvalidModelAction as error:
            failures.append(f"{call.name}: {error}")
            continue
        tool = episode.registry.get(call.name)
        result = call_tool(tool, checked)
        if result.outcome != "success" or (isinstance(result.content, str) and "not found" in result.content):
            failures.append(f"{call.name}: {result.text}")
        steps.append(
            ReasoningStep(
                iteration=number + 1,
                tool_call_id=checked.id,
                tool_name=call.name,
                tool_args=call.args,
                outcome=result.outcome,
                observation=result.text,
                changes_state=not tool.read_only,
                executed=True,
            )
        )
    return _output(task, tuple(steps), task.answer), failures


def _output(task: SuiteTask, steps: tuple[ReasoningStep, ...], answer: str | None) -> TaskOutput:
    return TaskOutput(
        task_id=task.id,
        run_id="lint",
        task=task.task,
        structured_trace=steps,
        answer=answer,
        outputs={} if answer is None else {"answer": answer, **task.outputs},
        termination_reason="completed",
    )
