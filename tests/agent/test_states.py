"""States, steps and replies: the words between driver and machine."""

import dataclasses
import inspect

import pytest

from ace.agent import states
from ace.agent.breaker import Breaker


def test_every_state_and_every_word_between_driver_and_machine_is_frozen():
    made = [c for _, c in inspect.getmembers(states, inspect.isclass) if c.__module__ == states.__name__]
    kinds = [c for c in made if dataclasses.is_dataclass(c)]
    assert len(kinds) > 10
    assert all(c.__dataclass_params__.frozen for c in kinds)
    with pytest.raises(ValueError, match="frozen"):
        Breaker().failures = 1
