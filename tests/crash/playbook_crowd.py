"""One of many writers of a playbook: ``playbook_crowd.py URL FOLDER PROCESSES COMMITS``. Prints a JSON report."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from children import in_child
from toybook import opened

from ace.playbook import Add, PlaybookBullet, Update


def write(url: str, name: int, commits: int) -> None:
    """Each commit changes both bullets to the same words: a reader that sees two different ones saw a torn state."""
    with opened(url) as book:
        for n in range(commits):
            words = f"{name} {n}"
            book.commit(
                [
                    Update(bullet_id="b-1", changes={"content": words}),
                    Update(bullet_id="b-2", changes={"content": words}),
                ]
            )


def read(url: str, folder: Path, stop: Path) -> None:
    torn, last, looks = 0, 0, 0
    with opened(url) as book:
        while not stop.exists():
            with opened(url) as fresh:
                one, two = fresh.bullets[:2]
                torn += one.content != two.content
            book.refresh()
            torn += book.revision < last or book.bullets[0].content != book.bullets[1].content
            last, looks = book.revision, looks + 1
    (folder / "reader.json").write_text(json.dumps({"torn": torn, "looks": looks}))


def main() -> None:
    url, folder, processes, commits = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    stop = folder / "stop"
    with opened(url) as book:
        book.commit([Add(bullet=PlaybookBullet(section="Strategies", trigger=t, content="0")) for t in ("one", "two")])
    started = time.monotonic()
    reader = in_child(lambda: read(url, folder, stop))
    writers = [in_child(lambda n=n: write(url, n, commits)) for n in range(processes)]
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in writers)
    seconds = time.monotonic() - started
    stop.touch()
    failed += os.waitpid(reader, 0)[1] != 0
    # another process's commit is retrievable within a second
    with opened(url) as book:
        book.retrieve("warm up")
        pid = in_child(lambda: opened(url).add(section="Strategies", trigger="brand new 777", content="x"))
        os.waitpid(pid, 0)
        asked = time.monotonic()
        while not any(b.trigger == "brand new 777" for b in book.retrieve("brand new 777")):
            if time.monotonic() - asked > 5:
                break
            time.sleep(0.01)
        delay = time.monotonic() - asked
        revisions = sorted({revision for revision, _ in book.history.deltas()})
        report = book.history.verify()
    print(
        json.dumps(
            {
                "failed": failed,
                "commits": len(revisions) - 2,
                "gapless": revisions == list(range(1, len(revisions) + 1)),
                "problems": report.problems,
                "seen_after": delay,
                "seconds": seconds,
                **json.loads((folder / "reader.json").read_text()),
            }
        )
    )


if __name__ == "__main__":
    main()
