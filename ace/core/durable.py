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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
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
            write_all(self._file, data)
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
        """Yield the value of each line, one at a time: the file may be larger than the memory."""
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


def hold(file: int, path: Path) -> bool:
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
    while not hold(file := os.open(fresh, os.O_WRONLY | os.O_CREAT, mode), fresh):
        pass
    try:
        os.ftruncate(file, 0)
        write_all(file, text.encode("utf-8"))
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


def sync_folder(folder: Path) -> None:
    """Make what was made, moved or deleted in a folder survive a power cut."""
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
    """Check that a folder belongs to this job: what another one left there would answer other questions.

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
    """Return sixteen hexadecimal digits that tell one value from another.

    Examples:
        >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
        True
    """
    text = json.dumps(value, sort_keys=True, default=value_to_text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write_all(file: int, data: bytes) -> None:
    """Write all of it: the disk may take it in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
