"""How many of some tests pass, with real parts that fail: ``python benchmarks/dropin_tests.py NAME OUT.json``.

``memory``: outages of a playbook's file, disk, server and embedder. ``first_hour``: mistakes that everybody makes once.
A name with a folder is one of other tests: ``serve/mcp_server``, ``playbook/skills``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from junit import count


def main() -> None:
    """Run, count, write."""
    folder, _, name = sys.argv[1].rpartition("/")
    report = count(f"tests/{folder or 'dropin'}/test_{name}.py")
    print(json.dumps(report))
    Path(sys.argv[2]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
