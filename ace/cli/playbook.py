"""`ace playbook`: look at a playbook and its history, and take it elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from ace.cli import _playbook_views as views
from ace.cli._shared import JsonOption, Text, console, counted, examples, write_json
from ace.core import PlaybookError

if TYPE_CHECKING:
    from ace.playbook import Embedder, Playbook
    from ace.playbook.index.minilm import Vectors

app = typer.Typer(
    help="Look at a playbook, change it, review it, go back in its history.",
    no_args_is_help=True,
    epilog=examples("ace playbook search pb.db 'Refund an order'"),
)
BookArgument = Annotated[str, typer.Argument(help="The playbook file, or a database URL.")]
PART = 512
"""Lessons that are read at a time, where the time left is shown."""
AuthorOption = Annotated[str, typer.Option("--author", envvar="ACE_AUTHOR", help="Who is named in the journal.")]


class ShownEmbedder:
    """An embedder that shows the time left where it has many texts to read: `ShownEmbedder(MiniLMEmbedder())`."""

    def __init__(self, inner: Embedder) -> None:
        self.inner, self.name = inner, inner.name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed as the embedder itself does, some texts at a time."""
        if len(texts) <= PART:
            return self.inner.embed(texts)
        import numpy as np
        from rich.progress import track

        starts = track(range(0, len(texts), PART), "reading lessons", console=console, transient=True)
        return np.concatenate([self.inner.embed(texts[start : start + PART]) for start in starts])


def open_book(path: str, *, made: bool = False) -> Playbook:
    """Open a playbook that is there; or, where it is `made`, one that need not be."""
    from ace.playbook import MiniLMEmbedder, Playbook
    from ace.playbook.database import check_there

    if not made:
        check_there(path)
    return Playbook.open(path, embedder=ShownEmbedder(MiniLMEmbedder()))


def named(author: str) -> str:
    """Return the name that the journal gives a person's decision: `author`, or the user who is logged in."""
    import getpass

    try:
        return author or getpass.getuser()
    except (KeyError, OSError):  # a container without users
        return "somebody"


def check_one_of(what: str, given: str | None, known: Iterable[str]) -> None:
    """Refuse a word that would silently match nothing."""
    if given is not None and given not in known:
        raise PlaybookError(f"no {what} {given!r}; there are {', '.join(known)}")


@app.command("list", epilog=examples("ace playbook list pb.db --section Strategies --limit 20"))
def list_lessons(
    path: BookArgument,
    section: Annotated[str | None, typer.Option(help="Strategies, Pitfalls or Observations.")] = None,
    stage: Annotated[str | None, typer.Option(help="shadow, active, pinned, quarantined or retired.")] = None,
    standing: Annotated[
        bool, typer.Option("--standing", help="Draw how they do: helpful rate with its interval, use, measured effect.")
    ] = False,
    baseline: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="For --standing: how often the tasks succeed without a lesson.")
    ] = 0.5,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    json_file: JsonOption = None,
) -> None:
    """List the lessons in id order: what they say, their stage, what they rest on, where they came from."""
    from ace.playbook import Section, Stage

    check_one_of("section", section, get_args(Section))
    check_one_of("stage", stage, get_args(Stage))
    with open_book(path) as book:
        lessons = [b for b in book.bullets if section in (None, b.section) and stage in (None, b.stage)]
        known, ids = book.maintenance.stats() if standing else None, {lesson.id for lesson in lessons}
        if known is not None:
            console.print(
                f"{counted(known.bullets, 'lesson')} at revision {known.revision}; {known.credited} with credit, "
                f"{known.tainted} not trusted; embedder {known.embedder}, {known.index} index"
            )
            for line in views.stage_bars(known.stages):
                console.print(line)
            assessed = [one for one in book.maintenance.assess(baseline) if one.bullet.id in ids]
            console.print(views.standing(assessed, baseline, limit))
        else:
            title = f"{counted(len(lessons), 'lesson')}, revision {book.revision}"
            console.print(views.bullet_table(title, lessons[:limit]))
        if len(lessons) > limit:
            console.print(f"{len(lessons) - limit} more; raise --limit")
        write_json(known or [views.bullet_json(lesson) for lesson in lessons], json_file)


@app.command("show", epilog=examples("ace playbook show pb.db b-12"))
def show(
    path: BookArgument,
    bullet_id: Annotated[str, typer.Argument(metavar="LESSON", help="For example b-12.")],
    json_file: JsonOption = None,
) -> None:
    """Show everything about one lesson: what it says, where its parts came from, and why it waits if it does."""
    with open_book(path) as book:
        try:
            bullet = book.get(bullet_id)
        except PlaybookError:
            successor = book.history.successor(bullet_id)  # raises when there never was such a bullet
            took = f"{successor.id} took its place" if successor is not None else "it was removed"
            raise PlaybookError(f"{bullet_id} is gone: {took}; `ace playbook history` shows when and why") from None
        item = next((item for item in book.review.pending() if item.bullet.id == bullet_id), None)
        console.print(views.bullet_view(bullet, item))
        write_json(views.bullet_json(bullet), json_file)


@app.command("search", epilog=examples("ace playbook search pb.db 'Refund an order' -k 3 --explain"))
def search(
    path: BookArgument,
    query: Annotated[str, typer.Argument(help="A task in words.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many at most.")] = 3,
    domain: Annotated[str | None, typer.Option(help="Only lessons of this domain, or of none.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Lessons of this tenant, besides those of none.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Why each came, and what else was near.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Find the lessons that an agent would be shown."""
    with open_book(path) as book:
        if explain:
            found = book.explain(query, domain=domain, k=k, tenant=tenant)
            console.print(views.explanation_table(found))
            write_json(found, json_file)
            return
        bullets = book.retrieve(query, domain=domain, k=k, tenant=tenant)
        console.print(views.bullet_table(f"for {query!r}", bullets) if bullets else "no lesson fits")
        write_json([views.bullet_json(bullet) for bullet in bullets], json_file)


@app.command(
    "history", epilog=examples("ace playbook history pb.db --lesson b-12", "ace playbook history pb.db --since 10")
)
def history(
    path: BookArgument,
    lesson: Annotated[str | None, typer.Option(help="Only what concerns this lesson.")] = None,
    since: Annotated[
        int | None, typer.Option(min=0, help="What has changed since a revision, as one would review it; 0: all.")
    ] = None,
    until: Annotated[int | None, typer.Option(min=0, help="With --since: up to this revision.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many entries, the newest last.")] = 30,
    json_file: JsonOption = None,
) -> None:
    """Show who changed what, when, and why; or the difference between two revisions."""
    if until is not None and since is None:
        raise typer.BadParameter("--until goes with --since")
    with open_book(path) as book:
        if since is not None:
            found = book.history.diff(since, until)
            console.print(views.diff_view(found))
            write_json(found, json_file)
            return
        entries = book.history.entries(lesson)
        write_json(entries[-limit:], json_file)
        console.print(views.history_table(counted(len(entries), "change"), entries[-limit:]))
        if len(entries) > limit:
            console.print(f"{len(entries) - limit} earlier ones; raise --limit")


@app.command("verify", epilog=examples("ace playbook verify pb.db"))
def verify(
    path: BookArgument,
    tidy: Annotated[
        bool,
        typer.Option("--tidy", help="Also forget vectors that no lesson needs any more, and those of other embedders."),
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Recompute checksums and the fold of the journal; exit 1 if something does not fit."""
    from ace.playbook.database import check_there
    from ace.playbook.history import verify_file

    check_there(path)
    report = verify_file(path)
    for problem in report.problems:
        console.print(Text(problem, style="red"))
    state = "whole" if report.ok else counted(len(report.problems), "problem")
    entries, lessons = counted(report.entries, "entry"), counted(report.bullets, "lesson")
    console.print(f"revision {report.revision}, {entries}, {lessons}: {state}")
    write_json(report, json_file)
    if not report.ok:
        raise typer.Exit(1)
    if tidy:
        with open_book(path) as book:
            console.print(f"{counted(book.maintenance.gc(), 'vector')} forgotten")


@app.command(
    "export",
    epilog=examples("ace playbook export pb.db bullets.jsonl", "ace playbook export pb.db --skills .claude/skills"),
)
def export(
    path: BookArgument,
    target: Annotated[Path | None, typer.Argument(help="A JSON-lines file.")] = None,
    skills: Annotated[
        Path | None, typer.Option("--skills", help="Write Agent Skills into this folder, one for each domain.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            help="Only what is this tenant's; without it a file gets every lesson, and skills what is everybody's."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The whole journal, from which `import --full` makes the same book.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Write every lesson as one JSON line, in a stable order; or those that are shown as Agent Skills."""
    if full and tenant is not None:
        raise typer.BadParameter("--full is the whole journal; leave --tenant out")
    if (target is None) == (skills is None):
        raise typer.BadParameter("name either a JSON-lines file or a folder for --skills")
    with open_book(path) as book:
        if skills is not None:
            written = [str(file) for file in book.export_skills(skills, tenant=tenant)]
            for file in written:
                console.print(file)
            console.print(f"{counted(len(written), 'skill')} written to {skills}")
            write_json({"written": len(written), "files": written}, json_file)
        elif target is not None:
            count = book.history.export(target) if full else book.export_jsonl(target, tenant=tenant)
            what = f"{counted(count, 'entry')} of the journal" if full else counted(count, "lesson")
            console.print(f"{what} written to {target}")
            write_json({"written": count, "file": str(target)}, json_file)


@app.command("import", epilog=examples("ace playbook import new.db bullets.jsonl"))
def import_bullets(
    path: BookArgument,
    file: Annotated[Path, typer.Argument(help="As `export` writes it.")],
    trust: Annotated[
        bool, typer.Option("--trust", help="They come from a book of yours: they keep stage, trust and counts.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="A whole journal, into a new playbook.")] = False,
    author: AuthorOption = "import",
    json_file: JsonOption = None,
) -> None:
    """Add the lessons of a file under new ids, all or none; shadow and without counts, unless you trust them."""
    from ace.playbook.transfer import read_bullets

    if not file.exists():
        raise PlaybookError(f"there is no file {str(file)!r}")
    if not full:
        read_bullets(file)  # what is wrong with it shows before a new book is made
    with open_book(path, made=True) as book:
        if full:
            count = book.history.take_over(file)
            console.print(
                f"{counted(count, 'entry')} and {counted(len(book), 'lesson')} in {path}; "
                f"verified: {book.history.verify().ok}"
            )
            write_json({"entries": count, "bullets": len(book), "revision": book.revision}, json_file)
            return
        added = book.import_jsonl(file, author=author, trust=trust)
        console.print(f"{counted(added, 'lesson')} added to {path}")
        write_json({"added": added, "revision": book.revision}, json_file)


@app.command("backup", epilog=examples("ace playbook backup pb.db pb-monday.db"))
def backup(
    path: BookArgument,
    target: Annotated[Path, typer.Argument(help="A new file.")],
    json_file: JsonOption = None,
) -> None:
    """Copy a playbook into a new file, safely while others write to it; of one on a server, say how pg_dump copies it."""
    with open_book(path) as book:
        book.back_up(target)
        console.print(f"{path} is copied to {target}", soft_wrap=True)
        write_json({"backup": str(target), "revision": book.revision}, json_file)
