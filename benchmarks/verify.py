"""Measures every claim of ``claims.toml`` and prints claimed beside measured: ``make verify``.

``ISSUE=first-light`` or ``ONLY=name`` (of a row or a figure) narrows it, ``FAST=1`` to what CI measures; ``JSON=file`` or
``--json file`` writes the figures. Benchmark data come from the folder that ``ACE_DATA`` names (``../shared/data`` by
default).

A row is red when one of its figures falls short, and as well when one could not be measured: the command ends with another
exit code than 0 or writes no JSON, the figure is missing or no finite number, or what it counts over (``of``) is empty. Exit
code 1 if a row is red, or ``claims.toml`` holds what is no claim.
"""

from __future__ import annotations

import json
import math
import operator
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Figure(BaseModel, extra="forbid"):
    """One figure of a row, and its bound."""

    name: str
    says: str
    at: str
    """Where it stands in the JSON: keys, with ``/`` between."""
    bound: str = Field(pattern=r"^(>=|<=|==|<|>) \d+(\.\d+)?$")
    unit: str
    of: str = ""
    """Where the JSON says how many were looked at; a count over nothing is no evidence."""
    fast: bool = False
    """Whether CI measures it."""


class Claim(BaseModel, extra="forbid"):
    """One row of ``claims.toml``: what one command measures for an issue; red when one of its figures is."""

    name: str
    issue: str
    command: str
    figures: list[Figure] = Field(min_length=1)

    def only(self, name: str, fast: bool) -> Claim | None:
        """Return the row with the figures that are asked for: by its own name, or by theirs."""
        chosen = [one for one in self.figures if name in ("", self.name, one.name) and (one.fast or not fast)]
        return self.model_copy(update={"figures": chosen}) if chosen else None


class Claims(BaseModel, extra="forbid"):
    """All of ``claims.toml``."""

    claim: list[Claim] = []

    @field_validator("claim")
    @classmethod
    def _named_once(cls, claims: list[Claim]) -> list[Claim]:
        rows, figures = ([c.name for c in claims], [one.name for c in claims for one in c.figures])
        twice = [name for name, count in (Counter(rows) | Counter(figures)).items() if count > 1]
        if twice:
            raise ValueError(f"more than one row or figure is named {', '.join(map(repr, twice))}")
        return claims


class VerifyRow(BaseModel):
    """One figure of ``make verify``."""

    name: str
    claim: str
    issue: str
    claimed: str
    measured: float | None
    unit: str
    ok: bool
    seconds: float
    problem: str = ""
    """Why there is no figure."""


class Unmeasured(Exception):
    """A figure that there is not, and why."""


ROOT = Path(__file__).resolve().parent.parent
COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "<": operator.lt, ">": operator.gt}
HOUR = 3_600


def figure(report: Any, path: str) -> float:
    """Follow a path into a JSON report.

    Raises:
        Unmeasured: Nothing stands there, or no finite number.
    """
    found = report
    try:
        for part in path.split("/"):
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (KeyError, IndexError, TypeError, ValueError):
        raise Unmeasured(f"no figure {path!r}") from None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise Unmeasured(f"no figure {path!r}: {found!r:.40} is no number")
    if not math.isfinite(found):
        raise Unmeasured(f"{path!r} is {found}")
    return float(found)


def report_of(command: str, folder: Path, data: Path) -> Any:
    """Run a command that writes JSON to ``{json}``, and read that.

    Raises:
        Unmeasured: It could not be run, failed, or wrote none.
    """
    target = folder / f"{abs(hash(command))}.json"
    try:
        words = shlex.split(command.format(json=target, data=data, tmp=folder))
        words[0] = str(Path(sys.executable).with_name(words[0]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Unmeasured(f"no command: {error!r}") from error
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=HOUR)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unmeasured(str(error)) from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Unmeasured(f"exit code {done.returncode}: {' '.join(last)}")
    try:
        return json.loads(target.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unmeasured(f"no JSON: {error}") from error


def measured(one: Figure, report: Any) -> float:
    """Read a figure out of what its command wrote.

    Raises:
        Unmeasured: There is none.
    """
    if isinstance(report, Unmeasured):
        raise report
    if one.of and figure(report, one.of) <= 0:
        raise Unmeasured(f"it counts over nothing: {one.of!r} is 0")
    return figure(report, one.at)


def rows_of(claims: list[Claim], data: Path, console: Console) -> list[VerifyRow]:
    """Measure each command once, and judge its figures."""
    reports: dict[str, tuple[Any, float]] = {}
    rows: list[VerifyRow] = []
    with tempfile.TemporaryDirectory() as folder:
        for claim in claims:
            if claim.command not in reports:
                console.print(f"measuring {claim.name} ...", style="dim")
                started = time.monotonic()
                try:
                    report = report_of(claim.command, Path(folder), data)
                except Unmeasured as error:
                    report = error
                reports[claim.command] = report, time.monotonic() - started
            rows += [judged(claim, one, *reports[claim.command]) for one in claim.figures]
    return rows


def judged(claim: Claim, one: Figure, report: Any, seconds: float) -> VerifyRow:
    """Judge a figure beside its bound."""
    row = VerifyRow(
        name=one.name,
        claim=claim.name,
        issue=claim.issue,
        claimed=one.bound,
        measured=None,
        unit=one.unit,
        ok=False,
        seconds=round(seconds, 1),
    )
    try:
        row.measured = measured(one, report)
        sign, bound = one.bound.split()
        row.ok = COMPARE[sign](row.measured, float(bound))
    except Unmeasured as error:
        row.problem = str(error)
    return row


def show(rows: list[VerifyRow], console: Console) -> None:
    """Show claimed beside measured."""
    table = Table(title="claimed beside measured", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("claim", "claimed", "measured", "unit", "", "s"):
        table.add_column(name, no_wrap=name in ("claim", ""), overflow="fold")
    for row in rows:
        shown = f"missing: {escape(row.problem)}" if row.measured is None else f"{row.measured:g}"
        mark = "[green]ok[/green]" if row.ok else "[red]SHORT[/red]"
        table.add_row(row.name, row.claimed, shown, row.unit, mark, f"{row.seconds:.0f}")
    console.print(table)
    red = {row.claim for row in rows if not row.ok}
    console.print(f"{len({row.claim for row in rows})} rows, {len(red)} of them red")


def main() -> int:
    """Measure, print, and say by the exit code whether all claims hold."""
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return 0
    console = Console()
    file = ROOT / "benchmarks" / "claims.toml"
    try:
        claims = Claims.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).claim
    except ValueError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 1
    issue, only, fast = (os.environ.get(name) for name in ("ISSUE", "ONLY", "FAST"))
    asked = [claim for claim in claims if issue in (None, "", claim.issue)]
    chosen = [some for claim in asked if (some := claim.only(only or "", bool(fast))) is not None]
    if not chosen:
        console.print(f"no claim with ISSUE={issue} ONLY={only} FAST={fast}; see benchmarks/claims.toml")
        return 1
    data = Path(os.environ.get("ACE_DATA", ROOT.parent / "shared" / "data")).resolve()
    rows = rows_of(chosen, data, console)
    show(rows, console)
    if target := os.environ.get("JSON") or (sys.argv[2] if sys.argv[1:2] == ["--json"] else None):
        Path(target).write_text(json.dumps([row.model_dump() for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
