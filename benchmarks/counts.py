"""The full counts of laws, chaos and kills that an issue promises: ``python benchmarks/counts.py OUT.json [playbook]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from junit import count

PARTS = {
    "run-time": {
        "laws": "tests/laws/test_run_laws.py",
        "chaos": "tests/chaos",
        "kill": "tests/crash/test_kill.py",
        "typing": "tests/typing",
    },
    "playbook": {
        "laws": "tests/laws/test_playbook_laws.py",
        "kill": "tests/crash/test_playbook_kill.py",
        "crowd": "tests/crash/test_playbook_crowd.py",
    },
    "learning": {
        "kill": "tests/crash/test_learner_kill.py",
        "jobs": "tests/optimization/test_job.py",
        "traces": "tests/learner/test_trace_formats.py",
    },
}


def main() -> None:
    """Run each suite at its full count and write how many tests passed and failed; one that is skipped shows nothing."""
    report: dict[str, dict[str, int]] = {}
    for name, folder in PARTS[sys.argv[2] if len(sys.argv) > 2 else "run-time"].items():
        found = count(folder)
        report[name] = {"failed": found["unshown"], "passed": found["passed"]}
    print(report)
    Path(sys.argv[1]).write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
