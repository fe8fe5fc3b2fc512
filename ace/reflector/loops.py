"""Repeated calls of a run as loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.playbook.plan import Binding, Call, Constant, FromAnswer, FromTask, Written

MAX_LOOP = 5
"""Calls in the body of a loop."""


def looped(calls: Sequence[Call], values: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Merge repeated calls with the same bindings into one: for each item, or that many times.

    Args:
        calls: In order.
        values: Their arguments as they were.
    """
    kept: list[Call] = []
    moved: dict[int, int] = {}
    at = loop = 0
    while at < len(calls):
        length, times, places = _loop_at(calls, values, at, moved)
        over: list[str] = []
        for offset in range(length):
            call, said = calls[at + offset], values[at + offset : at + length * times : length]
            for repeat in range(times):
                moved[at + repeat * length + offset] = len(kept)
            args = {
                name: [_moved(arg, moved) for arg in _all_of(name, found, said)]
                for name, found in places[offset].items()
            }
            call = call.model_copy(
                update={
                    "args": {name: found[0] for name, found in args.items()},
                    # what a schema names is settled
                    "also": {n: tuple(f[1:]) for n, f in args.items() if f[1:] and not isinstance(f[0], Constant)},
                    "times": "once" if times == 1 else times,
                }
            )
            over.append(_varying(places[offset], said))
            kept.append(call)
        if times > 1 and any(over):
            loop += 1
            for index, name in enumerate(over, len(kept) - length):
                kept[index] = kept[index].model_copy(update={"times": "each", "over": name, "loop": loop})
        at += length * times
    return kept


_Places = Mapping[str, Mapping[str, Binding]]
"""Of a call: by argument, the places that it may have come from, by what makes them the same in a loop."""


_OPEN = "open"
"""The place of what a schema names, in a loop in which it differs."""


def _loop_at(
    calls: Sequence[Call], values: Sequence[Mapping[str, Any]], at: int, moved: Mapping[int, int]
) -> tuple[int, int, list[_Places]]:
    """Find the shortest loop that begins at a call: how many calls, how often, and where their arguments come from."""
    for length in range(1, MAX_LOOP + 1):
        times, places = _repeats(calls, at, length, moved)
        if times < 2:
            continue
        rows = [values[at + offset : at + length * times : length] for offset in range(length)]
        left_open = any([*found] == [_OPEN] for call in places for found in call.values())
        if not left_open or any(_varying(found, said) for found, said in zip(places, rows, strict=True)):
            return length, times, places
    return 1, 1, [_places_of(calls[at], at, moved)]


def _varying(places: _Places, values: Sequence[Mapping[str, Any]]) -> str:
    """Name the argument of a repeated call that came from the task or an answer, and was another one each time."""
    firsts = {name: next(iter(found.values())) for name, found in places.items()}
    bound = (name for name, first in firsts.items() if isinstance(first, (FromAnswer, FromTask)))
    return next((name for name in bound if any(other.get(name) != values[0].get(name) for other in values)), "")


def _all_of(name: str, places: Mapping[str, Binding], values: Sequence[Mapping[str, Any]]) -> list[Binding]:
    """Return the bindings of an argument in a loop: what the model wrote in other words each time is no constant."""
    found = [place for key, place in places.items() if key != _OPEN] or [Written()]
    constant = isinstance(found[0], Constant) and not found[0].named
    return [Written()] if constant and any(other.get(name) != values[0].get(name) for other in values) else found


def _moved(arg: Binding, moved: Mapping[int, int]) -> Binding:
    return arg.model_copy(update={"call": moved[arg.call]}) if isinstance(arg, FromAnswer) else arg


def _places_of(call: Call, start: int, moved: Mapping[int, int]) -> _Places:
    """Return the places of a call's arguments; `start` is where the body of a loop begins: its answers are one source."""

    def same(arg: Binding) -> str:
        if isinstance(arg, FromAnswer):
            inside = arg.call >= start
            return f"{inside} {arg.call - start if inside else moved.get(arg.call, arg.call)} {arg.path}"
        # in other words each time
        return repr(Written() if isinstance(arg, Constant) and not arg.named else arg)

    found: dict[str, dict[str, Binding]] = {}
    for name, arg in call.args.items():
        found[name] = {same(place): place for place in call.places(name)}
        if (isinstance(arg, Constant) and arg.named) or (isinstance(arg, FromTask) and arg.value is not None):
            found[name][_OPEN] = Written()
    return found


def _repeats(calls: Sequence[Call], at: int, length: int, moved: Mapping[int, int]) -> tuple[int, list[_Places]]:
    """Count how often the `length` calls from `at` on stand in a row, bound alike, and keep the places that all of them
    have."""
    common, count = [_places_of(call, at, moved) for call in calls[at : at + length]], 1
    while True:
        start = at + count * length
        body = calls[start : start + length]
        if [call.tool for call in body] != [call.tool for call in calls[at : at + length]]:
            return count, common
        others = [_places_of(call, start, moved) for call in body]
        both: list[_Places] = [_both(one, other) for one, other in zip(common, others, strict=True)]
        if not all(places for call in both for places in call.values()):
            return count, common
        common, count = both, count + 1


def _both(one: _Places, other: _Places) -> _Places:
    names = {**one, **other}
    return {n: {k: place for k, place in one.get(n, {}).items() if k in other.get(n, {})} for n in names}
