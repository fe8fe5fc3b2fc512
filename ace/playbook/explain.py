"""Why a bullet came, and why another did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ace.playbook.bullet import PlaybookBullet
from ace.playbook.ranking import Group, Scored, pinned_first
from ace.playbook.render import pack, render_bullet, render_bullets
from ace.playbook.results import Explanation, Reason
from ace.playbook.state import PlaybookState
from ace.playbook.statistics import utility

MAX_NEAR = 10
"""At most this many of the bullets that did not come are named."""


def explain(
    state: PlaybookState,
    query: str,
    k: int,
    *,
    ordered: Sequence[PlaybookBullet],
    groups: Sequence[Group],
    candidates: Sequence[Scored],
    refused: Mapping[Scored, str],
) -> Explanation:
    """Put a retrieval into words."""
    bullets, budget, count = state.bullets, state.budget.prompt, state.budget.count
    chosen = pinned_first(pack(ordered, budget, k, state.budget.counter))
    scored = {bullet.number: Scored(bullet.number, 0.0) for bullet in chosen}  # a pinned one comes whatever is asked
    scored |= {candidate.number: candidate for candidate in candidates}
    group_of = {number: group for group in groups for number in group.members}
    place = {bullet.number: rank for rank, bullet in enumerate(ordered, start=1)}
    taken = {bullet.number for bullet in chosen}

    def reason(candidate: Scored, why: str) -> Reason:
        bullet, group = bullets[candidate.number], group_of.get(candidate.number)
        return Reason(
            bullet=bullet,
            chosen=candidate.number in taken,
            why=why,
            dense_rank=None if candidate.dense_rank is None else candidate.dense_rank + 1,
            cosine=candidate.cosine,
            lexical_rank=None if candidate.lexical_rank is None else candidate.lexical_rank + 1,
            words=candidate.words,
            fused=candidate.score,
            utility=utility(bullet),
            supporters=len(group.members) - 1 if group is not None else 0,
            tokens=count(render_bullet(bullet)),
        )

    def why_chosen(number: int) -> str:
        if number not in group_of or scored[number].dense_rank is scored[number].lexical_rank is None:
            return f"pinned; {place[number]} of {len(ordered)}; it comes whatever is asked"
        found, others = scored[number], len(group_of[number].members) - 1
        by = [
            f"{name} {rank + 1}"
            for name, rank in (("meaning", found.dense_rank), ("words", found.lexical_rank))
            if rank is not None
        ]
        backed = f", backed by {others} more with the same tools" if others else ""
        pinned = "pinned; " if bullets[number].stage == "pinned" else ""
        return f"{pinned}{place[number]} of {len(ordered)}; place by {', by '.join(by)}{backed}"

    def why_not(candidate: Scored) -> str:
        if candidate.number not in group_of:
            return "changes nothing, and another lesson changes something in the same situation"
        best = group_of[candidate.number].best.number
        if candidate.number not in place:
            return f"teaches the same tool sequence as b-{best}, which fits better"
        earlier = sum(place[number] < place[candidate.number] for number in taken)
        return (
            f"more than {k} would have come" if earlier >= k else f"does not fit into {budget} tokens beside the others"
        )

    near = sorted(
        [(c, why_not(c)) for c in candidates if c.number not in taken] + list(refused.items()),
        key=lambda pair: (-pair[0].score, pair[0].number),
    )
    reasons = [reason(scored[b.number], why_chosen(b.number)) for b in chosen]
    reasons += [reason(candidate, why) for candidate, why in near[:MAX_NEAR]]
    return Explanation(
        query=query,
        reasons=tuple(reasons),
        budget=budget,
        tokens=count(render_bullets(list(chosen))) if chosen else 0,
        embedder=state.embedder.name,
        index=state.index.kind,
    )
