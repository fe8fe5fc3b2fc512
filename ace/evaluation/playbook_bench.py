"""`ace bench playbook`: what retrieval and commits take on this machine, with a playbook of the size that is asked about."""

from __future__ import annotations

import math
import random
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ace.core import PlaybookError
from ace.evaluation.reports import BenchPlaybookReport, Milliseconds
from ace.playbook import Add, Embedder, MiniLMEmbedder, Playbook, PlaybookBullet, labelled_pairs
from ace.playbook.engine import drop_schema, schema_url

BATCH = 500
WARM = 5
COMMITS = 30


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct texts: halves of lessons that people wrote, put together anew."""
    halves = [part for pair in labelled_pairs() for text in (pair.a, pair.b) for part in _halves(text)]
    dice, made = random.Random(seed), dict[str, None]()
    while len(made) < count:
        made[f"{dice.choice(halves)} {dice.choice(halves)} ({len(made)})"] = None
    return list(made)


def _halves(text: str) -> tuple[str, str]:
    words = text.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def bullets(texts: Sequence[str]) -> list[Add]:
    """A Strategy for each text; 60 sequences of tools."""
    return [
        Add(
            bullet=PlaybookBullet(
                section="Strategies",
                trigger=text,
                content="Do it with care.",
                tool_sequence=("look", f"tool{n % 60}"),
                changing_tools=(f"tool{n % 60}",),
                tool_schema_hashes={"look": "a", f"tool{n % 60}": "b"},
            )
        )
        for n, text in enumerate(texts)
    ]


def bench_playbook(
    count: int = 10_000,
    *,
    copy_of: Path | None = None,
    store: str = "",
    embedder: Embedder | None = None,
    queries: int = 100,
    on_step: Callable[[], None] = lambda: None,
) -> BenchPlaybookReport:
    """Fill a playbook, and time what a user waits for.

    Args:
        count: So many made-up bullets.
        copy_of: A playbook file to measure a copy of, in place of made-up bullets; it is not touched.
        store: A PostgreSQL server, in place of a file; the schema that is made there is dropped in the end.
        embedder: MiniLM by default.
        queries: How many retrievals are timed.
        on_step: Called after each batch, retrieval and commit: `steps` times.

    Raises:
        PlaybookError: There is no such playbook, or the store cannot be reached.
    """
    embedder = embedder or MiniLMEmbedder()
    if copy_of is not None and store:
        raise PlaybookError("a copy of a playbook is measured in a file; pass either a playbook or a store")
    schema = f"ace_bench_{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        if copy_of is not None:
            _copied(copy_of, folder / "bench.db")
        if store:
            stack.callback(drop_schema, store, schema)
        url = schema_url(store, schema) if store else str(folder / "bench.db")
        with Playbook.open(url, embedder=embedder) as book:
            begun = time.perf_counter()
            if copy_of is None:
                texts = sentences(count)
                for start in range(0, count, BATCH):
                    book.commit(bullets(texts[start : start + BATCH]))
                    on_step()
            else:
                book.wait_until_indexed()
            loaded = time.perf_counter() - begun
            asked = _queries(book, queries + WARM, made_up=copy_of is None)
            embedding, cold, cached = _retrievals(book, embedder, asked, on_step)
            commits = [_timed(lambda a=add: book.commit([a])) for add in _commits(on_step)]
            size = len(book) - COMMITS
        opened = _timed(lambda: stack.enter_context(Playbook.open(url, embedder=embedder)))
        disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    return BenchPlaybookReport(
        bullets=size,
        embedder=embedder.name,
        store="postgresql" if store else "sqlite",
        load_seconds=loaded,
        open_ms=opened,
        embedding=summary(embedding),
        retrieval=summary(cold),
        retrieval_cached=summary(cached),
        commit=summary(commits),
        megabytes=None if store else disk,
    )


def steps(count: int, queries: int, copy_of: Path | None) -> int:
    """How often `bench_playbook` calls `on_step`."""
    return (0 if copy_of is not None else math.ceil(count / BATCH)) + queries + COMMITS


def _queries(book: Playbook, count: int, made_up: bool) -> list[str]:
    if made_up:
        return sentences(count, seed=1)
    known = [bullet.trigger or bullet.content for bullet in book.bullets]
    if not known:
        raise PlaybookError("the playbook is empty; there is nothing to retrieve")
    return [f"{random.Random(number).choice(known)} ({number})" for number in range(count)]


def _retrievals(
    book: Playbook, embedder: Embedder, asked: Sequence[str], on_step: Callable[[], None]
) -> tuple[list[float], list[float], list[float]]:
    """Each query once: embedded, for the first time, and again; a few before do not count."""
    embedding, cold, cached = list[float](), list[float](), list[float]()
    for number, query in enumerate(asked):
        bare = _timed(lambda q=query: embedder.embed([f"{q}?"]))
        first = _timed(lambda q=query: book.retrieve(q))
        again = _timed(lambda q=query: book.retrieve(q))
        if number >= WARM:
            embedding.append(bare)
            cold.append(first)
            cached.append(again)
            on_step()
    return embedding, cold, cached


def _commits(on_step: Callable[[], None]) -> Any:
    for add in bullets(sentences(COMMITS, seed=2)):
        yield add
        on_step()


def _copied(source: Path, target: Path) -> None:
    if not source.exists():
        raise PlaybookError(f"there is no playbook {str(source)!r}; `ace learn` makes one")
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    index = Path(f"{source}.index")
    if index.is_dir():
        shutil.copytree(index, f"{target}.index")


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - started)


def summary(values: Sequence[float]) -> Milliseconds:
    """Median and tail.

    Example:
        >>> summary([1.0, 2.0, 3.0]).p50
        2.0
    """
    import numpy as np

    p50, p95, p99 = (float(q) for q in np.quantile(list(values), [0.5, 0.95, 0.99]))
    return Milliseconds(p50=p50, p95=p95, p99=p99)
