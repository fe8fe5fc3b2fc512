"""Whether a suite is sound: its reference solutions run and are right, doing nothing is not, and ids are unique."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ace.agent.episode import Episode
from ace.core import InvalidModelAction, SuiteError, describe_error
from ace.suites.protocol import GoldenSuite, Suite, SuiteTask
from ace.tasks import Feedback, ReasoningStep, TaskOutput
from ace.tools import call_tool, check_call


class GoldenReport(BaseModel, extra="forbid"):
    """Golden cases that were replayed."""

    n: int
    passed: int
    failed: list[dict[str, Any]]


class TasksReport(BaseModel, extra="forbid"):
    """What a suite's own tasks were checked for."""

    n: int
    gold_plans_run: int
    """Reference solutions of which no call fails."""
    oracle_right: int
    """Tasks that the scorer calls right after the reference solution."""
    empty_wrong: int
    """Those of `empty_expected` that the scorer calls wrong when nothing was done."""
    empty_expected: int
    """Tasks whose reference solution changes the state or that ask for an answer."""
    idle_right: int = 0
    """Further tasks that doing nothing solves: their calls leave the state as it was, and no answer is scored."""
    unique_ids: bool
    problems: list[str]


class SuiteCheckReport(BaseModel, extra="forbid"):
    """``ace suite check --json``."""

    suite: str
    golden: GoldenReport
    tasks: TasksReport


def check_suite(
    suite: Suite,
    golden: Sequence[Mapping[str, Any]] | None = None,
    *,
    on_task: Callable[[], None] = lambda: None,
    on_case: Callable[[], None] = lambda: None,
) -> SuiteCheckReport:
    """Check that a suite is sound.

    Args:
        suite: The suite.
        golden: Recorded calls with their results and final states, for a `GoldenSuite`.
        on_task: Called after each task.
        on_case: Called after each golden case.

    Raises:
        SuiteError: The suite cannot replay golden cases, or one is malformed.

    Examples:
        >>> from ace.suites import load_suite
        >>> check_suite(load_suite("office")).tasks.problems
        []
    """
    return SuiteCheckReport(
        suite=suite.name, golden=_check_golden(suite, golden, on_case), tasks=_check_tasks(suite, on_task)
    )


def _check_golden(suite: Suite, cases: Sequence[Mapping[str, Any]] | None, on_case: Callable[[], None]) -> GoldenReport:
    if cases is None:
        return GoldenReport(n=0, passed=0, failed=[])
    if not isinstance(suite, GoldenSuite):
        raise SuiteError(f"the suite {suite.name!r} cannot replay golden cases")
    failed: list[dict[str, Any]] = []
    for number, case in enumerate(cases, start=1):
        try:
            same = len(case["calls"]) == len(case["results"])
            problems = suite.check_case(case) if same else ["calls and results differ in number"]
        except (KeyError, TypeError, ValueError) as error:
            raise SuiteError(
                f"golden case {number}: {error!r}; expected an object with calls, results and state_sha256"
            ) from error
        if problems:
            failed.append({"id": case.get("id", str(number)), "problems": problems})
        on_case()
    return GoldenReport(n=len(cases), passed=len(cases) - len(failed), failed=failed)


def _check_tasks(suite: Suite, on_task: Callable[[], None]) -> TasksReport:
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
            first = f"{failures[0]}, " if failures else ""
            verdict = "right" if gold.success else f"wrong ({gold.text})"
            report.problems.append(f"{task.id}: {len(failures)} gold calls fail, {first}scored {verdict}")
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


def _played(episode: Episode, task: SuiteTask) -> tuple[TaskOutput, list[str]]:
    """Play the reference solution as a run, and say which of its calls failed."""
    steps: list[ReasoningStep] = []
    failures: list[str] = []
    for number, call in enumerate(task.gold):
        try:
            checked = check_call(episode.registry, call.name, copy.deepcopy(call.args), f"c{number}")
        except InvalidModelAction as error:
            failures += [] if call.may_fail else [f"{call.name}: {error}"]
            continue
        tool = episode.registry.get(call.name)
        result = call_tool(tool, checked)
        refused = result.outcome != "success" or (isinstance(result.content, str) and "not found" in result.content)
        if refused and not call.may_fail:
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
        run_id="check",
        task=task.task,
        structured_trace=steps,
        answer=answer,
        outputs={} if answer is None else {"answer": answer, **task.outputs},
        termination_reason="completed",
    )
