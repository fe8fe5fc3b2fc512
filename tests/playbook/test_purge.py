"""A purge: nothing of a text, a run or a tenant is left, and the journal verifies."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from learner.runs import run_of, step

from ace import Feedback, Learner, Playbook
from ace.core import PlaybookError
from ace.playbook import Add, PlaybookBullet, Tag, Update

SECRET = "Zbigniew Wróblewski"


def everything(book, folder):
    """Each byte that the book has written: its files, or the rows of its server."""
    if book._state.store.file is None:
        with book._state.store.engine.connect() as connection:
            tables = sa.inspect(connection).get_table_names()
            rows = [connection.execute(sa.text(f"select * from {name}")).all() for name in tables]
        return repr(rows).encode().lower()
    return b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()).lower()


def spelled(text):
    yield from (text.lower().encode(), json.dumps(text)[1:-1].lower().encode())
    yield from (text.lower().encode(code) for code in ("utf-16-le", "utf-16-be"))


@pytest.fixture
def opened(url, embedder):
    with Playbook(url, embedder=embedder, screen=None) as book:
        yield book


def fill(book):
    words = f"Call {SECRET} first, then refund."
    book.commit(
        [Add(bullet=PlaybookBullet(section="Pitfalls", trigger=f"Mail {SECRET}", content=words))], author=SECRET
    )
    book.commit([Add(bullet=PlaybookBullet(section="Pitfalls", content=SECRET.upper()))])
    book.commit([Add(bullet=PlaybookBullet(section="Pitfalls", content="Never guess an id."))], author="ana")
    book.commit([Update(bullet_id="b-1", changes={"tags": (SECRET,)}, reason=f"{SECRET} said so")])
    book.commit([Tag(bullet_id="b-3", helpful=1, run_id="r-9")])
    book.retrieve(f"Mail {SECRET}")
    book.index.save()


def test_a_text_is_nowhere_afterwards(opened, tmp_path):
    fill(opened)
    before = opened.get("b-3").model_dump_json()
    look = opened.purge(text=SECRET.lower(), dry_run=True)
    assert (look.changed, look.removed) == (("b-1",), ("b-2",))
    assert opened.get("b-1").content.startswith(f"Call {SECRET}")
    report = opened.purge(text=SECRET.lower(), author="dpo")
    assert (report.changed, report.removed) == (("b-1",), ("b-2",))
    assert set(report.words) == {"zbigniew", "wróblewski"}
    found = everything(opened, tmp_path)
    assert not [code for code in (*spelled(SECRET), *spelled("Wróblewski"), *spelled("Zbigniew")) if code in found]
    assert opened.history.verify().ok
    assert opened.get("b-1").content == "Call [purged] first, then refund."
    assert opened.get("b-3").model_dump_json() == before
    assert [e["what"] for e in opened.history.entries() if e["kind"] == "purge"] == ["text"]
    assert opened.retrieve("Never guess")  # the index is made again
    opened.index.save()
    assert SECRET.lower().encode() not in everything(opened, tmp_path)
    with pytest.raises(PlaybookError):
        opened.get("b-2")
    opened.history.rollback(2)
    assert SECRET.lower().encode() not in everything(opened, tmp_path)
    with opened.fork() as fork:
        assert not any(SECRET in bullet.model_dump_json() for bullet in fork.bullets)


def test_another_process_reads_the_book_again(tmp_path, embedder):
    path = tmp_path / "p.db"
    with Playbook.open(path, embedder=embedder, screen=None) as one, Playbook.open(path, embedder=embedder) as other:
        fill(one)
        other.refresh()
        assert SECRET in other.get("b-1").content
        one.purge(text=SECRET)
        other.refresh()
        assert other.bullets == one.bullets
        assert other.add(section="Pitfalls", content="more").id == "b-4"
        assert other.history.verify().ok


def test_a_run_goes_with_what_only_it_taught(opened):
    learner = Learner(opened)
    for run, order in (("r-1", "o-1"), ("r-2", "o-2")):
        output = run_of(
            step("refund", changes=True, order=order), text=f"Refund order {order}", run_id=run, task_id=run
        )
        learner.learn(output, Feedback(success=True))
    alone = run_of(step("cancel", changes=True, order="o-3"), text="Cancel order o-3", run_id="r-3", task_id="r-3")
    learner.learn(alone, Feedback(success=True))
    assert len(opened) == 2
    assert opened.purge(run_id="r-3").removed == ("b-2",)
    opened.purge(run_id="r-1")
    assert opened.get("b-1").provenance.run_ids == ("r-2",)
    assert opened.history.verify().ok
    assert not any("r-1" in json.dumps(entry) or "r-3" in json.dumps(entry) for entry in opened.history.entries())


def test_a_tenant_goes(opened):
    opened.add(section="Pitfalls", content="of one", tenant="one")
    opened.add(section="Pitfalls", content="of two", tenant="two")
    report = opened.purge(tenant="one")
    assert (report.removed, [bullet.id for bullet in opened.bullets]) == (("b-1",), ["b-2"])
    assert opened.history.verify().ok
    assert opened.add(section="Pitfalls", content="later").id == "b-3"


def test_queues_are_purged_unless_a_learner_holds_them(tmp_path, embedder):
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        learner = Learner(book, state=tmp_path / "runs.jsonl", judge=lambda output: 1 / 0)
        output = run_of(step("refund", changes=True, order="o-1"), text=f"Refund the order of {SECRET}")
        learner.observe(output)
        with pytest.raises(ZeroDivisionError):
            learner.flush()
        with pytest.raises(PlaybookError, match="close the learner"):
            book.purge(text=SECRET)
        learner.close()
        assert SECRET in json.dumps(
            json.loads((tmp_path / "runs.jsonl").read_text().splitlines()[0]), ensure_ascii=False
        )
        assert book.purge(text=SECRET).queue_lines == 1
        assert not [code for code in spelled(SECRET) if code in everything(book, tmp_path)]


def test_capitals_that_are_spelled_in_another_way_go_too(opened, tmp_path):
    opened.add(section="Pitfalls", content="Ask in LANGE STRASSE 5 first.")
    opened.purge(text="Lange Straße 5")
    assert opened.get("b-1").content == "Ask in [purged] first."
    assert b"LANGE STRASSE 5" not in everything(opened, tmp_path).upper()


def test_exactly_one_thing_is_purged(book):
    for wrong in ({}, {"text": " "}, {"text": "a", "run_id": "b"}):
        with pytest.raises(PlaybookError, match="exactly one"):
            book.purge(**wrong)
