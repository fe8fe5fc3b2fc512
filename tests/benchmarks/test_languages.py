"""`benchmarks/playbook/languages.py`: lessons in the user's own language are found, and name nobody."""

import pytest

from benchmarks.playbook.languages import REQUESTS, hits_of

SHORT = ("de", "ru", "zh", "ko", "ar", "hi")


@pytest.mark.parametrize(
    "language", [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in REQUESTS]
)
def test_the_right_lesson_comes_first_and_names_nobody(language):
    hits, names = hits_of(language)
    assert hits >= 7
    assert names == 0
