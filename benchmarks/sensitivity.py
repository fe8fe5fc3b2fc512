"""Can a claim turn red? ``make verify-sensitivity`` breaks ten rows on purpose and expects each to be red.

Each break is made in a copy of the project: something that a row stands for is spoiled, or its measurement is. Before, the
same row has to be green there, or its red would show nothing. ``python -m benchmarks sensitivity [OUT.json] [NAME ...]``.
Exit code 1 if a broken row stays green, or one was red before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
LEFT = (".git", ".venv", ".*_cache", "__pycache__", "ace-demo", "ace-evaluations", ".hypothesis")


@dataclass(frozen=True)
class Break:
    """One spoiled place."""

    row: str
    what: str
    file: str
    """Where; removed when `old` is empty."""
    old: str = ""
    new: str = ""

    def spoil(self, project: Path) -> None:
        """Break a copy of the project."""
        place = project / self.file
        if not self.old:
            place.unlink()
            return
        text = place.read_text(encoding="utf-8")
        if self.old not in text:
            raise SystemExit(f"{self.row}: {self.file} has no {self.old!r} any more; mend benchmarks/sensitivity.toml")
        place.write_text(text.replace(self.old, self.new), encoding="utf-8")


BREAKS = tuple(
    Break(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["break"]
)


def measured(project: Path, row: str) -> dict[str, object]:
    """Measure one row of ``make verify``, in a copy of the project."""
    out = project / "row.json"
    out.unlink(missing_ok=True)
    environment = os.environ | {"ONLY": row, "JSON": str(out), "PYTHONPATH": str(project), "ISSUE": "", "FAST": ""}
    done = subprocess.run(
        [sys.executable, "benchmarks/verify.py"], cwd=project, env=environment, capture_output=True, text=True
    )
    if not out.exists():
        raise SystemExit(f"verify itself failed for {row!r}:\n{done.stdout}{done.stderr}")
    (found,) = json.loads(out.read_text(encoding="utf-8"))
    return {"ok": found["ok"], "exit": done.returncode, "measured": found["measured"], "problem": found["problem"]}


def main() -> int:
    """Break, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="", metavar="OUT.json", help="write what came out there too")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(one.row for one in BREAKS)}")
    given = parser.parse_args()
    target, names = given.target, given.names
    console, rows = Console(), list[dict[str, object]]()
    chosen = [one for one in BREAKS if not names or one.row in names]
    if unknown := set(names) - {one.row for one in BREAKS}:
        parser.error(f"no break for {', '.join(sorted(unknown))}; there are {', '.join(one.row for one in BREAKS)}")
    for one in track(chosen, "rows broken on purpose", console=Console(stderr=True)):
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder) / "project"
            shutil.copytree(ROOT, project, symlinks=True, ignore=shutil.ignore_patterns(*LEFT))
            before = measured(project, one.row)
            one.spoil(project)
            after = measured(project, one.row)
        good = before["ok"] and before["exit"] == 0 and not after["ok"] and after["exit"] == 1
        rows.append({"row": one.row, "what": one.what, "before": before, "after": after, "turned_red": bool(good)})
    table = Table("row", "broken on purpose", "before", "then", "", title="can a claim turn red?")
    for row in rows:
        before, after = row["before"], row["after"]
        shown = [str(side["problem"] or side["measured"]) for side in (before, after)]
        table.add_row(
            row["row"], row["what"], *shown, "[green]red[/green]" if row["turned_red"] else "[red]GREEN[/red]"
        )
    console.print(table)
    red = sum(bool(row["turned_red"]) for row in rows)
    console.print(f"{red} of {len(rows)} broken rows turned red")
    if target:
        Path(target).write_text(json.dumps({"broken": len(rows), "red": red, "rows": rows}, indent=1), encoding="utf-8")
    return 0 if red == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
