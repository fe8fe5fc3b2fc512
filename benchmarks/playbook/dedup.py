"""Duplicates in two really learned playbooks, before and after: ``python -m benchmarks.playbook.dedup DATA OUT.json``.

A duplicate is a bullet with a neighbour of Jaccard >= 0.9 over lower-case words, or one that the calibrated rule calls so.
Also: wrong merges on the package's 300 labelled pairs, and whether every successor holds what the removed ones named.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ace.playbook import Add, MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.duplicates import calibrate, labelled_pairs
from ace.playbook.duplicates.find import JACCARD, LOOK_FROM, THRESHOLDS, same_lesson
from ace.playbook.duplicates.similarity import jaccard, marks
from benchmarks.command import command

THRESHOLD = THRESHOLDS[MiniLMEmbedder.name]


def with_duplicate(texts: list[str]) -> int:
    """Count how many texts have a duplicate among the others."""
    vectors = MiniLMEmbedder().embed(texts)
    cosines, found = vectors @ vectors.T, set()
    for i, j in np.argwhere(cosines >= LOOK_FROM):
        if i < j and (
            jaccard(texts[i], texts[j]) >= JACCARD or same_lesson(texts[i], texts[j], float(cosines[i, j]), THRESHOLD)
        ):
            found |= {int(i), int(j)}
    return len(found)


def examine(path: Path) -> dict[str, Any]:
    """Examine one playbook."""
    texts = [re.sub(r"^\[[^\]]*\] ", "", x) for x in path.read_text(encoding="utf-8").split("\n") if x.startswith("[")]
    with Playbook(embedder=MiniLMEmbedder(), screen=None) as book:
        book.commit([Add(bullet=PlaybookBullet(section="Strategies", content=text)) for text in texts])
        before = {bullet.id: bullet for bullet in book.bullets}
        report = book.maintenance.dedup()
        unnamed = lost = 0
        for bullet_id in before.keys() - {bullet.id for bullet in book.bullets}:
            successor = book.history.successor(bullet_id)
            unnamed += successor is None
            if successor is not None:
                kept, gone = marks(successor.content), marks(before[bullet_id].content)
                lost += not (gone.numbers <= kept.numbers and gone.identifiers <= kept.identifiers)
                lost += gone.negations > kept.negations
        left = [bullet.content for bullet in book.bullets]
    return {
        "bullets": len(texts),
        "removed": len(texts) - len(left),
        "variants": sum(pair.kind == "variant" for pair in report.duplicates),
        "duplicates_before": with_duplicate(texts) / len(texts),
        "duplicates_after": with_duplicate(left) / len(left),
        "without_successor": unnamed,
        "lost": lost,
    }


def main(data: Path) -> dict[str, Any]:
    """Return the report."""
    report: dict[str, Any] = {name: examine(data / "ace_playbooks" / f"{name}.txt") for name in ("offline", "online")}
    pairs, embedder = labelled_pairs(), MiniLMEmbedder()
    cosines = (embedder.embed([p.a for p in pairs]) * embedder.embed([p.b for p in pairs])).sum(axis=1)
    merged = [same_lesson(p.a, p.b, float(c), THRESHOLD) for p, c in zip(pairs, cosines, strict=True)]
    report["pairs"] = {
        "n": len(pairs),
        "false_merges": sum(m and not p.same for m, p in zip(merged, pairs, strict=True)) / len(pairs),
        "found": sum(m and p.same for m, p in zip(merged, pairs, strict=True)) / sum(p.same for p in pairs),
        "calibrated": calibrate(embedder).model_dump(),
    }
    return report


if __name__ == "__main__":
    command(main)
