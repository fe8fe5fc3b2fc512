"""Engines, and what a busy file costs."""

import sqlite3
import threading
import time
from contextlib import closing

import pytest

from ace.core import PlaybookError
from ace.playbook import Playbook, database


def failing(times, error):
    calls = []

    def act():
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise error

    return act, calls


def test_a_locked_file_is_tried_again_until_it_is_free(monkeypatch):
    act, calls = failing(3, RuntimeError("database is locked"))
    database._patiently(act)
    assert len(calls) == 4
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    act, calls = failing(10_000, RuntimeError("database is locked"))
    with pytest.raises(RuntimeError, match="locked"):
        database._patiently(act)
    assert 1 < len(calls) < 100


def test_any_other_failure_is_told_at_once():
    act, calls = failing(1, RuntimeError("disk full"))
    with pytest.raises(RuntimeError, match="disk full"):
        database._patiently(act)
    assert len(calls) == 1


def test_a_writer_waits_for_others_that_come_and_go_and_not_for_one_that_stays(tmp_path, embedder, monkeypatch):
    """SQLite gives the turn to any of those who wait: beside busy writers one may wait long."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 1)
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        until, held = time.monotonic() + 3, threading.Event()

        def busy():
            with closing(sqlite3.connect(tmp_path / "b.db", timeout=30, isolation_level=None)) as other:
                while time.monotonic() < until:
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("INSERT INTO vectors VALUES ('x', ?, x'00')", (str(time.monotonic()),))
                    held.set()
                    time.sleep(0.3)
                    other.execute("COMMIT")

        writer = threading.Thread(target=busy)
        writer.start()
        held.wait()
        book.add(section="Pitfalls", content="a")
        writer.join()
        with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            started = time.monotonic()
            with pytest.raises(PlaybookError, match="locked"):
                book.add(section="Pitfalls", content="b")
            assert time.monotonic() - started < 3
