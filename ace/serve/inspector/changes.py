"""What a person changes in a playbook by the inspector's forms; each change stands in the journal under their name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast, get_args
from urllib.parse import quote, urlencode

from starlette.responses import RedirectResponse, Response

from ace.core import PlaybookError
from ace.learner import Learner
from ace.playbook import Playbook, PlaybookBullet, Section
from ace.playbook.review import SetStage
from ace.playbook.transfer import read_bullets
from ace.serve.inspector.access import Access
from ace.serve.inspector.lesson_page import lesson_page
from ace.serve.inspector.pages import Ask

MOST_WRITTEN = 20_000
"""Characters of a trigger, or of what a lesson says, that a person may write."""
MOST_NOTED = 2_000
"""Characters of a note: the journal keeps it for good."""


class Changes:
    """The forms of a playbook: `Changes(book, Access(book)).of_lesson(ask)`.

    Args:
        book: The playbook.
        access: Who may see what.
    """

    def __init__(self, book: Playbook, access: Access) -> None:
        self._book = book
        self._access = access
        self._known: Mapping[str, Callable[[Ask, PlaybookBullet], str]] = {
            "approve": partial(self._decide, book.review.approve, "approved"),
            "reject": partial(self._decide, book.review.reject, "refused"),
            "release": partial(self._decide, book.review.release, "released"),
            "edit": self._edit,
            "stage": self._stage,
            "remove": self._remove,
            "restore": self._restore,
            "confirm": self._confirm,
        }

    def of_lesson(self, ask: Ask) -> Response:
        """Change one lesson, and go back to where the form was.

        Raises:
            PlaybookError: There is no such lesson or change, it is not theirs, or somebody else was faster.
        """
        lesson, action = ask.request.path_params["lesson"], ask.request.path_params["action"]
        done = self._known.get(action)
        if done is None:
            raise PlaybookError(f"there is nothing called {action!r} to do with a lesson")
        page = lesson_page(self._book, lesson, lambda bullet: self._access.may_see(bullet, ask.person))
        if page is None or (page.gone and action != "restore"):
            raise PlaybookError(f"no lesson {lesson!r}")
        bullet = page.bullet
        if bullet.tenant != ask.person.tenant:
            may = f"{ask.person.name} may change the lessons of {ask.person.tenant} only"
            raise PlaybookError(f"{lesson} is everybody's; {may}")
        _check_note(ask)
        back, first = ask.text("back"), ask.number("first")
        path = back if back in ("/review", "/outdated") else f"/lessons/{quote(lesson)}"
        page_of = {"first": first} if path == back and first else {}
        before, said = self._book.revision, done(ask, bullet)
        changed = self._book.revision > before
        # what was there just before, also when somebody else wrote meanwhile
        undo = self._book.history.versions(lesson)[-1].revision - 1 if changed and action != "confirm" else ""
        return RedirectResponse(f"{path}?{urlencode({**page_of, 'said': said, 'lesson': lesson, 'undo': undo})}", 303)

    def bring_in(self, ask: Ask) -> Response:
        """Add the lessons of a file; they are not shown until a person, or a run of this book, speaks for them.

        Raises:
            PlaybookError: The file holds no lessons, or another tenant's; nothing was written.
        """
        file = ask.form.get("file")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lessons.jsonl"
            if not isinstance(file, bytes) or not file.strip():
                raise PlaybookError("choose a file of lessons, as the export writes it")
            path.write_bytes(file)
            try:
                bullets = read_bullets(path)
            except PlaybookError as error:
                raise PlaybookError(str(error).replace(repr(str(path)), "the file")) from None
            if foreign := {bullet.tenant for bullet in bullets} - {ask.person.tenant}:
                whose = ", ".join(sorted(tenant or "everybody" for tenant in foreign))
                may = f"{ask.person.name} may add those of {ask.person.tenant or 'everybody'} only"
                raise PlaybookError(f"the file holds lessons of {whose}; {may}; nothing was written")
            before, author = self._book.revision, ask.person.name
            added = self._book.import_jsonl(path, author=author)
        # others may have written meanwhile
        at = next(e["revision"] for e in self._book.history.entries(after=before) if e["author"] == author)
        said = {"said": f"{added} lesson{'s' * (added != 1)} came in as shadow"}
        return RedirectResponse(f"/imports/{at}?{urlencode(said)}", 303)

    def approve_import(self, ask: Ask) -> Response:
        """Let agents be shown all lessons of an import that are as the page showed them; others stay in shadow."""
        at, seen, approved = ask.request.path_params["revision"], ask.number("seen"), 0
        for bullet in self._access.imported(at, ask.person):
            if bullet.stage == "shadow" and bullet.updated_revision <= seen:
                note = f"approved with the import at revision {at}"
                looked_at = bullet.updated_revision
                self._book.review.set_stage(bullet.id, "active", seen=looked_at, author=ask.person.name, note=note)
                approved += 1
        return RedirectResponse(f"/imports/{at}?{urlencode({'said': f'{approved} approved'})}", 303)

    def add(self, ask: Ask) -> Response:
        """Add a lesson in a person's own words.

        Raises:
            PlaybookError: It says nothing, or too much.
        """
        _check_note(ask)
        bullet = self._book.add(
            section=ask.one_of("section", get_args(Section)) or "Strategies",
            trigger=_written(ask, "trigger"),
            content=_written(ask, "content"),
            domain=_written(ask, "domain") or None,
            tenant=ask.person.tenant,
            words_from=("person",),
            author=ask.person.name,
            reason=ask.text("note") or "added by hand",
        )
        return RedirectResponse(f"/lessons/{bullet.id}?{urlencode({'said': 'added'})}", 303)

    def retract(self, ask: Ask) -> Response:
        """Take back what a run has taught, and its credit.

        Raises:
            PlaybookError: The book has learned nothing from it, or it is another tenant's.
        """
        run = ask.request.path_params["run"]
        verdict = self._book.history.verdicts().get(run)
        if verdict is None or verdict.tenant != ask.person.tenant:
            raise PlaybookError(
                f"the playbook has learned nothing from a run {run!r} of {ask.person.tenant or 'everybody'}"
            )
        Learner(self._book, author=ask.person.name).retract(run)
        return RedirectResponse(f"/runs/{quote(run)}?{urlencode({'said': 'taken back, with what it has taught'})}", 303)

    def _decide(self, decide: Callable[..., object], said: str, ask: Ask, bullet: PlaybookBullet) -> str:
        seen = ask.number("seen", bullet.updated_revision)
        decide(bullet.id, seen=seen, author=ask.person.name, note=ask.text("note"))
        return said

    def _edit(self, ask: Ask, bullet: PlaybookBullet) -> str:
        was = {name: _lines(ask.text(f"was_{name}", getattr(bullet, name))) for name in ("trigger", "content")}
        said = {name: _written(ask, name, was[name]) for name in was}
        changed = {name: text for name, text in said.items() if text != was[name]}
        # what is stored may have other ends of lines than a browser sends
        stored = {name: getattr(bullet, name) for name in was if _lines(getattr(bullet, name)) == was[name]}
        self._book.review.edit(
            bullet.id, author=ask.person.name, note=ask.text("note"), instead_of={**was, **stored}, **changed
        )
        return "edited" if changed else "left as it was"

    def _stage(self, ask: Ask, bullet: PlaybookBullet) -> str:
        stage = cast("SetStage", ask.text("stage"))
        self._book.review.set_stage(bullet.id, stage, author=ask.person.name, note=ask.text("note"))
        return f"made {stage}"

    def _remove(self, ask: Ask, bullet: PlaybookBullet) -> str:
        self._book.review.remove(bullet.id, author=ask.person.name, note=ask.text("note"))
        return "removed"

    def _restore(self, ask: Ask, bullet: PlaybookBullet) -> str:
        revision = ask.number("revision")
        then = next((v for v in reversed(self._book.history.versions(bullet.id)) if v.revision <= revision), None)
        if then is not None and then.bullet is not None and then.bullet.tenant != ask.person.tenant:
            raise PlaybookError(f"{bullet.id} was another tenant's at revision {revision}")
        self._book.history.restore(bullet.id, revision, author=ask.person.name, note=ask.text("note"))
        return f"as at revision {revision}"

    def _confirm(self, ask: Ask, bullet: PlaybookBullet) -> str:
        self._book.review.confirm([bullet.id], self._access.tools(ask.person), author=ask.person.name)
        return "confirmed for the tools as they are"


def _check_note(ask: Ask) -> None:
    if len(ask.text("note")) > MOST_NOTED:
        raise PlaybookError(f"the note has {len(ask.text('note')):,} characters, expected at most {MOST_NOTED:,}")


def _written(ask: Ask, name: str, otherwise: str = "") -> str:
    """Return what a person wrote into a field of a lesson."""
    text = _lines(ask.text(name, otherwise))
    if name == "content" and not text:
        raise PlaybookError("a lesson says something; to take it away, remove it")
    if len(text) > MOST_WRITTEN:
        raise PlaybookError(f"{name} may have {MOST_WRITTEN:,} characters")
    return text


def _lines(text: str) -> str:
    """Return a text as it is stored: browsers end lines otherwise."""
    return text.replace("\r\n", "\n").strip()
