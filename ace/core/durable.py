"""Files that outlive their process: append-only JSON lines, files that are replaced as a whole, and locks.

There are two promises, and each function states which one it gives:

* **Survives the process.** Once the call has returned, killing the process loses nothing of it. What was being written when
  the process died leaves at most one torn end, which is cut off when the file is opened again.
* **Survives a power cut.** The call returns only when the disk has it: the data and, for a new or moved file, the folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from ace.core.errors import AceError
from ace.core.text import value_to_text

_log = logging.getLogger(__name__)


class JsonLog:
    """An append-only file of JSON lines that one process writes.

    An append survives the process; after `sync`, `replace` and `close` it survives a power cut as well.

    Args:
        path: Made, for its owner's eyes alone, when it is not there; a torn last line is cut off with a warning.
        take: Called with the value of each line that is there.
        damaged: The error to raise for a line, counted from 1, that is no JSON or that `take` refuses with a `ValueError`,
            `TypeError` or `KeyError`.

    Examples:
        >>> path, found = getfixture("tmp_path") / "log.jsonl", []
        >>> log = JsonLog(path, found.append, lambda number, error: ValueError(number))
        >>> log.append('{"n": 1}')
        >>> log.close()
        >>> JsonLog(path, found.append, lambda number, error: ValueError(number)).close()
        >>> found
        [{'n': 1}]
    """

    def __init__(self, path: Path, take: Callable[[Any], None], damaged: Callable[[int, Exception], Exception]) -> None:
        self.path = path
        if path.exists():
            self._read(take, damaged)
        self._file = self._opened()

    def append(self, line: str) -> None:
        """Write one line. When that fails, the file is as it was before."""
        data, before = f"{line}\n".encode(), os.fstat(self._file).st_size
        try:
            _write_all(self._file, data)
        except BaseException:
            os.ftruncate(self._file, before)  # the next line must not be glued to a piece of this one
            raise

    def sync(self) -> None:
        """Force what was written to the disk."""
        os.fsync(self._file)

    def replace(self, lines: Iterable[str]) -> None:
        """Put other lines in the place of all."""
        write_atomic(self.path, "".join(f"{line}\n" for line in lines), power_cut=True, private=True)
        file, self._file = self._file, -1
        os.close(file)
        self._file = self._opened()

    def values(self) -> Iterator[Any]:
        """The value of each line, one at a time: the file may be larger than the memory."""
        with self.path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    def close(self) -> None:
        """Force everything to the disk and close the file; a second time does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _opened(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read(self, take: Callable[[Any], None], damaged: Callable[[int, Exception], Exception]) -> None:
        sound = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                sound += len(line)
                try:
                    take(json.loads(line))
                except (ValueError, TypeError, KeyError) as error:
                    raise damaged(number, error) from error
        if sound < self.path.stat().st_size:
            _log.warning("the last line of %s was torn when its process ended; it is cut off", self.path.name)
            os.truncate(self.path, sound)


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
            if _hold(file, self.path):
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
            _write_all(file, b"".join(lines))
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


_HEAD = b'{"sum":"'
_BODY = len(_HEAD) + 8 + 2
"""Where the line's own fields begin, after ``{"sum":"01234567",``."""


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


def _hold(file: int, path: Path) -> bool:
    """Wait for the lock of an open file; closes it when another file has its name by then."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return True
    os.close(file)
    return False


def write_atomic(path: Path, text: str, *, power_cut: bool = False, private: bool = False) -> None:
    """Replace a file: a reader sees the old one or the new one, never a part.

    Args:
        path: The file; its folder must be there. A link is followed; what is no file, as a pipe, is written to.
        text: Written as UTF-8.
        power_cut: Whether to return only when the disk has it; otherwise it survives the process.
        private: Whether only its owner may read it.

    Examples:
        >>> path = getfixture("tmp_path") / "report.json"
        >>> write_atomic(path, "{}")
        >>> path.read_text(), len(list(path.parent.iterdir()))
        ('{}', 1)
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    # one name for all: what a killed writer left is used again, and others wait for the lock
    fresh, mode = path.with_name(f".{path.name}.tmp"), 0o600 if private else 0o666
    while not _hold(file := os.open(fresh, os.O_WRONLY | os.O_CREAT, mode), fresh):
        pass
    try:
        os.ftruncate(file, 0)
        _write_all(file, text.encode("utf-8"))
        if power_cut:
            os.fsync(file)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    if power_cut:
        sync_folder(path.parent)


def move_into(folder: Path, fresh: Path, names: Sequence[str]) -> None:
    """Move files of one folder into another, in order: the last one confirms that the others are complete.

    It survives the process, in that a reader who checks the last file never takes old and new ones for one set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        os.replace(fresh / name, folder / name)


def sync_folder(folder: Path) -> None:
    """What was made, moved or deleted in a folder survives a power cut from now on."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def locked(path: Path, taken: str, error: type[AceError] = AceError) -> Generator[None]:
    """Hold a lock file against other processes; the system releases it when the process ends.

    Args:
        path: The lock file; its folder must be there.
        taken: The error message when another process holds it.
        error: The class of the errors that are raised.
    """
    from filelock import FileLock, Timeout  # it brings SQLite along, which `import ace` does without

    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as problem:
        raise error(taken) from problem
    except OSError as problem:
        raise error(f"cannot write to {str(path.parent)!r}: {problem.strerror}; name another folder") from problem
    try:
        yield
    finally:
        lock.release()


@contextmanager
def claimed(folder: Path) -> Generator[None]:
    """Hold a folder, made when it is not there; one job at a time works in it.

    Raises:
        AceError: It is taken, or cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AceError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from error
    with locked(folder / ".lock", f"{str(folder)!r} is in use by another job; wait for it, or name another folder"):
        yield


def same_job(path: Path, config: Mapping[str, Any], parts: Mapping[str, str]) -> None:
    """A folder belongs to one job: what another one left there would answer other questions.

    Args:
        path: The job's file in its folder; written when it is not there.
        config: What the job was asked for, JSON-shaped.
        parts: Digests of what else decides its results, by name.

    Raises:
        AceError: It names what is different, or the file cannot be read.
    """
    now = {**config, "digests": dict(parts)}
    if not path.exists():
        write_atomic(path, json.dumps(now, indent=1))
        return
    try:
        then = cast(dict[str, Any], dict(json.loads(path.read_text(encoding="utf-8"))))
        digests = cast(dict[str, Any], dict(then.get("digests", {})))
    except (ValueError, TypeError) as error:
        raise AceError(f"{str(path)!r} is damaged ({error}); restore it, or name another folder") from error
    other = [f"{k} was {then.get(k)!r} and is {v!r}" for k, v in now.items() if k != "digests" and then.get(k) != v]
    other += [f"the {name} is another one" for name, digest in parts.items() if digests.get(name) != digest]
    if other:
        raise AceError(f"{str(path.parent)!r} holds another job: {'; '.join(other)}; name another folder")


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits that tell one value from another.

    Examples:
        >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
        True
    """
    text = json.dumps(value, sort_keys=True, default=value_to_text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _write_all(file: int, data: bytes) -> None:
    """Write all of it: the disk may take it in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
