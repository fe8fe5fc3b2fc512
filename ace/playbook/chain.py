"""The journal's checksums: each entry's covers its content and the entry before, so that no change goes unseen."""

from __future__ import annotations

import hashlib
import json

START = ""
"""What stands before the first entry."""


def link(previous: str, revision: int, position: int, delta: str, author: str, created_at: float) -> str:
    """The checksum (sha256, hex) of one journal entry.

    Example:
        >>> one = link(START, 1, 0, "{}", "ana", 1.5)
        >>> len(one), link(one, 2, 0, "{}", "ana", 1.5) == link(START, 2, 0, "{}", "ana", 1.5)
        (64, False)
    """
    content = json.dumps([previous, revision, position, delta, author, repr(float(created_at))])
    return hashlib.sha256(content.encode()).hexdigest()
