"""Append-only files of JSON lines: a process that is killed leaves at most one torn line, the last."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)


def open_lines(path: Path) -> int:
    """Open a file to append to; made, for its owner's eyes alone, when it is not there."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def append_line(file: int, line: str) -> None:
    """Write one line; on return it survives the end of the process. When it fails, the file is as it was before."""
    data, before = f"{line}\n".encode(), os.fstat(file).st_size
    try:
        written = os.write(file, data)
        while written < len(data):  # the disk is nearly full, or a signal came
            written += os.write(file, data[written:])
    except BaseException:
        os.ftruncate(file, before)  # the next line must not be glued to a piece of this one
        raise


def read_lines(path: Path, take: Callable[[Any], None], damaged: Callable[[int, Exception], Exception]) -> None:
    """Hand over each line's value; a torn last line is cut off the file.

    Args:
        path: Nothing happens when it is not there.
        take: Called with each value.
        damaged: The error to raise for a line, from 1, that is no JSON or that `take` refuses with a `ValueError`,
            `TypeError` or `KeyError`.
    """
    if not path.exists():
        return
    sound = 0
    with path.open("rb") as file:  # line by line: the file may be larger than the memory
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            sound += len(line)
            try:
                take(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise damaged(number, error) from error
    if sound < path.stat().st_size:
        _log.warning("the last line of %s was torn when its process ended; it is cut off", path.name)
        with path.open("r+b") as file:
            file.truncate(sound)
