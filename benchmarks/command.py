"""A measurement as a command: its parameters come from the command line, its report is shown, and written as JSON."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.pretty import pprint
from rich.table import Table

MOST_ROWS = 40
"""So many are shown of a table; the file has all."""
Out = Annotated[Path | None, typer.Argument(metavar="OUT.json", help="Also write the report to this file.")]


def command(measure: Callable[..., Mapping[str, Any]]) -> None:
    """Run a measurement as the command of its module.

    What has no default is an argument, what has one is an option. The last argument names the file of the report.
    """
    given = [p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(measure, eval_str=True).parameters.values()]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Out)

    def run(out: Path | None, **arguments: Any) -> None:
        report = measure(**arguments)
        show(report)
        if out is not None:
            out.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")

    wanted = [*(p for p in given if p.default is p.empty), out, *(p for p in given if p.default is not p.empty)]
    run.__signature__ = inspect.Signature(wanted)  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in wanted}
    run.__doc__ = sys.modules[measure.__module__].__doc__
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(run)
    app()


def show(report: Mapping[str, Any]) -> None:
    """Print a report: rows with columns as a table, what is left as it is."""
    left, simulated = dict(report), " (simulated)" if report.get("simulated") else ""
    for name, found in report.items():
        rows = found if isinstance(found, Mapping) else dict(enumerate(found)) if isinstance(found, list) else {}
        if rows and all(isinstance(row, Mapping) for row in rows.values()):
            columns = dict.fromkeys(column for row in rows.values() for column in row)
            table = Table("", *map(str, columns))
            for title, row in islice(rows.items(), MOST_ROWS):
                table.add_row(str(title), *(_cell(row.get(column, "")) for column in columns))
            Console().print(f"{name.replace('_', ' ')}{simulated}", table, sep="\n", markup=False)
            del left[name]
    pprint(left, max_length=MOST_ROWS, max_string=200)


def _cell(value: object) -> str:
    """Return what stands in a table for a value."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(found)}" for name, found in value.items())
    return ", ".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)
