"""Stores of runs."""

import pytest
from agent.kit import Script, call, spec

from ace.agent import (
    AgentRun,
    FolderRunStore,
    MemoryRunStore,
    drive,
)
from ace.core import (
    RunStoreError,
)


def test_a_store_that_cannot_write_keeps_what_was_there(tmp_path, monkeypatch):
    store = FolderRunStore(tmp_path)
    run = AgentRun(spec(), "r1")
    store.save(run.snapshot())

    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", broken)
    drive(run, Script(call("finish", answer="x")))
    with pytest.raises(OSError, match="disk full"):
        store.save(run.snapshot())
    assert store.load("r1").state.kind == "idle"
    assert store.run_ids() == ("r1",)
    assert not list(tmp_path.glob("*.tmp"))
    with pytest.raises(RunStoreError, match="no run 'r2'"):
        store.load("r2")


def test_the_store_in_memory_forgets_the_oldest():
    store = MemoryRunStore(size=2)
    for name in ("r1", "r2", "r3"):
        store.save(AgentRun(spec(), name).snapshot())
    with pytest.raises(RunStoreError):
        store.load("r1")
    assert store.load("r3").run_id == "r3"
    with store.claim("r3"):
        pass
