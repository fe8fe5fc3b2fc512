"""Coverage of `ace/core`, `ace/agent` and `ace/tools` by lines and branches, with the short form of their tests.

``python -m benchmarks.coverage_of OUT.json`` or ``make coverage``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ace/core", "ace/agent", "ace/tools")
SUITES = ("tests/agent", "tests/core", "tests/tools", "tests/laws", "tests/react", *PACKAGES)


def main() -> int:
    """Run, report, and write the figures when a file is named."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "data")}
        tool = [sys.executable, "-m", "coverage"]
        run = ["run", "--branch", f"--source={','.join(PACKAGES)}", "-m", "pytest", "-q", "-m", "not full", *SUITES]
        tests = subprocess.run([*tool, *run], cwd=ROOT, env=environment).returncode
        subprocess.run([*tool, "report", "--skip-covered", "--show-missing"], cwd=ROOT, env=environment)
        written = Path(folder) / "coverage.json"
        subprocess.run([*tool, "json", "-q", "-o", written], cwd=ROOT, env=environment, check=True)
        totals = json.loads(written.read_text(encoding="utf-8"))["totals"]
    report = {
        "percent": totals["percent_covered"],
        "lines_percent": 100 * totals["covered_lines"] / totals["num_statements"],
        "branches_percent": 100 * totals["covered_branches"] / totals["num_branches"],
        "tests_failed": tests != 0,
    }
    print(report)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return tests


if __name__ == "__main__":
    raise SystemExit(main())
