"""`ace playbook`: what a person changes: edit, stage, release, retract, merge, undo, purge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ace.cli._playbook_views import bullet_json, bullet_table, bullet_view, diff_view
from ace.cli._shared import JsonOption, Text, console, counted, examples, write_json
from ace.cli.playbook import AuthorOption, BookArgument, app, check_one_of, named, open_book
from ace.core import PlaybookError

if TYPE_CHECKING:
    from ace.playbook import Playbook

LessonsArgument = Annotated[list[str], typer.Argument(help="One or several, for example b-12 b-15.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why, for the journal.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]
NEW = "new"
"""In place of an id: a lesson of the person's own."""
TRUSTED, AUTO = "trusted", "auto"
"""In place of a stage."""


def asked(question: str, yes: bool) -> None:
    """Ask, unless it was answered on the command line; a no ends the command."""
    if not yes and not typer.confirm(question):
        console.print("nothing was changed")
        raise typer.Exit(1)


def done(path: str, book: Playbook, before: int, ids: Sequence[str], json_file: Path | None) -> None:
    """Say what was done, and how to undo it."""
    kept = book.find(ids)
    if book.revision == before:
        console.print("nothing changed")
    else:
        undo = f"ace playbook undo {path} --to {before}"
        named_ids = f"{', '.join(ids)}: " if ids else ""
        console.print(f"{named_ids}revision {book.revision}; undo with: {undo}", soft_wrap=True)
    rows = [bullet_json(kept[i]) if i in kept else {"id": i, "stage": "removed"} for i in ids]
    write_json({"revision": book.revision, "before": before, "bullets": rows}, json_file)


@app.command(
    "edit",
    epilog=examples(
        "ace playbook edit pb.db new --do 'Ask first.' --when 'Refund an order'",
        "ace playbook edit pb.db b-12 --do 'Ask for the order number first.'",
        "ace playbook edit pb.db b-12 --remove",
    ),
)
def edit(
    path: BookArgument,
    lesson: Annotated[str, typer.Argument(help="For example b-12; `new` writes a lesson of your own.")],
    content: Annotated[str | None, typer.Option("--do", help="What to do, or what to avoid.")] = None,
    trigger: Annotated[str | None, typer.Option("--when", help="A task in words; empty: always.")] = None,
    section: Annotated[str | None, typer.Option(help="Strategies, Pitfalls or Observations.")] = None,
    domain: Annotated[str | None, typer.Option(help="Only for tasks of this domain.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only for this tenant.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take it out of the book; the journal keeps it.")] = False,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Put a lesson in your own words or under other conditions, write one, or take one out.

    A mined plan becomes a lesson in words. A lesson of your own is shown from now on; `new` makes the book where there is
    none.
    """
    from ace.playbook.bullet import Section

    check_one_of("section", section, get_args(Section))
    given = {"trigger": trigger, "content": content, "section": section, "domain": domain, "tenant": tenant}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes |= {"tags": tuple(tags)} if tags else {}
    if remove and changes:
        raise PlaybookError("--remove takes the lesson out; leave the other options out")
    if not changes and not remove:
        raise PlaybookError("nothing to change; name --when, --do, --section, --domain, --tenant or --tag")
    with open_book(path, made=lesson == NEW) as book:
        before, known = book.revision, {bullet.id for bullet in book.bullets}
        if lesson == NEW:
            _write(book, changes, named(author), note, yes)
        else:
            _change(book, lesson, changes, named(author), note, yes)
        ids = [bullet.id for bullet in book.bullets if bullet.id not in known] if lesson == NEW else [lesson]
        done(path, book, before, ids, json_file)


def _write(book: Playbook, fields: dict[str, Any], author: str, note: str, yes: bool) -> None:
    from ace.playbook import Add, PlaybookBullet

    if not fields.get("content", "").strip():
        raise PlaybookError("the lesson is empty; say with --do what to do, or what to avoid")
    bullet = PlaybookBullet.model_validate({"section": "Strategies", "words_from": ("person",), **fields})
    console.print(bullet_view(bullet))
    asked("Add it?", yes)
    book.commit([Add(bullet=bullet, reason=note or "added by hand")], author=author)


def _change(book: Playbook, lesson: str, changes: dict[str, Any], author: str, note: str, yes: bool) -> None:
    if not changes:
        console.print(bullet_table("to remove", [book.get(lesson)]))
        asked("Remove it?", yes)
        book.review.remove(lesson, author=author, note=note)
        return
    with book.fork() as copy:  # what it would be
        before = copy.revision
        copy.review.edit(lesson, **changes)
        console.print(diff_view(copy.history.diff(before, copy.revision)))
    asked("Change it?", yes)
    book.review.edit(lesson, author=author, note=note, **changes)


@app.command(
    "stage",
    epilog=examples(
        "ace playbook stage pb.db pinned b-12 --note 'holds for every refund'",
        "ace playbook stage pb.db auto --baseline 0.6 --dry-run",
    ),
)
def stage(
    path: BookArgument,
    to: Annotated[
        str,
        typer.Argument(
            help="pinned: shown first, whatever is asked. active: shown where it fits. shadow: tried out. retired: not "
            "shown. "
            "trusted: what waits for review becomes active, what was imported may be tried out. auto: what runs have shown: "
            "retire lessons that are worse than nothing beyond doubt, show shadow ones that are better."
        ),
    ],
    lessons: Annotated[list[str] | None, typer.Argument(help="One or several, for example b-12 b-15.")] = None,
    baseline: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="For auto: how often the tasks succeed without a lesson; by its own held-out runs when left out.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Say how far lessons are shown and believed."""
    from ace.playbook.review import SetStage

    check_one_of("stage", to, (*get_args(SetStage), TRUSTED, AUTO))
    if (to == AUTO) == bool(lessons):
        raise PlaybookError(
            "auto looks at all lessons" if lessons else f"name the lessons to make {to}, for example b-12"
        )
    with open_book(path) as book:
        if to == AUTO:
            _by_what_runs_show(book, baseline, dry_run, yes, named(author), json_file)
            return
        bullets = [book.get(lesson) for lesson in dict.fromkeys(lessons or ())]
        console.print(bullet_table(f"to be {to}", bullets))
        if dry_run:
            return
        asked(f"Make {counted(len(bullets), 'lesson')} of {len(book)} {to}?", yes)
        before = book.revision
        for bullet in bullets:
            if to in (TRUSTED, "pinned", "active"):
                book.review.trust(bullet.id, author=named(author), note=note)
            if to != TRUSTED:
                book.review.set_stage(bullet.id, to, author=named(author), note=note)  # pyright: ignore[reportArgumentType]
        done(path, book, before, [bullet.id for bullet in bullets], json_file)


def _by_what_runs_show(
    book: Playbook, baseline: float | None, dry_run: bool, yes: bool, author: str, json_file: Path | None
) -> None:
    from ace.playbook.maintenance import own_controls

    against = own_controls if baseline is None else baseline
    due = book.maintenance.prune(against, dry_run=True)
    for assessment in due:
        bullet = assessment.bullet
        console.print(
            f"{assessment.action:<8} {bullet.id}  +{bullet.helpful_count} -{bullet.harmful_count}  better with "
            f"probability {100 * assessment.better:.1f} %: {(bullet.trigger or bullet.content)[:60]}"
        )
    if due and not dry_run:
        asked(f"Change {counted(len(due), 'lesson')}?", yes)
        due = book.maintenance.prune(against, author=author)
    what = "would change" if dry_run else "changed"
    console.print(f"{counted(len(due), 'lesson')} {what}")
    rows = [{"id": one.bullet.id, "action": one.action, "better": one.better} for one in due]
    write_json({"dry_run": dry_run, "changed": rows}, json_file)


@app.command("release", epilog=examples("ace playbook release pb.db b-12 b-15 --note 'checked with support'"))
def release(
    path: BookArgument,
    lessons: LessonsArgument,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Let agents with plans='approved' run the plans of lessons as one call, as long as they make these calls."""
    with open_book(path) as book:
        bullets = [book.get(lesson) for lesson in dict.fromkeys(lessons)]
        console.print(bullet_table("to release", bullets))
        for bullet in bullets:
            if bullet.plan is not None:  # a lesson may be shortened; what is released is shown to its last call
                console.print(Text(f"{bullet.id}: {bullet.plan.text}"), soft_wrap=True)
        asked(f"Release the plans of {counted(len(bullets), 'lesson')}?", yes)
        before = book.revision
        for bullet in bullets:
            book.review.release(bullet.id, seen=bullet.updated_revision, author=named(author), note=note)
        done(path, book, before, [bullet.id for bullet in bullets], json_file)


@app.command("retract", epilog=examples("ace playbook retract pb.db 3f2a9c --yes"))
def retract(
    path: BookArgument,
    run: Annotated[str, typer.Argument(help="The id of a run, out.run_id; `ace playbook history` names them.")],
    author: AuthorOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Take back what a run has taught, and its credit; what other runs have taught as well stays."""
    from ace.learner import Learner

    with open_book(path) as book:
        before = book.revision
        asked(f"Take back what run {run} has taught?", yes)
        Learner(book, author=named(author)).retract(run)
        if book.revision > before:
            console.print(diff_view(book.history.diff(before)))
        done(path, book, before, [], json_file)


@app.command(
    "merge",
    epilog=examples(
        "ace playbook merge pb.db --dry-run", "ace playbook merge pb.db --apart b-3 b-7 --note 'two carriers'"
    ),
)
def merge(
    path: BookArgument,
    threshold: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="A cosine; calibrated for the embedder when left out.")
    ] = None,
    apart: Annotated[
        tuple[str, str] | None, typer.Option(help="Remember that two near lessons are different, and merge nothing.")
    ] = None,
    dry_run: DryRunOption = False,
    author: AuthorOption = "",
    note: Annotated[str, typer.Option("--note", help="With --apart: why, for the journal.")] = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Merge duplicate lessons; nothing that a text names is lost."""
    with open_book(path) as book:
        if apart is not None:
            revision = book.maintenance.keep_both(*apart, author=named(author), note=note)
            console.print(f"kept both, revision {revision}")
            write_json({"kept": list(apart), "revision": revision}, json_file)
            return
        report = book.maintenance.dedup(dry_run=True, threshold=threshold)
        for pair in report.duplicates:
            how = "duplicate" if pair.kind == "duplicate" else "a variant, noted there"
            console.print(f"{pair.removed.id} -> {pair.successor.id}  {how}, cosine {pair.cosine:.3f}")
        for one, other, cosine, what in report.near[:10]:
            console.print(f"kept apart: {one}, {other}  cosine {cosine:.3f}  {what}", style="dim")
        if report.duplicates and not dry_run:
            asked(f"Merge {counted(len(report.duplicates), 'lesson')} into others?", yes)
            report = book.maintenance.dedup(threshold=threshold, author=named(author))
        verb = "would go" if dry_run else "merged"
        console.print(f"{len(report.duplicates)} of {counted(report.bullets, 'lesson')} {verb}")
        rows = [
            {"removed": pair.removed.id, "successor": pair.successor.id, "kind": pair.kind, "cosine": pair.cosine}
            for pair in report.duplicates
        ]
        write_json({"dry_run": dry_run, "bullets": report.bullets, "merged": rows}, json_file)


@app.command(
    "undo",
    epilog=examples(
        "ace playbook undo pb.db", "ace playbook undo pb.db --to 10 --yes", "ace playbook undo pb.db b-12 --to 10"
    ),
)
def undo(
    path: BookArgument,
    lesson: Annotated[
        str | None, typer.Argument(help="Only this lesson, for example b-12; also one that was removed.")
    ] = None,
    to: Annotated[
        int | None,
        typer.Option("--to", min=0, help="The revision to go back to; the one before the newest by default."),
    ] = None,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Make the book, or one lesson of it, what it was at a revision; the journal keeps everything, so this can be undone.

    What runs have shown of a single lesson stays.
    """
    with open_book(path) as book:
        newest = book.revision
        revision = max(0, newest - 1) if to is None else to
        if lesson is not None:
            asked(f"Make {lesson} what it was at revision {revision}?", yes)
            book.history.restore(lesson, revision, author=named(author), note=note)
            done(path, book, newest, [lesson], json_file)
            return
        console.print(diff_view(book.history.diff(newest, revision)))
        asked(f"Go back to revision {revision}?", yes)
        now = book.history.rollback(revision, author=named(author), note=note)
        back = f"ace playbook undo {path} --to {newest}"
        console.print(f"revision {now} equals revision {revision}; undo with: {back}", soft_wrap=True)
        write_json({"revision": now, "equals": revision, "before": newest}, json_file)


@app.command("purge", epilog=examples("ace playbook purge pb.db --text 'Ana Kovač' --yes"))
def purge(
    path: BookArgument,
    text: Annotated[str, typer.Option(help="Replaced by \\[purged] wherever it stands.")] = "",
    run: Annotated[str, typer.Option(help="The id of a run; what only it taught goes.")] = "",
    tenant: Annotated[str | None, typer.Option(help="All lessons of a tenant go.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Leave single words of the text alone.")] = False,
    yes: YesOption = False,
    author: AuthorOption = "",
    json_file: JsonOption = None,
) -> None:
    """Take something out of the playbook and its history for good; the journal keeps a tombstone."""
    with open_book(path) as book:
        target: dict[str, Any] = {"text": text, "run_id": run, "tenant": tenant, "exact": exact}
        found = book.purge(**target, dry_run=True)
        console.print(
            f"{counted(found.entries, 'entry')} of the journal, {counted(found.runs, 'run')} stored or waiting; "
            f"changed: {', '.join(found.changed) or 'none'}; removed: {', '.join(found.removed) or 'none'}"
            + (f"; also the words {', '.join(found.words)}" if found.words else ""),
        )
        cache = os.environ.get("DSPY_CACHEDIR") or Path.home() / ".dspy_cache"
        console.print(
            f"Not reached: exports, backups, saved programs, and DSPy's cache of replies in {cache}, which holds whole "
            "prompts; delete that folder to clear it.",
            soft_wrap=True,
        )
        if not (found.entries or found.runs):
            write_json(found, json_file)
            return
        asked("This cannot be undone. Go on?", yes)
        result = book.purge(**target, author=named(author))
        verified = book.history.verify().ok
        console.print(f"[purged]: {counted(result.entries, 'entry')} changed; the journal verifies: {verified}")
        write_json(result, json_file)
