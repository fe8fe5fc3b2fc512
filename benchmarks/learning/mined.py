"""A playbook without any LM, from runs that real models recorded.

``python -m benchmarks.learning.mined WORKBENCH OUT.json``

The miner reads the recorded GPT-4, GPT-3.5 and Llama-2 runs of one half of each template's tasks; the other half is looked
up. A duplicate is a bullet of which trigger and content together have a neighbour in the same section, as in ``dedup.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ace.playbook import Playbook
from ace.playbook.duplicates.find import text_of
from benchmarks.command import command
from benchmarks.playbook.dedup import with_duplicate

RUNS = ("gpt-4_domains", "gpt-3.5_domains", "llama2-70b_domains")


def main(workbench: Path) -> dict[str, Any]:
    """Learn, look, and return the report."""
    with tempfile.TemporaryDirectory() as folder:
        book_file, report_file = Path(folder) / "book.db", Path(folder) / "learn.json"
        command = [sys.executable, "-m", "ace", "learn", "--from", f"workbench:{workbench}"]
        for run in RUNS:
            command += ["--runs", run]
        subprocess.run([*command, "--playbook", str(book_file), "--json", str(report_file)], check=True)
        report = json.loads(report_file.read_text(encoding="utf-8"))
        with Playbook.open(book_file) as book:
            bullets = book.bullets
            report["bullets"], report["pitfalls"] = (
                len(bullets),
                sum(bullet.section == "Pitfalls" for bullet in bullets),
            )
            report["sections"] = Counter(bullet.section for bullet in bullets)
            # a Strategy and a Pitfall for the same task are two lessons
            sections = [[text_of(b) for b in bullets if b.section == name] for name in report["sections"]]
            report["duplicates"] = sum(map(with_duplicate, sections)) / len(bullets)
            pitfalls = [bullet for bullet in bullets if bullet.section == "Pitfalls"]
            report["examples"] = [
                {
                    "pitfall": b.content,
                    "trigger": b.trigger,
                    "source": b.provenance.source,
                    "runs": b.provenance.run_ids[:3],
                }
                for b in sorted(pitfalls, key=lambda b: -len(b.provenance.run_ids))[:10]
            ]
            report["waiting"] = sum(bullet.stage == "quarantined" for bullet in bullets)
    return report


if __name__ == "__main__":
    command(main)
