"""Which heavy packages ``import ace`` and ``ace --help`` load; there should be none."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from benchmarks.command import command

HEAVY = ("dspy", "faiss", "onnxruntime", "torch", "sqlalchemy", "sentence_transformers", "sklearn", "scipy")
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
print(len(sys.modules), " ".join(name for name in {heavy!r} if name in sys.modules))
"""


def main() -> dict[str, Any]:
    """Count how many modules are loaded in a fresh process, and which heavy packages."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{heavy!r}", repr(HEAVY))], capture_output=True, text=True, check=True
    )
    total, *found = done.stdout.split()
    return {"modules": int(total), "heavy_modules": len(found), "names": found}


if __name__ == "__main__":
    command(main)
