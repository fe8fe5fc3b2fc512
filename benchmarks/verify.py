"""Measures every claim of ``claims.toml`` and prints claimed beside measured: ``make verify``.

``ISSUE=first-light`` or ``ONLY=name`` narrows it; ``JSON=file`` (or ``--json file``) writes the rows. The benchmark data are
read from the folder that ``ACE_DATA`` names (``../shared/data`` by default). Exit code 1 if one claim falls short or cannot
be measured.
"""

from __future__ import annotations

import json
import operator
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table


class VerifyRow(BaseModel):
    """One row of ``make verify``."""

    name: str
    issue: str
    claimed: str
    measured: float | None
    unit: str
    ok: bool
    seconds: float


ROOT = Path(__file__).resolve().parent.parent
COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "<": operator.lt}


def figure(report: Any, path: str) -> float:
    """Follow a dotted path into a JSON report; ``seconds`` and the like may lie at the top."""
    for part in path.split("/"):
        report = report[int(part)] if isinstance(report, list) else report[part]
    return float(report)


def measure(command: str, folder: Path, data: Path) -> tuple[Any, float, str]:
    """Run a command that writes JSON to ``{json}``; the report, the seconds, and what went wrong."""
    target = folder / f"{abs(hash(command))}.json"
    filled = command.format(json=target, data=data, tmp=folder)
    words = shlex.split(filled)
    words[0] = str(Path(sys.executable).with_name(words[0]))
    started = time.monotonic()
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=3_600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, time.monotonic() - started, f"missing: {error}"
    seconds = time.monotonic() - started
    if not target.exists():
        return None, seconds, f"missing: {(done.stderr or done.stdout).strip().splitlines()[-1:]}"
    return json.loads(target.read_text(encoding="utf-8")), seconds, ""


def main() -> int:
    """Measure, print, and say by the exit code whether all claims hold."""
    console = Console()
    claims = tomllib.loads((ROOT / "benchmarks" / "claims.toml").read_text(encoding="utf-8"))["claim"]
    issue, only = os.environ.get("ISSUE"), os.environ.get("ONLY")
    chosen = [c for c in claims if issue in (None, "", c["issue"]) and only in (None, "", c["name"])]
    if not chosen:
        console.print(f"no claim with ISSUE={issue} ONLY={only}; see benchmarks/claims.toml")
        return 1
    data = Path(os.environ.get("ACE_DATA", ROOT.parent / "shared" / "data")).resolve()
    reports: dict[str, tuple[Any, float, str]] = {}
    rows: list[VerifyRow] = []
    with tempfile.TemporaryDirectory() as folder:
        for claim in chosen:
            command = claim["command"]
            if command not in reports:
                console.print(f"measuring {claim['name']} ...", style="dim")
                reports[command] = measure(command, Path(folder), data)
            report, seconds, problem = reports[command]
            measured: float | None = None
            if not problem:
                try:
                    measured = figure(report, claim["figure"])
                except (KeyError, IndexError, TypeError, ValueError):
                    problem = f"missing: no figure {claim['figure']!r}"
            sign, bound = claim["bound"].split()
            ok = measured is not None and COMPARE[sign](measured, float(bound))
            rows.append(
                VerifyRow(
                    name=claim["name"],
                    issue=claim["issue"],
                    claimed=claim["bound"] if not problem else f"{claim['bound']} ({problem})",
                    measured=measured,
                    unit=claim["unit"],
                    ok=ok,
                    seconds=round(seconds, 1),
                )
            )
    table = Table(title="claimed beside measured")
    for name in ("claim", "issue", "claimed", "measured", "unit", "", "s"):
        table.add_column(name, no_wrap=name == "claim")
    for row in rows:
        shown = "missing" if row.measured is None else f"{row.measured:g}"
        mark = "[green]ok[/green]" if row.ok else "[red]SHORT[/red]"
        table.add_row(row.name, row.issue, row.claimed, shown, row.unit, mark, f"{row.seconds:.0f}")
    console.print(table)
    if target := os.environ.get("JSON") or (sys.argv[2] if sys.argv[1:2] == ["--json"] else None):
        Path(target).write_text(json.dumps([row.model_dump() for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
