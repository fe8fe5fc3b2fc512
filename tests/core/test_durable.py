"""Files that survive their process: torn ends are cut off, damage is reported, replacements are whole."""

import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from ace import FolderRunStore, ReActGenerator
from ace.core import AceError
from ace.core.durable import JsonLog, claimed, digest, locked, same_job, write_atomic
from ace.testing import ScriptedLM, decision


def opened(path):
    found = []
    return JsonLog(path, found.append, lambda number, error: ValueError(f"line {number}")), found


def test_a_log_gives_back_what_was_appended(tmp_path):
    log, _ = opened(tmp_path / "log.jsonl")
    log.append('{"n": 1}')
    log.append('{"n": 2}')
    assert list(log.values()) == [{"n": 1}, {"n": 2}]
    log.replace(['{"n": 3}'])
    log.append('{"n": 4}')
    log.close()
    log.close()
    assert opened(tmp_path / "log.jsonl")[1] == [{"n": 3}, {"n": 4}]


def test_a_log_that_is_cut_at_any_byte_keeps_every_whole_line(tmp_path):
    path = tmp_path / "log.jsonl"
    log, _ = opened(path)
    lines = ['{"n": 1}', '{"text": "\u00e4"}', "[]"]
    for line in lines:
        log.append(line)
    log.close()
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log, found = opened(path)
        assert len(found) == sum(end <= cut for end in ends), cut
        log.append('"next"')  # it is not glued to a piece of what was torn
        log.close()
        assert opened(path)[1] == [*found, "next"]


def test_damage_before_the_end_is_an_error(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"n": 1}\n{"n": \n{"n": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        opened(path)


def test_a_full_disk_loses_the_line_that_did_not_fit_and_no_other(tmp_path):
    path = tmp_path / "lines.jsonl"
    log, _ = opened(path)
    log.append('"first"')
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            log.append('"second and long"')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    log.append('"third"')
    log.close()
    assert opened(path)[1] == ["first", "third"]


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomic(path, "old", power_cut=True, private=True)
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("ace.core.durable.os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"], "nothing is left beside it"


@pytest.fixture
def disk(monkeypatch):
    """The order in which files and folders were forced to the disk and put in place."""
    calls, paths, real = [], {}, {name: getattr(os, name) for name in ("open", "fsync", "replace")}

    def opened(path, *rest, **options):
        paths[file := real["open"](path, *rest, **options)] = Path(path).name
        return file

    def synced(file):
        calls.append(("fsync", paths[file]))
        real["fsync"](file)

    def replaced(source, target, **options):
        calls.append(("replace", Path(target).name))
        real["replace"](source, target, **options)

    for name, stand_in in (("open", opened), ("fsync", synced), ("replace", replaced)):
        monkeypatch.setattr(f"ace.core.durable.os.{name}", stand_in)
    return calls


def test_what_survives_a_power_cut_is_on_the_disk_before_and_after_it_is_put_in_place(tmp_path, disk):
    write_atomic(tmp_path / "a.json", "x")
    assert disk == [("replace", "a.json")]
    disk.clear()
    write_atomic(tmp_path / "a.json", "x", power_cut=True)
    assert disk == [("fsync", ".a.json.tmp"), ("replace", "a.json"), ("fsync", tmp_path.name)]
    disk.clear()
    store = FolderRunStore(tmp_path / "runs")
    agent = ReActGenerator(tools=[], lm=ScriptedLM([decision("finish", answer="4")]), run_store=store)
    agent.run("x", run_id="r")
    assert [name for name, _ in disk[-3:]] == ["fsync", "replace", "fsync"]


def test_links_are_followed_and_pipes_written_to(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_atomic(tmp_path / "link.json", "new")
    assert ((tmp_path / "link.json").is_symlink(), (tmp_path / "real.json").read_text()) == (True, "new")
    write_atomic(Path("/dev/null"), "nothing")
    assert not Path("/dev/null").is_file()
    for path in ("", ".", "/"):
        with pytest.raises(IsADirectoryError):
            write_atomic(Path(path), "x")


def test_what_a_killed_writer_left_is_used_again(tmp_path):
    (tmp_path / ".a.json.tmp").write_text("a longer text than the next one")
    write_atomic(tmp_path / "a.json", "short")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.json": "short"}
    texts = [str(n) * 5_000 for n in range(8)]
    threads = [
        threading.Thread(target=lambda t=t: [write_atomic(tmp_path / "a.json", t) for _ in range(30)]) for t in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() in texts


def test_a_log_is_closed_also_when_the_disk_fails(tmp_path, monkeypatch):
    log, _ = opened(tmp_path / "log.jsonl")
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("ace.core.durable.os.fsync", lambda _: (_ for _ in ()).throw(OSError(5, "EIO")))
    with pytest.raises(OSError, match="EIO"):
        log.close()
    log.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_a_lock_is_held_by_one_and_let_go_of(tmp_path):
    with (
        locked(tmp_path / "x.lock", "it is taken"),
        pytest.raises(AceError, match="it is taken"),
        locked(tmp_path / "x.lock", "it is taken"),
    ):
        pass
    with locked(tmp_path / "x.lock", "it is taken"):
        pass
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(AceError, match="cannot write to"), locked(tmp_path / "file" / "x.lock", "taken"):
        pass


def test_a_folder_belongs_to_one_job(tmp_path):
    with claimed(tmp_path / "job"):
        assert (tmp_path / "job").is_dir()
    path = tmp_path / "job" / "config.json"
    same_job(path, {"seeds": 1}, {"tasks": digest([1])})
    same_job(path, {"seeds": 1}, {"tasks": digest([1])})
    with pytest.raises(AceError, match="seeds was 1 and is 2; the tasks is another one"):
        same_job(path, {"seeds": 2}, {"tasks": digest([2])})
    path.write_text("{")
    with pytest.raises(AceError, match="damaged"):
        same_job(path, {"seeds": 1}, {})
