"""The history of a playbook: its journal, differences between revisions, rollback, and verification."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from ace.core import PlaybookError, clean_text
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.credits import Credits, credits_of
from ace.playbook.database import book_url
from ace.playbook.delta import Add, Delta, Learned, Merge, Remove, Restore, Tag, fold
from ace.playbook.state import PlaybookState
from ace.playbook.store import START, Entry, Row, Store, given_numbers, link
from ace.playbook.transfer import read_journal, write_journal
from ace.playbook.versions import (
    BOOKKEEPING,
    CREDIT_FIELDS,
    Version,
    concerning,
    differing,
    is_about,
    tenants_of,
    versions_of,
    way_back,
)

Bullets = Mapping[str, PlaybookBullet]


class Change(BaseModel, frozen=True):
    """What happened to one bullet between two revisions."""

    bullet_id: str
    kind: Literal["added", "removed", "merged", "changed", "credited"]
    before: PlaybookBullet | None = None
    after: PlaybookBullet | None = None
    fields: tuple[str, ...] = ()
    """The fields that differ, without counters and revisions; for `credited` the counters."""
    into: str = ""
    """For `merged`: the bullet that took its place."""
    reasons: tuple[str, ...] = ()
    """The reasons in the deltas, oldest first."""
    authors: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """The last word on a run: `Verdict("r-1", at=0.0, success=True, tenant=None, family="refunds")`."""

    run_id: str
    at: float
    """When it was said, in seconds since the epoch."""
    success: bool | None
    """None for a run that was taken back."""
    tenant: str | None
    family: str
    """The family of its task, else the domain of what it teaches, else nothing."""


class Diff(BaseModel, frozen=True):
    """Everything that differs between two revisions, in id order."""

    a: int
    b: int
    changes: tuple[Change, ...]

    def of(self, kind: str) -> list[Change]:
        """Return the changes of one kind."""
        return [change for change in self.changes if change.kind == kind]


class VerifyReport(BaseModel, frozen=True):
    """Whether the journal is whole and the table is its fold."""

    revision: int
    entries: int
    bullets: int
    problems: tuple[str, ...]
    """In words; empty when all is well."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


class History:
    """The history of a playbook, and rollback.

    Args:
        state: The playbook's bullets.
    """

    def __init__(self, state: PlaybookState) -> None:
        self._state = state
        self._store = state.store
        self._verdicts = dict[str, Verdict]()
        self._verdicts_of: tuple[int, str] = (0, "")
        """How far the journal was read for them: revision and digest."""

    def __repr__(self) -> str:
        return f"<History of {self._store.address or 'a playbook in memory'}: revision {self._state.revision}>"

    def entries(
        self, bullet_id: str | None = None, *, after: int = 0, until: int | None = None, newest: int | None = None
    ) -> list[dict[str, Any]]:
        """Return every delta ever committed, oldest first, with revision, author and time; of one bullet when it is named.

        Args:
            bullet_id: The bullet.
            after: Only of later revisions.
            until: Only of revisions up to this one.
            newest: Only so many, the last ones.

        Raises:
            PlaybookError: There never was such a bullet.
        """
        found = [e for e in self._store.entries(after, until) if bullet_id is None or is_about(e, bullet_id)]
        if bullet_id is not None and not found:
            raise PlaybookError(f"there never was a lesson {bullet_id!r}")
        return [
            {"revision": e.revision, "author": e.author, "created_at": e.created_at, **e.delta.model_dump(mode="json")}
            for e in (found if newest is None else found[max(0, len(found) - newest) :])
        ]

    def deltas(self) -> list[tuple[int, Delta]]:
        """Return (revision, delta) pairs, oldest first; `fold` of them is the bullet table."""
        return [(entry.revision, entry.delta) for entry in self._store.entries()]

    def learned(self, run_ids: Collection[str]) -> dict[str, Learned]:
        """Return what the book has learned from runs, by the last verdict on each: `book.history.learned(["r-1"])`."""
        known = [run_id for run_id in run_ids if "b-0" in self._store.credits(run_id)]
        if not known:
            return {}
        return {run_id: taught for run_id, taught in self.heard().items() if run_id in known}

    def heard(self, newest: int = 0) -> dict[str, Learned]:
        """Return what every run has taught, by the last verdict on it, in the order of the first ones.

        Args:
            newest: Of so many entries, the last ones; 0 for all.
        """
        entries = [entry for entry in self._store.entries() if '"kind":"learned"' in entry.text]
        deltas = (entry.delta for entry in entries[-newest:])
        return {delta.run_id: delta for delta in deltas if isinstance(delta, Learned)}

    def verdicts(self) -> dict[str, Verdict]:
        """Return the last verdict on every run, in the order of the first ones; read on from where the journal was read
        before."""
        with self._state.lock:
            revision, digest = self._verdicts_of
            if not self._store.has_been(digest):  # a purge has written the journal again
                self._verdicts, revision = {}, 0
            entries = self._store.entries(revision)
            for entry in entries:
                if '"kind":"learned"' in entry.text:
                    found = _verdict(entry)
                    self._verdicts[found.run_id] = found
            if entries:
                self._verdicts_of = (entries[-1].revision, entries[-1].checksum)
            return dict(self._verdicts)

    def credits(self) -> dict[str, tuple[str, ...]]:
        """Return by bullet the runs that have given it their credit."""
        return {bullet_id: tuple(sorted(runs)) for bullet_id, runs in self._store.credits().items()}

    def write_again(self, deltas: Sequence[Delta]) -> None:
        """Write what a person, or an earlier revision, vouches for, with the ids that it names."""
        with self._state.transaction("", reviewed=True) as tx:
            tx.add(*deltas)

    def correct(
        self,
        change: Learned,
        bullets: Bullets,
        fresh: Sequence[PlaybookBullet],
        credited: Mapping[str, Sequence[str]],
        *,
        at: int,
        author: str = "",
    ) -> list[Delta]:
        """Make the book what it is by another verdict on a run, as one commit.

        Args:
            change: What the run teaches now.
            bullets: All lessons that have an id.
            fresh: Lessons that get one.
            credited: By id, the runs that have given their credit.
            at: The revision that all this was found out at.
            author: The name in the journal.

        Returns:
            What was written.

        Raises:
            PlaybookError: The book is not at that revision any more; nothing was written.
        """
        reason = f"another verdict on run {change.run_id}"
        with self._state.transaction(author, reviewed=True) as tx:
            if tx.newest != at:
                raise PlaybookError(f"the playbook is at revision {tx.newest}, not at {at} any more; look at it again")
            now = {bullet.id: bullet for bullet in self._state.bullets.values()}
            restored = [
                Restore(
                    bullet=bullet.model_copy(update={"updated_revision": tx.revision}),
                    credited=tuple(credited.get(bullet_id, ())),
                    reason=reason,
                )
                for bullet_id, bullet in bullets.items()
                if bullet_id not in now or differing(now[bullet_id], bullet) - BOOKKEEPING
            ]
            gone = [Remove(bullet_id=i, reason=reason) for i in now if i not in bullets]
            tx.add(change, *gone, *restored, *(Add(bullet=bullet, reason=reason) for bullet in fresh))
        return tx.deltas

    def at(self, revision: int) -> tuple[PlaybookBullet, ...]:
        """Return the bullets as they were at a revision: the journal, replayed.

        Raises:
            PlaybookError: There is no such revision.
        """
        self._check_revision(revision)
        bullets = _state_at(self._store.entries(until=revision))
        return tuple(sorted(bullets.values(), key=lambda bullet: bullet.number))

    def diff(self, a: int, b: int | None = None) -> Diff:
        """Return what changed from revision `a` to revision `b`, the newest when it is not given.

        With a > b, what a rollback would change.

        Raises:
            PlaybookError: There is no such revision.
        """
        b = self._store.revision() if b is None else b
        for revision in (a, b):
            self._check_revision(revision)
        return _diff(self._store.entries(until=max(a, b)), a, b)

    def rollback(self, revision: int, *, author: str = "", note: str = "") -> int:
        """Make the book what it was at a revision, byte for byte, by a new commit; nothing in the journal is lost.

        Runs whose credit it takes back may give it again; runs whose credit it brings back may not. The note says why, in
        the journal.

        Returns:
            The new revision; the old one when nothing differs.

        Raises:
            PlaybookError: There is no such revision.
        """
        self._check_revision(revision)
        entries = self._store.entries(until=revision)
        then = _state_at(entries)
        with self._state.transaction(author, reviewed=True) as tx:
            now = {bullet.id: bullet for bullet in self._state.bullets.values()}
            credited = credits_of((e.revision, e.delta) for e in entries)
            tx.add(*_way_back(now, then, revision, credited, clean_text(note)))
        return self._state.revision

    def versions(self, bullet_id: str) -> list[Version]:
        """Return what one bullet was after each commit that changed it, oldest first: `book.history.versions("b-1")`.

        Raises:
            PlaybookError: There never was such a bullet.
        """
        return versions_of(self._store.entries(), bullet_id)

    def tenants(self, bullet_ids: Collection[str]) -> dict[str, list[tuple[int, str | None]]]:
        """Say whose some bullets have been, also those that are gone: `book.history.tenants({"b-1"})` by id, with
        revisions."""
        return tenants_of(self._store.entries(), bullet_ids)

    def restore(self, bullet_id: str, revision: int, *, author: str = "", note: str = "") -> int:
        """Make one bullet say what it said at a revision: `book.history.restore("b-1", 3, author="ana")`.

        Words, plan, stage and trust come back; what runs have shown since stays. A bullet that was removed comes back.

        Args:
            bullet_id: The bullet.
            revision: One at which it was there.
            author: Who decides.
            note: Why, for the journal.

        Returns:
            The new revision; the old one when nothing differs.

        Raises:
            PlaybookError: It was not there at that revision, or has been merged into another bullet.
        """
        self._check_revision(revision)
        with self._state.transaction(author, reviewed=True) as tx:
            entries = concerning(tx.entries_after(0), bullet_id)
            versions = versions_of(entries, bullet_id)
            given = credits_of((e.revision, e.delta) for e in entries if e.revision < versions[-1].revision)
            reason = clean_text(note or f"back to revision {revision}")
            tx.add(*way_back(versions, revision, reason, tuple(sorted(given.get(bullet_id, ())))))
        return self._state.revision

    def export(self, path: str | Path) -> int:
        """Write the whole journal, from which everything follows, as JSON lines; returns how many entries."""
        return write_journal(self._store.entries(), path)

    def take_over(self, path: str | Path) -> int:
        """Read a journal that `export` wrote into this book, which is empty; returns how many entries.

        Raises:
            PlaybookError: An entry was changed, one is missing, or this book is not empty; nothing was written.
        """
        entries = read_journal(path)
        if problems := [*_broken_links(entries), *_gaps(entries)]:
            raise PlaybookError(f"{str(path)!r} is not whole: {problems[0]}; nothing was imported")
        with self._state.lock:
            self._store.take_over(entries)
            self._state.reload()
        return len(entries)

    def verify(self) -> VerifyReport:
        """Recompute the checksums and the fold of the journal, and compare them with what is stored."""
        return _verify(*self._store.everything())

    def successor(self, bullet_id: str) -> PlaybookBullet | None:
        """Find the bullet that took the place of a merged one; None when it was removed, itself when it is there.

        Raises:
            PlaybookError: There never was such a bullet.
        """
        explained, into = _explained(self._store.entries())
        if bullet_id not in explained:
            raise PlaybookError(f"there never was a lesson {bullet_id!r}")
        there = {bullet.id: bullet for bullet in self._state.all()}
        while bullet_id not in there and bullet_id in into:
            bullet_id = into.pop(bullet_id)
        return there.get(bullet_id)

    def _check_revision(self, revision: int) -> None:
        newest = self._store.revision()
        if not 0 <= revision <= newest:
            raise PlaybookError(f"no revision {revision}; there are 0 (empty) to {newest}")


def verify_file(url: str | Path) -> VerifyReport:
    """Recompute the checksums and the fold of a playbook's journal, however damaged its bullets are.

    Args:
        url: A file, or an SQLAlchemy URL.

    Raises:
        PlaybookError: It is no playbook, or out of reach.

    Examples:
        >>> from ace.playbook import CallableEmbedder, Playbook
        >>> path = getfixture("tmp_path") / "book.db"
        >>> with Playbook.open(path, embedder=CallableEmbedder("toy", lambda texts: [[1.0]] * len(texts))) as book:
        ...     _ = book.add(section="Pitfalls", content="Never guess an id.")
        >>> verify_file(path).ok
        True
    """
    with closing(Store(book_url(url))) as store:
        return _verify(*store.everything())


def _state_at(entries: Iterable[Entry], revision: int | None = None) -> dict[str, PlaybookBullet]:
    """Fold a journal up to a revision."""
    return fold((e.revision, e.delta) for e in entries if revision is None or e.revision <= revision)


def _diff(entries: Sequence[Entry], a: int, b: int) -> Diff:
    """Return what differs between revision `a` and revision `b`; with a > b, what a rollback would change."""
    before, after = _state_at(entries, a), _state_at(entries, b)
    between = [entry for entry in entries if min(a, b) < entry.revision <= max(a, b)]
    explained, merged = _explained(between)
    changes: list[Change] = []
    for bullet_id in sorted(before.keys() | after.keys(), key=lambda i: int(i.removeprefix("b-"))):
        old, new = before.get(bullet_id), after.get(bullet_id)
        if old == new or (old and new and differing(old, new) <= BOOKKEEPING):
            continue
        reasons, authors = explained.get(bullet_id, ([], []))
        fields = tuple(sorted(differing(old, new) - BOOKKEEPING - CREDIT_FIELDS)) if old and new else ()
        kind: Literal["added", "removed", "merged", "changed", "credited"] = "changed"
        if old is None:
            kind = "added"
        elif new is None:
            kind = "merged" if a < b and bullet_id in merged else "removed"
        elif not fields:
            kind, fields = "credited", tuple(sorted(differing(old, new) & CREDIT_FIELDS))
        into = merged.get(bullet_id, "") if kind == "merged" else ""
        changes.append(
            Change(
                bullet_id=bullet_id,
                kind=kind,
                before=old,
                after=new,
                fields=fields,
                into=into,
                reasons=tuple(reasons),
                authors=tuple(authors),
            )
        )
    return Diff(a=a, b=b, changes=tuple(changes))


def _explained(entries: Iterable[Entry]) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, str]]:
    """Return by bullet the reasons and authors of its deltas; and for each merged one, the bullet that took its place."""
    explained: dict[str, tuple[list[str], list[str]]] = {}
    merged: dict[str, str] = {}
    for entry in entries:
        delta = entry.delta
        ids = (delta.bullet.id,) if isinstance(delta, Add) else (delta.bullet_id, *getattr(delta, "absorbed", ()))
        for bullet_id in ids:
            reasons, authors = explained.setdefault(bullet_id, ([], []))
            if delta.reason and delta.reason not in reasons and not isinstance(delta, Tag):
                reasons.append(delta.reason)
            if entry.author and entry.author not in authors:
                authors.append(entry.author)
        if isinstance(delta, Merge):
            merged |= dict.fromkeys(delta.absorbed, delta.bullet_id)
        elif isinstance(delta, Restore):
            merged.pop(delta.bullet_id, None)
    return explained, merged


def _way_back(now: Bullets, then: Bullets, revision: int, credited: Credits, note: str) -> list[Delta]:
    """Make the deltas that make the book what it was, byte for byte; the journal only grows."""
    reason = f"back to revision {revision}{': ' if note else ''}{note}"
    deltas: list[Delta] = [Remove(bullet_id=i, back_to=revision, reason=reason) for i in now if i not in then]
    for bullet_id, bullet in then.items():
        if now.get(bullet_id) != bullet:
            runs = tuple(sorted(credited.get(bullet_id, ())))
            deltas.append(Restore(bullet=bullet, credited=runs, back_to=revision, reason=reason))
    return deltas


def _verify(
    entries: Sequence[Entry], rows: Sequence[Row], next_number: int, credited: Credits, damaged: Sequence[str]
) -> VerifyReport:
    """Recompute checksums, fold and credits, and compare with what is stored; what else is damaged stands beside it."""
    problems = [*damaged, *_broken_links(entries), *_gaps(entries)]
    unreadable = [f"the entry {e.revision}.{e.position} cannot be read" for e in entries if not _readable(e)]
    problems += unreadable
    if not unreadable:
        problems += [*_unlike(entries, rows), *_wrong_numbers(entries, next_number)]
        given = credits_of((e.revision, e.delta) for e in entries)
        if credited != {bullet_id: runs for bullet_id, runs in given.items() if runs}:
            problems.append("which runs have given their credit differs from the journal")
    return VerifyReport(
        revision=entries[-1].revision if entries else 0,
        entries=len(entries),
        bullets=len(rows),
        problems=tuple(problems),
    )


def _readable(entry: Entry) -> bool:
    try:
        return bool(entry.delta)
    except ValueError:
        return False


def _unlike(entries: Sequence[Entry], rows: Sequence[Row]) -> Iterator[str]:
    """Yield where the table is not the fold of the journal."""
    try:
        folded = _state_at(entries)
    except ValueError as error:
        yield f"the journal cannot be folded: {error}"
        return
    stored = {row.number: row for row in rows}
    for bullet_id, bullet in folded.items():
        row = stored.pop(int(bullet_id.removeprefix("b-")), None)
        if row is None:
            yield f"{bullet_id} is missing from the table"
        elif row.bullet != Row.of(bullet).bullet:
            yield f"{bullet_id} differs from the journal"
        elif row != Row.of(bullet):
            yield f"{bullet_id} has a filter key that is not its own"
    yield from (f"b-{number} is in the table, but not in the journal" for number in stored)


def _wrong_numbers(entries: Sequence[Entry], next_number: int) -> Iterator[str]:
    """Yield ids that came twice, and a counter that does not follow the last one."""
    deltas = [entry.delta for entry in entries]
    numbers = Counter(n for delta in deltas if not isinstance(delta, Restore) for n in given_numbers(delta))
    yield from (f"b-{number} was given twice" for number, times in numbers.items() if times > 1)
    given = [number for delta in deltas for number in given_numbers(delta)]  # a book that was saved keeps its ids
    expected = max(given, default=0) + 1
    if next_number < expected:
        yield f"the next bullet would be b-{next_number}, which was given before"
    elif next_number > expected:
        yield f"b-{next_number - 1} was given, but the journal does not know it: its end is missing"


def _broken_links(entries: Sequence[Entry]) -> Iterator[str]:
    previous = START
    for entry in entries:
        expected = link(previous, entry.revision, entry.position, entry.text, entry.author, entry.created_at)
        if expected != entry.checksum:
            yield f"the entry {entry.revision}.{entry.position} was changed after it was written"
        previous = entry.checksum


def _gaps(entries: Sequence[Entry]) -> Iterator[str]:
    expected, position = 0, -1
    for entry in entries:
        if (entry.revision, entry.position) not in ((expected, position + 1), (expected + 1, 0)):
            yield f"after entry {expected}.{position} comes {entry.revision}.{entry.position}"
        expected, position = entry.revision, entry.position


def _verdict(entry: Entry) -> Verdict:
    said = json.loads(entry.text)  # a book has many runs: the lessons that they taught are not looked at
    insights: list[dict[str, Any]] = said.get("insights") or [{}]
    taught = insights[0]
    families: list[str] = taught.get("provenance", {}).get("groups") or [taught.get("domain") or ""]
    return Verdict(said["run_id"], entry.created_at, said["success"], said.get("tenant"), families[0])
