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


def test_stores_of_one_folder_share_its_key_and_a_copied_file_is_refused_elsewhere(tmp_path):
    first, second, elsewhere = (FolderRunStore(tmp_path / name) for name in ("a", "a", "b"))
    first.save(AgentRun(spec(), "r1").snapshot())
    assert second.load("r1").run_id == "r1"
    assert (tmp_path / "a" / ".key").stat().st_mode & 0o777 == 0o600
    elsewhere.save(AgentRun(spec(), "r2").snapshot())
    (tmp_path / "b" / "r1.json").write_bytes((tmp_path / "a" / "r1.json").read_bytes())
    with pytest.raises(RunStoreError, match="its signature does not fit"):
        elsewhere.load("r1")
    assert sorted(elsewhere.run_ids()) == ["r1", "r2"]
