"""`ace playbook`: history, review and maintenance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ace.cli._shared import JsonOption, Text, check_writable, console, write_json
from ace.cli.playbook import AuthorOption, BookArgument, app, named, open_book

BulletArgument = Annotated[str, typer.Argument(help="For example b-12.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why, for the journal.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]
BaselineOption = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="How often the tasks succeed without a bullet; by its own held-out runs when left out."
    ),
]

# -- forgetting --------------------------------------------------------------------------------------------------------


@app.command("purge", epilog="Example: ace playbook purge pb.db --text 'Ana Kovač' --yes")
def purge(
    path: BookArgument,
    text: Annotated[str, typer.Option(help="Replaced by [purged] wherever it stands.")] = "",
    run: Annotated[str, typer.Option(help="The id of a run; what only it taught goes.")] = "",
    tenant: Annotated[str | None, typer.Option(help="All bullets of a tenant go.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Leave single words of the text alone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    author: AuthorOption = "",
    json_file: JsonOption = None,
) -> None:
    """Take something out of the playbook and its history for good; the journal keeps a tombstone."""
    check_writable(json_file)
    with open_book(path) as book:
        target: dict[str, Any] = {"text": text, "run_id": run, "tenant": tenant, "exact": exact}
        found = book.purge(**target, dry_run=True)
        console.print(
            f"{found.entries} entries of the journal, {found.runs} runs that are stored or wait; "
            f"changed: {', '.join(found.changed) or 'none'}; removed: {', '.join(found.removed) or 'none'}"
            + (f"; also the words {', '.join(found.words)}" if found.words else ""),
            markup=False,
        )
        cache = os.environ.get("DSPY_CACHEDIR") or Path.home() / ".dspy_cache"
        console.print(
            f"Not reached: exports, backups, saved programs, and DSPy's cache of replies in {cache}, which holds whole "
            "prompts; delete that folder to clear it.",
            markup=False,
            soft_wrap=True,
        )
        if not (found.entries or found.runs):
            write_json(found, json_file)
            return
        if not yes:
            typer.confirm("This cannot be undone. Go on?", abort=True)
        done = book.purge(**target, author=author)
        console.print(f"purged; {done.entries} entries changed, the journal verifies: {book.history.verify().ok}")
        write_json(done, json_file)


@app.command("retract", epilog="Example: ace playbook retract pb.db 3f2a9c --yes")
def retract(
    path: BookArgument,
    run: Annotated[str, typer.Argument(help="The id of a run, out.run_id; `ace playbook history` names them.")],
    author: AuthorOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Take back what a run has taught, and its credit; what other runs have taught as well stays."""
    from ace.cli._playbook_views import diff_view
    from ace.learner import Learner

    check_writable(json_file)
    with open_book(path) as book:
        before = book.revision
        if not yes:
            typer.confirm(f"Take back what run {run} has taught?", abort=True)
        Learner(book, author=author or "person").retract(run)
        if book.revision == before:
            console.print("nothing changed: it had been taken back before", highlight=False)
        else:
            console.print(diff_view(book.history.diff(before)))
            console.print(f"revision {book.revision}; undo with: ace playbook rollback {path} {before}")
        write_json({"revision": book.revision, "before": before}, json_file)


# -- history -----------------------------------------------------------------------------------------------------------


@app.command("history", epilog="Example: ace playbook history pb.db --bullet b-12")
def history(
    path: BookArgument,
    bullet: Annotated[str | None, typer.Option(help="Only what concerns this bullet.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many entries, the newest last.")] = 30,
    json_file: JsonOption = None,
) -> None:
    """Who changed what, when, and why."""
    from ace.cli._playbook_views import moment

    check_writable(json_file)
    with open_book(path) as book:
        entries = book.history.entries(bullet)
        write_json(entries[-limit:], json_file)
        table = Table(title=Text(f"{len(entries)} changes"), title_justify="left")
        for name in ("revision", "when", "by", "what", "bullet", "why"):
            table.add_column(name, overflow="fold")
        for entry in entries[-limit:]:
            subject = entry.get("bullet_id") or entry.get("bullet", {}).get("id", "")
            absorbed = entry.get("absorbed") or ()
            table.add_row(
                str(entry["revision"]),
                moment(entry["created_at"]),
                Text(entry["author"]),
                entry["kind"],
                Text(f"{subject} <- {', '.join(absorbed)}" if absorbed else subject),
                Text(entry["reason"]),
            )
        console.print(table)
        if len(entries) > limit:
            console.print(f"{len(entries) - limit} earlier ones; raise --limit", highlight=False)


@app.command("diff", epilog="Example: ace playbook diff pb.db 10 25")
def diff(
    path: BookArgument,
    a: Annotated[int, typer.Argument(min=0, help="A revision; 0 is the empty book.")],
    b: Annotated[int | None, typer.Argument(min=0, help="Another one; the newest when left out.")] = None,
    json_file: JsonOption = None,
) -> None:
    """What changed between two revisions, as one would review it."""
    from ace.cli._playbook_views import diff_view

    check_writable(json_file)
    with open_book(path) as book:
        found = book.history.diff(a, b)
        console.print(diff_view(found))
        write_json(found, json_file)


@app.command("rollback", epilog="Example: ace playbook rollback pb.db 10 --yes")
def rollback(
    path: BookArgument,
    revision: Annotated[int, typer.Argument(min=0, help="What the book is to be again.")],
    author: AuthorOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Make the book what it was at a revision; the journal keeps everything, so a rollback can be rolled back."""
    from ace.cli._playbook_views import diff_view

    check_writable(json_file)
    with open_book(path) as book:
        newest = book.revision
        console.print(diff_view(book.history.diff(newest, revision)))
        if not yes:
            typer.confirm(f"Go back to revision {revision}?", abort=True)
        now = book.history.rollback(revision, author=author)
        console.print(f"revision {now} equals revision {revision}; undo with: ace playbook rollback {path} {newest}")
        write_json({"revision": now, "equals": revision, "before": newest}, json_file)


@app.command("restore", epilog="Example: ace playbook restore pb.db b-12 10 --note 'it was right'")
def restore(
    path: BookArgument,
    bullet: BulletArgument,
    revision: Annotated[int, typer.Argument(min=0, help="At which it was as it is to be again.")],
    note: NoteOption = "",
    author: AuthorOption = "",
    json_file: JsonOption = None,
) -> None:
    """Make one bullet say what it said at a revision, also one that was removed; what runs have shown stays."""
    check_writable(json_file)
    with open_book(path) as book:
        before = book.revision
        now = book.history.restore(bullet, revision, author=named(author), note=note)
        what = f"{bullet} is as at revision {revision}; undo with: ace playbook restore {path} {bullet} {before}"
        console.print(what if now > before else f"{bullet} says what it said at revision {revision}", highlight=False)
        write_json({"revision": now, "bullet": bullet, "as_at": revision}, json_file)


@app.command("verify", epilog="Example: ace playbook verify pb.db")
def verify(path: BookArgument, json_file: JsonOption = None) -> None:
    """Recompute checksums and the fold of the journal; exit 1 if something does not fit."""
    from ace.playbook.database import check_there
    from ace.playbook.history import verify_file

    check_writable(json_file)
    check_there(path)
    report = verify_file(path)
    for problem in report.problems:
        console.print(Text(problem, style="red"))
    state = "whole" if report.ok else f"{len(report.problems)} problems"
    console.print(
        f"revision {report.revision}, {report.entries} entries, {report.bullets} bullets: {state}", highlight=False
    )
    write_json(report, json_file)
    if not report.ok:
        raise typer.Exit(1)


# -- maintenance -------------------------------------------------------------------------------------------------------


@app.command("prune", epilog="Example: ace playbook prune pb.db --baseline 0.6 --dry-run")
def prune(
    path: BookArgument,
    baseline: BaselineOption = None,
    dry_run: DryRunOption = False,
    author: AuthorOption = "prune",
    json_file: JsonOption = None,
) -> None:
    """Retire bullets that are worse than nothing beyond doubt, promote shadow bullets that are better."""
    from ace.playbook.maintenance import own_controls

    check_writable(json_file)
    with open_book(path) as book:
        known = own_controls if baseline is None else baseline
        due = book.maintenance.prune(known, dry_run=dry_run, author=author)
        for assessment in due:
            bullet = assessment.bullet
            console.print(
                f"{assessment.action:<8} {bullet.id}  +{bullet.helpful_count} -{bullet.harmful_count}  better with "
                f"probability {100 * assessment.better:.1f} %: {(bullet.trigger or bullet.content)[:60]}",
                highlight=False,
            )
        console.print(f"{len(due)} bullets {'would change' if dry_run else 'changed'} their stage", highlight=False)
        rows = [{"id": one.bullet.id, "action": one.action, "better": one.better} for one in due]
        write_json({"dry_run": dry_run, "changed": rows}, json_file)


@app.command("dedup", epilog="Example: ace playbook dedup pb.db --dry-run")
def dedup(
    path: BookArgument,
    threshold: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="A cosine; calibrated for the embedder when left out.")
    ] = None,
    dry_run: DryRunOption = False,
    author: AuthorOption = "dedup",
    json_file: JsonOption = None,
) -> None:
    """Merge duplicate bullets; nothing that a text names is lost."""
    check_writable(json_file)
    with open_book(path) as book:
        report = book.maintenance.dedup(dry_run=dry_run, threshold=threshold, author=author)
        for pair in report.duplicates:
            how = "duplicate" if pair.kind == "duplicate" else "a variant, noted there"
            console.print(f"{pair.removed.id} -> {pair.successor.id}  {how}, cosine {pair.cosine:.3f}", highlight=False)
        for one, other, cosine, what in report.near[:10]:
            console.print(f"kept apart: {one}, {other}  cosine {cosine:.3f}  {what}", highlight=False, style="dim")
        verb = "would go" if dry_run else "merged"
        console.print(f"{len(report.duplicates)} of {report.bullets} bullets {verb}", highlight=False)
        rows = [
            {"removed": pair.removed.id, "successor": pair.successor.id, "kind": pair.kind, "cosine": pair.cosine}
            for pair in report.duplicates
        ]
        write_json({"dry_run": dry_run, "bullets": report.bullets, "merged": rows}, json_file)


@app.command("keep", epilog="Example: ace playbook keep pb.db b-3 b-7 --note 'different carriers'")
def keep(
    path: BookArgument,
    one: BulletArgument,
    other: BulletArgument,
    author: AuthorOption = "",
    note: NoteOption = "",
    json_file: JsonOption = None,
) -> None:
    """Remember that two near bullets are different; `dedup` never asks again."""
    check_writable(json_file)
    with open_book(path) as book:
        revision = book.maintenance.keep_both(one, other, author=author, note=note)
        console.print(f"kept both, revision {revision}", highlight=False)
        write_json({"kept": [one, other], "revision": revision}, json_file)


@app.command("stage", epilog="Example: ace playbook stage pb.db b-12 pinned --note 'holds for every refund'")
def stage(
    path: BookArgument,
    bullet_id: BulletArgument,
    to: Annotated[str, typer.Argument(help="shadow, active, pinned or retired.")],
    author: AuthorOption = "",
    note: NoteOption = "",
    json_file: JsonOption = None,
) -> None:
    """Pin a bullet, retire it, or bring it back."""
    from typing import cast, get_args

    from ace.core import PlaybookError
    from ace.playbook.review import SetStage

    check_writable(json_file)
    if to not in get_args(SetStage):
        raise PlaybookError(f"no stage {to!r}; expected {', '.join(get_args(SetStage))}")
    with open_book(path) as book:
        revision = book.review.set_stage(bullet_id, cast(SetStage, to), author=author, note=note)
        console.print(f"{bullet_id} is {to}, revision {revision}", highlight=False)
        write_json({"id": bullet_id, "stage": to, "revision": revision}, json_file)


@app.command("gc", epilog="Example: ace playbook gc pb.db")
def gc(path: BookArgument, json_file: JsonOption = None) -> None:
    """Forget vectors that no bullet needs any more, and those of other embedders."""
    check_writable(json_file)
    with open_book(path) as book:
        forgotten = book.maintenance.gc()
        console.print(f"{forgotten} vectors forgotten", highlight=False)
        write_json({"forgotten": forgotten}, json_file)
