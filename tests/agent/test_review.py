"""Regressions: defects that an independent review found."""

import subprocess
import sys
import threading
import time

import pytest
from agent.kit import Script, call, extract, peek, play, spec

from ace import CancellationToken, Policy, ReActGenerator, RetryPolicy, UsageLimits, current_context
from ace.agent import AgentRun, Interrupt, drive
from ace.core import InvalidModelAction, ModelTransport, ResumeError, RunStoreError, SignatureError
from ace.testing import FaultyTool, ManualClock, ScriptedLM, decision
from ace.tools import Tool, ToolCall, acall_tool, calculator, call_tool, tool

CALC = decision("calculator", expression="6 * 7")
END = decision("finish", answer="42")


def refunds():
    done = []

    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        done.append(order)
        time.sleep(0.05)
        return "refunded"

    return refund, done


def test_a_decision_is_used_once_also_in_memory():
    refund, done = refunds()
    agent = ReActGenerator(tools=[refund], lm=ScriptedLM([decision("refund", order="o"), END, END]))
    out = agent.run("x")
    threads = []
    errors = []

    def approve():
        try:
            agent.resume(out.run_id, "approve")
        except (RunStoreError, ResumeError) as error:
            errors.append(error)

    for _ in range(3):
        threads.append(threading.Thread(target=approve))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert done == ["o"]
    assert len(errors) == 2
    with pytest.raises(ResumeError):
        agent.resume(out.run_id, "approve")
    assert done == ["o"]


def test_isolation_works_as_a_decorator(tmp_path):
    (tmp_path / "jobs.py").write_text(
        "import subprocess, sys\nfrom ace import tool\n\n\n@tool(isolation='process', timeout=20)\ndef start(what: str) -> str:\n"
        '    """Start something that outlives the call."""\n'
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)'])\n"
        "    sys.stdout.buffer.write(b'\\xff')\n    return 'started ' + what\n"
    )
    code = (
        "import time\nfrom jobs import start\nfrom ace.tools import ToolCall, call_tool\nbegan = time.monotonic()\n"
        "print(call_tool(start, ToolCall(id='c', name='start', args={'what': 'it'})).text, time.monotonic() - began < 7)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "started it True\n", done.stderr[-1500:]


def test_arguments_that_no_longer_fit_are_a_failed_call(tmp_path):
    from pydantic import FilePath

    file = tmp_path / "x"
    file.write_text("x")

    def remove(path: FilePath) -> str:
        """Remove."""
        path.unlink()
        raise ConnectionError("lost")

    rm = Tool.from_function(remove, idempotent=True)
    output, _ = play(
        call("remove", path=str(file)),
        call("finish", answer="x"),
        tools=[rm],
        clock=ManualClock(),
        policy=Policy(tool_retry=RetryPolicy(initial_interval=0)),
    )
    assert (output.completed, output.structured_trace[0].error.kind) == (True, "invalid_args")


def test_odd_content_of_the_model_can_be_stored(tmp_path):
    deep = []
    for _ in range(300):
        deep = [deep]
    agent = ReActGenerator(
        tools=[calculator],
        lm=ScriptedLM([decision("calculator", expression=deep), decision("finish", answer="x")]),
        run_store=tmp_path,
        policy=Policy.replay(),
    )
    assert agent.run("x").error_history[0].kind == "invalid_args"
    run = AgentRun(spec(limits=UsageLimits(lm_calls=1)))
    output = drive(run, Script(extract("a\ud800b")), lambda run: run.snapshot().to_json())
    assert output.answer == "a?b"


def test_ctrl_c_tells_the_tools_that_are_out(monkeypatch):
    import queue

    signalled = []

    def wait() -> str:
        """Wait."""
        signalled.append(current_context().cancellation.wait(10))
        return "x"

    class Interrupted(queue.SimpleQueue):
        def get(self, timeout=None):
            time.sleep(0.1)
            raise KeyboardInterrupt

    monkeypatch.setattr("ace.tools.execution.queue.SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        call_tool(Tool.from_function(wait), ToolCall(id="c", name="wait"))
    until = time.monotonic() + 5
    while not signalled and time.monotonic() < until:
        time.sleep(0.01)
    assert signalled == [True]


def test_nested_agents_share_one_budget():
    @tool(read_only=True)
    def ask(question: str) -> str:
        """Ask an expert three times."""
        inner = ReActGenerator(tools=[calculator], lm=ScriptedLM([CALC, END] * 3))
        return " ".join(inner.run(question).termination_reason for _ in range(3))

    agent = ReActGenerator(
        tools=[ask], lm=ScriptedLM([decision("ask", question="q"), END]), limits=UsageLimits(lm_calls=5)
    )
    out = agent.run("x")
    assert out.usage.lm_calls <= 5
    assert "budget_exceeded" in out.structured_trace[0].observation


def test_what_a_nested_agent_spent_is_booked_when_its_tool_times_out():
    slow = FaultyTool(calculator, [None, "hang"])

    @tool(read_only=True, timeout=0.6)
    def ask(question: str) -> str:
        """Ask an expert who takes too long."""
        return ReActGenerator(tools=[slow.tool], lm=ScriptedLM([CALC, CALC, END])).run(question).answer

    agent = ReActGenerator(
        tools=[ask], lm=ScriptedLM([decision("ask", question="q"), END]), policy=Policy(tool_retry=None)
    )
    assert agent.run("x").usage.lm_calls == 4


def test_waiting_is_no_failure_to_raise():
    refund, _ = refunds()
    agent = ReActGenerator(tools=[refund], lm=ScriptedLM([decision("refund", order="o"), END]), raise_on_failure=True)
    assert agent.run("x").request is not None
    with pytest.raises(InvalidModelAction):
        ReActGenerator(tools=[], lm=ScriptedLM([decision("nope")]), raise_on_failure=True).run("x")


def test_a_stream_can_be_read_once_and_does_not_hang_afterwards():
    import asyncio

    with ReActGenerator(tools=[], lm=ScriptedLM([END])).stream("x") as stream:
        assert list(stream)
        assert list(stream) == []

    async def main():
        async with ReActGenerator(tools=[], lm=ScriptedLM([END])).astream("x") as stream:
            return [len([e async for e in stream]), len([e async for e in stream])]

    assert asyncio.run(main())[1] == 0


def test_a_retry_leaves_a_request_for_the_last_answer():
    policy = Policy(model_retry=RetryPolicy(initial_interval=0))
    output, model = play(ModelTransport("down"), extract("forced"), policy=policy, limits=UsageLimits(lm_calls=2))
    assert (output.answer, output.usage.lm_calls, model.asked[-1].purpose) == ("forced", 2, "extract")


def test_going_on_does_not_go_over_the_limits():
    class Stops(Policy):
        def on_no_progress(self, state, call, times):
            return Interrupt("look")

    def one(policy=None):
        return spec(tools=[peek], max_iters=3, policy=policy or Stops())

    run = AgentRun(one())
    drive(run, Script(*[call("peek", key="a")] * 3))
    again = AgentRun.restore(run.snapshot(), one())
    again.resume()
    output = drive(again, Script(extract("x")))
    assert (output.usage.iterations, output.termination_reason) == (3, "max_iterations")


def test_rendering_a_result_is_the_tools_own_time():
    class Slow:
        def __str__(self):
            time.sleep(0.8)
            return "late"

    async def slow() -> object:
        """Give something that is slow to show."""
        return Slow()

    import asyncio

    made = Tool.from_function(slow, timeout=0.2)
    started = time.monotonic()
    assert asyncio.run(_quick(made)).error_kind == "timeout"
    assert call_tool(made, ToolCall(id="c", name="slow")).error_kind == "timeout"
    assert time.monotonic() - started < 5
    time.sleep(1.0)  # let the abandoned threads end before the interpreter does


async def _quick(made):
    return await acall_tool(made, ToolCall(id="c", name="slow"))


def test_a_retry_needs_a_tool_call_left():
    faulty = FaultyTool(peek, then="network")
    output, _ = play(
        call("peek", key="a"), extract("x"), tools=[faulty.tool], limits=UsageLimits(tool_calls=1), clock=ManualClock()
    )
    step = output.structured_trace[0]
    assert (step.outcome, step.error.kind, step.executed) == ("failed", "network", True)


def test_a_streamed_run_inside_a_tool_ends_with_the_outer_one():
    token, ends = CancellationToken(), []
    slow = FaultyTool(calculator, ["hang"])

    @tool(read_only=True)
    def ask(question: str) -> str:
        """Ask an expert."""
        with ReActGenerator(tools=[slow.tool], lm=ScriptedLM([CALC])).stream(question) as stream:
            ends.append([event.kind for event in stream][-1])
        return "?"

    threading.Timer(0.3, token.cancel).start()
    ReActGenerator(tools=[ask], lm=ScriptedLM([decision("ask", question="q")])).run("x", cancellation=token)
    until = time.monotonic() + 5
    while not ends and time.monotonic() < until:
        time.sleep(0.01)
    assert ends == ["run_cancelled"]


def test_a_limit_in_dollars_needs_prices_for_each_call_too():
    with pytest.raises(SignatureError, match="prices"):
        ReActGenerator(tools=[], lm=ScriptedLM([END])).run("x", limits=UsageLimits(cost=1.0))
