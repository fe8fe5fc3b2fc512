"""`Curator`: compares lessons with the playbook and turns them into typed deltas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ace.curator.eviction import evict
from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet, readable, sequence_key
from ace.playbook.delta import Add, Delta, Merge, Remove, Update
from ace.playbook.duplicates.find import THRESHOLDS, calibrate, same_lesson, text_of
from ace.playbook.duplicates.similarity import JACCARD, contradiction, jaccard, text_difference, words
from ace.playbook.index.minilm import embedded
from ace.playbook.insight import DIFFERENCE, RECORD, Insight
from ace.playbook.plan import Plan, Situation, joined, plan_with

WORTH_A_LOOK = 0.5
"""Triggers whose cosine is below this are not compared together with what follows from them."""
SAME_DETAIL = 0.75
"""Lessons about a tool that share this much of their words (Jaccard) are the same."""
MIN_CONFIDENCE = 0.6
"""Lessons from a verdict that is less sure wait for review."""


class Curator:
    """Searches before it adds.

    A mined lesson with the same plan in the same scope is the same lesson: its situation joins the known ones, or stands
    beside them. A lesson in free words merges into one of the same section and scope that means the same; its words stay.
    Everything else becomes a new bullet. When the book has a `book_budget`, what is worth least per token leaves.

    Args:
        playbook: The book.
        merge_cosine: Triggers this close may mean the same, if they agree in names, numbers, negations and order; calibrated
            for the book's embedder by default.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> lesson = Insight(section="Pitfalls", trigger="", content="Ask first.")
        >>> [delta.kind for delta in Curator(book, 0.9).curate([lesson], {})]
        ['add']
    """

    def __init__(self, playbook: Playbook, merge_cosine: float | None = None) -> None:
        self.playbook = playbook
        self._merge_cosine = merge_cosine

    @property
    def merge_cosine(self) -> float:
        """See the class; the calibration runs once, when it is first needed."""
        if self._merge_cosine is None:
            known = THRESHOLDS.get(self.playbook.embedder.name)
            self._merge_cosine = known if known is not None else calibrate(self.playbook.embedder).threshold
        return self._merge_cosine

    def curate(self, insights: Iterable[Insight], schema_hashes: Mapping[str, str]) -> list[Delta]:
        """Make the deltas that would add the lessons of one run; nothing is committed here.

        Args:
            insights: What the reflector found.
            schema_hashes: Of the tools the run had; a bullet remembers those it speaks of.
        """
        deltas: list[Delta] = []
        seen: dict[tuple[Any, ...], set[str]] = {}
        gone: dict[str, PlaybookBullet | None] = {}
        for insight in insights:
            said = (insight.section, insight.trigger, insight.tool_sequence, words(insight.content))
            runs = set(insight.provenance.run_ids)
            if said in seen and runs <= seen[said]:
                continue
            planned = self._planned(insight) if insight.shape else []
            same = self._match(insight) if insight.plan is None else None
            if same is None and planned:
                same = planned[0]
            while isinstance(same, PlaybookBullet) and same.id in gone:
                same = gone[same.id] or "enough"  # an earlier lesson of these has taken it over, or says more
            if same == "enough" or (same is not None and self._held(insight) and not _waits(same)):
                continue  # what is not trusted is no evidence for what is shown already
            outdone = self._outdone(insight)
            deltas += outdone
            leaving = [delta.bullet_id for delta in outdone if isinstance(delta, Remove)]
            gone |= dict.fromkeys(leaving)
            if same is not None and same.id in leaving:
                same = None  # it takes the place of that one
            if same is None:
                seen[said] = seen.get(said, set()) | runs
                deltas.append(self._add(insight, schema_hashes))
            elif not set(insight.provenance.run_ids) <= set(same.provenance.run_ids):
                changes = _said_again(same, insight, sure=not self._unsure(insight))
                others = [bullet for bullet in planned if bullet.id not in gone and bullet.id != same.id]
                twins = _twins(same, changes.get("plan", same.plan), others)
                merge = Merge(
                    bullet_id=same.id,
                    provenance=insight.provenance.joined(*(twin.provenance for twin in twins)),
                    avg_iterations=float(insight.iterations),
                    tool_success_rate=insight.tool_success_rate,
                    clean=same.trust == "tainted" and self._frees(insight, same),
                    after=_after(same, insight),
                    reason=f"the same lesson again: {insight.evidence}",
                    absorbed=tuple(twin.id for twin in twins),
                    **changes,
                )
                deltas.append(merge)
                gone |= dict.fromkeys(merge.absorbed, same)
        return evict(self.playbook, deltas)

    def _planned(self, insight: Insight) -> list[PlaybookBullet]:
        """Find lessons of the same scope with the same plan, or mined Pitfalls in the same words, shown ones first.

        What waits for a clean run takes one of another task; a clean run of the same task teaches a lesson of its own.
        """
        known = self.playbook.index.planned(insight.shape, insight.section, insight.domain, insight.tenant)
        found = [bullet for bullet in known if _same_plan(bullet, insight)]
        shown, tasks = [b for b in found if not _waits(b)], set(insight.provenance.task_ids)
        if shown or self._held(insight):
            return shown or found
        return [b for b in found if b.trust == "trusted" or not tasks <= set(b.provenance.task_ids)]

    def _held(self, insight: Insight) -> bool:
        """Check whether a lesson waits for a person before it is shown."""
        return bool(insight.held) or self._unsure(insight)

    def _frees(self, insight: Insight, waiting: PlaybookBullet) -> bool:
        """Check whether a run lets out a waiting lesson: it is trusted itself, or its calls came after quite other words.

        Where a book asks for several tasks, as many users together do so after the same words.
        """
        if not self._held(insight):
            return True
        if self._unsure(insight) or not (waiting.after and insight.after):
            return False
        users = {*waiting.provenance.users, *insight.provenance.users}
        other_task = not set(insight.provenance.task_ids) <= set(waiting.provenance.task_ids)
        other_words = other_task and set(waiting.after).isdisjoint(insight.after)
        return other_words or len(users) >= self.playbook.promote_after > 1

    def _add(self, insight: Insight, schema_hashes: Mapping[str, str]) -> Add:
        bullet, reason = insight.as_bullet(dict(schema_hashes)), f"a new lesson: {insight.evidence}"
        if self._held(insight):
            bullet = bullet.model_copy(update={"stage": "quarantined", "trust": "tainted"})
            why = insight.held or f"the judge of the run was {100 * (insight.confidence or 0):.0f} % sure"
            reason = f"held: {why}; {insight.evidence}"
        return Add(bullet=bullet, reason=reason)

    def _unsure(self, insight: Insight) -> bool:
        return insight.confidence is not None and insight.confidence < MIN_CONFIDENCE

    def _match(self, insight: Insight) -> PlaybookBullet | Literal["enough"] | None:
        """Find the bullet that already says it; "enough": no more is wanted."""
        said = insight.trigger or insight.content
        found = self.playbook.index.similar(said, insight.section, insight.domain, insight.tenant)
        found = [(bullet, cosine) for bullet, cosine in found if not _other_calls(bullet, insight)]
        if not self._held(insight):  # what waits must not swallow what may be shown
            found = [(bullet, cosine) for bullet, cosine in found if bullet.trust == "trusted"]
        if not insight.trigger:
            return next((bullet for bullet, _ in found if _same_detail(bullet, insight)), None)
        worded = [(bullet, cosine) for bullet, cosine in found if bullet.trigger and bullet.plan is None]
        of_its_kind = [bullet for bullet, cosine in worded if self._same_case(bullet, insight, cosine)]
        for bullet in of_its_kind:
            if bullet.key == sequence_key(insight.changing_tools) and self._says(bullet, insight):
                return bullet
        for bullet, cosine in worded:
            if self._reads_alike(bullet, f"{insight.trigger}\n{insight.content}", cosine):
                alike = bullet in of_its_kind or bullet.key == sequence_key(insight.changing_tools)
                return bullet if alike else "enough"
        # one way works, but a task can fail in endless ways
        for beginning, known in ((RECORD, (RECORD, DIFFERENCE)), (DIFFERENCE, (DIFFERENCE,))):
            if insight.content.startswith(beginning) and any(b.content.startswith(known) for b in of_its_kind):
                return "enough"
        return None

    def _same_case(self, bullet: PlaybookBullet, insight: Insight, cosine: float) -> bool:
        """Check whether two lessons are for the same request, or for requests that mean the same."""
        if _same_request(bullet, insight) or bullet.trigger == insight.trigger:
            return True
        near = cosine >= self.merge_cosine or words(bullet.trigger) == words(insight.trigger)
        # close vectors hide a negation or a number: "refund" and "do not refund" are near each other
        return near and not text_difference(bullet.trigger, insight.trigger)

    def _outdone(self, insight: Insight) -> list[Delta]:
        """Return what leaves the book when it learns what made the difference: for the same request, the record of a
        failure."""
        if not insight.content.startswith(DIFFERENCE) or self._held(insight):
            return []
        deltas: list[Delta] = []
        reason = f"what made the difference says more: {insight.evidence}"
        for bullet, _ in self.playbook.index.similar(insight.trigger, insight.section, insight.domain, insight.tenant):
            if not bullet.content.startswith(RECORD) or bullet.stage == "pinned" or not _same_request(bullet, insight):
                continue
            left = [s for s in bullet.situations if not _is_request(s, insight)]
            if left:
                deltas.append(Update(bullet_id=bullet.id, changes=readable(None, left), reason=reason))
            else:
                deltas.append(Remove(bullet_id=bullet.id, reason=reason))
        return deltas

    def _reads_alike(self, bullet: PlaybookBullet, text: str, cosine: float) -> bool:
        """Check whether a reader would take two bullets for the same: nearly the same words, or the calibrated rule says
        so."""
        known = text_of(bullet)
        if jaccard(known, text) >= JACCARD:
            return not contradiction(known, text)
        if cosine < WORTH_A_LOOK or text_difference(known, text):
            return False
        one, other = embedded(self.playbook.embedder, [known, text])
        return float(one @ other) >= self.merge_cosine

    def _says(self, bullet: PlaybookBullet, insight: Insight) -> bool:
        """Check whether a bullet of the same situation and changing calls gives the same advice; calls are advice enough."""
        if insight.tool_sequence and not insight.changing_tools:
            return set(bullet.tool_sequence) == set(insight.tool_sequence)  # then the reads are the advice
        if insight.tool_sequence or (
            words(bullet.content) == words(insight.content) and not contradiction(bullet.content, insight.content)
        ):
            return True
        if bullet.content.startswith(RECORD) and insight.content.startswith(RECORD):
            return True
        return same_lesson(bullet.content, insight.content, 0.0, self.merge_cosine)


def _said_again(bullet: PlaybookBullet, insight: Insight, sure: bool) -> dict[str, Any]:
    """Return what a merge has to say of plan and situation; an unsure verdict brings no other wording."""
    if insight.situation is None or not bullet.situations:
        return {}
    counted = not set(insight.provenance.task_ids) <= set(bullet.provenance.task_ids)
    said: dict[str, Any] = {}
    if bullet.plan is not None and insight.plan is not None:
        differs = counted and all(insight.fill not in situation.fills for situation in bullet.situations)
        if (plan := plan_with(bullet.plan, insight.plan, differs)) != bullet.plan:
            said = {"plan": plan}
    for situation in bullet.situations:
        if (both := joined(situation, insight.situation, insight.values, counted, insight.fill)) is not None:
            return said if both == situation else said | {"situation": both, "instead_of": situation.wording}
    if not sure:
        return said
    return said | {"situation": insight.situation.model_copy(update={"since": len(bullet.provenance.run_ids)})}


def _after(bullet: PlaybookBullet, insight: Insight) -> tuple[str, ...] | None:
    """Return the words after which the calls of a waiting lesson came so far; none where an answer has asked for one of
    them."""
    if not bullet.after or not insight.held:
        return None
    return tuple(sorted({*bullet.after, *insight.after})) if insight.after else ()


def _same_plan(bullet: PlaybookBullet, insight: Insight) -> bool:
    """Check whether a lesson of the same shape has the same plan; other words of the model, for another request, are
    another."""
    one, other = bullet.plan, insight.plan
    if one is None or other is None:
        return one is other  # the shape of a Pitfall is its words
    return one.fits(other) and (not one.contradicts(other) or _same_request(bullet, insight))


def _other_calls(bullet: PlaybookBullet, insight: Insight) -> bool:
    """Check whether two lessons in words recommend other calls in equal words."""
    worded = bullet.plan is None and insight.situation is None
    alike = worded and words(bullet.content) == words(insight.content)
    return alike and bool(bullet.tool_sequence) and insight.tool_sequence not in ((), bullet.tool_sequence)


def _same_request(bullet: PlaybookBullet, insight: Insight) -> bool:
    """Check whether two lessons are about requests that differ in their slots only."""
    return any(_is_request(situation, insight) for situation in bullet.situations)


def _is_request(situation: Situation, insight: Insight) -> bool:
    """Check whether a lesson's request is a known one, but for what fills the slots."""
    new = insight.situation
    return new is not None and joined(situation, new, insight.values, counted=False) is not None


def _twins(bullet: PlaybookBullet, plan: Plan | None, others: Iterable[PlaybookBullet]) -> list[PlaybookBullet]:
    """Find other lessons that have turned out to be the same as a bullet with this plan."""
    if plan is None:
        return []
    fitting = [(other, other.plan) for other in others if other.plan and plan.fits(other.plan)]
    return [other for other, its in fitting if plan.writes_alike(its) or _all_joined(bullet, other)]


def _all_joined(one: PlaybookBullet, other: PlaybookBullet) -> bool:
    """Check whether each situation of another lesson is one of a lesson's."""
    return all(any(joined(s, new, {}, counted=False) for s in one.situations) for new in other.situations)


def _waits(bullet: PlaybookBullet) -> bool:
    return bullet.stage == "quarantined" or bullet.trust != "trusted"


def _same_detail(bullet: PlaybookBullet, insight: Insight) -> bool:
    """Check whether two lessons about tools, which hold for any task, are the same."""
    known, new = bullet.content, insight.content
    return not bullet.trigger and jaccard(known, new) >= SAME_DETAIL and not contradiction(known, new)
