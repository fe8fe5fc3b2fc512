"""Learning in the background."""

import asyncio
import threading
import time

import pytest
from learner.runs import refund, run_of, step

from ace import Feedback, Learner, Reflector

GOOD = Feedback(success=True)


def numbered(n):
    return run_of(step(f"tool{n}", changes=True), text=f"{chr(97 + n) * 9} task", run_id=f"r{n}", task_id=f"t{n}")


def test_a_full_queue_slows_the_agent_down(book, caplog):
    go = threading.Event()

    class Slow(Reflector):
        def read(self, output, feedback, **options):
            go.wait(10)
            return super().read(output, feedback, **options)

    with Learner(book, reflector=Slow(), queue_size=2) as learner:
        learner.observe(numbered(0), True)
        learner.observe(numbered(1), True)
        threading.Timer(0.2, go.set).start()
        started = time.monotonic()
        learner.observe(numbered(2), True)
        assert time.monotonic() - started > 0.1
        assert "the agent waits too" in caplog.text
    assert len(book) == 3


def test_an_error_is_raised_once_and_the_next_run_is_learned(book, caplog):
    class Broken(Reflector):
        def read(self, output, feedback, **options):
            if output.run_id == "r1":
                raise OSError("no model")
            return super().read(output, feedback, **options)

    learner = Learner(book, reflector=Broken())
    for n in range(3):
        learner.observe(numbered(n), True)
    with pytest.raises(OSError, match="no model"):
        learner.flush()
    assert learner.flush()
    assert len(book) == 2
    assert "could not learn from run r1" in caplog.text
    learner.close()


def test_a_judge_that_is_cancelled_ends_no_thread(book):
    verdicts = [asyncio.CancelledError(), True, True]

    def judge(output):
        verdict = verdicts.pop(0)
        if isinstance(verdict, BaseException):
            raise verdict
        return GOOD

    learner = Learner(book, judge=judge)
    for number in range(3):
        learner.observe(refund(number))
    with pytest.raises(asyncio.CancelledError):
        learner.flush(30)
    learner.close()
    assert learner.report.runs == 2
