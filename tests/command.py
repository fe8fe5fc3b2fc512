"""The command `ace`, as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
from conftest import ROOT

ACE = str(Path(sys.executable).with_name("ace"))


def ace(*words, cwd=None, code=0, typed=None, **environment):
    """What it printed after what was typed; it must end with this code, and show no traceback."""
    done = subprocess.run(
        [ACE, *map(str, words)],
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def valid(path, schema):
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    jsonschema.validate(report, json.loads((ROOT / "contracts" / f"{schema}.schema.json").read_text(encoding="utf-8")))
    return report


def heed_ctrl_c():
    """A shell's background jobs ignore Ctrl-C, and so would their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(words, cwd, ready):
    """Start a command, send Ctrl-C as soon as `ready(what it printed)` holds, and wait for its end."""
    log = cwd / "log.txt"
    with log.open("w") as file:
        process = subprocess.Popen(
            [ACE, *map(str, words)],
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200"},
            preexec_fn=heed_ctrl_c,
        )
        try:
            deadline = time.monotonic() + 120
            while not ready(log.read_text()) and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith("interrupted; everything committed so far is kept\n")
