"""BFCL's single turns: which calls are right."""

import pytest
from ace_suites.bfcl.turns import SingleTurnSuite, arguments_right

from ace import ReActGenerator
from ace.suites import check_suite
from ace.suites.protocol import signature_of
from ace.testing import FunctionLM
from ace.testing.engine import render_reply


@pytest.fixture(scope="module", params=["multiple", "irrelevance"])
def suite(request):
    pytest.importorskip("bfcl_eval")
    return SingleTurnSuite(request.param)


def test_a_reference_call_is_right_and_the_suite_is_sound(suite):
    report = check_suite(suite).tasks
    assert (report.problems, report.oracle_right) == ([], report.n)
    assert report.empty_expected == (report.n if suite.name == "bfcl-multiple" else 0)


@pytest.mark.parametrize("call", ["none", "reference", "reference, and another", "reference, changed", "other"])
def test_one_turn_is_judged_by_its_calls(suite, call):
    task = suite.tasks[0]
    episode = suite.episode(task)
    gold = task.gold[0] if task.gold else None
    name, args = (gold.name, dict(gold.args)) if gold else (episode.registry.names[0], {"weight": 70.0, "height": 1.8})
    if call == "other":
        name, args = episode.registry.names[-1], {"unknown": 1}
    elif call == "reference, changed":
        args |= {next(iter(args)): 99}
    calls = [{"name": name, "args": args}]
    if call == "reference, and another":
        calls.append({"name": name, "args": args | {next(iter(args)): 99}})
    if call == "none":
        calls = [{"name": "submit", "args": {"answer": "-"}}]
    lm = FunctionLM("one", lambda prompt: render_reply(next_thought="-", tool_calls={"tool_calls": calls}))
    output = ReActGenerator(signature_of(suite), tools=episode.registry, lm=lm).run(episode.task)
    assert episode.score(output).success == (call == ("reference" if gold else "none"))


@pytest.mark.parametrize(
    ("given", "accepted", "right"),
    [
        ({"day": "April 1, 2024"}, {"day": ["april 1 2024"]}, True),
        ({"n": 3.0}, {"n": [3]}, True),
        ({"n": True}, {"n": [1]}, False),
        ({"n": "3"}, {"n": [3]}, False),
        ({}, {"n": [3]}, False),
        ({}, {"n": [3, ""]}, True),
        ({"xs": ["A", "b"]}, {"xs": [["a", "B"]]}, True),
        ({"xs": ["a"]}, {"xs": [["a", "b"]]}, False),
        ({"where": {"city": "Rome"}}, {"where": [{"city": ["Rome", "Roma"], "zip": ["", 1]}]}, True),
        ({"where": {"city": "Rome", "x": 1}}, {"where": [{"city": ["Rome"]}]}, False),
    ],
)
def test_arguments_are_compared_as_bfcl_does(given, accepted, right):
    assert arguments_right(given, accepted) is right
