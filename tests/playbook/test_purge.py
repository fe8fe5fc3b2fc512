"""A purge: nothing of a text, a run or a tenant is left, and the journal verifies."""

import json
import re
import resource
from pathlib import Path

import pytest
import sqlalchemy as sa
from learner.runs import run_of, step
from playbook_kit import filled

from ace import Feedback, Learner, Playbook, ReActGenerator
from ace.agent import FolderRunStore
from ace.agent.record import RunSnapshot
from ace.core import PlaybookError
from ace.learner.waiting import ObservedRun, WaitingRuns
from ace.playbook import Add, Merge, PlaybookBullet, Remove, Tag, Update
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Constant, Plan, Situation
from ace.tasks import TaskInput
from ace.testing import ScriptedLM

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
        learner = Learner(book, state=tmp_path / "runs", judge=lambda output: 1 / 0)
        output = run_of(step("refund", changes=True, order="o-1"), text=f"Refund the order of {SECRET}")
        learner.observe(output)
        with pytest.raises(ZeroDivisionError):
            learner.flush()
        with pytest.raises(PlaybookError, match="close the learner"):
            book.purge(text=SECRET)
        learner.close()
        (file,) = (tmp_path / "runs").glob("*.json")
        assert SECRET in json.dumps(json.loads(file.read_text()), ensure_ascii=False)
        assert book.purge(text=SECRET).runs == 1
        assert not file.exists()
        assert not [code for code in spelled(SECRET) if code in everything(book, tmp_path)]


def test_a_run_that_joined_others_takes_its_wording_and_its_task_with_it(opened):
    learner = Learner(opened)
    asked = {
        "r-1": "Refund order o-1 of the customer at once",
        "r-10": "Please give the money for o-10 back",
        "r-2": "I want my money back for o-2, it arrived broken",
    }
    for run, text in asked.items():
        order = text[text.index("o-") :].split()[0].strip(",")
        output = run_of(step("refund", changes=True, order=order), text=text, run_id=run, task_id=f"task of {run}")
        learner.learn(output, Feedback(success=True), group=f"family of {run}")
    (bullet,) = opened.bullets
    assert len(bullet.situations) == 3
    opened.purge(run_id="r-1")
    (bullet,) = opened.bullets
    assert bullet.provenance.run_ids == ("r-10", "r-2")
    assert bullet.provenance.task_ids == ("task of r-10", "task of r-2")
    assert bullet.provenance.groups == ("family of r-10", "family of r-2")
    assert len(bullet.situations) == 2
    assert not any("at once" in json.dumps(entry) for entry in opened.history.entries())
    opened.purge(run_id="r-2")
    assert [s.template for s in opened.bullets[0].situations] == ["Please give the money for {order} back"]
    assert opened.history.verify().ok
    assert opened.bullets[0].trigger == "Please give the money for {order} back"


def test_a_tenant_takes_its_credit_and_its_name_with_it(opened):
    opened.commit([Add(bullet=PlaybookBullet(section="Pitfalls", content="of one", tenant="acme"))], author="acme")
    opened.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")])
    opened.add(section="Pitfalls", content="for all", tags=("acme",))
    opened.commit([Tag(bullet_id="b-2", helpful=1, run_id="r-1")])
    opened.purge(tenant="acme", author="acme")
    (bullet,) = opened.bullets
    assert (bullet.helpful_count, bullet.tags) == (0, ("[purged]",))
    assert "acme" not in json.dumps(opened.history.entries())
    assert opened.history.verify().ok


@pytest.mark.parametrize("stored", ["\\u010capek", "Čapek", r"\u010CAPEK", "C\u030capek", "\0Č\0a\0p\0e\0k"])
@pytest.mark.parametrize("given", ["čapek", "Čapek", "C\u030capek"])
def test_a_text_is_found_however_it_is_written(opened, stored, given):
    opened.add(section="Pitfalls", content=f"Ask {stored} first.")
    opened.purge(text=given)
    assert opened.bullets[0].content == "Ask [purged] first."


def test_a_short_word_is_no_part_of_another(opened):
    words = "Always analyse the banana manager's canary; ask\\nAna."
    opened.add(section="Pitfalls", content=words)
    opened.purge(text="Ana")
    assert opened.bullets[0].content == words.replace("Ana.", "[purged].")


def test_capitals_are_found_in_the_other_spelling(opened):
    opened.add(section="Pitfalls", content="Ask in Straße Nord first.")
    opened.purge(text="STRASSE NORD")
    assert opened.bullets[0].content == "Ask in [purged] first."


def test_numbers_of_waiting_runs_go(tmp_path, embedder):
    path = tmp_path / "runs"
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        learner = Learner(book, state=path, judge=lambda output: 1 / 0)
        learner.observe(run_of(step("refund", changes=True, customer=4917012345)))
        with pytest.raises(ZeroDivisionError):
            learner.close()
        assert book.purge(text="4917012345").runs == 1
        assert list(path.glob("*.json")) == []


def test_a_reader_holds_a_purge_up_for_seconds_only(tmp_path, embedder):
    import sqlite3
    import time

    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        book.add(section="Pitfalls", content=SECRET)
        reader = sqlite3.connect(tmp_path / "p.db")
        reader.execute("begin")
        reader.execute("select * from journal").fetchall()
        started = time.monotonic()
        with pytest.raises(PlaybookError, match="another process is reading"):
            book.purge(text=SECRET)
        assert time.monotonic() - started < 30
        reader.close()
        book.purge(text=SECRET)
        assert SECRET.lower().encode() not in everything(book, tmp_path)


def test_what_another_process_wrote_is_purged_too_and_the_author_is_not_repeated(tmp_path, embedder):
    path = tmp_path / "p.db"
    with Playbook.open(path, embedder=embedder) as one, Playbook.open(path, embedder=embedder) as other:
        other.add(section="Pitfalls", content=SECRET)
        assert one.purge(text=SECRET, author=SECRET).removed == ("b-1",)
        assert SECRET not in json.dumps(one.history.entries(), ensure_ascii=False)
        assert one.bullets == ()


@pytest.mark.parametrize("target", [{"run_id": "r1"}, {"tenant": "shop"}])
def test_a_run_that_waits_goes_with_its_run_and_its_tenant(tmp_path, embedder, target):
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        learner = Learner(book, state=tmp_path / "runs", judge=lambda output: 1 / 0)
        for name, tenant in (("r1", "shop"), ("r2", "bank")):
            run = run_of(step("refund", changes=True), run_id=name)
            learner.observe(run.model_copy(update={"task": run.task.model_copy(update={"tenant": tenant})}))
        with pytest.raises(ZeroDivisionError):
            learner.close()
        assert book.purge(**target, dry_run=True).runs == 1
        assert book.purge(**target).runs == 1
        (file,) = (tmp_path / "runs").glob("*.json")
        assert json.loads(file.read_text())["output"]["run_id"] == "r2"


def test_capitals_that_are_spelled_in_another_way_go_too(opened, tmp_path):
    opened.add(section="Pitfalls", content="Ask in LANGE STRASSE 5 first.")
    opened.purge(text="Lange Straße 5")
    assert opened.get("b-1").content == "Ask in [purged] first."
    assert b"LANGE STRASSE 5" not in everything(opened, tmp_path).upper()


def test_exactly_one_thing_is_purged(book):
    for wrong in ({}, {"text": " "}, {"text": "a", "run_id": "b"}):
        with pytest.raises(PlaybookError, match="exactly one"):
            book.purge(**wrong)


def test_a_number_goes_where_a_person_wrote_it_and_counts_stay(book):
    plan = Plan(calls=(Call(tool="refund", args={"order": Constant(value=1764)}, changes=True),))
    known = (Situation(template="Refund it"),)
    lesson = PlaybookBullet(section="Strategies", **readable(plan, known))
    book.commit([Add(bullet=lesson)])
    book.commit([Tag(bullet_id="b-1", helpful=1764)])
    book.purge(text="1764")
    (left,) = book.bullets
    assert "1764" not in left.plan.model_dump_json()
    assert left.helpful_count == 1764


def test_a_rare_word_stays_where_it_is_said_without_the_whole_text(book):
    book.add(section="Pitfalls", content=f"Write to {SECRET} first.")
    book.add(section="Pitfalls", content="Close the Wróblewski account last.")
    report = book.purge(text=SECRET)
    assert report.words == ("zbigniew",)
    assert [bullet.content for bullet in book.bullets] == [
        "Write to [purged] first.",
        "Close the Wróblewski account last.",
    ]


@pytest.mark.parametrize("text", ['the "Kraków" desk', r"C:\Kraków"])
def test_a_text_with_quotes_or_backslashes_is_found_escaped_too(book, text):
    for said in (text, json.dumps(text), json.dumps(json.dumps(text))):
        book.add(section="Pitfalls", content=f"Answered: {said} .")
    book.purge(text=text)
    assert [re.sub(r'[\\"]', "", b.content) for b in book.bullets] == ["Answered: [purged] ."] * 3


def test_after_a_purge_a_commit_that_fails_leaves_nothing_behind(opened):
    opened.add(section="Pitfalls", content=f"Call {SECRET} first.")
    opened.purge(text=SECRET)
    with pytest.raises(PlaybookError, match="b-99"):
        opened.commit([Add(bullet=PlaybookBullet(section="Pitfalls", content="x")), Remove(bullet_id="b-99")])
    assert opened.add(section="Pitfalls", content="y").id == "b-2"
    assert opened.history.verify().ok


def test_credit_that_moved_with_a_merge_outlives_a_purge(book):
    filled(book, "a", "b", "Zebra99 knows")
    book.commit([Tag(bullet_id="b-2", helpful=1, run_id="r-1")])
    book.commit([Merge(bullet_id="b-1", absorbed=("b-2",))])
    book.purge(text="Zebra99")
    assert book.history.verify().ok, book.history.verify().problems
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")])
    assert book.get("b-1").helpful_count == 1, "a run gives its credit once"


def test_a_run_of_another_language_takes_its_wording_with_it(opened, tmp_path):
    """The wordings of two runs have the same template, and differ in words that only one of them said."""
    learner = Learner(opened)
    for number, text in enumerate(("请给王伟的订单退款", "请给李娜的订单退款", "王芳买的东西坏了要退钱")):
        customer = text[2:4] if number < 2 else text[:2]
        learner.learn(
            run_of(
                step("refund", changes=True, customer=customer), text=text, run_id=f"r{number}", task_id=f"t{number}"
            ),
            Feedback(success=True),
        )
    (lesson,) = opened.bullets
    assert len(lesson.situations) == 2
    opened.purge(run_id="r2")
    (lesson,) = opened.bullets
    assert len(lesson.situations) == 1
    assert opened.history.verify().ok
    assert opened.retrieve("请给张敏的订单退款")
    for said in ("王伟", "李娜", "王芳"):
        assert said.encode() not in everything(opened, tmp_path)


@pytest.mark.parametrize("target", [{"text": SECRET}, {"run_id": "r1"}, {"tenant": "shop"}])
def test_stored_runs_that_hold_what_is_forgotten_go(tmp_path, embedder, target):
    store = FolderRunStore(tmp_path / "runs")
    for name, who, tenant in (("r1", SECRET, "shop"), ("r2", "Ana", "bank")):
        task = TaskInput(inputs={"task": f"Pay {who}"}, tenant=tenant)
        store.save(RunSnapshot(run_id=name, task=task, tools={}, max_iters=5))
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.remember_queue(store.folder)
        book.add(section="Pitfalls", content="Ask first.", tenant="shop")
        assert book.purge(**target, dry_run=True).runs == 1
        with store.claim("r1"), pytest.raises(PlaybookError, match="is being driven"):
            book.purge(**target)
        assert book.purge(**target).runs == 1
    assert store.run_ids() == ("r2",)
    assert not [code for code in spelled(SECRET) if code in everything(book, tmp_path)]


@pytest.mark.parametrize("name", ["rün-1", "日本", 'a"b', "a/b", "a\\b", 'a": b', "p\ud800"])
def test_runs_that_wait_go_whatever_letters_their_names_have(tmp_path, embedder, name):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        for target in ({"run_id": name}, {"tenant": name}):
            run = run_of(step("refund", changes=True), run_id=name)
            run = run.model_copy(update={"task": run.task.model_copy(update={"tenant": name})})
            WaitingRuns.of(book).put(ObservedRun(key=name, output=run, feedback=Feedback(success=True)))
            book.add(section="Pitfalls", content="Ask first.", tenant=name)
            assert (book.purge(**target).runs, list(WaitingRuns.of(book))) == (1, [])


def test_what_a_killed_writer_left_of_a_run_goes_too(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        run = run_of(step("refund", changes=True), text=f"Pay {SECRET}")
        WaitingRuns.of(book).put(ObservedRun(key="r1", output=run, feedback=Feedback(success=True)))
        (file,) = book.postponed.glob("*.json")
        file.rename(file.with_name(f".{file.name}.tmp"))
        assert book.purge(text=SECRET).runs == 1
    assert not [code for code in spelled(SECRET) if code in everything(book, tmp_path)]


def test_a_purge_leaves_files_of_others_and_a_run_that_is_being_written(tmp_path, embedder):
    store = FolderRunStore(tmp_path / "runs")
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.remember_queue(store.folder)
        book.add(section="Pitfalls", content="Ask first.")
        others = [store.folder / name for name in ("export.jsonl", "all.json.bak")]
        for other in others:
            other.write_text('{"run_id":"r1"}')
        left = store.folder / ".r1.json.tmp"
        left.write_text('{"run_id":"r1"}')
        with store.claim("r1"), pytest.raises(PlaybookError, match="run 'r1' is being driven"):
            book.purge(run_id="r1")
        assert left.exists()
        book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
        assert book.purge(run_id="r1").runs == 1
        assert [file.exists() for file in (*others, left)] == [True, True, False]


def test_an_agent_that_learns_tells_the_book_where_it_stores_its_runs(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        agent = ReActGenerator(tools=[], lm=ScriptedLM([]), playbook=book, run_store=tmp_path / "runs")
        agent.learn(run_of(step("refund", changes=True), text="Refund it"), True)
        assert book._state.queues() == [tmp_path / "runs"]


def test_a_disk_without_room_is_a_sentence_and_the_next_purge_ends_the_work(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        filled(book, *(f"Ask {SECRET} before order {number} goes out. {'x' * 2_000}" for number in range(200)))
        size = (tmp_path / "b.db").stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, before[1]))
        try:
            with pytest.raises(PlaybookError, match=r"purge again|nothing was written"):
                book.purge(text=SECRET)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        book.purge(text=SECRET)
        assert book.history.verify().ok
    assert not [code for code in spelled(SECRET) if code in everything(book, tmp_path)]


def test_a_book_is_for_its_owners_eyes_alone(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        filled(book, "one")
        assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("b.db*")} == {0}
