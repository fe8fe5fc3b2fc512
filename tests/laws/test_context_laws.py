"""Laws of a prompt that has to become shorter."""

from hypothesis import example, given, strategies as st

from ace.agent.history import CALLS, GONE, RESULTS, measure
from ace.agent.record import RunSnapshot
from ace.tasks import ReasoningStep, TaskInput

SIZES = st.one_of(st.integers(0, 50), st.integers(0, 3_000))
OPENING = {"task": "x", "playbook": "[b-1] Look twice"}


def step(number, sizes):
    thought, args, observation = sizes
    return ReasoningStep(
        iteration=number + 1,
        thought="t" * thought,
        tool_call_id=f"c{number}",
        tool_name="look_up",
        tool_args={"number": number, "key": "k" * args},
        outcome="success",
        observation="o" * observation,
    )


def run(sizes):
    record = RunSnapshot(run_id="r", task=TaskInput(inputs={"task": "x"}), tools={}, max_iters=5)
    for number, size in enumerate(sizes):
        record.steps.append(step(number, size))
    return record


def prompt(record):
    entries, said = record.turns(OPENING, None)
    return [*entries, said]


def shown(entries):
    """The numbers of the calls that are shown; each of them has its own result."""
    turns = [entry[CALLS] for entry in entries if CALLS in entry]
    for turn in turns:
        assert [call["id"] for call in turn[CALLS]] == [result["call_id"] for result in turn[RESULTS]]
    return [call["args"]["number"] for turn in turns for call in turn[CALLS]]


@given(st.lists(st.tuples(SIZES, SIZES, SIZES), max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_a_call_and_its_result_stay_or_go_together_and_the_newest_stays(sizes, keeps):
    record = run(sizes)
    before = prompt(record)
    for keep in keeps:
        more = record.shorten(None, keep)
        entries = prompt(record)
        assert entries[0]["task"] == "x"
        assert not sizes or len(sizes) - 1 in shown(entries)
        assert more or (entries == before and record.without_playbook)
        assert ("playbook" in entries[0]) != record.without_playbook
        left = {index for index, cut in record.cuts.items() if cut == GONE}
        assert shown(entries) == [number for number in range(len(sizes)) if number not in left]
        assert left == set(range(len(left))), "the oldest go first"
        before = entries


@example([(3_000, 3_000, 3_000)])
@example([(2_815, 50, 50)])
@given(st.lists(st.tuples(SIZES, SIZES, SIZES), max_size=12))
def test_shortening_comes_to_an_end_and_the_rest_is_small(sizes):
    record = run(sizes)
    times = 0
    while record.shorten(None, 0.5):
        times += 1
    assert times <= 40
    assert measure(prompt(record)) <= 3_000
