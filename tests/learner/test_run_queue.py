"""The state file: runs that wait, and what was learned from."""

import threading

import pytest
from learner.runs import refund, run_of, step

from ace import Feedback, Learner, Playbook
from ace.core import PlaybookError
from ace.learner.run_queue import ObservedRun, RunQueue
from ace.tasks import ReasoningStep

GOOD = Feedback(success=True)


def numbered(n):
    return run_of(step(f"tool{n}", changes=True), text=f"{chr(97 + n) * 9} task", run_id=f"r{n}", task_id=f"t{n}")


def test_runs_that_waited_are_learned_by_the_next_process(book, tmp_path):
    path = tmp_path / "runs.jsonl"
    queue = RunQueue(path)
    for n in range(3):
        queue.put(ObservedRun(key=f"r{n}", output=numbered(n), feedback=GOOD))
    queue._claim.close()  # as when the process is killed
    with Learner(book, state=path) as learner:
        assert learner.flush()
    assert len(book) == 3
    assert path.read_text() == "", "what was only observed is forgotten once it was learned from"


def test_a_run_that_was_committed_and_not_marked_is_learned_once(book, tmp_path):
    path = tmp_path / "runs.jsonl"
    queue = RunQueue(path)
    queue.put(ObservedRun(key="r1", output=numbered(1), feedback=GOOD))
    queue._claim.close()
    Learner(book).learn(numbered(1), GOOD, {})
    revision = book.revision
    with Learner(book, state=path) as learner:
        learner.flush()
    assert book.revision == revision


@pytest.mark.parametrize("orderly", [True, False])
def test_a_failed_run_is_compared_with_a_later_success_after_a_restart(book, tmp_path, orderly):
    path, text = tmp_path / "runs.jsonl", "Refund the order of Ana"
    with_cancel = run_of(step("cancel", changes=True, order="o-1"), text=text, run_id="bad", task_id="t")
    learner = Learner(book, state=path)
    failed = ObservedRun(key="p0", place="p0", output=with_cancel, feedback=Feedback(success=False))
    learner._queue.put(failed)
    learner.pipeline.learn(failed)
    if orderly:
        learner.close()
    else:
        learner._queue._claim.close()  # as when the process is killed
    with_refund = run_of(step("refund", changes=True, order="o-1"), text=text, run_id="good", task_id="t")
    with Learner(book, state=path) as learner:
        solved = ObservedRun(key="p1", place="p1", output=with_refund, feedback=GOOD)
        learner._queue.put(solved)
        learner.pipeline.learn(solved)
    assert any(bullet.content.startswith("The difference: cancel") for bullet in book.bullets)


def test_a_torn_line_is_cut_off_and_damage_is_an_error(tmp_path, caplog):
    path = tmp_path / "runs.jsonl"
    queue = RunQueue(path)
    queue.put(ObservedRun(key="r1", output=numbered(1), feedback=GOOD))
    queue.put(ObservedRun(key="r2", output=numbered(2), feedback=GOOD))
    queue._claim.close()
    whole = path.read_bytes()
    for cut in (1, 20, 200):
        path.write_bytes(whole[:-cut])
        queue = RunQueue(path)
        assert list(queue.waiting) == ["r1"]
        queue.put(ObservedRun(key="r3", output=numbered(3), feedback=GOOD))
        queue._claim.close()
        queue = RunQueue(path)
        assert list(queue.waiting) == ["r1", "r3"]
        queue._claim.close()
    assert "torn" in caplog.text
    path.write_bytes(b"{oops\n" + whole)
    with pytest.raises(PlaybookError, match=r"line 1 of .* is damaged"):
        RunQueue(path)
    path.write_bytes(whole)
    RunQueue(path).close()


def test_two_processes_do_not_share_a_state_file(book, tmp_path):
    with Learner(book, state=tmp_path / "runs.jsonl"), pytest.raises(PlaybookError, match="another process"):
        Learner(book, state=tmp_path / "runs.jsonl")
    with pytest.raises(PlaybookError, match="cannot write to"):
        Learner(book, state=tmp_path / "runs.jsonl" / "runs.jsonl")


def test_the_state_file_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr("ace.learner.run_queue.COMPACT_AFTER", 10)
    queue = RunQueue(tmp_path / "runs.jsonl")
    for n in range(95):
        observed = ObservedRun(key=f"r{n}", output=numbered(n % 9), feedback=GOOD)
        queue.put(observed)
        queue.done(observed, success=True)
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 10
    queue.close()


def test_a_file_of_an_earlier_version_is_refused_in_words(tmp_path):
    path = tmp_path / "runs.jsonl"
    run = numbered(1).model_copy(update={"metadata": {"withheld_bullets": ["b-1"]}})
    path.write_text(ObservedRun(key="r1", output=run, feedback=GOOD).model_dump_json() + "\n")
    with pytest.raises(PlaybookError, match=r"line 1 of .* an earlier version wrote it"):
        RunQueue(path)


def test_the_lock_is_released_also_when_the_disk_fails(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    queue = RunQueue(path)
    with monkeypatch.context() as broken:
        broken.setattr("ace.core.durable.os.fsync", lambda _: (_ for _ in ()).throw(OSError(5, "EIO")))
        with pytest.raises(OSError, match="EIO"):
            queue.close()
    RunQueue(path).close()


def test_a_restart_with_waiting_runs_keeps_the_bound(book, tmp_path):
    go, state = threading.Event(), tmp_path / "runs.jsonl"

    def judge(output):
        go.wait(30)
        return GOOD

    first = Learner(book, judge=judge, state=state)
    for number in range(6):
        first.observe(refund(number))
    waiting = state.read_text()
    go.set()
    first.close()
    state.write_text(waiting)
    learner = Learner(book, judge=judge, state=state, queue_size=2)
    learner.flush()
    assert learner._worker._free_places._value == 2
    learner.close()


def test_an_odd_character_costs_no_run(book, tmp_path):
    state = tmp_path / "runs.jsonl"
    odd = run_of(step("refund", "paid \ud800", changes=True, order="o\ud800"), text="Refund \ud800 the order")
    go = threading.Event()

    def judge(output):
        assert go.wait(30)
        return GOOD

    first = Learner(book, judge=judge, state=state)
    first.observe(odd)
    kept = state.read_text()
    go.set()
    first.close()
    state.write_text(kept)
    with Playbook(embedder=book.embedder) as fresh, Learner(fresh, judge=judge, state=state) as learner:
        learner.flush()
        assert learner.report.runs == len(fresh) == 1


def test_what_no_json_can_hold_is_refused_by_name(book, tmp_path):
    deep = 1
    for _ in range(1_500):
        deep = [deep]
    with Learner(book, state=tmp_path / "runs.jsonl") as learner:
        with pytest.raises(PlaybookError, match="cannot keep run 'r1'"):
            learner.observe(run_of(step("refund", order=deep)), True)
        learner.observe(refund(2), True)
    assert learner.report.runs == 1
    with pytest.raises(ValueError, match="finite"):
        ReasoningStep(iteration=1, tool_call_id="c", tool_name="t", outcome="success", seconds=float("nan"))
