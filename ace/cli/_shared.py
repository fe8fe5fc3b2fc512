"""What the commands share: options, output, progress."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text as RichText

from ace.core import SuiteError, visible, visible_json
from ace.core.text import counted as counted

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ace.evaluation.report.tables import Table


class Text(RichText):
    """Rich's text, of what a terminal may be sent: Rich itself lets escape sequences through, and drops other characters."""

    def __init__(self, text: str = "", *args: Any, **options: Any) -> None:
        super().__init__(visible(text), *args, **options)


class _VisibleConsole(Console):
    """Sends a terminal no escape sequence but its own: what is printed comes from models, tools, users and files."""

    def render_str(self, text: str, **options: Any) -> RichText:
        """Render as Rich does, with the text as a terminal may be sent it."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render as Rich does; whatever made the text, nothing in it acts on a terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


console = _VisibleConsole(markup=False, highlight=False)
"""No markup: what is printed comes from models, users and files, and may hold brackets. Only a style gives a colour."""


def check_writable(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Find out before the work, not after it, that a result cannot be written to the file that an option names."""
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.exists()
        path.open("a", encoding="utf-8").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise SuiteError(f"{param.opts[0]}: cannot write {str(path)!r} ({error.strerror}); name a file") from error
    return path


JsonOption = Annotated[
    Path | None,
    typer.Option("--json", callback=check_writable, help="Also write the result as JSON to this file."),
]
LmOption = Annotated[
    str,
    typer.Option(
        "--lm",
        envvar="ACE_LM",
        help="Any DSPy model name, simulated[:PRESET] (learner, oracle), or NAME:ARGUMENT of an installed package.",
    ),
]
JudgeOption = Annotated[
    str,
    typer.Option(
        envvar="ACE_JUDGE_LM", help="The model that judges, where a suite's tasks have criteria; not the agent's own."
    ),
]
SplitOption = Annotated[
    str,
    typer.Option(
        help="How to split the tasks: halves (of each family), own (as the tasks define), or random, family or time, with a "
        "share as in family:0.7. By default own where tasks define it, else halves, or random "
        "where every task is a family of its own."
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(help="MODULE:NAME of a tool or a list of tools; repeat for more. Built-ins by default."),
]
CorpusOption = Annotated[Path | None, typer.Option(help="A folder of texts that the agent may search.")]
BookOption = Annotated[
    str | None,
    typer.Option("--playbook", envvar="ACE_PLAYBOOK", help="The playbook: a file, or postgresql://USER@HOST/DB."),
]
DomainOption = Annotated[str | None, typer.Option(help="Only lessons of this domain, or of none.")]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache", help="Let DSPy's cache on this machine answer what was asked before; never done by default."
    ),
]
ApiBaseOption = Annotated[
    str | None, typer.Option("--api-base", envvar="ACE_API_BASE", help="Base URL of an OpenAI-compatible server.")
]


def examples(*commands: str) -> str:
    """Write what stands below a command's options: commands to copy, each on a line of its own."""
    return "\n\n".join(["Example:" if len(commands) == 1 else "Examples:", *commands])


def write_json(report: BaseModel | dict[str, Any] | list[Any], path: Path | None) -> None:
    """Write a report, if a file was asked for."""
    if path is None:
        return
    from ace.core.durable import write_atomic

    text = json.dumps(to_jsonable_python(report), indent=1, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, visible_json(text) + "\n")
    except OSError as error:
        raise SuiteError(f"cannot write {str(path)!r}: {error.strerror}") from error
    console.print(f"JSON: {path}")


def check_reachable(
    models: Iterable[str], api_base: str | None, playbook: str | None = None, *, made: bool = False
) -> None:
    """Find out in a moment, before anything heavy is imported, that a model or a playbook cannot be used.

    Args:
        models: Names of models.
        api_base: Of `--api-base`.
        playbook: A file or a URL.
        made: Whether a playbook that is not there would be made.
    """
    from ace.evaluation.reach import check_model

    for spec in models:
        check_model(spec, api_base)
    if playbook:
        from ace.playbook.store import check_usable

        check_usable(playbook, made=made)


@contextmanager
def progress_bar(title: str, total: int) -> Generator[Any]:
    """Show a bar with the time left; the value is called with an optional description to advance it by one."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total)

        def advance(description: str | None = None) -> None:
            progress.update(task, advance=1, description=description or title)

        yield advance


def shown(table: Table, label: str = "") -> RichTable:
    """Return a report's table for the terminal."""
    found = RichTable(title=f"{table.title}{f' ({label})' if label else ''}", title_justify="left")
    for place, name in enumerate(table.head):
        found.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in table.rows:
        found.add_row(*row)
    return found
