"""Evicts bullets when the token budget is full: lowest value per token first; a similar bullet takes over the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet, sequence_key
from ace.playbook.delta import Add, Delta, Merge, Remove, apply
from ace.playbook.duplicates.find import text_of
from ace.playbook.duplicates.similarity import contradiction
from ace.playbook.statistics import utility

_UNSHOWN = {"retired": 0.0, "quarantined": 0.01}
"""What is not shown leaves first; what waits for review after what was retired."""
RECORD_WEIGHT = 0.1
"""In a full book the value of a Pitfall, its `utility` times its evidence, is multiplied by this: there is no end of ways to
fail, and each Pitfall that stays displaces a Strategy. With this factor, WorkBench's held-out tasks find 4 points more
Strategies, in each of three orders of learning."""


def evict(playbook: Playbook, deltas: Sequence[Delta]) -> list[Delta]:
    """Return the deltas, with others before them that keep the book within its token budget.

    A bullet's loss is its evidence (runs it rests on, weighed by its utility) times what no better one with the same calls
    says: one minus the cosine to the nearest of them, which takes over the evidence. Who is missed least per token leaves
    first. Pinned bullets stay, and so do those that the deltas name; a new bullet that is worth less than all others is not
    added.

    Args:
        playbook: Whose budget holds; without one the deltas come back as they are.
        deltas: What the curator wants to commit.
    """
    if playbook.budget.book is None or _tokens(playbook, deltas) <= playbook.budget.book:
        return list(deltas)
    spare, kept = 0, _evicted(playbook, deltas, playbook.budget.book)
    # what takes over the situations of another may grow by it: then more has to leave, each time at least twice as much
    while (over := _tokens(playbook, kept) - playbook.budget.book) > 0 and spare < playbook.budget.book:
        spare += max(over, spare)
        kept = _evicted(playbook, deltas, playbook.budget.book - spare)
    return kept  # still over it when everything is pinned: the commit says so


def _after(playbook: Playbook, deltas: Sequence[Delta]) -> list[PlaybookBullet]:
    """Return what is in the book after these deltas, new bullets apart."""
    held = {bullet.id: bullet for bullet in playbook.bullets}
    for delta in deltas:
        if not isinstance(delta, Add):
            apply(held, delta, playbook.revision)
    return list(held.values())


def _tokens(playbook: Playbook, deltas: Sequence[Delta]) -> int:
    """Count the tokens of the book after these deltas."""
    new = [delta.bullet for delta in deltas if isinstance(delta, Add)]
    return sum(map(playbook.budget.tokens_of, [*_after(playbook, deltas), *new]))


def _evicted(playbook: Playbook, deltas: Sequence[Delta], room: int) -> list[Delta]:
    """Return the deltas, with others before them after which the book takes no more than this many tokens."""
    here = _after(playbook, deltas)
    new = [delta.bullet for delta in deltas if isinstance(delta, Add)]
    bullets = [*here, *new]
    sizes = [playbook.budget.tokens_of(bullet) for bullet in bullets]
    touched = {delta.bullet_id for delta in deltas if not isinstance(delta, Add)}
    # what is new has not had its chance yet
    evidence = [max(1, len(bullet.provenance.run_ids)) + (not bullet.id) for bullet in bullets]
    better, gone = _better(playbook, bullets, evidence), set[int]()

    def stays(index: int) -> tuple[float, int | None]:
        return next(((cosine, other) for cosine, other in better[index] if other not in gone), (0.0, None))

    def missed(index: int) -> tuple[float, int]:
        bullet = bullets[index]
        # among equals the one that was confirmed longest ago goes; a new one has no revision yet and stays
        age = bullet.updated_revision if bullet.id else 1 << 60
        return evidence[index] * _weight(bullet) * max(1e-3, 1.0 - stays(index)[0]) / sizes[index], age

    may_go = (i for i, b in enumerate(bullets) if b.stage != "pinned" and not (b.id and b.id in touched))
    waiting = [(missed(index), index) for index in may_go]
    heapify(waiting)
    over = sum(sizes) - room
    while over > 0 and waiting:
        before, index = heappop(waiting)
        if (now := missed(index)) > before:  # what says the same has left
            heappush(waiting, (now, index))
            continue
        gone.add(index)
        over -= sizes[index]
        if (heir := stays(index)[1]) is not None:
            evidence[heir] += evidence[index]
    leaving = [_leave(bullets, index, stays(index)[1], len(here)) for index in sorted(gone) if index < len(here)]
    kept = (len(here) + number not in gone for number in range(len(new)))
    return [*leaving, *(delta for delta in deltas if not isinstance(delta, Add) or next(kept))]


def _weight(bullet: PlaybookBullet) -> float:
    """Return what each run is worth that a bullet rests on."""
    return utility(bullet) * _UNSHOWN.get(bullet.stage, 1.0) * (RECORD_WEIGHT if bullet.section == "Pitfalls" else 1.0)


def _better(
    playbook: Playbook, bullets: Sequence[PlaybookBullet], evidence: Sequence[int]
) -> list[list[tuple[float, int]]]:
    """Find for each bullet those with the same calls that are worth more, the nearest first, with their cosines."""
    groups: dict[object, list[int]] = {}
    for index, bullet in enumerate(bullets):
        key = (bullet.section, bullet.domain, bullet.tenant, sequence_key(bullet.changing_tools), bullet.stage)
        groups.setdefault(key, []).append(index)
    vectors = playbook.index.vectors(bullets)
    found: list[list[tuple[float, int]]] = [[] for _ in bullets]
    for members in groups.values():
        members.sort(key=lambda i: (-evidence[i] * _weight(bullets[i]), i))
        cosines = vectors[members] @ vectors[members].T
        for row, index in enumerate(members):
            order = np.argsort(-cosines[row, :row], kind="stable")
            found[index] = [(float(cosines[row, i]), members[i]) for i in order]
    return found


def _leave(bullets: Sequence[PlaybookBullet], index: int, absorbing: int | None, written: int) -> Delta:
    """Make the delta with which a bullet leaves: the nearest better one that stays takes over its evidence, if it is in
    the book."""
    bullet = bullets[index]
    # advice in words may be near another in vectors and say the opposite; the same calls are the same advice
    opposed = absorbing is not None and not bullet.key and contradiction(text_of(bullet), text_of(bullets[absorbing]))
    if absorbing is None or absorbing >= written or opposed:
        return Remove(bullet_id=bullet.id, reason="the book is full, and this was worth least per token")
    return Merge(
        bullet_id=bullets[absorbing].id,
        provenance=bullet.provenance,
        absorbed=(bullet.id,),
        reason=f"the book is full, and {bullet.id} advises the same calls in a similar case",
    )
