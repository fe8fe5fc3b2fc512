"""The context of a call."""

import time

from ace.core import (
    ToolContext,
    current_context,
)
from ace.core.context import entered


def test_the_current_context_is_that_of_the_call():
    context = ToolContext(run_id="r", deadline=time.time() + 5)
    with entered(context):
        assert current_context() is context
        assert 0 < context.seconds_left <= 5
    assert current_context() is None
    assert ToolContext().seconds_left is None
