"""Writers of one playbook, killed with SIGKILL at random moments: ``playbook_harness.py URL FOLDER KILLS SEED``.

Each writer commits three deltas at a time and notes each acknowledged revision. Prints a JSON report of what is there after.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from children import in_child
from toybook import opened

from ace.playbook import Add, PlaybookBullet, Tag

WRITERS = 4


def bullet(text: str) -> PlaybookBullet:
    return PlaybookBullet(section="Strategies", trigger=text, content="Do it.", tool_sequence=(text[-1],))


def write(url: str, folder: Path, name: str) -> None:
    """Commit until killed; a line per acknowledged commit."""
    notes = os.open(folder / f"{name}.acked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with opened(url) as book:
        for n in range(10**9):
            text = f"task {name} number {n}"
            revision = book.commit(
                [Add(bullet=bullet(text)), Add(bullet=bullet(f"{text} again")), Tag(bullet_id="b-1", helpful=1)]
            )
            os.write(notes, f"{text}\n".encode())
            if n % 7 == 3:
                book.retrieve(text)
            assert revision


def start(url: str, folder: Path, name: str) -> int:
    def work() -> None:
        try:
            write(url, folder, name)
        except Exception as error:
            (folder / f"{name}.error").write_text(f"{type(error).__name__}: {error}")

    return in_child(work)


def main() -> None:
    url, folder, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    dice = random.Random(seed)
    with opened(url) as book:
        book.commit([Add(bullet=bullet("first 0"))])
    running = [(start(url, folder, f"w{i}"), f"w{i}") for i in range(min(WRITERS, kills))]
    for n in range(kills):
        time.sleep(dice.uniform(0.0, 0.12))
        pid, _ = running.pop(dice.randrange(len(running)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if n + len(running) + 1 < kills:
            running.append((start(url, folder, f"w{n + WRITERS}"), f"w{n + WRITERS}"))
    with opened(url) as book:
        report = book.history.verify()
        sizes = {}
        for revision, _ in book.history.deltas():
            sizes[revision] = sizes.get(revision, 0) + 1
        there = {b.trigger for b in book.bullets}
        acked = [line for path in folder.glob("*.acked") for line in path.read_text().split("\n") if line]
        probe = sorted(there)[:: max(1, len(there) // 20)]
        found = [[b.id for b in book.retrieve(text)] for text in probe]
    with opened(url) as book:
        expected = [[b.id for b in book.retrieve(text)] for text in probe]
    print(
        json.dumps(
            {
                "problems": report.problems,
                "kills": kills,
                "acked": len(acked),
                "lost": [text for text in acked if text not in there or f"{text} again" not in there][:5],
                "half": [revision for revision, size in sizes.items() if revision > 1 and size != 3][:5],
                "gaps": sorted(sizes) != list(range(1, len(sizes) + 1)),
                "index_heals": found == expected,
                "errors": [path.read_text() for path in folder.glob("*.error")],
            }
        )
    )


if __name__ == "__main__":
    main()
