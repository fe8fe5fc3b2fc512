"""What makes two bullets alike."""

from playbook_kit import strategy

from ace.playbook import (
    Add,
)


def test_equal_sequences_are_equal_multisets(book):
    book.commit([Add(bullet=strategy("refund order", "a", "b")), Add(bullet=strategy("refund order!", "b", "a"))])
    assert len(book.retrieve("refund order")) == 1
