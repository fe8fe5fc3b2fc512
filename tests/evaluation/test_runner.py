"""Runs are made once, kept as they come, and are the same with every engine and after any interruption."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from dspy.utils.exceptions import LMAuthError, LMRateLimitError, LMTransportError

from ace import Playbook, PlaybookBullet
from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.evaluation.log import RunLog
from ace.evaluation.memories import FullHistory
from ace.evaluation.report.summary import comparisons, summarise, ways_closed
from ace.evaluation.runner import Caps
from ace.playbook import Add
from ace.suites import halves
from ace.suites.office import OfficeSuite
from ace.tasks import Feedback
from ace.testing import SimulatedLM, decision
from ace.testing.engine import FunctionLM, render_reply

ACE = str(Path(sys.executable).with_name("ace"))
SUITE = OfficeSuite()
TASKS = [*SUITE.tasks[:4], *SUITE.tasks[40:44]]


def lm_for(seed):
    return SimulatedLM(SUITE, seed=seed)


def rows_of(attempts):
    """What must be the same, in the order of the plan."""
    rows = [attempt.report() if hasattr(attempt, "report") else attempt for attempt in attempts]
    plain = [row.model_dump(exclude={"seconds"}) for row in rows]
    return sorted(plain, key=lambda row: (row["arm"], row["seed"], row["id"]))


def run(**options):
    return evaluate(
        SUITE, lm_for, **{"tasks": TASKS, "arms": ("none", "online", "full-history"), "seeds": (0, 1), **options}
    )


@pytest.fixture(scope="module")
def once():
    return rows_of(run())


@pytest.mark.parametrize("engine", ["threads", "asyncio"])
def test_every_engine_makes_the_same_runs(once, engine):
    assert rows_of(run(engine=engine, workers=4)) == once


def test_an_arm_that_learns_knows_more_each_time(once):
    for arm in ("online", "full-history"):
        rows = sorted((r for r in once if r["arm"] == arm and r["seed"] == 0), key=lambda r: r["learned_from"])
        assert [row["learned_from"] for row in rows] == list(range(len(TASKS)))
        assert rows[0]["memory_tokens"] == 0 < rows[-1]["memory_tokens"]
    assert {row["memory_tokens"] for row in once if row["arm"] == "none"} == {0}


def test_what_was_interrupted_goes_on_and_ends_the_same(once, tmp_path):
    rng = random.Random(0)
    for _ in range(4):
        with RunLog(tmp_path / "runs.jsonl") as log:
            runs = run(log=log, workers=rng.choice([1, 3]))
            for _, _attempt in zip(range(rng.randrange(1, 12)), runs, strict=False):
                pass
            runs.close()
        with (tmp_path / "runs.jsonl").open("a") as file:
            file.write('{"row": {"torn')
    with RunLog(tmp_path / "runs.jsonl") as log:
        left = run(log=log)
        assert left.total == len(once) - len(log.done)
        list(left)
    with RunLog(tmp_path / "runs.jsonl") as log:
        assert rows_of(log.rows()) == once
        assert len(log.done) == len(once)
        row, output, feedback = next(log.runs("online", 1))
        assert (row.arm, row.seed, row.id) == ("online", 1, output.task_id)
        assert feedback.success == row.correct


def test_other_tasks_can_not_go_on_in_a_learning_arm(tmp_path):
    with RunLog(tmp_path / "runs.jsonl") as log:
        list(run(log=log, arms=("online",), seeds=(0,), tasks=TASKS[:2]))
    with RunLog(tmp_path / "runs.jsonl") as log, pytest.raises(SuiteError, match="are of other tasks"):
        run(log=log, arms=("online",), seeds=(0,), tasks=TASKS[4:])


def test_a_damaged_log_is_named(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"row": 1}\n{}\n')
    with pytest.raises(SuiteError, match=r"line 1 of .* is damaged"):
        RunLog(tmp_path / "runs.jsonl")


@pytest.mark.parametrize(
    ("caps", "says"),
    [
        (Caps(requests=20), "requests reached 20"),
        (Caps(tokens=5_000), "tokens reached 5000"),
        (Caps(seconds=0), "seconds reached 0"),
    ],
)
def test_a_cap_ends_it_and_loses_nothing(caps, says):
    runs = run(arms=("none",), caps=caps)
    made = list(runs)
    assert runs.stopped == says
    assert len(made) < runs.total
    assert runs.spent.lm_calls == sum(attempt.output.usage.lm_calls for attempt in made)


def test_stop_yields_what_is_under_way():
    runs = run(arms=("none",), workers=4)
    first = next(runs)
    runs.stop("enough")
    rest = list(runs)
    assert 0 < len(rest) <= 4
    assert runs.stopped == "enough"
    assert first not in rest


class Flaky(SimulatedLM):
    """Is out of service for the first requests; counts how many are under way at once."""

    def __init__(self, fails, error=LMRateLimitError):
        super().__init__(SUITE)
        self.error = error
        self.fails, self.now, self.most, self.lock = fails, 0, 0, threading.Lock()

    def _answer(self, prompt):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            fails, self.fails = self.fails > 0, self.fails - 1
        try:
            time.sleep(0.002)
            if fails:
                raise self.error("not now")
            return super()._answer(prompt)
        finally:
            with self.lock:
                self.now -= 1


def test_an_outage_is_no_wrong_answer(monkeypatch):
    monkeypatch.setattr("ace.evaluation.runner.PAUSE_SECONDS", 0.01)
    flaky = Flaky(fails=3)
    runs = evaluate(SUITE, lambda seed: flaky, tasks=TASKS, workers=4)
    found = rows_of(runs)
    assert found == rows_of(run(arms=("none",), seeds=(0,)))
    assert runs.spent.lm_calls > sum(row["lm_calls"] for row in found), "what the outage cost is counted"
    dead = evaluate(SUITE, lambda seed: Flaky(fails=10_000), tasks=TASKS[:1])
    (attempt,) = dead
    assert attempt.output.termination_reason == "model_transport"
    assert not attempt.feedback.success
    assert dead.spent.lm_calls >= 4, "it was tried again"
    broken = evaluate(SUITE, lambda seed: Flaky(fails=10_000, error=LookupError), tasks=TASKS[:1])
    assert [attempt.output.usage.lm_calls for attempt in broken] == [broken.spent.lm_calls], (
        "what is no outage counts at once"
    )


def test_a_model_that_takes_no_request_ends_it(tmp_path):
    with RunLog(tmp_path / "runs.jsonl") as log:
        runs = evaluate(SUITE, lambda seed: Flaky(fails=10_000, error=LMAuthError), tasks=TASKS, log=log)
        with pytest.raises(SuiteError, match="takes no request: LMAuthError"):
            list(runs)
        assert list(log.rows()) == [], "it is no wrong answer"


def test_a_model_that_never_answers_ends_it(monkeypatch):
    monkeypatch.setattr("ace.evaluation.runner.PAUSE_SECONDS", 0.0)
    away = Flaky(fails=10_000, error=LMTransportError)
    runs = evaluate(SUITE, lambda seed: away, tasks=TASKS)
    with pytest.raises(SuiteError, match="cannot be reached: LMTransportError"):
        list(runs)


def test_a_scorer_that_fails_is_named():
    class Broken(OfficeSuite):
        def _score(self, task, world, output):
            raise ZeroDivisionError("no score")

    broken = Broken()
    with pytest.raises(SuiteError, match=r"scorer of task .* failed: no score"):
        list(evaluate(broken, lambda seed: SimulatedLM(broken), tasks=broken.tasks[:1]))


def test_what_is_missing_shows_before_anything_runs():
    with pytest.raises(SuiteError, match="needs a playbook"):
        run(arms=("none", "playbook"))
    with pytest.raises(SuiteError, match="no arm 'x'"):
        run(arms=("x",))
    with pytest.raises(SuiteError, match="no engine 'ray2'"):
        run(engine="ray2", workers=2)
    with pytest.raises(SuiteError, match="at least 1 worker"):
        run(workers=0)


def test_playbooks_and_generators_are_arms_of_their_own():
    gold = [
        PlaybookBullet(
            section="Strategies",
            trigger=task.task.text,
            content="So.",
            tool_sequence=tuple(call.name for call in task.gold),
            changing_tools=tuple(call.name for call in task.gold if call.name in SUITE.writing_tools),
        )
        for task in halves(SUITE.tasks)[0]
    ]

    with Playbook() as empty, Playbook() as full:
        full.commit([Add(bullet=bullet) for bullet in gold])

        def mine(agent):
            agent.playbook = full
            return agent

        found = rows_of(
            run(
                arms=("none", "old", "new", "mine"),
                seeds=(0,),
                playbooks={"old": empty, "new": full},
                prepare={"mine": mine},
            )
        )
    by_arm = {arm: [row for row in found if row["arm"] == arm] for arm in ("none", "old", "new", "mine")}
    assert [row["iterations"] for row in by_arm["none"]] == [row["iterations"] for row in by_arm["old"]]
    assert sum(row["memory_tokens"] for row in by_arm["new"]) > 0
    assert [row["bullets"] for row in by_arm["mine"]] == [row["bullets"] for row in by_arm["new"]]


def test_full_history_shows_the_newest_runs_that_fit(once):
    (attempt,) = run(arms=("none",), seeds=(0,), tasks=TASKS[:1])
    history = FullHistory(tokens=400)
    for _ in range(20):
        history.learn(TASKS[0], attempt.output, Feedback(success=True), {})
    shown = history.source(TASKS[1]).retrieve_for(TASKS[1].task, {})
    assert shown[0].id == "b-20"
    assert 2 <= len(shown) < 20
    assert FullHistory(unseen=True).source(TASKS[0]).retrieve_for(TASKS[0].task, {}) == []


def test_arms_are_compared_on_the_runs_that_both_made():
    tasks = SUITE.tasks[::12]  # of 8 families
    rows = [attempt.report() for attempt in run(tasks=tasks, arms=("none", "gold"), seeds=(0, 1, 2))]
    (success, iterations, tokens) = comparisons(rows)
    assert (success.metric, iterations.metric, tokens.metric) == ("success", "iterations", "tokens")
    assert (success.n, success.families) == (3 * len(tasks), len({task.group for task in tasks}))
    assert iterations.difference < 0
    assert iterations.p_corrected == pytest.approx(max(3 * min(success.p, iterations.p, tokens.p), iterations.p), rel=2)
    assert success.gained - success.lost == round(success.difference * success.n)
    arms = summarise(rows)
    assert set(arms["none"].pass_hat_k) == {1, 2, 3}
    assert arms["none"].pass_hat_k[1] == pytest.approx(arms["none"].success)
    assert ways_closed(rows) == {}
    half = [row for row in rows if row.arm == "none" or row.seed == 0]
    assert comparisons(half)[0].n == len(tasks)
    few = comparisons([row for row in rows if row.id in {task.id for task in tasks[:3]}])[0]
    assert (few.interval, few.p, few.smallest_effect) == ((None, None), None, None)
    assert "too few" in few.rule


def test_the_command_killed_at_random_moments_shows_the_same_table(tmp_path):
    words = [
        "evaluate",
        "office",
        "--arms",
        "none,online,gold",
        "--seeds",
        "2",
        "--part",
        "second",
        "--limit",
        "5",
        "--json",
        "o.json",
    ]
    environment = {**os.environ, "COLUMNS": "200"}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    subprocess.run([ACE, *words], cwd=tmp_path / "whole", env=environment, check=True, capture_output=True, timeout=800)
    rng, kills = random.Random(1), 0
    for _ in range(2):
        process = subprocess.Popen(
            [ACE, *words],
            cwd=tmp_path / "killed",
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline, made = time.monotonic() + 120, rng.randrange(2, 8) + kills * 10
        while process.poll() is None and time.monotonic() < deadline:
            logs = list((tmp_path / "killed").glob("ace-evaluations/*/runs.jsonl"))
            if logs and logs[0].read_bytes().count(b"\n") >= made:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        process.wait(60)
    assert kills == 2
    again = subprocess.run(
        [ACE, *words], cwd=tmp_path / "killed", env=environment, capture_output=True, text=True, timeout=800
    )
    assert again.returncode == 0, again.stderr
    assert "runs are in" in again.stdout

    def table(name):
        report = json.loads((tmp_path / name / "o.json").read_text())
        for row in (report, *report["arms"].values(), *report["runs"]):
            del row["seconds"]
        report["runs"].sort(key=lambda row: (row["arm"], row["seed"], row["id"]))
        return {**report, "folder": "", "created": ""}

    assert table("killed") == table("whole")
    (folder,) = (tmp_path / "killed" / "ace-evaluations").iterdir()
    subprocess.run(
        [ACE, *words], cwd=tmp_path / "killed", env=environment, check=True, capture_output=True, timeout=800
    )
    assert (folder.with_name(f"{folder.name}.previous") / "report.json").exists(), (
        "a finished one is run again, and kept"
    )


def test_a_scorer_that_fails_ends_it_and_what_else_is_under_way_is_kept(tmp_path):
    class Fragile(OfficeSuite):
        def _score(self, task, world, output):
            if task.id == self.tasks[1].id:
                raise ZeroDivisionError("no")
            return super()._score(task, world, output)

    suite = Fragile()
    gate = threading.Barrier(4, timeout=60)

    def answer(prompt):
        if "tool_calls" not in prompt.wants:
            return render_reply(reasoning="-", answer="done")
        gate.wait()  # all four are under way
        return decision("finish")

    with RunLog(tmp_path / "runs.jsonl") as log:
        runs = evaluate(suite, lambda seed: FunctionLM("f/f", answer), tasks=suite.tasks[:4], workers=4, log=log)
        with pytest.raises(SuiteError, match=r"scorer of task .*#1' failed: no"):
            list(runs)
        assert len(list(log.rows())) == 3
