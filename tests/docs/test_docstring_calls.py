"""Every public class and function shows a call in its docstring, and the calls run.

A call stands after ``>>>``, which the doctests run, or in backticks in a sentence. The latter run here, with all public
names and with what such sentences speak of: `agent`, `book`, `suite` and so on.
"""

import ast
import asyncio
import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import dspy
import langchain_core.tools
import pytest
from conftest import letters
from langgraph.graph import StateGraph
from public_names import docstring, documented, exported

from ace import Policy, ReActGenerator, TaskInput, tool
from ace.agent import AgentRun, AgentState, MemoryRunStore, ModelReply, RunSpec
from ace.core import InvalidModelAction, RunUsage
from ace.evaluation.models import choose_model
from ace.evaluation.study import Study, StudyConfig
from ace.graph import JsonlCheckpointer, compile
from ace.learner import Learner
from ace.optimization import suite_workload
from ace.playbook import CallableEmbedder, Playbook, PlaybookBullet
from ace.serve import SharedMemory
from ace.suites import load_suite
from ace.testing import ScriptedLM, SimulatedLM, decision
from ace.tools import Tool, ToolCall, ToolRegistry, call_tool

TEXTS = {name: docstring(value) for name, value in documented().items()}
PUBLIC = {name: getattr(importlib.import_module(p), name) for p, names in exported().items() for name in names}
SPOKEN_OF = frozenset(
    "Path agent asyncio book learner memory next policy saver source state study".split()  # noqa: SIM905
)
"""What a call begins with, apart from public names; `next_step()` alone does not say whose method it is, and is not run."""


def calls_of(text):
    """What stands in backticks and calls something that a reader knows."""
    found = []
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        try:
            tree = ast.parse(code, mode="eval")
        except SyntaxError:
            continue
        first = re.match(r"\w*", code)[0]
        if any(isinstance(node, ast.Call) for node in ast.walk(tree)) and (first in PUBLIC or first in SPOKEN_OF):
            found.append(code)
    return found


INLINE = {name: calls_of(text) for name, text in TEXTS.items() if ">>>" not in text}


def test_every_public_class_and_function_shows_a_call():
    assert [name for name, calls in INLINE.items() if not calls] == []
    assert calls_of("`Playbook`, `tool(x)`, ``tool(y)``, `next_step()` and `not python(`") == ["tool(x)"]


@tool(read_only=True)
def look_up(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


@tool(requires_approval=True)
def pay(amount: float) -> str:
    """Pay."""
    return f"{amount} paid"


def finish(answer: str) -> None:
    """End."""


def answers():
    return ScriptedLM([decision("look_up", key="a"), decision("finish", answer="42")])


class Source:
    """What a package registers under ``ace.models``."""

    def choose(self, spec, argument, suite):
        return choose_model("simulated", suite)


class Answers42:
    """What `drive` asks."""

    def ask(self, request):
        return ModelReply(outputs={"answer": "42"})

    async def aask(self, request):
        return self.ask(request)


OF_MCP = SimpleNamespace(
    name="remote", description="A tool of a server.", annotations=None, inputSchema={"type": "object", "properties": {}}
)


TALK = [
    {"role": "user", "content": "Look up the key a"},
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look_up", "arguments": '{"key": "a"}'}}]},
    {"role": "tool", "tool_call_id": "c", "content": "value of a"},
    {"role": "assistant", "content": "It is value of a."},
]


def spoken_of(folder):
    """What the sentences speak of, each new for every call."""
    (folder / "tasks.jsonl").write_text(
        '{"id": "t", "task": "x", "gold": [{"name": "look_up", "args": {"key": "a"}}]}\n'
    )
    (folder / "tools.py").write_text('def look_up(state, key: str) -> str:\n    """Look a key up."""\n    return key\n')
    book = Playbook(embedder=CallableEmbedder("letters", letters))
    book.add(section="Strategies", content="Look it up first.")
    store = MemoryRunStore()
    agent = ReActGenerator(tools=[look_up, pay], lm=answers(), run_store=store, raise_on_failure=True)
    (folder / "job").mkdir()
    agent.save(folder / "job" / "program.json")
    asking = ReActGenerator(tools=[look_up, pay], lm=ScriptedLM([decision("pay", amount=2.5)]), run_store=store)
    registry, suite = ToolRegistry([look_up]), load_suite("office")
    task, call = TaskInput(inputs={"task": "x"}), ToolCall(id="call-1", name="look_up", args={"key": "a"})
    spec = RunSpec(task=task, registry=registry, finish=Tool.from_function(finish), max_iters=0)
    graph = StateGraph(dict)
    graph.add_node("plan", lambda state: state)
    graph.set_entry_point("plan")
    graph.set_finish_point("plan")
    looping = StateGraph(dict)
    looping.add_node("plan", lambda state: state)
    looping.set_entry_point("plan")
    looping.add_edge("plan", "plan")
    with compile(graph).stream({}) as stream:
        graph_events = list(stream)
    with ReActGenerator(tools=[look_up], lm=answers()).stream("x") as stream:
        events = list(stream)
    study = Study(StudyConfig("office", "simulated:oracle", "none", limit=1, out=folder / "study"))
    examples = [dspy.Example(task="x", answer="42").with_inputs("task")]
    return {
        "Path": Path,
        "agent": agent,
        "asyncio": asyncio,
        "book": book,
        "memory": SharedMemory(book),
        "messages": TALK,
        "bullet": PlaybookBullet(section="Strategies", content="Find the order first."),
        "call": call,
        "cases": None,
        "choice": choose_model("simulated:oracle", suite),
        "embedder": CallableEmbedder("letters", letters),
        "error": InvalidModelAction("unknown_tool", "no tool 'x'"),
        "events": events,
        "examples": {"trainset": examples, "valset": examples, "testset": examples},
        "finish": spec.finish,
        "graph": graph,
        "graph_events": graph_events,
        "langchain_tool": langchain_core.tools.tool(answer),
        "learner": Learner(book),
        "looping": looping,
        "lm": SimulatedLM(suite),
        "look_up": look_up,
        "mcp_tool": OF_MCP,
        "metric": lambda example, prediction, trace=None: True,
        "model": Answers42(),
        "policy": Policy(),
        "program": dspy.ReAct("question -> answer", tools=[answer]),
        "registry": registry,
        "result": call_tool(look_up, call),
        "run": AgentRun(spec),
        "saver": JsonlCheckpointer(folder / "threads"),
        "session": SimpleNamespace(call_tool=None),
        "source": Source(),
        "spec": spec,
        "state": AgentState("x", 0, "t", attempt=1, reprompts=0, usage=RunUsage()),
        "study": study,
        "suite": suite,
        "task": task,
        "waiting": asking.forward("x"),
        "workload": suite_workload(suite, train=2, val=2, test=2),
    }


def answer(question: str) -> str:
    """Answer a question."""
    return question


@pytest.mark.parametrize("name", sorted(name for name, calls in INLINE.items() if calls))
def test_the_call_in_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known, shown = {**PUBLIC, **spoken_of(tmp_path)}, PUBLIC[name]
    raised = isinstance(shown, type) and issubclass(shown, Exception)
    for code in INLINE[name]:
        if raised and not code.startswith(name):
            with pytest.raises(shown):
                eval(code, known)
        else:
            assert isinstance(eval(code, known), shown if raised else object)
