"""Take a text, a run or a tenant out of a playbook as if it had never been there, with a tombstone for what is gone.

Everything else about a book only grows; a purge rewrites. The journal's entries are changed where they stand, its checksums
are made again, and one more entry says what was purged, when and by whom, so that the journal still verifies.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel

from ace.core import PlaybookError, clean_text
from ace.core.durable import locked
from ace.core.language import common_words
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import DELTAS, Purge, Remove, fold
from ace.playbook.plan import Situation, digest_of
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
_SHORT = 5
"""Characters from which on a word is looked for inside others, too."""


class PurgeReport(BaseModel, frozen=True):
    """What a purge touched, or would touch."""

    entries: int
    """Entries of the journal."""
    changed: tuple[str, ...]
    """Ids of the bullets whose words change."""
    removed: tuple[str, ...]
    """Ids of the bullets that say nothing else, and go."""
    runs: int = 0
    """Runs that are stored, or wait to be learned from: they go as a whole."""
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
        """Report what `purge` would touch; nothing is written."""
        self._state.refresh()
        return self._plan(target, self._state.store.entries(), self._state.queues())[0]

    def purge(self, target: Target, author: str = "") -> PurgeReport:
        """Do it; other processes that have the book open read it again.

        Raises:
            PlaybookError: A learner holds its folder, or a run is being driven; nothing was written.
        """
        state = self._state
        with state.lock:
            state.refresh()
            clean = _text_cleaner(target.text, self.look(target).words) if target.text else None
            try:
                runs = sum(_stored_runs(folder, target, clean, write=True) for folder in state.queues())
            except OSError as error:
                raise PlaybookError(
                    f"cannot write {error.filename!r}: {error.strerror}; make room or mend it, and purge again"
                ) from error
            with state.store.rewriting() as journal:
                report, changes, bullets = self._plan(target, journal.entries, ())
                if changes:
                    gone = [
                        Remove(bullet_id=i, reason="nothing else was in it") for i in report.removed if i in bullets
                    ]
                    left = {i: bullet for i, bullet in bullets.items() if i not in report.removed}
                    tomb = Purge(what=target.what, entries=report.entries)
                    journal.write(changes, left, [*gone, tomb], _author(author, target, report.words))
            state.reload()
            state.store.drop_vectors(state.index.text_keys())
            state.store.compact()
        return report.model_copy(update={"runs": runs})

    def _plan(
        self, target: Target, entries: Sequence[Entry], folders: Iterable[Path]
    ) -> tuple[PurgeReport, Changes, dict[str, PlaybookBullet]]:
        """Find what is touched; the changed entries as text and author; the bullets that the new journal adds up to."""
        raw = [(entry, cast("dict[str, Any]", json.loads(entry.text))) for entry in entries]
        values = [value for _, value in raw]
        words = [] if target.exact else _rare_words(target.text, values)
        if target.text:
            clean = _text_cleaner(target.text, words)
            fresh = [(clean(value), clean(entry.author)) for entry, value in raw]
        else:
            said = _Evidence(target, values)
            fresh = [(said.without(value), _author(entry.author, target)) for entry, value in raw]
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
            runs=sum(_stored_runs(folder, target, None, write=False) for folder in folders),
            words=tuple(words),
        )
        return report, changes, then


def _number(bullet_id: str) -> int:
    return int(bullet_id.removeprefix("b-"))


# -- a text ------------------------------------------------------------------------------------------------------------


def spelling(text: str) -> str:
    """Make a pattern that finds a text inside another, in any case: as it is, escaped for JSON, composed or not, as UTF-16.

    A short word is found as a word only: "Ana" is no part of "banana".

    Examples:
        >>> bool(re.fullmatch(spelling("Zoë S"), r"ZO\\u00cb  s", re.IGNORECASE))
        True
    """
    text = " ".join(unicodedata.normalize("NFC", text).split())
    # "Straße" in capitals is "STRASSE", which no comparison without case takes for the same
    parts = re.findall(r"ss|[ßẞ]|.", text, re.IGNORECASE | re.DOTALL)
    found = "".join(r"(?:\0?(?:\s|\\+[nrtfv])\0?)+" if c == " " else _character(c) for c in parts)
    return rf"(?:(?<!\w)|(?<=\\[nrt])){found}(?!\w)" if len(text) < _SHORT and text.isalnum() else found


@lru_cache(maxsize=1_024)
def _character(character: str) -> str:
    cased = {character, character.lower(), character.upper(), character.casefold()}
    if character.lower() in ("ss", "ß"):
        cased |= {"ss", "ß", "ẞ"}
    said = cased | {unicodedata.normalize("NFD", c) for c in cased}
    found = {re.escape(c) for c in said}
    found |= {re.escape(json.dumps(c)[1:-1]).replace(r"\\", r"\\+") for c in said if json.dumps(c)[1:-1] != c}
    wide = rf"(?:{'|'.join(sorted(found, key=len, reverse=True))})"
    return rf"\0?{wide}\0?"


def _text_cleaner(text: str, words: Collection[str]) -> Callable[[Any], Any]:
    alone = [rf"(?<!\w){spelling(word)}(?!\w)" for word in words]
    pattern = re.compile("|".join([spelling(text), *alone]), re.IGNORECASE)
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
        if isinstance(value, (int, float)) and not isinstance(value, bool) and (free or name == "value"):
            return PURGED if pattern.fullmatch(str(value)) else value
        return value

    return clean


def _rare_words(text: str, values: Iterable[Any]) -> list[str]:
    """Find words of a text that no list of words knows, and that nothing in the journal says without the whole text."""
    whole = re.compile(spelling(text), re.IGNORECASE)
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
    runs: frozenset[str]
    wordings: frozenset[str]
    """Of the situations that it brings."""

    @classmethod
    def by(cls, value: dict[str, Any]) -> _Said:
        bullet: dict[str, Any] = value.get("bullet") or {}
        taught: dict[str, Any] = (bullet or value).get("provenance") or {}
        runs = frozenset([*taught.get("run_ids", ()), *filter(None, [value.get("run_id")])])
        brought = [*bullet.get("situations", ()), *filter(None, [value.get("situation")])]
        return cls(
            value.get("bullet_id") or bullet.get("id", ""),
            bullet.get("tenant"),
            runs,
            frozenset(Situation(**situation).wording for situation in brought),
        )


class _Evidence:
    """What a journal says of the runs that go, and of the others.

    Args:
        target: A run or a tenant.
        values: The journal's entries.
    """

    def __init__(self, target: Target, values: Sequence[dict[str, Any]]) -> None:
        self._tenant = target.tenant
        said = [(value, _Said.by(value)) for value in values]
        taught: dict[str, set[str]] = {}
        for value, entry in said:
            if value["kind"] not in ("tag", "learned"):
                taught.setdefault(entry.bullet_id, set()).update(entry.runs)
        self.gone = {
            entry.bullet_id for _, entry in said if target.tenant is not None and entry.tenant == target.tenant
        }
        self.gone |= {i for i, runs in taught.items() if target.run_id and runs == {target.run_id}}
        self.runs = frozenset(
            [target.run_id] if target.run_id else [r for _, e in said if e.bullet_id in self.gone for r in e.runs]
        )
        if target.tenant is not None:
            self.runs |= {v["run_id"] for v in values if v["kind"] == "learned" and v.get("tenant") == target.tenant}
        ours, others = dict[str, set[str]](), dict[str, set[str]]()
        for _, entry in said:
            if entry.runs and entry.runs <= self.runs:
                ours.setdefault(entry.bullet_id, set()).update(entry.wordings)
            elif entry.runs.isdisjoint(self.runs):
                others.setdefault(entry.bullet_id, set()).update(entry.wordings)
        # a wording goes with its run, unless the lesson would be left without any
        self._own = {i: wordings - others[i] for i, wordings in ours.items() if others.get(i)}

    def without(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a journal entry without what goes; one that held nothing else keeps its place."""
        said = _Said.by(value)
        ours = bool(said.runs) and said.runs <= self.runs
        if said.bullet_id in self.gone or (ours and value["kind"] in ("merge", "tag", "learned")):
            return {
                "kind": "purge",
                "what": "added" if value["kind"] == "add" else "entry",
                "bullet_id": said.bullet_id or "b-0",
            }
        value = cast("dict[str, Any]", self._replaced(value))
        if not self.gone.isdisjoint(value.get("absorbed", ())):
            value["absorbed"] = [i for i in value["absorbed"] if i not in self.gone]
        own = self._own.get(said.bullet_id, ())
        if value.get("instead_of") in own:
            value["instead_of"] = ""
        if "bullet" in value and not said.wordings.isdisjoint(own):
            kept = [s for s in value["bullet"]["situations"] if Situation(**s).wording not in own]
            value["bullet"] |= {"situations": kept, "trigger": Situation(**kept[0]).shown if kept else ""}
        return value

    def _replaced(self, value: Any, name: str = "") -> Any:
        if name == "provenance" and value:
            return self._provenance(value)
        if isinstance(value, dict):
            return {key: self._replaced(item, key) for key, item in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self._replaced(item) for item in items if not isinstance(item, str) or item not in self.runs]
        return self._said(value) if isinstance(value, str) else value

    def _said(self, text: str) -> str:
        for run in self.runs:
            if run in text:
                text = re.sub(rf"(?<![\w-]){re.escape(run)}(?![\w-])", PURGED, text)
        return PURGED if text and text == self._tenant else text

    def _provenance(self, value: dict[str, Any]) -> dict[str, Any]:
        runs, tasks = value["run_ids"], value["task_ids"]
        if set(runs) <= self.runs:
            return value | {"run_ids": [], "task_ids": [], "groups": []} if runs else value
        kept = [i for i, run in enumerate(runs) if run not in self.runs]
        if len(tasks) == len(runs):  # one task for each run, in the same order
            tasks = [tasks[i] for i in kept]
        return value | {"run_ids": [runs[i] for i in kept], "task_ids": tasks}


def _author(author: str, target: Target, words: Collection[str] = ()) -> str:
    if target.text:
        return str(_text_cleaner(target.text, words)(author))
    return PURGED if author and author in (target.run_id, target.tenant) else author


# -- stored runs -------------------------------------------------------------------------------------------------------


def _stored_runs(folder: Path, target: Target, clean: Callable[[Any], Any] | None, *, write: bool) -> int:
    """Count the runs in a folder that hold what goes; with `write` they are deleted: half a run could not go on."""
    clean = clean or (_text_cleaner(target.text, ()) if target.text else None)
    # also what a writer left that was killed
    found = [
        file for file in sorted([*folder.glob("*.json"), *folder.glob(".*.json.tmp")]) if _holds(file, target, clean)
    ]
    if not write or not found:
        return len(found)
    taken = f"{str(folder)!r} is being learned from; close the learner, then purge again"
    with locked(folder / ".lock", taken, PlaybookError):
        for file in found:
            run = file.with_name(file.name[1:-4]) if file.suffix == ".tmp" else file
            lock = run.with_suffix(".lock")
            driven = f"run {run.stem!r} is being driven; wait until it is done, and purge again"
            with locked(lock, driven, PlaybookError):
                file.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
    return len(found)


def _holds(file: Path, target: Target, clean: Callable[[Any], Any] | None) -> bool:
    """Check whether a stored run, or a damaged one, holds what goes."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    if clean is not None:
        return clean(text) != text
    name, value = ("run_id", target.run_id) if target.run_id else ("tenant", target.tenant)
    said = {f'"{name}":{json.dumps(clean_text(value or ""), ensure_ascii=ascii)}' for ascii in (True, False)}
    # a signed run is a text in a text
    said |= {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in said for ascii in (True, False)}
    plain = text.replace('": ', '":')
    return file.stem == target.run_id or any(one.replace('": ', '":') in plain for one in said)
