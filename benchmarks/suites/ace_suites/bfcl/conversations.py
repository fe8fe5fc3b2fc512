"""BFCL's multi-turn conversations as a suite: each turn of the user is a task.

From the package `bfcl-eval` (Apache-2.0), whose simulated services are used as they are. A turn begins where the reference
solution leaves the turns before it, and holds them in its task, so that turns can be run in any order. It is judged as BFCL
judges: the services' state after the turn, and whether the results that the reference calls give were seen.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import ast
import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from ace.agent.episode import Episode
from ace.core import SuiteError
from ace.core.durable import digest
from ace.suites.protocol import GoldCall, SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import Tool, ToolRegistry, from_json_schema
from ace_suites.bfcl import turns
from ace_suites.bfcl.data import data_folder, lines, schema_of

CATEGORIES = ("base", "long_context", "miss_param")
LONGEST_RUN = 20
FILE = "BFCL_v4_multi_turn_"


class BfclSuite:
    """The turns of BFCL's multi-turn conversations.

    Args:
        category: `base`, `long_context` (as much data in the services as fills a context), or `miss_param` (some turns lack
            what a call needs: right is to make none).

    Raises:
        SuiteError: The package is missing, or there is no such category.
    """

    instructions = "Do what the user asks in the last message with the tools, and nothing more."

    def __init__(self, category: str = "base") -> None:
        if category not in CATEGORIES:
            raise SuiteError(
                f"no category {category!r} of bfcl; there are {', '.join((*CATEGORIES, *turns.CATEGORIES))}"
            )
        self.name = "bfcl" if category == "base" else f"bfcl-{category}"
        self._long = category == "long_context"
        data = data_folder()
        backend = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        self._module_of: Mapping[str, str] = backend.CLASS_FILE_PATH_MAPPING
        self._stateless = frozenset(backend.STATELESS_CLASSES)
        self._docs = {
            name: lines(data / "multi_turn_func_doc" / file)
            for name, file in backend.MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
        }
        self._writing: frozenset[str] | None = None
        self._templates: dict[str, dict[str, Tool]] = {}
        self._goals: dict[str, tuple[dict[str, str], Counter[str]]] = {}
        self._turns: dict[str, tuple[dict[str, Any], tuple[tuple[GoldCall, ...], ...]]] = {}
        gold = {row["id"]: row["ground_truth"] for row in lines(data / "possible_answer" / f"{FILE}{category}.json")}
        self._tasks = tuple(
            task
            for entry in lines(data / f"{FILE}{category}.json")
            for task in self._conversation(entry, gold[entry["id"]])
        )

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    @property
    def writing_tools(self) -> frozenset[str]:
        """See `Suite`: those that change a service in some reference solution, or stand in none."""
        if self._writing is None:
            changes: dict[str, bool] = {}
            for task in self._tasks:
                services, seen = self._services(task.id)
                before = _state(services)
                for call in task.gold:
                    _call(services, seen, call)
                    now = _state(services)
                    changes[call.name] = changes.get(call.name, False) or now != before
                    before = now
            stateful = [name for name in self._docs if name not in self._stateless]
            names = {row["name"] for name in stateful for row in self._docs[name]}
            self._writing = frozenset(name for name in names if changes.get(name, True))
        return self._writing

    def _conversation(self, entry: dict[str, Any], turns: list[list[str]]) -> Iterable[SuiteTask]:
        docs = [row for name in entry["involved_classes"] for row in self._docs[name]]
        parameters = {row["name"]: tuple(row["parameters"]["properties"]) for row in docs}
        calls = tuple(tuple(parse_call(text, parameters) for text in turn) for turn in turns)
        earlier: list[str] = []
        for number, messages in enumerate(entry["question"]):
            asked = "\n".join(message["content"] for message in messages)
            text = "\n".join([*earlier, f"User: {asked}"]) if earlier else asked
            task_id = f"{entry['id']}#{number}"
            self._turns[task_id] = entry, calls[:number]
            yield SuiteTask(
                task=TaskInput(task_id=task_id, inputs={"task": text}, max_iters=LONGEST_RUN),
                domain="+".join(entry["involved_classes"]),
                group=entry["id"],
                gold=calls[number],
            )
            made = [f"{call.name}({json.dumps(call.args)[1:-1]})" for call in calls[number]]
            earlier += [f"User: {asked}", f"You called: {', '.join(made) or 'nothing'}"]

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`; the services are as the turns before leave them."""
        services, seen = self._services(task.id)
        registry = self._registry(self._turns[task.id][0], services, seen)
        before = len(seen)
        return Episode(task.task, registry, partial(self._score, task, services, seen, before), task.group)

    def _services(self, task_id: str) -> tuple[dict[str, Any], list[str]]:
        entry, earlier = self._turns[task_id]
        services: dict[str, Any] = {}
        for name in entry["involved_classes"]:
            services[name] = getattr(importlib.import_module(self._module_of[name]), name)()
            if name not in self._stateless:
                services[name]._load_scenario(deepcopy(entry["initial_config"].get(name, {})), long_context=self._long)
        seen: list[str] = []
        for call in (call for turn in earlier for call in turn):
            _call(services, seen, call)
        return services, seen

    def _registry(self, entry: dict[str, Any], services: dict[str, Any], seen: list[str]) -> ToolRegistry:
        quarantines = set(entry.get("excluded_function", ()))
        registry = ToolRegistry()
        for owner, service in services.items():
            for name, tool in self._tools(owner).items():
                if name not in quarantines and not registry.has(name):
                    registry.register(tool.bind(_recorded(getattr(service, name), seen)))
        return registry

    def _tools(self, owner: str) -> dict[str, Tool]:
        if owner not in self._templates:
            made: dict[str, Tool] = {}
            for row in self._docs[owner]:
                name, schema = row["name"], schema_of(row["parameters"])
                reads = name not in self.writing_tools
                made[name] = from_json_schema(name, row["description"], schema, str, read_only=reads)
            self._templates[owner] = made  # whole: another thread may look
        return self._templates[owner]

    def _score(
        self, task: SuiteTask, services: dict[str, Any], seen: list[str], before: int, output: TaskOutput
    ) -> Feedback:
        state = _state(services)
        called = len(seen) > before
        details: dict[str, Any] = {"state_sha256": state}
        if not task.gold:
            right, text = not called, "calls were made where something to make them with was missing" if called else ""
        else:
            goal, results = self._goal(task)
            equal, missing = state == goal, results - Counter(seen)
            right = equal and not missing and called
            details["answer_right"] = not missing and called
            text = "" if right else "the final state is wrong" if not equal else "not everything was looked up"
        return Feedback(success=right and output.completed, text=text, trusted=True, details=details)

    def _goal(self, task: SuiteTask) -> tuple[dict[str, str], Counter[str]]:
        if task.id not in self._goals:
            services, seen = self._services(task.id)
            before = len(seen)
            for call in task.gold:
                _call(services, seen, call)
            self._goals[task.id] = _state(services), Counter(seen[before:])
        return self._goals[task.id]


def _recorded(method: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        try:
            value = method(**deepcopy(arguments))  # services keep, and change, what they are given
        except Exception as error:
            seen.append(f"Error: {error}")
            raise
        seen.append(json.dumps(value, sort_keys=True, default=str))
        return value

    return call


def _call(services: Mapping[str, Any], seen: list[str], call: GoldCall) -> None:
    method = next((getattr(service, call.name) for service in services.values() if hasattr(service, call.name)), None)
    if method is None:
        raise SuiteError(f"no service has the method {call.name!r}")
    with suppress(Exception):  # some reference calls fail, and BFCL counts what they say as a result
        _recorded(method, seen)(**call.args)


def _state(services: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest(plain(service)) for name, service in services.items()}


def plain(value: Any) -> Any:
    """Return what BFCL compares of a service, JSON-shaped: its public attributes, and theirs."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return {key: plain(item) for key, item in vars(value).items() if not key.startswith("_") and key != "parent"}
    return value


def parse_call(text: str, parameters: Mapping[str, tuple[str, ...]]) -> GoldCall:
    """Parse a reference call, ``cd(folder='x')``; it is never evaluated.

    Args:
        text: The call.
        parameters: Names of each function's parameters, for arguments without a name.

    Raises:
        ValueError: It is no call with literal arguments.
    """
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ValueError(f"not a call: {text[:80]!r}")
    named = dict(zip(parameters.get(tree.func.id, ()), tree.args, strict=False))
    if len(named) < len(tree.args) or any(keyword.arg is None for keyword in tree.keywords):
        raise ValueError(f"arguments without names: {text[:80]!r}")
    named |= {str(keyword.arg): keyword.value for keyword in tree.keywords}
    return GoldCall(name=tree.func.id, args={name: ast.literal_eval(value) for name, value in named.items()})
