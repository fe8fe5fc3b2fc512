"""`ace playbook review`: decide about the lessons that wait, with one key each."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ace.cli._playbook_views import review_table, review_view
from ace.cli._shared import JsonOption, Text, console, examples, write_json
from ace.cli.playbook import AuthorOption, BookArgument, app, named, open_book
from ace.cli.playbook_edit import NoteOption, YesOption, asked
from ace.core import PlaybookError

if TYPE_CHECKING:
    from ace.playbook import Playbook
    from ace.playbook.results import ReviewItem

NOTHING = "nothing waits for review"
_KEYS = "a approve   r reject   s skip   b back   q quit"


@app.command(
    "review",
    epilog=examples(
        "ace playbook review pb.db",
        "ace playbook review pb.db --list",
        "ace playbook review pb.db --approve b-12 --reject b-13 --yes",
    ),
)
def review(
    path: BookArgument,
    approve: Annotated[
        list[str] | None, typer.Option("--approve", help="Approve this lesson; may be repeated.")
    ] = None,
    reject: Annotated[list[str] | None, typer.Option("--reject", help="Reject this lesson; may be repeated.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only print what waits, and why.")] = False,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Decide about the lessons that wait: each is shown with what held it back, and one key decides."""
    with open_book(path) as book:
        items = book.review.pending()
        decided: dict[str, str] = {}
        if approve or reject:
            decided = dict.fromkeys(approve or (), "approve") | dict.fromkeys(reject or (), "reject")
            if wrong := sorted(
                (set(approve or ()) & set(reject or ())) | (decided.keys() - {i.bullet.id for i in items})
            ):
                what = "waits for no review, or is both approved and rejected"
                raise PlaybookError(f"{', '.join(wrong)} {what}; `ace playbook review --list` shows what waits")
            console.print(review_table([item for item in items if item.bullet.id in decided]))
            asked(f"Approve {len(approve or ())}, reject {len(reject or ())}?", yes)
            for bullet_id, decision in decided.items():
                getattr(book.review, decision)(bullet_id, author=named(author), note=note)
            _say(book, decided)
        elif list_only:
            console.print(review_table(items) if items else NOTHING)
            for why in book.review.stopped().values():
                console.print(Text(f"{why}; it is no longer offered, until you release it again"), soft_wrap=True)
        elif items:
            with _keyboard() as keys:
                decided = _by_key(book, items, keys, named(author), note)
            _say(book, decided)
        else:
            console.print(NOTHING)
        write_json({"decided": decided, "waiting": book.review.pending()}, json_file)


def _say(book: Playbook, decided: dict[str, str]) -> None:
    approved, left = sum(decision == "approve" for decision in decided.values()), len(book.review.pending())
    console.print(f"{approved} approved, {len(decided) - approved} rejected, {left} left")


def _by_key(book: Playbook, items: list[ReviewItem], keys: Iterator[str], author: str, note: str) -> dict[str, str]:
    """Show what waits, one after the other, and do what the next key says; each decision is written at once."""
    decided: dict[str, str] = {}
    at = 0
    while at < len(items):
        item = items[at]
        console.print(review_view(item, f"{at + 1} of {len(items)}", decided.get(item.bullet.id, "")))
        console.print(_KEYS, style="dim")
        match next(keys, "q"):
            case "a" | "r" as key if item.bullet.id in decided:
                console.print(f"{item.bullet.id} is decided ({key} changes nothing); undo with `ace playbook undo`")
                at += 1
            case "a" | "r" as key:
                try:
                    if key == "a":
                        seen = item.bullet.updated_revision
                        book.review.approve(item.bullet.id, seen=seen, author=author, note=note)
                    else:
                        book.review.reject(item.bullet.id, author=author, note=note)
                    decided[item.bullet.id] = "approve" if key == "a" else "reject"
                except PlaybookError as error:  # somebody else has changed or decided it meanwhile
                    console.print(Text(str(error), style="yellow"))
                at += 1
            case "s" | " ":
                at += 1
            case "b":
                at = max(0, at - 1)
            case "q" | "\x1b" | "\x04":
                break
            case other:
                console.print(Text(f"no key {other!r}: {_KEYS}", style="yellow"))
    return decided


@contextmanager
def _keyboard() -> Generator[Iterator[str]]:
    """Yield the keys that are pressed, one by one; what is piped in, letter by letter."""
    if not sys.stdin.isatty():
        yield (key for line in sys.stdin for key in line.rstrip("\n"))
        return
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield iter(typer.getchar, "")
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        # once for all keys: changing to and fro would drop what is pressed ahead
        tty.setcbreak(terminal, termios.TCSANOW)
        yield (key.decode("latin-1") for key in iter(lambda: os.read(terminal, 1), b""))
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
