"""Tasks that go on where others end."""

import pytest
from suite_shop import output

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites import load_suite
from ace.testing import SimulatedLM


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
