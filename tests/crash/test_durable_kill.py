"""Everything that a killed process had written is there; a write that was cut off does no harm."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from ace.core.durable import JsonLog

FULL, SHORT = 100, 6
CHILD = """
import json, sys
from pathlib import Path
from ace.core.durable import JsonLog, write_atomic

folder, start = Path(sys.argv[1]), int(sys.argv[2])
log = JsonLog(folder / "log.jsonl", lambda value: None, lambda number, error: error)
n = start
while True:
    n += 1
    log.append(json.dumps({"n": n, "pad": "x" * (n % 5000)}))
    write_atomic(folder / "state.json", json.dumps({"n": n, "pad": "x" * (n % 5000)}), power_cut=n % 2 == 0)
    print(n, flush=True)
"""


def killed(folder, start, after):
    """Run until some time after its first acknowledgement; the last number that was acknowledged."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, folder, str(start)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    return int((first + rest).split()[-1] if (first + rest).endswith("\n") else (first + rest).split()[-2])


def examine(folder, kills):
    acknowledged, moments, dice = 0, set(), random.Random(0)
    for _ in range(kills):
        acknowledged = killed(folder, acknowledged, dice.random() * 0.05)
        found = []
        JsonLog(folder / "log.jsonl", found.append, lambda number, error: error).close()
        numbers = [value["n"] for value in found]
        assert numbers == sorted(set(numbers))
        assert acknowledged <= numbers[-1] <= acknowledged + 1
        state = json.loads((folder / "state.json").read_text())
        assert acknowledged <= state["n"] <= acknowledged + 1
        moments.add((numbers[-1] - acknowledged, state["n"] - acknowledged))
        acknowledged = max(numbers[-1], state["n"])
        assert {p.name for p in folder.iterdir()} <= {"log.jsonl", "state.json", ".state.json.tmp"}
        (folder / "log.jsonl").unlink()
    return moments


def test_killed_writers_lose_nothing(tmp_path):
    examine(tmp_path, SHORT)


@pytest.mark.full
def test_killed_writers_lose_nothing_at_full_count(tmp_path):
    assert len(examine(tmp_path, FULL)) >= 2, "they died at different moments"
