"""JSON lines that many threads and processes append to, with checksums."""

from __future__ import annotations

import logging
import os
import threading
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ace.core import AceError
from ace.core.durable import hold, sync_folder, write_all, write_atomic

_log = logging.getLogger(__name__)
_HEAD = b'{"sum":"'
_BODY = len(_HEAD) + 8 + 2
"""Where the line's own fields begin, after ``{"sum":"01234567",``."""


class SharedJsonLog:
    """JSON lines that many threads and processes append to; damage is always detected.

    Each line begins with a checksum over itself and the line before it: a changed, lost or exchanged line is an error. The
    lines of one append end with one that closes it; what a dying process left of an append is cut off with a warning. An
    append survives a power cut. For Linux and macOS: files are locked with `fcntl`.

    Args:
        path: Made with the first append.
        take: Called with each sound line, its position, its number from 1 and, if known, its value; returns whether the
            line closes an append.
        forget: Called when the file was replaced, before its lines are taken again.
        error: The class of the errors that are raised.
    """

    def __init__(
        self,
        path: Path,
        take: Callable[[bytes, int, int, Any], bool],
        forget: Callable[[], None],
        error: type[AceError] = AceError,
    ) -> None:
        self.path = path
        self._take = take
        self._forget = forget
        self._error = error
        self._lock = threading.RLock()
        self._start()

    def _start(self) -> None:
        self._inode, self._changed_at, self._size, self._sum, self._count = 0, 0, 0, 0, 0

    @contextmanager
    def opened(self, *, make: bool = False) -> Generator[int | None]:
        """The file, locked for this caller and read up to its end; None when it is not there.

        Raises:
            AceError: It is damaged, or out of reach.
        """
        with self._lock:
            file = self._open(make)
            try:
                if file is None and self._inode:
                    self._restart()
                if file is not None:
                    self._follow(file)
                yield file
            finally:
                if file is not None:
                    os.close(file)  # releases the lock, too

    def _open(self, make: bool) -> int | None:
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if make else 0)
        while True:
            try:
                file = os.open(self.path, flags, 0o600)
            except FileNotFoundError:
                if not make:
                    return None
                raise self._error(f"the folder {str(self.path.parent)!r} is gone; make it again") from None
            except OSError as error:
                raise self._error(f"cannot open {str(self.path)!r}: {error.strerror}") from error
            if hold(file, self.path):
                return file

    def _restart(self) -> None:
        self._start()
        self._forget()

    def _follow(self, file: int) -> None:
        """Read what others have written since; a torn end is cut off."""
        now = os.fstat(file)
        if (now.st_ino, now.st_size, now.st_mtime_ns) == (self._inode, self._size, self._changed_at):
            return
        if now.st_ino != self._inode or now.st_size <= self._size:
            self._restart()
        self._inode = now.st_ino
        while True:
            known = self._size
            try:
                self._read(file, now.st_size)
                break
            except self._error:
                self._restart()
                if not known:
                    raise
                # it may be another file under the same number: that of a deleted one is given again
                self._inode = now.st_ino
        self._changed_at = os.fstat(file).st_mtime_ns

    def _read(self, file: int, end_of_file: int) -> None:
        """Take the lines after those that are known."""
        data = read_at(file, self._size, end_of_file - self._size)
        base, start = self._size, 0
        sound = (base, self._sum, self._count)
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start : end + 1]
            self._check(line)
            if self._take(line, base + start, self._count, None):
                sound = (base + end + 1, self._sum, self._count)
            start = end + 1
        self._size, self._sum, self._count = sound
        if self._size < end_of_file:
            _log.warning(
                "the last save to %s was torn when its process ended; %d bytes are cut off",
                self.path.name,
                end_of_file - self._size,
            )
            os.ftruncate(file, self._size)

    def _check(self, line: bytes) -> None:
        expected = zlib.crc32(line[_BODY:-1], self._sum)
        self._count += 1
        if line[:_BODY] != b'%s%08x",' % (_HEAD, expected):
            raise self._error(
                f"{str(self.path)!r} is damaged: line {self._count} is not what was written, or one before it is gone; "
                "restore the file from a copy, or delete it"
            )
        self._sum = expected

    @property
    def known(self) -> bool:
        """Whether it has any line."""
        return self._size > 0

    def append(self, file: int, bodies: Sequence[str], last: Any = None) -> None:
        """Add lines; on return they are on the disk. When it fails, the file is as it was.

        Args:
            file: From `opened`.
            bodies: Each a JSON object's text; the last one closes the append.
            last: The value of the last one, so that it need not be parsed again.
        """
        new, before = not self.known, self._size
        lines, checksum = _sealed(bodies, self._sum)
        try:
            write_all(file, b"".join(lines))
            os.fsync(file)
            if new:
                sync_folder(self.path.parent)
        except BaseException as error:
            os.ftruncate(file, before)
            if isinstance(error, OSError):
                raise self._error(f"cannot write to {str(self.path)!r}: {error.strerror}") from error
            raise
        for number, line in enumerate(lines, 1):
            self._count += 1
            self._take(line, self._size, self._count, last if number == len(lines) else None)
            self._size += len(line)
        self._sum, self._inode, self._changed_at = checksum, os.fstat(file).st_ino, os.fstat(file).st_mtime_ns

    def replace(self, bodies: Sequence[str]) -> None:
        """Put other lines in the place of all; a reader sees the old ones or the new ones. Call it while `opened`."""
        lines, _ = _sealed(bodies, 0)
        write_atomic(self.path, b"".join(lines).decode("utf-8"), power_cut=True, private=True)
        self._restart()

    def remove(self) -> None:
        """Delete the file. Call it while `opened`."""
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        self._restart()


def _sealed(bodies: Sequence[str], checksum: int) -> tuple[list[bytes], int]:
    """Lines with their checksums, each resting on the one before; and the last checksum."""
    lines: list[bytes] = []
    for body in bodies:
        rest = body[1:].encode()
        checksum = zlib.crc32(rest, checksum)
        lines.append(b'{"sum":"%08x",%s\n' % (checksum, rest))
    return lines, checksum


def read_at(file: int, offset: int, length: int) -> bytes:
    """At most this many bytes from there on."""
    parts: list[bytes] = []
    while length:
        part = os.pread(file, min(length, 1 << 30), offset)
        if not part:
            break
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
