"""Real bad calls of real models, each as the first decision of its own task (*faulty* stand-in, lenient policy; simulated).

``python -m benchmarks.agent.bad_calls DATA OUT.json``: DATA holds ``workbench`` and ``malformed_calls``. Prints a table by
class.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ace_suites.workbench import WorkBenchSuite

from ace.agent import Policy
from ace.core.text import any_json
from ace.evaluation.episodes import AgentPool
from ace.suites.protocol import SuiteTask
from ace.tasks import TaskOutput
from ace.testing import SimulatedLM
from ace.testing.engine import Prompt
from ace.testing.simulated import Turn
from ace.tools import ToolRegistry
from benchmarks.command import command

BAD = "A bad call that a model really made."
COLUMNS = ("calls", "executed", "coerced", "refused_by_tool", "reprompted", "failed", "solved")
TRACEBACK = re.compile(
    r'Traceback \(most recent call last\)|File "[^"]+", line \d+|(?<![\w/])/(?:home|root|usr|work)/\w+'
)


class Listening(SimulatedLM):
    """Makes a recorded bad call first, and then plays the reference solution; it remembers every prompt.

    Attributes:
        bad_calls: Task id to a tool name and arguments of any type.
    """

    prompts: list[Prompt]
    bad_calls: dict[str, tuple[str, Any]]

    def _decide(self, task: SuiteTask, prompt: Prompt) -> tuple[Turn, str]:
        name, args = self.bad_calls[task.id]
        if not prompt.steps and not prompt.rejected:
            return Turn(name, args), BAD
        # the bad call is in the conversation when it was committed; when it was rejected it is not
        made = bool(prompt.steps) and not prompt.rejected and prompt.steps[0]["thought"] == BAD
        done = len(prompt.steps) - (made and prompt.steps[0]["tool_name"] in (name, ""))
        turns = [Turn(call.name, call.args) for call in task.gold if call.name in prompt.tools]
        return [*turns, Turn("submit", {"answer": task.answer})][min(done, len(turns))], "The next call of the plan."

    def _answer(self, prompt: Prompt) -> str:
        self.prompts.append(prompt)
        return super()._answer(prompt)


def coerced(registry: ToolRegistry, name: str, args: dict[str, Any]) -> bool:
    """Check whether a call was let through with values that are not what the model wrote."""
    return any_json(registry.get(name).checked(args)) != args


def notice(prompts: list[Prompt]) -> str:
    """Return what the model was told about its first reply."""
    second = prompts[1] if len(prompts) > 1 else None
    if second is None:
        return ""
    return "\n".join(second.rejected) or (second.steps[0].get("observation", "") if second.steps else "")


def unclear(record: dict[str, Any], answer: str, registry: ToolRegistry) -> str:
    """Say what is missing from an error that the model was shown; empty when it says all it should."""
    name, args = record["tool"], record["tool_input"]
    if not isinstance(name, str) or not registry.has(name):
        shown = " ".join(str(name).split())[:60]
        near = [n for n in registry.near(str(name)) if n in answer]
        if shown not in " ".join(answer.split()):
            return "the unknown tool is not named"
        return "" if near or not registry.near(str(name)) else "no near name is given"
    if not isinstance(args, dict):
        return "" if "must be a JSON object, got" in answer else "it does not say that an object is expected"
    if "expected" not in answer:
        return "it does not say what is expected"
    properties = registry.get(name).schema.get("properties", {})
    fields = [f for f in (*args, *properties) if f"'{f}" in answer or f"{f}." in answer or f"{f!r}" in answer]
    return "" if fields else "no field is named"


def examine(record: dict[str, Any], pool: AgentPool, lm: Listening, suite: WorkBenchSuite) -> dict[str, Any]:
    """Examine one record: what happened to the call, and whether the task was solved after it."""
    task = next(task for task in suite.tasks if task.id == record["task_id"])
    lm.bad_calls = {task.id: (record["tool"], record["tool_input"])}
    lm.prompts = []
    episode = suite.episode(task)
    output: TaskOutput = pool.agent(episode, lm).run(episode.task)
    first = output.structured_trace[0] if output.structured_trace else None
    asked_again = output.usage.reprompts > 0 or (
        output.error is not None and output.error.kind == "invalid_model_action"
    )
    executed = not asked_again and first is not None and first.executed
    answer = notice(lm.prompts)
    return {
        "executed": executed,
        "coerced": executed
        and first is not None
        and (first.tool_args != record["tool_input"] or coerced(episode.registry, first.tool_name, first.tool_args)),
        "refused_by_tool": record["cls"] == "value_rejected_by_tool" and executed,
        "passed_on": not executed or (first is not None and first.observation in answer),
        "reprompted": asked_again,
        "failed": not output.completed,
        "solved": episode.score(output).success,
        "crashed": output.termination_reason in ("internal_invariant", "policy_runtime_violation"),
        "traceback": any(TRACEBACK.search(prompt.text) for prompt in lm.prompts),
        "unclear": unclear(record, answer, episode.registry) if asked_again else "",
    }


def main(data: Path) -> dict[str, Any]:
    """Return counts by class."""
    records = [json.loads(line) for line in (data / "malformed_calls" / "dev.jsonl").read_text("utf-8").splitlines()]
    suite = WorkBenchSuite(data / "workbench", toolkits="all")
    pool, lm = AgentPool(suite, Policy.lenient()), Listening(suite)
    classes: dict[str, dict[str, int]] = {}
    report: dict[str, Any] = {
        "simulated": True,
        "n": len(records),
        "crashes": 0,
        "tracebacks": 0,
        "unclear": [],
        "not_passed_on": 0,
    }
    for record in records:
        try:
            seen = examine(record, pool, lm, suite)
        except Exception as error:
            seen = {"crashed": True, "error": repr(error)}
        row = classes.setdefault(record["cls"], dict.fromkeys(COLUMNS, 0))
        row["calls"] += 1
        for name in COLUMNS[1:]:
            row[name] += bool(seen.get(name))
        report["crashes"] += bool(seen["crashed"])
        report["tracebacks"] += bool(seen.get("traceback"))
        report["not_passed_on"] += not seen.get("passed_on", True)
        if seen.get("unclear") or "error" in seen:
            report["unclear"].append([record["task_id"], record["tool"], seen.get("unclear") or seen["error"]])
    report["unclear_count"] = len(report["unclear"])
    report["classes"] = classes
    report["solved"] = sum(row["solved"] for row in classes.values())
    return report


if __name__ == "__main__":
    command(main)
