"""`ace playbook`: view, search, export and import a playbook."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from ace.cli._shared import JsonOption, check_writable, console, write_json

if TYPE_CHECKING:
    from ace.playbook import Playbook

app = typer.Typer(
    help="Look at a playbook, review it, go back in its history, keep it tidy.",
    no_args_is_help=True,
    epilog="Example: ace playbook search pb.db 'Refund an order'",
)
BookArgument = Annotated[str, typer.Argument(help="The playbook file, or a database URL.")]
AuthorOption = Annotated[str, typer.Option("--author", envvar="ACE_AUTHOR", help="Who is named in the journal.")]


def open_book(path: str) -> Playbook:
    """Open a playbook that is there."""
    from ace.playbook import Playbook
    from ace.playbook.database import check_there

    check_there(path)
    return Playbook.open(path)


def named(author: str) -> str:
    """Who is named in the journal when a person decides: by default whoever is logged in."""
    import getpass

    try:
        return author or getpass.getuser()
    except (KeyError, OSError):  # a container without users
        return "somebody"


def check_one_of(what: str, given: str | None, known: Iterable[str]) -> None:
    """Refuse a word that would silently match nothing."""
    from ace.core import PlaybookError

    if given is not None and given not in known:
        raise PlaybookError(f"no {what} {given!r}; there are {', '.join(known)}")


@app.command("list", epilog="Example: ace playbook list pb.db --section Strategies --limit 20")
def list_bullets(
    path: BookArgument,
    section: Annotated[str | None, typer.Option(help="Strategies, Pitfalls or Observations.")] = None,
    stage: Annotated[str | None, typer.Option(help="shadow, active, pinned, quarantined or retired.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    json_file: JsonOption = None,
) -> None:
    """List the bullets in id order: the lesson, its stage, what it rests on, where it came from."""
    from ace.cli._playbook_views import bullet_json, bullet_table
    from ace.playbook import Section, Stage

    check_one_of("section", section, get_args(Section))
    check_one_of("stage", stage, get_args(Stage))
    check_writable(json_file)
    with open_book(path) as book:
        bullets = [b for b in book.bullets if section in (None, b.section) and stage in (None, b.stage)]
        console.print(bullet_table(f"{len(bullets)} bullets, revision {book.revision}", bullets[:limit]))
        if len(bullets) > limit:
            console.print(f"{len(bullets) - limit} more; raise --limit")
        write_json([bullet_json(bullet) for bullet in bullets], json_file)


@app.command("show", epilog="Example: ace playbook show pb.db b-12")
def show(
    path: BookArgument,
    bullet_id: Annotated[str, typer.Argument(help="For example b-12.")],
    json_file: JsonOption = None,
) -> None:
    """Show everything about one bullet: the lesson, where its parts came from, and why it waits if it does."""
    from ace.cli._playbook_views import bullet_json, bullet_view
    from ace.core import PlaybookError

    check_writable(json_file)
    with open_book(path) as book:
        try:
            bullet = book.get(bullet_id)
        except PlaybookError:
            successor = book.history.successor(bullet_id)  # raises when there never was such a bullet
            took = f"{successor.id} took its place" if successor is not None else "it was removed"
            raise PlaybookError(f"{bullet_id} is gone: {took}; `ace playbook history` shows when and why") from None
        item = next((item for item in book.review.pending() if item.bullet.id == bullet_id), None)
        console.print(bullet_view(bullet, item))
        write_json(bullet_json(bullet), json_file)


@app.command("search", epilog="Example: ace playbook search pb.db 'Refund an order' -k 3 --explain")
def search(
    path: BookArgument,
    query: Annotated[str, typer.Argument(help="A task in words.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many at most.")] = 3,
    domain: Annotated[str | None, typer.Option(help="Only bullets of this domain, or of none.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Bullets of this tenant, besides those of none.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Why each came, and what else was near.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Find the bullets that an agent would be shown."""
    from ace.cli._playbook_views import bullet_json, bullet_table, explanation_table

    check_writable(json_file)
    with open_book(path) as book:
        if explain:
            found = book.explain(query, domain=domain, k=k, tenant=tenant)
            console.print(explanation_table(found))
            write_json(found, json_file)
            return
        bullets = book.retrieve(query, domain=domain, k=k, tenant=tenant)
        console.print(bullet_table(f"for {query!r}", bullets))
        write_json([bullet_json(bullet) for bullet in bullets], json_file)


@app.command("stats", epilog="Example: ace playbook stats pb.db --baseline 0.6")
def stats(
    path: BookArgument,
    baseline: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How often the tasks succeed without a bullet.")
    ] = 0.5,
    limit: Annotated[int, typer.Option(min=1, help="At most this many bullets, the most used ones first.")] = 25,
    json_file: JsonOption = None,
) -> None:
    """Draw where the bullets stand: stage, helpful rate with its interval, use, measured effect."""
    from ace.cli._playbook_views import stage_bars, standing

    check_writable(json_file)
    with open_book(path) as book:
        known = book.maintenance.stats()
        console.print(
            f"{known.bullets} bullets at revision {known.revision}; {known.credited} with credit, {known.tainted} tainted; "
            f"embedder {known.embedder}, {known.index} index",
            highlight=False,
        )
        for line in stage_bars(known.stages):
            console.print(line)
        console.print(standing(book.maintenance.assess(baseline), baseline, limit))
        if known.bullets > limit:
            console.print(f"{known.bullets - limit} more; raise --limit", highlight=False)
        write_json(known, json_file)


@app.command(
    "export",
    epilog="Examples: ace playbook export pb.db bullets.jsonl   |   ace playbook export pb.db --skills .claude/skills",
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
            help="Only what is this tenant's; without it a file gets every bullet, and skills what is everybody's."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The whole journal, from which `import --full` makes the same book.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Write every bullet as one JSON line, in a stable order; or the lessons that are shown as Agent Skills."""
    check_writable(json_file)
    if full and tenant is not None:
        raise typer.BadParameter("--full is the whole journal; leave --tenant out")
    if (target is None) == (skills is None):
        raise typer.BadParameter("name either a JSON-lines file or a folder for --skills")
    with open_book(path) as book:
        if skills is not None:
            written = [str(file) for file in book.export_skills(skills, tenant=tenant)]
            for file in written:
                console.print(file, highlight=False)
            console.print(f"{len(written)} skills written to {skills}", highlight=False)
            write_json({"written": len(written), "files": written}, json_file)
        elif target is not None and full:
            count = book.history.export(target)
            console.print(f"{count} entries of the journal written to {target}", highlight=False)
            write_json({"written": count, "file": str(target)}, json_file)
        elif target is not None:
            count = book.export_jsonl(target, tenant=tenant)
            console.print(f"{count} bullets written to {target}", highlight=False)
            write_json({"written": count, "file": str(target)}, json_file)


@app.command("import", epilog="Example: ace playbook import new.db bullets.jsonl")
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
    """Add the bullets of a file under new ids, all or none; shadow and without counts, unless you trust them."""
    from ace.core import PlaybookError
    from ace.playbook import Playbook

    check_writable(json_file)
    if not file.exists():
        raise PlaybookError(f"there is no file {str(file)!r}")
    with Playbook.open(path) as book:
        if full:
            count = book.history.take_over(file)
            console.print(
                f"{count} entries and {len(book)} bullets in {path}; verified: {book.history.verify().ok}",
                highlight=False,
            )
            write_json({"entries": count, "bullets": len(book), "revision": book.revision}, json_file)
            return
        added = book.import_jsonl(file, author=author, trust=trust)
        console.print(f"{added} bullets added to {path}", highlight=False)
        write_json({"added": added, "revision": book.revision}, json_file)


@app.command("backup", epilog="Example: ace playbook backup pb.db pb-monday.db")
def backup(
    path: BookArgument,
    target: Annotated[Path, typer.Argument(help="A new file.")],
    json_file: JsonOption = None,
) -> None:
    """Copy a playbook into a new file, safely while others write to it; a server's is copied by pg_dump."""
    check_writable(json_file)
    with open_book(path) as book:
        book.back_up(target)
        console.print(f"{path} is copied to {target}", highlight=False, soft_wrap=True)
        write_json({"backup": str(target), "revision": book.revision}, json_file)
