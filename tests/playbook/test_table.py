"""The table of bullets, and what is done while one is read."""

import gc
from contextlib import suppress

import pytest

from ace.playbook.table import collector_paused


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_rests_while_a_book_is_read_and_goes_on_as_it_was(running):
    before = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        with suppress(KeyError), collector_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()
