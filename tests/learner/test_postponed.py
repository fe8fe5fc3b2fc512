"""Runs that wait: kept beside the book, tried again in order, and those that took too long by whoever takes more time."""

import pytest
from learner.runs import run_of, step

from ace import Feedback, Learner, Playbook
from ace.core import PlaybookError
from ace.learner.postponed import MAX_LONG, PostponedRuns
from ace.learner.run_queue import ObservedRun
from ace.reflector import Reflector

GOOD = Feedback(success=True)


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
    assert '"seconds":0.02' in files.postponed.read_text().replace(" ", "")


def test_an_observed_run_that_takes_too_long_is_kept_too(files):
    with hurried(files) as learner:
        learner.observe(long_run(), GOOD)
        assert learner.flush()
        assert learner.report.postponed == 1
    assert files.postponed.exists()


def test_who_takes_no_more_time_does_not_try_it_again(files):
    hurried(files).learn_or_keep(long_run(), GOOD)
    tried = []
    assert PostponedRuns.of(files).retry(tried.append, 0.02) == 0
    assert tried == []
    assert files.postponed.exists()


def test_who_takes_more_time_learns_it_and_what_came_later_does_not_wait_for_it(files):
    hurried(files).learn_or_keep(long_run(), GOOD)
    kept = PostponedRuns.of(files)
    kept.keep(ObservedRun(key="later", output=short_run("later"), feedback=GOOD), OSError("locked"))
    Learner(files, reflector=Reflector(seconds=0.04)).learn_or_keep(short_run("now"), GOOD)
    assert '"seconds":0.04' in files.postponed.read_text().replace(" ", ""), "it took that long, too"
    Learner(files).learn_or_keep(short_run("last"), GOOD)
    assert not files.postponed.exists()
    known = files.history.learned(["long", "later", "now", "last"])
    assert set(known) == {"long", "later", "now", "last"}


def test_only_so_many_that_take_too_long_are_kept_and_no_other_run_reads_them_again(files, monkeypatch):
    for number in range(MAX_LONG):
        hurried(files).learn_or_keep(long_run(f"long{number}"), GOOD)
    with pytest.raises(PlaybookError, match="20 runs that took too long wait already"):
        hurried(files).learn_or_keep(long_run("one more"), GOOD)
    learner = Learner(files, reflector=Reflector(seconds=0.02))
    learner.learn_or_keep(short_run("now"), GOOD)
    monkeypatch.setattr(PostponedRuns, "_opened", lambda *_: pytest.fail("opened again"))
    learner.learn_or_keep(short_run("then"), GOOD)
    assert len(files.postponed.read_text().splitlines()) == MAX_LONG


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
