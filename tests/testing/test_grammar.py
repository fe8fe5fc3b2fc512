"""The event grammar."""

import pytest

from ace.core import Event, EventGrammarError
from ace.testing import EventGrammar, check_events


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
