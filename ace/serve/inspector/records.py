"""Runs that agents have kept, and evaluations, as somebody may look at them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from ace.agent import FolderRunStore, RunSnapshot
from ace.core import PlaybookError, RunStoreError
from ace.evaluation import EvaluateReport
from ace.evaluation.log import RunLog
from ace.evaluation.report.html import html, traces_of
from ace.evaluation.report.models import BulletEffect
from ace.playbook import Playbook, PlaybookBullet
from ace.playbook.render import render_bullet
from ace.serve.people import Person

MOST_REPORTS = 20
"""That the page of a lesson looks into, the newest."""


class Records:
    """A folder of runs and one of evaluations: `Records("runs", "ace-evaluations").run("r-1", Person("ana"))`.

    Args:
        runs: As agents keep them (`run_store="runs"`); None where there is none.
        reports: As `ace evaluate` writes it; None where there is none.
    """

    def __init__(self, runs: str | Path | None = None, reports: str | Path | None = None) -> None:
        self._runs = FolderRunStore(runs) if runs is not None else None
        self._reports = Path(reports) if reports is not None else None
        self.has_runs, self.has_reports = runs is not None, reports is not None

    def run_ids(self) -> tuple[str, ...]:
        """Return the ids of all runs, also of those that somebody may not look at."""
        return tuple(self._runs.run_ids()) if self._runs is not None else ()

    def run(self, run_id: str, person: Person) -> RunSnapshot | None:
        """Return a run that somebody may look at; None where it is another tenant's, is not there or cannot be read.

        Raises:
            PlaybookError: There is no folder of runs.
        """
        if self._runs is None:
            raise PlaybookError("no folder of runs was given: `ace serve BOOK --runs FOLDER`")
        run = _loaded(self._runs, run_id)
        return run if run is not None and run.task.tenant in (None, person.tenant) else None

    def run_page(self, person: Person, first: int, count: int) -> dict[str, object]:
        """Return some of the runs that somebody may look at, the ids of damaged ones, and whether more follow.

        It looks at `count` runs from `first` on. Damaged ones are nobody's of a tenant.
        """
        ids = self.run_ids()
        there = {run_id: _loaded(self._runs, run_id) for run_id in ids[first : first + count]} if self._runs else {}
        return {
            "runs": [run for run in there.values() if run is not None and run.task.tenant in (None, person.tenant)],
            "damaged": [run_id for run_id, run in there.items() if run is None and person.tenant is None],
            "more": first + count < len(ids),
        }

    def evaluations(self, person: Person) -> Iterable[tuple[Path, EvaluateReport]]:
        """Yield the evaluations in the folder, the newest first; they show everybody's runs, so that no tenant sees them."""
        if self._reports is None or person.tenant is not None:
            return
        files = sorted(self._reports.glob("*/report.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files:
            try:
                yield file.parent, EvaluateReport.model_validate_json(file.read_bytes())
            except (OSError, ValidationError):
                continue  # of another release, or of something else

    def about(self, bullet: PlaybookBullet, person: Person) -> list[tuple[str, BulletEffect]]:
        """Find what the newest evaluations say of runs that were shown a lesson, as it is worded now: folder and effect."""
        newest = islice(self.evaluations(person), MOST_REPORTS)
        return [
            (folder.name, effect) for folder, report in newest for effect in report.bullets if _same(effect, bullet)
        ]

    def evaluation_page(self, name: str, person: Person, book: Playbook) -> str:
        """Show an evaluation's report, with traces where its log is there, and links to the lessons that are this book's.

        Raises:
            PlaybookError: There is none of this name for them.
        """
        for folder, report in self.evaluations(person):
            if folder.name != name:
                continue
            log, there = folder / "runs.jsonl", book.find(effect.bullet for effect in report.bullets)
            known = {e.bullet: f"/lessons/{e.bullet}" for e in report.bullets if _same(e, there.get(e.bullet))}
            if not log.exists():
                return html(report, lessons=known)
            with RunLog(log) as runs:
                return html(report, traces_of(report, runs), lessons=known)
        raise PlaybookError(f"there is no report {name!r}")


def _same(effect: BulletEffect, bullet: PlaybookBullet | None) -> bool:
    """Check whether an evaluation means this lesson: another book gives the same ids to others."""
    return bullet is not None and effect.bullet == bullet.id and effect.text == render_bullet(bullet)


def _loaded(store: FolderRunStore, run_id: str) -> RunSnapshot | None:
    try:
        return store.load(run_id)
    except (RunStoreError, OSError):
        return None
