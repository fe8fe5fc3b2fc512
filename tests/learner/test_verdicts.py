"""Verdicts: one is needed, a later one takes the place of an earlier one, and what a run has taught can be taken back."""

from __future__ import annotations

import math

import dspy
import pytest
from command import ace
from learner.runs import REFUNDED, refund, run_of, step

from ace import Feedback, Playbook, ReActGenerator
from ace.core import PlaybookError
from ace.learner import Learner
from ace.optimization import ACE
from ace.playbook import CallableEmbedder, Merge, Promote
from ace.serve.shared_memory import SharedMemory
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import calculator

GOOD, BAD = Feedback(success=True), Feedback(success=False)
TOY = CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts])
TALK = [
    {"role": "user", "content": "Refund Ana's order"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "refund", "arguments": '{"order": "o-17"}'}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "refunded"},
    {"role": "assistant", "content": "Done."},
]


@pytest.fixture
def book():
    with Playbook(embedder=TOY) as book:
        yield book


def sections(book):
    return [bullet.section for bullet in book.bullets]


def an_agent(book, *, max_iters=None, **options):
    lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("submit", answer="42")])
    return ReActGenerator(tools=[calculator], lm=lm, playbook=book, max_iters=max_iters, **options)


def test_learn_needs_a_verdict_or_a_metric(book):
    agent = an_agent(book)
    out = agent.forward("What is 6 * 7?")
    with pytest.raises(ValueError, match=r"learn needs a verdict.*metric"):
        agent.learn(out)
    assert not book.bullets
    asked = []
    agent.metric = lambda example, prediction: asked.append((example.task, prediction.answer)) or 0.8
    assert agent.learn(out).successes == 1
    assert asked == [("What is 6 * 7?", "42")]


@pytest.mark.parametrize("verdict", [None, math.nan, dspy.Prediction(score=math.nan)])
def test_a_metric_that_could_not_judge_teaches_nothing(book, verdict):
    agent = an_agent(book, metric=lambda example, prediction: verdict)
    with pytest.raises(ValueError, match="no verdict"):
        agent.learn(agent.forward("What is 6 * 7?"))
    assert not book.bullets


def test_an_optimizer_counts_runs_that_its_metric_could_not_judge(book):
    lm = FunctionLM(
        "t/f", lambda p: decision("submit", answer="done") if p.steps else decision("calculator", expression="1")
    )
    examples = [dspy.Example(task=f"What is {n}?").with_inputs("task") for n in range(3)]
    verdicts = iter([None, True, math.nan])
    optimizer = ACE(lambda *_: next(verdicts), playbook=book, progress=False)
    with dspy.context(lm=lm):
        optimizer.compile(ReActGenerator(tools=[calculator]), trainset=examples)
    assert (optimizer.report.unjudged, optimizer.report.runs) == (2, 1)


def test_a_run_that_did_not_end_by_itself_teaches_no_strategy(book):
    agent = an_agent(book, max_iters=1)
    out = agent.forward("What is 6 * 7?")
    assert out.termination_reason == "max_iterations"
    agent.learn(out, success=True)
    assert "Strategies" not in sections(book)


def test_a_later_verdict_takes_the_place_of_the_earlier_one(book):
    agent = an_agent(book)
    out = agent.forward("What is 6 * 7?")
    agent.learn(out, True)
    assert sections(book) == ["Strategies"]
    assert agent.learn(out, False).corrected == 1
    assert sections(book) == ["Pitfalls"]
    assert agent.learn(out, False).skipped == 1
    agent.learn(out, True)
    assert [(bullet.id, bullet.section) for bullet in book.bullets] == [("b-1", "Strategies")]
    agent.retract(out)
    assert not book.bullets
    assert book.history.verify().ok


def test_another_process_corrects_what_this_one_learned(tmp_path):
    path = tmp_path / "book.db"
    with Playbook.open(path, embedder=TOY) as book:
        Learner(book).learn(refund(1), GOOD)
        Learner(book).learn(refund(2), GOOD)
    with Playbook.open(path, embedder=TOY) as book:
        Learner(book).learn(refund(1), BAD)
        kept, warning = book.bullets
        assert (kept.provenance.run_ids, warning.provenance.run_ids) == (("r2",), ("r1",))
        assert (kept.section, warning.section) == ("Strategies", "Pitfalls")
        assert book.history.verify().ok


def test_what_a_person_decided_stays(book):
    Learner(book).learn(refund(1), GOOD)
    Learner(book).learn(refund(2), GOOD)
    own = book.add(section="Pitfalls", content="Ask before you refund.", author="ana")
    book.commit([Promote(bullet_id="b-1", stage="pinned")], author="ana")
    Learner(book).learn(refund(1), BAD)
    assert book.get("b-1").stage == "pinned"
    assert book.get(own.id).content == "Ask before you refund."


def test_credit_is_counted_anew(book):
    learner = Learner(book)
    learner.learn(refund(1), GOOD)
    used = refund(2).model_copy(update={"injected_bullets": ("b-1",)})
    learner.learn(used, GOOD)
    assert (book.get("b-1").helpful_count, book.get("b-1").harmful_count) == (1, 0)
    learner.learn(used, BAD)
    assert (book.get("b-1").helpful_count, book.get("b-1").harmful_count) == (0, 1)
    learner.retract(used)
    assert (book.get("b-1").helpful_count, book.get("b-1").harmful_count) == (0, 0)
    assert book.history.verify().ok


def test_what_made_the_difference_goes_with_the_verdict(book):
    learner = Learner(book)
    failed = run_of(*REFUNDED[:1], step("cancel", changes=True, order="o-17"), run_id="r1")
    learner.learn(failed, BAD)
    learner.learn(run_of(*REFUNDED, run_id="r2"), GOOD)
    assert any(bullet.content.startswith("The difference:") for bullet in book.bullets)
    learner.learn(failed, GOOD)
    assert not any(bullet.content.startswith("The difference:") for bullet in book.bullets)


def test_an_unknown_run_cannot_be_taken_back(book):
    with pytest.raises(PlaybookError, match="learned nothing from run 'r9'"):
        Learner(book).retract("r9")


def test_a_purged_run_is_gone_from_what_was_learned(book):
    learner = Learner(book)
    learner.learn(refund(1), GOOD)
    learner.learn(refund(2), GOOD)
    book.purge(run_id="r1")
    assert "r1" not in str(book.history.entries())
    assert not book.history.learned(["r1"])
    learner.learn(refund(2), BAD)
    assert sections(book) == ["Pitfalls"]
    assert book.history.verify().ok


def test_the_command_takes_a_run_back_and_says_how_to_undo_it(tmp_path):
    path = tmp_path / "book.db"
    with Playbook.open(path) as book:
        Learner(book).learn(refund(1), GOOD)
    told = ace("playbook", "retract", path, "r1", "--yes")
    assert "undo with: ace playbook undo" in " ".join(told.split())
    with Playbook.open(path) as book:
        assert not book.bullets
    ace("playbook", "retract", path, "r9", "--yes", code=1)


def test_an_agent_of_another_framework_corrects_itself(book):
    memory = SharedMemory(book, author="ana")
    assert memory.remember(TALK, True).added == 1
    assert memory.remember(TALK, True).known == 1
    assert memory.remember(TALK, False).corrected == 1
    assert sections(book) == ["Pitfalls"]
    assert memory.remember(TALK, retract=True).retracted == 1
    assert not book.bullets
    other = SharedMemory(book, author="ben", tenant="acme")
    assert other.remember(TALK, True).added == 1, "another tenant's run of the same words is another run"
    assert memory.remember(TALK, retract=True).retracted == 1
    assert len(book) == 1


def test_what_made_the_difference_knows_the_tools_of_both_runs_after_a_correction(book):
    """So that it is outdated when a tool of the failed run changes."""
    hashes = {"cancel": "h-cancel", "refund": "h-refund", "find": "h-find"}
    other = run_of(step("find", "x", customer="Bo"), text="Find the thing of Bo", run_id="c", task_id="t-2")
    failed = run_of(step("cancel", changes=True, order="o-1"), text="Refund the order", run_id="a", task_id="t-1")
    solved = run_of(step("refund", changes=True, order="o-1"), text="Refund the order", run_id="b", task_id="t-1")
    learner = Learner(book, tools=hashes)
    for run, verdict in ((other, GOOD), (failed, BAD), (solved, GOOD), (other, BAD)):
        learner.learn(run, verdict)
    difference = next(bullet for bullet in book.bullets if bullet.content.startswith("The difference:"))
    assert difference.tool_schema_hashes == {"cancel": "h-cancel", "refund": "h-refund"}


@pytest.mark.parametrize(("wrong", "left"), [(2, "r1"), (1, "r2")])
def test_of_two_lessons_that_were_merged_a_run_takes_its_own_part_back(book, wrong, left):
    learner = Learner(book)
    stopped = run_of(step("cancel", changes=True, order="o"), text="Stop it", run_id="r2", task_id="t2")
    runs = {1: refund(1), 2: stopped}
    for run in runs.values():
        learner.learn(run, GOOD)
    other = book.get("b-2")
    book.commit([Merge(bullet_id="b-1", provenance=other.provenance, absorbed=("b-2",))], author="ana")
    assert [bullet.provenance.run_ids for bullet in book.bullets] == [("r1", "r2")]
    learner.retract(runs[wrong])
    assert [bullet.provenance.run_ids for bullet in book.bullets] == [(left,)]
    assert book.history.verify().ok
