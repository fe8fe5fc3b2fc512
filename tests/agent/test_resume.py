"""Runs that stop and go on: approval, cancellation, crashes, in this process and in another."""

import json
import subprocess
import sys

import pytest
from agent.kit import Script, call, extract, peek, send, spec

from ace import FolderRunStore, ReActGenerator
from ace.agent import (
    AgentRun,
    Approve,
    Deny,
    Interrupted,
    ModelReply,
    Policy,
    RequestedTool,
    RunSnapshot,
    Thinking,
    drive,
)
from ace.core import (
    CancellationToken,
    ResumeError,
    RunStoreError,
    SignatureError,
    check_events,
)
from ace.testing import FaultyTool, ManualClock, ScriptedLM, decision
from ace.tools import Tool, tool


def payments():
    paid = []

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay, paid


def agent(tools, *replies, **options):
    return ReActGenerator(tools=tools, lm=ScriptedLM(replies), **options)


PAY = decision("pay", amount=7)
END = decision("finish", answer="done")


def test_a_tool_that_needs_approval_waits_for_it():
    pay, paid = payments()
    it = agent([pay], PAY, END)
    out = it.forward("x")
    assert (out.termination_reason, paid) == ("interrupted", [])
    assert out.request.kind == "approval"
    assert (out.request.calls[0].tool_name, out.request.calls[0].tool_args) == ("pay", {"amount": 7})
    out = it.resume(out.run_id, "approve")
    assert (out.answer, paid, out.termination_reason) == ("done", [7], "completed")
    assert out.structured_trace[0].observation == "paid 7"


def test_an_approval_may_change_the_arguments():
    pay, paid = payments()
    it = agent([pay], PAY, END)
    out = it.forward("x")
    with pytest.raises(ResumeError, match="amount"):
        it.resume(out.run_id, Approve(args={"amount": "a lot"}))
    assert it.resume(out.run_id, Approve(args={"amount": 5})).structured_trace[0].tool_args == {"amount": 5}
    assert paid == [5]


def test_what_is_denied_is_not_done_and_the_model_reads_why():
    pay, paid = payments()
    it = agent([pay], PAY, END)
    out = it.resume(it.forward("x").run_id, Deny("too much"))
    step = out.structured_trace[0]
    assert (step.outcome, step.observation, step.executed, paid) == ("denied", "too much", False, [])
    assert "too much" in it.lm.prompts[-1].text
    assert out.usage.tool_calls == 0


def test_a_decision_is_needed_exactly_when_one_is_asked_for():
    pay, _ = payments()
    it = agent([pay], PAY, END)
    out = it.forward("x")
    with pytest.raises(ResumeError, match="approve"):
        it.resume(out.run_id)
    with pytest.raises(ResumeError, match="must be"):
        it.resume(out.run_id, "perhaps")
    it.resume(out.run_id, "deny")
    token = CancellationToken()
    token.cancel("enough")
    out = agent([pay], PAY, END).forward("x", cancellation=token)
    assert out.error.message == "enough"
    with pytest.raises(RunStoreError, match="run_store"):
        it.resume("unknown")


def test_a_cancelled_run_goes_on_and_its_events_are_one_stream(tmp_path):
    events = []
    token = CancellationToken()

    @tool(read_only=True)
    def stop() -> str:
        """Stop the run."""
        token.cancel("enough")
        return "stopped"

    it = agent([stop], decision("stop"), END, run_store=tmp_path, observers=[events.append])
    out = it.forward("x", cancellation=token)
    assert out.termination_reason == "interrupted"
    with pytest.raises(ResumeError, match="no decision"):
        it.resume(out.run_id, "approve")
    out = it.resume(out.run_id)
    assert (out.answer, out.usage.iterations) == ("done", 2)
    check_events(events)
    assert [e.kind for e in events].count("run_continued") == 1


def test_a_finished_run_is_read_again_without_doing_anything(tmp_path):
    it = agent([peek], decision("peek", key="a"), END, run_store=tmp_path)
    out = it.forward("x")
    again = it.resume(out.run_id)
    assert again.output.model_copy(update={"usage": out.usage}) == out.output
    with pytest.raises(ResumeError, match="no decision"):
        it.resume(out.run_id, "approve")


def test_typed_outputs_come_back_with_their_types(tmp_path):
    import datetime

    import dspy

    class Plan(dspy.Signature):
        """Plan."""

        task: str = dspy.InputField()
        when: datetime.date = dspy.OutputField()

    it = ReActGenerator(Plan, tools=[], lm=ScriptedLM([decision("finish", when="2026-01-02")]), run_store=tmp_path)
    out = it.forward("x")
    assert it.resume(out.run_id).when == out.when == datetime.date(2026, 1, 2)


def test_a_run_goes_on_only_with_the_tools_it_began_with(tmp_path):
    pay, _ = payments()
    out = agent([pay, peek], PAY, run_store=tmp_path).forward("x")

    @tool(requires_approval=True)
    def pay_more(amount: float) -> str:
        """Pay."""
        return ""

    other = type(pay_more).from_function(pay_more.func, name="pay")
    with pytest.raises(RunStoreError, match=r"missing now: \['peek'\], new: \['send'\], changed: \['pay'\]"):
        agent([other, type(peek).from_function(peek.func, name="send")], run_store=tmp_path).resume(out.run_id, "deny")


def test_inputs_must_be_json_to_be_stored(tmp_path):
    import dspy

    class Odd(dspy.Signature):
        """Odd."""

        task: object = dspy.InputField()
        answer: str = dspy.OutputField()

    with pytest.raises(SignatureError, match="'task' is no plain JSON"):
        ReActGenerator(Odd, tools=[], lm=ScriptedLM([END]), run_store=tmp_path).forward(task={1, 2})


def test_a_damaged_or_foreign_file_is_a_clear_error(tmp_path):
    store = FolderRunStore(tmp_path)
    out = agent([peek], END, run_store=store).forward("x")
    path = tmp_path / f"{out.run_id}.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("completed", "corrupted"), encoding="utf-8")
    with pytest.raises(RunStoreError, match="checksum"):
        store.load(out.run_id)
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(RunStoreError, match="no stored run"):
        store.load(out.run_id)
    with pytest.raises(RunStoreError, match="letters"):
        store.load("../etc/passwd")
    with pytest.raises(RunStoreError, match="version 1"):
        RunSnapshot.from_json(json.dumps({"schema_version": "9"}))
    store.delete(out.run_id)
    assert store.run_ids() == ()


def test_two_processes_never_drive_one_run(tmp_path):
    store = FolderRunStore(tmp_path)
    code = f"""
import sys
from ace.agent import FolderRunStore
from ace.core import RunStoreError
try:
    with FolderRunStore({str(tmp_path)!r}).claim("r1"):
        print("got it")
except RunStoreError as error:
    print(error)
"""
    with store.claim("r1"):
        held = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    free = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "driven by another process" in held
    assert free == "got it\n"


def stopped_at(n, *replies, **options):
    """A run that is stored before its nth step and never does it."""
    saved = []

    class Died(BaseException):
        pass

    def save(run):
        saved.append(run.snapshot().to_json())
        if len(saved) == n:
            raise Died

    run = AgentRun(spec(**options))
    with pytest.raises(Died):
        drive(run, Script(*replies), save)
    return RunSnapshot.from_json(saved[-1])


def test_a_crash_inside_a_tool_that_may_be_repeated_repeats_it():
    stored = stopped_at(2, call("peek", key="a"), tools=[peek])
    events = []
    run = AgentRun.restore(stored, spec(tools=[peek], listeners=(events.append,)))
    run.resume()
    output = drive(run, Script(call("finish", answer="x")))
    assert (output.completed, output.structured_trace[0].outcome, output.structured_trace[0].attempts) == (
        True,
        "success",
        2,
    )
    assert [e.kind for e in events][:3] == ["run_continued", "tool_call_error", "tool_call_started"]
    assert events[0].seq == stored.seq


def test_a_crash_inside_another_tool_stops_and_asks():
    sent = []

    @tool
    def send(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    stored = stopped_at(2, call("send", text="a"), tools=[send])
    for decided, expected, observation in (("approve", ["a"], "sent"), ("deny", [], "The process died")):
        sent.clear()
        run = AgentRun.restore(stored, spec(tools=[send]))
        run.resume()
        output = drive(run, Script())
        assert (output.termination_reason, output.request.kind, sent) == ("interrupted", "unknown_effect", [])
        assert output.structured_trace[0].outcome == "interrupted"
        run = AgentRun.restore(RunSnapshot.from_json(run.snapshot().to_json()), spec(tools=[send]))
        run.resume(decided)
        output = drive(run, Script(call("finish", answer="x")))
        assert (output.completed, sent) == (True, expected)
        assert output.structured_trace[-1].observation.startswith(observation)


def test_a_crash_while_the_model_thinks_asks_again_and_books_the_lost_request():
    stored = stopped_at(1, tools=[peek])
    run = AgentRun.restore(stored, spec(tools=[peek]))
    run.resume()
    output = drive(run, Script(call("finish", answer="x")))
    assert (output.completed, output.usage.lm_calls) == (True, 2)


def test_every_stop_of_a_run_leads_to_the_same_end():
    replies = [call("peek", key="a"), call("peek", key="b"), call("nope"), call("finish"), extract("x")]
    policy = Policy.lenient()
    whole = drive(AgentRun(spec(tools=[peek], policy=policy)), Script(*replies))
    for n in range(1, 9):
        model = Script(*replies)
        saved = []

        class Died(BaseException):
            pass

        def save(run, saved=saved, n=n, died=Died):
            saved.append(run.snapshot().to_json())
            if len(saved) == n:
                raise died

        with pytest.raises(Died):
            drive(AgentRun(spec(tools=[peek], policy=policy)), model, save)
        run = AgentRun.restore(RunSnapshot.from_json(saved[-1]), spec(tools=[peek], policy=policy))
        run.resume()
        output = drive(run, model)
        assert output.answer == whole.answer
        assert [(s.tool_name, s.observation) for s in output.structured_trace] == [
            (s.tool_name, s.observation) for s in whole.structured_trace
        ]


def test_an_interrupted_state_says_what_it_waits_for():
    pay, _ = payments()
    run = AgentRun(spec(tools=[pay, peek]))
    drive(run, Script(call("pay", amount=1)))
    assert isinstance(run.state, Interrupted)
    assert run.state.resume().calls[0].status == "waiting"


def dispatched(tools, *calls, **options):
    """A stored run whose calls are out."""
    run = AgentRun(spec(tools=tools, **options))
    run.next_step()
    first, *more = calls
    run.model_replied(ModelReply(tool_name=first[0], tool_args=first[1], more=tuple(RequestedTool(*c) for c in more)))
    run.next_step()
    return RunSnapshot.from_json(run.snapshot().to_json()), run


def test_a_run_that_never_began_is_resumed_from_its_start():
    run = AgentRun.restore(AgentRun(spec(tools=[peek])).snapshot(), spec(tools=[peek]))
    run.resume()
    assert drive(run, Script(call("finish", answer="x"))).completed


def test_a_probe_that_was_cut_off_may_be_sent_again():
    from ace.agent import BreakerPolicy

    policy = Policy(tool_retry=None, breaker=BreakerPolicy(threshold=1, cooldown=0))
    faulty = FaultyTool(peek, ["exception"])
    clock = ManualClock()
    run = AgentRun(spec(tools=[faulty.tool], policy=policy, clock=clock))
    model = Script(call("peek", key="a"), call("peek", key="b"))
    for _ in range(2):
        run.next_step()
        run.model_replied(model.ask(None))
        step = run.next_step()
        if _ == 0:
            from ace.tools import call_tool

            run.tool_finished(call_tool(run.tool(step.call), step.call))
    assert run.record.breakers["peek"].state == "half_open"
    again = AgentRun.restore(run.snapshot(), spec(tools=[faulty.tool], policy=policy, clock=clock))
    again.resume()
    output = drive(again, Script(call("finish", answer="x")))
    assert [s.outcome for s in output.structured_trace] == ["failed", "success"]


def test_several_calls_that_were_cut_off_are_asked_about_together():
    stored, _ = dispatched([send, peek], ("send", {"text": "a"}), ("send", {"text": "b"}))
    run = AgentRun.restore(stored, spec(tools=[send, peek]))
    run.resume()
    assert [c.tool_call_id for c in run.state.request.calls] == ["s1-c1"]  # the second had not gone out
    run.resume("deny")
    output = drive(run, Script(call("finish", answer="x")))
    assert [s.outcome for s in output.structured_trace] == ["interrupted", "success"]


def test_changed_arguments_fit_one_call_only():
    pay = Tool.from_function(send.func, name="pay", requires_approval=True)
    run = AgentRun(spec(tools=[pay]))
    run.next_step()
    run.model_replied(ModelReply(tool_name="pay", tool_args={"text": "a"}, more=(RequestedTool("pay", {"text": "b"}),)))
    assert len(run.state.request.calls) == 2
    with pytest.raises(ResumeError, match="2 wait"):
        run.resume(Approve(args={"text": "c"}))
    run.resume(Approve())
    assert [s.outcome for s in drive(run, Script(call("finish", answer="x"))).structured_trace] == [
        "success",
        "success",
    ]


def test_a_result_that_was_settled_by_the_crash_is_fenced():
    stored, run = dispatched([peek], ("peek", {"key": "a"}))
    before = run.output()
    from ace.tools import ToolResult

    run.tool_finished(ToolResult(tool_call_id="s1-c1", outcome="success", text="one"))
    run.tool_finished(ToolResult(tool_call_id="s1-c1", outcome="success", text="two"))
    assert run.output().structured_trace[0].observation == "one"
    assert before.structured_trace == ()
    assert isinstance(run.state, Thinking)
    assert stored.state.calls[0].status == "out"
