"""The arms of `ace evaluate`, and the playbooks that they open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.playbook import Playbook


@dataclass
class Arms:
    """What `--arms` names."""

    names: list[str] = field(default_factory=list)
    books: dict[str, Playbook] = field(default_factory=dict)
    """Of arms like ``old=office.db@40``."""
    models: dict[str, str] = field(default_factory=dict)
    """Of arms like ``big=lm:openai/gpt-5``."""


def arms_of(text: str, stack: ExitStack) -> Arms:
    """What the words of `--arms` say.

    Raises:
        SuiteError: One of them is no arm, or comes twice.
    """
    from ace.core import SuiteError
    from ace.evaluation.arms import ARMS

    found = Arms()
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, given, path = word.partition("=")
        if given and not name:
            raise SuiteError(f"--arms {text!r}: {word!r} has no name before its =")
        if given and (path == "simulated" or path.startswith(("lm:", "recorded:", "simulated:"))):
            found.models[name] = path.removeprefix("lm:")
        elif given:
            file, _, revision = path.rpartition("@") if path.rpartition("@")[2].isdigit() else (path, "", "")
            found.books[name] = open_book(file, stack, int(revision) if revision else None)
        elif name not in ARMS:
            raise SuiteError(
                f"--arms {text!r}: expected some of {', '.join(ARMS)}, NAME=PLAYBOOK.db or NAME=lm:MODEL, and commas "
                "between"
            )
        if name in found.names:
            raise SuiteError(f"--arms {text!r} names {name!r} twice")
        found.names.append(name)
    if not found.names or (set(found.books) | set(found.models)) & set(ARMS):
        raise SuiteError(f"--arms {text!r}: expected arms, separated by commas; NAME=... needs a name of its own")
    return found


def open_book(where: str, stack: ExitStack, revision: int | None = None) -> Playbook:
    """A playbook; of an earlier revision, a copy that was rolled back."""
    from ace.core import PlaybookError
    from ace.playbook import Playbook

    path = Path(where)
    if "://" not in where and not path.exists():
        raise PlaybookError(f"there is no playbook {where!r}; `ace learn` makes one")
    if revision is None:
        return stack.enter_context(Playbook.open(where))
    if "://" in where:
        raise PlaybookError(f"an earlier revision of {where!r} needs a copy in a file; see `ace playbook export`")
    copy = Path(stack.enter_context(TemporaryDirectory())) / path.name
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    book = stack.enter_context(Playbook.open(copy))
    book.rollback(revision)
    return book


def online_book(folder: Path, store: str, stack: ExitStack) -> Callable[[int], Playbook]:
    """A playbook in the store for the arm that learns while it goes; what the log knows, it is taught again."""
    from ace.evaluation.study import study_book

    return lambda seed: stack.enter_context(study_book(folder, f"online-{seed}", store, anew=True))
