"""Mistakes of a first hour: each works as meant, or raises at once and names the mend."""

import math

import dspy
import pytest

from ace import Feedback, Learner, Playbook, ReActGenerator
from ace.core import (
    InvalidModelAction,
    PlaybookError,
    PolicyConfigInvalid,
    SignatureError,
    SuiteError,
    ToolRegistrationError,
)
from ace.playbook import CallableEmbedder
from ace.testing import ScriptedLM, decision
from ace.tools import calculator, tool

END = decision("finish", answer="42")
TOY = CallableEmbedder("toy", lambda texts: [[float(len(text)), 1.0] for text in texts])


def look_up(key: str) -> str:
    """Look up."""
    return key


def undocumented(key: str) -> str:
    return key


@pytest.mark.parametrize(
    ("settings", "kind", "mend"),
    [
        ({"lm": "openai/gpt-5-mini"}, SignatureError, r"dspy\.LM\('openai/gpt-5-mini'\)"),
        ({"max_iter": 5}, TypeError, "max_iter"),
        ({"play_book": "x.db"}, TypeError, "play_book"),
        ({"policy": "nice"}, PolicyConfigInvalid, "'lenient'"),
        ({"tools": "calculator"}, ToolRegistrationError, "functions or tools"),
        ({"tools": [undocumented]}, ToolRegistrationError, "no docstring"),
        ({"tools": [lambda x: x]}, ToolRegistrationError, "lambda"),
        ({"memory_timeout": 0}, SignatureError, "None for no limit"),
        ({"max_iters": -1}, SignatureError, "0 or more"),
        ({"tool_calling": "json"}, SignatureError, "'text' or 'native'"),
        ({"observers": ["log"]}, SignatureError, "functions of an event"),
        ({"playbook": "/no/such/folder/x.db"}, PlaybookError, "does not exist"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_the_mend(settings, kind, mend):
    with pytest.raises(kind, match=mend):
        ReActGenerator(**{"tools": [calculator], **settings})


def test_a_folder_as_playbook_names_a_file_in_it(tmp_path):
    with pytest.raises(PlaybookError, match="is a folder; name a file in it"):
        ReActGenerator(tools=[], playbook=tmp_path)


def test_a_path_is_opened_and_one_function_needs_no_list(tmp_path):
    agent = ReActGenerator(tools=look_up, playbook=str(tmp_path / "shop.db"), lm=ScriptedLM([END]))
    assert (agent(task="x").answer, agent.registry.names, len(agent.playbook)) == ("42", ("look_up",), 0)
    assert ReActGenerator(tools=tool(look_up), lm=ScriptedLM([END])).registry.names == ("look_up",)


def test_a_decorated_function_is_still_one():
    assert tool(read_only=True)(look_up)("a") == "a"


def test_no_model_and_no_model_at_all():
    with dspy.context(lm=None), pytest.raises(ValueError, match=r"dspy\.configure"):
        ReActGenerator(tools=[])(task="x")
    with pytest.raises(SignatureError, match=r"lm=dspy\.LM"):
        ReActGenerator(tools=[])(task="x", lm="openai/gpt-5-mini")


def test_a_strict_policy_says_how_to_be_forgiving():
    failed = ReActGenerator(tools=[], lm=ScriptedLM(["junk"]), policy="default").run("x")
    assert "policy='forgiving' tells the model what fits" in failed.error.message
    agent = ReActGenerator(tools=[], lm=ScriptedLM(["junk", END]))
    assert agent.run("x").answer == "42"
    with pytest.raises(InvalidModelAction, match="forgiving"):
        ReActGenerator(tools=[], lm=ScriptedLM(["junk"]), policy="default", raise_on_failure=True).run("x")


def test_feedback_that_is_none():
    agent = ReActGenerator(tools=[], lm=ScriptedLM([END]), playbook=Playbook(embedder=TOY))
    out = agent(task="x")
    with pytest.raises(ValueError, match="finite"):
        agent.learn(out, math.nan)
    with pytest.raises(ValueError, match="True, False, a number"):
        agent.learn(out, "yes")
    with pytest.raises(ValueError, match="needs feedback"), Learner(agent.playbook) as learner:
        learner.observe(out)
    with pytest.raises(ValueError, match="playbook="):
        ReActGenerator(tools=[], lm=ScriptedLM([END])).learn(out, True)
    assert Feedback.of(1).success


def test_an_unknown_arm_and_a_suite_that_is_not_there():
    from ace.evaluation.arms import arms_of
    from ace.suites import load_suite

    with pytest.raises(SuiteError, match="gold"):
        arms_of("gould")
    with pytest.raises(SuiteError, match="office"):
        load_suite("offic")


def test_an_extra_that_is_missing_is_named():
    import subprocess
    import sys

    code = "import sys; sys.modules['psycopg'] = None\nfrom ace import Playbook\nPlaybook.open('postgresql://u@localhost/x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'dspy-ace[postgres]'" in done.stderr
