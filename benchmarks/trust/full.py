"""What do a full disk and a kill do to a purge and to a commit? ``python -m benchmarks.trust.full OUT.json [--kills 100]``.

A book, its learner's queue and a store of runs lie on a disk of their own, a `tmpfs`, that has room for so and so many more
pages of 4 KiB: none, one, two, until the work is done. Each time the text is purged, or a lesson is added. It has to end
well, or in one sentence of ours; the book verifies afterwards, and with room again the same is done and nothing is left.
Then processes that purge are killed (SIGKILL) at random moments. Needs the right to mount.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.playbook.history import verify_file
from benchmarks.command import command
from benchmarks.playbook.purge import fill, left, spelled

TEXT, PAGE, MOST = "Ana Miller", 4_096, 400


@contextmanager
def disk() -> Iterator[Path]:
    """Make an empty disk of 4 MiB."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=False)


def all_but(place: Path, pages: int) -> Path:
    """Fill the disk up to so many pages."""
    stuffing = place / "stuffing"
    with stuffing.open("wb", buffering=0) as file:
        file.write(b"x" * max(0, shutil.disk_usage(place).free - pages * PAGE))
    return stuffing


def tried(place: Path, model: Path, pages: int, work: Callable[[Playbook], object], count: Counter[str]) -> bool:
    """Do the work with room for so many pages; whether it could be done."""
    shutil.copytree(model, place / "books", dirs_exist_ok=True)
    path = place / "books" / "book.db"
    stuffing, done = all_but(place, pages), False
    try:
        with Playbook(path, screen=None) as book:
            work(book)
        done = True
    except PlaybookError as error:
        count["told" if "\n" not in str(error) else "raw"] += 1
    except Exception as error:  # whatever else comes out is what is looked for
        count["raw"] += 1
        Console(stderr=True).print(f"{pages} pages: {type(error).__name__}: {error}")
    stuffing.unlink()
    count["unverified"] += not verify_file(path).ok
    count["tries"] += 1
    return done


WORKS: dict[str, Callable[[Playbook], object]] = {
    "purge": lambda book: book.purge(text=TEXT),
    "add": lambda book: book.add(section="Pitfalls", content=f"Never mix {'these ' * 200}up."),
}
PURGE = "import sys; from ace.playbook import Playbook; Playbook(sys.argv[1], screen=None).purge(text=sys.argv[2])"


def killed(books: Path, model: Path, kills: int, count: Counter[str]) -> None:
    """Kill processes in the midst of a purge; it is begun anew, and nothing is left."""
    draw, path = random.Random(7), books / "book.db"
    for _ in range(kills):
        shutil.copytree(model, books)
        whole = path.read_bytes()
        child = subprocess.Popen([sys.executable, "-c", PURGE, str(path), TEXT])
        while child.poll() is None and path.read_bytes() == whole and not Path(f"{path}-wal").exists():
            time.sleep(0.001)  # it has not begun
        time.sleep(draw.uniform(0.0, 0.15))
        count["killed"] += child.poll() is None
        child.kill()
        child.wait()
        count["unverified"] += not verify_file(path).ok
        again(books, count)


def again(books: Path, count: Counter[str]) -> None:
    """Purge with room for all, and look for what is left."""
    with Playbook(books / "book.db", screen=None) as book:
        book.purge(text=TEXT)
        purged = book.purge(text=TEXT, dry_run=True)
    rest = left(books, "", None)
    count["left"] += any(code in rest for code in spelled(TEXT)) or purged.entries > 0
    shutil.rmtree(books)


def main(kills: int = 100) -> dict[str, Any]:
    """Fill, work, look, and return the report."""
    count = Counter[str]()
    with tempfile.TemporaryDirectory() as name, disk() as place:
        model = Path(name) / "books"
        books = place / "books"  # the book knows where its queue lies
        books.mkdir()
        with Playbook(books / "book.db", screen=None) as book:
            fill(book, books, TEXT, random.Random(7))
        shutil.move(books, model)
        for work, does in WORKS.items():
            for pages in range(MOST):
                done = tried(place, model, pages, does, count)
                again(books, count)
                if done:
                    count[f"pages for {work}"] = pages
                    break
        killed(books, model, kills, count)
    failed = count["raw"] + count["unverified"] + count["left"]
    return {"raw": 0, "unverified": 0, "left": 0, **count, "failed": failed}


if __name__ == "__main__":
    command(main)
