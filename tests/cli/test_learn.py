"""`ace learn`."""

import contextlib
import sqlite3

from command import ace, interrupted, valid


def test_a_playbook_is_learned_listed_searched_and_moved(tmp_path):
    book = tmp_path / "p.db"
    ace("learn", "--from", "office", "--lm", "simulated", "--playbook", book, "--json", tmp_path / "l.json")
    report = valid(tmp_path / "l.json", "learn")
    assert report["label"] == "simulated"
    assert report["runs"] == 100
    assert "Strategies" in ace("playbook", "list", book, "--section", "Strategies")
    assert "b-1" in ace("playbook", "show", book, "b-1")
    assert "->" in ace("playbook", "search", book, "Archive the mail about the invoice")
    ace("playbook", "export", book, tmp_path / "b.jsonl")
    ace("playbook", "import", tmp_path / "q.db", tmp_path / "b.jsonl")
    assert f"{report['bullets']} lessons" in ace("playbook", "list", tmp_path / "q.db")
    ace(
        "evaluate", "office", "--lm", "simulated", "--arms", "none,playbook,random", "--playbook", book, "--limit", 8,
        "--part", "second", "--json", tmp_path / "e.json",
    )  # fmt: skip
    report = valid(tmp_path / "e.json", "evaluate")
    assert (report["label"], report["policy"], len(report["runs"])) == ("simulated", "forgiving", 24)


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    book = tmp_path / "p.db"

    def learned(_text):
        if not book.exists():
            return False
        with contextlib.closing(sqlite3.connect(book)) as connection:
            try:
                return connection.execute("select count(*) from bullets").fetchone()[0] > 5
            except sqlite3.OperationalError:
                return False

    interrupted(
        ["learn", "--from", "office", "--lm", "simulated", "--epochs", 50, "--playbook", book], tmp_path, learned
    )
    assert "lessons, revision" in ace("playbook", "list", book)
