"""Limits and what is left of them."""

import pytest

from ace.core import (
    RunUsage,
    UsageLimits,
)


def test_limits_are_joined_and_counted_down():
    one, other = UsageLimits(lm_calls=3, cost=1.0), UsageLimits(lm_calls=5, seconds=2.0)
    assert one.tighter(other) == other.tighter(one) == UsageLimits(lm_calls=3, cost=1.0, seconds=2.0)
    left = one.left(RunUsage(lm_calls=5, cost=0.25))
    assert (left.lm_calls, left.cost, left.tool_calls) == (0, 0.75, None)
    assert repr(one) == "UsageLimits(lm_calls=3, cost=1.0)"


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "total_tokens", "cost", "seconds", "lm_calls"])
def test_a_limit_that_is_reached_is_named(name):
    spent = {"input_tokens": 5, "output_tokens": 5, "cost": 5.0, "seconds": 5.0, "lm_calls": 5}
    assert UsageLimits(**{name: 5}).exceeded(RunUsage(**spent)).startswith(name)
    assert UsageLimits(**{name: 11}).exceeded(RunUsage(**spent)) == ""
    assert UsageLimits().exceeded(RunUsage(**spent)) == ""


def test_the_last_answer_is_due_in_time():
    assert "1 left of 3" in UsageLimits(lm_calls=3).last_answer_due(RunUsage(lm_calls=2))
    assert UsageLimits(lm_calls=3).last_answer_due(RunUsage(lm_calls=1)) == ""
    assert "tool_calls 2 of at most 2" in UsageLimits(tool_calls=2).last_answer_due(RunUsage(tool_calls=2))
    assert UsageLimits(tool_calls=2).last_answer_due(RunUsage(tool_calls=1)) == ""
