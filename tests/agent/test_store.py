"""Stores of runs."""

import subprocess
import sys

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


def test_two_processes_never_drive_one_run(tmp_path):
    store = FolderRunStore(tmp_path)
    code = f"""
import sys
from ace.agent import FolderRunStore
from ace.core import RunStoreError
try:
    with FolderRunStore({str(tmp_path)!r}).claim("r1"):
        print("got it")
except RunStoreError as error:
    print(error)
"""
    with store.claim("r1"):
        held = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    free = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "driven by another process" in held
    assert free == "got it\n"
