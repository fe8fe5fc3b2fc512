"""WorkBench's recorded GPT-4 against GPT-3.5.

``python -m benchmarks.agent.two_models WORKBENCH OUT.json [--html PAGE.html]``
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.agent.recorded import reference
from benchmarks.command import command

ACE = Path(sys.executable).with_name("ace")
RUNS = {"gpt-3.5": "gpt-3.5_domains", "gpt-4": "gpt-4_domains"}


def main(workbench: Path, html: Path | None = None) -> dict[str, Any]:
    """Evaluate, compare with what is published, and return the report."""
    arms = ",".join(f"{name}=recorded:{run}" for name, run in RUNS.items())
    with TemporaryDirectory() as folder:
        words = [ACE, "evaluate", f"workbench:{workbench.resolve()}", "--arms", arms, "--json", "out.json"]
        page = ["--html", html.resolve()] if html else []
        subprocess.run([*words, *page], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        report: dict[str, Any] = json.loads((Path(folder) / "out.json").read_text(encoding="utf-8"))
    published = reference(workbench)
    unequal = [
        (name, domain, row["correct"], published[run, domain])
        for name, run in RUNS.items()
        for domain, row in report["domains"][name].items()
        if row["correct"] != published[run, domain]
    ]
    success = next(row for row in report["comparisons"] if row["metric"] == "success")
    low, high = (100 * bound for bound in success["interval"])
    return {
        "correct": {name: sum(row["correct"] for row in report["domains"][name].values()) for name in RUNS},
        "domains": sum(len(report["domains"][name]) for name in RUNS),
        "unequal_domains": len(unequal),
        "arms": report["arms"],
        "gain": {"points": 100 * success["difference"], "low": low, "high": high, "p": success["p_corrected"]},
    }


if __name__ == "__main__":
    command(main)
