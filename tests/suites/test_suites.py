"""Suites of one's own: files, tau-bench folders, BFCL, DSPy examples; scorers, splits and lint."""

import json
from datetime import datetime

import dspy
import pytest

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites import load_suite, split
from ace.suites.check import check_suite
from ace.suites.examples import ExamplesSuite
from ace.suites.files import FileSuite
from ace.suites.scoring import Finished, all_of, by_answer, by_judge, by_mention
from ace.suites.toolbox import state_digest
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.testing import ScriptedLM, SimulatedLM, decision
from ace.testing.engine import FunctionLM, render_reply

SHOP = '''
"""A shop."""
from typing import Any

READ_ONLY = {"find_order"}


def find_order(state: dict[str, Any], order: str) -> str:
    """Look an order up."""
    return state["orders"].get(order, "Error: order not found")


def refund(state: dict[str, Any], order: str, amount: float = 10.0) -> str:
    """Refund an order."""
    state.setdefault("refunds", []).append([order, amount])
    return "done"
'''
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


def rows():
    for number in range(6):
        call = {"name": "refund", "args": {"order": f"o{number}"}}
        yield {
            "id": f"refund-{number}",
            "task": f"Refund order o{number}",
            "gold": [{"name": "find_order", "args": {"order": f"o{number}"}}, call],
            "family": f"refunds {number % 2}",
            "split": "train" if number < 2 else "test",
            "time": f"2026-01-0{9 - number}",
        }
    yield {"id": "status", "task": "What is the status of o1?", "answer": ["open", "not closed"], "gold": [], "split": "train",
           "time": "2026-01-01T00:00:00Z"}  # fmt: skip


def write(folder, tasks, tools=SHOP):
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tasks), encoding="utf-8")
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    state = {"orders": {f"o{n}": "open" for n in range(6)}}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path):
    return FileSuite.from_folder(write(tmp_path, rows()))


def run(suite, arms=("none",), lm="oracle", **options):
    return list(evaluate(suite, lambda seed: SimulatedLM(suite, lm, seed=seed), arms=arms, **options))


def test_a_folder_of_tasks_runs_each_in_a_fresh_world(shop):
    assert check_suite(shop).tasks.problems == []
    runs = run(shop, workers=3)
    assert len(runs) == 7
    assert all(attempt.feedback.success for attempt in runs)
    assert shop.writing_tools == {"refund"}
    assert "refunds" not in shop.world
    # everything it does wrong is seen: the stand-in without notes fails some, and their states differ from the goal's
    wrong = [attempt for attempt in run(shop, lm="learner", seeds=range(4)) if not attempt.feedback.success]
    assert wrong
    assert all(set(attempt.report().tables_sha256) == {"state"} for attempt in wrong)


def test_a_file_of_tasks_finds_its_tools(tmp_path):
    folder = write(tmp_path, [{**row, "state": {"orders": {f"o{n}": "open" for n in range(6)}}} for row in rows()])
    (folder / "other.py").write_text(SHOP, encoding="utf-8")
    for spec in (f"{folder}/tasks.jsonl", f"{folder}/tasks.jsonl:{folder}/other.py"):
        suite = load_suite(spec)
        assert suite.name == "tasks"
        assert check_suite(suite).tasks.oracle_right == 7


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


def test_the_check_finds_what_is_wrong_with_a_suite(tmp_path):
    broken = [
        {"id": "name", "task": "a", "gold": [{"name": "refnd", "args": {}}]},
        {"id": "idle", "task": "b", "gold": [{"name": "find_order", "args": {"order": "o1"}}]},
        {"id": "fails", "task": "c", "gold": [{"name": "find_order", "args": {"order": "o99"}}]},
    ]
    report = check_suite(FileSuite.from_folder(write(tmp_path, broken))).tasks
    assert len(report.problems) == 2
    assert "did you mean 'refund'" in report.problems[0]
    assert "order not found" in report.problems[1]
    generous = ExamplesSuite(
        [dspy.Example(question="q", answer="a").with_inputs("question")], lambda example, got: True
    )
    assert check_suite(generous).tasks.problems[0].endswith("doing nothing is scored right")
    fragile = ExamplesSuite([dspy.Example(question="q").with_inputs("question")], lambda example, got: example.answer)
    assert "the scorer fails with" in check_suite(fragile).tasks.problems[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task": "x"}, "does not say what makes a run right"),
        ({"task": "x", "score": ["judge"], "answer": "y"}, "right by judge"),
        ({"task": "x", "gold": [], "gould": 1}, "task 1: gould: Extra inputs"),
        ({"gold": []}, "task 1: task: Field required"),
        ({"task": "x", "answer": []}, "does not say what makes a run right"),
        ({"task": "x", "gold": [], "split": "dev"}, "'train' or 'test'"),
        ({"task": "x", "gold": [], "time": "yesterday"}, "task 1: time"),
    ],
)
def test_a_bad_row_is_named(tmp_path, row, message):
    with pytest.raises(SuiteError, match=message):
        FileSuite.from_folder(write(tmp_path, [row]))


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


def test_missing_files_are_named(tmp_path):
    with pytest.raises(SuiteError, match=r"has no tasks\.jsonl"):
        load_suite(f"tau:{tmp_path}")
    with pytest.raises(SuiteError, match="there is no folder"):
        load_suite(f"tau:{tmp_path}/nowhere")
    with pytest.raises(SuiteError, match="holds no task"):
        FileSuite.from_folder(write(tmp_path, []))
    with pytest.raises(SuiteError, match="'refund-0' twice"):
        FileSuite.from_folder(write(tmp_path, [*rows(), *rows()]))
    with pytest.raises(SuiteError, match="no suite 'nonsense'"):
        load_suite("nonsense")


def test_an_evaluation_goes_on_only_with_the_tools_it_began_with(tmp_path):
    before = FileSuite.from_folder(write(tmp_path, rows()))
    assert FileSuite.from_folder(tmp_path).source == before.source
    (tmp_path / "tools.py").write_text(SHOP.replace('return "done"', 'return "refunded"'), encoding="utf-8")
    after = FileSuite.from_folder(tmp_path)
    assert after.source != before.source
    names = {"find_order": {"order": "o1"}, "refund": {"order": "o1"}}
    found = [after.toolbox.registry({"orders": {}}).get(name).func(**args) for name, args in names.items()]
    assert found == ["Error: order not found", "refunded"]


def test_files_of_a_windows_editor_and_numbers_are_read(tmp_path):
    folder = write(tmp_path, [])
    lines = [{"id": 7, "task": "Wie viele?", "answer": 3.5}, {"id": 8, "task": "Find o1", "outputs": [1, "o1"]}]
    text = "\r\n".join(json.dumps(line) for line in lines)
    (folder / "tasks.jsonl").write_text(f"\ufeff{text}\r\n", encoding="utf-8")
    (folder / "state.json").write_text('\ufeff{"orders": {}}', encoding="utf-8")
    suite = FileSuite.from_folder(folder)
    assert [(task.id, task.answer) for task in suite.tasks] == [("7", "3.5"), ("8", "1, o1")]
    with pytest.raises(SuiteError, match=r"no task of .* has one"):
        evaluate(suite, lambda seed: SimulatedLM(suite), arms=("gold",))


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


def test_a_file_of_tasks_finds_its_world_and_a_goal_that_is_not_reached_is_none(tmp_path):
    folder = write(tmp_path, rows())
    assert all(attempt.feedback.success for attempt in run(load_suite(f"{folder}/tasks.jsonl")))
    (folder / "state.json").unlink()
    with pytest.raises(SuiteError, match="reference solution of task 'refund-0' fails at find_order"):
        run(load_suite(f"{folder}/tasks.jsonl"))


def test_tasks_without_families_are_split_by_chance(tmp_path):
    alone = [{**row, "family": "", "split": ""} for row in rows()]
    first, second = split(FileSuite.from_folder(write(tmp_path, alone)).tasks)
    assert sorted((len(first), len(second))) == [3, 4]


def test_a_suite_of_ones_own_making(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ace.suites.examples import ExamplesSuite\nimport dspy\n"
        "def make():\n"
        "    asked = [dspy.Example(question=f'{n}+1', answer=str(n + 1)).with_inputs('question') for n in range(3)]\n"
        "    return ExamplesSuite(asked, lambda example, prediction: prediction.answer == example.answer)\n"
        "nothing = 3\n",
        encoding="utf-8",
    )
    assert len(load_suite(f"{tmp_path}/mine.py:make").tasks) == 3
    with pytest.raises(SuiteError, match=r"'nothing' in .* is no suite"):
        load_suite(f"{tmp_path}/mine.py:nothing")


def test_examples_with_a_metric():
    examples = [
        dspy.Example(city="Rome", country="Italy", people=3, family="capitals").with_inputs("city"),
        dspy.Example(city="Bonn", country="Germany", people=1).with_inputs("city"),
    ]

    def metric(example, prediction, trace=None):
        return dspy.Prediction(score=0.9 if prediction.country == example.country else 0.1, feedback="look it up")

    def look_up(city: str) -> str:
        """Find a city's country."""
        return "Italy"

    suite = ExamplesSuite(examples, metric, tools=[look_up], signature="city -> country, people: int")
    assert [task.group for task in suite.tasks] == ["capitals", suite.tasks[1].id]
    assert check_suite(suite).tasks.problems == []

    def answer(prompt):
        if "next_tool_name" not in prompt.wants:
            return render_reply(reasoning="-", country="Italy", people=3)
        return decision("finish") if prompt.steps else decision("look_up", city=prompt.fields["city"])

    found = {a.task.id: a.feedback for a in evaluate(suite, lambda seed: FunctionLM("f/f", answer), engine="asyncio")}
    assert [found[task.id].success for task in suite.tasks] == [True, False]
    assert found[suite.tasks[1].id].text == "look it up"
    with pytest.raises(SuiteError, match="of an earlier one"):
        ExamplesSuite([*examples, examples[0]], metric, signature="city -> country")
    with pytest.raises(SuiteError, match="has no inputs"):
        ExamplesSuite([dspy.Example(city="Rome")], metric, signature="city -> country")


def test_splits(shop):
    sizes = {how: tuple(map(len, split(shop.tasks, how))) for how in ("", "own", "halves", "random:0.3", "time:0.6")}
    assert sizes == {"": (3, 4), "own": (3, 4), "halves": (5, 2), "random:0.3": (2, 5), "time:0.6": (4, 3)}
    first, second = split(shop.tasks, "family:0.4", seed=3)
    assert not {task.group for task in first} & {task.group for task in second}
    first, second = split(shop.tasks, "time:0.5")
    whens = [task.time.replace(tzinfo=None) for task in (*first, *second)]
    assert whens == sorted(whens)
    assert isinstance(whens[0], datetime)
    assert split(shop.tasks, "random", seed=1) == split(shop.tasks, "random", seed=1)
    office = load_suite("office").tasks
    for how, message in (("own", "200 do not"), ("time", "have none"), ("thirds", "no split"), ("random:2", "between 0 and 1"),
                         ("halves:0.2", "no split")):  # fmt: skip
        with pytest.raises(SuiteError, match=message):
            split(office, how)
    with pytest.raises(SuiteError, match="leaves one part empty"):
        split(office[:1])


def output(answer, completed=True):
    task = TaskInput(task_id="t", inputs={"task": "what?"})
    return TaskOutput(
        task_id="t",
        run_id="r",
        task=task,
        answer=answer,
        termination_reason="completed" if completed else "max_iterations",
    )


@pytest.mark.parametrize(
    ("scorer", "answer", "right"),
    [
        (by_answer("Yes"), " yes. ", True),
        (by_answer("Yes", "y"), "Y", True),
        (by_answer("1.5"), "15", False),
        (by_answer("-5"), "5", False),
        (by_answer("5"), ".5", False),
        (by_answer("0.5"), ".5", True),
        (by_answer("12345678901"), "12345678902", False),
        (by_answer("007"), "7", False),
        (by_answer("0.333333333333"), "0.3333333333334", True),
        (by_mention("5"), "-5", False),
        (by_mention("327"), "it is $327.00", True),
        (by_mention("5"), "2024-05-11", False),
        (by_answer("1200"), "$1,200.00", True),
        (by_answer("open"), None, False),
        (by_mention("5"), "15 of them", False),
        (by_mention("5"), "it is 5.", True),
        (by_mention("5"), "it is 5.2", False),
        (by_mention("Blue shoes", "1250"), "1,250 for BLUE  shoes!", True),
        (by_mention("a.b"), "axb", False),
    ],
)
def test_answers(scorer, answer, right):
    assert scorer(Finished(None, output(answer))).success is right
    assert not scorer(Finished(None, output(answer, completed=False))).success


def test_a_judge_sees_the_calls_and_is_asked_last(tmp_path):
    asked = []

    def verdict(prompt):
        asked.append(prompt.fields)
        return render_reply(reason="so it is", correct="polite" in prompt.fields["answer"])

    judge = FunctionLM("judge/judge", verdict)
    task = {
        "id": "j",
        "task": "Refund o1",
        "gold": [{"name": "refund", "args": {"order": "o1"}}],
        "criteria": "It is polite.",
    }
    suite = FileSuite.from_folder(write(tmp_path, [task]), judge)
    found = []
    for tone, order in (("polite", "o1"), ("rude", "o1"), ("polite", "o2")):
        lm = ScriptedLM([decision("refund", order=order), decision("finish"), render_reply(reasoning="-", answer=tone)])
        (attempt,) = evaluate(suite, lambda seed, lm=lm: lm)
        found.append((attempt.feedback.success, attempt.feedback.text))
    assert found == [(True, ""), (False, "the judge says: so it is"), (False, "the final state is wrong after refund")]
    assert len(asked) == 2
    assert "refund({'order': 'o1'}) -> done" in asked[0]["calls"]
    with pytest.raises(SuiteError, match="--judge-lm"):
        FileSuite.from_folder(tmp_path).episode(suite.tasks[0])
    assert all_of([by_judge(judge, "x")])(Finished(suite.tasks[0], output("polite"))) == Feedback(
        success=True, details={"judge_right": True, "judge_reason": "so it is"}
    )


def test_bfcl_turns_begin_where_the_reference_leaves_the_ones_before():
    pytest.importorskip("bfcl_eval", reason="needs bfcl-eval: pip install --no-deps bfcl-eval")
    suite = load_suite("bfcl")
    assert len(suite.tasks) == 734
    assert len({task.group for task in suite.tasks}) == 200
    some = suite.tasks[::9]
    runs = list(evaluate(suite, lambda seed: SimulatedLM(suite, "oracle"), tasks=some, workers=2))
    assert all(attempt.feedback.success for attempt in runs), [a.task.id for a in runs if not a.feedback.success]
    class_of = {task.id: task for task in suite.tasks}
    second = class_of["multi_turn_base_0#1"]
    assert second.task.text.startswith("User: Move 'final_report.pdf'")
    idle = suite.episode(second)
    assert not idle.score(output("done")).success
    with pytest.raises(SuiteError, match="no category"):
        load_suite("bfcl:nonsense")


@pytest.mark.full
@pytest.mark.parametrize("category", ["base", "long_context", "miss_param"])
def test_bfcl_is_sound(category):
    pytest.importorskip("bfcl_eval", reason="needs bfcl-eval: pip install --no-deps bfcl-eval")
    report = check_suite(load_suite(f"bfcl:{category}")).tasks
    # one reference call of the benchmark gives a text where its own description wants a number
    assert [problem.partition(":")[0].rpartition("_")[2] for problem in report.problems] in (["173#3"], ["173#4"])
    assert report.empty_wrong == report.empty_expected > 0
