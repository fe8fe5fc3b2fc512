"""Where the arguments of mined plans come from: ``python -m benchmarks.learning.bindings OUT.json``.

Runs of six small worlds are in `bindings.json`: the tools, the calls with their answers, and the plan that the run should
teach, written by hand: arguments from the task, from a field of an answer, from an answer's text, constants and loops.
Beside them each plan that is mined from a reference solution of `office` is carried over to the other tasks of its family:
every argument must be where the plan says, and what the model is said to write must stand neither in the task nor in an
answer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ace.playbook.plan import Constant, FromAnswer, FromTask, Plan, plan_with
from ace.reflector.knowledge import Knowledge
from ace.reflector.plans import mined
from ace.reflector.values import fields, said_in
from ace.suites.office import OfficeSuite
from ace.tasks import ReasoningStep, TaskInput
from ace.tools.execution import call_tool, check_call
from benchmarks.command import command

WORLDS = Path(__file__).with_name("bindings.json")


def step(number: int, tool: str, args: dict[str, Any], answer: str, *, reads: bool) -> ReasoningStep:
    """Make the step of a call."""
    return ReasoningStep(
        iteration=number,
        tool_call_id=f"c{number}",
        tool_name=tool,
        tool_args=args,
        outcome="success",
        observation=answer,
        changes_state=not reads,
        executed=True,
    )


def worlds() -> Iterator[dict[str, Any]]:
    """Yield each run with the plan that it taught."""
    for name, world in json.loads(WORLDS.read_text(encoding="utf-8")).items():
        for number, run in enumerate(world["runs"]):
            task = TaskInput(task_id=f"{name}-{number}", inputs={"task": run["task"]})
            steps = [step(i, *call, reads=call[0] in world["reads"]) for i, call in enumerate(run["calls"], 1)]
            plan = mined(task, steps, Knowledge(world["schemas"])).plan.stored
            yield {
                "world": name,
                "task": run["task"],
                "right": _named(plan) == f"{run['wanted']}, then submit(...)",
                "plan": _named(plan),
                "wanted": run["wanted"],
            }


# -- office ------------------------------------------------------------------------------------------------------------


def at(path: str, answer: str) -> set[str]:
    """Find the values of an answer at a path, as text in lower case."""
    found = {value for value, where in _fields(answer) if where == path}
    return found if path else {answer.lower()}


def _fields(answer: str) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(answer)
    except ValueError:
        return
    stack = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            stack += [(f"{path}.{k}" if path else k, v) for k, v in item.items()]
        elif isinstance(item, list):
            stack += [(f"{path}[]", v) for v in item]
        else:
            yield (item if isinstance(item, str) else json.dumps(item)).lower(), path


def _named(plan: Plan) -> str:
    """Write a plan as it is shown once a second task has had the same keys in its answers."""
    return plan_with(plan, plan, differs=True).text


def carries_over(plan: Plan, task: TaskInput, steps: Sequence[ReasoningStep]) -> str:
    """Say what of a plan is not so in another run of the same calls; empty when all is."""
    if [call.tool for call in plan.calls] != [step.tool_name for step in steps]:
        return ""  # a loop, or other calls: nothing to compare
    for call, step in zip(plan.calls, steps, strict=True):
        for name, arg in call.args.items():
            value = step.tool_args.get(name)
            text = value if isinstance(value, str) else json.dumps(value)
            place = f"{step.tool_name}({name}={text!r})"
            if isinstance(arg, FromTask) and arg.value != value and not any(said_in(task.text, text)):
                return f"{place} is not in the task"
            if isinstance(arg, FromAnswer):
                values = at(arg.path, steps[arg.call].observation)
                if text.lower() not in values and not (not arg.path and any(text.lower() in v for v in values)):
                    return f"{place} is not at {arg.path!r} of {steps[arg.call].tool_name}"
            if isinstance(arg, Constant) and arg.value != value:
                return f"{place} is not {arg.value!r}"
            earlier = steps[: steps.index(step)]
            if arg.kind == "written" and (
                any(said_in(task.text, text)) or any(text.lower() in fields(s.observation) for s in earlier)
            ):
                return f"{place} is not written by the model"
    return ""


def office() -> list[dict[str, Any]]:
    """Carry each plan of a reference solution over to the next task of its family."""
    suite = OfficeSuite()
    families: dict[str, list[tuple[TaskInput, list[ReasoningStep], Plan]]] = defaultdict(list)
    for task in suite.tasks:
        registry = suite.episode(task).registry
        steps: list[ReasoningStep] = []
        for i, gold in enumerate(task.gold, 1):
            tool = registry.get(gold.name)
            answer = call_tool(tool, check_call(registry, gold.name, gold.args, "c")).text
            steps.append(step(i, gold.name, dict(gold.args), answer, reads=tool.read_only))
        plan = mined(task.task, steps, Knowledge(registry.schemas)).plan.stored
        families[task.group].append((task.task, steps, plan))
    rows: list[dict[str, Any]] = []
    for family, runs in families.items():
        for task, _, plan in runs:
            wrong = [why for other, steps, _ in runs if (why := carries_over(plan, other, steps))]
            rows.append(
                {"family": family, "task": task.text, "plan": plan.text, "right": not wrong, "wrong": wrong[:3]}
            )
    return rows


def main() -> dict[str, Any]:
    """Mine, compare, and return the report."""
    runs, plans = list(worlds()), office()
    return {
        "runs": len(runs),
        "right": sum(run["right"] for run in runs) / len(runs),
        "office_plans": len(plans),
        "office_right": sum(plan["right"] for plan in plans) / len(plans),
        "wrong": [row for row in (*runs, *plans) if not row["right"]],
        "texts": sorted({run["plan"] for run in runs} | {f"office: {plan['plan']}" for plan in plans}),
    }


if __name__ == "__main__":
    command(main)
