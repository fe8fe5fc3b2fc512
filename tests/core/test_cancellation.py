"""Cancellation tokens."""

from ace.core import (
    CancellationToken,
)


def test_a_token_is_set_once_and_calls_every_callback():
    token, called = CancellationToken(), []
    with token.calling(lambda: called.append("in time")):
        token.cancel("first")
        token.cancel("second")
    with token.calling(lambda: called.append("late")):
        pass
    assert (token.reason, called, token.wait(0)) == ("first", ["in time", "late"], True)
    fresh = CancellationToken()
    with fresh.calling(lambda: called.append("never")):
        pass
    fresh.cancel()
    assert called == ["in time", "late"]
    import copy

    assert copy.deepcopy(fresh) is fresh


def test_a_linked_token_follows_also_when_it_comes_late():
    outer, early, late = CancellationToken(), CancellationToken(), CancellationToken()
    outer.link(early)
    outer.cancel("enough")
    outer.link(late)
    assert (early.reason, late.reason) == ("enough", "enough")
