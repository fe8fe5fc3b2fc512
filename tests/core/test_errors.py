"""Errors in words."""

from ace.core.text import describe_error


def test_an_error_that_cannot_say_what_it_is_has_its_class():
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError("no")

    assert describe_error(Hostile()).startswith("Hostile")
