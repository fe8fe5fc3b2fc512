"""The learning workflow: what is risky waits for a person, the rest is committed, each commit once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from databases import fresh_database
from graph.shop import SAVERS, agent, workflow_in

from ace.graph import JsonlCheckpointer, NodeFailed, WorkflowInterrupted, why_risky
from ace.graph.learning import learning_workflow
from ace.playbook import Add, Merge, PlaybookBullet, Promote, Remove, Tag, Update
from ace.tasks import Feedback

LESSON = "find(order from the task), then refund(order from the task), then submit(...)"


def waits(workflow, *args, **options) -> dict:
    """What is asked; a schema says what the answer may be."""
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.invoke(*args, **options) if args and isinstance(args[0], dict) else workflow.resume(*args, **options)
    (asked,) = raised.value.interrupts
    fits = {"feedback": [True, 0.5], "review": ["approve", {"decision": "reject"}]}[asked.value["kind"]]
    check = jsonschema.Draft202012Validator(asked.response_schema)
    assert all(check.is_valid(answer) for answer in fits)
    assert not check.is_valid("perhaps")
    return asked.value


def everything_is_risky(book, delta, tools=()):
    return "" if delta.kind == "tag" else "I want to see it"


def learning(tmp_path, book, **options):
    options = {"score": lambda run: True, "risky": everything_is_risky, **options}
    return learning_workflow(agent(), book, checkpointer=JsonlCheckpointer(tmp_path / "threads"), **options)


def test_what_is_not_risky_is_committed_without_a_word(tmp_path, book):
    state = learning(tmp_path, book, risky=why_risky).invoke({"user_input": "Refund order 17"}, thread_id="t")
    assert [bullet.content for bullet in book.bullets] == [LESSON]
    assert state["committed"] == 1
    assert state["playbook_revision"] == book.revision
    assert "workflow (run " in book.history.entries()[0]["author"]


def test_a_reviewer_sees_the_change_as_a_diff(tmp_path, book):
    asked = waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id="t")
    assert asked["choices"] == ["approve", "edit", "reject"]
    assert "# 0: add, waits: I want to see it" in asked["diff"]
    assert f"+ [new] (Strategies) For a task like <Refund order {{order}}>: {LESSON}" in asked["diff"]
    assert asked["changes"][0]["delta"]["bullet"]["content"] == LESSON
    assert len(book) == 0


@pytest.mark.parametrize(
    ("answer", "contents"),
    [
        ("approve", [LESSON]),
        ({"decision": "approve", "reviewer": "ana", "note": "fine"}, [LESSON]),
        ("reject", []),
    ],
)
def test_a_reviewer_decides(tmp_path, book, answer, contents):
    waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id="t")
    learning(tmp_path, book).resume("t", answer)
    assert [bullet.content for bullet in book.bullets] == contents
    if isinstance(answer, dict):
        assert book.history.entries()[0]["author"].startswith("ana (run ")


def test_a_reviewer_writes_something_else(tmp_path, book):
    asked = waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id="t")
    delta = asked["changes"][0]["delta"]
    delta["bullet"]["content"] = "Look the order up before you refund it."
    learning(tmp_path, book).resume("t", {"decision": "edit", "deltas": [delta]})
    assert [bullet.content for bullet in book.bullets] == ["Look the order up before you refund it."]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("perhaps", "expected 'approve', 'edit' with deltas, or 'reject'"),
        ({"decision": "edit"}, "an edit needs `deltas`"),
        ({"decision": "edit", "deltas": [{"kind": "remove"}]}, "delta 0 of the edit"),
        ({"decision": "approve", "extra": 1}, "expected 'approve'"),
    ],
)
def test_an_answer_that_makes_no_sense_is_asked_for_again(tmp_path, book, answer, says):
    waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id="t")
    assert says in waits(learning(tmp_path, book), "t", answer)["problem"]
    learning(tmp_path, book).resume("t", "approve")
    assert len(book) == 1


def test_what_the_book_holds_back_is_let_out_when_a_reviewer_approves(tmp_path, book):
    def steer(book, delta, tools=()):
        return why_risky(book, delta, tools)

    tainted = agent(tainted=True)
    workflow = learning_workflow(
        tainted, book, score=lambda run: True, risky=steer, checkpointer=JsonlCheckpointer(tmp_path / "threads")
    )
    asked = waits(workflow, {"user_input": "Where is order 17?"}, thread_id="t")
    assert "an answer of find asked for refund" in asked["diff"]
    workflow.resume("t", {"decision": "approve", "reviewer": "ana"})
    assert [(bullet.stage, bullet.trust) for bullet in book.bullets] == [("active", "trusted")]
    assert any(entry.get("reason", "").startswith("approved") for entry in book.history.entries())


def test_the_next_process_asks_again_about_what_has_changed_meanwhile(tmp_path, book):
    """A bullet that the lesson would have been merged into is gone when the reviewer answers."""
    learning(tmp_path, book, risky=why_risky).invoke({"user_input": "Refund order 17"}, thread_id="first")
    asked = waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id="t")
    assert [change["kind"] for change in asked["changes"]] == ["merge"]
    book.commit([Remove(bullet_id="b-1")])
    asked = waits(learning(tmp_path, book), "t", "approve")
    assert [change["kind"] for change in asked["changes"]] == ["add"]
    assert "the book has changed" in asked["problem"]
    learning(tmp_path, book).resume("t", "approve")
    assert [bullet.id for bullet in book.bullets] == ["b-2"]


def test_the_same_lesson_of_two_threads_is_written_once(tmp_path, book):
    for thread in ("t1", "t2"):
        waits(learning(tmp_path, book), {"user_input": "Refund order 17"}, thread_id=thread)
    learning(tmp_path, book).resume("t1", "approve")
    asked = waits(learning(tmp_path, book), "t2", "approve")  # now it is another change: more evidence
    assert [change["kind"] for change in asked["changes"]] == ["merge"]
    learning(tmp_path, book).resume("t2", "approve")
    assert len(book) == 1
    assert len(book.bullets[0].provenance.run_ids) == 2


def test_the_answer_is_about_what_was_shown(tmp_path, book):
    """What else the book would call risky by now is not approved with it."""
    risks = {"add": "new words"}
    workflow = learning(tmp_path, book, risky=lambda book, delta, tools: risks.get(delta.kind, ""))
    asked = waits(workflow, {"user_input": "Refund order 17"}, thread_id="t")
    risks.clear()
    workflow.resume("t", "reject")
    assert (len(asked["changes"]), len(book)) == (1, 0)


def test_a_refusal_that_another_round_would_not_mend_fails(tmp_path, embedder):
    from ace.playbook import Playbook

    with Playbook.open(tmp_path / "small.db", embedder=embedder, book_budget=3) as small:
        workflow = learning(tmp_path, small, risky=why_risky, curator=_NoRoom(small))
        with pytest.raises(NodeFailed, match="book_budget"):
            workflow.invoke({"user_input": "Refund order 17"}, thread_id="t")


class _NoRoom:
    def __init__(self, book):
        self.book = book

    def curate(self, insights, hashes):
        return [Add(bullet=insight.as_bullet(hashes)) for insight in insights]


def test_without_a_metric_the_workflow_asks_for_a_verdict(tmp_path, book):
    workflow = learning(tmp_path, book, score=None, risky=why_risky)
    asked = waits(workflow, {"user_input": "Refund order 17"}, thread_id="t")
    assert asked["kind"] == "feedback"
    assert "refund" in asked["trace"]
    assert "expected true, false" in waits(workflow, "t", "who knows")["problem"]
    workflow.resume("t", False)
    assert book.bullets[0].section == "Pitfalls"


def test_a_run_from_elsewhere_and_feedback_in_the_input_are_learned_from(tmp_path, book):
    run = agent().run("Refund order 17")
    workflow = learning(tmp_path, book, score=None, risky=why_risky)
    workflow.invoke({"run": run, "feedback": Feedback(success=True)}, thread_id="t")
    assert book.bullets[0].provenance.run_ids == (run.run_id,)


def test_the_bullets_that_a_run_used_get_their_credit_once(tmp_path, book):
    workflow = learning_workflow(
        agent(book), book, score=lambda run: True, checkpointer=JsonlCheckpointer(tmp_path / "threads")
    )
    for n in range(3):
        workflow.invoke({"user_input": f"Refund order {n}"}, thread_id="t")
    assert book.bullets[0].helpful_count == 2


def test_a_commit_is_made_once_wherever_the_process_dies(tmp_path, book, monkeypatch):
    """The commit node dies after the book has been written and before the graph is saved."""
    import ace.graph.learning as module

    original = module._Steps._let_out

    def dies(self, proposal, written, author):
        original(self, proposal, written, author)
        raise KeyboardInterrupt

    monkeypatch.setattr(module._Steps, "_let_out", dies)
    with pytest.raises(KeyboardInterrupt):
        learning(tmp_path, book, risky=why_risky).invoke({"user_input": "Refund order 17"}, thread_id="t")
    revision = book.revision
    assert len(book) == 1
    monkeypatch.undo()
    learning(tmp_path, book, risky=why_risky).resume("t")
    assert (book.revision, len(book)) == (revision, 1)


@pytest.mark.parametrize(
    ("delta", "says"),
    [
        (Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask first.")), ""),
        (Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask first.", trust="tainted")), "not trusted"),
        (Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask.", stage="quarantined")), "review"),
        (Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask.", stage="pinned")), "first in prompts"),
        (Update(bullet_id="b-1", changes={"content": "x"}), "changes content"),
        (Remove(bullet_id="b-1"), "removes"),
        (Merge(bullet_id="b-1", absorbed=("b-2",)), "b-2"),
        (Merge(bullet_id="b-1"), ""),
        (Tag(bullet_id="b-1", helpful=1), ""),
        (Promote(bullet_id="b-1", stage="pinned"), "first in prompts"),
        (Promote(bullet_id="b-1", stage="active"), ""),
    ],
)
def test_the_default_rule_knows_what_a_person_should_see(book, delta, says):
    found = why_risky(book, delta)
    assert says in found
    assert bool(found) == bool(says)


# -- over two processes ------------------------------------------------------------------------------------------------------


def over_two_processes(tmp_path, request, saver: str, answer: str) -> list[str]:
    """The playbook's lessons after one process began and another one answered."""
    where = str(tmp_path / "threads")
    if saver == "postgresql":
        where = fresh_database(request.getfixturevalue("postgres")).replace("+psycopg", "")

    def process(*words: str) -> dict:
        script = Path(__file__).with_name("shop.py")
        done = subprocess.run(
            [sys.executable, str(script), saver, where, str(tmp_path), *words],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    found = process("begin")
    assert found["waits"]["kind"] == "review"
    assert "+ [new] (Strategies)" in found["waits"]["diff"]
    assert (found["bullets"], found["done"]) == ([], False)
    found = process("resume", answer)
    assert (found["waits"], found["done"]) == (None, True)
    return found["bullets"]


@pytest.mark.parametrize("saver", SAVERS)
def test_a_review_is_driven_over_two_processes(tmp_path, request, saver):
    assert over_two_processes(tmp_path, request, saver, "approve") == [LESSON]


@pytest.mark.full
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize(("answer", "lessons"), [("reject", []), ("edit", ["Edited by a person."])])
def test_every_answer_is_given_in_another_process(tmp_path, request, saver, answer, lessons):
    assert over_two_processes(tmp_path, request, saver, answer) == lessons


def test_the_script_of_the_two_processes_runs_here_as_well(tmp_path):
    with (
        workflow_in("jsonl", str(tmp_path / "threads"), tmp_path) as (workflow, book),
        pytest.raises(WorkflowInterrupted),
    ):
        workflow.invoke({"user_input": "Refund order 17"}, thread_id="t")
    assert len(book) == 0
