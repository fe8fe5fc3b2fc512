"""Learns in a process of its own, so that no conversation keeps the other clients of a server waiting."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import to_process, to_thread

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.serve.shared_memory import Remembered, SharedMemory

MOST_SECONDS = 20.0
"""For one conversation; then its process is ended. Learning gives up by itself after `Reflector.seconds` of CPU time."""
_BOOKS: dict[str, Playbook] = {}
"""Those that are open in such a process, by address."""
_MEMORIES: dict[tuple[str, str, str | None], SharedMemory] = {}
"""The same for each who asks, by address, author and tenant."""


class Apart:
    """Learns from one conversation after another: `await Apart(book).remember(SharedMemory(book), messages, True)`.

    Args:
        book: The playbook; not one in memory, which no other process could see.
        seconds: For one conversation.
    """

    def __init__(self, book: Playbook, seconds: float = MOST_SECONDS) -> None:
        self._book, self._seconds = book, seconds
        self._turn = anyio.Lock()

    async def remember(
        self, memory: SharedMemory, messages: Sequence[Mapping[str, Any]], success: bool | None = None, **options: Any
    ) -> Remembered:
        """Do what `SharedMemory.remember` does, for one who asks at a time.

        Raises:
            PlaybookError: As there; or it took too long.
        """
        _, (where, how) = self._book.__reduce__()
        async with self._turn:
            await to_process.run_sync(_open, where["path"], how)  # to start takes as long as it takes
            learn = partial(_remember, where["path"], how, memory.author, memory.tenant, messages, success, **options)
            try:
                with anyio.fail_after(self._seconds):
                    learned = await to_process.run_sync(learn, cancellable=True)
            except TimeoutError:
                raise PlaybookError(
                    f"nothing was learned: it took more than {self._seconds:g} s and was ended; send fewer messages at once"
                ) from None
            except anyio.BrokenWorkerProcess as error:
                raise PlaybookError("nothing was learned: the process that learns has ended; send it again") from error
        await to_thread.run_sync(self._book.refresh)
        return learned


def _open(address: str, options: Mapping[str, Any]) -> None:
    """Open a playbook in this process, which ends with the server and not by Ctrl-C."""
    if address not in _BOOKS:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _BOOKS[address] = Playbook(address, **options)
        _BOOKS[address].warm()


def _remember(
    address: str, options: Mapping[str, Any], author: str, tenant: str | None, *said: Any, **about: Any
) -> Remembered:
    _open(address, options)
    if (address, author, tenant) not in _MEMORIES:  # what recurs is found over the conversations of one
        _MEMORIES[address, author, tenant] = SharedMemory(_BOOKS[address], author=author, tenant=tenant)
    return _MEMORIES[address, author, tenant].remember(*said, **about)
