"""What tracers that people already run see of a run."""

import json
import subprocess
import sys

import dspy
import pytest
from conftest import ROOT

from ace import Playbook, ReActGenerator
from ace.playbook import CallableEmbedder
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import tool
from benchmarks.dropin import spans as dropin_spans

pytest.importorskip("opentelemetry.sdk", reason="no tracer: pip install 'dspy-ace[dev]'")
TOY = CallableEmbedder("toy", lambda texts: [[float(len(text)), 1.0] for text in texts])


def test_each_call_is_seen_once_with_parent_and_error(tmp_path):
    pytest.importorskip("openinference.instrumentation.dspy", reason="no tracer: pip install 'dspy-ace[dev]'")
    out = tmp_path / "out.json"
    subprocess.run([sys.executable, ROOT / "benchmarks" / "dropin" / "spans.py", out], check=True, capture_output=True)
    report = json.loads(out.read_text())
    assert (report["wrong"], report["checked"]) == (0, 12), report["examples"]


def test_what_runs_inside_a_tool_has_it_as_parent_also_side_by_side():
    @tool(read_only=True)
    def look_up(key: str) -> str:
        """Look up."""
        model = FunctionLM("t/inner", lambda prompt: "[[ ## answer ## ]]\nx")
        return dspy.Predict("question -> answer")(question=key, lm=model).answer

    parents = []

    class Heard(dropin_spans.Heard):
        def on_module_start(self, call_id, instance, inputs):
            parents.append((type(instance).__name__, dspy.utils.callback.ACTIVE_CALL_ID.get()))
            super().on_module_start(call_id, instance, inputs)

    heard = Heard()
    both = [("look_up", {"key": key}) for key in "ab"]
    lm = dropin_spans.CallingLM([both, [("finish", {"answer": "done"})]])
    with dspy.context(callbacks=[heard]):
        ReActGenerator(tools=[look_up], lm=lm, tool_calling="native")(task="x")
    inner = [parent for name, parent in parents if heard.open.get(parent or "", ("",))[0] == "look_up"]
    assert len(set(inner)) == len(inner) == 2


def test_retrieval_and_learning_are_modules_of_their_own():
    seen = []

    class Heard(dropin_spans.Heard):
        def on_module_start(self, call_id, instance, inputs):
            parent = self.open.get(dspy.utils.callback.ACTIVE_CALL_ID.get() or "", ("", ""))[0]
            seen.append((type(instance).__name__, parent))
            super().on_module_start(call_id, instance, inputs)

    agent = ReActGenerator(
        tools=[dropin_spans.look_up, dropin_spans.fail],
        lm=ScriptedLM(dropin_spans.SCRIPT),
        playbook=Playbook(embedder=TOY),
    )
    with dspy.context(callbacks=[Heard()]):
        agent.learn(agent(task="x"), success=True)
    assert {("PlaybookRetrieval", "ReActGenerator"), ("PlaybookLearning", "")} <= set(seen)


def test_spans_of_a_run_are_written_as_json_lines(tmp_path):
    file = tmp_path / "spans.jsonl"
    arguments = ["run", "--suite", "office", "--task", "refund#0", "--lm", "simulated:oracle", "--trace", str(file)]
    subprocess.run([sys.executable, "-m", "ace", *arguments], check=True, capture_output=True)
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    agent = next(span for span in spans if span["name"] == "invoke_agent ReActGenerator")
    tools = [span for span in spans if span["name"].startswith("execute_tool ")]
    assert len(tools) >= 2
    assert {span["parent_id"] for span in tools} == {agent["context"]["span_id"]}
    assert agent["attributes"]["gen_ai.usage.input_tokens"] > 0
    assert "arguments" not in str(spans)  # contents are left out unless they are asked for


def test_track_usage_counts_all_calls():
    with dspy.context(track_usage=True):
        out = ReActGenerator(tools=[dropin_spans.fail], lm=ScriptedLM(dropin_spans.SCRIPT[1:]))(task="x")
    assert sum(usage["prompt_tokens"] for usage in out.get_lm_usage().values()) == out.usage.input_tokens


def test_spans_cost_nothing_without_a_provider():
    from ace.react.spans import traced

    assert not traced()


def test_a_tool_may_have_an_argument_that_dspy_has_too():
    @tool(read_only=True)
    def start(instance: str) -> str:
        """Start an instance."""
        return f"{instance} runs"

    lm = ScriptedLM([decision("start", instance="i-1"), decision("finish", answer="ok")])
    with dspy.context(callbacks=[dropin_spans.Heard()]):
        out = ReActGenerator(tools=[start], lm=lm)(task="x")
    assert out.structured_trace[0].observation == "i-1 runs"


def test_hundreds_of_calls_side_by_side_are_seen():
    @tool(read_only=True)
    def look_up(key: str) -> str:
        """Look up."""
        return key

    many = [("look_up", {"key": str(n)}) for n in range(200)]
    lm = dropin_spans.CallingLM([many, [("finish", {"answer": "done"})]])
    heard = dropin_spans.Heard()
    with dspy.context(callbacks=[heard]):
        out = ReActGenerator(tools=[look_up], lm=lm, tool_calling="native")(task="x")
    assert [step.observation for step in out.structured_trace] == [str(n) for n in range(200)]


def test_calls_that_are_watched_leave_the_threads_of_the_tools_to_the_tools():
    # in a process of its own, where no tool has a thread yet: with two threads all were taken by what waited for a third
    script = """
import json

import dspy

from ace import ReActGenerator
from ace.testing import ScriptedLM, decision
from ace.tools import calculator
from ace.tools.threads import TOOLS

class Heard(dspy.utils.callback.BaseCallback):
    pass

TOOLS.size = 2
sums = [{"name": "calculator", "args": {"expression": f"{n} + 1"}} for n in range(20)]
lm = ScriptedLM([json.dumps(sums), decision("submit", answer="done")])
with dspy.context(callbacks=[Heard()]):
    out = ReActGenerator(tools=[calculator], lm=lm)(task="x")
print([step.observation for step in out.structured_trace])
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=25)
    assert ran.stdout.strip() == str([str(n + 1) for n in range(20)])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_tracer_that_fails_does_not_end_the_run(monkeypatch, when):
    made = []

    @tool
    def count() -> str:
        """Count."""
        made.append(1)
        return "one"

    real = dspy.Tool.__call__

    def broken(self, *args, **kwargs):
        if when == "after":
            real(self, *args, **kwargs)
        raise ValueError("the tracer broke")

    monkeypatch.setattr(dspy.Tool, "__call__", broken)
    lm = ScriptedLM([decision("count"), decision("finish", answer="ok")])
    out = ReActGenerator(tools=[count], lm=lm)(task="x")
    assert (out.answer, out.structured_trace[0].observation, made) == ("ok", "one", [1])
