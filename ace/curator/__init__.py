"""`Curator`: compares lessons with the playbook and turns them into typed deltas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ace.insight import Insight
from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import Add, Delta, Merge

MERGE_COSINE = 0.90
"""Two triggers this close mean the same; with the same calls in the same section they teach the same."""
MAX_PITFALLS = 2
"""So many pitfalls are kept for one trigger."""


class Curator:
    """Searches before it adds.

    A lesson merges into a bullet of the same section, scope and tool sequence whose trigger means the same; its words stay
    as they are and the evidence is added. Everything else becomes a new bullet. A bullet is never rewritten.
    """

    def __init__(self, playbook: Playbook, merge_cosine: float = MERGE_COSINE) -> None:
        self.playbook = playbook
        self.merge_cosine = merge_cosine

    def curate(self, insights: Iterable[Insight], schema_hashes: Mapping[str, str]) -> list[Delta]:
        """The deltas that would add these lessons; nothing is committed here.

        Args:
            insights: What the reflector found.
            schema_hashes: Of the tools the run had; a bullet remembers those it speaks of.
        """
        deltas: list[Delta] = []
        for insight in insights:
            twin = self._twin(insight)
            if twin is None:
                deltas.append(Add(bullet=insight.as_bullet(dict(schema_hashes)), reason="a new lesson"))
            elif not set(insight.provenance.run_ids) <= set(twin.provenance.run_ids):
                deltas.append(
                    Merge(
                        bullet_id=twin.id,
                        provenance=insight.provenance,
                        avg_iterations=float(insight.iterations),
                        tool_success_rate=insight.tool_success_rate,
                        reason="the same lesson again",
                    )
                )
        return deltas

    def _twin(self, insight: Insight) -> PlaybookBullet | None:
        """The bullet that already says it."""
        same_scope = [
            bullet
            for bullet in self.playbook.bullets
            if bullet.section == insight.section
            and (bullet.domain, bullet.tenant) == (insight.domain, insight.tenant)
            and bullet.stage != "retired"
        ]
        close = self._close(insight.trigger, same_scope)
        for bullet in close:
            if bullet.tool_sequence == insight.tool_sequence:
                return bullet
        # one way works, but a task can fail in endless ways: the third pitfall for the same trigger only adds evidence
        if insight.section == "Pitfalls" and len(close) >= MAX_PITFALLS:
            return close[0]
        return None

    def _close(self, trigger: str, bullets: Sequence[PlaybookBullet]) -> list[PlaybookBullet]:
        """Bullets whose trigger means the same, best first."""
        words = _words(trigger)
        same = [bullet for bullet in bullets if _words(bullet.searched) == words]
        others = [bullet for bullet in bullets if bullet not in same]
        near = [
            bullet
            for bullet, cosine in self.playbook.nearest(trigger, others)
            # close vectors hide a negation or a number: "refund" and "do not refund" are near each other
            if cosine >= self.merge_cosine and _marks(words) == _marks(_words(bullet.searched))
        ]
        return [*same, *near]


_NEGATIONS = frozenset(
    "not no never nothing none neither nor cannot cant don dont doesn doesnt didn didnt won wont shouldn isn aren wasn hasn "  # noqa: SIM905
    "haven without except unless stop avoid under over before after".split()
)


def _marks(words: frozenset[str]) -> frozenset[str]:
    """What must agree between two texts that mean the same: negations, directions, numbers."""
    return frozenset(word for word in words if word in _NEGATIONS or any(ch.isdigit() for ch in word))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
