"""The learner: online and offline."""

from dataclasses import FrozenInstanceError
from functools import partial

import pytest
from learner.runs import OLD, run_of, step

from ace import Feedback, Learner, Policy, ReActGenerator, TaskInput, ToolRegistry
from ace.agent.episode import Episode
from ace.core import PlaybookError
from ace.curator import AcceptanceGate, Curator
from ace.playbook import CallableEmbedder, Playbook
from ace.testing import ScriptedLM, decision
from ace.tools import Tool


def world():
    sold = []

    def sell(n: int) -> str:
        """Sell some."""
        sold.append(n)
        return "sold"

    tools = ToolRegistry([Tool.from_function(stock, read_only=True), sell])
    return Episode(
        TaskInput(task_id="t", inputs={"task": "Sell 2"}), tools, lambda output: Feedback(success=sold == [2]), "sales"
    )


def numbered(n):
    return run_of(step(f"tool{n}", changes=True), text=f"{chr(97 + n) * 9} task", run_id=f"r{n}", task_id=f"t{n}")


def test_observed_runs_are_learned_in_the_background(book):
    with Learner(book, tools={"tool1": "hash"}) as learner:
        for n in range(5):
            learner.observe(numbered(n), True)
        assert learner.flush()
        assert len(book) == 5
        assert learner.report.runs == 5
    assert {b.tool_schema_hashes.get("tool1") for b in book.bullets} == {"hash", None}
    with pytest.raises(PlaybookError, match="closed"):
        learner.observe(numbered(6), True)


def test_the_same_request_is_embedded_once(tmp_path):
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[float(len(text)), 1.0] for text in texts]

    with Playbook.open(tmp_path / "b.db", embedder=CallableEmbedder("counted", embed)) as book:
        learner = Learner(book)
        for n in range(10):
            run = run_of(step("pay", changes=True), text="Pay the invoice", run_id=f"r{n}", task_id=f"t{n}")
            learner.learn(run, Feedback(success=True), {})
    assert len(seen) <= 2


def test_a_prediction_is_observed_as_it_is(book):
    lm = ScriptedLM([decision("finish", "as [b-9] says", answer="42")])

    def look() -> str:
        """Look."""
        return ""

    agent = ReActGenerator(tools=[look], lm=lm, playbook=book)
    with Learner(book, tools=agent.registry) as learner:
        learner.observe(agent.forward("What?"), 0.9)
    assert book.bullets[0].content == "answer at once, without a call, then submit(...)"
    assert learner.report.invented == 1, "b-9 was never shown"


def test_an_answer_that_is_no_json_is_kept_as_text(book, tmp_path):
    output = numbered(1).model_copy(update={"answer": object(), "outputs": {"answer": {1, 2}}})
    with Learner(book, state=tmp_path / "runs") as learner:
        learner.observe(output, True)
    assert len(book) == 1


def test_lessons_that_could_not_be_written_are_learned_next_time(tmp_path, embedder):
    def broken(*_):
        raise OSError("no tasks")

    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        learner = Learner(book, gate=broken, state=tmp_path / "runs")
        learner.observe(numbered(1), True)
        with pytest.raises(OSError, match="no tasks"):
            learner.close()
        with Learner(book, state=tmp_path / "runs") as learner:
            assert learner.flush()
        assert len(book) == 1


def test_without_feedback_the_judge_says(book):
    with pytest.raises(ValueError, match="judge"):
        Learner(book).observe(numbered(1))
    with Learner(book, judge=lambda output: Feedback(success=True, confidence=0.2)) as learner:
        learner.observe(numbered(1))
    assert [item.bullet.stage for item in book.review.pending()] == ["quarantined"]


def stock(n: int) -> int:
    """Look at the stock."""
    return n


def shop(n):
    sold = []

    def sell(count: int) -> str:
        """Sell some."""
        sold.append(count)
        return "sold"

    task = TaskInput(task_id=f"t{n}", inputs={"task": f"Sell {chr(97 + n) * 5} things"})
    return Episode(task, ToolRegistry([stock, sell]), lambda output: Feedback(success=sold == [n]), f"family{n % 2}")


class Agents:
    """Sells the right number from the second attempt on; counts its runs and can be interrupted."""

    def __init__(self, book, stop_at=None):
        self.book, self.stop_at, self.made = book, stop_at, []

    def __call__(self, episode):
        self.made.append((episode.task.task_id, episode.attempt))
        if len(self.made) == self.stop_at:
            raise KeyboardInterrupt
        count = int(episode.task.task_id[1:]) if episode.attempt else 99
        lm = ScriptedLM([decision("sell", count=count), decision("finish", answer="")])
        return ReActGenerator(tools=episode.registry, lm=lm, playbook=self.book, policy=Policy.lenient())


def test_tasks_that_were_solved_are_left_out(book):
    agents = Agents(book)
    report = Learner(book, agents).fit([partial(shop, n) for n in range(3)], epochs=3, skip_solved=True)
    assert (report.runs, report.successes) == (6, 3)
    assert agents.made == [(f"t{n}", epoch) for epoch in (0, 1) for n in range(3)]


@pytest.mark.parametrize("stop_at", range(1, 8))
def test_an_interrupted_fit_goes_on_and_learns_nothing_twice(tmp_path, embedder, stop_at):
    tasks = [partial(shop, n) for n in range(3)]
    with Playbook.open(tmp_path / "whole.db", embedder=embedder) as book:
        Learner(book, Agents(book)).fit(tasks, epochs=2)
        expected = _without_run_ids(book)
    with Playbook.open(tmp_path / "cut.db", embedder=embedder) as book:
        first = Agents(book, stop_at)
        learner = Learner(book, first, state=tmp_path / "runs")
        if stop_at <= 6:
            with pytest.raises(KeyboardInterrupt):
                learner.fit(tasks, epochs=2)
        else:
            learner.fit(tasks, epochs=2)
        learner._claim.close()  # as when the process is killed
        second = Agents(book)
        with Learner(book, second, state=tmp_path / "runs") as learner:
            report = learner.fit(tasks, epochs=2)
        assert report.skipped == min(stop_at - 1, 6)
        assert len(first.made) - (stop_at <= 6) + len(second.made) == 6, "no run was made twice"
        assert _without_run_ids(book) == expected


def _without_run_ids(book):
    return [b.model_copy(update={"provenance": b.provenance.model_copy(update={"run_ids": ()}), "updated_revision": 0,
                                 "created_revision": 0}) for b in book.bullets]  # fmt: skip


def test_a_gate_decides_about_bullets_and_not_about_credit(book):
    solved = []

    def score(task, repeat, candidate):
        return float(any(b.section == "Strategies" for b in candidate.bullets))

    with Learner(book, Agents(book), gate=AcceptanceGate(score, ["a"]), gate_every=3) as learner:
        report = learner.fit([partial(shop, n) for n in range(3)], epochs=2, on_run=lambda *_: solved.append(len(book)))
    assert [verdict.accepted for verdict in learner.verdicts] == [False, True]
    assert report.refused == 1, "pitfalls alone did not help"
    assert {b.section for b in book.bullets} == {"Strategies"}


def test_nothing_that_the_gate_refused_is_written(book):
    with Learner(book, Agents(book), gate=AcceptanceGate(lambda *_: 0.0, ["a"])) as learner:
        report = learner.fit([partial(shop, n) for n in range(3)], epochs=2)
    assert (len(book), report.added) == (0, 0)
    assert report.refused > 0


def test_random_assignments_reach_the_book(book):
    book.add(
        section="Strategies",
        trigger="Sell aaaaa things",
        content="Sell.",
        changing_tools=("sell",),
        tool_sequence=("sell",),
    )
    learner = Learner(book, holdout=1.0)

    def agent_for(episode):
        lm = ScriptedLM([decision("sell", count=0), decision("finish", answer="")])
        return ReActGenerator(tools=episode.registry, lm=lm, playbook=learner.memory)

    learner.agent_for = agent_for
    learner.fit([partial(shop, 0)])
    assert book.get("b-1").control_successes == 1
    assert book.get("b-1").helpful_count == 0


def test_settings_that_make_no_sense(book):
    with pytest.raises(ValueError, match="at least 1"):
        Learner(book, queue_size=0)


def test_the_learner_learns_and_credits(book):
    scripts = [
        [decision("sell", n=1), decision("finish", answer="")],
        [decision("stock", n=2), decision("sell", n=2), decision("finish", answer="")],
        [decision("sell", "as [b-2] says", n=2), decision("finish", answer="")],
        [decision("sell", n=3), decision("finish", answer="")],
    ]

    def agent_for(episode):
        return ReActGenerator(
            tools=episode.registry, lm=ScriptedLM(scripts.pop(0)), playbook=book, policy=Policy.lenient()
        )

    seen = []
    report = Learner(book, agent_for).fit([world] * 2, epochs=2, on_run=lambda *args: seen.append(args))
    strategy, pitfall, *rest = book.bullets
    assert (pitfall.section, strategy.section, strategy.tool_sequence) == ("Pitfalls", "Strategies", ("sell",))
    assert pitfall.content.startswith("The difference:")
    assert "b-1" not in [bullet.id for bullet in book.bullets], (
        "the record of the failure left for what made the difference"
    )
    assert (strategy.helpful_count, strategy.harmful_count) == (1, 1), "followed well once, followed badly once"
    assert pitfall.helpful_count == pitfall.harmful_count == 0
    assert (report.runs, report.successes, len(seen)) == (4, 2, 4)
    assert [entry["author"] for entry in book.history.entries()] == ["learner"] * len(book.history.entries())
    assert all(b.provenance.groups == ("sales",) for b in (pitfall, strategy, *rest))


def test_fit_without_an_agent_says_so(book):
    with pytest.raises(ValueError, match="agent_for"):
        Learner(book).fit([partial(world)])


def test_the_same_trace_is_learned_from_once(book):
    learner = Learner(book)
    report = learner.learn_from_traces([OLD, OLD], lambda run: True)
    assert (report.runs, report.skipped) == (1, 1)


def test_a_queue_and_a_gate_hold_at_least_one_run(book):
    for wrong in ({"queue_size": 0}, {"gate_every": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            Learner(book, **wrong)
    Learner(book, queue_size=1, gate_every=1).close()


def test_what_a_call_counted_is_what_came_since_an_earlier_count():
    from ace.core import RunUsage
    from ace.learner import LearningReport

    before = LearningReport(runs=2, added=1, usage=RunUsage(lm_calls=3, cost=0.5))
    now = LearningReport(runs=5, added=1, merged=2, usage=RunUsage(lm_calls=7, cost=0.75))
    since = now.since(before)
    assert (since.runs, since.added, since.merged, since.usage.lm_calls) == (3, 0, 2, 4)
    assert since.usage.cost == 0.25
    assert before.plus(now).runs == 7


def test_an_insight_and_an_event_of_a_trace_cannot_be_changed_or_misspelled():
    from pydantic import ValidationError

    from ace.learner.trace_formats import TraceEvent
    from ace.playbook.insight import Insight

    insight = Insight(section="Pitfalls", trigger="t", content="x")
    with pytest.raises(ValidationError, match="frozen"):
        insight.content = "y"
    with pytest.raises(ValidationError, match="extra"):
        Insight(section="Pitfalls", trigger="t", content="x", contents="y")
    with pytest.raises(FrozenInstanceError):
        TraceEvent("user", "x").text = "y"


def test_a_run_that_was_paid_for_and_not_learned_from_is_not_made_again(book, tmp_path):
    class Broken(Curator):
        def curate(self, *_):
            raise OSError("no disk")

    broken, state = Broken(book), tmp_path / "runs"
    with pytest.raises(OSError, match="no disk"), Learner(book, Agents(book), curator=broken, state=state) as learner:
        learner.fit([partial(shop, 0)])
    again = Agents(book)
    with Learner(book, again, state=state) as learner:
        report = learner.fit([partial(shop, 0)])
    assert (again.made, report.runs, len(book)) == ([], 1, 1)
