"""Which heavy packages ``import ace`` and ``ace --help`` load; there should be none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("dspy", "faiss", "torch", "sqlalchemy", "sentence_transformers", "sklearn", "scipy")
PROBE = """
import sys, io, contextlib
import ace
after_import = set(sys.modules)
sys.argv = ["ace", "--help"]
from ace.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit:
        pass
print(" ".join(name for name in {heavy!r} if name in sys.modules))
"""


def heavy_modules() -> list[str]:
    """The heavy packages that are loaded, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{heavy!r}", repr(HEAVY))], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


if __name__ == "__main__":
    found = heavy_modules()
    report = {"heavy_modules": len(found), "names": found}
    Path(sys.argv[1]).write_text(json.dumps(report), encoding="utf-8")
    print(report)
