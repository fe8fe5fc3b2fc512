"""Who may use a served playbook: names with their tokens, and the sessions of browsers that have shown one."""

from __future__ import annotations

import hmac
import logging
import secrets
import stat
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, ValidationError

from ace.core import PlaybookError

_log = logging.getLogger(__name__)
MIN_TOKEN = 16
"""Characters of a token: fewer could be guessed."""
TICKET_SECONDS = 60.0
SESSION_SECONDS = 12 * 3_600.0
MOST_SESSIONS = 20
"""Browsers of one person; with another one, the oldest of that person has to show the token again."""
MOST_OF_TENANT = 200
"""Browsers of one tenant's people together."""


class Person(NamedTuple):
    """Somebody with a token, a person or an agent: `Person("ana", tenant="shop")`."""

    name: str
    """In the journal, of everything that comes with this token."""
    tenant: str | None = None
    """Whose lessons are seen and changed, beside those that are everybody's."""
    read_only: bool = False


class _Entry(BaseModel, extra="forbid"):
    """One table of a token file."""

    token: str = Field(min_length=MIN_TOKEN, max_length=512)
    tenant: str | None = None
    read_only: bool = False


class People:
    """Everybody who may use a served playbook, by token.

    Args:
        tokens: Token to person.
        file: Where they came from, and whose token a file of one line is: it is read again when it has changed. Where it
            cannot be read then, nobody may come in.

    Examples:
        >>> People({"a-token-of-ana-17": Person("ana")}).of("a-token-of-ana-17").name
        'ana'
    """

    def __init__(self, tokens: Mapping[str, Person], file: tuple[Path, Person] | None = None) -> None:
        self._read = dict(tokens)
        self._file = file
        self._seen = _stamp(file[0]) if file is not None else None
        self._tickets: dict[str, tuple[Person, float]] = {}

    @property
    def _tokens(self) -> dict[str, Person]:
        if self._file is not None and (now := _stamp(self._file[0])) != self._seen:
            try:
                self._read = _tokens_in(*self._file)
            except PlaybookError as error:
                self._read = {}
                _log.error("%s; nobody may come in until it can be used", error)
            self._seen = now
        return self._read

    @classmethod
    def alone(cls, person: Person) -> tuple[People, str]:
        """Make one person with a new token: `people, token = People.alone(Person("ana"))`."""
        token = secrets.token_urlsafe(24)
        return cls({token: person}), token

    @classmethod
    def from_file(cls, path: str | Path, person: Person) -> People:
        """Read those in a file: `People.from_file("tokens.toml", Person("ana"))`.

        A file of one line is the token of `person`. Otherwise it is TOML with a table for each name, whose keys are
        ``token`` and, if need be, ``tenant`` and ``read_only``.

        Args:
            path: The file; it should be readable by its owner only.
            person: Whose token it is, where the file is one line. Where this person may only read, so may everybody in
                the file.

        Raises:
            PlaybookError: The file cannot be read, or is neither of the two.
        """
        file = Path(path), person
        return cls(_tokens_in(*file), file)

    def of(self, token: str) -> Person | None:
        """Find whose token it is; None for nobody's. `people.of(token)` takes as long for each wrong one."""
        given = token.encode("utf-8", "replace")
        found = [person for known, person in self._tokens.items() if hmac.compare_digest(known.encode(), given)]
        return found[0] if found else None

    def ticket(self, person: Person) -> str:
        """Make a ticket that lets one browser in, once and within a minute: `people.ticket(Person("ana"))`.

        The arguments of a process can be read by everybody on a machine, so a browser is not started with a token.
        """
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = person, time.monotonic() + TICKET_SECONDS
        return ticket

    def of_ticket(self, ticket: str) -> Person | None:
        """Find whose ticket it is, and use it up; None for nobody's: `people.of_ticket(ticket)`."""
        person, until = self._tickets.pop(ticket, (None, 0.0))
        return person if time.monotonic() < until else None

    def everybody(self) -> tuple[Person, ...]:
        """Return all of them: `people.everybody()[0].name`."""
        return tuple(self._tokens.values())


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _tokens_in(path: Path, person: Person) -> dict[str, Person]:
    """Read the tokens in a file, see `People.from_file`.

    Raises:
        PlaybookError: The file cannot be read, or is none.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(f"cannot read the token file {str(path)!r}: {error}") from error
    if "\n" not in text and "=" not in text.rstrip("="):
        if len(text) < MIN_TOKEN or not text.isprintable() or " " in text:
            raise PlaybookError(
                f"the token in {str(path)!r} has {len(text)} characters; expected {MIN_TOKEN} or more, without spaces"
            )
        return {text: person}
    try:
        entries = {name: _Entry.model_validate(table) for name, table in tomllib.loads(text).items()}
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        # what stands in the file is a secret, so that no message may show it
        fields = error.errors() if isinstance(error, ValidationError) else []
        where = "".join(f" ({'.'.join(map(str, field['loc']))})" for field in fields)
        raise PlaybookError(
            f"the token file {str(path)!r} cannot be used{where}; expected one line with a token, or a table for each "
            f'name: [ana], token = "..." of {MIN_TOKEN} characters or more, and perhaps tenant, read_only'
        ) from None
    people = {e.token: Person(name, e.tenant, e.read_only or person.read_only) for name, e in entries.items()}
    if not people or len(people) < len(entries):
        raise PlaybookError(f"the token file {str(path)!r} names nobody, or gives one token to two names")
    return people


def others_can_read(path: str | Path) -> bool:
    """Check whether more than its owner may read a file: `others_can_read("tokens.toml")`."""
    return bool(Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


class Session(NamedTuple):
    """A browser that has shown a token: `Session(Person("ana"), csrf="x", until=0.0)`."""

    person: Person
    csrf: str
    """Stands in each form of this session; a form without it is refused."""
    until: float


class Sessions:
    """The browsers that have shown a token, in this process only: `Sessions().begin(Person("ana"))`."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}

    def begin(self, person: Person) -> str:
        """Begin a new session: `key = sessions.begin(person)`; of too many the oldest of the person or tenant goes."""
        key = secrets.token_urlsafe(32)
        self._known[key] = Session(person, secrets.token_urlsafe(32), time.monotonic() + SESSION_SECONDS)
        for field, most in (("name", MOST_SESSIONS), ("tenant", MOST_OF_TENANT)):
            whose = getattr(person, field)
            same = [known for known, session in self._known.items() if getattr(session.person, field) == whose]
            for oldest in same[:-most]:
                self.end(oldest)
        return key

    def get(self, key: str) -> Session | None:
        """Return the session of a key, while it lasts: `sessions.get(key)`."""
        session = self._known.get(key)
        if session is not None and session.until < time.monotonic():
            self.end(key)
            return None
        return session

    def end(self, key: str) -> None:
        """Forget a session: `sessions.end(key)`."""
        self._known.pop(key, None)
