"""The check of a suite."""

import dspy
import pytest
from suite_shop import write

from ace.suites import load_suite
from ace.suites.check import check_suite
from ace.suites.examples import ExamplesSuite
from ace.suites.files import FileSuite


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


@pytest.mark.full
@pytest.mark.parametrize("category", ["base", "long_context", "miss_param"])
def test_bfcl_is_sound(category):
    pytest.importorskip("bfcl_eval", reason="needs bfcl-eval: pip install --no-deps bfcl-eval")
    report = check_suite(load_suite(f"bfcl:{category}")).tasks
    # one reference call of the benchmark gives a text where its own description wants a number
    assert [problem.partition(":")[0].rpartition("_")[2] for problem in report.problems] in (["173#3"], ["173#4"])
    assert report.empty_wrong == report.empty_expected > 0
