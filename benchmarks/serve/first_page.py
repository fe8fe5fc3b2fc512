"""How fast the inspector's first page comes: ``python -m benchmarks.serve.first_page OUT.json``.

A book of 10,000 lessons that has heard the verdicts on 50,000 runs is served by `ace serve` on loopback, and Chromium loads
its first page. Measured is the time from the request to the paint of what it holds, of the first visit and of 20 later ones.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ace.playbook import Playbook
from ace.playbook.delta import Learned
from benchmarks.command import command
from benchmarks.serve.browser import chromium, reached, served
from benchmarks.serve.search import filled

LESSONS, RUNS, VISITS, COMMIT = 10_000, 50_000, 20, 1_000
PAINTED = (
    """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""
)


def heard(path: Path) -> None:
    """Let the book hear of runs, a thousand in a commit."""
    with Playbook.open(path) as book:
        for start in range(0, RUNS, COMMIT):
            runs = range(start, start + COMMIT)
            book.commit(Learned(run_id=f"r-{n}", task_id=f"t-{n % 500}", success=n % 3 > 0) for n in runs)


def main() -> dict[str, Any]:
    """Build, serve, look, and return the report."""
    program = chromium()
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.db"
        filled(book, LESSONS)
        heard(book)
        with served(book) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page()
            reached(page, address)  # shows the token; the page itself is not timed yet
            took: list[float] = []
            for _ in range(VISITS + 1):
                page.goto(address.partition("/login")[0])
                took.append(page.evaluate(PAINTED))
            assert f"of {RUNS} right" in page.content(), "the page tells of all runs"
            browser.close()
    return {
        "lessons": LESSONS,
        "runs": RUNS,
        "first_ms": took[0],
        "median_ms": statistics.median(took[1:]),
        "most_ms": max(took),
    }


if __name__ == "__main__":
    command(main)
