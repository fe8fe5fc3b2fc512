"""All arms over `office`, whole and killed: ``python benchmarks/evaluate_office.py OUT.json [--kills 3]`` (simulated).

`ace evaluate office --arms none,playbook,online,gold,random,full-history --seeds 5` is run once from start to end, and once
more in another folder, where it is killed at random moments and started again; the two reports are compared run by run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The command in a folder."""
    return subprocess.Popen([ACE, *WORDS, "--json", "out.json"], cwd=folder, stdout=subprocess.DEVNULL)


def table(folder: Path) -> dict[str, Any]:
    """The report without what may differ: how long things took, and in which order runs ended."""
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    for row in (report, *report["arms"].values(), *report["runs"]):
        del row["seconds"]
    report["runs"].sort(key=lambda row: (row["arm"], row["seed"], row["id"]))
    return report


def main() -> None:
    """Run, kill, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        whole.mkdir()
        killed.mkdir()
        begun = time.perf_counter()
        if start(whole).wait():
            sys.exit("the command failed")
        seconds, luck, kills = time.perf_counter() - begun, random.Random(0), 0
        while kills < options.kills:
            process = start(killed)
            try:
                process.wait(luck.uniform(0.1, 1.2) * seconds / options.kills)
                break  # it was faster than the kills
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
        if not (killed / "out.json").exists() and start(killed).wait():
            sys.exit("the command failed after it had been killed")
        first, second = table(whole), table(killed)
    differing = sum(one != other for one, other in zip(first["runs"], second["runs"], strict=True))
    report = {
        "simulated": True,
        "minutes": seconds / 60,
        "kills": kills,
        "differing_runs": differing,
        "differing_parts": sum(first[name] != second[name] for name in first if name != "runs"),
        "arms": first["arms"],
        "comparisons": first["comparisons"],
        "closed": first["closed"],
    }
    for name, arm in first["arms"].items():
        print(f"{name}: {100 * arm['success']:.1f} % in {arm['iterations']:.2f} iterations (simulated)")
    print(f"{seconds / 60:.1f} minutes; killed {kills} times: {differing} of {len(first['runs'])} runs differ")
    options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
