"""The command `ace`, as a user calls it."""

import os
import subprocess
import sys
from pathlib import Path

ACE = str(Path(sys.executable).with_name("ace"))


def ace(*words, cwd=None, code=0, **environment):
    """What it printed; it must end with this code, and show no traceback."""
    done = subprocess.run(
        [ACE, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr
