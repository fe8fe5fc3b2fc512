"""How fast the inspector finds a lesson among many: ``python -m benchmarks.serve.search OUT.json [--count 100000]``.

A book of real size is served by `ace serve` on loopback, and somebody types tasks in Chromium. Measured is the time from a
key press to the next painted frame that shows the list for what was typed. Texts are recombined from the package's own
words; their vectors are random around centres, because embedding 100,000 texts is not what is timed, and each search embeds
its words with the real model. A key comes every 300 ms, as from a quick typist; the first word is not counted.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook
from benchmarks.command import command
from benchmarks.playbook.bench import bullets, sentences
from benchmarks.serve.browser import chromium, reached, served

TYPED = 12
"""Searches that are typed."""
KEYS = 5
"""Keys of each that are measured."""
WATCH = """() => {
  window.painted = [];
  let pressed = 0, wanted = "";
  document.addEventListener("keydown", () => { pressed = performance.now(); }, true);
  document.addEventListener("input", (event) => { wanted = event.target.value; }, true);
  new MutationObserver(() => {
    const live = document.querySelector("#live");
    const asked = new URL(live.getAttribute("hx-get"), location).searchParams.get("q");
    if (asked !== wanted || !pressed) return;
    const began = pressed;
    pressed = 0;
    requestAnimationFrame(() => requestAnimationFrame(() => window.painted.push(performance.now() - began)));
  }).observe(document.querySelector("#main"), { childList: true, subtree: true });
}"""


def filled(path: Path, count: int) -> None:
    """Make a book of `count` lessons, with vectors under the real embedder's name."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((300, 384)).astype(np.float32)

    def vectors(texts: list[str]) -> np.ndarray:
        found = centres[random.integers(0, 300, len(texts))] + random.standard_normal((len(texts), 384)) * 0.6
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    with Playbook.open(path, embedder=CallableEmbedder(MiniLMEmbedder().name, vectors), screen=None) as book:
        book.commit(bullets(sentences(count)), author="benchmark")
        book.retrieve("warm")


def typed(page: Page, text: str) -> list[float]:
    """Measure milliseconds from each key press to its painted list."""
    page.fill("input[type=search]", text)
    page.wait_for_timeout(700)
    page.evaluate("window.painted.length = 0")
    for key in "abcdefghij"[:KEYS]:
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    page.wait_for_timeout(500)
    return page.evaluate("window.painted")


def main(count: int = 100_000) -> dict[str, Any]:
    """Build, serve, type, and return the report."""
    program = chromium()  # before minutes of work
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.db"
        filled(book, count)
        with served(book) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
            )
            page = browser.new_page()
            reached(page, address)
            page.goto(f"{address.partition('/login')[0]}/lessons")
            assert f"{count:,}".replace(",", "") in page.content(), "the whole book is served"
            page.evaluate(WATCH)
            typed(page, "a first word")
            took = [ms for text in sentences(TYPED, seed=7) for ms in typed(page, text)]
            browser.close()
    return {
        "lessons": count,
        "keys": TYPED * KEYS,
        "painted": len(took),
        "missed": TYPED * KEYS - len(took),
        "median_ms": statistics.median(took),
        "p95_ms": float(np.percentile(took, 95)),
    }


if __name__ == "__main__":
    command(main)
