"""The full counts of laws, chaos and kills that an issue promises: ``python benchmarks/counts.py OUT.json [playbook]``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
    """Run each suite at its full count and write how many tests passed and failed."""
    report: dict[str, dict[str, int]] = {}
    for name, folder in PARTS[sys.argv[2] if len(sys.argv) > 2 else "run-time"].items():
        with tempfile.NamedTemporaryFile(suffix=".xml") as file:
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", folder, f"--junitxml={file.name}"], cwd=ROOT, stdout=sys.stderr
            )
            suite = next(ElementTree.parse(file.name).iter("testsuite"))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0)) + int(suite.get("skipped", 0))
        report[name] = {"failed": failed, "passed": int(suite.get("tests", 0)) - failed}
    print(report)
    Path(sys.argv[1]).write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
