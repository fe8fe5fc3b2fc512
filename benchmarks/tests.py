"""How many of some tests pass at their full counts.

``python -m benchmarks.tests OUT.json laws=tests/laws chaos=tests/chaos``

A test that is skipped shows nothing: it is told apart, and is `unshown` like one that fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_RAN = (0, 1)
"""Exit codes of pytest when tests ran: all passed, or some failed."""


def count(tests: str) -> dict[str, int]:
    """Run tests at their full count.

    Raises:
        RuntimeError: None ran: there is no such file, it could not be collected, or pytest broke.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", tests]
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
        if done.returncode not in _RAN:
            raise RuntimeError(f"pytest {tests} ended with exit code {done.returncode}: no test was counted")
        cases = [{child.tag for child in case} for case in ElementTree.parse(out).getroot().iter("testcase")]
    failed, skipped = (sum(bool(tags & kinds) for tags in cases) for kinds in ({"failure", "error"}, {"skipped"}))
    passed = len(cases) - failed - skipped
    return {"tests": len(cases), "passed": passed, "failed": failed, "skipped": skipped, "unshown": failed + skipped}


def main() -> None:
    """Run each, print, write."""
    target, *parts = sys.argv[1:]
    report = {name: count(tests) for name, _, tests in (part.partition("=") for part in parts)}
    print(json.dumps(report))
    Path(target).write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
