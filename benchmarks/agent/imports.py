"""Which heavy packages ``import ace`` and ``ace --help`` load; there should be none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def loaded() -> tuple[int, list[str]]:
    """Count how many modules are loaded in a fresh process, and which heavy packages."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{heavy!r}", repr(HEAVY))], capture_output=True, text=True, check=True
    )
    total, *found = done.stdout.split()
    return int(total), found


if __name__ == "__main__":
    total, found = loaded()
    report = {"modules": total, "heavy_modules": len(found), "names": found}
    Path(sys.argv[1]).write_text(json.dumps(report), encoding="utf-8")
    print(report)
