"""Suites of DSPy examples, and of one's own making."""

import dspy
import pytest

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites import load_suite
from ace.suites.check import check_suite
from ace.suites.examples import ExamplesSuite
from ace.testing import decision
from ace.testing.engine import FunctionLM, render_reply


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
        if "tool_calls" not in prompt.wants:
            return render_reply(reasoning="-", country="Italy", people=3)
        return decision("finish") if prompt.steps else decision("look_up", city=prompt.fields["city"])

    found = {a.task.id: a.feedback for a in evaluate(suite, lambda seed: FunctionLM("f/f", answer), engine="asyncio")}
    assert [found[task.id].success for task in suite.tasks] == [True, False]
    assert found[suite.tasks[1].id].text == "look it up"
    with pytest.raises(SuiteError, match="of an earlier one"):
        ExamplesSuite([*examples, examples[0]], metric, signature="city -> country")
    with pytest.raises(SuiteError, match="has no inputs"):
        ExamplesSuite([dspy.Example(city="Rome")], metric, signature="city -> country")
