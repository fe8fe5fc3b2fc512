"""Evicts bullets when the token budget is full: lowest value per token first; a similar bullet takes over the evidence."""

from __future__ import annotations

from collections.abc import Sequence

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
    """The deltas, with others before them that keep the book within its token budget.

    A bullet's loss is its evidence (runs it rests on, weighed by its utility) times what no other bullet with the same calls
    says: one minus the cosine to the nearest of them, which then takes over the evidence. That is the greedy rule for the
    facility-location function (Nemhauser, Wolsey and Fisher 1978), run backwards, per token. Pinned bullets stay, and so do
    those that the deltas name; a new bullet that is worth less than all others is not added.

    Args:
        playbook: Whose budget holds; without one the deltas come back as they are.
        deltas: What the curator wants to commit.
    """
    if playbook.budget.book is None:
        return list(deltas)
    if _tokens(playbook, deltas) <= playbook.budget.book:
        return list(deltas)
    spare, kept = 0, _evicted(playbook, deltas, playbook.budget.book)
    # what takes over the situations of another may grow by it: then more has to leave, each time at least twice as much
    while (over := _tokens(playbook, kept) - playbook.budget.book) > 0 and spare < playbook.budget.book:
        spare += max(over, spare)
        kept = _evicted(playbook, deltas, playbook.budget.book - spare)
    return kept  # still over it when everything is pinned: the commit says so


def _after(playbook: Playbook, deltas: Sequence[Delta]) -> list[PlaybookBullet]:
    """What is in the book after these deltas, new bullets apart."""
    held = {bullet.id: bullet for bullet in playbook.bullets}
    for delta in deltas:
        if not isinstance(delta, Add):
            apply(held, delta, playbook.revision)
    return list(held.values())


def _tokens(playbook: Playbook, deltas: Sequence[Delta]) -> int:
    """The tokens of the book after these deltas."""
    new = [delta.bullet for delta in deltas if isinstance(delta, Add)]
    return sum(map(playbook.budget.tokens_of, [*_after(playbook, deltas), *new]))


def _evicted(playbook: Playbook, deltas: Sequence[Delta], room: int) -> list[Delta]:
    """The deltas, with others before them after which the book takes no more than this many tokens."""
    here = _after(playbook, deltas)
    new = [delta.bullet for delta in deltas if isinstance(delta, Add)]
    all_of_them = [*here, *new]
    sizes = [playbook.budget.tokens_of(bullet) for bullet in all_of_them]
    over = sum(sizes) - room
    touched = {delta.bullet_id for delta in deltas if not isinstance(delta, Add)}
    pool = _EvictionPool(playbook, all_of_them, sizes)
    leaving: list[Delta] = []
    dropped: set[int] = set()
    while over > 0:
        choice = pool.least(touched)
        if choice is None:
            break
        index, absorbing = choice
        bullet = all_of_them[index]
        # advice in words may be near another in vectors and say the opposite; the same calls are the same advice
        if absorbing is not None and not bullet.key and contradiction(text_of(bullet), text_of(all_of_them[absorbing])):
            absorbing = None
        over -= sizes[index]
        if index >= len(here):
            dropped.add(index - len(here))
        elif absorbing is None or absorbing >= len(here):
            leaving.append(Remove(bullet_id=bullet.id, reason="the book is full, and this was worth least per token"))
        else:
            leaving.append(_absorb(all_of_them[absorbing], bullet))
        pool.take(index, absorbing)
    kept = iter(range(len(new)))
    return [
        *_chained(leaving),
        *(delta for delta in deltas if not isinstance(delta, Add) or next(kept) not in dropped),
    ]


def _absorb(absorbing: PlaybookBullet, bullet: PlaybookBullet) -> Merge:
    return Merge(
        bullet_id=absorbing.id,
        provenance=bullet.provenance,
        absorbed=(bullet.id,),
        reason=f"the book is full, and {bullet.id} advises the same calls in a similar case",
    )


def _chained(leaving: Sequence[Delta]) -> list[Delta]:
    """The same, where no bullet takes over evidence after it has gone itself: the one that absorbed it does."""
    gone: dict[str, str | None] = {}
    for delta in leaving:
        if isinstance(delta, Merge):
            gone |= dict.fromkeys(delta.absorbed, delta.bullet_id)
        elif isinstance(delta, Remove):
            gone[delta.bullet_id] = None

    def last(bullet_id: str | None) -> str | None:
        while bullet_id is not None and bullet_id in gone:
            bullet_id = gone[bullet_id]
        return bullet_id

    chained: list[Delta] = []
    for delta in leaving:
        if isinstance(delta, Merge):
            absorbing = last(delta.bullet_id)
            if absorbing is None:
                chained += [
                    Remove(bullet_id=i, reason="the book is full, and this was worth least per token")
                    for i in delta.absorbed
                ]
                continue
            delta = delta.model_copy(update={"bullet_id": absorbing})
        chained.append(delta)
    return chained


class _EvictionPool:
    """The bullets that could leave, and what each would be missed for."""

    def __init__(self, playbook: Playbook, bullets: Sequence[PlaybookBullet], sizes: Sequence[int]) -> None:
        self.bullets = bullets
        self.sizes = sizes
        # what is new has not had its chance yet
        self.evidence = [max(1, len(bullet.provenance.run_ids)) + (not bullet.id) for bullet in bullets]
        self.here = set(range(len(bullets)))
        groups: dict[object, list[int]] = {}
        for index, bullet in enumerate(bullets):
            key = (bullet.section, bullet.domain, bullet.tenant, sequence_key(bullet.changing_tools), bullet.stage)
            groups.setdefault(key, []).append(index)
        vectors = playbook.index.vectors(bullets)
        self.near: dict[int, list[tuple[float, int]]] = {}
        for members in groups.values():
            cosines = vectors[members] @ vectors[members].T
            for row, index in enumerate(members):
                order = np.argsort(-cosines[row], kind="stable")
                self.near[index] = [(float(cosines[row, i]), members[i]) for i in order if members[i] != index]

    def least(self, touched: set[str]) -> tuple[int, int | None] | None:
        """The bullet whose leaving costs least per token, and the one that would absorb it."""
        found: tuple[tuple[float, int], int, int | None] | None = None
        for index in self.here:
            bullet = self.bullets[index]
            if bullet.stage == "pinned" or (bullet.id and bullet.id in touched):
                continue
            cosine, absorbing = next(((c, i) for c, i in self.near[index] if i in self.here), (0.0, None))
            worth = utility(bullet) * self.evidence[index] * max(1e-3, 1.0 - cosine)
            worth *= _UNSHOWN.get(bullet.stage, 1.0) * (RECORD_WEIGHT if bullet.section == "Pitfalls" else 1.0)
            # among equals the one that was confirmed longest ago goes; a new one has no revision yet and stays
            age = bullet.updated_revision if bullet.id else 1 << 60
            rank = (worth / self.sizes[index], age)
            if found is None or rank < found[0]:
                found = (rank, index, absorbing)
        return None if found is None else (found[1], found[2])

    def take(self, index: int, absorbing: int | None) -> None:
        """It has left; the one that absorbed it has its evidence."""
        self.here.discard(index)
        if absorbing is not None:
            self.evidence[absorbing] += self.evidence[index]
