"""`ace doctor`."""

from command import ace


def test_doctor_is_content():
    assert "right hash" in ace("doctor")
