"""Are suites sound? Reference solutions are right, doing nothing is not.

``python -m benchmarks.evaluation.public_suites OUT.json``
"""

from __future__ import annotations

from typing import Any

from rich.progress import track

from ace.suites import load_suite
from ace.suites.check import check_suite
from benchmarks.command import command

SUITES = ("office", "bfcl", "bfcl:long_context", "bfcl:miss_param")


def main() -> dict[str, Any]:
    """Check each, and return the report."""
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
    return found


if __name__ == "__main__":
    command(main)
