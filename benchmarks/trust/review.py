"""Fifty held lessons at a keyboard: ``python -m benchmarks.trust.review OUT.json``.

Fifty runs that obeyed a planted instruction are learned from, so that their lessons wait. `ace playbook review` is started
in a terminal of its own, and for each lesson one key is pressed. Counted are the keys, and the lessons that were shown with
the words that held them back.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from ace.learner import Learner
from ace.playbook import CallableEmbedder, Playbook
from ace.playbook.results import ReviewItem
from benchmarks.command import command
from benchmarks.trust.worlds import planted

HELD = 50
EMBEDDER = CallableEmbedder("none", lambda texts: [[1.0]] * len(texts))


def held_lessons(path: Path) -> list[ReviewItem]:
    """Make a book in which fifty lessons wait."""
    with Playbook.open(path, embedder=EMBEDDER) as book:
        learner = Learner(book)
        for run in (run for run in planted() if run.followed):
            learner.learn_from_traces([run.messages], [True], read_only=run.reads)
            if len(book.review.pending()) >= HELD:
                break
        return list(islice(book.review.pending(), HELD))


def at_a_terminal(command: list[str]) -> tuple[str, int]:
    """Show a command that is answered with one key for each of its questions, and count the keys."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "COLUMNS": "500"})
    os.close(slave)
    shown, keys = "", 0
    while True:
        try:
            shown += os.read(master, 65_536).decode(errors="replace")
        except OSError:  # the command has ended
            break
        while shown.count("q quit") > keys:
            os.write(master, b"ar"[keys % 2 : keys % 2 + 1])
            keys += 1
    process.wait()
    return shown, keys


def main() -> dict[str, Any]:
    """Hold, decide, count, and return the report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.db"
        items = held_lessons(path)
        shown, keys = at_a_terminal([sys.executable, "-m", "ace", "playbook", "review", str(path)])
        plain = " ".join(shown.split())
        told = sum(" ".join(item.why.split()) in plain and "asked for" in item.why for item in items)
        with Playbook.open(path, embedder=EMBEDDER) as book:
            waiting = len(book.review.pending())
    return {"held": len(items), "commands": 1, "keys": keys, "shown_with_words": told, "waiting": waiting}


if __name__ == "__main__":
    command(main)
