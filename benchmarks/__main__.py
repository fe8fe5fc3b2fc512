"""``python -m benchmarks verify | gate | sensitivity | evidence``, each with ``--help``."""

from __future__ import annotations

import sys
from importlib import import_module

VERBS = {
    "verify": "measure every claim and print claimed beside measured",
    "gate": "compare speed and memory with an earlier commit",
    "sensitivity": "break ten claims on purpose: each has to turn red",
    "evidence": "make the tables and the plot of docs/evidence.md",
}


def main() -> int:
    """Run a verb with the arguments after it."""
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb not in VERBS:
        print(__doc__, *(f"  {name:12} {what}" for name, what in VERBS.items()), sep="\n")
        return 0 if verb in ("", "-h", "--help") else 2
    sys.argv = [f"benchmarks {verb}", *sys.argv[2:]]
    return int(import_module(f"benchmarks.{verb}").main() or 0)


if __name__ == "__main__":
    sys.exit(main())
