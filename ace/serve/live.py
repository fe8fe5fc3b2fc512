"""What follows a playbook's journal, so that a page shows what others change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

from ace.core import PlaybookError
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
        self._changed = asyncio.Condition()
        self._ended = False

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncGenerator[None]:
        """Follow the journal until the block ends."""
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._ended = True
            async with self._changed:
                self._changed.notify_all()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def revisions(self) -> AsyncIterator[int]:
        """The book's revision now, then each new one; the last seen once more when nothing happens for a while."""
        seen = -1
        while not self._ended:
            async with self._changed:
                if self._book.revision == seen:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), PING_SECONDS)
            seen = self._book.revision
            yield seen

    async def _follow(self) -> None:
        told = self._book.revision
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await asyncio.to_thread(self._book.refresh)
            except PlaybookError as error:
                _log.warning("the playbook cannot be followed: %s", error)
                await asyncio.sleep(2.0)
            if self._book.revision != told:
                told = self._book.revision
                async with self._changed:
                    self._changed.notify_all()
