"""Ours beside other memories that got the same: ``python -m benchmarks.learning.memories OUT.json [--seeds 5]`` (simulated).

Each training task of `office` is tried without a memory until it is solved, at most ten times. Every run is written as a
note of one form, failed ones as what did not work, and every memory gets these notes: the whole book (ace-framework,
ace-playbook), mem0 and LangMem with the three that they find, the last three runs that succeeded (``episodic``), the three
whose tasks are most like the asked one (``exprag``), three at random, and our playbook with the same notes as bullets. Each
is shown with the notes of all runs and with those of solved runs alone. "Ours" learns from the same runs by itself, as it
does for users.

All stand in our loop, as what differs is to be the memory. Held-out tasks are asked by two readers: one that takes the first
lesson shown, and one that finds the right one wherever it stands, which costs a memory that shows everything nothing but
tokens. Each row is compared, paired by task and seed, with no memory and with ours.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from ace.evaluation import evaluate
from ace.evaluation.arms import arm_source
from ace.evaluation.episodes import Attempt
from ace.evaluation.memories import FixedBullets
from ace.evaluation.stats import paired_difference
from ace.learner import Learner
from ace.playbook import Add, MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.render import count_tokens, render_bullet
from ace.reflector import Reflector
from ace.suites import load_suite, split
from ace.suites.protocol import Suite, SuiteTask
from ace.testing import SimulatedLM
from benchmarks.by_seed import in_processes
from benchmarks.command import command
from benchmarks.learning.memory_study import TRAINING, Reader, Row, compared, played, tokens_of
from benchmarks.peers.peer import Peer

ATTEMPTS, K = 10, 3
READERS = ("first", "best")
PEERS = {"ace-framework": "ace_framework", "ace-playbook": "ace_playbook", "mem0": "mem0", "LangMem": "langmem"}
WHOLE = ("ace-framework", "ace-playbook")
OURS = "ours"
_ID = re.compile(r"\[(b-\d+)\]")
Shows = Callable[[SuiteTask], Sequence[PlaybookBullet]]


def training_runs(suite: Suite, tasks: Sequence[SuiteTask], seed: int) -> list[Attempt]:
    """Run each task without a memory, until it is solved."""
    left, made = list(tasks), list[Attempt]()
    for number in range(ATTEMPTS):
        lm = SimulatedLM(suite, seed=TRAINING * (seed + 1) + number)
        now = list(evaluate(suite, lambda seed, lm=lm: lm, tasks=left, seeds=[seed]))
        made += now
        left = [attempt.task for attempt in now if not attempt.feedback.success]
    return made


def notes_of(suite: Suite, runs: Sequence[Attempt]) -> list[PlaybookBullet]:
    """Write one note for each run, all of one form."""
    notes: list[PlaybookBullet] = []
    for number, attempt in enumerate(runs, start=1):
        steps = [step for step in attempt.output.structured_trace if step.tool_name]
        good = attempt.feedback.success
        notes.append(
            PlaybookBullet(
                id=f"b-{number}",
                section="Strategies" if good else "Pitfalls",
                trigger=" ".join(attempt.task.task.text.split()),
                content="This worked." if good else "This did not work.",
                tool_sequence=tuple(step.tool_name for step in steps),
                changing_tools=tuple(step.tool_name for step in steps if step.tool_name in suite.writing_tools),
            )
        )
    return notes


def ours(suite: Suite, runs: Sequence[Attempt], book: Playbook) -> None:
    """Learn from the runs, as users do."""
    with Learner(book, reflector=Reflector("simulated")) as learner:
        for attempt in runs:
            hashes = suite.episode(attempt.task).registry.schema_hashes
            learner.learn(attempt.output, attempt.feedback, hashes, group=attempt.task.group)


def retrieved(suite: Suite, book: Playbook) -> Shows:
    """Return what a playbook shows."""
    return lambda task: list(book.retrieve_for(task.task, suite.episode(task).registry.schema_hashes))


class PeerMemory:
    """Another library's memory, with the notes as they are.

    Args:
        name: Of its environment.
        notes: What it gets.
        vectors: Of the notes and the tasks, by text.
    """

    def __init__(self, name: str, notes: Sequence[PlaybookBullet], vectors: dict[str, Any]) -> None:
        self._peer = Peer(name, "memories.py", name)
        self._by_id = {note.id: note for note in notes}
        self._vectors = vectors
        for note in notes:
            text = render_bullet(note)
            self._peer.ask({"add": text, "vector": vectors[text].tolist()})
        self._peer.ask({"learned": True})
        self._shown: dict[str, list[PlaybookBullet]] = {}
        self.tokens: dict[str, int] = {}
        """Of what it showed, in its own form, by task."""

    def __call__(self, task: SuiteTask) -> Sequence[PlaybookBullet]:
        """Return what it shows for a task."""
        if task.id not in self._shown:
            text = task.task.text
            shown = self._peer.ask({"look_up": text, "vector": self._vectors[text].tolist(), "k": K})["shown"]
            self.tokens[task.id] = count_tokens(shown)
            self._shown[task.id] = [self._by_id[name] for name in _ID.findall(shown)]
        return self._shown[task.id]

    def close(self) -> None:
        """End the process."""
        self._peer.close()


def simple(notes: Sequence[PlaybookBullet], vectors: dict[str, Any], seed: int) -> dict[str, Shows]:
    """Make the memories that anybody could write in a line."""
    solved = [note for note in notes if note.section == "Strategies"]

    def alike(task: SuiteTask) -> Sequence[PlaybookBullet]:
        query = vectors[task.task.text]
        return sorted(notes, key=lambda note: -float(vectors[render_bullet(note)] @ query))[:K]

    return {
        "episodic": lambda task: solved[-K:][::-1],
        "exprag": alike,
        "random": lambda task: random.Random(f"{seed}|{task.id}").sample(list(notes), min(K, len(notes))),
    }


def one_seed(seed: int) -> list[Row]:
    """Teach every memory the same runs, and ask each for the held-out tasks."""
    MiniLMEmbedder(threads=1).warm()  # the jobs run side by side
    suite = load_suite("office")
    train, test = split(suite.tasks, "halves")
    runs = training_runs(suite, train, seed)
    notes, embedder, rows = notes_of(suite, runs), MiniLMEmbedder(), list[Row]()
    texts = [*map(render_bullet, notes), *(task.task.text for task in test)]
    vectors: dict[str, Any] = dict(zip(texts, embedder.embed(texts), strict=True))
    for arm in ("none", "gold"):
        best = Reader(suite, "best", seed)
        made = played(suite, test, seed, best, lambda task, arm=arm: arm_source(arm, suite, task, None), arm)
        rows += [row | {"reader": "", "notes": ""} for row in made]
    with ExitStack() as stack:
        memories: list[tuple[str, str, Shows]] = []
        own = stack.enter_context(Playbook())
        ours(suite, runs, own)
        memories.append((OURS, "all", retrieved(suite, own)))
        for which, some in (("all", notes), ("solved", [n for n in notes if n.section == "Strategies"])):
            book = stack.enter_context(Playbook(screen=None))
            book.commit(Add(bullet=note.model_copy(update={"id": ""})) for note in some)
            memories.append(("ours, given the notes", which, retrieved(suite, book)))
            for title, name in PEERS.items():
                peer = stack.enter_context(closing(PeerMemory(name, some, vectors)))
                memories.append((title, which, peer))
            memories += [(title, which, shows) for title, shows in simple(some, vectors, seed).items()]
        for title, which, shows in memories:
            for reader in READERS:
                lm = Reader(suite, reader, seed)
                made = played(suite, test, seed, lm, lambda task, shows=shows: FixedBullets(shows(task)), title)
                for task, row in zip(test, made, strict=True):
                    tokens = shows.tokens[task.id] if isinstance(shows, PeerMemory) else tokens_of(shows(task))
                    rows.append(row | {"reader": reader, "notes": which, "tokens": float(tokens)})
    return rows


def main(seeds: int = 5, workers: int = 2) -> dict[str, Any]:
    """Run the seeds on all cores, and return the report."""
    done = in_processes(one_seed, range(seeds), workers, "seeds (simulated)")
    rows = sorted((row for part in done for row in part), key=lambda row: row["task"])
    none, gold = ([row for row in rows if row["arm"] == arm] for arm in ("none", "gold"))
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["reader"]:
            groups.setdefault((row["arm"], row["notes"], row["reader"]), []).append(row)
    report: dict[str, Any] = {"simulated": True, "seeds": seeds, "rows": []}
    for (arm, which, reader), own in groups.items():
        found = compared(none, own, gold) | {"memory": arm, "notes": which, "reader": reader}
        mine = groups[OURS, "all", reader]
        ahead = paired_difference(
            [row["success"] for row in own],
            [row["success"] for row in mine],
            [row["family"] for row in own],
            [row["seed"] for row in own],
        ).estimate
        low, high = (None if bound is None else 100 * bound for bound in ahead.interval)
        found["ours_ahead"] = {"value": 100 * ahead.value, "low": low, "high": high}
        found["iterations_ratio"] = sum(row["iterations"] for row in mine) / sum(row["iterations"] for row in own)
        report["rows"].append(found)
    report["memories"] = len({row["memory"] for row in report["rows"]})
    return report


if __name__ == "__main__":
    command(main)
