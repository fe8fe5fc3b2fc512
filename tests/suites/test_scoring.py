"""Scores of answers."""

import pytest
from suite_shop import output, write

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.suites.files import FileSuite
from ace.suites.scoring import Finished, all_of, by_answer, by_judge, by_mention
from ace.tasks import Feedback
from ace.testing import ScriptedLM, decision
from ace.testing.engine import FunctionLM, render_reply


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
