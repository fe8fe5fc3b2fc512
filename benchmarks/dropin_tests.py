"""How many of some tests pass, with real parts that fail: ``python benchmarks/dropin_tests.py NAME OUT.json``.

``memory``: outages of a playbook's file, disk, server and embedder. ``first_hour``: mistakes that everybody makes once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run, count, write."""
    file = f"tests/dropin/test_{sys.argv[1]}.py"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", file]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        cases = [{child.tag for child in case} for case in ElementTree.parse(out).getroot().iter("testcase")]
    failed = sum(bool(tags & {"failure", "error"}) for tags in cases)
    skipped = sum("skipped" in tags for tags in cases)
    report = {"tests": len(cases), "passed": len(cases) - failed - skipped, "failed": failed, "skipped": skipped}
    print(json.dumps(report))
    Path(sys.argv[2]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
