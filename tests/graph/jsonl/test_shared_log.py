"""A log that many append to: torn ends are cut off, damage is reported, an append is on the disk when it returns."""

import os
import threading

import pytest

from ace.core import AceError
from ace.graph.jsonl.shared_log import SharedJsonLog


def shared(path):
    found = []

    def take(line, offset, number, value):
        found.append(line)
        return b'"end"' in line

    return SharedJsonLog(path, take, found.clear), found


def append(log, *bodies):
    with log.opened(make=True) as file:
        log.append(file, bodies)


def test_a_shared_log_that_is_cut_at_any_byte_keeps_every_closed_append(tmp_path):
    path = tmp_path / "shared.jsonl"
    log, _ = shared(path)
    append(log, '{"a":1}', '{"k":"end"}')
    first = path.stat().st_size
    append(log, '{"a":2}', '{"k":"end"}')
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log, found = shared(path)
        with log.opened():
            pass
        kept = 4 if cut == len(whole) else 2 if cut >= first else 0
        assert path.stat().st_size == (len(whole) if kept == 4 else first if kept else 0), cut
        append(log, '{"a":3}', '{"k":"end"}')
        log, found = shared(path)
        with log.opened():
            assert len(found) == kept + 2


def test_a_shared_log_says_that_a_line_was_changed(tmp_path):
    path = tmp_path / "shared.jsonl"
    append(shared(path)[0], '{"a":1}', '{"k":"end"}')
    append(shared(path)[0], '{"a":2}', '{"k":"end"}')
    path.write_bytes(path.read_bytes().replace(b'"a":1', b'"a":7'))
    with pytest.raises(AceError, match="line 1 is not what was written"), shared(path)[0].opened():
        pass


def test_threads_that_append_to_one_file_mix_nothing(tmp_path):
    path = tmp_path / "shared.jsonl"

    def work(name):
        log, _ = shared(path)
        for number in range(20):
            append(log, f'{{"a":"{name}{number}"}}', '{"k":"end"}')

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log, found = shared(path)
    with log.opened():
        assert len(found) == 160


def test_an_append_is_on_the_disk_when_it_returns(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def counted(file):
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr("os.fsync", counted)
    log, _ = shared(tmp_path / "log.jsonl")
    append(log, '{"end":1}')
    assert synced == [(tmp_path / "log.jsonl").stat().st_ino, tmp_path.stat().st_ino]
