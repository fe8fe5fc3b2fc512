"""A folder that a long job works in: who holds it, which job it belongs to, and files that are never half written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from filelock import FileLock, Timeout

from ace.core.errors import AceError
from ace.core.text import value_to_text


@contextmanager
def claimed(folder: Path) -> Generator[None]:
    """Hold a folder; one job at a time works in it.

    Raises:
        AceError: It is taken, or cannot be written to.
    """
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise AceError(f"{str(folder)!r} is in use by another job; wait for it, or name another folder") from error
    except OSError as error:
        raise AceError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from error
    try:
        yield
    finally:
        lock.release()


def same_job(path: Path, config: Mapping[str, Any], parts: Mapping[str, str]) -> None:
    """A folder belongs to one job: what another one left there would answer other questions.

    Args:
        path: The job's file in its folder; written when it is not there.
        config: What the job was asked for, JSON-shaped.
        parts: Digests of what else decides its results, by name.

    Raises:
        AceError: It says what is different, or that the file cannot be read.
    """
    now = {**config, "digests": dict(parts)}
    if not path.exists():
        replace_text(path, json.dumps(now, indent=1))
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

    Example:
        >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
        True
    """
    text = json.dumps(value, sort_keys=True, default=value_to_text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def replace_text(path: Path, text: str) -> None:
    """Replace a file: whoever reads it sees the old one or the new one."""
    part = path.with_name(f"part-{path.name}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
