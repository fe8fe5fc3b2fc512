"""How many tests of a folder pass, fail and are skipped."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_RAN = (0, 1)
"""Exit codes of pytest when tests ran: all passed, or some failed."""


def count(tests: str) -> dict[str, int]:
    """Run tests at their full count; skipped ones are told apart, and are `unshown` like those that fail.

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
