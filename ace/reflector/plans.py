"""From a run to a plan and a situation: where each argument came from, and what of the request is one task's own.

Arguments are looked for in the task first, then in the latest answer that has the value as a whole field, then in an
answer's text. What is left is a constant that a schema names, or what the model wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from ace.core import value_to_text
from ace.core.language import FUNCTION_WORDS
from ace.playbook.masking import WORD
from ace.playbook.plan import Binding, Call, Constant, FromAnswer, FromTask, Plan, Situation, Written
from ace.reflector.knowledge import Knowledge
from ace.reflector.loops import looped
from ace.reflector.situations import generalised
from ace.reflector.values import as_key, as_text, flat, inflected_in, leaves, paths, said_in, slot_name, spellings
from ace.tasks import ReasoningStep, TaskInput

_MAX_ALSO = 7
"""Other places of one argument that are kept."""


@dataclass(frozen=True)
class MinedPlan:
    """What a run did, and when that is to be done again."""

    plan: Plan
    situation: Situation
    values: dict[str, str]
    """What filled the slots; it stays in this process."""


def mined(task: TaskInput, steps: Sequence[ReasoningStep], knowledge: Knowledge) -> MinedPlan:
    """Mine the plan and the situation of a run whose useful calls are these."""
    request = " ".join(value_to_text(value) for name, value in task.inputs.items() if name != "earlier")
    earlier = value_to_text(task.inputs.get("earlier", ""))
    binder = _Binder(f"{request}\n{earlier}", knowledge)
    given = [flat(step.tool_args) for step in steps]
    calls = looped([binder.call(step, args) for step, args in zip(steps, given, strict=True)], given)
    own = {value_to_text(value): name for name, value in task.inputs.items() if knowledge.hides(name)}
    situation, values = generalised(" ".join(request.split()), own | binder.found, steps, knowledge, binder.named)
    declines = not any(call.changes for call in calls) and knowledge.asks_for_a_change(request)
    return MinedPlan(Plan(calls=tuple(calls), declines=declines), situation, values)


class _Binder:
    """Binds the arguments of one call after another."""

    def __init__(self, task: str, knowledge: Knowledge) -> None:
        self._task = task
        self._knowledge = knowledge
        self._answers: list[tuple[int, str, dict[str, tuple[str, ...]], str]] = []
        """Of each call so far: its index, its tool, the paths of its answer's fields by their value, the answer."""
        self._names = set(knowledge.keys)
        self.found: dict[str, str] = {}
        """Text in the task to the argument that was taken from it."""
        self.named: set[str] = set()
        """Those of them that a schema names, in lower case."""

    def call(self, step: ReasoningStep, given: Mapping[str, Any]) -> Call:
        args = dict[str, Binding]()
        also = dict[str, tuple[Binding, ...]]()
        self._names |= set(map(slot_name, given))
        for name, value in given.items():
            self._knowledge.in_time()
            args[name], *others = self._bound(step.tool_name, name, value)
            if others:
                also[name] = tuple(others[:_MAX_ALSO])
        self._answers.append((len(self._answers), step.tool_name, paths(step.result), step.result))
        trusted = self._knowledge.trusts(step.tool_name)
        return Call(tool=step.tool_name, args=args, also=also, changes=step.changes_state, trusted=trusted)

    def _bound(self, tool: str, name: str, value: Any) -> Sequence[Binding]:
        """Find where an argument came from, and where else it may have come from."""
        if self._knowledge.names(tool, name, value):
            places: list[Binding] = [self._chosen(name, value)]
            others = [] if isinstance(value, (list, bool)) or value is None else self._places(name, value)
            alike = (p for p in others if isinstance(p, FromAnswer) and slot_name(p.path) == slot_name(name))
            return [*places, *alike]
        items: list[Any] = cast("list[Any]", value) if isinstance(value, list) and value else [value]
        first, *rest = (self._places(name, item) for item in items)
        # items may come from answers of the same tool, one each
        keys = [{self._source(place) for place in other} for other in rest]
        everywhere = [place for place in first if all(self._source(place) in other for other in keys)]
        everywhere = everywhere or (self._places(name, value) if rest else [])
        if everywhere:
            return everywhere
        if isinstance(value, (dict, list)):
            for _, leaf in leaves(cast(Any, value)):
                self._in_task(name, leaf)  # a part of it is somebody's own, too
            return [Written()]
        text = as_text(value)
        if not text or len(text) > 80 or self._knowledge.hides(name):
            return [Written()]
        rare = not all(map(self._knowledge.knows, WORD.findall(text.lower())))
        return [Written() if rare or self._knowledge.masks(text) else Constant(value=value, named=False)]

    def _source(self, place: Binding) -> tuple[str, str]:
        return (self._answers[place.call][1], place.path) if isinstance(place, FromAnswer) else ("", repr(place))

    def _chosen(self, name: str, value: Any) -> Binding:
        """Bind one of the values that a schema names: the task's choice, where the task says it in a word that tells."""
        text = as_text(value)
        if value is None or isinstance(value, bool) or text.lower() in FUNCTION_WORDS or not self._in_task(name, text):
            return Constant(value=value)
        self.named.add(text.lower())
        return FromTask(slot=slot_name(name), value=value, seen=1)

    def _in_task(self, name: str, value: Any) -> bool:
        exact = (found for text in spellings(value) for found in said_in(self._task, text))
        match = next(chain(exact, inflected_in(self._task, as_text(value))), None)
        if match:
            self.found.setdefault(match[0], slot_name(name))
        return match is not None

    def _places(self, name: str, value: Any) -> list[Binding]:
        """Find all places that hold a value: the task; fields of answers, the latest first; else the text of an answer."""
        places, key = list[Binding](), as_key(value)
        if not key.strip():
            return places
        if self._in_task(name, value):
            places.append(FromTask(slot=slot_name(name)))
        held = ((index, path) for index, _, known, _ in reversed(self._answers) for path in known.get(key, ()))
        found = [(index, ".".join(map(self._field, path.split(".")))) for index, path in held]
        # a field of the same name first
        found.sort(key=lambda place: (-place[0], slot_name(place[1]) != slot_name(name)))
        places += [FromAnswer(call=index, path=path, unnamed=self._unnamed(path)) for index, path in found]
        if not places:
            said = (index for index, _, _, answer in reversed(self._answers) if any(said_in(answer, key)))
            places += [FromAnswer(call=index) for index in said]
        return places

    def _unnamed(self, path: str) -> tuple[str, ...]:
        """Return the keys of a path that no schema and no call of the run names."""
        keys = path.replace("[]", "").split(".")
        return tuple(key for key in dict.fromkeys(keys) if key and key not in self._names)

    def _field(self, name: str) -> str:
        """Return a step of a path; what the task says, and no list of words knows, is data that an answer is sorted by."""
        bare = name.replace("[]", "")
        own = any(said_in(self._task, bare)) and not self._knowledge.knows(bare.lower())
        return name.replace(bare, "[]") if own else name
