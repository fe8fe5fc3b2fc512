"""WorkBench's recorded GPT-4 against GPT-3.5.

``python -m benchmarks.agent.two_models WORKBENCH OUT.json [--html PAGE.html]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from benchmarks.agent.recorded import reference

ACE = Path(sys.executable).with_name("ace")
RUNS = {"gpt-3.5": "gpt-3.5_domains", "gpt-4": "gpt-4_domains"}


def main() -> None:
    """Evaluate, compare with what is published, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workbench", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--html", type=Path)
    options = parser.parse_args()
    arms = ",".join(f"{name}=recorded:{run}" for name, run in RUNS.items())
    with TemporaryDirectory() as folder:
        words = [ACE, "evaluate", f"workbench:{options.workbench.resolve()}", "--arms", arms, "--json", "out.json"]
        page = ["--html", options.html.resolve()] if options.html else []
        subprocess.run([*words, *page], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        report: dict[str, Any] = json.loads((Path(folder) / "out.json").read_text(encoding="utf-8"))
    published = reference(options.workbench)
    unequal = [
        (name, domain, row["correct"], published[run, domain])
        for name, run in RUNS.items()
        for domain, row in report["domains"][name].items()
        if row["correct"] != published[run, domain]
    ]
    success = next(row for row in report["comparisons"] if row["metric"] == "success")
    low, high = (100 * bound for bound in success["interval"])
    found = {
        "correct": {name: sum(row["correct"] for row in report["domains"][name].values()) for name in RUNS},
        "domains": sum(len(report["domains"][name]) for name in RUNS),
        "unequal_domains": len(unequal),
        "arms": report["arms"],
        "gain": {"points": 100 * success["difference"], "low": low, "high": high, "p": success["p_corrected"]},
    }
    for name, arm in report["arms"].items():
        span = " - ".join(f"{100 * bound:.1f}" for bound in arm["success_interval"])
        print(f"{name}: {found['correct'][name]} of {arm['n']}, {100 * arm['success']:.2f} % [{span}]")
    print(f"gpt-4 gains {found['gain']['points']:.1f} points [{low:.1f}, {high:.1f}] over gpt-3.5")
    Console().print("domains that differ from what is published:", unequal)
    options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
