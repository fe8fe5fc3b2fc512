"""WorkBench as a suite."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ace.agent.episode import Episode
from ace.core import SuiteError
from ace.suites.protocol import GoldCall, SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry
from ace_suites.workbench.sandbox import SCORED, TOOLKITS, WRITING, Sandbox, World

DOMAINS = (
    "email",
    "calendar",
    "analytics",
    "project_management",
    "customer_relationship_manager",
    "multi_domain",
)
MAX_ITERS = 25
"""Recorded runs were stopped after 20 steps; the longest reference solution has 12."""

Toolkits = Literal["needed", "domains", "all"]


class WorkBenchSuite:
    """The public benchmark, from a folder with its files.

    Args:
        path: The folder.
        toolkits: Which tools a task is offered: those it `needed`, `all` 27, or those that the recorded `domains` runs
            had, where a name mismatch took the customer tools away from 50 tasks.

    Raises:
        SuiteError: A file is missing or malformed.
    """

    name = "workbench"
    instructions = (
        "You are Sam's office assistant. Today is Thursday, 2023-11-30, the time is 00:00. Meetings must lie between 09:00 "
        "and 18:00."
    )

    def __init__(self, path: Path, toolkits: Toolkits = "needed") -> None:
        if not path.is_dir():
            raise SuiteError(f"the WorkBench folder {str(path)!r} does not exist")
        self.path = path
        self.toolkits: Toolkits = toolkits
        self.world = World.read(path)
        self._offered: dict[str, tuple[str, ...]] = {}
        self._tasks = tuple(task for domain in DOMAINS for task in self._read(domain))

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    @property
    def writing_tools(self) -> frozenset[str]:
        """See `Suite`."""
        return WRITING

    def _read(self, domain: str) -> Iterable[SuiteTask]:
        path = self.path / "queries_and_answers" / f"{domain}_queries_and_answers.csv"
        try:
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            for number, row in enumerate(rows):
                task_id = f"{domain}#{number}"
                self._offered[task_id] = tuple(ast.literal_eval(row["domains"]))
                yield SuiteTask(
                    task=TaskInput(task_id=task_id, inputs={"task": row["query"]}, max_iters=MAX_ITERS),
                    domain=domain,
                    group=f"{domain}:{row['base_template']}",
                    gold=tuple(parse_call(text) for text in ast.literal_eval(row["answer"])),
                )
        except (OSError, KeyError, ValueError, SyntaxError) as error:
            raise SuiteError(f"cannot read {str(path)!r}: {error}; expected WorkBench's task file") from error

    def offered(self, task: SuiteTask) -> tuple[str, ...]:
        """Return the toolkits that a task is offered."""
        if self.toolkits == "all":
            return tuple(TOOLKITS)
        named = self._offered[task.id]
        if self.toolkits == "needed":
            named = tuple("customer_relationship_manager" if name == "crm" else name for name in named)
        return (*(kit for kit in TOOLKITS if kit in named), "company_directory")

    def sandbox(self) -> Sandbox:
        """Make a fresh world."""
        return Sandbox(self.world)

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`."""
        sandbox = self.sandbox()
        registry = ToolRegistry(sandbox.tools(self.offered(task)))
        return Episode(task.task, registry, partial(self._score, task, sandbox), task.group)

    def _score(self, task: SuiteTask, sandbox: Sandbox, output: TaskOutput) -> Feedback:
        """Score as right when the model finished and the tables equal those after the gold calls."""
        equal = sandbox.same_state(self.replay(task.gold))
        changed = sorted({s.tool_name for s in output.structured_trace if s.executed and s.changes_state})
        text = "" if equal else f"the final state is wrong after {' and '.join(changed) or 'no changing call'}"
        return Feedback(
            success=equal and output.completed,
            text=text,
            trusted=True,
            details={"state_equal": equal, "state_sha256": sandbox.state_sha256()},
        )

    def replay(self, calls: Iterable[GoldCall]) -> Sandbox:
        """Make a fresh world after some calls; ones that raise are skipped."""
        sandbox = self.sandbox()
        for call in calls:
            sandbox.call(call.name, call.args)
        return sandbox

    def check_case(self, case: Mapping[str, Any]) -> list[str]:
        """See `Suite`; results, state and labels are compared."""
        sandbox = self.sandbox()
        wrong: list[str] = []
        for number, (call, expected) in enumerate(zip(case["calls"], case["results"], strict=True)):
            got = sandbox.call(call["name"], call["args"])
            if not _same_result(got, expected):
                wrong.append(f"call {number} {call['name']}: expected {str(expected)[:200]}, got {str(got)[:200]}")
        for what, hashes in (("state", sandbox.state_sha256()), ("row_labels", sandbox.labels_sha256())):
            expected = case.get(f"{what}_sha256", {})
            wrong += [f"{what} of {table} differs" for table in SCORED if expected.get(table, "") != hashes[table]]
        return wrong


def _same_result(got: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and "error_type" in expected:
        return isinstance(got, dict) and got.get("error_type") == expected["error_type"]  # pyright: ignore
    return got == expected


def parse_call(text: str) -> GoldCall:
    """Parse a recorded call string, ``tool.name.func(key="value")``; it is never evaluated.

    Raises:
        ValueError: It is not a call of a dotted name with literal keyword arguments.
        SyntaxError: It is no Python expression.
    """
    tree = ast.parse(text.replace("\r", "\\n").replace("\n", "\\n"), mode="eval").body
    if not isinstance(tree, ast.Call) or tree.args or not isinstance(tree.func, ast.Attribute):
        raise ValueError(f"not a call with keyword arguments: {text[:80]!r}")
    name, _, last = ast.unparse(tree.func).rpartition(".")
    if last != "func" or any(keyword.arg is None for keyword in tree.keywords):
        raise ValueError(f"not a call of a tool's func: {text[:80]!r}")
    return GoldCall(name=name, args={str(k.arg): ast.literal_eval(k.value) for k in tree.keywords})
