"""Laws of a run, whatever the model and the tools answer; and for each law a mutant of our code that it catches."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import strategies as st
from laws.examine import examine, must_break
from laws.model import (
    KINDS,
    POLICIES,
    Case,
    Model,
    World,
    calls,
    calm_cases,
    cases,
    perform,
    reply,
    results,
    resumed,
    start,
)

from ace.agent import (
    Acting,
    AgentRun,
    BreakerPolicy,
    CallTool,
    Interrupted,
    RequestedTool,
    RunSnapshot,
)
from ace.agent.breaker import Breaker
from ace.agent.history import CALLS, NOTE, RESULTS, Decision, RunTurns, as_text, message_of
from ace.agent.summary import Summary
from ace.core import UsageLimits
from ace.testing import check_events
from ace.tools import Tool, ToolResult

SHORT, FULL = 100, 2_000
MOST = 10_000  # a mutant is looked for until it is found; the rarest takes some hundreds of examples


# -- the laws ----------------------------------------------------------------------------------------------------------


def law_1_events_are_gapless_and_end_once(case: Case) -> None:
    ran = perform(case)
    check_events(ran.events)
    assert [event.seq for event in ran.events] == list(range(len(ran.events)))
    kinds = [event.kind for event in ran.events]
    assert kinds[0] == "run_started"
    assert sum(kind in ("run_completed", "run_error", "run_paused", "run_cancelled") for kind in kinds) == 1


def law_2_every_call_has_one_result_in_call_order(case: Case) -> None:
    ran = perform(case)
    started = [e.data["tool_call_id"] for e in ran.events if e.kind == "tool_call_started"]
    ended = [e.data["tool_call_id"] for e in ran.events if e.kind in ("tool_call_completed", "tool_call_error")]
    assert sorted(started) == sorted(ended)
    assert len(set(started)) == len(started)
    ids = [step.tool_call_id.partition("-a")[0] for step in ran.output.structured_trace]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda i: [int(n) for n in re.findall(r"\d+", i)])
    executed = [step for step in ran.output.structured_trace if step.executed]
    assert sum(step.attempts for step in executed) <= len(started)


def law_3_the_history_is_always_matched(case: Case) -> None:
    ran = perform(case)
    requests, trace = list(ran.model.asked), ran.output.structured_trace
    if isinstance(ran.run.state, Interrupted):
        after = resumed(ran, ran.saved[-1])
        requests, trace = requests + after.model.asked, after.output.structured_trace
    unread = {step.iteration for step in trace if step.tool_call_id.endswith("-c1") and not step.tool_name}
    read = message_of([step for step in trace if step.iteration not in unread], inputs={}, outputs={})
    made = [call.id for _, call in read.steps]
    assert len(set(made)) == len(made)
    for request in requests:
        shown = [call["id"] for turn in request.turns for call in calls(turn)]
        answered = [result["call_id"] for turn in request.turns for result in results(turn)]
        assert shown == answered
        assert all(result["value"] for turn in request.turns for result in results(turn))
        # what a summary stands for is gone from the front only
        first = made.index(shown[0]) if shown else 0
        assert shown == made[first : first + len(shown)]
        assert first == 0 or "Conversation so far" in as_text([*request.turns, request.said])
        for turn, after in pairwise([*request.turns, request.said]):  # a reply that could not be read has its note
            assert calls(turn) or after[NOTE]


def law_4_no_limit_is_overrun_and_every_attempt_is_booked(case: Case) -> None:
    ran = perform(case)
    usage, limits = ran.output.usage, case.limits
    lost = sum(e.kind == "model_request_error" and e.data["error"] == "cancelled" for e in ran.events)
    assert usage.lm_calls == len(ran.model.asked) + lost
    assert usage.tool_calls == sum(e.kind == "tool_call_started" for e in ran.events) >= ran.world.calls
    for name in ("iterations", "lm_calls", "tool_calls"):
        limit = getattr(limits, name)
        assert limit is None or getattr(usage, name) <= limit
    if limits.input_tokens is not None:
        assert usage.input_tokens < limits.input_tokens + 10 or usage.lm_calls == 0
    policy = POLICIES[case.policy]
    free = not policy.consume_budget
    assert usage.iterations + (0 if free else usage.reprompts + usage.retries) <= case.max_iters
    assert usage.lm_calls <= (usage.iterations + usage.reprompts + usage.retries + usage.summaries + 3) * 2
    if isinstance(ran.run.state, Interrupted):
        after = resumed(ran, ran.saved[-1])
        assert after.output.usage.lm_calls == usage.lm_calls + len(after.model.asked)
        assert limits.lm_calls is None or after.output.usage.lm_calls <= limits.lm_calls


def law_5_what_comes_late_changes_nothing(case: Case, at: int) -> None:
    events: list = []
    world, model = World(case.faults), Model(case)
    run = start(case, world, events)
    late_result, step = None, None
    for _ in range(at + 1):
        step = run.next_step()
        if isinstance(step, CallTool):
            late_result = ToolResult(tool_call_id=step.call.id, outcome="success", text="late")
            if _ == at:
                break
            for call in step.calls:
                run.tool_finished(ToolResult(tool_call_id=call.id, outcome="success", text="ok"))
        elif type(step).__name__ == "AskModel":
            if _ == at:
                break
            try:
                run.model_replied(model.ask(step))
            except Exception as error:
                run.model_failed(error)
        elif type(step).__name__ == "Wait":
            run.spec.clock.advance(step.seconds)
        else:
            break
    run.cancel("enough")
    before, count = run.snapshot(), len(events)
    if late_result is not None:
        run.tool_finished(late_result)
    run.model_replied(reply("late", [RequestedTool("finish", {"answer": "late"})]))
    run.model_delta("late")
    assert run.snapshot() == before
    assert len(events) == count


def law_6_sync_async_and_streamed_are_one_run(case: Case) -> None:
    def projection(ran) -> list:
        output = ran.output.model_dump(mode="json", exclude={"run_id": True, "usage": {"seconds"}})
        for step in output["structured_trace"]:
            del step["seconds"], step["timestamp"]
        for record in output["error_history"]:
            del record["timestamp"]
        kept = [e for e in ran.events if e.kind != "model_request_delta"]
        return [output, [(e.kind, e.step_id, e.data) for e in kept], ran.world.sent, ran.world.put]

    one = projection(perform(case))
    assert one == projection(perform(case, "async")) == projection(perform(case, "stream"))


def law_7_stopped_anywhere_it_ends_the_same(case: Case, at: int, lost: bool) -> None:
    def essence(output) -> list:
        steps = [(s.tool_name, s.tool_args, s.outcome, s.observation) for s in output.structured_trace]
        return [output.answer, output.termination_reason, steps]

    whole = perform(case)
    dead = perform(case, die_at=1 + at % len(whole.saved))
    text = dead.saved[-2] if lost and len(dead.saved) > 1 else dead.saved[-1]
    stored = RunSnapshot.from_json(text)
    out = [c for c in stored.state.calls if c.status == "out"] if isinstance(stored.state, Acting) else []
    sent_before = list(dead.world.sent)
    if not stored.state.kind.startswith(("completed", "failed")):
        ran = resumed(dead, text)
        if ran.output.request is not None:
            assert ran.output.termination_reason == "interrupted"
            assert dead.world.sent == sent_before, "nothing is repeated without consent"
            cut = [s for s in ran.output.structured_trace if s.outcome == "interrupted"]
            assert {s.tool_name for s in cut} == {"send"} == {c.call.name for c in out if c.call.name == "send"}
            if lost:  # it had been done: do not do it again
                ran = resumed(dead, ran.saved[-1], "deny")
                assert dead.world.sent[: len(sent_before)] == sent_before
                return
            ran = resumed(dead, ran.saved[-1], "approve")
        # the request that was out when it died counts as spent, which matters under no limit here
        assert essence(ran.output) == essence(whole.output)
        assert dead.world.put == whole.world.put
        assert dead.world.sent == whole.world.sent


def law_9_a_stored_state_comes_back_as_it_was(case: Case) -> None:
    for text in perform(case).saved:
        stored = RunSnapshot.from_json(text)
        assert RunSnapshot.from_json(stored.to_json()) == stored
    ran = perform(case)
    now = ran.run.snapshot()
    assert RunSnapshot.from_json(now.to_json()).model_copy(update={"usage": None}) == now.model_copy(
        update={"usage": None}
    )


def law_10_fragments_change_nothing(case: Case, other: tuple[int, ...]) -> None:
    def observed(ran) -> list:
        texts: list = []
        for event in ran.events:
            if event.kind == "model_request_started":
                texts.append("")
            elif event.kind == "model_request_delta":
                texts[-1] += event.data["text"]
        kinds = [e.kind for e in ran.events if e.kind != "model_request_delta"]
        return [texts, kinds, ran.output.answer]

    case = replace(case, cancel_at=None)
    streams = observed(perform(case, "stream")), observed(perform(replace(case, fragments=other), "stream"))
    assert streams[0] == streams[1]
    assert all(not text or text.endswith("spaces ") for text in streams[0][0])


def law_11_the_breaker(moves: list[tuple[str, float]], threshold: int, cooldown: float) -> None:
    policy, breaker, now = BreakerPolicy(threshold=threshold, cooldown=cooldown), Breaker(), 0.0
    in_a_row, opened_at, probing = 0, None, False
    for what, seconds in moves:
        now += seconds
        may = opened_at is None or (not probing and now >= opened_at + cooldown)
        assert breaker.allows(policy, now) == may
        if not may:
            continue
        breaker, probing = breaker.called(), opened_at is not None
        assert not probing or not breaker.allows(policy, now + 10 * cooldown), "one probe at a time"
        if what == "ok":
            breaker, in_a_row, opened_at = breaker.succeeded(), 0, None
        elif what in policy.counts:
            breaker, in_a_row = breaker.failed(what, policy, now), in_a_row + 1
            if probing or in_a_row >= threshold:
                opened_at = now
        else:
            breaker = breaker.failed(what, policy, now)
            if probing:
                in_a_row, opened_at = 0, None
        probing = False


def law_12_each_request_only_adds_to_the_one_before(case: Case) -> None:
    ran = perform(replace(case, summary=None))
    requests = list(ran.model.asked)
    if isinstance(ran.run.state, Interrupted):
        requests += resumed(ran, ran.saved[-1]).model.asked
    for before, now in pairwise(requests):
        old, new = [*before.turns, before.said], [*now.turns, now.said]
        assert len(old) <= len(new)
        for was, entry in zip(old, new, strict=False):
            assert all(entry[name] == value for name, value in was.items() if name != NOTE)
            assert entry.get(NOTE, "").startswith(was.get(NOTE, ""))


MOVES = st.lists(st.tuples(st.sampled_from(["ok", *KINDS]), st.floats(0, 20)), max_size=30)
LAWS = {
    1: (law_1_events_are_gapless_and_end_once, (cases,)),
    2: (law_2_every_call_has_one_result_in_call_order, (cases,)),
    3: (law_3_the_history_is_always_matched, (cases,)),
    4: (law_4_no_limit_is_overrun_and_every_attempt_is_booked, (cases,)),
    5: (law_5_what_comes_late_changes_nothing, (cases, st.integers(0, 8))),
    6: (law_6_sync_async_and_streamed_are_one_run, (cases,)),
    7: (law_7_stopped_anywhere_it_ends_the_same, (calm_cases, st.integers(0, 30), st.booleans())),
    9: (law_9_a_stored_state_comes_back_as_it_was, (cases,)),
    10: (law_10_fragments_change_nothing, (cases, st.lists(st.integers(1, 20), min_size=1, max_size=3).map(tuple))),
    11: (law_11_the_breaker, (MOVES, st.integers(1, 5), st.floats(0, 50))),
    12: (law_12_each_request_only_adds_to_the_one_before, (cases,)),
}


@pytest.mark.parametrize("number", LAWS)
def test_law(number):
    examine(*LAWS[number], SHORT, derandomize=True)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", LAWS)
def test_law_at_full_count(number):
    examine(*LAWS[number], FULL)


def test_the_calls_of_a_turn_stay_together_beside_a_summary():
    twice = reply("", [RequestedTool("look", {"n": 0}), RequestedTool("look", {"n": 0})])
    summary = Summary(every=1, keep_last=1)
    law_3_the_history_is_always_matched(
        Case(
            replies=(twice,),
            faults=(),
            policy=0,
            max_iters=2,
            fragments=(1,),
            limits=UsageLimits(),
            summary=summary,
            cancel_at=None,
        )
    )


# -- a mutant for each law ---------------------------------------------------------------------------------------------


def _skips_seq(self, kind, told=None, *, _emit=AgentRun._emit, **data):
    if kind == "tool_call_error":
        self.record.seq += 1
    _emit(self, kind, told, **data)


def _reversed(self, calls, thought, iteration, _steps=AgentRun.steps_of):
    return _steps(self, calls, thought, iteration)[::-1]


def _hides_failures(self, prefix="", limit=None, _entry=Decision.entry):
    entry = _entry(self, prefix, limit)
    entry[CALLS][RESULTS] = [result for result in entry[CALLS][RESULTS] if not result["is_error"]]
    return entry


async def _lossy(tool, call, context=None, _real=None):
    from ace.tools import call_tool

    result = call_tool(tool, call, context)
    return result.model_copy(update={"text": result.text.upper()})


def _strips(self, text, _delta=AgentRun.model_delta):
    if text.strip():
        _delta(self, text.strip())


def _counts_everything(self, kind, policy, now, _failed=Breaker.failed):
    return _failed(self, "exception", policy, now)


def _forgets_rejected_replies(self, opening, steps, asides=(), _shown=RunTurns.shown, **options):
    return _shown(self, opening, steps, [aside for aside in asides if aside.after == len(steps)], **options)


MUTANTS = {
    1: (AgentRun, "_emit", _skips_seq),
    2: (AgentRun, "steps_of", _reversed),
    3: (Decision, "entry", _hides_failures),
    4: (AgentRun, "_spend_lm", lambda self, usage: None),
    5: (AgentRun, "_ended", lambda self: False),
    6: ("ace.agent.drivers.acall_tool", None, _lossy),
    7: (Tool, "repeatable", property(lambda self: True)),
    9: ("ace.agent.machine.json_value", None, lambda value: value),
    10: (AgentRun, "model_delta", _strips),
    11: (Breaker, "failed", _counts_everything),
    12: (RunTurns, "shown", _forgets_rejected_replies),
}


@pytest.mark.parametrize("number", LAWS)
def test_the_law_catches_a_mutant(number):
    where, name, mutant = MUTANTS[number]
    with ExitStack() as stack:
        if isinstance(where, str):
            stack.enter_context(mock.patch(where, mutant))
        else:
            stack.enter_context(mock.patch.object(where, name, mutant))
        must_break(*LAWS[number], MOST)
