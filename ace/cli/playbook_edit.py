"""`ace playbook`: what a person changes: add, edit, remove, pin, promote, trust, release, review."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ace.cli._shared import JsonOption, Text, check_writable, console, write_json
from ace.cli.playbook import AuthorOption, BookArgument, app, check_one_of, named, open_book
from ace.cli.playbook_maintenance import NoteOption

if TYPE_CHECKING:
    from pathlib import Path

    from ace.playbook import Playbook, PlaybookBullet
    from ace.playbook.results import ReviewItem
    from ace.playbook.review import SetStage

Change = Callable[..., Any]
"""Does something to one bullet, as it was shown: ``change(book, bullet, author=..., note=...)``."""
BulletsArgument = Annotated[list[str], typer.Argument(help="One or several, for example b-12 b-15.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
SectionOption = Annotated[str | None, typer.Option(help="Strategies, Pitfalls or Observations.")]
TriggerOption = Annotated[str | None, typer.Option("--when", help="A task in words; empty: always.")]
DomainOption = Annotated[str | None, typer.Option(help="Only for tasks of this domain.")]
TenantOption = Annotated[str | None, typer.Option(help="Only for this tenant.")]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")]


def _done(path: str, book: Playbook, before: int, bullet_ids: list[str], json_file: Path | None) -> None:
    """Say what was done, and how to undo it."""
    from ace.cli._playbook_views import bullet_json

    kept = book.find(bullet_ids)
    if book.revision == before:
        console.print("nothing changed", highlight=False)
    else:
        undo = f"ace playbook rollback {path} {before}"
        console.print(f"revision {book.revision}; undo with: {undo}", highlight=False, soft_wrap=True)
    rows = [bullet_json(kept[i]) if i in kept else {"id": i, "stage": "removed"} for i in bullet_ids]
    write_json({"revision": book.revision, "before": before, "bullets": rows}, json_file)


@app.command("add", epilog="Example: ace playbook add pb.db 'Ask for the order number first.' --when 'Refund an order'")
def add(
    path: BookArgument,
    content: Annotated[str, typer.Argument(help="What to do, or what to avoid.")],
    trigger: TriggerOption = None,
    section: SectionOption = "Strategies",
    domain: DomainOption = None,
    tenant: TenantOption = None,
    tags: TagsOption = None,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Write a lesson of your own, in a new playbook if there is none; it is shown from now on."""
    from ace.cli._playbook_views import bullet_view
    from ace.core import PlaybookError
    from ace.playbook import Add, Playbook, PlaybookBullet, Section

    check_one_of("section", section, get_args(Section))
    check_writable(json_file)
    if not content.strip():
        raise PlaybookError("the lesson is empty; say what to do, or what to avoid")
    fields: dict[str, Any] = {"section": section, "trigger": trigger or "", "domain": domain, "tenant": tenant}
    bullet = PlaybookBullet(content=content, tags=tuple(tags or ()), words_from=("person",), **fields)
    with Playbook.open(path) as book:
        console.print(bullet_view(bullet))
        if not yes:
            typer.confirm("Add it?", abort=True)
        before, known = book.revision, {b.id for b in book.bullets}
        book.commit([Add(bullet=bullet, reason=note or "added by hand")], author=named(author))
        _done(path, book, before, [b.id for b in book.bullets if b.id not in known], json_file)


@app.command("edit", epilog="Example: ace playbook edit pb.db b-12 --do 'Ask for the order number first.'")
def edit(
    path: BookArgument,
    bullet_id: Annotated[str, typer.Argument(help="For example b-12.")],
    trigger: TriggerOption = None,
    content: Annotated[str | None, typer.Option("--do", help="What it says.")] = None,
    section: SectionOption = None,
    domain: DomainOption = None,
    tenant: TenantOption = None,
    tags: TagsOption = None,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Put a lesson in your own words, or under other conditions; a mined plan becomes a lesson in words."""
    from ace.cli._playbook_views import diff_view
    from ace.core import PlaybookError
    from ace.playbook import Section

    check_one_of("section", section, get_args(Section))
    check_writable(json_file)
    given: dict[str, Any] = {"section": section, "domain": domain, "tenant": tenant, "tags": tuple(tags or ()) or None}
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields and trigger is None and content is None:
        raise PlaybookError("nothing to change; name --when, --do, --section, --domain, --tenant or --tag")
    with open_book(path) as book:
        changes: dict[str, Any] = {"trigger": trigger, "content": content, **fields}
        with book.fork() as copy:  # what it would be
            before = copy.revision
            copy.review.edit(bullet_id, **changes)
            console.print(diff_view(copy.history.diff(before, copy.revision)))
        if not yes:
            typer.confirm("Change it?", abort=True)
        before = book.revision
        book.review.edit(bullet_id, author=named(author), note=note, **changes)
        _done(path, book, before, [bullet_id], json_file)


def _staged(stage: SetStage) -> Change:
    def change(book: Playbook, bullet: PlaybookBullet, **said: str) -> None:
        book.review.trust(bullet.id, **said)
        book.review.set_stage(bullet.id, stage, **said)

    return change


def _remove(book: Playbook, bullet: PlaybookBullet, **said: str) -> None:
    book.review.remove(bullet.id, **said)


def _trust(book: Playbook, bullet: PlaybookBullet, **said: str) -> None:
    book.review.trust(bullet.id, **said)


def _release(book: Playbook, bullet: PlaybookBullet, **said: str) -> None:
    book.review.release(bullet.id, seen=bullet.updated_revision, **said)


_CHANGES: dict[str, tuple[str, Change]] = {
    "remove": ("Take lessons out of the book; the journal keeps them.", _remove),
    "pin": ("Show lessons first, whatever is asked, to every task of their domain and tenant.", _staged("pinned")),
    "unpin": ("Make pinned lessons active ones again.", _staged("active")),
    "promote": (
        "Show lessons from now on: shadow and retired ones, imported ones, and those that wait for review.",
        _staged("active"),
    ),
    "trust": (
        "Say that lessons may be believed: what waits for review becomes active, what was imported may be tried out.",
        _trust,
    ),
    "release": (
        "Let agents with plans='approved' run the plans of lessons as one call, as long as they make these calls.",
        _release,
    ),
}


def _command(what: str, about: str, change: Change) -> None:
    """Add a command that shows some bullets, asks, and changes them."""

    @app.command(what, help=about, epilog=f"Example: ace playbook {what} pb.db b-12 b-15 --note 'checked with support'")
    def command(  # pyright: ignore[reportUnusedFunction]
        path: BookArgument,
        bullet_ids: BulletsArgument,
        author: AuthorOption = "",
        note: NoteOption = "",
        yes: YesOption = False,
        json_file: JsonOption = None,
    ) -> None:
        from ace.cli._playbook_views import bullet_table
        from ace.core import PlaybookError

        check_writable(json_file)
        with open_book(path) as book:
            bullets = [book.get(bullet_id) for bullet_id in dict.fromkeys(bullet_ids)]
            if what == "unpin" and (others := [bullet.id for bullet in bullets if bullet.stage != "pinned"]):
                are = "is" if len(others) == 1 else "are"
                shows = "`ace playbook list --stage pinned` shows what is"
                raise PlaybookError(f"{', '.join(others)} {are} not pinned; {shows}; nothing was changed")
            console.print(bullet_table(f"to {what}", bullets))
            for bullet in bullets if what == "release" else ():
                if bullet.plan is not None:  # a lesson may be shortened; what is released is shown to its last call
                    console.print(Text(f"{bullet.id}: {bullet.plan.text}"), soft_wrap=True)
            if not yes:
                typer.confirm(f"{what.capitalize()} {len(bullets)} of {len(book)} bullets?", abort=True)
            before = book.revision
            for bullet in bullets:
                change(book, bullet, author=named(author), note=note)
            _done(path, book, before, [bullet.id for bullet in bullets], json_file)


for _what, (_about, _change) in _CHANGES.items():
    _command(_what, _about, _change)


# -- review ------------------------------------------------------------------------------------------------------------

_KEYS = "a approve   r reject   s skip   b back   q quit"


@app.command(
    "review",
    epilog="Example: ace playbook review pb.db    Then one key for each lesson. "
    "Without a keyboard: ace playbook review pb.db --approve b-12 --reject b-13 --yes",
)
def review(
    path: BookArgument,
    approve: Annotated[
        list[str] | None, typer.Option("--approve", help="Approve this bullet; may be repeated.")
    ] = None,
    reject: Annotated[list[str] | None, typer.Option("--reject", help="Reject this bullet; may be repeated.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only print what waits, and why.")] = False,
    author: AuthorOption = "",
    note: NoteOption = "",
    yes: YesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Decide about the lessons that wait: each is shown with what held it back, and one key decides."""
    from ace.cli._playbook_views import review_table
    from ace.core import PlaybookError

    check_writable(json_file)
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
            if not yes:
                typer.confirm(f"Approve {len(approve or ())}, reject {len(reject or ())}?", abort=True)
            for bullet_id, decision in decided.items():
                getattr(book.review, decision)(bullet_id, author=named(author), note=note)
        elif list_only:
            console.print(review_table(items))
            for why in book.review.stopped().values():
                console.print(Text(f"{why}; it is no longer offered, until you release it again"), soft_wrap=True)
        else:
            decided = _by_key(book, author, note)
        left = [item.model_dump(mode="json") for item in book.review.pending()]
        write_json({"decided": decided, "waiting": left}, json_file)


def _by_key(book: Playbook, author: str, note: str) -> dict[str, str]:
    """Show what waits, one after the other, and do what the next key says; each decision is written at once."""
    items, decided = book.review.pending(), dict[str, str]()
    if not items:
        console.print("nothing waits for review", highlight=False)
        return decided
    with _keyboard() as keys:
        _decide(book, items, keys, decided, author, note)
    approved = sum(decision == "approve" for decision in decided.values())
    console.print(
        f"{approved} approved, {len(decided) - approved} rejected, {len(book.review.pending())} wait", highlight=False
    )
    return decided


def _decide(
    book: Playbook, items: list[ReviewItem], keys: Iterator[str], decided: dict[str, str], author: str, note: str
) -> None:
    from ace.cli._playbook_views import review_view
    from ace.core import PlaybookError

    at = 0
    while at < len(items):
        item = items[at]
        console.print(review_view(item, f"{at + 1} of {len(items)}", decided.get(item.bullet.id, "")))
        console.print(_KEYS, style="dim", highlight=False)
        match next(keys, "q"):
            case "a" | "r" as key if item.bullet.id in decided:
                console.print(f"{item.bullet.id} is decided ({key} changes nothing); undo with `ace playbook rollback`")
                at += 1
            case "a" | "r" as key:
                try:
                    if key == "a":
                        seen = item.bullet.updated_revision
                        book.review.approve(item.bullet.id, seen=seen, author=named(author), note=note)
                    else:
                        book.review.reject(item.bullet.id, author=named(author), note=note)
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


@contextmanager
def _keyboard() -> Generator[Iterator[str]]:
    """The keys that are pressed, one by one; what is piped in, letter by letter."""
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
