import asyncio
import queue
import threading
import time

import pytest

from ace.core import (
    CancellationToken,
    Event,
    EventGrammar,
    EventGrammarError,
    ObserverThread,
    RunUsage,
    SystemClock,
    ToolContext,
    UsageLimits,
    check_events,
    current_context,
    observers as observers_module,
)
from ace.core.context import entered
from ace.core.observers import _deliver, _stop
from ace.core.text import describe_error, json_value


def stream(*kinds, **changes):
    """Events of these kinds; ``kind:id`` names a call."""
    events = []
    for seq, kind in enumerate(kinds):
        name, _, call = kind.partition(":")
        data = {"tool_call_id": call} if call else {}
        events.append(Event(kind=name, seq=seq, run_id="r", correlation_id="t", data=data))
    return [e.model_copy(update=changes.get(f"at{i}", {})) for i, e in enumerate(events)]


ASK = ("model_request_started", "model_request_completed")


@pytest.mark.parametrize(
    "kinds",
    [
        ("run_started", *ASK, "run_completed"),
        ("run_started", "model_request_started", "model_request_delta", "model_request_error", "run_error"),
        ("run_started", *ASK, "model_request_error", *ASK, "run_completed"),
        (
            "run_started",
            *ASK,
            "tool_call_started:a",
            "tool_call_started:b",
            "tool_call_error:b",
            "tool_call_completed:a",
            "run_paused",
        ),
        ("run_started", *ASK, "run_cancelled", "run_continued", *ASK, "run_completed"),
        (
            "run_started",
            *ASK,
            "tool_call_started:a",
            "run_continued",
            "tool_call_error:a",
            "tool_call_started:b",
            "tool_call_completed:b",
            "run_completed",
        ),
        ("run_started", "model_request_started", "run_continued", *ASK, "run_completed"),
    ],
)
def test_the_grammar_accepts(kinds):
    check_events(stream(*kinds))


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ((), "no event at all"),
        (("model_request_started",), "expected run_started first"),
        (("run_started",), "stops at event 0"),
        (("run_started", *ASK), "stops at event 2"),
        (("run_started", "run_started"), "comes once"),
        (("run_started", "run_completed", "model_request_started"), "nothing may follow"),
        (("run_started", "run_completed", "run_continued"), "only a paused"),
        (("run_started", "model_request_started", "model_request_started"), "already being asked"),
        (("run_started", "model_request_completed"), "no request is out"),
        (("run_started", "model_request_delta"), "no request is out"),
        (("run_started", "model_request_error"), "no reply was just read"),
        (
            ("run_started", *ASK, "tool_call_started:a", "tool_call_completed:a", "model_request_error"),
            "no reply was just read",
        ),
        (("run_started", "model_request_started", "tool_call_started:a"), "a request to the model is out"),
        (("run_started", *ASK, "tool_call_started"), "is missing"),
        (("run_started", *ASK, "tool_call_started:a", "tool_call_started:a"), "came before"),
        (("run_started", *ASK, "tool_call_started:a", "tool_call_completed:a", "tool_call_started:a"), "came before"),
        (("run_started", *ASK, "tool_call_completed:a"), "no call 'a' is out"),
        (
            ("run_started", *ASK, "tool_call_started:a", "tool_call_completed:a", "tool_call_error:a"),
            "no call 'a' is out",
        ),
        (("run_started", *ASK, "tool_call_started:a", "model_request_started"), "have no result yet"),
        (("run_started", *ASK, "tool_call_started:a", "run_completed"), "have no result"),
        (("run_started", "model_request_started", "run_completed"), "a request to the model is out"),
    ],
)
def test_the_grammar_refuses(kinds, problem):
    with pytest.raises(EventGrammarError, match=problem):
        check_events(stream(*kinds))


def test_the_grammar_refuses_gaps_and_other_runs():
    with pytest.raises(EventGrammarError, match="seq 5 after 0; expected 1"):
        check_events(stream("run_started", "run_completed", at1={"seq": 5}))
    with pytest.raises(EventGrammarError, match="another run"):
        check_events(stream("run_started", "run_completed", at1={"run_id": "other"}))
    with pytest.raises(EventGrammarError, match="the first seq is 0"):
        EventGrammar().feed(stream("run_started", at0={"seq": 3})[0])


def test_a_token_is_set_once_and_calls_every_callback():
    token, called = CancellationToken(), []
    with token.calling(lambda: called.append("in time")):
        token.cancel("first")
        token.cancel("second")
    with token.calling(lambda: called.append("late")):
        pass
    assert (token.reason, called, token.wait(0)) == ("first", ["in time", "late"], True)
    fresh = CancellationToken()
    with fresh.calling(lambda: called.append("never")):
        pass
    fresh.cancel()
    assert called == ["in time", "late"]
    import copy

    assert copy.deepcopy(fresh) is fresh


def test_a_linked_token_follows_also_when_it_comes_late():
    outer, early, late = CancellationToken(), CancellationToken(), CancellationToken()
    outer.link(early)
    outer.cancel("enough")
    outer.link(late)
    assert (early.reason, late.reason) == ("enough", "enough")


def test_the_system_clock_sleeps_until_cancelled():
    token = CancellationToken()
    threading.Timer(0.05, token.cancel).start()
    started = time.monotonic()
    SystemClock().sleep(10, token)
    asyncio.run(SystemClock().asleep(0.01))
    assert time.monotonic() - started < 5


def test_the_current_context_is_that_of_the_call():
    context = ToolContext(run_id="r", deadline=time.time() + 5)
    with entered(context):
        assert current_context() is context
        assert 0 < context.seconds_left <= 5
    assert current_context() is None
    assert ToolContext().seconds_left is None


def event(n=0):
    return Event(kind="run_started", seq=n, run_id="r", correlation_id="t")


def test_a_relay_without_events_has_no_thread():
    relay = ObserverThread(lambda e: None)
    relay.flush()
    asyncio.run(relay.aflush())
    assert relay._thread is None


def test_a_relay_drops_what_its_observer_cannot_take(monkeypatch):
    monkeypatch.setattr(observers_module, "MAX_BACKLOG", 2)
    go, seen = threading.Event(), []
    relay = ObserverThread(lambda e: (go.wait(5), seen.append(e.seq)), grace=0.01)
    for n in range(50):
        relay.send(event(n))
    relay.flush()
    go.set()
    end = time.monotonic() + 5
    while not relay._queue.empty() and time.monotonic() < end:
        time.sleep(0.01)
    assert len(seen) < 50
    relay.send(event(99))
    relay.grace = 5
    relay.flush()
    assert seen[-1] == 99  # it recovers


def test_a_relay_counts_what_its_observer_raises_and_waits_async():
    def broken(e):
        raise KeyboardInterrupt

    relay = ObserverThread(broken)
    relay.send(event())
    asyncio.run(relay.aflush())
    assert relay.failures == 1


def test_a_relay_ends_its_thread_with_itself():
    import gc

    relay = ObserverThread(lambda e: None)
    relay.send(event())
    relay.flush()
    thread = relay._thread
    del relay
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_limits_are_joined_and_counted_down():
    one, other = UsageLimits(lm_calls=3, cost=1.0), UsageLimits(lm_calls=5, seconds=2.0)
    assert one.tighter(other) == other.tighter(one) == UsageLimits(lm_calls=3, cost=1.0, seconds=2.0)
    left = one.left(RunUsage(lm_calls=5, cost=0.25))
    assert (left.lm_calls, left.cost, left.tool_calls) == (0, 0.75, None)
    assert repr(one) == "UsageLimits(lm_calls=3, cost=1.0)"


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "total_tokens", "cost", "seconds", "lm_calls"])
def test_a_limit_that_is_reached_is_named(name):
    spent = {"input_tokens": 5, "output_tokens": 5, "cost": 5.0, "seconds": 5.0, "lm_calls": 5}
    assert UsageLimits(**{name: 5}).exceeded(RunUsage(**spent)).startswith(name)
    assert UsageLimits(**{name: 11}).exceeded(RunUsage(**spent)) == ""
    assert UsageLimits().exceeded(RunUsage(**spent)) == ""


def test_the_last_answer_is_due_in_time():
    assert "1 left of 3" in UsageLimits(lm_calls=3).last_answer_due(RunUsage(lm_calls=2))
    assert UsageLimits(lm_calls=3).last_answer_due(RunUsage(lm_calls=1)) == ""
    assert "tool_calls 2 of at most 2" in UsageLimits(tool_calls=2).last_answer_due(RunUsage(tool_calls=2))
    assert UsageLimits(tool_calls=2).last_answer_due(RunUsage(tool_calls=1)) == ""


def test_any_value_becomes_plain_json():
    class Hostile:
        def __str__(self):
            raise ValueError

    assert json_value((1, {"a"}, {2: Hostile()}))[:2] == [1, ["a"]]
    assert isinstance(json_value(Hostile()), str)
    assert json_value({2: (1.5, None, True)}) == {"2": [1.5, None, True]}
    assert isinstance(json_value(object()), str)


def test_a_hung_observer_with_a_full_backlog_is_left_behind(monkeypatch):
    monkeypatch.setattr("ace.core.observers.MAX_BACKLOG", 1)
    inside, leave, seen = threading.Event(), threading.Event(), []

    def hang(happened):
        seen.append(happened.seq)
        inside.set()
        leave.wait(5)

    relay = ObserverThread(hang)
    relay.send(event(0))
    assert inside.wait(5)
    relay.send(event(1))
    _stop(relay._queue)  # full: nothing is raised
    leave.set()
    for _ in range(500):
        if len(seen) == 2:
            break
        time.sleep(0.01)
    relay.flush()
    assert seen == [0, 1]


def test_events_without_an_owner_are_not_delivered():
    backlog = queue.Queue()
    backlog.put(event())
    backlog.put(event(1))
    _deliver(backlog, lambda: None)
    assert backlog.qsize() == 1


def test_an_error_that_cannot_say_what_it_is_has_its_class():
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError("no")

    assert describe_error(Hostile()).startswith("Hostile")
