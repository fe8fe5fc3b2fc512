"""What follows a playbook's journal, so that a page shows what others change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

import anyio

from ace.playbook import Playbook

FOLLOW_SECONDS = 0.25
"""Between two looks at the journal: others' changes are on a page within a second."""
PING_SECONDS = 15.0
_log = logging.getLogger(__name__)


class Live:
    """One look at the journal for all who watch: `Live(book)`, and `follow` while the server runs.

    Args:
        book: The playbook.
    """

    def __init__(self, book: Playbook) -> None:
        self._book = book

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncGenerator[None]:
        """Follow the journal until the block ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow)
            yield
            tasks.cancel_scope.cancel()

    async def revisions(self) -> AsyncIterator[int]:
        """Yield the book's revision now, then each new one; the last seen once more when nothing happens for a while."""
        seen, waited = -1, 0.0
        while True:
            if self._book.revision != seen or waited >= PING_SECONDS:
                seen, waited = self._book.revision, 0.0
                yield seen
            # a number is looked at, and nothing is asked: the one task below reads the journal for all
            await asyncio.sleep(FOLLOW_SECONDS / 2)
            waited += FOLLOW_SECONDS / 2

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await asyncio.to_thread(self._book.refresh)
            except Exception as error:  # a database may fail in many ways, and come back
                _log.warning("the playbook cannot be followed: %s", error)
                await asyncio.sleep(2.0)
