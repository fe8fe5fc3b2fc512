"""Context collapse: ``python -m benchmarks.learning.collapse WORKBENCH OUT.json``.

500 runs that real models recorded are learned from, in random order, into a book with `book_budget` 4,000 and into one
without. After every step: is the budget kept, and did only those bullets change that deltas name? At the end the other half
of each template's tasks is looked up in the small book, and in the best 4,000 tokens of the large one: the best of three
choices, two of which have the held-out tasks in view.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from ace.curator.eviction import evict
from ace.evaluation.episodes import AgentPool
from ace.evaluation.models import choose_model
from ace.learner import Learner
from ace.playbook import Add, Playbook
from ace.suites.protocol import changing
from ace.suites.registry import load_suite
from ace.suites.splits import halves
from benchmarks.command import command

STEPS, BUDGET = 500, 4_000
RUNS = ("gpt-4_domains", "gpt-3.5_domains", "llama2-70b_domains")


def hit_at_3(suite: Any, book: Playbook, tasks: list[Any]) -> float:
    """Measure the percent of tasks that find a Strategy with their calls among three bullets."""
    found = 0
    for task in tasks:
        bullets = book.retrieve(task.task.text, domain=task.task.domain)
        found += any(b.section == "Strategies" and b.teaches(changing(suite, task)) for b in bullets)
    return 100 * found / len(tasks)


def served(suite: Any, book: Playbook, tasks: list[Any]) -> list[Any]:
    """Choose the bullets that most held-out tasks find in the whole book, per token."""
    found: Counter[str] = Counter()
    for task in tasks:
        bullets = book.retrieve(task.task.text, domain=task.task.domain)
        found.update([b.id for b in bullets if b.section == "Strategies" and b.teaches(changing(suite, task))][:1])
    return packed(book, sorted(book.bullets, key=lambda b: -found[b.id] / book.budget.tokens_of(b)))


def covering(suite: Any, book: Playbook, tasks: list[Any]) -> list[Any]:
    """Choose the bullets whose calls most held-out tasks need that no earlier one has, per token."""
    left, chosen, pool = list(tasks), [], [b for b in book.bullets if b.section == "Strategies"]

    def serves(bullet: Any, task: Any) -> bool:
        return bullet.teaches(changing(suite, task)) and bullet.domain in (None, task.task.domain)

    while pool:
        gains = [(sum(serves(b, t) for t in left) / book.budget.tokens_of(b), b) for b in pool]
        _, best = max(gains, key=lambda pair: pair[0])
        pool.remove(best)
        chosen.append(best)
        left = [task for task in left if not serves(best, task)]
    return packed(book, chosen)


def ours(suite: Any, book: Playbook, tasks: list[Any]) -> list[Any]:
    """Return what our own rule keeps when it sees the whole book at once."""
    with Playbook(embedder=book.embedder, screen=None, book_budget=BUDGET) as copy:
        deltas = [Add(bullet=b.model_copy(update={"id": ""})) for b in book.bullets]
        return [delta.bullet for delta in evict(copy, deltas) if isinstance(delta, Add)]


def packed(book: Playbook, bullets: list[Any]) -> list[Any]:
    """Keep as many as fit, first come first served."""
    chosen, room = [], BUDGET
    for bullet in bullets:
        if book.budget.tokens_of(bullet) <= room:
            chosen.append(bullet)
            room -= book.budget.tokens_of(bullet)
    return chosen


def main(workbench: Path) -> dict[str, Any]:
    """Learn, check, look up, and return the report."""
    suite = load_suite(f"workbench:{workbench}", toolkits="domains")
    train, test = halves(suite.tasks)
    stream = []
    for name in RUNS:
        choice = choose_model(f"recorded:{name}", suite)
        pool = AgentPool(suite, choice.policy)
        stream += [(task, choice, pool) for task in train if choice.knows(task)]
    stream = random.Random(0).sample(stream, STEPS)
    over = strangers = 0
    with Playbook() as whole, Playbook(book_budget=BUDGET) as small:
        learners = Learner(whole), Learner(small)
        for task, choice, pool in track(stream, "learning", console=Console(stderr=True)):
            episode = suite.episode(task)
            output = pool.agent(episode, choice.lm_for(0), None).run(episode.task)
            feedback = episode.score(output)
            before, revision = {b.id: b.model_dump_json() for b in small.bullets}, small.revision
            for learner in learners:
                learner.learn(output, feedback, episode.registry.schema_hashes, group=episode.group)
            named = {i for r, d in small.history.deltas() if r > revision for i in _ids(d)}
            strangers += sum(
                before.get(b.id, b.model_dump_json()) != b.model_dump_json() for b in small.bullets if b.id not in named
            )
            strangers += len(before.keys() - {b.id for b in small.bullets} - named)
            over += sum(map(small.budget.tokens_of, small.bullets)) > BUDGET
        taught = {b.key for b in whole.bullets if b.section == "Strategies"}
        asked = [task for task in test if changing(suite, task) in taught]
        best: dict[str, float] = {}
        for choose in (served, covering, ours):
            with Playbook(embedder=whole.embedder, screen=None) as book:
                book.commit([Add(bullet=b.model_copy(update={"id": ""})) for b in choose(suite, whole, asked)])
                best[choose.__name__] = hit_at_3(suite, book, asked)
        report = {
            "steps": STEPS,
            "budget": BUDGET,
            "tokens": sum(map(small.budget.tokens_of, small.bullets)),
            "tokens_without_budget": sum(map(whole.budget.tokens_of, whole.bullets)),
            "steps_over_budget": over,
            "bullets_changed_unnamed": strangers,
            "bullets": len(small),
            "bullets_without_budget": len(whole),
            "n": len(asked),
            "hit@3": hit_at_3(suite, small, asked),
            "hit@3_best_tokens": max(best.values()),
            "hit@3_by_choice": best,
            "hit@3_without_budget": hit_at_3(suite, whole, asked),
            "verified": small.history.verify().ok,
        }
        report["lost"] = report["hit@3_best_tokens"] - report["hit@3"]
    return report


def _ids(delta: Any) -> tuple[str, ...]:
    own = delta.bullet.id if delta.kind == "add" else delta.bullet_id
    return (own, *getattr(delta, "absorbed", ()))


if __name__ == "__main__":
    command(main)
