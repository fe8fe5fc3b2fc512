"""Take a text, a run or a tenant out of a playbook as if it had never been there, with a tombstone for what is gone.

Everything else about a book only grows; a purge rewrites. The journal's entries are changed where they stand, its checksums
are made again, and one more entry says what was purged, when and by whom, so that the journal still verifies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel

from ace.core import PlaybookError
from ace.core.durable import locked, write_atomic
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import DELTAS, Purge, Remove, fold
from ace.playbook.masking import common_words
from ace.playbook.plan import digest_of
from ace.playbook.state import PlaybookState
from ace.playbook.store import Entry

PURGED = "[purged]"
Changes = dict[tuple[int, int], tuple[str, str]]
"""By revision and position: the new delta as JSON, and its author."""
_KEPT = frozenset(
    [
        "kind",
        "id",
        "bullet_id",
        "absorbed",
        "section",
        "stage",
        "trust",
        "arm",
        "tool",
        "tool_sequence",
        "times",
        "what",
        "termination_reason",
        "outcome",
        "schema_hashes",
        "tool_schema_hashes",
    ]
)
"""Fields of the models that hold no text of a request: ids, hashes, names of tools, and words of the format itself."""
_FREE = frozenset({"args", "tool_args", "inputs", "outputs", "metadata", "details"})
"""Fields whose names, and names below, are a user's own."""
_MIN_WORD = 3


class PurgeReport(BaseModel, frozen=True):
    """What a purge touched, or would touch."""

    entries: int
    """Entries of the journal."""
    changed: tuple[str, ...]
    """Ids of the bullets whose words change."""
    removed: tuple[str, ...]
    """Ids of the bullets that say nothing else, and go."""
    queue_lines: int
    """Lines of learners' queues."""
    words: tuple[str, ...] = ()
    """Single words of the text that go, too."""


@dataclass(frozen=True)
class Target:
    """What goes: exactly one of a text, a run or a tenant."""

    text: str = ""
    run_id: str = ""
    tenant: str | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        given = [bool(self.text.strip()), bool(self.run_id), self.tenant is not None]
        if sum(given) != 1:
            raise PlaybookError("purge needs exactly one of a text, a run and a tenant")

    @property
    def what(self) -> Literal["text", "run", "tenant"]:
        """In a word, for the tombstone, which does not repeat it."""
        return "text" if self.text else "run" if self.run_id else "tenant"


class Purger:
    """Purges one playbook.

    Args:
        state: The playbook's bullets and store.
    """

    def __init__(self, state: PlaybookState) -> None:
        self._state = state

    def look(self, target: Target) -> PurgeReport:
        """What `purge` would touch; nothing is written."""
        store = self._state.store
        return self._plan(target, store.entries(), store.queues())[0]

    def purge(self, target: Target, author: str = "") -> PurgeReport:
        """Do it; other processes that have the book open read it again.

        Raises:
            PlaybookError: A learner holds its queue; nothing was written.
        """
        state = self._state
        with state.lock:
            clean = _text_cleaner(target.text, self.look(target).words) if target.text else None
            lines = sum(_queue_lines(path, target, clean, write=True) for path in state.store.queues())
            with state.store.rewriting() as journal:
                report, changes, bullets = self._plan(target, journal.entries, ())
                if changes:
                    gone = [
                        Remove(bullet_id=i, reason="nothing else was in it") for i in report.removed if i in bullets
                    ]
                    left = {i: bullet for i, bullet in bullets.items() if i not in report.removed}
                    tomb = Purge(what=target.what, entries=report.entries)
                    journal.write(changes, left, [*gone, tomb], author)
            state.reload()
            state.store.drop_vectors(state.index.text_keys())
            state.store.compact()
        return report.model_copy(update={"queue_lines": lines})

    def _plan(
        self, target: Target, entries: Sequence[Entry], queues: Iterable[Path]
    ) -> tuple[PurgeReport, Changes, dict[str, PlaybookBullet]]:
        """What is touched; the changed entries as text and author; the bullets that the new journal adds up to."""
        raw = [(entry, cast("dict[str, Any]", json.loads(entry.text))) for entry in entries]
        values = [value for _, value in raw]
        words = [] if target.exact else _rare_words(target.text, values)
        if target.text:
            clean = _text_cleaner(target.text, words)
            fresh = [(clean(value), clean(entry.author)) for entry, value in raw]
        else:
            gone = _bullets_of(target, values)
            fresh = [(_without(value, target, gone), entry.author) for entry, value in raw]
        changes = {
            (entry.revision, entry.position): (DELTAS.validate_python(new).model_dump_json(), author)
            for (entry, value), (new, author) in zip(raw, fresh, strict=True)
            if new != value or author != entry.author
        }
        then = fold(
            (entry.revision, DELTAS.validate_python(new)) for entry, (new, _) in zip(entries, fresh, strict=True)
        )
        now = {bullet.id: bullet for bullet in self._state.all()}
        changed = [i for i in then.keys() & now.keys() if then[i] != now[i]]
        empty = [i for i in changed if not re.search(r"\w", then[i].content.replace(PURGED, ""))]
        report = PurgeReport(
            entries=len(changes),
            changed=tuple(sorted(set(changed).difference(empty), key=_number)),
            removed=tuple(sorted({*empty, *(now.keys() - then.keys())}, key=_number)),
            queue_lines=sum(_queue_lines(path, target, None, write=False) for path in queues),
            words=tuple(words),
        )
        return report, changes, then


def _number(bullet_id: str) -> int:
    return int(bullet_id.removeprefix("b-"))


# -- a text ------------------------------------------------------------------------------------------------------------


def variants(text: str) -> Iterator[str]:
    """How a text may be spelled inside another: as it is, escaped for JSON, and with a zero after each character (UTF-16).

    Example:
        >>> list(variants("é"))
        ['é', '\\\\u00e9', 'é\\x00']
    """
    text = " ".join(text.split())
    # "Straße" in capitals is "STRASSE", which no comparison without case takes for the same
    cased = {words.lower(): words for words in (text.casefold(), text.upper(), text)}
    for words in cased.values():
        yield from dict.fromkeys((words, json.dumps(words)[1:-1], "".join(f"{c}\0" for c in words)))


def _text_cleaner(text: str, words: Collection[str]) -> Callable[[Any], Any]:
    spelled = "|".join(re.escape(v).replace(r"\ ", r"\s+") for v in sorted(variants(text), key=len, reverse=True))
    alone = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in words)
    pattern = re.compile(f"{spelled}|{alone}" if alone else spelled, re.IGNORECASE)
    digests = {digest_of(part) for part in (text, json.dumps(text), *text.split(), *re.findall(r"\w+", text))}

    def clean(value: Any, name: str = "", free: bool = False) -> Any:
        if not free and name in _KEPT:
            return value
        if isinstance(value, str):
            return ("" if value in digests else value) if name == "digest" else pattern.sub(PURGED, value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            free = free or name in _FREE
            return {
                pattern.sub(PURGED, key) if free else key: clean(item, key, free and name != "args")
                for key, item in items
            }
        if isinstance(value, list):
            return [clean(item, name, free) for item in cast("list[Any]", value)]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name == "value":
            return PURGED if pattern.fullmatch(str(value)) else value
        return value

    return clean


def _rare_words(text: str, values: Iterable[Any]) -> list[str]:
    """Words of a text that no list of words knows, and that nothing in the journal says without the whole text."""
    whole = re.compile(re.escape(" ".join(text.split())).replace(r"\ ", r"\s+"), re.IGNORECASE)
    found = [
        w for w in dict.fromkeys(re.findall(r"\w+", text.lower())) if len(w) >= _MIN_WORD and w not in common_words()
    ]
    if len(text.split()) < 2:
        return []
    rest = [whole.sub(" ", said).lower() for value in values for said in _strings(value)]
    return [
        word
        for word in found
        if not any(word in said and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", said) for said in rest)
    ]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)


# -- a run or a tenant -------------------------------------------------------------------------------------------------


class _Said(NamedTuple):
    """Whose a journal entry is."""

    bullet_id: str
    tenant: str | None
    runs: list[str]

    @classmethod
    def by(cls, value: dict[str, Any]) -> _Said:
        bullet: dict[str, Any] = value.get("bullet") or {}
        taught: dict[str, Any] = (bullet or value).get("provenance") or {}
        runs = [*taught.get("run_ids", ()), *filter(None, [value.get("run_id")])]
        return cls(value.get("bullet_id") or bullet.get("id", ""), bullet.get("tenant"), runs)


def _bullets_of(target: Target, values: Iterable[dict[str, Any]]) -> set[str]:
    """Ids of the bullets that go: those of a tenant, or those that no run but this one taught."""
    runs: dict[str, set[str]] = {}
    gone: set[str] = set()
    for value in values:
        said = _Said.by(value)
        if value["kind"] != "tag":
            runs.setdefault(said.bullet_id, set()).update(said.runs)
        if target.tenant is not None and said.tenant == target.tenant:
            gone.add(said.bullet_id)
    return gone | {i for i, taught in runs.items() if target.run_id and taught == {target.run_id}}


def _without(value: dict[str, Any], target: Target, gone: Collection[str]) -> dict[str, Any]:
    """A journal entry without what goes; one that held nothing else keeps its place."""
    said = _Said.by(value)
    ours = bool(target.run_id) and said.runs == [target.run_id]
    if said.bullet_id in gone or (ours and value["kind"] in ("merge", "tag")):
        return {"kind": "purge", "what": "added" if value["kind"] == "add" else "entry", "bullet_id": said.bullet_id}
    if not set(gone).isdisjoint(value.get("absorbed", ())):
        value = value | {"absorbed": [i for i in value["absorbed"] if i not in gone]}
    return cast("dict[str, Any]", _replaced(value, target.run_id)) if target.run_id else value


def _replaced(value: Any, run_id: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, run_id) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(item, run_id) for item in cast("list[Any]", value) if item != run_id]
    return value.replace(run_id, PURGED) if isinstance(value, str) else value


# -- queues ------------------------------------------------------------------------------------------------------------


def _queue_lines(path: Path, target: Target, clean: Callable[[Any], Any] | None, *, write: bool) -> int:
    """Lines of a learner's queue that hold what goes; with `write` they are rewritten, or dropped."""
    if not path.exists():
        return 0
    clean = clean or (_text_cleaner(target.text, ()) if target.text else None)

    def kept(line: str) -> str | None:
        value = json.loads(line)
        if clean is not None:
            return json.dumps(clean(value))
        run = value.get("output", {})
        ours = (
            run.get("run_id") == target.run_id if target.run_id else run.get("task", {}).get("tenant") == target.tenant
        )
        return None if ours else line

    def rewritten() -> tuple[list[str], int]:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        fresh = [kept(line) for line in lines]
        same = [new is not None and json.loads(new) == json.loads(old) for old, new in zip(lines, fresh, strict=True)]
        out = [old if equal else new for old, new, equal in zip(lines, fresh, same, strict=True)]
        return [line for line in out if line is not None], same.count(False)

    if not write:
        return rewritten()[1]
    taken = f"{str(path)!r} is being learned from; close the learner, then purge again"
    with locked(Path(f"{path}.lock"), taken, PlaybookError):
        lines, touched = rewritten()
        if touched:
            write_atomic(path, "".join(f"{line}\n" for line in lines), power_cut=True, private=True)
    return touched
