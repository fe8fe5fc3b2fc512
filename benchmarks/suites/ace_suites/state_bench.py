"""STATE-Bench (microsoft/STATE-Bench, MIT) without hosted models: what can be learned there, and what its tasks demand.

A domain's folder holds ``split.json``, ``tasks`` with what the database has to hold in the end, and ``train`` with recorded
conversations. Every tool but ``get_*`` and ``search_*`` changes something. Nothing here gives a STATE-Bench score: that
needs its simulator and its judge, which are hosted models.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ace.core import SuiteError
from ace.learner import Learner
from ace.learner.traces import read_requests
from ace.playbook import Playbook
from ace.reflector import Reflector
from ace.tasks import TaskOutput

Conversation = list[dict[str, Any]]
Demand = tuple[str, bool, str, str]
"""Kind of record, whether it is a new one, field, and the value where that is a word."""
READS = ("get_", "search_")
TRUSTED = ("get_policies",)
"""What answers in the words of the shop itself."""
END = "[TASK_DONE]"


@dataclass(frozen=True)
class Domain:
    """One domain: tasks by id, recorded conversations of the training tasks, and the ids of the test tasks."""

    name: str
    tasks: Mapping[str, Mapping[str, Any]]
    train: Mapping[str, Conversation]
    test: tuple[str, ...]

    def demanded(self) -> dict[str, frozenset[str]]:
        """Return by test task the fewest tools that write what its database must hold; tasks without are left out.

        Which tools write what is read off the training tasks: those that were called where a record of the kind had to hold
        the same, at least half as often as the one that was called most often.
        """
        writers: dict[Demand, Counter[str]] = defaultdict(Counter)
        for name, talk in self.train.items():
            for demand in demands(self.tasks.get(name, {})):
                writers[demand].update(writes(talk))
        able = {demand: _able(counts) for demand, counts in writers.items()}
        found = {name: _fewest([able[d] for d in demands(self.tasks[name]) if d in able]) for name in self.test}
        return {name: tools for name, tools in found.items() if tools}


def _able(counts: Counter[str]) -> Counter[str]:
    """Return the tools that write something, by how often they did."""
    return Counter({tool: count for tool, count in counts.items() if 2 * count >= max(counts.values())})


def _fewest(wanted: Sequence[Counter[str]]) -> frozenset[str]:
    """Choose tools of which each demand has one: those that serve most demands first, and then those that were called
    most."""
    left, chosen = [able for able in wanted if able], set[str]()
    while left:
        served, called = Counter(chain.from_iterable(left)), sum(left, Counter[str]())
        chosen.add(min(served, key=lambda tool: (-served[tool], -called[tool], tool)))
        left = [able for able in left if not able.keys() & chosen]
    return frozenset(chosen)


def demands(task: Mapping[str, Any]) -> set[Demand]:
    """Return what a task's database has to hold in the end."""
    found: set[Demand] = set()
    for wanted in task.get("state_requirements", ()):
        kind, new = str(wanted["entity_type"]), not wanted.get("record_key")
        fields = wanted.get("expected_fields") or {wanted.get("field", ""): wanted.get("expected_value")}
        # a word is one of a few, a number is a task's own
        words = {field: value if isinstance(value, str) and " " not in value else "" for field, value in fields.items()}
        found |= {(kind, new, field, word) for field, word in words.items()}
    return found


def read_domain(folder: Path) -> Domain:
    """Read a domain from its folder.

    Raises:
        SuiteError: A file is missing or is not what it should be.
    """
    try:
        tasks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("tasks/*.json"))]
        split = json.loads((folder / "split.json").read_text(encoding="utf-8"))["splits"]
        train = read_conversations(folder / "train")
        return Domain(folder.name, {task["task_id"]: task for task in tasks}, train, tuple(split["test"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SuiteError(
            f"{str(folder)!r} is no domain of STATE-Bench: {error!r}; expected split.json, tasks/*.json and train/*.json"
        ) from error


def read_conversations(folder: Path) -> dict[str, Conversation]:
    """Read the recorded conversations of a folder, by task."""
    paths = sorted(folder.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))["conversation"] for path in paths}


def calls(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield all calls of a conversation."""
    for turn in conversation:
        yield from turn.get("tool_calls") or ()


def writes(conversation: Conversation) -> frozenset[str]:
    """Return the tools of a conversation that change something."""
    return frozenset(call["name"] for call in calls(conversation) if not call["name"].startswith(READS))


def opening(conversation: Conversation) -> str:
    """Return a customer's first message."""
    return next(turn["content"] for turn in conversation if turn["role"] == "user")


def messages(conversation: Conversation) -> list[dict[str, Any]]:
    """Convert a conversation to OpenAI's messages: its calls stand beside the reply that they led to."""
    found: list[dict[str, Any]] = []
    for number, turn in enumerate(conversation):
        for at, call in enumerate(turn.get("tool_calls") or []):
            made = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            name = f"c{number}_{at}"
            made_calls = [{"id": name, "type": "function", "function": made}]
            found.append({"role": "assistant", "content": None, "tool_calls": made_calls})
            found.append({"role": "tool", "tool_call_id": name, "content": json.dumps(call["result"])})
        if turn["content"] != END:
            found.append({"role": turn["role"], "content": turn["content"]})
    return found


def runs_of(talks: Iterable[Conversation]) -> tuple[list[list[TaskOutput]], set[str]]:
    """Return the runs of each conversation, one for each request, and the tools that only read."""
    talks = list(talks)
    reads = {call["name"] for talk in talks for call in calls(talk) if call["name"].startswith(READS)}
    return [read_requests(messages(talk), read_only=reads) for talk in talks], reads


def learn(
    book: Playbook, runs: Iterable[Iterable[TaskOutput]], reads: Iterable[str], reflector: Reflector | None = None
) -> None:
    """Learn from the requests of conversations that all did what they should."""
    found, reads = list(chain.from_iterable(runs)), set(reads)
    learner = Learner(book, reflector=reflector or Reflector())
    learner.learn_from_traces(found, [True] * len(found), read_only=reads, trusted=TRUSTED)
