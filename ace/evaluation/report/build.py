"""From runs to the report of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ace.evaluation.arms import LEARNING
from ace.evaluation.models import ModelChoice
from ace.evaluation.report import findings
from ace.evaluation.report.models import BulletEffect, EvaluateReport
from ace.evaluation.report.summary import by_domain, comparisons, summarise, ways_closed
from ace.evaluation.report.verdict import nothing_to_compare, verdict
from ace.evaluation.row import RunReport
from ace.playbook import Playbook
from ace.playbook.render import render_bullet
from ace.suites.protocol import Suite

Books = Playbook | Mapping[int, Playbook] | None
"""One playbook, or one for each seed."""


def build_report(
    suite: Suite, choice: ModelChoice, arms: Sequence[str], rows: Sequence[RunReport], *, learns: bool
) -> EvaluateReport:
    """Build the tables, comparisons and findings of some runs.

    Args:
        suite: Whose tasks were run.
        choice: The language models.
        arms: In the order in which they are shown; the others are compared with the first.
        rows: The runs, in any order.
        learns: Whether each seed had a playbook of its own.
    """
    order, tasks = ({name: place for place, name in enumerate(names)} for names in (arms, [t.id for t in suite.tasks]))
    rows = sorted(rows, key=lambda row: (order[row.arm], row.seed, tasks[row.id]))  # whatever ended first
    seeded = [*LEARNING, *(("playbook", "random") if learns else ())]
    pairs = {name: findings.pairs_of(rows, arms[0], name) for name in arms[1:]}
    shows = {name: found for name, found in pairs.items() if name not in ("gold", "random", "none", *LEARNING)}
    told = [name for name in arms[1:] if name not in ("gold", "random")] or list(arms[1:])
    differences = comparisons(rows, arms[0], seeded)
    return EvaluateReport(
        run=choice.name,
        suite=suite.name,
        label=choice.label,
        policy=choice.policy.name,
        domains={name: by_domain([run for run in rows if run.arm == name]) for name in arms},
        arms=summarise(rows),
        runs=list(rows),
        comparisons=differences,
        verdicts=[
            verdict(differences, pairs[name], choice.label) if pairs[name] else nothing_to_compare(arms[0], name)
            for name in told
        ]
        or [nothing_to_compare(arms[0])],
        notes=_notes(rows),
        closed=ways_closed(rows, seeded),
        families=[effect for found in pairs.values() for effect in findings.families(found)],
        bullets=[effect for name, found in shows.items() for effect in findings.bullets(found, name in seeded)],
        tasks=[row for name in told for row in findings.tasks(pairs[name])],
        created=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        curves=[point for name in arms for point in findings.curve(rows, name)],
        calibrations=findings.calibrations(rows),
    )


def _notes(rows: Sequence[RunReport]) -> list[str]:
    cached, asked = sum(row.cached for row in rows), sum(row.lm_calls for row in rows)
    if not cached:
        return []
    return [
        f"{cached} of {asked} requests were answered by the cache (--cache), and no model was asked; their tokens are "
        "counted as what they would have cost."
    ]


def quote_bullets(effects: Sequence[BulletEffect], books: Books, own: Mapping[str, Playbook]) -> None:
    """Fill in the texts of the bullets that a report names.

    Args:
        effects: Of the report.
        books: Of the arms `playbook` and `random`.
        own: Of arms with a playbook of their own.
    """
    for effect in effects:
        book = own.get(effect.after)
        if book is None:
            book = books[effect.seed or 0] if isinstance(books, Mapping) else books
        for bullet in book.find([effect.bullet]).values() if book is not None else ():
            effect.text = render_bullet(bullet)
