"""Bullets as JSON lines: readable in a diff, in a stable order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from ace.core import PlaybookError, visible_json
from ace.core.durable import write_atomic
from ace.playbook.bullet import COUNTERS, PlaybookBullet
from ace.playbook.store import Entry


def write_bullets(bullets: Iterable[PlaybookBullet], path: str | Path) -> int:
    """Write each bullet as one line; returns how many.

    Raises:
        PlaybookError: The file cannot be written.
    """
    lines = [
        visible_json(json.dumps(bullet.model_dump(mode="json"), sort_keys=True, ensure_ascii=False))
        for bullet in bullets
    ]
    try:
        write_atomic(Path(path), "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise PlaybookError(f"cannot write {str(path)!r}: {error.strerror}") from error
    return len(lines)


def write_journal(entries: Iterable[Entry], path: str | Path) -> int:
    """Write each entry of a journal as one line; returns how many.

    Raises:
        PlaybookError: The file cannot be written.
    """
    lines = [visible_json(json.dumps(asdict(entry), ensure_ascii=False)) for entry in entries]
    try:
        write_atomic(Path(path), "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise PlaybookError(f"cannot write {str(path)!r}: {error.strerror}") from error
    return len(lines)


def read_journal(path: str | Path) -> list[Entry]:
    """Read what `write_journal` wrote.

    Raises:
        PlaybookError: The file cannot be read, or a line is no entry of a journal.
    """
    entries: list[Entry] = []
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(f"cannot read {str(path)!r}: {error}; nothing was imported") from error
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            entries.append(Entry(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise PlaybookError(
                f"{str(path)!r} line {number} is no entry of a journal, as `export --full` writes it; nothing was imported"
            ) from error
    return entries


def untrusted(bullet: PlaybookBullet) -> PlaybookBullet:
    """A bullet of another book as it may come in: shadow, without counts or evidence, its tasks kept for the guards."""
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
            "credited_at": None,
            **dict.fromkeys(COUNTERS, 0),
        }
    )


def read_bullets(path: str | Path) -> list[PlaybookBullet]:
    """Read what `write_bullets` wrote.

    Raises:
        PlaybookError: The file cannot be read, or a line is no bullet.
    """
    try:
        # split at line feeds only: JSON may hold other separators inside its strings
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(f"cannot read {str(path)!r}: {error}; nothing was imported") from error
    bullets: list[PlaybookBullet] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            bullets.append(PlaybookBullet.model_validate_json(line))
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False)[0]
            raise PlaybookError(
                f"{str(path)!r} line {number} is no bullet: {'.'.join(map(str, problem['loc']))} {problem['msg']}; "
                "nothing was imported"
            ) from error
    return bullets
