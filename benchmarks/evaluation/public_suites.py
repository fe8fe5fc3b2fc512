"""Are suites sound? Reference solutions are right, doing nothing is not.

``python -m benchmarks.evaluation.public_suites OUT.json``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.progress import track

from ace.suites import load_suite
from ace.suites.check import check_suite

SUITES = ("office", "bfcl", "bfcl:long_context", "bfcl:miss_param")


def main() -> None:
    """Check each, print, write."""
    found: dict[str, Any] = {}
    for name in track(SUITES, "suites"):
        report = check_suite(load_suite(name)).tasks
        idle = 100 * (report.empty_expected - report.empty_wrong) / report.empty_expected
        found[name] = {
            "tasks": report.n,
            "right": report.oracle_right,
            "idle_percent": idle,
            "problems": report.problems,
        }
        print(f"{name}: {report.oracle_right} of {report.n} right after their reference solution; {report.problems}")
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
