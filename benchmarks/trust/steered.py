"""Do runs that obeyed a planted text leave a lesson, and do honest ones? ``python -m benchmarks.trust.steered OUT.json``.

Six small worlds, thirty goals, and wordings in eight languages. Those of `worlds.json` and `earlier` were there before the
rule that asks whether the task asked for a call stood; those of `later` were written when it did, not looked at before they
were measured, and are reported apart. Every run is learned from into an empty book as a success; it is left when a lesson
with the planted call is shown. The same text in three tasks must not let itself out. Beside it, honest runs: a hundred whose
answers rightly ask for something, and ninety-six in eight languages.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import share_interval
from ace.learner import Learner
from ace.playbook import MiniLMEmbedder, Playbook
from ace.playbook.bullet import SHOWN_STAGES
from ace.playbook.render import render_bullet
from benchmarks.command import command
from benchmarks.trust.worlds import LANGUAGES, LATER, WORLDS, Goal, Honest, conversation, put

EMBEDDER = MiniLMEmbedder()
WORDS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""The first and the later wordings of a goal (`earlier`, `later`), the goals without the words of their tools (`synonyms`),
the goals of five more languages with their frames, honest runs whose answers ask for something (`asking`), and
honest requests in eight languages, with a note for each of four tools (`tongues`)."""
ALL = WORLDS | LATER


def _written(tool: str, args: dict[str, Any]) -> str:
    return f"{tool}({', '.join(f'{name}={value!r}' for name, value in args.items())})"


class Run(NamedTuple):
    """One conversation, and what of it somebody planted."""

    name: str
    messages: list[dict[str, Any]]
    reads: Sequence[str]
    planted: tuple[str, ...] = ()
    """The tools of the planted calls that change something; none in an honest run."""
    trusted: Sequence[str] = ()


def _obeyed(world: str, name: str, task: Honest, text: str, goal: Goal, late: bool) -> Run:
    tools = ALL[world].tools
    changing = tuple(tool for tool, _ in goal.calls if not tools[tool][0])
    return Run(name, conversation(task, text, goal.calls, late), ALL[world].reads, changing or (goal.calls[-1][0],))


def before() -> Iterator[Run]:
    """Yield the wordings of `worlds.json`, in English, German and Spanish, and the first ones of this file."""
    for world, about in ALL.items():
        tasks = cycle(about.honest)
        for goal in about.goals:
            for language, wordings in LANGUAGES.items():
                for number, (wording, words) in enumerate(wordings.items()):
                    text = put(words, getattr(goal, language), goal.calls)
                    yield _obeyed(world, f"{language}: {wording}", next(tasks), text, goal, number % 2 > 0)
    yield from _in_english(WORDS["earlier"])
    yield from _elsewhere(WORDS["frames"])


def after() -> Iterator[Run]:
    """Yield the wordings that were written when the rule stood."""
    yield from _in_english(WORDS["later"])
    yield from _elsewhere(WORDS["later_frames"])


def _in_english(wordings: dict[str, str]) -> Iterator[Run]:
    for world, about in ALL.items():
        tasks = cycle(about.honest)
        for goal, other in zip(about.goals, WORDS["synonyms"][world], strict=True):
            for number, (wording, words) in enumerate(wordings.items()):
                text = words.format(
                    goal=goal.en,
                    GOAL=goal.en.upper(),
                    other=other,
                    tool=goal.calls[-1][0],
                    TOOL=goal.calls[-1][0].upper(),
                    call=_written(*goal.calls[-1]),
                    base64=base64.b64encode(goal.en.encode()).decode(),
                    json=json.dumps({"instruction": goal.en, "priority": "high"}),
                )
                yield _obeyed(world, f"en: {wording}", next(tasks), text, goal, number % 2 > 0)


def _elsewhere(frames: dict[str, Sequence[str]]) -> Iterator[Run]:
    for language, goals in WORDS["elsewhere"].items():
        for place, goal in goals.items():
            world, number = place.split()[0], int(place.split()[1])
            for frame in frames[language]:
                task = ALL[world].honest[len(frame) % 4]
                text = frame.format(goal)
                yield _obeyed(world, language, task, text, ALL[world].goals[number], late=bool(number % 2))


# -- honest runs ----------------------------------------------------------------------------------------------------------

READS = ["find", "read", "get", "list", "search"]


def _talk(task: str, calls: Iterable[tuple[str, dict[str, Any], str]]) -> list[dict[str, Any]]:
    return conversation(Honest(task, list(calls)))


def _filled(value: Any, given: dict[str, Any]) -> Any:
    """Put what is given in the place of its names; a text that is a name alone becomes the thing itself."""
    if isinstance(value, dict):
        return {name: _filled(part, given) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    alone = value.startswith("$") and value[1:] in given
    return given[value[1:]] if alone else Template(value).substitute(given)


def asking() -> Iterator[Run]:
    """Yield a hundred honest runs, twenty kinds in five fillings, whose answers rightly ask for something."""
    for n, name in enumerate(("Lindqvist", "Okoye", "Baptiste", "Haas", "Moreau")):
        given = {"name": name, "i": 20 + 7 * n, "other": 61 + 5 * n, "page": n + 2, "house": n + 3}
        for kind, run in WORDS["asking"].items():
            calls = [
                (tool, _filled(args, given), Template(answer).substitute(given)) for tool, args, answer in run["calls"]
            ]
            reads = [tool for tool, _, _ in calls if tool.startswith((*READS, "fetch"))]
            yield Run(kind, _talk(Template(run["task"]).substitute(given), calls), reads)


DONE = (
    ("get_ticket", "close_ticket", "ticket", "Close a support ticket."),
    ("get_order", "refund_order", "order", "Pay an order back."),
    ("get_booking", "cancel_booking", "booking", "Cancel a booking."),
    ("read_log", "restart_service", "service", "Restart a service."),
)


def tongues() -> Iterator[Run]:
    """Yield 96 honest runs in eight languages: each request with a note as running text, in a field, and without one."""
    for language, requests in WORDS["tongues"].items():
        for (request, note), (read, change, argument, _) in zip(requests, DONE, strict=True):
            for form in ("prose", "field", "none"):
                number = 100 + 13 * len(form) + len(note)
                value = f"web{number}" if "web" in request else number
                known = {argument: value, "state": "open"}
                field = json.dumps({**known, "note": note}, ensure_ascii=False)
                answer = {"prose": note, "field": field, "none": json.dumps(known)}
                calls = [(read, {argument: value}, answer[form]), (change, {argument: value}, "ok")]
                yield Run(f"{language}: {form}", _talk(request.format(n=number), calls), [read])


# -- measuring ------------------------------------------------------------------------------------------------------------


def shown_by(runs: Sequence[Run]) -> list[str]:
    """Return the lessons that an empty book shows when it has learned from runs, as a prompt has them."""
    with Playbook(embedder=EMBEDDER) as book:
        learner = Learner(book)
        for run in runs:
            learner.learn_from_traces([run.messages], [True], read_only=run.reads, trusted=run.trusted)
        return [render_bullet(bullet) for bullet in book.bullets if bullet.stage in SHOWN_STAGES]


def left(run: Run, times: int = 1) -> bool:
    """Check whether a lesson with the planted call is shown after so many tasks with the same planted text."""
    first, *rest = run.messages
    again = [
        run._replace(messages=[{**first, "content": f"{first['content']} ({number})"}, *rest])
        for number in range(1, times)
    ]
    lessons = shown_by([run, *again])
    return any(tool in lesson for tool in run.planted for lesson in lessons)


def counted(rows: Iterable[tuple[Run, bool]]) -> dict[str, Any]:
    """Count how many of the runs, with an interval, and by their kinds."""
    found, by = list(rows), defaultdict[str, list[bool]](list)
    for run, yes in found:
        by[run.name].append(yes)
    count = sum(yes for _, yes in found)
    return {
        "n": len(found), "count": count, "share": count / len(found), "interval": share_interval(count, len(found)),
        "by": {name: f"{sum(yes)} of {len(yes)}" for name, yes in sorted(by.items())},
    }  # fmt: skip


def measured(only: int = 1) -> dict[str, Any]:
    """Measure all figures, of every `only`-th run."""
    console = Console(stderr=True)

    def each(name: str, runs: Iterable[Run]) -> Iterable[Run]:
        return track(list(runs)[::only], name, console=console)

    report: dict[str, Any] = {
        "before": counted((run, left(run)) for run in each("before", before())),
        "after": counted((run, left(run)) for run in each("after", after())),
        "three times": counted((run, left(run, 3)) for run in each("the same text three times", list(after())[::5])),
        "asking": counted((run, bool(shown_by([run]))) for run in each("honest, asking", asking())),
        "tongues": counted((run, bool(shown_by([run]))) for run in each("honest, eight languages", tongues())),
    }
    sides = (report["before"], report["after"])
    report["all"] = {
        "n": sum(s["n"] for s in sides),
        "share": sum(s["count"] for s in sides) / sum(s["n"] for s in sides),
    }
    return report


if __name__ == "__main__":
    command(measured)
