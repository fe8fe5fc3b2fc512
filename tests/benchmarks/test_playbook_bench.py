"""`benchmarks/playbook/bench.py`: sizes, copies, stores, and no file left over."""

import pytest
import sqlalchemy as sa

from ace.core import PlaybookError
from ace.playbook import CallableEmbedder, Playbook
from benchmarks.playbook.bench import bench_playbook, bullets, sentences, steps


def toy(texts):
    return [[float(len(text)), float(len(text.split())), 1.0] for text in texts]


EMBEDDER = CallableEmbedder("toy", toy)


def test_it_measures_a_book_of_the_size_that_is_asked_for():
    done = []
    report = bench_playbook(700, embedder=EMBEDDER, queries=8, on_step=lambda: done.append(1))
    assert len(done) == steps(700, 8, None)
    assert report.bullets == 700
    assert 0 < report.retrieval_cached.p50 < report.retrieval.p50 <= report.retrieval.p95 <= report.retrieval.p99
    assert report.commit.p50 > 0
    assert report.megabytes > 0


def test_a_copy_of_a_users_book_is_measured(tmp_path):
    with Playbook.open(tmp_path / "mine.db", embedder=EMBEDDER) as book:
        book.commit(bullets(sentences(20)))
        revision = book.revision
    assert bench_playbook(copy_of=tmp_path / "mine.db", embedder=EMBEDDER, queries=5).bullets == 20
    with Playbook.open(tmp_path / "mine.db", embedder=EMBEDDER) as book:
        assert (len(book), book.revision) == (20, revision)
    with pytest.raises(PlaybookError, match="there is no playbook"):
        bench_playbook(copy_of=tmp_path / "other.db", embedder=EMBEDDER)
    with pytest.raises(PlaybookError, match="either a playbook or a store"):
        bench_playbook(copy_of=tmp_path / "mine.db", store="postgresql://x", embedder=EMBEDDER)


def test_nothing_stays_on_a_server(postgres):
    report = bench_playbook(50, store=postgres, embedder=EMBEDDER, queries=5)
    assert (report.store, report.megabytes) == ("postgresql", None)
    engine = sa.create_engine(sa.make_url(postgres).set(drivername="postgresql+psycopg"))
    assert not [name for name in sa.inspect(engine).get_schema_names() if name.startswith("ace_bench")]
    engine.dispose()
