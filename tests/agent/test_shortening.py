"""The order in which a prompt gives up its parts."""

from ace.agent.history import GONE, LEFT_OUT as NO_TURN, NO_CALLS, SHORT, STUB, Conversation
from ace.agent.shortening import Shortening
from ace.tasks import ReasoningStep

STEP = ReasoningStep(iteration=1, tool_call_id="c", tool_name="look", outcome="success", observation="x" * 2_000)
OLD = {"task": "Where?", "answer": "Here", "trajectory": {"tool_name_0": "look", "observation_0": "y" * 2_000}}


def shorter(keep, steps=3, turns=3, **given):
    made = Shortening([STEP] * steps, {}, 0, Conversation([OLD] * turns), **given)
    return made, made.to(keep)


def test_the_oldest_observations_go_first():
    made, any_left = shorter(0.9)
    assert (any_left, made.levels, made.cuts) == (True, {0: SHORT, 1: 0, 2: 0}, {})


def test_observations_of_earlier_turns_go_before_those_of_this_one():
    made, _ = shorter(0.48)
    assert made.levels == dict.fromkeys(range(3), SHORT)
    assert made.cuts == {0: STUB}


def test_calls_go_before_turns_and_the_newest_observation_last():
    made, _ = shorter(0.25)
    assert made.levels == {0: NO_CALLS, 1: NO_CALLS, 2: NO_CALLS}
    assert 2 not in made.cuts
    made, _ = shorter(0.05)
    assert made.levels == dict.fromkeys(range(3), NO_TURN)
    assert made.cuts[0] == made.cuts[1] == GONE
    assert STUB <= made.cuts[2] < 2_000


def test_a_conversation_can_be_shortened_before_its_run_has_steps():
    made, any_left = shorter(0.5, steps=0)
    assert any_left
    assert made.levels[0] == SHORT


def test_nothing_left_is_said():
    made, _ = shorter(0.0)
    again = Shortening([STEP] * 3, made.cuts, 0, Conversation([]))
    assert not again.to(0.0) or again.cuts != made.cuts
    assert not Shortening([], {}, 0, Conversation([])).to(0.5)
