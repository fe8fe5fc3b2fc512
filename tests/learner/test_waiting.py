"""Runs that wait: in a learner's folder, beside a book, and those that took too long."""

import threading
import time

import pytest
from learner.runs import refund, run_of, step

from ace import Feedback, Learner, Playbook
from ace.core import ModelTransport, PlaybookError
from ace.core.durable import digest
from ace.learner.waiting import MAX_LONG, ObservedRun, WaitingRuns
from ace.playbook.database import cache_folder
from ace.reflector import Reflector
from ace.tasks import ReasoningStep

GOOD = Feedback(success=True)


def numbered(n):
    return run_of(step(f"tool{n}", changes=True), text=f"{chr(97 + n) * 9} task", run_id=f"r{n}", task_id=f"t{n}")


def observed(n, place=""):
    return ObservedRun(key=f"r{n}", place=place, output=numbered(n), feedback=GOOD)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def put_back(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)


def test_runs_that_waited_are_learned_by_the_next_process(book, tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    for n in range(3):
        runs.put(observed(n))
    with Learner(book, state=tmp_path / "runs") as learner:
        assert learner.flush()
    assert len(book) == 3
    assert list(runs) == [], "what was only observed is forgotten once it was learned from"


def test_a_run_that_was_committed_and_not_marked_is_learned_once(book, tmp_path):
    WaitingRuns(tmp_path / "runs").put(observed(1))
    Learner(book).learn(numbered(1), GOOD, {})
    revision = book.revision
    with Learner(book, state=tmp_path / "runs") as learner:
        learner.flush()
    assert book.revision == revision


def test_what_two_processes_learn_at_once_is_in_the_journal_once(book):
    from ace.playbook.delta import Learned

    for _ in range(2):
        book.commit([Learned(run_id="r1", success=True)])
    assert [entry["run_id"] for entry in book.history.entries()] == ["r1"]


def test_the_places_that_were_learned_from_are_remembered(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    for n, success in ((1, True), (2, False)):
        runs.put(observed(n, f"p{n}"))
        runs.done(observed(n, f"p{n}"), success)
    again = WaitingRuns(tmp_path / "runs")
    assert [again.learned(f"p{n}") for n in range(4)] == [None, True, False, None]
    assert list(again) == []


def test_runs_come_in_the_order_in_which_they_were_put(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    for n in (3, 1, 2):
        runs.put(observed(n))
    assert [run.key for run in runs] == ["r3", "r1", "r2"]
    assert runs.get("r1") == observed(1)
    assert runs.get("r9") is None


def test_a_run_may_be_put_again_and_is_there_once(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    runs.put(observed(1))
    runs.put(observed(1).model_copy(update={"seconds": 2.5}))
    assert [run.seconds for run in runs] == [2.5]
    assert list(runs.within(2.5)) == []


def test_a_damaged_file_is_named(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    runs.put(observed(1))
    (file,) = (tmp_path / "runs").glob("*.json")
    for damaged in ("{oops", "{}", file.read_text()[:-20]):
        file.write_text(damaged)
        with pytest.raises(PlaybookError, match=f"{file.name}.* is damaged"):
            list(runs)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_failed_run_is_compared_with_a_later_success_after_a_restart(book, tmp_path, orderly):
    path, text = tmp_path / "runs", "Refund the order of Ana"
    with_cancel = run_of(step("cancel", changes=True, order="o-1"), text=text, run_id="bad", task_id="t")
    learner = Learner(book, state=path)
    failed = ObservedRun(key="p0", place="p0", output=with_cancel, feedback=Feedback(success=False))
    learner._queue.put(failed)
    learner._learn(failed)
    if orderly:
        learner.close()
    else:
        learner._claim.close()  # as when the process is killed
    with_refund = run_of(step("refund", changes=True, order="o-1"), text=text, run_id="good", task_id="t")
    with Learner(book, state=path) as learner:
        solved = ObservedRun(key="p1", place="p1", output=with_refund, feedback=GOOD)
        learner._queue.put(solved)
        learner._learn(solved)
    assert any(bullet.content.startswith("The difference: cancel") for bullet in book.bullets)


def test_two_processes_do_not_share_a_state(book, tmp_path):
    with Learner(book, state=tmp_path / "runs"), pytest.raises(PlaybookError, match="another process"):
        Learner(book, state=tmp_path / "runs")
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(PlaybookError, match="cannot write to"):
            Learner(book, state=wrong)


def test_a_restart_with_waiting_runs_keeps_the_bound(book, tmp_path):
    go, state = threading.Event(), tmp_path / "runs"

    def judge(output):
        go.wait(30)
        return GOOD

    first = Learner(book, judge=judge, state=state)
    for number in range(6):
        first.observe(refund(number))
    waiting = files_of(state)
    go.set()
    first.close()
    put_back(state, waiting)
    learner = Learner(book, judge=judge, state=state, queue_size=2)
    learner.flush()
    assert learner._worker._free_places._value == 2
    learner.close()


def test_an_odd_character_costs_no_run(book, tmp_path):
    state = tmp_path / "runs"
    odd = run_of(step("refund", "paid \ud800", changes=True, order="o\ud800"), text="Refund \ud800 the order")
    go = threading.Event()

    def judge(output):
        assert go.wait(30)
        return GOOD

    first = Learner(book, judge=judge, state=state)
    first.observe(odd)
    kept = files_of(state)
    go.set()
    first.close()
    put_back(state, kept)
    with Playbook(embedder=book.embedder) as fresh, Learner(fresh, judge=judge, state=state) as learner:
        learner.flush()
        assert learner.report.runs == len(fresh) == 1


def test_what_no_json_can_hold_is_refused_by_name(book, tmp_path):
    deep = 1
    for _ in range(1_500):
        deep = [deep]
    with Learner(book, state=tmp_path / "runs") as learner:
        with pytest.raises(PlaybookError, match="cannot keep run 'r1'"):
            learner.observe(run_of(step("refund", order=deep)), True)
        learner.observe(refund(2), True)
    assert learner.report.runs == 1
    with pytest.raises(ValueError, match="finite"):
        ReasoningStep(iteration=1, tool_call_id="c", tool_name="t", outcome="success", seconds=float("nan"))


def long_run(name="long", calls=400):
    said = [f"Please do send parcel {n} to the house of Ana near us" for n in range(calls)]
    return run_of(
        *(step("send", changes=True, observation=text, parcel=text) for text in said), run_id=name, task_id=name
    )


def short_run(name):
    return run_of(
        step("refund", changes=True, order="o-1"), text=f"Refund the order of {name}", run_id=name, task_id=name
    )


@pytest.fixture
def files(tmp_path, embedder):
    Learner(Playbook(embedder=embedder)).learn(short_run("first"), GOOD)  # lists of words are read once
    with Playbook(tmp_path / "book.db", embedder=embedder) as book:
        yield book


def hurried(book):
    return Learner(book, reflector=Reflector(seconds=0.02))


def test_a_run_that_takes_too_long_is_kept_and_says_why(files, caplog):
    report = hurried(files).learn_or_keep(long_run(), GOOD)
    assert (report.added, report.postponed, len(files)) == (0, 1, 0)
    assert "took more than 0.02 s of CPU time" in caplog.text
    assert [run.seconds for run in WaitingRuns.of(files)] == [0.02]


def test_an_observed_run_that_takes_too_long_is_kept_too(files):
    with hurried(files) as learner:
        learner.observe(long_run(), GOOD)
        assert learner.flush()
        assert learner.report.postponed == 1
    assert files.postponed.exists()


def test_who_takes_no_more_time_does_not_try_it_again(files):
    hurried(files).learn_or_keep(long_run(), GOOD)
    tried = []
    WaitingRuns.of(files).retry(tried.append, 0.02)
    assert tried == []
    assert files.postponed.exists()


def test_who_takes_more_time_learns_it_and_what_came_later_does_not_wait_for_it(files):
    hurried(files).learn_or_keep(long_run(), GOOD)
    kept = WaitingRuns.of(files)
    kept.keep(ObservedRun(key="later", output=short_run("later"), feedback=GOOD), OSError("locked"))
    Learner(files, reflector=Reflector(seconds=0.04)).learn_or_keep(short_run("now"), GOOD)
    assert [run.seconds for run in WaitingRuns.of(files)] == [0.04], "it took that long, too"
    Learner(files).learn_or_keep(short_run("last"), GOOD)
    assert not files_of(files.postponed)
    known = files.history.learned(["long", "later", "now", "last"])
    assert set(known) == {"long", "later", "now", "last"}


def test_only_so_many_that_take_too_long_are_kept_and_no_other_run_reads_them_again(files, monkeypatch):
    for number in range(MAX_LONG):
        hurried(files).learn_or_keep(long_run(f"long{number}"), GOOD)
    with pytest.raises(PlaybookError, match="20 runs that took too long wait already"):
        hurried(files).learn_or_keep(long_run("one more"), GOOD)
    learner = Learner(files, reflector=Reflector(seconds=0.02))
    learner.learn_or_keep(short_run("now"), GOOD)
    monkeypatch.setattr("ace.learner.waiting._read", lambda *_: pytest.fail("read again"))
    learner.learn_or_keep(short_run("then"), GOOD)
    assert len(files_of(files.postponed)) == MAX_LONG


def test_a_book_in_memory_keeps_it_in_the_process(embedder):
    book = Playbook(embedder=embedder)
    with pytest.raises(PlaybookError, match="it waits in this process"):
        hurried(book).learn_or_keep(long_run(), GOOD)
    Learner(book).learn_or_keep(short_run("now"), GOOD)
    assert set(book.history.learned(["long", "now"])) == {"long", "now"}


def test_one_of_several_recordings_keeps_the_others_from_nothing(files):
    report = Learner(files, reflector=Reflector(seconds=0.05)).learn_from_traces(
        [short_run("a"), long_run(calls=900), short_run("b")], [GOOD] * 3
    )
    assert (report.runs, report.postponed) == (2, 1)


def test_learning_says_which_run_took_too_long(files):
    with pytest.raises(PlaybookError, match=r"run 'long' took more than 0.02 s .* Reflector\(seconds=") as raised:
        hurried(files).learn(long_run(), GOOD)
    assert (raised.value.out_of_reach, raised.value.seconds) == (True, 0.02)
    assert len(files.history.entries()) == 0


def test_a_full_disk_costs_no_run_that_waited(tmp_path, monkeypatch):
    runs = WaitingRuns(tmp_path / "runs")
    runs.put(observed(1))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    def slow(run):
        raise PlaybookError("slow", seconds=5.0)

    with monkeypatch.context() as patched:
        patched.setattr("ace.learner.waiting.write_atomic", full)
        with pytest.raises(OSError, match="No space"):
            runs.retry(slow)
    assert list(runs) == [observed(1)]


def test_a_mark_that_a_power_cut_left_empty_is_none(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    runs.put(observed(1, "p1"))
    runs.done(observed(1, "p1"), True)
    runs._mark("p1").write_text("")
    assert runs.learned("p1") is None


def test_a_key_that_no_file_can_hold_as_it_is_names_its_run(tmp_path):
    runs = WaitingRuns(tmp_path / "runs")
    runs.put(observed(1, "p\ud800").model_copy(update={"key": "r\ud800"}))
    tried = []
    runs.retry(tried.append)
    runs.done(observed(1, "p\ud800"), True)
    assert (len(tried), list(runs), runs.learned("p\ud800")) == (1, [], True)


def test_a_run_that_another_process_takes_meanwhile_is_passed_by(tmp_path):
    runs, others = WaitingRuns(tmp_path / "runs"), WaitingRuns(tmp_path / "runs")
    for n in range(3):
        runs.put(observed(n))
    learned = []

    def learn(run):
        learned.append(run.key)
        others.done(observed(1), True)

    runs.retry(learn)
    assert learned == ["r0", "r2"]


def test_a_damaged_state_is_free_for_whoever_mends_it(book, tmp_path):
    WaitingRuns(tmp_path / "runs").put(observed(1))
    (file,) = (tmp_path / "runs").glob("*.json")
    file.write_text("{oops")
    with pytest.raises(PlaybookError, match="is damaged") as held:
        Learner(book, state=tmp_path / "runs")
    file.unlink()
    Learner(book, state=tmp_path / "runs").close()
    del held


def test_a_later_verdict_outlives_the_process_in_which_the_first_was_learned(book, tmp_path):
    go, learned, state = threading.Event(), threading.Event(), tmp_path / "runs"
    first = Learner(book, state=state)
    learn = first._learn

    def one_only(run, keep=True):
        if learned.is_set():
            go.wait(30)
        learned.set()
        return learn(run, keep)

    first._learn = one_only
    first.observe(refund(1), True)
    first.observe(refund(1), False)
    assert learned.wait(30)
    while len(list(state.glob("*.json"))) > 1:
        time.sleep(0.01)
    waiting = files_of(state)  # as when the process is killed now
    go.set()
    first.close()
    put_back(state, waiting)
    Learner(book, state=state).close()
    assert book.history.learned(["r1"])["r1"].success is False


@pytest.fixture
def model_away(monkeypatch):
    """Makes a learner whose model reads no run r1 until it is called again."""
    away = []

    def toggled(learner):
        if away:
            away.clear()
            return
        away.append(True)
        read = learner.reflector.read

        def reading(output, *args, **kwargs):
            if away and output.run_id == "r1":
                raise ModelTransport("nobody answers")
            return read(output, *args, **kwargs)

        monkeypatch.setattr(learner.reflector, "read", reading)

    return toggled


@pytest.mark.parametrize("state", [False, True])
def test_a_run_that_no_model_could_read_waits_in_its_file(files, tmp_path, model_away, state):
    learner = Learner(files, state=tmp_path / "runs" if state else None)
    WaitingRuns.of(files).keep(observed(1), OSError("locked"))
    model_away(learner)
    report = learner.learn_or_keep(numbered(2), GOOD)
    assert (report.runs, report.unread) == (1, 0)
    assert [run.key for run in WaitingRuns.of(files)] == ["r1"]
    model_away(learner)
    learner.learn_or_keep(numbered(3), GOOD)
    assert set(files.history.learned(["r1", "r2", "r3"])) == {"r1", "r2", "r3"}
    assert list(WaitingRuns(tmp_path / "runs")) == []
    learner.close()


def test_a_later_verdict_wins_over_one_that_waits(files, model_away):
    learner = Learner(files)
    WaitingRuns.of(files).keep(observed(1), OSError("locked"))
    model_away(learner)
    learner.learn(numbered(1), Feedback(success=False))
    learner.learn_or_keep(numbered(2), GOOD)
    model_away(learner)
    learner.learn_or_keep(numbered(3), GOOD)
    learner.close()
    assert files.history.learned(["r1"])["r1"].success is False
    assert (learner.report.unread, list(WaitingRuns.of(files))) == (0, [])
    WaitingRuns.of(files).keep(observed(2), OSError("locked"))
    learner.learn_or_keep(numbered(2), Feedback(success=False))
    assert files.history.learned(["r2"])["r2"].success is False


def test_a_run_whose_commit_failed_waits_on(book, tmp_path, monkeypatch):
    with Learner(book, state=tmp_path / "runs") as learner:
        teach = learner._teach

        def locked(run, *args):
            monkeypatch.setattr(learner, "_teach", teach)
            raise PlaybookError("locked")

        monkeypatch.setattr(learner, "_teach", locked)
        learner.observe(numbered(1), GOOD)
        with pytest.raises(PlaybookError, match="locked"):
            learner.flush()
        learner.observe(numbered(2), GOOD)
        learner.flush()
    Learner(book, state=tmp_path / "runs").close()
    assert set(book.history.learned(["r1", "r2"])) == {"r1", "r2"}


def test_a_damaged_file_beside_a_book_keeps_no_other_from_being_learned(files, caplog):
    kept = WaitingRuns.of(files)
    for n in range(3):
        kept.keep(observed(n), OSError("locked"))
    (damaged,) = files.postponed.glob(f"{digest('r1')}-*.json")
    damaged.write_text("")
    Learner(files).learn_or_keep(numbered(3), GOOD)
    assert set(files.history.learned([f"r{n}" for n in range(4)])) == {"r0", "r2", "r3"}
    assert "is damaged" in caplog.text
    assert damaged.exists()


def test_runs_of_a_book_on_a_server_wait_in_a_cache_that_was_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs = WaitingRuns(cache_folder() / "books" / "b.postponed")
    runs.keep(observed(1), OSError("away"))
    assert list(runs) == [observed(1)]
    with pytest.raises(FileNotFoundError):
        WaitingRuns(tmp_path / "moved" / "b.postponed").put(observed(1))
