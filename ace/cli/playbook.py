"""`ace playbook`: look at a playbook and move it around."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ace.cli._shared import console

if TYPE_CHECKING:
    from ace.playbook import Playbook, PlaybookBullet

app = typer.Typer(
    help="Look at a playbook: list, show, search, export, import.",
    no_args_is_help=True,
    epilog="Example: ace playbook search pb.db 'Refund an order'",
)
FileArgument = Annotated[Path, typer.Argument(help="The playbook file.")]


def _open(path: Path) -> Playbook:
    from ace.core import PlaybookError
    from ace.playbook import Playbook

    if not path.exists():
        raise PlaybookError(f"there is no playbook {str(path)!r}; `ace learn` and `ace demo` make one")
    return Playbook.open(path)


def _table(title: str, bullets: list[PlaybookBullet]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    for name in ("id", "section", "domain", "stage", "+", "-", "when", "tools"):
        table.add_column(name, justify="right" if name in "+-" else "left")
    for b in bullets:
        counts = (str(b.helpful_count), str(b.harmful_count))
        when = (b.trigger or b.content)[:80]
        cells = (b.id, b.section, b.domain or "", b.stage, *counts, when, " -> ".join(b.tool_sequence) or "-")
        table.add_row(*(Text(cell) for cell in cells))
    return table


@app.command("list", epilog="Example: ace playbook list pb.db --section Strategies --limit 20")
def list_bullets(
    path: FileArgument,
    section: Annotated[str | None, typer.Option(help="Strategies, Pitfalls or Observations.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 50,
) -> None:
    """List the bullets in id order."""
    with _open(path) as book:
        bullets = [b for b in book.bullets if section is None or b.section == section]
        console.print(_table(f"{len(bullets)} bullets, revision {book.revision}", bullets[:limit]))
        if len(bullets) > limit:
            console.print(f"{len(bullets) - limit} more; raise --limit")


@app.command("show", epilog="Example: ace playbook show pb.db b-12")
def show(path: FileArgument, bullet_id: Annotated[str, typer.Argument(help="For example b-12.")]) -> None:
    """Show everything about one bullet."""
    with _open(path) as book:
        bullet = book.get(bullet_id)
        table = Table(show_header=False)
        for name, value in bullet.model_dump(mode="json").items():
            table.add_row(name, Text(str(value)))
        console.print(table)


@app.command("search", epilog="Example: ace playbook search pb.db 'Refund an order' -k 3")
def search(
    path: FileArgument,
    query: Annotated[str, typer.Argument(help="A task in words.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many at most.")] = 3,
    domain: Annotated[str | None, typer.Option(help="Only bullets of this domain, or of none.")] = None,
) -> None:
    """Find the bullets that an agent would be shown."""
    with _open(path) as book:
        console.print(_table(f"for {query!r}", book.retrieve(query, domain=domain, k=k)))


@app.command("export", epilog="Example: ace playbook export pb.db bullets.jsonl")
def export(path: FileArgument, target: Annotated[Path, typer.Argument(help="A JSON-lines file.")]) -> None:
    """Write every bullet as one JSON line, in a stable order."""
    with _open(path) as book:
        console.print(f"{book.export_jsonl(target)} bullets written to {target}", highlight=False)


@app.command("import", epilog="Example: ace playbook import new.db bullets.jsonl")
def import_bullets(path: FileArgument, file: Annotated[Path, typer.Argument(help="As `export` writes it.")]) -> None:
    """Add the bullets of a file under new ids, all or none."""
    from ace.core import PlaybookError
    from ace.playbook import Playbook

    if not file.exists():
        raise PlaybookError(f"there is no file {str(file)!r}")
    with Playbook.open(path) as book:
        console.print(f"{book.import_jsonl(file)} bullets added to {path}", highlight=False)
