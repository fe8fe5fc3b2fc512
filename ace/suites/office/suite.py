"""`office` as a suite."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from ace.agent.episode import Episode
from ace.suites.office.families import FAMILIES, Family, drawn
from ace.suites.office.tools import DOMAIN_TOOLS, WRITING, OfficeTools
from ace.suites.office.world import OfficeWorld, build_world
from ace.suites.protocol import GoldCall, SuiteTask, by_final_state
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import Tool, ToolRegistry

TASKS_PER_FAMILY = 8
MAX_ITERS = 20
"""As in the recorded runs that the error rates of `SimulatedLM` come from."""


class OfficeSuite:
    """200 tasks generated from a seed.

    Args:
        seed: Another seed gives other people, orders and wordings over the same families.

    Examples:
        >>> suite = OfficeSuite()
        >>> len(suite.tasks), len({task.group for task in suite.tasks})
        (200, 25)
    """

    name = "office"
    instructions = "You are the assistant of a small company. Look ids and addresses up, never guess them."

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.world = build_world(seed)
        rng = random.Random(f"office-tasks-{seed}")
        self._goal: dict[str, OfficeWorld] = {}
        self._tasks = tuple(task for family in FAMILIES for task in self._family(family, rng))

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    @property
    def writing_tools(self) -> frozenset[str]:
        """See `Suite`."""
        return WRITING

    def _family(self, family: Family, rng: random.Random) -> Iterable[SuiteTask]:
        tables = self.world.tables
        customers = rng.sample(list(tables["customers"].values()), TASKS_PER_FAMILY)
        people = rng.sample(list(tables["people"].values()), TASKS_PER_FAMILY)
        items = rng.sample(list(tables["items"].values()), TASKS_PER_FAMILY)
        for number, (customer, person, item) in enumerate(zip(customers, people, items, strict=True)):
            values = drawn(self.world, rng, customer, person, item)
            text = family.templates[number % len(family.templates)].format(**values)
            yield SuiteTask(
                task=TaskInput(
                    task_id=f"{family.name}#{number}", inputs={"task": text}, domain=family.domain, max_iters=MAX_ITERS
                ),
                domain=family.domain,
                group=family.name,
                gold=family.gold(values),
            )

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`; every task is offered all tools."""
        world = self.world.copy()
        bound = OfficeTools(world)
        registry = ToolRegistry(tool.bind(getattr(bound, tool.name)) for tool in _templates())
        return Episode(task.task, registry, partial(self._score, task, world), task.group)

    def _score(self, task: SuiteTask, world: OfficeWorld, output: TaskOutput) -> Feedback:
        """Score as right when the model finished and the office is as the gold calls leave it."""
        if task.id not in self._goal:
            self._goal[task.id] = self.replay(task.gold)
        goal = self._goal[task.id]
        found = by_final_state(output, world.tables == goal.tables)
        seen = {"state_sha256": {"office": world.sha256()}, "rows_wrong": world.differing(goal)}
        return found.model_copy(update={"details": {**found.details, **seen}})

    def replay(self, calls: Iterable[GoldCall]) -> OfficeWorld:
        """Make a fresh world after some calls."""
        world = self.world.copy()
        tools = OfficeTools(world)
        for call in calls:
            tools.call(call.name, call.args)
        return world

    def check_case(self, case: Mapping[str, Any]) -> list[str]:
        """See `Suite`; ``calls``, ``results`` and ``state_sha256`` (a map with `office`)."""
        world = self.world.copy()
        tools = OfficeTools(world)
        wrong: list[str] = []
        for number, (call, expected) in enumerate(zip(case["calls"], case["results"], strict=True)):
            got = tools.call(call["name"], call["args"])
            if got != expected:
                wrong.append(f"call {number} {call['name']}: expected {str(expected)[:200]}, got {str(got)[:200]}")
        if case.get("state_sha256", {}).get("office") != world.sha256():
            wrong.append("state of office differs")
        return wrong


@lru_cache(maxsize=1)
def _templates() -> tuple[Tool, ...]:
    """Build the 28 tools; schemas are built once and shared by every world."""
    bound = OfficeTools(OfficeWorld({}))
    return tuple(
        Tool.from_function(getattr(bound, name), category=domain, read_only=name not in WRITING)
        for domain, (reading, writing) in DOMAIN_TOOLS.items()
        for name in (*reading, *writing)
    )
