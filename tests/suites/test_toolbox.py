"""Tools of a suite, from a file."""

import json

import pytest
from suite_shop import SHOP, rows, run, write

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites import load_suite
from ace.suites.check import check_suite
from ace.suites.files import FileSuite
from ace.suites.toolbox import state_digest
from ace.testing import ScriptedLM, decision
from ace.testing.engine import render_reply

TAU_TOOLS = """
import json


class FindOrder:
    @staticmethod
    def invoke(data, order_id: str) -> str:
        return json.dumps(data["orders"].get(order_id, "Error: order not found"))

    @staticmethod
    def get_info():
        return {"type": "function", "function": {"name": "find_order", "description": "Look an order up.", "parameters": {
            "type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}}}


class CancelOrder:
    @staticmethod
    def invoke(data, order_id: str) -> str:
        data["orders"][order_id] = "cancelled"
        return "ok"

    @staticmethod
    def get_info():
        return {"type": "function", "function": {"name": "cancel_order", "description": "Cancel an order.", "parameters": {
            "type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}}}


ALL_TOOLS = [FindOrder, CancelOrder]
READ_ONLY = ["find_order"]
"""


def test_tools_as_tau_bench_writes_them(tmp_path):
    tasks = [
        {"annotator": "1", "user_id": "u1", "instruction": "Cancel order 17, and say what it was.",
         "actions": [{"name": "cancel_order", "kwargs": {"order_id": "17"}}], "outputs": ["1,250", "shoes"]},
        {"instruction": "Cancel order 18.", "actions": [{"name": "cancel_order", "arguments": {"order_id": "18"}}], "outputs": []},
    ]  # fmt: skip
    write(tmp_path, [], TAU_TOOLS)
    (tmp_path / "tasks.jsonl").unlink()
    (tmp_path / "tools.py").unlink()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text(TAU_TOOLS, encoding="utf-8")
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    (tmp_path / "wiki.md").write_text("You work for a shop.", encoding="utf-8")
    suite = load_suite(f"tau:{tmp_path}")
    assert suite.instructions == "You work for a shop."
    assert check_suite(suite).tasks.problems == []
    assert [attempt.feedback.success for attempt in run(suite)] == [True, True]
    lm = ScriptedLM(
        [
            decision("cancel_order", order_id="17"),
            decision("finish"),
            render_reply(reasoning="-", answer="1250 for shoes"),
        ]
    )
    (attempt,) = evaluate(suite, lambda seed: lm, tasks=suite.tasks[:1])
    assert attempt.feedback.success, attempt.feedback


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("def f(x):", "cannot import .*IndentationError"),
        ("x = 1", "there is no tool"),
        (SHOP.replace('{"find_order"}', '{"find"}'), "READ_ONLY names .'find'"),
        ("raise SystemExit(3)", "cannot import"),
        (SHOP + "\ndef load_state():\n    return 1 / 0\n", "load_state.. failed: ZeroDivisionError"),
    ],
)
def test_bad_tools_are_named(tmp_path, tools, message):
    with pytest.raises(SuiteError, match=message):
        FileSuite.from_folder(write(tmp_path, rows(), tools))


WORLD = """
from dataclasses import dataclass, field


@dataclass
class Shop:
    cancelled: set = field(default_factory=set)
    stock: dict = field(default_factory=lambda: {1: "pen", "1": "ink"})


def load_state():
    return Shop()


def cancel(state, order: str) -> str:
    \"\"\"Cancel an order.\"\"\"
    state.cancelled.add(order)
    return "ok"


def remember(state, items: list[str]) -> str:
    \"\"\"Keep a list.\"\"\"
    state.kept = items
    items.append("seen")
    return "ok"
"""


def test_worlds_may_be_objects_and_tools_may_keep_what_they_are_given(tmp_path):
    gold = [{"name": "cancel", "args": {"order": name}} for name in ("a", "b", "c")]
    tasks = [
        {"id": "objects", "task": "Cancel a, b and c", "gold": gold},
        {"id": "lists", "task": "Remember x", "gold": [{"name": "remember", "args": {"items": ["x"]}}]},
    ]
    folder = write(tmp_path, tasks, WORLD)
    (folder / "state.json").unlink()
    suite = FileSuite.from_folder(folder)
    for _ in range(2):
        report = check_suite(suite).tasks
        assert (report.problems, report.oracle_right, report.empty_wrong) == ([], 2, 2)
    assert suite.tasks[1].gold[0].args == {"items": ["x"]}
    assert state_digest({"b", "a"}) == state_digest({"a", "b"})
    assert state_digest({1: 0}) != state_digest({"1": 0})
    looped = {}
    looped["self"] = looped
    with pytest.raises(SuiteError, match="holds itself"):
        state_digest(looped)
    with pytest.raises(SuiteError, match="generator, which cannot be compared"):
        state_digest({"x": (n for n in ())})
