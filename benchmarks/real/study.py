"""What memories do for a small real model.

    python -m benchmarks.real.study RECORDING.jsonl.gz --replay --json OUT.json     (no model needed)
    python -m benchmarks.real.study RECORDING.jsonl.gz --minutes 60                 (a part; goes on where it was stopped)
    python -m benchmarks.real.study RECORDING.jsonl.gz --suite workbench:FOLDER

On `office`, tasks 0 and 1 of each of the 25 families are learned from, 3 and 4 are tried; ``--numbers 2`` tries
number 2, which is worded as none of those that are learned from. Of `workbench` 50 drawn tasks are tried, and one run of
GPT-4 that was right is learned from for each template. Of `bfcl:multiple` and `bfcl:irrelevance` 50 drawn tasks are tried,
and there is nothing to learn.

Arms, all in our agent but the last one, greedily and with at most 8 replies:

    none            no memory
    taught          what the model taught itself: three attempts at each training task with the playbook so far, at
                    temperature 0.7, until it is solved; the suite's scorer says which were
    demonstrations  one right run of each training task (office: its reference solution); a person approved the lessons
    unseen          the same, without the lessons of the test task's own family
    plans           the same, with the plans of the lessons as one call, each of them released
    exprag, episodic, whole-book   other memories over the runs of the demonstrations: those of the three most similar
                    requests, the last three, and all of them (as ace-framework shows its book)
    react_v2        `dspy.ReActV2` without a memory

Solved is what the suite's score says: the world is right, and the agent said that it is done. Everything is recorded
(`recording.py`): a replay runs the agents as they are now over the recorded replies, and says what has changed. Where there
is a model, runs that have changed are made again.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ace import ReActGenerator
from ace.core import PlaybookError
from ace.evaluation.memories import FixedBullets
from ace.evaluation.models import ModelChoice, choose_model, load_suite_for
from ace.evaluation.stats import paired_difference
from ace.playbook import Filters, MiniLMEmbedder, Playbook, PlaybookBullet
from ace.suites.protocol import Suite, SuiteTask, signature_of
from ace.suites.registry import load_suite
from ace.tasks import Feedback, TaskOutput
from benchmarks.real.loop import carried_out, chosen, model_at, own_server
from benchmarks.real.loop_agents import ITERATIONS, FirstReply, language_model, ours, react_v2
from benchmarks.real.recording import Ending, LiveModel, RecordedRun, Recording, RecordingError, ReplayedModel, commit

LEARN, TEST = (0, 1), (3, 4)
"""Numbers of the tasks in each family: those that are learned from, and those that are tried."""
ATTEMPTS, WARM, NEIGHBOURS, TURN, DRAWN = 3, 0.7, 3, 10, 50
ARMS = (
    "none", "demonstrations", "unseen", "plans", "exprag", "episodic", "whole-book", "taught", "react_v2",
)  # fmt: skip
OTHERS = ("exprag", "episodic", "whole-book")
"""Other memories over the same runs."""
Play = Callable[..., TaskOutput]


class Planned(NamedTuple):
    """One run that is wanted."""

    arm: str
    task: str
    attempt: int = 0

    @property
    def name(self) -> str:
        """Its name in the recording."""
        return f"{self.arm}/{self.task}" + (f"/{self.attempt}" if self.arm == "train" else "")


class Seen(NamedTuple):
    """A run that memories got."""

    task: SuiteTask
    output: TaskOutput
    feedback: Feedback


class Subject:
    """A suite's tasks, those that are tried and those that are learned from, and the memories over these, each made once.

    Args:
        spec: The suite.
        numbers: Of the tasks of each of office's families that are tried.
    """

    def __init__(self, spec: str, numbers: Sequence[int] = TEST) -> None:
        self.spec, self.suite = spec, load_suite(spec)
        self.tasks = {task.id: limited(task) for task in self.suite.tasks}
        self.own = Playbook()
        """What the model teaches itself."""
        families = dict[str, list[str]]()
        for task in self.suite.tasks:
            families.setdefault(task.group, []).append(task.id)
        self.arms: tuple[str, ...] = ARMS
        self.learned: list[list[str]] = []
        """For each demonstration the tasks that it may be of."""
        if spec == "office":
            self.learned = [[f"{family}#{number}"] for family in families for number in LEARN]
            self.tried = [f"{family}#{number}" for family in families for number in numbers]
            return
        drawn = random.Random(0)
        self.tried = drawn.sample(list(self.tasks), DRAWN)
        if len(families) == len(self.tasks):
            self.arms = ("none", "react_v2")
        else:
            self.arms = ("none", "demonstrations", "exprag")
            others = ([name for name in names if name not in self.tried] for names in families.values())
            self.learned = [drawn.sample(names, len(names)) for names in others]

    @property
    def families(self) -> list[str]:
        """Of the tasks that are tried."""
        return list(dict.fromkeys(self.tasks[name].group for name in self.tried))

    def of(self, families: Sequence[str], names: Sequence[str]) -> list[str]:
        """Choose those of some tasks that are of some families."""
        return [name for name in names if self.tasks[name].group in families]

    @cached_property
    def teacher(self) -> tuple[dict[str, SuiteTask], Suite, ModelChoice]:
        """Whose runs are demonstrations: a stand-in's, which plays office's reference solutions, or GPT-4's, recorded."""
        name = "simulated:oracle" if self.spec == "office" else "recorded:gpt-4_domains"
        suite = load_suite_for(self.spec, name)
        return {task.id: task for task in suite.tasks}, suite, choose_model(name, suite)

    def shown(self, name: str) -> Seen:
        """Return the teacher's run of a task."""
        tasks, suite, choice = self.teacher
        episode = suite.episode(tasks[name])
        agent = ReActGenerator(signature_of(suite), tools=episode.registry, lm=choice.lm_for(0), policy=choice.policy)
        output = agent.run(episode.task)
        return Seen(tasks[name], output, episode.score(output))

    @cached_property
    def demonstrations(self) -> list[Seen]:
        """Of each place in `learned` the first run that is right."""
        found = (next((s for s in map(self.shown, names) if s.feedback.success), None) for names in self.learned)
        return [seen for seen in found if seen is not None]

    @cached_property
    def book(self) -> Playbook:
        """A playbook that has learned from the demonstrations, with its waiting lessons approved and its plans released."""
        book = Playbook()
        for seen in self.demonstrations:
            self.learn(book, seen)
        for waiting in book.review.pending():
            book.review.approve(waiting.bullet.id, author="benchmark")
        for bullet in book.bullets:
            with suppress(PlaybookError):  # it has no plan that could run
                book.review.release(bullet.id, author="benchmark")
        return book

    @cached_property
    def notes(self) -> list[PlaybookBullet]:
        """The demonstrations as other memories keep them: the request, and the calls with their arguments."""
        found: list[PlaybookBullet] = []
        for number, seen in enumerate(self.demonstrations, start=1):
            calls = [
                f"{step.tool_name}({', '.join(f'{name}={value!r}' for name, value in step.tool_args.items())})"
                for step in seen.output.structured_trace
                if step.tool_name
            ]
            found.append(
                PlaybookBullet(
                    id=f"b-{number}",
                    section="Strategies",
                    trigger=" ".join(seen.task.task.text.split()),
                    content=f"This worked: {'; '.join(calls)}.",
                )
            )
        return found

    @cached_property
    def vectors(self) -> dict[str, Any]:
        """Of all requests, by task."""
        texts = {name: task.task.text for name, task in self.tasks.items()}
        return dict(zip(texts, MiniLMEmbedder().embed(list(texts.values())), strict=True))

    def learn(self, book: Playbook, seen: Seen) -> None:
        """Let a playbook learn from a run, as users do."""
        episode = self.suite.episode(seen.task)
        agent = ReActGenerator(signature_of(self.suite), tools=episode.registry, playbook=book)
        agent.learn(seen.output, seen.feedback, group=seen.task.group)

    def source(self, arm: str, task: SuiteTask) -> Any:
        """Return what an arm remembers."""
        match arm:
            case "demonstrations" | "plans":
                return self.book
            case "unseen":
                return self.book.view(Filters(exclude_groups=(task.group,)))
            case "taught" | "train":
                return self.own
            case "whole-book":
                return FixedBullets(self.notes)
            case "episodic":
                return FixedBullets(self.notes[-NEIGHBOURS:][::-1])
            case "exprag":
                query = self.vectors[task.id]
                ranked = sorted(
                    zip(self.notes, self.demonstrations, strict=True),
                    key=lambda pair: -float(self.vectors[pair[1].task.id] @ query),
                )
                return FixedBullets([note for note, _ in ranked[:NEIGHBOURS]])
            case _:
                return None

    def play(self, planned: Planned, model: LiveModel | ReplayedModel) -> tuple[Seen, Ending]:
        """Make one run and score it.

        Raises:
            RecordingError: The model could not be asked, so that the run says nothing.
        """
        task, started = self.tasks[planned.task], time.monotonic()
        asked = FirstReply(model) if task.task.max_iters == 1 else model
        episode, source = self.suite.episode(task), self.source(planned.arm, task)
        warm = {"lm": language_model(model, temperature=WARM, seed=planned.attempt)} if planned.arm == "train" else {}
        plans = {"plans": "approved"} if planned.arm == "plans" else {}
        try:
            if planned.arm == "react_v2":
                output = react_v2(self.suite, episode, asked, None)
            else:
                output = ours(self.suite, episode, asked, source, **warm, **plans)
        except Exception as error:  # an agent's own: the run counts as it stands
            raise model.problem or RuntimeError(f"run {planned.name!r} failed: {error!r}") from error
        if model.problem is not None:
            raise model.problem
        feedback = episode.score(output)
        seconds = round(time.monotonic() - started, 3)
        state = feedback.details.get("state_equal", feedback.success)
        ending = Ending(solved=feedback.success, state_right=state, ended=output.termination_reason, seconds=seconds)
        return Seen(task, output, feedback), ending


def limited(task: SuiteTask) -> SuiteTask:
    """Return a task with the limit on replies."""
    limit = min(task.task.max_iters or ITERATIONS, ITERATIONS)
    return task.model_copy(update={"task": task.task.model_copy(update={"max_iters": limit})})


def schedule(arms: Sequence[str], tried: Sequence[str]) -> Iterator[Planned]:
    """Yield all test runs: arms take turns of ten tasks, so that the machine's load falls on all alike."""
    for turn, start in enumerate(range(0, len(tried), TURN)):
        first = turn % max(1, len(arms))
        for arm in (*arms[first:], *arms[:first]):
            for name in tried[start : start + TURN]:
                yield Planned(arm, name)


class Study:
    """Makes the runs that the recording lacks, or scores the recorded ones again.

    Args:
        subject: Tasks and memories.
        recording: Where runs are kept.
        url: Of the model's server; empty for a replay.
        until: `time.monotonic` after which no run begins.
    """

    def __init__(self, subject: Subject, recording: Recording, url: str = "", until: float = float("inf")) -> None:
        self.subject, self.recording, self.url, self.until = subject, recording, url, until
        self.done: dict[str, RecordedRun] = {}
        self.missing: list[str] = []

    def one(self, planned: Planned) -> Seen | None:
        """Return a run, recorded or made now; None when it is missing and there is no model, or no time.

        Where there is a model, a run that asks something else than was recorded is made again.
        """
        recorded = self.recording.runs.get(planned.name)
        if recorded is not None:
            model = ReplayedModel(recorded)
            try:
                seen, ending = self.subject.play(planned, model)
                model.check_end()
            except RecordingError:
                if not self.url:
                    raise
            else:
                ending = ending.model_copy(update={"seconds": recorded.ending.seconds})
                self.done[planned.name] = recorded.model_copy(update={"ending": ending})
                return seen
        if not self.url or time.monotonic() > self.until:
            self.missing.append(planned.name)
            return None
        live = LiveModel(self.url)
        seen, ending = self.subject.play(planned, live)
        run = RecordedRun(name=planned.name, exchanges=tuple(live.exchanges), ending=ending, commit=commit())
        self.done[planned.name] = run
        self.recording.add(run)
        return seen

    def train(self, families: Sequence[str], advance: Callable[[], None]) -> None:
        """Let the model teach itself: its own attempts, each with the playbook so far."""
        left = self.subject.of(families, [name for names in self.subject.learned for name in names])
        for attempt in range(1, ATTEMPTS + 1):
            tried, left = left, list[str]()
            for name in tried:
                seen = self.one(Planned("train", name, attempt))
                if seen is None:
                    return
                self.subject.learn(self.subject.own, seen)
                left += [] if seen.feedback.success else [name]
                advance()

    def run(self, arms: Sequence[str], families: Sequence[str], progress: Progress) -> None:
        """Make everything that is asked for, training first where an arm needs it."""
        tried = self.subject.of(families, self.subject.tried)
        planned = list(schedule([arm for arm in arms if arm != "taught"], tried))
        bar = progress.add_task("", total=len(planned))
        for one in planned:
            progress.update(bar, description=one.name)
            self.one(one)
            progress.advance(bar)
        if "taught" in arms:
            bar = progress.add_task("training", total=None)
            self.train(families, lambda: progress.advance(bar))
            if not any(name.startswith("train/") for name in self.missing):
                for one in schedule(["taught"], tried):
                    progress.update(bar, description=one.name)
                    self.one(one)


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(runs: dict[str, RecordedRun]) -> dict[str, Any]:
    """Say by arm how many tasks were solved, what a run took, and by how many points each is ahead of others."""
    by_arm: dict[str, dict[str, RecordedRun]] = {}
    for name, run in runs.items():
        arm, _, task = name.partition("/")
        by_arm.setdefault(arm, {})[task] = run
    found: dict[str, Any] = {"runs": len(runs), "arms": {}, "beyond": {}, "against_others": {}}
    for arm in (*ARMS, "train"):
        if arm in by_arm:
            found["arms"][arm] = _arm(list(by_arm[arm].values()))
    for arm in ("demonstrations", "taught"):
        for other in ("none", "react_v2", *OTHERS):
            if arm in by_arm and other in by_arm:
                found["beyond"].setdefault(arm, {})[other] = _points(by_arm[other], by_arm[arm])
    for arm, against in found["beyond"].items():  # the upper end of how far we are ahead of the best other memory
        ends = [against[other]["high"] for other in OTHERS if other in against]
        found["against_others"][arm] = None if None in ends else min(ends, default=None)
    if "none" in by_arm and "react_v2" in by_arm:
        found["beyond"]["none"] = {"react_v2": _points(by_arm["react_v2"], by_arm["none"])}
    for arm in ("unseen", "plans", *OTHERS):
        if arm in by_arm and "none" in by_arm:
            found["beyond"].setdefault(arm, {})["none"] = _points(by_arm["none"], by_arm[arm])
    return found


def _arm(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    asked = [exchange for run in runs for exchange in run.exchanges]
    return {
        "tasks": len(runs),
        "solved": sum(run.ending.solved for run in runs),
        "requests": len(asked) / len(runs),
        "tokens": sum(one.prompt_tokens + one.completion_tokens for one in asked) / len(runs),
        "seconds": sum(run.ending.seconds for run in runs) / len(runs),
    }


def _points(before: dict[str, RecordedRun], after: dict[str, RecordedRun]) -> dict[str, Any]:
    """Count how many points more were solved, of the tasks that both have; families are drawn as a whole."""
    tasks = [task for task in before if task in after]
    was, now = ([float(side[task].ending.solved) for task in tasks] for side in (before, after))
    estimate = paired_difference(was, now, [task.partition("#")[0] for task in tasks], binary=True).estimate
    low, high = (None if bound is None else 100 * bound for bound in estimate.interval)
    return {"of": len(tasks), "points": 100 * estimate.value, "low": low, "high": high}


def table(found: dict[str, Any]) -> Table:
    """Show the figures to a person."""
    made = Table(title=f"{found['suite']}, {found['model']}")
    for name in ("arm", "solved", "more than none, points [95 %]", "requests a run", "tokens a run"):
        made.add_column(name)
    for arm, row in found["arms"].items():
        more = found["beyond"].get(arm, {}).get("none", {})
        interval = f" [{more['low']:+.0f}, {more['high']:+.0f}]" if more.get("low") is not None else ""
        gained = f"{more['points']:+.0f}{interval}" if more else ""
        made.add_row(
            arm, f"{row['solved']} of {row['tasks']}", gained, f"{row['requests']:.1f}", f"{row['tokens']:.0f}"
        )
    return made


# -- the command ------------------------------------------------------------------------------------------------------


def measure(given: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Record or replay what is asked for, and work the figures out.

    Raises:
        RecordingError: It says what to do.
    """
    subject, recording = Subject(given.suite, given.numbers), Recording(given.recording)
    arms = chosen(given.arms, subject.arms, "arm")
    families = chosen(given.families, subject.families, "family")
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        if given.replay:
            study = Study(subject, recording)
            study.run(arms, families, progress)
        elif given.server:
            study = _recorded(subject, recording, given.server, given.minutes, arms, families, progress)
        else:
            with own_server() as url:
                study = _recorded(subject, recording, url, given.minutes, arms, families, progress)
    if not study.done:
        raise RecordingError(f"{given.recording} holds none of these runs; leave out --replay to make them")
    endings = {name: run.ending for name, run in study.done.items()}
    changed = [name for name, ending in endings.items() if ending != recording.runs[name].ending]
    return {
        "suite": subject.suite.name,
        "model": recording.model,
        "commits": sorted({run.commit for run in study.done.values()}),
        **figures(study.done),
        "changed": len(changed),
        "changed_by_replay": changed,
        "missing": len(study.missing),
    }


def _recorded(
    subject: Subject,
    recording: Recording,
    url: str,
    minutes: float,
    arms: Sequence[str],
    families: Sequence[str],
    progress: Progress,
) -> Study:
    recording.of_model(model_at(url))
    study = Study(subject, recording, url, time.monotonic() + 60 * minutes)
    study.run(arms, families, progress)
    return study


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or replay, print the table, and say by the exit code whether that went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--replay", action="store_true", help="score the recording again; no model is asked")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--arms", default="", help=f"some of {', '.join(ARMS)}; all by default")
    parser.add_argument("--families", default="", help="some of the suite's families, as label,relocate")
    parser.add_argument("--suite", default="office", help="office, workbench:FOLDER, bfcl:multiple or bfcl:irrelevance")
    parser.add_argument("--numbers", type=int, nargs="+", default=TEST, help="of office's tasks, as 2; 3 4 by default")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after this time")
    parser.add_argument("--server", default="", help="the address of a server that runs, as http://127.0.0.1:8080/v1")
    given, console = parser.parse_args(arguments), Console(stderr=True)
    logging.getLogger("dspy").setLevel(logging.CRITICAL)  # it logs the end of a run with a traceback
    found = carried_out(measure, given, console)
    if isinstance(found, int):
        return found
    console.print(table(found))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
