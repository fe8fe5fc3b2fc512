"""A lesson's plan as one tool: the model chooses it and fills its slots, and the run makes its calls.

Nothing is guessed. Where an answer has not what the next call needs, or says more than the plan knows of, the plan ends
there and the model goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from ace.agent.planned import PlanEnd
from ace.agent.states import RequestedTool
from ace.core import InvalidModelAction, RunStoreError, ToolError
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.plan import ENDS, Binding, Call, Constant, FromAnswer, FromTask, Plan
from ace.playbook.release import PlanMode, proven, why_changed, why_no_call, why_stopped
from ace.reflector.values import as_key, exact_key, slot_name, structure
from ace.tasks import ReasoningStep
from ace.tools import Tool, ToolRegistry
from ace.tools.schema import SchemaArguments

PREFIX = "plan_"
"""How the name of a tool begins that is a plan."""
PLAN = "plan"
"""Where a stored run holds the plan that it was offered."""
MAX_ITEMS = 50
"""Items that a plan goes over at most."""
MAX_DEPTH = 8
"""References in references of a schema that are followed."""
_REFERENCES = frozenset({"$ref", "$defs", "definitions"})
MAX_NAME = 64
"""Characters of a plan's name."""
_Place = tuple[int, str]
"""An argument of a plan: the number of its call, and its name there."""


class _StoppedError(Exception):
    """The plan cannot go on: the number of the call that is not made, and why."""


class PlanTool:
    """A lesson's plan as a run is offered it: `PlanTool("b-7", plan, registry, "Refund {order}")`.

    Args:
        bullet_id: The lesson.
        plan: Its plan.
        registry: The agent's tools.
        situation: When it applies, in words.

    Attributes:
        tool: Takes what fills the slots: what the task says, and what the model writes.
    """

    def __init__(self, bullet_id: str, plan: Plan, registry: ToolRegistry, situation: str) -> None:
        self.bullet_id = bullet_id
        self.plan = plan
        self.situation = situation
        self._registry = registry
        self._schemas = {call.tool: _inlined(registry.get(call.tool).schema) for call in plan.calls}
        self._blocks = [list(block) for _, block in groupby(range(len(plan.calls)), self._block_of)]
        self._slots: dict[_Place, str] = {}
        self.tool = self._as_tool()

    @classmethod
    def of_stored(cls, text: str, registry: ToolRegistry) -> PlanTool:
        """Read what `stored` gave.

        Raises:
            RunStoreError: The agent lacks a tool of the plan.
        """
        said = json.loads(text)
        plan, bullet_id = Plan.model_validate(said["plan"]), said["bullet_id"]
        if missing := sorted({call.tool for call in plan.calls if not registry.has(call.tool)}):
            needed = f"the plan of {bullet_id}, which needs {', '.join(missing)}"
            raise RunStoreError(f"the run began with {needed}; resume it with the agent that started it")
        return cls(bullet_id, plan, registry, said["situation"])

    def stored(self) -> str:
        """Write it as JSON, for a run that another process resumes."""
        plan = self.plan.model_dump(mode="json")
        return json.dumps({"bullet_id": self.bullet_id, "plan": plan, "situation": self.situation})

    @property
    def metadata(self) -> dict[str, Any]:
        """What the metadata of a run say of it."""
        return {PLAN: {"bullet": self.bullet_id, "tool": self.tool.name}}

    def slots_of(self, args: Any) -> Any:
        """Return a call's arguments without those in which the model repeats a constant of the plan."""
        if not isinstance(args, dict):
            return args
        calls = [binding for call in self.plan.calls for binding in call.args.items()]
        said = {(name, as_key(binding.value)) for name, binding in calls if isinstance(binding, Constant)}
        given = cast("dict[str, Any]", args)
        return {n: v for n, v in given.items() if n in self.tool.parameters or (n, as_key(v)) not in said}

    def after(self, args: Mapping[str, Any], made: Sequence[ReasoningStep]) -> RequestedTool | PlanEnd:
        """Return the call that comes after those that were made, or how the plan ended."""
        steps = list(made)
        answers: dict[int, list[ReasoningStep]] = {}
        try:
            for index, item, own in self._turns(args, answers):
                call = self.plan.calls[index]
                if not steps:
                    if made:
                        self._check_answer(index, made[-1])
                    return self._request(index, {**item, **self._filled(index, args, {**answers, **own}, item)})
                step = steps.pop(0)
                if step.outcome == "denied":  # by a person or a budget: that says nothing about the plan
                    raise _StoppedError(None, f"{call.tool} was not called")
                if step.tool_name != call.tool or step.outcome != "success" or not step.executed:
                    raise _StoppedError(index, f"{call.tool} did not succeed")
                own[index] = [step]
                answers.setdefault(index, []).append(step)
        except _StoppedError as stopped:
            at, why = stopped.args
            return PlanEnd(at=at, why=why)
        return PlanEnd()

    # -- what comes when -----------------------------------------------------------------------------------------------

    def _block_of(self, index: int) -> tuple[bool, int]:
        """Return the block that a call stands in: calls of one loop stand in one."""
        call = self.plan.calls[index]
        return (True, call.loop) if call.times == "each" else (False, index)

    def _turns(
        self, args: Mapping[str, Any], answers: Mapping[int, Sequence[ReasoningStep]]
    ) -> Iterator[tuple[int, dict[str, Any], dict[int, Sequence[ReasoningStep]]]]:
        """Yield each call in turn: its number, the item that a loop is at, and the answers of this turn of the loop."""
        for block in self._blocks:
            calls = [self.plan.calls[index] for index in block]
            if calls[0].times != "each":
                yield block[0], {}, {}
                continue
            over = {
                i: self._items(i, args, answers) for i, call in zip(block, calls, strict=True) if self.plan.drives(call)
            }
            lengths = sorted({len(items) for items in over.values()})
            if len(lengths) != 1 or not 0 < lengths[0] <= MAX_ITEMS:
                found = " and ".join(map(str, lengths))
                raise _StoppedError(block[0], f"{calls[0].tool} needs 1 to {MAX_ITEMS} items, and there are {found}")
            for turn in range(lengths[0]):
                own: dict[int, Sequence[ReasoningStep]] = {}
                for index in block:
                    yield index, {self.plan.calls[index].over: over[index][turn]} if index in over else {}, own

    def _items(self, index: int, args: Mapping[str, Any], answers: Mapping[int, Sequence[ReasoningStep]]) -> list[Any]:
        call = self.plan.calls[index]
        source = call.args[call.over]
        if isinstance(source, FromAnswer):
            return self._values(index, call.over, answers)
        return list({exact_key(item): item for item in args[self._slots[index, call.over]]}.values())

    # -- what a call is given ------------------------------------------------------------------------------------------

    def _filled(
        self,
        index: int,
        args: Mapping[str, Any],
        answers: Mapping[int, Sequence[ReasoningStep]],
        item: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Fill in the arguments of a call."""
        filled: dict[str, Any] = {}
        for name, binding in self.plan.calls[index].args.items():
            if name in item:
                continue
            if isinstance(binding, Constant):
                filled[name] = binding.value
            elif isinstance(binding, FromAnswer):
                filled[name] = self._one(index, name, answers)
            else:
                filled[name] = args[self._slots[index, name]]
        return filled

    def _one(self, index: int, name: str, answers: Mapping[int, Sequence[ReasoningStep]]) -> Any:
        """Return the value of an argument that an answer gives; all of them for one that takes a list."""
        values = self._values(index, name, answers)
        call = self.plan.calls[index]
        first, *others = call.places(name)
        if values and _branch(self._part(call, name)).get("type") == "array":
            return values if others else self._rows(index, cast(FromAnswer, first), answers)
        if len(values) != 1:
            found = f"{len(values)} values" if values else "no value"
            raise _StoppedError(
                index, f"{call.tool} needs one {slot_name(name)}, and the answers before it have {found}"
            )
        return values[0]

    def _values(self, index: int, name: str, answers: Mapping[int, Sequence[ReasoningStep]]) -> list[Any]:
        """Return what stands at every place from which an argument came so far, each once."""
        places = [p for p in self.plan.calls[index].places(name) if isinstance(p, FromAnswer)]
        first, *others = ({exact_key(v): v for v in self._rows(index, place, answers)} for place in places)
        return [value for key, value in first.items() if all(key in other for other in others)]

    def _rows(
        self, index: int, place: FromAnswer, answers: Mapping[int, Sequence[ReasoningStep]]
    ) -> list[str | int | float]:
        """Return what stands at a place, one value for each row: where one row lacks it, nobody knows which value is
        whose."""
        steps = re.findall(r"\[\]|[^.\[\]]+", place.path)
        rows = [value for step in answers.get(place.call, ()) for value in _at(structure(step.result), steps)]
        found = [value for value in rows if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
        if 0 < len(found) < len(rows):
            tools = (self.plan.calls[index].tool, self.plan.calls[place.call].tool)
            raise _StoppedError(index, f"{tools[0]} needs {steps[-1]}, which some rows of {tools[1]} lack")
        return found

    def _request(self, index: int, args: Mapping[str, Any]) -> RequestedTool:
        """Make the call, once its arguments fit."""
        tool, nested = self._registry.get(self.plan.calls[index].tool), dict[str, Any]()
        for name, value in args.items():
            *objects, last = name.split(".")
            inner = nested
            for key in objects:
                inner = inner.setdefault(key, {})
            inner[last] = value
        try:
            tool.checked(nested)
        except InvalidModelAction as error:
            raise _StoppedError(index, error.message.rstrip(".")) from error
        return RequestedTool(tool.name, nested)

    def _check_answer(self, index: int, step: ReasoningStep) -> None:
        """Stop where an answer of others names a changing tool that is not the next one: the plan knows nothing of it."""
        if self._registry.get(step.tool_name).trusted:
            return
        following = self.plan.calls[index].tool
        for tool in self._registry:
            named = tool.name in step.result and re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", step.result)
            if named and tool.name != following and not tool.read_only:
                raise _StoppedError(index, f"the answer of {step.tool_name} names {tool.name}")

    # -- the tool ------------------------------------------------------------------------------------------------------

    def _part(self, call: Call, name: str) -> dict[str, Any]:
        """Return the JSON Schema of an argument."""
        part = self._schemas[call.tool]
        for key in name.split("."):
            part = _branch(part).get("properties", {}).get(key, {})
        return part

    def _as_tool(self) -> Tool:
        tools = dict.fromkeys(re.sub(r"\W+", "_", call.tool) for call in self.plan.calls)
        name, number = f"{PREFIX}{'_'.join(tools)}"[:MAX_NAME], 1
        plain = name
        while self._registry.has(name):
            number += 1
            name = f"{plain[: MAX_NAME - 3]}_{number}"
        properties: dict[str, Any] = {}
        for index, call in enumerate(self.plan.calls):
            for argument, binding in call.args.items():
                if isinstance(binding, (Constant, FromAnswer)):
                    continue
                slot = self._slot(call, argument, properties)
                self._slots[index, argument] = slot
                properties[slot] = self._shown(call, argument, binding)
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        calls = ", then ".join(call.tool for call in self.plan.calls)
        said = f"Do a task like <{self.situation}> in one call, which makes these: {calls}"
        return Tool(name, said, _never_called, SchemaArguments(name, schema), read_only=False)

    def _slot(self, call: Call, argument: str, taken: Mapping[str, Any]) -> str:
        """Name the slot of an argument: as the argument, after the name of its tool where there are two of the name."""
        bare = slot_name(argument)
        names = (bare, f"{re.sub(r'[^0-9a-zA-Z]+', '_', call.tool)}_{bare}")
        return next((name for name in names if name not in taken), f"{bare}_{len(taken)}")

    def _shown(self, call: Call, argument: str, binding: Binding) -> dict[str, Any]:
        part = self._part(call, argument)
        where = "from the task" if isinstance(binding, FromTask) else "in your words"
        text = f"{part.get('description', '')} ({slot_name(argument)} of {call.tool}, {where})".strip()
        if call.times == "each" and argument == call.over:
            return {"type": "array", "items": part, "minItems": 1, "description": text}
        return {**part, "description": text}


def offered(bullets: Iterable[PlaybookBullet], mode: PlanMode, registry: ToolRegistry) -> PlanTool | None:
    """Return the first plan that may run, of the lessons that are shown; None where there is none.

    Args:
        bullets: Best first, as a playbook gives them: it says which of their plans a person has released.
        mode: What may run.
        registry: The agent's tools.
    """
    if mode == "off":
        return None
    ids: Collection[str] = getattr(bullets, "released", ())
    for bullet in bullets:
        allowed = bullet.id in ids or (mode == "proven" and proven(bullet))
        against = why_no_call(bullet) or why_stopped(bullet) or why_changed(bullet, registry.schema_hashes)
        if allowed and not against:
            plan = cast(Plan, bullet.plan)
            return PlanTool(bullet.id, plan, registry, bullet.trigger)
    return None


def as_plan(bullets: Iterable[PlaybookBullet], plan: PlanTool | None) -> list[PlaybookBullet]:
    """Return the lessons as a prompt shows them: the one whose plan is offered names that in place of its calls."""
    if plan is None:
        return list(bullets)
    call = f"{plan.tool.name}({', '.join(plan.tool.parameters)}){ENDS}"
    said = {"content": call, "tool_sequence": (plan.tool.name,)}
    return [bullet.model_copy(update=said) if bullet.id == plan.bullet_id else bullet for bullet in bullets]


def _at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    """Yield what stands at a path of an answer, once for each row; None where a row lacks it."""
    if not steps:
        yield value
    elif steps[0] == "[]":
        items = cast("Mapping[str, Any]", value).values() if isinstance(value, Mapping) else value
        for item in cast("Iterable[Any]", items) if isinstance(value, (Mapping, list, tuple)) else (None,):
            yield from _at(item, steps[1:])
    else:
        known = isinstance(value, Mapping) and steps[0] in value
        yield from _at(cast("Mapping[str, Any]", value)[steps[0]], steps[1:]) if known else (None,)


def _inlined(node: Any, known: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """Put in a schema what its references name in their place; of one that refers to itself only the beginning."""
    if isinstance(node, list):
        return [_inlined(item, known, depth) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    part = cast("dict[str, Any]", node)
    known = known if known is not None else {**part.get("definitions", {}), **part.get("$defs", {})}
    kept = {key: _inlined(item, known, depth) for key, item in part.items() if key not in _REFERENCES}
    name = str(part.get("$ref", "")).rpartition("/")[2]
    return kept if name not in known or depth > MAX_DEPTH else {**_inlined(known[name], known, depth + 1), **kept}


def _branch(part: dict[str, Any]) -> dict[str, Any]:
    """Return what a value has to be where it is not null."""
    options: list[dict[str, Any]] = part.get("anyOf") or part.get("oneOf") or [part]
    return next((option for option in options if option.get("type") != "null"), part)


def _never_called(**_arguments: Any) -> None:
    raise ToolError("exception", "A plan is chosen by the model, and its calls are made by the run.")
