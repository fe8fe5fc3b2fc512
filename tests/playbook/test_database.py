"""Engines, and what a busy file costs."""

import time

import pytest

from ace.playbook import database


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
