"""A small real model in three loops on the 25 families of `office`, with and without a lesson of another task of the family.

    python -m benchmarks.real.loop RECORDING.jsonl.gz --replay --json OUT.json     (no model needed, less than a minute)
    python -m benchmarks.real.loop RECORDING.jsonl.gz                              (hours; goes on where it was stopped)
    python -m benchmarks.real.loop RECORDING.jsonl.gz --agents plain --families label,relocate --arm with --again

Each agent (`ReActGenerator`, `dspy.ReActV2`, and a plain loop of chat turns) does task number 3 of each family, with at most
8 replies, greedily. The lesson is mined from number 5: the stand-in plays its reference solution (simulated), the agent
learns from that run, and what its playbook shows for number 3 is shown to all three, as text before the task where an agent
has no memory. Solved is what the suite's score says: the world is right, and the agent said that it is done.

Agents take turns of five families: the machine's load falls on all alike, and each has its own beginning kept by the server
for ten runs, as it would have it alone. Every request and reply is recorded (`recording.py`); a run in the recording is not
made again without ``--again``. A replay runs the agents as they are now over the recorded replies: when one asks anything
else, it says what has changed. ``make real-model`` installs model and engine; ``--server URL`` takes a server that runs.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ace import ReActGenerator
from ace.evaluation.stats import paired_difference
from ace.playbook import Playbook
from ace.suites.office import OfficeSuite
from ace.suites.protocol import SuiteTask, signature_of
from ace.testing import SimulatedLM
from benchmarks.real import install
from benchmarks.real.loop_agents import AGENTS, COMPARED, ITERATIONS
from benchmarks.real.recording import Ending, LiveModel, RecordedRun, Recording, RecordingError, ReplayedModel

ROOT = Path(__file__).resolve().parents[2]
ARMS = ("without", "with")
TASK, TEACHER = 3, 5
"""Numbers of the tasks in each family: the one that is tried, and the one whose lesson is shown."""
TURN = 5


class Planned(NamedTuple):
    """One run that is wanted."""

    agent: str
    arm: str
    family: str

    @property
    def name(self) -> str:
        """Its name in the recording."""
        return f"{self.agent}/{self.arm}/{self.family}#{TASK}"


class Office:
    """The tasks, and the playbook with the one lesson of each family."""

    def __init__(self) -> None:
        self.suite = OfficeSuite()
        self.tasks = {task.id: task for task in self.suite.tasks}
        self.families = tuple(dict.fromkeys(task.group for task in self.suite.tasks))

    def task(self, family: str) -> SuiteTask:
        """Make the task that is tried, with the limit on replies."""
        task = self.tasks[f"{family}#{TASK}"]
        return task.model_copy(update={"task": task.task.model_copy(update={"max_iters": ITERATIONS})})

    def book(self, family: str) -> Playbook:
        """Make a playbook that has learned from one run of the reference solution of the family's other task (simulated)."""
        book = Playbook(least_similarity=0)  # the arm is to see the lesson, however the request is worded
        episode = self.suite.episode(self.tasks[f"{family}#{TEACHER}"])
        teacher = ReActGenerator(
            signature_of(self.suite), tools=episode.registry, playbook=book, lm=SimulatedLM(self.suite, "oracle")
        )
        output = teacher.run(episode.task)
        teacher.learn(output, episode.score(output), group=family)
        for waiting in book.review.pending():  # after one run some wait for a person; here the arm is to see the lesson
            book.review.approve(waiting.bullet.id)
        return book


def schedule(agents: Sequence[str], arms: Sequence[str], families: Sequence[str]) -> Iterator[Planned]:
    """Yield all runs, agents in turns; each turn begins with another agent, and each family with another arm.

    Examples:
        >>> [run.name for run in schedule(["plain", "ours"], ["with"], ["label"])]
        ['plain/with/label#3', 'ours/with/label#3']
    """
    for turn, start in enumerate(range(0, len(families), TURN)):
        first = turn % len(agents)
        for agent in (*agents[first:], *agents[:first]):
            for number, family in enumerate(families[start : start + TURN]):
                for arm in arms if number % 2 == 0 else arms[::-1]:
                    yield Planned(agent, arm, family)


def run(office: Office, planned: Planned, model: LiveModel | ReplayedModel) -> tuple[Ending, int]:
    """Make one run and score it: how it ended, and how many rows of the world are wrong then.

    Raises:
        RecordingError: The model could not be asked, so that the run says nothing.
    """
    episode = office.suite.episode(office.task(planned.family))
    book = office.book(planned.family) if planned.arm == "with" else None
    started = time.monotonic()
    try:
        output = AGENTS[planned.agent](office.suite, episode, model, book)
    except RecordingError:
        raise
    except Exception as error:  # an agent's own: the run counts as it stands
        if model.problem is None:
            raise RuntimeError(f"run {planned.name!r} failed: {error!r}") from error
    finally:
        if book is not None:
            book.close()
    if model.problem is not None:
        raise model.problem
    feedback = episode.score(output)
    ending = Ending(
        solved=feedback.success,
        state_right=feedback.details["state_equal"],
        ended=output.termination_reason,
        seconds=round(time.monotonic() - started, 3),
    )
    return ending, feedback.details["rows_wrong"]


def record(office: Office, wanted: Sequence[Planned], recording: Recording, url: str, progress: Progress) -> None:
    """Make the runs that the recording does not have."""
    bar = progress.add_task("", total=len(wanted))
    for planned in wanted:
        progress.update(bar, description=planned.name)
        if planned.name not in recording.runs:
            model = LiveModel(url)
            ending, _ = run(office, planned, model)
            recording.add(RecordedRun(name=planned.name, exchanges=tuple(model.exchanges), ending=ending))
        progress.advance(bar)


def replay(
    office: Office, wanted: Sequence[Planned], recording: Recording, progress: Progress
) -> tuple[list[RecordedRun], dict[str, int]]:
    """Score the recorded runs again: those that are wanted and there, with the endings of now and the seconds of then.

    Returns:
        The runs, and by their names how many rows of the world are wrong after them.
    """
    bar, done, wrong = progress.add_task("", total=len(wanted)), list[RecordedRun](), dict[str, int]()
    for planned in wanted:
        progress.update(bar, description=planned.name)
        if (recorded := recording.runs.get(planned.name)) is not None:
            model = ReplayedModel(recorded)
            ending, wrong[planned.name] = run(office, planned, model)
            model.check_end()
            ending = ending.model_copy(update={"seconds": recorded.ending.seconds})
            done.append(recorded.model_copy(update={"ending": ending}))
        progress.advance(bar)
    return done, wrong


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(runs: Sequence[RecordedRun], wrong: Mapping[str, int]) -> dict[str, Any]:
    """Say what came out, by agent and arm, and what the lesson did to each agent; `wrong` counts wrong rows by run."""
    found: dict[str, Any] = {"runs": len(runs), "lessons": "mined from a simulated run", "agents": {}}
    by_name = {run.name: run for run in runs}
    for agent in AGENTS:
        of_agent = {arm: _runs_of(by_name, agent, arm) for arm in ARMS}
        if not any(of_agent.values()):
            continue
        row: dict[str, Any] = {arm: _arm(list(of_agent[arm].values()), wrong) for arm in ARMS if of_agent[arm]}
        row["seconds_median"] = statistics.median(
            run.ending.seconds for arm in of_agent.values() for run in arm.values()
        )
        if pairs := _difference(of_agent["without"], of_agent["with"]):
            row["gain"] = pairs
        found["agents"][agent] = row
    if "plain" in found["agents"]:
        for row in found["agents"].values():
            row["seconds_to_plain"] = row["seconds_median"] / found["agents"]["plain"]["seconds_median"]
        for agent, row in found["agents"].items():
            both = [
                (mine.ending.seconds, theirs.ending.seconds)
                for arm in ARMS
                for family, theirs in _runs_of(by_name, "plain", arm).items()
                if (mine := by_name.get(f"{agent}/{arm}/{family}#{TASK}")) is not None
                and mine.ending.solved
                and theirs.ending.solved
            ]
            if both:
                mine, theirs = (statistics.median(seconds) for seconds in zip(*both, strict=True))
                row["solved_seconds_to_plain"], row["solved_by_both"] = mine / theirs, len(both)
    found["ours_beyond"] = {
        other: {
            arm: pairs
            for arm in ARMS
            if (pairs := _difference(_runs_of(by_name, other, arm), _runs_of(by_name, "ours", arm)))
        }
        for other in AGENTS
        if other != "ours"
    }
    if {"ours", "plans"} <= found["agents"].keys():
        text, plan = (found["agents"][name]["with"] for name in ("ours", "plans"))
        asked, tokens = "requests", ("prompt_tokens", "completion_tokens")
        share = plan["solved"] / plan["tasks"]
        found["plans"] = {
            # ten points more than the text, or 92 % where the text leaves no room for them
            "margin": max(100 * (share - text["solved"] / text["tasks"]) - 10, 100 * share - 92),
            "points": 100 * (plan["solved"] - text["solved"]) / plan["tasks"],
            "solved_share": share,
            "requests": plan[asked] / text[asked],
            "tokens": sum(plan[name] for name in tokens) / sum(text[name] for name in tokens),
            "more_rows_wrong": plan["rows_wrong"] - text["rows_wrong"],
            "gain": _difference(_runs_of(by_name, "ours", "with"), _runs_of(by_name, "plans", "with")),
        }
    return found


def _runs_of(by_name: dict[str, RecordedRun], agent: str, arm: str) -> dict[str, RecordedRun]:
    """Return family to run."""
    found = ((re.fullmatch(rf"{agent}/{arm}/(.+)#\d+", name), run) for name, run in by_name.items())
    return {match[1]: run for match, run in found if match is not None}


def _arm(runs: Sequence[RecordedRun], wrong: Mapping[str, int]) -> dict[str, Any]:
    exchanges = [exchange for run in runs for exchange in run.exchanges]
    return {
        "tasks": len(runs),
        "solved": sum(run.ending.solved for run in runs),
        "state_right": sum(run.ending.state_right for run in runs),
        "rows_wrong": sum(wrong[run.name] for run in runs),
        "seconds_median": statistics.median(run.ending.seconds for run in runs),
        "requests": len(exchanges),
        "prompt_tokens": sum(exchange.prompt_tokens for exchange in exchanges),
        "completion_tokens": sum(exchange.completion_tokens for exchange in exchanges),
    }


def _difference(before: dict[str, RecordedRun], after: dict[str, RecordedRun]) -> dict[str, Any]:
    """Count how many more tasks were solved after, of those that both have, with the paired interval of 95 %, in tasks."""
    families = [family for family in before if family in after]
    if not families:
        return {}
    was, now = ([float(side[family].ending.solved) for family in families] for side in (before, after))
    estimate, n = paired_difference(was, now, families, binary=True).estimate, len(families)
    low, high = (n * bound if abs(bound) <= 1 else None for bound in (estimate.low, estimate.high))
    return {
        "of": n,
        "tasks": int(sum(now) - sum(was)),
        "low": low,
        "high": high,
        "p": estimate.p if low is not None else None,
    }


def table(found: dict[str, Any]) -> Table:
    """Show the figures to a person."""
    made = Table(title=f"office, task 3 of each family, {found['model']} (lessons from simulated runs)")
    for name in ("agent", "without", "with", "more with [95 %]", "s a run", "to plain"):
        made.add_column(name)
    for agent, row in found["agents"].items():
        arms = [f"{row[arm]['solved']} of {row[arm]['tasks']}" if arm in row else "" for arm in ARMS]
        gain = row.get("gain", {})
        interval = f" [{gain['low']:+.1f}, {gain['high']:+.1f}]" if gain.get("low") is not None else ""
        ratio = f"{row['seconds_to_plain']:.2f}" if "seconds_to_plain" in row else ""
        made.add_row(
            agent, *arms, f"{gain['tasks']:+d}{interval}" if gain else "", f"{row['seconds_median']:.0f}", ratio
        )
    return made


# -- the command ------------------------------------------------------------------------------------------------------


@contextmanager
def own_server() -> Generator[str]:
    """Serve the installed model by `examples/model_server.py` for as long as the block runs, and yield its address.

    Raises:
        RecordingError: Model or engine is not installed, or the server did not start.
    """
    python, model = install.engine_python(), install.model_file()
    if not (python.exists() and model.exists()):
        raise RecordingError(
            f"there is no model in {install.cache_folder()}; run `make real-model`, or use --server URL"
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(python), str(ROOT / "examples" / "model_server.py"), str(model), "--port", str(port)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the server outlives this process, on all its cores
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not answers(url := f"http://127.0.0.1:{port}/v1"):
                if process.poll() is not None:
                    raise RecordingError(f"the server did not start: {' '.join(command)}")
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()


def answers(url: str) -> bool:
    """Check whether a server is there."""
    try:
        return bool(model_at(url))
    except RecordingError:
        return False


def model_at(url: str) -> str:
    """Ask for the name of the model that a server has.

    Raises:
        RecordingError: There is no server.
    """
    try:
        with urlopen(f"{url.rstrip('/')}/models", timeout=60) as answer:
            return str(json.load(answer)["data"][0]["id"])
    except (OSError, ValueError, LookupError) as error:
        raise RecordingError(f"there is no server at {url}: {error!r}; start examples/model_server.py") from error


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """Choose some of the known names, in their order; all for an empty text.

    Raises:
        RecordingError: One is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        raise RecordingError(f"no {what} {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
    return [name for name in known if not names or name in names]


def measure(given: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Record or replay what is asked for, and work the figures out.

    Raises:
        RecordingError: It says what to do.
    """
    office, recording = Office(), Recording(given.recording)
    agents = chosen(given.agents, tuple(AGENTS), "agent")
    families = chosen(given.families, office.families, "family")
    wanted = list(schedule(agents, chosen(given.arm, ARMS, "arm"), families))
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if not given.replay:
        if given.again:
            recording.drop(planned.name for planned in wanted)
        with Progress(*columns, console=console) as progress:
            if given.server:
                recording.of_model(model_at(given.server))
                record(office, wanted, recording, given.server, progress)
            else:
                with own_server() as url:
                    recording.of_model(model_at(url))
                    record(office, wanted, recording, url, progress)
    with Progress(*columns, console=console, transient=True) as progress:
        done, wrong = replay(office, wanted, recording, progress)
    if not done:
        raise RecordingError(f"{given.recording} holds none of these runs; leave out --replay to make them")
    endings = {run.name: run.ending for run in done}
    changed = [name for name, ending in endings.items() if ending != recording.runs[name].ending]
    missing = [planned.name for planned in wanted if planned.name not in endings]
    told = {"changed": len(changed), "changed_by_replay": changed, "missing": missing}
    return {"model": recording.model, **figures(done, wrong), **told}


def carried_out(
    measure: Callable[[argparse.Namespace, Console], dict[str, Any]], given: argparse.Namespace, console: Console
) -> dict[str, Any] | int:
    """Return the figures, or the exit code of what went wrong, which is said."""
    try:
        return measure(given, console)
    except RecordingError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; the finished runs are kept, run this again to go on")
        return 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or replay, print the figures as JSON, and say by the exit code whether that went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--replay", action="store_true", help="score the recording again; no model is asked")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--agents", default=",".join(COMPARED), help=f"some of {', '.join(AGENTS)}")
    parser.add_argument("--families", default="", help="some of the 25 families, as label,relocate")
    parser.add_argument("--arm", default="", help=f"one of {', '.join(ARMS)}")
    parser.add_argument("--again", action="store_true", help="make the chosen runs again, also those in the recording")
    parser.add_argument("--server", default="", help="the address of a server that runs, as http://127.0.0.1:8080/v1")
    given, console = parser.parse_args(arguments), Console(stderr=True)
    found = carried_out(measure, given, console)
    if isinstance(found, int):
        return found
    console.print(table(found))
    text = json.dumps(found, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
