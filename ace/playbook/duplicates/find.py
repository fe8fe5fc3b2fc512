"""Find duplicate bullets and merge them without losing evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from importlib import resources
from typing import Literal

import numpy as np
from pydantic import BaseModel

from ace.core.language import EXTREMES
from ace.playbook.bullet import PlaybookBullet, Provenance
from ace.playbook.delta import Delta, Merge, Update
from ace.playbook.duplicates.similarity import JACCARD, jaccard, text_difference, words
from ace.playbook.index.minilm import Embedder, Vectors, embedded

MAX_FALSE_MERGES = 0.01
"""Share of the labelled pairs that may be called duplicates although they teach different things."""
LOOK_FROM = 0.75
"""Below this cosine no two texts are compared word by word."""
THRESHOLDS = {"all-MiniLM-L6-v2": 0.86}
"""Calibrated on the pairs that ship with the package; for another embedder `calibrate` finds its own."""
VARIANT_WORDS = 30
"""Texts this long that share nine words in ten are one lesson with a variant, if a word like `least` for `most` differs."""
MAX_VARIANTS = 3
_BLOCK = 2_048

Kind = Literal["duplicate", "variant"]


class LabelledPair(BaseModel, frozen=True):
    """Two lessons, and whether they are the same."""

    a: str
    b: str
    same: bool
    kind: str


class ThresholdFit(BaseModel, frozen=True):
    """What a threshold does on the labelled pairs: `calibrate(embedder)` finds one."""

    embedder: str
    threshold: float
    false_merges: int
    merges: int
    """Pairs that are the same and are called so."""
    pairs: int
    same: int
    """Pairs that are the same."""


@dataclass(frozen=True)
class DuplicatePair:
    """Two bullets, one of which may go."""

    successor: PlaybookBullet
    removed: PlaybookBullet
    kind: Kind
    cosine: float


@dataclass
class DedupReport:
    """What `dedup` found and did."""

    bullets: int
    duplicates: list[DuplicatePair] = field(default_factory=list[DuplicatePair])
    near: list[tuple[str, str, float, str]] = field(default_factory=list[tuple[str, str, float, str]])
    """Pairs that are near and were kept apart: ids, cosine, and what keeps them apart."""
    revision: int | None = None
    """The commit; None for a dry run, or when there was nothing to do."""


def labelled_pairs() -> list[LabelledPair]:
    """Read the 300 pairs, `labelled_pairs()`: paraphrases, negations, changed numbers, tools and roles, near subjects."""
    text = resources.files("ace.playbook.duplicates").joinpath("pairs.jsonl").read_text(encoding="utf-8")
    return [LabelledPair.model_validate_json(line) for line in text.split("\n") if line]


def same_lesson(a: str, b: str, cosine: float, threshold: float) -> bool:
    """Check whether two texts teach the same, so that one of them may go.

    Examples:
        >>> same_lesson("Check the balance first.", "Check the balance first!", 0.99, 0.9)
        True
        >>> same_lesson("Always ask first.", "Never ask first.", 0.99, 0.9)
        False
    """
    near = cosine >= threshold or jaccard(a, b) >= JACCARD
    return near and not text_difference(a, b)


def calibrate(embedder: Embedder, pairs: Sequence[LabelledPair] | None = None) -> ThresholdFit:
    """Find the lowest cosine that merges at most 1 % of the labelled pairs wrongly: `calibrate(embedder).threshold`."""
    pairs = labelled_pairs() if pairs is None else pairs
    left, right = embedded(embedder, [p.a for p in pairs]), embedded(embedder, [p.b for p in pairs])
    cosines = (left * right).sum(axis=1)
    free = np.asarray([not text_difference(p.a, p.b) for p in pairs])
    alike = np.asarray([jaccard(p.a, p.b) >= JACCARD for p in pairs])
    same = np.asarray([p.same for p in pairs])
    best = ThresholdFit(
        embedder=embedder.name, threshold=1.0, false_merges=0, merges=0, pairs=len(pairs), same=int(same.sum())
    )
    for threshold in np.arange(1.0, 0.495, -0.01):
        merged = ((cosines >= threshold) | alike) & free
        wrong = int((merged & ~same).sum())
        if wrong > MAX_FALSE_MERGES * len(pairs):
            break
        update = {"threshold": round(float(threshold), 2), "false_merges": wrong, "merges": int((merged & same).sum())}
        best = best.model_copy(update=update)
    return best


def find_duplicates(bullets: Sequence[PlaybookBullet], vectors: Vectors, threshold: float) -> DedupReport:
    """Find pairs of which one bullet may go: the successor is the better tried one, and the longer one among equals.

    Args:
        bullets: Of any sections and scopes; only bullets that share both, and the tool sequence, are compared.
        vectors: Of their texts, shape (len(bullets), dimension).
        threshold: Calibrated for the vectors' embedder.
    """
    report = DedupReport(bullets=len(bullets))
    gone: set[str] = set()
    variants: dict[str, int] = {}
    family: dict[str, list[PlaybookBullet]] = {bullet.id: [bullet] for bullet in bullets}
    for i, j, cosine in _near(bullets, vectors):
        one, other = bullets[i], bullets[j]
        if one.id in gone or other.id in gone or _kept_apart(family[one.id], family[other.id]):
            continue
        a, b = text_of(one), text_of(other)
        if cosine < threshold and jaccard(a, b) < JACCARD:
            continue
        what = text_difference(a, b)
        successor, removed = _ranked(one, other)
        if not what:
            kind: Kind = "duplicate"
        elif _is_variant(a, b, what) and variants.get(successor.id, 0) < MAX_VARIANTS:
            kind, variants[successor.id] = "variant", variants.get(successor.id, 0) + 1
        else:
            report.near.append((one.id, other.id, cosine, what))
            continue
        gone.add(removed.id)
        family[successor.id] += family[removed.id]
        report.duplicates.append(DuplicatePair(successor, removed, kind, cosine))
    return report


def _kept_apart(ours: Sequence[PlaybookBullet], theirs: Sequence[PlaybookBullet]) -> bool:
    """Check whether a person kept one of these beside one of those, they name different versions of a tool, or are mined
    lessons with different plans: a plan for each item is near that for one of them, and another lesson."""
    for one in ours:
        for other in theirs:
            if other.id in one.distinct_from or one.id in other.distinct_from:
                return True
            if one.shape != other.shape and one.shape and other.shape:
                return True
            hashes = one.tool_schema_hashes
            if any(hashes.get(name, digest) != digest for name, digest in other.tool_schema_hashes.items()):
                return True
    return False


def text_of(bullet: PlaybookBullet) -> str:
    """Return the whole text of a bullet."""
    return f"{bullet.trigger}\n{bullet.content}" if bullet.trigger else bullet.content


def merging(pairs: Sequence[DuplicatePair]) -> list[Delta]:
    """Make the deltas that leave one bullet of each group: evidence is summed, and variants are written down."""
    into = {pair.removed.id: pair.successor.id for pair in pairs}
    groups: dict[str, list[DuplicatePair]] = {}
    for pair in pairs:
        root = pair.successor.id
        while root in into:
            root = into[root]
        groups.setdefault(root, []).append(pair)
    deltas: list[Delta] = []
    for root, members in groups.items():
        notes = [variant_note(pair) for pair in members if pair.kind == "variant"]
        if notes:
            successor = next(pair.successor for pair in members if pair.successor.id == root)
            content = " ".join([successor.content, *notes])
            deltas.append(Update(bullet_id=root, changes={"content": content}, reason="its variant in the same words"))
        removed = [pair.removed for pair in members]
        deltas.append(
            Merge(
                bullet_id=root,
                provenance=Provenance().joined(*(bullet.provenance for bullet in removed)),
                absorbed=tuple(b.id for b in removed),
                reason=f"duplicate of {', '.join(b.id for b in removed)}",
            )
        )
    return deltas


def variant_note(pair: DuplicatePair) -> str:
    """Say in a sentence what the removed text has in place of the successor's words.

    Examples:
        >>> one = PlaybookBullet(section="Strategies", content="Take the most played song.")
        >>> other = PlaybookBullet(section="Strategies", content="Take the least played song.")
        >>> variant_note(DuplicatePair(one, other, "variant", 0.99))
        "The same holds with 'least' for 'most'."
    """
    left, right = text_of(pair.successor).split(), text_of(pair.removed).split()
    swaps: dict[tuple[str, str], None] = {}
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "equal":
            swaps[_bare(left[i1:i2]), _bare(right[j1:j2])] = None
    parts = [
        f"{new!r} for {old!r}" if old and new else f"{new!r} added" if new else f"without {old!r}" for old, new in swaps
    ]
    return f"The same holds with {' and '.join(parts)}."


def _bare(part: Sequence[str]) -> str:
    return " ".join(part).strip(" .,;:'\"()")


def _is_variant(a: str, b: str, what: str) -> bool:
    if jaccard(a, b) < JACCARD or min(len(a.split()), len(b.split())) < VARIANT_WORDS:
        return False
    if what.startswith("antonyms"):
        return set(what.removeprefix("antonyms: ").split(" / ")) <= EXTREMES
    # a name that is replaced throughout, with the words around it, is the same lesson about something else
    swapped = (words(a) ^ words(b)) - EXTREMES
    return what.startswith(("names", "other words")) and len(swapped) <= 8


def _near(bullets: Sequence[PlaybookBullet], vectors: Vectors) -> list[tuple[int, int, float]]:
    """Find pairs of one section, scope and tool sequence that are near each other, the nearest first."""
    scopes: dict[object, list[int]] = {}
    for index, bullet in enumerate(bullets):
        if bullet.stage in ("active", "pinned", "shadow"):
            key = (bullet.section, bullet.domain, bullet.tenant, bullet.tool_sequence, bullet.changing_tools)
            scopes.setdefault(key, []).append(index)
    found: list[tuple[int, int, float]] = []
    for members in scopes.values():
        rows = np.asarray(members)
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            cosines = vectors[part] @ vectors[rows[start:]].T
            for x, y in np.argwhere(cosines >= LOOK_FROM):
                if x < y:
                    found.append((int(part[x]), int(rows[start + y]), float(cosines[x, y])))
    return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _ranked(one: PlaybookBullet, other: PlaybookBullet) -> tuple[PlaybookBullet, PlaybookBullet]:
    def rank(bullet: PlaybookBullet) -> tuple[object, ...]:
        uses = bullet.helpful_count + bullet.harmful_count
        return (bullet.stage == "pinned", bullet.stage == "active", uses, len(text_of(bullet)), -bullet.number)

    return (one, other) if rank(one) >= rank(other) else (other, one)
