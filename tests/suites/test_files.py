"""Suites from files."""

import json

import pytest
from suite_shop import SHOP, rows, run, write

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites import load_suite
from ace.suites.check import check_suite
from ace.suites.files import FileSuite
from ace.testing import SimulatedLM


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


def test_a_file_of_tasks_finds_its_world_and_a_goal_that_is_not_reached_is_none(tmp_path):
    folder = write(tmp_path, rows())
    assert all(attempt.feedback.success for attempt in run(load_suite(f"{folder}/tasks.jsonl")))
    (folder / "state.json").unlink()
    with pytest.raises(SuiteError, match="reference solution of task 'refund-0' fails at find_order"):
        run(load_suite(f"{folder}/tasks.jsonl"))
