"""Bullets as JSON lines: readable in a diff, in a stable order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ace.core import PlaybookError, visible_json
from ace.core.durable import write_atomic
from ace.playbook.bullet import COUNTERS, PlanRuns, PlaybookBullet
from ace.playbook.store import Entry

T = TypeVar("T")


def untrusted(bullet: PlaybookBullet) -> PlaybookBullet:
    """Return a bullet of another book as it may come in: shadow, without counts or evidence, its tasks kept for the
    guards."""
    situations = [s.model_copy(update={"support": 1, "since": 0, "fills": ()}) for s in bullet.situations]
    evidence = bullet.provenance.model_copy(update={"run_ids": (), "users": ()})
    return bullet.model_copy(
        update={
            "stage": "retired" if bullet.stage == "retired" else "shadow",
            "trust": "tainted",
            "words_from": ("import",),
            "situations": tuple(situations),
            "provenance": evidence,
            "tool_success_rate": None,
            "avg_iterations": None,
            "plan_runs": PlanRuns(),
            **dict.fromkeys(COUNTERS, 0),
        }
    )


def write_bullets(bullets: Iterable[PlaybookBullet], path: str | Path) -> int:
    """Write each bullet as one line; returns how many.

    Raises:
        PlaybookError: The file cannot be written.
    """
    return _write((json.dumps(b.model_dump(mode="json"), sort_keys=True, ensure_ascii=False) for b in bullets), path)


def read_bullets(path: str | Path) -> list[PlaybookBullet]:
    """Read what `write_bullets` wrote.

    Raises:
        PlaybookError: The file cannot be read, or a line is no bullet.
    """
    return _read(path, PlaybookBullet.model_validate_json, "no lesson, as `export` writes it")


def write_journal(entries: Iterable[Entry], path: str | Path) -> int:
    """Write each entry of a journal as one line; returns how many.

    Raises:
        PlaybookError: The file cannot be written.
    """
    return _write((json.dumps(asdict(entry), ensure_ascii=False) for entry in entries), path)


def read_journal(path: str | Path) -> list[Entry]:
    """Read what `write_journal` wrote.

    Raises:
        PlaybookError: The file cannot be read, or a line is no entry of a journal.
    """
    return _read(path, lambda line: Entry(**json.loads(line)), "no entry of a journal, as `export --full` writes it")


def _write(values: Iterable[str], path: str | Path) -> int:
    lines = list(map(visible_json, values))
    try:
        write_atomic(Path(path), "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise PlaybookError(f"cannot write {str(path)!r}: {error.strerror}") from error
    return len(lines)


def _read(path: str | Path, parsed: Callable[[str], T], wrong: str) -> list[T]:
    try:
        # split at line feeds only: JSON may hold other separators inside its strings
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(f"cannot read {str(path)!r}: {error}; nothing was imported") from error
    found: list[T] = []
    for number, line in enumerate(lines, start=1):
        try:
            found += [parsed(line)] if line.strip() else []
        except (ValueError, TypeError) as error:
            problem = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
            why = ": " + " ".join([*map(str, problem["loc"]), problem["msg"]]) if problem is not None else ""
            raise PlaybookError(f"{str(path)!r} line {number} is {wrong}{why}; nothing was imported") from error
    return found
