"""Laws of a prompt that has to become shorter."""

import re

from ace.agent.trajectory import LEFT_OUT
from hypothesis import given, strategies as st

from ace.agent.record import RunRecord
from ace.tasks import ReasoningStep, TaskInput

PARTS = ("thought", "tool_name", "tool_args", "observation")
SIZES = st.one_of(st.integers(0, 50), st.integers(0, 3_000))


def step(number, sizes):
    thought, args, observation = sizes
    return ReasoningStep(
        iteration=number + 1,
        thought="t" * thought,
        tool_call_id=f"c{number}",
        tool_name="look_up",
        tool_args={"key": "k" * args},
        outcome="success",
        observation="o" * observation,
    )


def shown(text):
    found = {}
    for name, index in re.findall(r"^\[\[ ## (\w+?)_(\d+) ## \]\]$", text, re.M):
        found.setdefault(int(index), []).append(name)
    return found


@given(st.lists(st.tuples(SIZES, SIZES, SIZES), max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_a_call_and_its_result_stay_or_go_together_and_the_newest_stays(sizes, keeps):
    record = RunRecord(TaskInput(inputs={"task": "x"}))
    for number, size in enumerate(sizes):
        record.append_scratchpad(step(number, size))
    before = record.trajectory(None)
    for keep in keeps:
        more = record.shorten(None, keep)
        text = record.trajectory(None)
        assert all(tuple(names) == PARTS for names in shown(text).values())
        assert not sizes or len(sizes) - 1 in shown(text)
        assert more or (text == before and record.without_playbook)
        left = {index for index, cut in record.cuts.items() if cut == LEFT_OUT}
        assert shown(text).keys() == set(range(len(sizes))) - left
        assert left == set(range(len(left))), "the oldest go first"
        before = text


@given(st.lists(st.tuples(SIZES, SIZES, SIZES), max_size=12))
def test_shortening_comes_to_an_end_and_the_rest_is_small(sizes):
    record = RunRecord(TaskInput(inputs={"task": "x"}))
    for number, size in enumerate(sizes):
        record.append_scratchpad(step(number, size))
    times = 0
    while record.shorten(None, 0.5):
        times += 1
    assert times <= 40
    assert len(record.trajectory(None)) <= 3_000
