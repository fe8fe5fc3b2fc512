"""Maintenance of a playbook: duplicates, the record of each bullet, pruning, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from ace.core import PlaybookError, clean_text
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import Delta, Promote, Update
from ace.playbook.duplicates.find import THRESHOLDS, DedupReport, calibrate, find_duplicates, merging, text_of
from ace.playbook.results import Assessment, BookStats
from ace.playbook.state import PlaybookState
from ace.playbook.statistics import (
    Baseline,
    Record,
    chance_of_being_better,
    effect,
    record,
    should_promote,
    should_prune,
)


def own_controls(bullet: PlaybookBullet) -> Record:
    """Count the runs that a bullet fitted and was held out of; with none of them, nothing is known of the rate without it.

    A fixed guess would be too low for easy tasks, and for hard ones so high that lessons which help are retired.

    Examples:
        >>> own_controls(PlaybookBullet(section="Pitfalls", content="x", control_successes=1, control_failures=9)).uses
        10
    """
    return Record(bullet.control_successes, bullet.control_failures)


class Maintenance:
    """Maintenance that is run from time to time.

    Args:
        state: The playbook's bullets.
    """

    def __init__(self, state: PlaybookState) -> None:
        self._state = state

    def dedup(self, *, dry_run: bool = False, threshold: float | None = None, author: str = "dedup") -> DedupReport:
        """Merge duplicate bullets into the better tried one; evidence is summed, nothing a text names is lost.

        Args:
            dry_run: Only report what would be done.
            threshold: A cosine; calibrated for the embedder when it is not given.
            author: The name in the journal.
        """
        state = self._state
        state.refresh()
        if threshold is None:
            threshold = THRESHOLDS.get(state.embedder.name)
        if threshold is None:
            threshold = calibrate(state.embedder).threshold
        bullets = state.all()
        vectors = state.index.text_vectors([text_of(bullet) for bullet in bullets])
        report = find_duplicates(bullets, vectors, threshold)
        if report.duplicates and not dry_run:
            with state.transaction(author, screened=False) as tx:
                # skip bullets that changed during the comparison; the next run sees them
                report.duplicates = [
                    pair
                    for pair in report.duplicates
                    if state.unchanged(pair.successor) and state.unchanged(pair.removed)
                ]
                tx.add(*merging(report.duplicates))
            if report.duplicates:
                report.revision = state.revision
        return report

    def keep_both(self, one: str, other: str, *, author: str = "", note: str = "") -> int:
        """Remember that two near bullets are different, so that `dedup` never asks again.

        Raises:
            PlaybookError: A bullet is not there.
        """
        if one == other:
            raise PlaybookError(f"{one} and {other} are the same bullet; name two that are near each other")
        reason = clean_text(f"{one} and {other} are kept beside each other{': ' if note else ''}{note}")
        with self._state.transaction(author, screened=False) as tx:
            for bullet_id, near in ((one, other), (other, one)):
                known = self._state.get(bullet_id).distinct_from
                kept = tuple(dict.fromkeys((*known, self._state.get(near).id)))
                tx.add(Update(bullet_id=bullet_id, changes={"distinct_from": kept}, reason=reason))
        return self._state.revision

    def assess(self, baseline: Baseline | Callable[[PlaybookBullet], Baseline] = own_controls) -> list[Assessment]:
        """Compare each bullet's record with the success rate without it.

        Args:
            baseline: That rate, a record of runs without the bullet, or a function of the bullet that knows its task
                family; by default each bullet's own record of runs that it was held out of (`Experiment(holdout=...)`).
        """
        if isinstance(baseline, (int, float)) and not 0 <= baseline <= 1:
            raise ValueError(
                f"baseline is {baseline!r}, expected the share of tasks that succeed without a bullet, 0 to 1"
            )
        assessed: list[Assessment] = []
        for bullet in self._state.all():
            known = record(bullet)
            rate = baseline(bullet) if callable(baseline) else baseline
            action: Literal["prune", "promote", "keep"] = "keep"
            by_person = any(part.source == "person" for part in bullet.sources)
            if bullet.stage in ("active", "shadow") and not by_person and should_prune(known, rate):
                action = "prune"
            elif bullet.stage == "shadow" and bullet.trust == "trusted" and should_promote(known, rate):
                action = "promote"
            measured = effect(Record(bullet.treated_successes, bullet.treated_failures), own_controls(bullet))
            assessed.append(
                Assessment(
                    bullet=bullet,
                    better=chance_of_being_better(known, rate),
                    action=action,
                    effect=measured.estimate,
                    effect_interval=(measured.low, measured.high),
                )
            )
        return assessed

    def prune(
        self,
        baseline: Baseline | Callable[[PlaybookBullet], Baseline] = own_controls,
        *,
        dry_run: bool = False,
        author: str = "prune",
    ) -> list[Assessment]:
        """Retire bullets that are worse than nothing with 99 % probability, promote shadow bullets that are better.

        Pinned bullets stay, those that a person wrote, and those that changed while they were assessed. What is retired
        stays in the book, is not shown, and can be promoted again.

        Args:
            baseline: See `assess`.
            dry_run: Only report what would be done.
            author: The name in the journal.

        Returns:
            What was decided, or would be.
        """
        self._state.refresh()
        due = [assessment for assessment in self.assess(baseline) if assessment.action != "keep"]
        if due and not dry_run:
            with self._state.transaction(author, screened=False) as tx:
                due = [assessment for assessment in due if self._state.unchanged(assessment.bullet)]
                tx.add(*map(_decided, due))
        return due

    def gc(self) -> int:
        """Forget vectors of texts that no bullet has any more, and of other embedders; returns how many went."""
        self._state.refresh()
        return self._state.store.drop_vectors(self._state.index.text_keys())

    def stats(self) -> BookStats:
        """Count by stage, section and trust."""
        bullets = self._state.all()
        return BookStats(
            revision=self._state.revision,
            bullets=len(bullets),
            stages=dict(Counter(bullet.stage for bullet in bullets)),
            sections=dict(Counter(bullet.section for bullet in bullets)),
            tainted=sum(bullet.trust == "tainted" for bullet in bullets),
            credited=sum(bool(bullet.helpful_count or bullet.harmful_count) for bullet in bullets),
            index=self._state.index.kind,
            embedder=self._state.embedder.name,
        )


def _decided(assessment: Assessment) -> Delta:
    bullet, pruned = assessment.bullet, assessment.action == "prune"
    chance = f"{100 * (1 - assessment.better if pruned else assessment.better):.1f} %"
    reason = f"{'worse' if pruned else 'better'} than nothing with probability {chance}"
    return Promote(bullet_id=bullet.id, stage="retired" if pruned else "active", reason=reason)
