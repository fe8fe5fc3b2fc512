"""The inspector's pages and forms, asked over HTTP as a browser does."""

import json
import re
import time

import httpx
import pytest
from conftest import letters
from serve_kit import TOKENS, browser_of, conversation, refunding, run_of, send, served

from ace.agent import FolderRunStore
from ace.evaluation import Study, StudyConfig
from ace.learner import Learner
from ace.playbook import CallableEmbedder, Playbook, Tag, Update
from ace.serve import SharedMemory
from ace.tasks import Feedback


@pytest.fixture
def book():
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        memory = SharedMemory(book, author="agent")
        memory.remember(conversation(), True, domain="shop")
        for helped in (True, False):
            memory.feedback("b-1", helped, memory.recall("Refund the order o-1").run)
        for n in range(3):
            book.add(section="Strategies", trigger=f"Paint boat {n}", content="Use oil.", trust="tainted", author="mcp")
        book.add(section="Strategies", content="Of the shop.", tenant="shop")
        book.add(section="Strategies", content="Of the bank.", tenant="bank")
        yield book


@pytest.fixture
def ana(book):
    with served(book) as url, browser_of("ana", url) as client:
        yield client


def test_a_page_over_a_book_that_is_gone_says_so(tmp_path):
    with Playbook.open(tmp_path / "team.db", embedder=CallableEmbedder("letters", letters)) as book:
        book.add(section="Strategies", content="Use oil.")
        with served(book) as url, browser_of("ana", url) as client:
            assert client.get("/lessons").status_code == 200
            (tmp_path / "team.db").rename(tmp_path / "away.db")
            (tmp_path / "team.db").mkdir()
            answer = client.get("/lessons")
    assert answer.status_code == 503, answer.text
    assert "team.db" in answer.text


def test_a_search_says_why_each_hit_came(ana):
    page = ana.get("/lessons", params={"q": "Refund the order o-9"}).text
    assert re.search(r'data-hit="b-1"', page)
    assert "meaning 1" in page
    assert "An agent would be shown" in page
    assert "it is quarantined" in page
    assert "Use oil." in ana.get("/lessons", params={"q": "b-2"}).text, "a lesson is found by its id"


def test_a_list_is_narrowed_and_paged(ana, book):
    assert "Use oil." not in ana.get("/lessons", params={"stage": "active"}).text
    assert "/lessons/b-1" not in ana.get("/lessons", params={"stage": "quarantined"}).text
    for n in range(60):
        book.add(section="Observations", content=f"Seen {n}")
    first = ana.get("/lessons", params={"section": "Observations"}).text
    assert ("Seen 3<" in first, "Seen 55" in first) == (True, False)
    later = re.search(r'href="([^"]+)">Later', first)[1].replace("&amp;", "&")
    assert "Seen 55" in ana.get(later).text


def test_a_lesson_shows_plan_situations_evidence_runs_and_history(ana):
    page = ana.get("/lessons/b-1").text
    assert '<li class="changes" title="changes something">refund(order from the task)</li>' in page
    assert "<mark>{order}</mark>" in page
    assert "Helped 1, harmed 1: 50 % helpful (95 %: 9 to 91)" in page
    assert re.search(r"agent:recall-\w+</td><td>[^<]+</td><td>harmed", page)
    assert "the words of the user" in page
    assert "Revision 1: added" in page
    assert ana.get("/lessons/b-99").status_code == 404


def test_an_approval_is_journaled_and_undone(ana, book):
    page = send(ana, "/lessons/b-2/approve", seen=book.get("b-2").updated_revision, back="/review")
    assert book.get("b-2").stage == "active"
    assert book.history.entries("b-2")[-1]["author"] == "ana"
    assert "2 wait for review" in page.text
    undo = re.search(r'action="/lessons/b-2/restore".*?name="revision" value="(\d+)"', page.text, re.S)[1]
    assert "3 wait for review" in send(ana, "/lessons/b-2/restore", revision=undo, back="/review").text
    assert (book.get("b-2").stage, book.get("b-2").trust) == ("quarantined", "tainted")


def test_a_plan_is_released_by_a_button_and_a_changed_one_is_not(ana, book):
    assert "cannot run it as one call" in ana.get("/lessons/b-1").text
    plan = {"calls": [{"tool": "find"}, {"tool": "refund", "changes": True}]}
    hashes = dict.fromkeys(("find", "refund", "pay"), "1")
    book.commit([Update(bullet_id="b-1", changes={"plan": plan, "tool_schema_hashes": hashes})])
    seen = book.get("b-1").updated_revision
    assert "Let agents run it as one call" in ana.get("/lessons/b-1").text
    book.commit([Update(bullet_id="b-1", changes={"plan": {"calls": [{"tool": "find"}, {"tool": "pay"}]}})])
    assert "look again" in send(ana, "/lessons/b-1/release", seen=seen).text
    send(ana, "/lessons/b-1/release", seen=book.get("b-1").updated_revision)
    assert book.review.is_released(book.get("b-1"))
    assert "Agents may run it as one call" in ana.get("/lessons/b-1").text
    assert book.history.entries()[-1]["author"] == "ana"
    book.commit([Tag(bullet_id="b-1", plan_runs={"offered": 3, "taken": 3, "stops": {1: 3}})])
    assert "offered 3 times, taken 3, finished 0, stopped 3 times at pay" in ana.get("/lessons/b-1").text
    assert "no longer offered" in ana.get("/review").text
    send(ana, "/lessons/b-1/release", seen=book.get("b-1").updated_revision)
    assert "no longer offered" not in ana.get("/review").text


def test_what_changed_meanwhile_is_neither_approved_refused_nor_overwritten(ana, book):
    seen, was = book.get("b-2").updated_revision, {"was_trigger": "Paint boat 0", "was_content": "Use oil."}
    book.review.edit("b-2", content="Use tar.", author="bo")
    for done in ("approve", "reject"):
        answer = send(ana, f"/lessons/b-2/{done}", seen=seen)
        assert (answer.status_code, "look again" in answer.text) == (400, True)
    answer = send(ana, "/lessons/b-2/edit", content="Use wax.", **was)
    assert (answer.status_code, "You wrote: content" in answer.text, "Use wax." in answer.text) == (400, True, True)
    assert "hx-get" not in answer.text, "and no change of others takes it away"
    assert (book.get("b-2").content, book.get("b-2").stage) == ("Use tar.", "quarantined")
    was = {"was_trigger": book.get("b-1").trigger, "was_content": book.get("b-1").content}
    memory = SharedMemory(book, author="agent")
    memory.feedback("b-1", True, memory.recall("Refund the order o-1").run)
    assert send(ana, "/lessons/b-1/edit", trigger="Give it back", content=was["was_content"], **was).status_code == 200
    assert (book.get("b-1").trigger, book.get("b-1").plan is None) == ("Give it back", False), (
        "credit is no change of words"
    )


def test_a_browsers_line_ends_change_no_words(ana, book):
    added = book.add(section="Strategies", trigger="Ship", content="First look.\nThen ship.", tool_sequence=("ship",))
    was = {"was_trigger": "Ship", "was_content": "First look.\r\nThen ship."}
    send(ana, f"/lessons/{added.id}/edit", trigger="Ship it", content="First look.\r\nThen ship.", **was)
    assert (book.get(added.id).trigger, book.get(added.id).content) == ("Ship it", "First look.\nThen ship.")
    assert book.get(added.id).words_from == added.words_from
    assert "20,000" in send(ana, f"/lessons/{added.id}/edit", content="x" * 30_000).text


def test_a_refusal_an_edit_a_stage_and_a_removal_are_undone(ana, book):
    send(ana, "/lessons/b-3/reject", back="/review")
    assert not book.find(["b-3"])
    assert "Undo: as before" in ana.get("/lessons/b-3").text, "what is gone has a page, and a way back"
    send(ana, "/lessons/b-3/restore", revision=book.history.versions("b-3")[0].revision)
    assert book.get("b-3").stage == "quarantined"
    send(ana, "/lessons/b-1/edit", trigger="Give money back", content=book.get("b-1").content, note="plain words")
    assert (book.get("b-1").trigger, book.get("b-1").plan is not None) == ("Give money back", True)
    page = ana.get("/lessons/b-1").text
    assert "plain words" in page
    send(ana, "/lessons/b-1/stage", stage="pinned")
    assert book.get("b-1").stage == "pinned"
    before = book.history.versions("b-1")[0].revision
    send(ana, "/lessons/b-1/remove")
    send(ana, "/lessons/b-1/restore", revision=before)
    restored = book.get("b-1")
    assert (restored.stage, restored.trigger, restored.helpful_count) == ("active", "Refund the order {order}", 1)
    assert book.history.verify().ok


def test_bad_forms_say_what_is_wrong(ana, book):
    before = book.revision
    for path, fields, words in [
        ("/lessons/b-1/edit", {"content": "  "}, "a lesson says something"),
        ("/lessons/b-1/stage", {"stage": "famous"}, "no stage"),
        ("/lessons/b-1/restore", {"revision": "soon"}, "whole number"),
        (
            "/lessons/b-1/stage",
            {"stage": "pinned", "note": "x" * 100_000},
            "the note has 100,000 characters, expected at most",
        ),
        ("/lessons/b-1/remove", {"note": "x" * 2_001}, "the note has 2,001"),
        ("/lessons/b-1/praise", {}, "nothing called"),
        ("/lessons/b-1/approve", {}, "waits for no review"),
        ("/lessons/nobody/remove", {}, "never was a lesson"),
        ("/import", {}, "choose a file"),
    ]:
        answer = send(ana, path, **fields)
        assert re.search(words, answer.text), (path, answer.text[-600:])
        assert "/tmp/" not in answer.text
    assert book.revision == before


def test_a_tenant_sees_and_changes_its_own_only(book):
    SharedMemory(book, author="cleo", tenant="bank").remember(conversation(), True)
    learned = book.bullets[-1]
    assert (learned.tenant, learned.tools if hasattr(learned, "tools") else learned.tool_sequence) == (
        "bank",
        ("refund",),
    )
    book.review.edit("b-6", content="Of all of us.", tenant=None, author="cleo")
    with served(book) as url, browser_of("ben", url) as ben:
        for path in ("/", "/lessons", "/lessons?q=Of+them", "/journal", "/export.jsonl", "/lessons/b-6", "/outdated"):
            page = ben.get(path).text
            assert "Of the bank" not in page, "nor what it was before it became everybody's"
            assert learned.id not in page
        assert "Of the shop" in ben.get("/lessons").text
        assert "1 lesson of shop" in ben.get("/files").text
        assert "Of all of us" in ben.get("/lessons/b-6").text
        assert "Of all of us" not in ben.get("/export.jsonl").text, "what it may bring in elsewhere is its own"
        assert ben.get(f"/lessons/{learned.id}").status_code == 404
        assert "may change the lessons of shop only" in send(ben, "/lessons/b-1/stage", stage="pinned").text
        assert send(ben, "/lessons/b-5/edit", content="Of our shop.").status_code == 200
        assert book.get("b-5").content == "Of our shop."
        assert "agent:recall-" not in ben.get("/lessons/b-1").text, "the runs of others"


def test_an_export_comes_in_elsewhere_as_shadow(ana, book, tmp_path):
    exported = ana.get("/export.jsonl").text
    assert [json.loads(line)["id"] for line in exported.splitlines()] == ["b-1", "b-2", "b-3", "b-4"]
    secret = re.search(r'name="csrf" value="([^"]+)"', ana.get("/files").text)[1]
    answer = ana.post("/import", data={"csrf": secret}, files={"file": ("lessons.jsonl", exported.splitlines()[0])})
    assert "1 lesson came in as shadow" in answer.text
    assert (book.bullets[-1].stage, book.bullets[-1].helpful_count) == ("shadow", 0)
    foreign = json.dumps(json.loads(exported.splitlines()[0]) | {"tenant": "bank"})
    answer = ana.post("/import", data={"csrf": secret}, files={"file": ("lessons.jsonl", foreign)})
    assert "holds lessons of bank" in answer.text
    answer = ana.post("/import", data={"csrf": secret}, files={"file": ("lessons.jsonl", "{nonsense")})
    assert "the file line 1 is no lesson" in answer.text


def test_an_import_is_read_and_then_approved_as_a_whole(ana, book):
    lines = [{"section": "Strategies", "trigger": f"Wax boat {n}", "content": "Use wax."} for n in range(3)]
    text = "".join(json.dumps({"id": f"b-{n}", **line}) + "\n" for n, line in enumerate(lines, start=1))
    secret = re.search(r'name="csrf" value="([^"]+)"', ana.get("/files").text)[1]
    page = ana.post("/import", data={"csrf": secret}, files={"file": ("lessons.jsonl", text)})
    assert "3 lessons came in at revision" in page.text
    assert "Use wax." in page.text
    came = [bullet.id for bullet in book.bullets if bullet.content == "Use wax."]
    book.review.edit(came[2], content="Use tar.", author="bo")
    path, seen = page.url.path, re.search(r'name="seen" value="(\d+)"', page.text)[1]
    answer = send(ana, f"{path}/approve", seen=seen).text
    assert "2 approved" in answer
    assert "1 of them is in shadow" in answer, "what changed meanwhile is not approved"
    assert [book.get(i).stage for i in came] == ["active", "active", "shadow"]
    assert book.history.entries(came[0])[-1]["author"] == "ana"
    assert f'href="{path}"' in ana.get("/journal").text
    with served(book) as url, browser_of("ben", url) as ben:
        assert "Use wax." not in ben.get(path).text, "another tenant's import"
        send(ben, f"{path}/approve", seen=book.revision)
    assert book.get(came[2]).stage == "shadow"


def test_a_lesson_is_written_in_the_browser(ana, book):
    assert "When it applies" in ana.get("/lessons/new").text
    fields = {
        "trigger": "Refund twice",
        "content": "Ask first.\r\nThen refund.",
        "section": "Pitfalls",
        "domain": " shop ",
    }
    page = send(ana, "/lessons", **fields, note="seen by me")
    added = book.bullets[-1]
    assert page.url.path == f"/lessons/{added.id}"
    assert (added.content, added.section, added.domain, added.stage) == (
        "Ask first.\nThen refund.",
        "Pitfalls",
        "shop",
        "active",
    )
    entry = book.history.entries(added.id)[0]
    assert (entry["author"], entry["reason"]) == ("ana", "seen by me")
    answer = send(ana, "/lessons", trigger="Refund never", content=" ")
    assert (answer.status_code, "Refund never" in answer.text) == (400, True), "what was written is not lost"
    with served(book) as url:
        with browser_of("ben", url) as ben:
            send(ben, "/lessons", content="Only ours.")
        with browser_of("dan", url) as dan:
            assert send(dan, "/lessons", content="Of a reader.").status_code == 403
    assert (book.bullets[-1].tenant, book.bullets[-1].content) == ("shop", "Only ours.")


def test_lessons_are_sorted(ana, book):
    def order(by):
        return re.findall(r'<h3><a href="/lessons/(b-\d+)"', ana.get("/lessons", params={"order": by}).text)

    assert order("number")[0] == order("nonsense")[0] == order("helped most")[0] == "b-1"
    assert order("newest") == order("number")[::-1]
    book.review.edit("b-3", content="Use tar.", author="bo")
    assert order("changed last")[0] == "b-3"


def test_the_first_page_says_how_the_book_is_doing(ana, book):
    assert "1 of 1 right" in ana.get("/").text
    assert re.search(r'href="/review">\s*3 lessons for review', ana.get("/").text)
    learner = Learner(book, author="agent")
    for n in range(30):
        family = "refunds" if n % 3 else "sales"
        learner.learn(run_of(n, family), Feedback(success=n >= 15, text=""), group=family)
    page = " ".join(ana.get("/").text.split())
    assert "16 of 31 right: 52 % (95 %: 35 to 68)" in page
    assert "10 of 20 right: 50 %" in page
    assert re.search(r'aria-label="refunds: share that was right, first 0 of 1, last 2 of 2"', page)
    assert re.search(r'<th scope="row">sales</th>.*<td class="shade-\d">', page)
    learner.retract("r-29")
    assert "15 of 30 right" in ana.get("/").text
    book.purge(run_id="r-28", author="ana")
    assert "14 of 29 right" in ana.get("/").text, "what was purged is not counted any more"
    with served(book) as url, browser_of("ben", url) as ben:
        assert "3 lessons for review" not in ben.get("/").text
    with Playbook() as empty, served(empty) as url, browser_of("ana", url) as client:
        assert "No run has had a verdict yet" in client.get("/").text
        assert "There is no lesson yet" in client.get("/").text


def test_a_verdict_is_taken_back_from_the_page_of_its_run(book, tmp_path):
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        agent = refunding(book, tmp_path / "runs")
        out = agent.forward("Refund the order o-9")
        agent.learn(out, True)
        with served(book, runs=tmp_path / "runs") as url, browser_of("ana", url) as client:
            row = client.get("/runs").text
            assert ">right</span>" in row
            assert "Refund the order o-9</a>" in row
            page = client.get(f"/runs/{out.run_id}").text
            assert "tokens" in page
            assert "take back what it has taught" in page
            with browser_of("ben", url) as ben:
                assert "learned nothing from a run" in send(ben, f"/runs/{out.run_id}/retract").text
            assert "taken back" in send(client, f"/runs/{out.run_id}/retract").text
            assert "take back what it has taught" not in client.get(f"/runs/{out.run_id}").text
        assert book.history.verdicts()[out.run_id].success is None
        assert len(book) == 0


def later(client, page):
    return client.get(re.search(r'href="([^"]+)">Later', page)[1].replace("&amp;", "&")).text


def test_all_that_waits_for_review_is_reached_and_a_decision_stays_on_its_page(ana, book):
    for n in range(48):
        book.add(section="Strategies", trigger=f"Oil hinge {n}", content="Use oil.", trust="tainted", author="mcp")
    first = ana.get("/review", params={"said": "approved", "lesson": "b-1", "undo": "1"}).text
    assert "51 wait for review" in first
    second = later(ana, first)
    (last,) = re.findall(r'data-card="([^"]+)"', second)
    assert last not in re.findall(r'data-card="([^"]+)"', first)
    assert "Undo" not in second, "what was said belongs to the page before"
    assert re.search(r'name="back" value="/review"><input type="hidden" name="first" value="50"', second)
    for n in range(3):
        book.add(section="Strategies", trigger=f"Oil chain {n}", content="Use oil.", trust="tainted", author="mcp")
    kept = send(ana, f"/lessons/{last}/approve", back="/review", first=50).text
    assert len(re.findall(r"data-card=", kept)) == 3
    assert len(re.findall(r"data-card=", ana.get("/review", params={"first": 500}).text)) == 3


def test_all_outdated_lessons_are_reached(book):
    for n in range(51):
        known = {"tool_sequence": ("refund",), "tool_schema_hashes": {"refund": "old"}}
        book.add(section="Strategies", trigger=f"Refund kind {n}", content="x", **known)
    with served(book, tools={"refund": "new"}) as url, browser_of("ana", url) as client:
        first = client.get("/outdated").text
        assert "51 outdated" in first
        assert "Refund kind 50" not in first
        assert "Refund kind 50" in later(client, first)


def test_outdated_lessons_say_which_tool_and_are_confirmed(book):
    hashes = {"refund": "old"}
    old = book.add(
        section="Strategies", trigger="Refund twice", content="x", tool_sequence=("refund",), tool_schema_hashes=hashes
    )
    with served(book, tools={"refund": "new"}) as url, browser_of("ana", url) as client:
        assert "refund has another schema now" in client.get("/outdated").text.replace("\n", " ")
        assert "refund has changed since" in client.get(f"/lessons/{old.id}").text
        send(client, f"/lessons/{old.id}/confirm", back="/outdated")
        assert book.get(old.id).tool_schema_hashes == {"refund": "new"}
        assert "Nothing is." in client.get("/outdated").text
    newer = {"tool_sequence": ("refund",), "tool_schema_hashes": {"refund": "newest"}}
    book.add(section="Strategies", trigger="Refund thrice", content="y", **newer)
    with served(book) as url, browser_of("ana", url) as client:
        assert old.id in client.get("/outdated").text, "without the tools, the newest lesson knows them"


def test_runs_are_shown_with_their_traces(book, tmp_path):
    refunding(book, tmp_path / "runs").forward("Refund the order o-9")
    run = FolderRunStore(tmp_path / "runs").run_ids()[0]
    (tmp_path / "runs" / "torn.json").write_text("{")
    with served(book, runs=tmp_path / "runs") as url, browser_of("ana", url) as client:
        page = client.get("/runs").text
        assert run in page
        assert "Cannot be read: torn" in page
        page = client.get(f"/runs/{run}").text
        assert "o-9 &lt;b&gt;refunded" in page
        assert 'href="/lessons/b-1"' in page
        assert client.get("/runs/nobody").status_code == 404
        assert "/tmp" not in client.get("/runs/nobody").text
    with served(book, runs=tmp_path / "runs") as url, browser_of("ben", url) as client:
        assert "torn" not in client.get("/runs").text


def test_evaluations_are_shown_with_both_traces_and_no_script(book, tmp_path):
    study = StudyConfig(suite="office", lm="simulated", arms="none,gold", limit=4, out=tmp_path / "office-1")
    report = Study(study).run()
    (tmp_path / "office-1" / "report.json").write_text(report.model_dump_json())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "report.json").write_text("{}")
    with served(book, reports=tmp_path) as url:
        with browser_of("ana", url) as client:
            listed = client.get("/reports").text
            assert ("simulated" in listed, "/reports/office-1" in listed, "/reports/other" in listed) == (
                True,
                True,
                False,
            )
            page = client.get("/reports/office-1")
            assert "finish(" in page.text or "completed" in page.text
            assert "sandbox" in page.headers["content-security-policy"]
            assert client.get("/reports/other").status_code == 404
        with browser_of("ben", url) as client:
            assert "office-1" not in client.get("/reports").text, "it shows everybody's runs"
            assert client.get("/reports/office-1").status_code == 404


def test_the_live_feed_tells_of_others_changes_within_a_second(book):
    with served(book) as url, httpx.Client(base_url=url) as client:
        headers = {"authorization": f"Bearer {next(iter(TOKENS))}"}
        with client.stream("GET", "/live", headers=headers, timeout=20) as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data:"))
            assert next(lines) == f"data: {book.revision}"
            started = time.monotonic()
            book.add(section="Observations", content="News.")
            assert next(lines) == f"data: {book.revision}"
            assert time.monotonic() - started < 1.0


def test_a_server_ends_at_once_though_a_page_follows_it(book, capfd):
    with httpx.Client() as client:
        with served(book) as url:
            headers = {"authorization": f"Bearer {next(iter(TOKENS))}"}
            stream = client.send(client.build_request("GET", f"{url}/live", headers=headers), stream=True)
            next(stream.iter_lines())
            started = time.monotonic()
        assert time.monotonic() - started < 1.5
        stream.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_reader_gets_no_forms(book):
    with served(book) as url, browser_of("dan", url) as client:
        for path in ("/lessons/b-1", "/review", "/files"):
            assert re.findall(r'action="(?!/logout|/")([^"]+)"', client.get(path).text) == []
