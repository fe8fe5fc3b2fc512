"""`Curator`: compares lessons with the playbook and turns them into typed deltas."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal

from ace.curator.eviction import evict
from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet, sequence_key
from ace.playbook.delta import Add, Delta, Merge, apply
from ace.playbook.duplicates.find import THRESHOLDS, calibrate, same_lesson, text_of
from ace.playbook.duplicates.similarity import (
    JACCARD,
    contradiction,
    is_negative,
    is_number,
    jaccard,
    marks,
    opposed,
    text_difference,
    words,
)
from ace.playbook.index.embedders import embedded
from ace.playbook.insight import RECORD, Insight

MAX_PITFALLS = 1
"""Records of what did not work that are kept for one kind of task."""
WORTH_A_LOOK = 0.5
"""Triggers whose cosine is below this are not compared together with what follows from them."""
SAME_DETAIL = 0.75
"""Lessons about a tool that share this much of their words (Jaccard) are the same."""
MIN_CONFIDENCE = 0.6
"""Lessons from a verdict that is less sure wait for review."""
_NOT_WRITTEN = 900_000_000
"""Bullets that are not in the book yet are told apart by numbers from here on."""


class Curator:
    """Searches before it adds.

    A lesson merges into a bullet of the same section, scope and changing calls whose trigger means the same; its words stay
    as they are and the evidence is added. Everything else becomes a new bullet. A bullet is never rewritten. When the book
    has a `book_budget`, what is worth least per token leaves for what is new.

    Args:
        playbook: The book.
        merge_cosine: Triggers this close may mean the same, if they agree in names, numbers, negations and order; calibrated
            for the book's embedder by default.
        min_confidence: Lessons from a verdict that is less sure wait for review.

    Example:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> lesson = Insight(section="Pitfalls", trigger="", content="Ask first.")
        >>> [delta.kind for delta in Curator(book, 0.9).curate([lesson], {})]
        ['add']
    """

    def __init__(
        self, playbook: Playbook, merge_cosine: float | None = None, *, min_confidence: float = MIN_CONFIDENCE
    ) -> None:
        self.playbook = playbook
        self.min_confidence = min_confidence
        self._merge_cosine = merge_cosine

    @property
    def merge_cosine(self) -> float:
        """See the class; the calibration runs once, when it is first needed."""
        if self._merge_cosine is None:
            known = THRESHOLDS.get(self.playbook.embedder.name)
            self._merge_cosine = known if known is not None else calibrate(self.playbook.embedder).threshold
        return self._merge_cosine

    def curate(self, insights: Iterable[Insight], schema_hashes: Mapping[str, str]) -> list[Delta]:
        """The deltas that would add these lessons; nothing is committed here.

        Args:
            insights: What the reflector found.
            schema_hashes: Of the tools the run had; a bullet remembers those it speaks of.
        """
        deltas: dict[str, Delta] = {}
        fresh: dict[str, PlaybookBullet] = {}
        seen: list[Insight] = []
        for insight in insights:
            if any(_repeats(insight, other) for other in seen):
                continue
            same = self._match(insight, list(fresh.values()))
            if same == "enough":
                continue
            name = f"b-{_NOT_WRITTEN + len(deltas)}"
            if same is None:
                seen.append(insight)
                deltas[name] = add = self._add(insight, schema_hashes)
                fresh[name] = add.bullet.model_copy(update={"id": name})
            elif not set(insight.provenance.run_ids) <= set(same.provenance.run_ids):
                merge = Merge(
                    bullet_id=same.id,
                    provenance=insight.provenance,
                    avg_iterations=float(insight.iterations),
                    tool_success_rate=insight.tool_success_rate,
                    reason=f"the same lesson again: {insight.evidence}",
                )
                if same.id not in fresh:
                    deltas[name] = merge
                    continue
                fresh[same.id] = _joined(same, merge)
                written = fresh[same.id].model_copy(update={"id": ""})
                deltas[same.id] = Add(bullet=written, reason=f"{deltas[same.id].reason}, and again: {insight.evidence}")
        return evict(self.playbook, list(deltas.values()))

    def _add(self, insight: Insight, schema_hashes: Mapping[str, str]) -> Add:
        bullet, reason = insight.as_bullet(dict(schema_hashes)), f"a new lesson: {insight.evidence}"
        if insight.confidence is not None and insight.confidence < self.min_confidence:
            bullet = bullet.model_copy(update={"stage": "quarantined"})
            reason = f"held: the judge of the run was {100 * insight.confidence:.0f} % sure; {insight.evidence}"
        return Add(bullet=bullet, reason=reason)

    def _match(self, insight: Insight, fresh: Sequence[PlaybookBullet]) -> PlaybookBullet | Literal["enough"] | None:
        """The bullet that already says it, in the book or among what other runs just taught; "enough": no more is wanted."""
        said = insight.trigger or insight.content
        found = self.playbook.index.similar(said, insight.section, insight.domain, insight.tenant)
        found += self._near(said, insight, fresh)
        if not insight.trigger:
            return next((bullet for bullet, _ in found if _same_detail(bullet, insight)), None)
        of_its_kind = [
            bullet
            for bullet, cosine in found
            # close vectors hide a negation or a number: "refund" and "do not refund" are near each other
            if bullet.trigger
            and (
                _filled_in(bullet.trigger, said, insight.constants)
                or (
                    (cosine >= self.merge_cosine or words(bullet.trigger) == words(said))
                    and _agree(bullet.trigger, said)
                )
            )
        ]
        for bullet in of_its_kind:
            if bullet.key == sequence_key(insight.changing_tools) and self._says(bullet, insight):
                return bullet
        for bullet, cosine in found:
            if bullet.trigger and self._reads_alike(bullet, f"{insight.trigger}\n{insight.content}", cosine):
                # a recipe that does the same more or less often is the same; with another number it looks alike
                alike = bullet in of_its_kind or bullet.key == sequence_key(insight.changing_tools)
                return bullet if alike and not _numbers_differ(bullet.trigger, said) else "enough"
        # one way works, but a task can fail in endless ways
        records = [bullet for bullet in of_its_kind if bullet.content.startswith(RECORD)]
        if insight.content.startswith(RECORD) and len(records) >= MAX_PITFALLS:
            return "enough"
        return None

    def _near(self, said: str, insight: Insight, fresh: Sequence[PlaybookBullet]) -> list[tuple[PlaybookBullet, float]]:
        """As `playbook.index.similar`, among bullets that are not written yet; one run's own lessons differ already."""
        scope, runs = (insight.section, insight.domain, insight.tenant), set(insight.provenance.run_ids)
        others = [
            b for b in fresh if (b.section, b.domain, b.tenant) == scope and not runs <= set(b.provenance.run_ids)
        ]
        if not others:
            return []
        query, *rows = embedded(self.playbook.embedder, [said, *(bullet.searched for bullet in others)])
        return [(bullet, float(query @ row)) for bullet, row in zip(others, rows, strict=True)]

    def _reads_alike(self, bullet: PlaybookBullet, text: str, cosine: float) -> bool:
        """Whether a reader would take two bullets for the same: nearly the same words, or the calibrated rule says so."""
        known = text_of(bullet)
        if jaccard(known, text) >= JACCARD:
            return not contradiction(known, text)
        if cosine < WORTH_A_LOOK or text_difference(known, text):
            return False
        one, other = embedded(self.playbook.embedder, [known, text])
        return float(one @ other) >= self.merge_cosine

    def _says(self, bullet: PlaybookBullet, insight: Insight) -> bool:
        """Whether a bullet of the same situation and changing calls gives the same advice; calls are advice enough."""
        if insight.tool_sequence and not insight.changing_tools:
            return set(bullet.tool_sequence) == set(insight.tool_sequence)  # then the reads are the advice
        if insight.tool_sequence or (
            words(bullet.content) == words(insight.content) and not contradiction(bullet.content, insight.content)
        ):
            return True
        if bullet.content.startswith(RECORD) and insight.content.startswith(RECORD):
            return True
        return same_lesson(bullet.content, insight.content, 0.0, self.merge_cosine)


def _agree(one: str, other: str) -> bool:
    """Whether two triggers that are near each other negate and count alike; whom they name makes no difference."""
    return one == other or not text_difference(_NAME.sub("somebody", one), _NAME.sub("somebody", other))


def _filled_in(one: str, other: str, constants: Collection[str]) -> bool:
    """Whether two triggers differ only in what was filled in.

    Args:
        one: A bullet's trigger.
        other: A lesson's.
        constants: Texts of the lesson's task that the run passed to a tool as they stand there; numbers do not count.
    """
    left, right = one.lower().split(), other.lower().split()
    filled = {word.strip(".,;:!?'\"()") for text in constants for word in text.lower().split()}
    for kind, i1, i2, start, end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        changed = [*left[i1:i2], *right[start:end]]
        if kind != "replace" or any(is_number(word) or is_negative(word) for word in changed):
            return False
        if any(word.strip(".,;:!?'\"()") not in filled for word in right[start:end]):
            return False
    return not opposed(one, other)


def _numbers_differ(one: str, other: str) -> bool:
    return marks(one).numbers != marks(other).numbers


_NAME = re.compile(r"(?<=[a-z,;] )['\"“]?[A-Z][a-z-]+\b(?:['\"”])?")
"""A capitalised word inside a sentence; NOT, EUR and GetOrder are no names of people."""


def _same_detail(bullet: PlaybookBullet, insight: Insight) -> bool:
    """Whether two lessons about tools, which hold for any task, are the same."""
    if bullet.trigger:
        return False
    alike = words(bullet.content) == words(insight.content) or jaccard(bullet.content, insight.content) >= SAME_DETAIL
    return alike and not contradiction(bullet.content, insight.content)


def _joined(bullet: PlaybookBullet, merge: Merge) -> PlaybookBullet:
    (joined,) = apply({bullet.id: bullet}, merge, 0).values()
    assert joined is not None
    return joined


def _repeats(one: Insight, other: Insight) -> bool:
    """Whether two lessons of one run are the same."""
    if not set(one.provenance.run_ids) <= set(other.provenance.run_ids):
        return False
    return (one.section, one.trigger, one.tool_sequence) == (other.section, other.trigger, other.tool_sequence) and (
        words(one.content) == words(other.content)
    )
