"""All arms over `office`, whole, killed, and on Ray (simulated): ``python -m benchmarks.evaluation.office OUT.json``.

`ace evaluate office --arms none,playbook,online,gold,random,full-history --seeds 5` is run once from start to end; once more
in another folder, where it is killed at random moments and started again; and once with ``--engine ray --workers 2``. The
three reports are compared run by run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import command

ACE = Path(sys.executable).with_name("ace")
WORDS = [
    "evaluate",
    "office",
    "--lm",
    "simulated",
    "--arms",
    "none,playbook,online,gold,random,full-history",
    "--seeds",
    "5",
]


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the command in a folder."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([ACE, *WORDS, *more, "--json", "out.json"], cwd=folder, stdout=subprocess.DEVNULL)


def table(folder: Path) -> dict[str, Any]:
    """Read the report without what may differ: how long things took, and in which order runs ended."""
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    for row in (report, *report["arms"].values(), *report["runs"]):
        del row["seconds"]
    del report["folder"]
    report["runs"].sort(key=lambda row: (row["arm"], row["seed"], row["id"]))
    return report


def differing(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Count how many runs are not the same."""
    return sum(a != b for a, b in zip(one["runs"], other["runs"], strict=True))


def differing_parts(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Count how many other parts of the reports are not."""
    return sum(one[name] != other[name] for name in one if name != "runs")


def main(kills: int = 3) -> dict[str, Any]:
    """Run, kill, run on Ray, compare, and return the report."""
    with TemporaryDirectory() as folder:
        whole, killed, spread = (Path(folder) / name for name in ("whole", "killed", "spread"))
        begun = time.perf_counter()
        if start(whole).wait():
            sys.exit("the command failed")
        seconds, rng, done = time.perf_counter() - begun, random.Random(0), 0
        while done < kills:
            process = start(killed)
            try:
                process.wait(rng.uniform(0.1, 1.2) * seconds / kills)
                break  # it was faster than the kills
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                done += 1
        if not (killed / "out.json").exists() and start(killed).wait():
            sys.exit("the command failed after it had been killed")
        begun = time.perf_counter()
        if start(spread, "--engine", "ray", "--workers", "2").wait():
            sys.exit("the command failed on Ray")
        on_ray = time.perf_counter() - begun
        first, second, third = table(whole), table(killed), table(spread)
    return {
        "simulated": True,
        "minutes": seconds / 60,
        "minutes_on_ray": on_ray / 60,
        "kills": done,
        "runs": len(first["runs"]),
        "differing_runs": differing(first, second),
        "differing_parts": differing_parts(first, second),
        "differing_runs_on_ray": differing(first, third),
        "differing_parts_on_ray": differing_parts(first, third),
        "arms": first["arms"],
        "comparisons": first["comparisons"],
        "closed": first["closed"],
    }


if __name__ == "__main__":
    command(main)
