"""`SimulatedLM`: a stand-in for a language model, so that the whole loop runs without a key or a network.

It reads the same prompt a model would (catalog, playbook, task, trajectory), picks only among the tools the prompt offers,
and errs with seeded probabilities. The probabilities are those of real models (`ace.testing.rates`): it errs like GPT-3.5
without a bullet that fits, like GPT-4 with one, like Llama-2-70B when a bullet misleads it. So the size of a bullet's effect
is an assumption; what a simulation measures is how much of it the playbook delivers. All it produces is labelled
*simulated*.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from ace.agent.history import ENDS
from ace.core import SuiteError
from ace.playbook.bullet import same_calls
from ace.react.plans import PREFIX
from ace.suites.protocol import GoldCall, Suite, SuiteTask, changing
from ace.testing.engine import FunctionLM, Prompt, current_rollout, render_reply
from ace.testing.rates import Rates, load_rates
from ace.testing.scripted import decision

PRESETS = ("learner", "oracle")
MISLED_OVERLAP = 0.5
"""A bullet whose trigger shares this much of its words with the task (Jaccard) is followed, right or wrong."""
_MARK = "unexpected_argument"
_MAX_DECISIONS = 200
_OUTAGE = re.compile(r"did not answer within|cannot be reached|out of service now")
"""How an observation shows that the tool, and not the call, is at fault."""
_OUT_OF_SERVICE = re.compile(r"\b([\w.]+) (?:failed \d+ times in a row and )?is out of service now")
_REPEATED = re.compile(r"for each [^:]*: ([\w./-]+)\(")
_BULLET = re.compile(r"^\[(b-\d+)\] \((\w+)\) (?:For a task like <(.*?)>: )?(.*?)(?: Tools: (.*))?$")


@dataclass(frozen=True)
class ShownBullet:
    """A bullet as the prompt shows it."""

    id: str
    section: str
    trigger: str
    content: str
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """One decision of the stand-in: a call, or `submit`, after a number of malformed replies."""

    name: str
    args: dict[str, Any]
    malformed_before: int = 0


def bullets_in_prompt(text: str) -> list[ShownBullet]:
    """Find the bullets in a prompt's playbook field."""
    found = (_BULLET.match(line.strip()) for line in text.splitlines())
    return [
        ShownBullet(m[1], m[2], m[3] or "", m[4], tuple(m[5].strip().split(" -> ")) if m[5] else ())
        for m in found
        if m is not None
    ]


class SimulatedLM(FunctionLM):
    """The stand-in for a language model: `SimulatedLM(suite, preset="oracle", seed=1)`.

    Args:
        suite: Whose tasks it knows the reference solutions of.
        preset: `learner` errs at the estimated rates; `oracle` plays the reference solution.
        seed: The same seed and task give the same randomness, whatever the prompt's playbook says; another `rollout_id` is
            other randomness, as it is with a model that samples.
        rates: By condition; the committed ones by default.

    Raises:
        SuiteError: There is no such preset.
    """

    def __init__(
        self,
        suite: Suite,
        preset: str = "learner",
        *,
        seed: int = 0,
        rates: Mapping[str, Rates] | None = None,
    ) -> None:
        if preset not in PRESETS:
            raise SuiteError(f"no preset {preset!r} of the simulated LM; there are {', '.join(PRESETS)}")
        self.suite = suite
        self.preset = preset
        self.seed = seed
        self.rates = rates or load_rates()
        self._task_of = {" ".join(task.task.text.split()): task for task in suite.tasks}
        writes = [(t.id, call) for t in suite.tasks for call in t.gold if call.name in suite.writing_tools]
        self._writes = sorted(writes, key=lambda write: (write[0], write[1].name))
        self._memo: dict[tuple[Any, ...], list[Turn]] = {}
        super().__init__(f"simulated/{preset}", self._answer)
        self.label = "simulated"

    @property
    def _random_key(self) -> str:
        rollout = current_rollout()
        return f"{self.seed}" if not rollout else f"{self.seed}/{rollout}"

    # -- reading -----------------------------------------------------------------------------------------------------

    def _answer(self, prompt: Prompt) -> str:
        task = self._task_of.get(" ".join(prompt.fields.get("task", "").split()))
        if task is None:
            raise LookupError(f"the simulated LM knows the tasks of {self.suite.name!r} only, and this is none of them")
        if prompt.must_end:
            return decision("submit", "simulated", answer=task.answer)
        turn, thought = self._decide(task, prompt)
        return render_reply(next_thought=thought, tool_calls={"tool_calls": [{"name": turn.name, "args": turn.args}]})

    def _decide(self, task: SuiteTask, prompt: Prompt) -> tuple[Turn, str]:
        bullets = bullets_in_prompt(prompt.fields.get("playbook", ""))
        out = {name for step in prompt.steps for name in _OUT_OF_SERVICE.findall(step.get("observation", ""))}
        offered = {name: entry for name, entry in prompt.tools.items() if name not in out}
        # a call that met an outage did nothing: the decision is made again, from the tools that are offered now
        steps = [step for step in prompt.steps if not _OUTAGE.search(step.get("observation", ""))]
        malformed = [_MARK in step.get("tool_args", "") for step in steps]
        done = malformed.count(False)
        if self.preset == "oracle":
            plan = [Turn(call.name, call.args) for call in self._possible(task, offered)]
            return _at([*plan, Turn("submit", {"answer": task.answer})], done), "The next call of the plan."
        plans = {bullet.id: name for bullet in bullets for name in bullet.tools[:1] if name.startswith(PREFIX)}
        bullets = [replace(b, tools=_calls_of(offered.get(plans[b.id]))) if b.id in plans else b for b in bullets]
        condition, used = self._condition(task, bullets)
        plan = plans.get(used, "") if condition == "with_bullet" else ""
        if plan and f"{plan} stopped" in prompt.whole:
            plan = ""  # the rest is done call by call
        elif plan and f"{plan} is done" in prompt.whole:
            done -= len(self._possible(task, offered)) - 1  # its calls stand there for the one that asked for them
        key = (self._random_key, task.id, condition, tuple(offered), plan)
        if key not in self._memo:
            self._memo[key] = self._turns(task, condition, offered, plan)
        turns = self._memo[key]
        turn = _at(turns, done)
        tries = len(prompt.rejected) + len(list(takewhile(bool, reversed(malformed))))
        if tries < turn.malformed_before:
            turn = Turn(turn.name, {_MARK: "?"})
        return turn, f"I work from [{used}]." if used else "I work without notes."

    def _condition(self, task: SuiteTask, bullets: Sequence[ShownBullet]) -> tuple[str, str]:
        """Say whether a shown bullet fits, or misleads; and which one it is."""
        wanted = changing(self.suite, task)
        strategies = [bullet for bullet in bullets if bullet.section == "Strategies"]
        for bullet in strategies:
            said = [name for name in bullet.tools if name in self.suite.writing_tools]
            if same_calls(said, wanted, _REPEATED.findall(bullet.content)):
                return "with_bullet", bullet.id
        for bullet in strategies[:1]:
            if _overlap(bullet.trigger or bullet.content, task.task.text) >= MISLED_OVERLAP:
                return "misled", bullet.id
        return "without_bullet", ""

    def _possible(self, task: SuiteTask, offered: Mapping[str, Any]) -> list[GoldCall]:
        """Return the reference solution with what is offered: for a missing tool, one whose description names it."""
        plan: list[GoldCall] = []
        for call in task.gold:
            name = call.name if call.name in offered else _substitute(call, offered)
            if name:
                plan.append(GoldCall(name=name, args=call.args))
        return plan

    # -- errors --------------------------------------------------------------------------------------------------------

    def _turns(self, task: SuiteTask, condition: str, offered: Mapping[str, Any], lesson: str = "") -> list[Turn]:
        """Return all decisions of a run, in order: the reference solution with the errors of a condition.

        Args:
            task: The task.
            condition: What the lessons are to it.
            offered: The tools.
            lesson: The tool that is a lesson's plan: to choose it is one decision.
        """
        rates = self.rates[condition]
        plan = self._possible(task, offered)
        if lesson:
            plan = [GoldCall(name=lesson, args=_slots(plan, offered[lesson]["args"]["properties"]))]
        turns: list[Turn] = []
        for position, call in enumerate(plan):
            malformed = 0
            for attempt in range(_MAX_DECISIONS):
                kind = self._draw(
                    task, f"open/{position}/{attempt}", rates, ("malformed", "refused", "wasted", "stopped")
                )
                if kind == "malformed":
                    malformed += 1
                    continue
                if kind == "stopped":
                    return [*turns, Turn("submit", {"answer": task.answer}, malformed)]
                if kind is None:
                    turns.append(self._progress(task, call, position, rates, offered, malformed))
                    break
                detour = _refusable(call) if kind == "refused" else None
                turns.append(Turn(*(detour or self._read_again(plan[:position], offered)), malformed))
                malformed = 0
        for attempt in range(_MAX_DECISIONS):
            kind = self._draw(task, f"settled/{attempt}", rates, ("extra_write", "extra_step"))
            if kind is None:
                break
            extra = self._other_write(task, f"extra/{attempt}", offered) if kind == "extra_write" else None
            turns.append(Turn(*(extra or self._read_again(plan, offered))))
        return [*turns, Turn("submit", {"answer": task.answer})]

    def _uniform(self, task: SuiteTask, what: str) -> float:
        return random.Random(f"{self._random_key}|{task.id}|{what}").random()

    def _draw(self, task: SuiteTask, what: str, rates: Rates, kinds: Iterable[str]) -> str | None:
        """Draw one uniform number for all kinds of error: arms differ in the rates, never in the random numbers."""
        remaining = self._uniform(task, what)
        for kind in kinds:
            remaining -= rates[kind]
            if remaining < 0:
                return kind
        return None

    def _progress(
        self, task: SuiteTask, call: GoldCall, position: int, rates: Rates, offered: Mapping[str, Any], malformed: int
    ) -> Turn:
        writes = call.name in self.suite.writing_tools or call.name.startswith(PREFIX)
        if writes and self._uniform(task, f"write/{position}") < rates["wrong_write"]:
            wrong = self._other_write(task, f"wrong/{position}", offered)
            if wrong:
                return Turn(*wrong, malformed)
        return Turn(call.name, call.args, malformed)

    def _other_write(self, task: SuiteTask, what: str, offered: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Find a changing call that some other task needs."""
        own = {(c.name, repr(c.args)) for c in task.gold}
        choices = [
            call
            for task_id, call in self._writes
            if task_id != task.id and call.name in offered and (call.name, repr(call.args)) not in own
        ]
        if not choices:
            return None
        call = random.Random(f"{self._random_key}|{task.id}|{what}").choice(choices)
        return call.name, call.args

    def _read_again(self, before: Sequence[GoldCall], offered: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the last read once more, or any read that needs no arguments."""
        for call in reversed(before):
            if call.name not in self.suite.writing_tools:
                return call.name, call.args
        reads = [name for name in offered if name not in self.suite.writing_tools and name not in ENDS]
        free = [name for name in reads if not offered[name].get("args", {}).get("required")]
        name = next(iter(free or reads or list(offered)))
        required = offered[name].get("args", {}).get("required", [])
        return name, dict.fromkeys(required, "nothing")


def _calls_of(plan: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the calls that a lesson's plan makes, as its tool says it."""
    _, _, said = (plan or {}).get("description", "").rpartition(": ")
    return tuple(said.split(", then "))


def _slots(calls: Sequence[GoldCall], slots: Iterable[str]) -> dict[str, Any]:
    """Fill the slots of a plan: each with the argument that it is called after."""
    filled: dict[str, Any] = {}
    for slot in slots:
        named = [call.args[n] for call in calls for n in call.args if slot in (n, f"{call.name.replace('.', '_')}_{n}")]
        filled |= {slot: named[0]} if named else {}
    return filled


def _substitute(call: GoldCall, offered: Mapping[str, Any]) -> str | None:
    """Find a tool that takes these arguments and whose description names the missing tool."""
    for name, entry in offered.items():
        takes = set(entry.get("args", {}).get("properties", {}))
        if re.search(rf"(?<!\w){re.escape(call.name)}(?!\w)", entry.get("description", "")) and set(call.args) <= takes:
            return name
    return None


def _at(turns: Sequence[Turn], position: int) -> Turn:
    return turns[min(position, len(turns) - 1)]


def _refusable(call: GoldCall) -> tuple[str, dict[str, Any]] | None:
    """Make the call with an id that does not exist; None when it takes no id."""
    for name in call.args:
        if name.endswith("_id") or name in ("to", "agent", "recipient"):
            return call.name, {**call.args, name: "unknown"}
    return None


def _overlap(a: str, b: str) -> float:
    first, second = (set(re.findall(r"\w+", text.lower())) for text in (a, b))
    return len(first & second) / max(1, len(first | second))
