"""Which bullets fit a task: fusion of two rankings, utility, and different tool sequences first.

Every function is pure; `Retriever` brings the rankings.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from ace.playbook.bullet import PlaybookBullet
from ace.playbook.statistics import utility

DEPTH = 50
"""How many bullets each ranking contributes."""
RRF_K = 8
"""Constant of reciprocal rank fusion (Cormack et al., SIGIR 2009, use 60 over web-sized lists; lists of 50 want less)."""
WORDS_POWER = 0.3
"""What the ranking by words gives is multiplied by this power of its cosine: the best of poor matches says little."""
SUPPORT = 0.5
"""A second bullet with the same tool sequence adds this share of its score, a third its square, and so on."""
NEARER = 0.05
"""A situation is nearer to a request than another when its cosine is more by this much."""
MAX_SUPPORT = 5
"""At most this many bullets support one sequence."""


class Scored(NamedTuple):
    """A bullet's number with its fused score, and how each ranking saw it."""

    number: int
    score: float
    dense_rank: int | None = None
    """From 0; None when the dense ranking did not have it."""
    cosine: float | None = None
    lexical_rank: int | None = None
    words: float | None = None
    """Cosine of the TF-IDF weights."""


def nearness(candidates: Iterable[Scored]) -> float:
    """Measure how near anything is to a request, by meaning and by words: the highest cosine of each, together from 0 to 2.

    Examples:
        >>> nearness([Scored(1, 0.1, cosine=0.5, words=0.1), Scored(2, 0.1, words=0.25)])
        0.75
    """
    found = list(candidates)
    return max([0.0, *(s.cosine or 0.0 for s in found)]) + max([0.0, *(s.words or 0.0 for s in found)])


LEAST = {"all-MiniLM-L6-v2": (0.36, 0.1, 0.6)}
"""By embedder, how near anything has to be for a lesson to come: in a book of one lesson, how much more with ten times as
many, where something is near by chance, and at most. Of 100 requests of other domains about 10 find a lesson then; of 100
that found the right calls 99 still do (`benchmarks/retrieval/unrelated.py`)."""


def least_for(embedder: str, lessons: int) -> float:
    """Return how near anything has to be in a book of so many lessons; 0 where that was not calibrated.

    Examples:
        >>> round(least_for("all-MiniLM-L6-v2", 10), 2), least_for("another", 10)
        (0.46, 0.0)
    """
    first, more, most = LEAST.get(embedder, (0.0, 0.0, 0.0))
    return min(most, first + more * math.log10(max(1, lessons)))


Ranking = tuple[Sequence[int], Sequence[float]]
"""Numbers, best first, and their scores."""


def fuse(dense: Ranking, lexical: Ranking, k: int = RRF_K) -> list[Scored]:
    """Fuse by reciprocal rank: each ranking gives ``1 / (k + rank)``, ranks from 0; that by words less, the poorer it is.

    Equal scores share a rank: of lessons for the same words their evidence decides, not their numbers.

    Examples:
        >>> [s.number for s in fuse(([1, 2, 3], [0.9, 0.8, 0.1]), ([2, 1], [0.4, 0.3]))]
        [2, 1, 3]
    """
    by_meaning, by_words = _ranks(dense), _ranks(lexical)
    fused: list[Scored] = []
    for number in {**by_meaning, **by_words}:
        (dense_rank, cosine), (lexical_rank, words) = by_meaning.get(number, _ABSENT), by_words.get(number, _ABSENT)
        score = 0.0 if dense_rank is None else 1.0 / (k + dense_rank)
        if lexical_rank is not None:
            score += (words or 0.0) ** WORDS_POWER / (k + lexical_rank)
        fused.append(Scored(number, score, dense_rank, cosine, lexical_rank, words))
    return sorted(fused, key=lambda s: (-s.score, s.number))


_ABSENT = (None, None)
_EQUAL = 1e-6
"""Scores nearer than this are one: the same two vectors give sums that differ in their last bits."""


def _ranks(ranking: Ranking) -> dict[int, tuple[int, float]]:
    """Return the rank and score of each number; equal scores share the first of their ranks."""
    found: dict[int, tuple[int, float]] = {}
    first, of = 0, math.inf
    for rank, (number, score) in enumerate(zip(*ranking, strict=True)):
        if of - score > _EQUAL:
            first, of = rank, score
        found[number] = (first, score)
    return found


def without_reads(candidates: Sequence[Scored], bullet_of: Mapping[int, PlaybookBullet]) -> Sequence[Scored]:
    """Drop plans that change nothing, where another one changes something in the same situation."""
    plans = [(scored, bullet) for scored in candidates if (bullet := bullet_of[scored.number]).plan is not None]
    reads = {scored.number for scored, bullet in plans if bullet.plan is not None and not bullet.plan.changes}
    if not reads:
        return candidates
    changed = {s.wording for scored, b in plans if scored.number not in reads for s in b.situations}
    idle = {n for n in reads if any(s.wording in changed for s in bullet_of[n].situations)}
    return [scored for scored in candidates if scored.number not in idle]


@dataclass
class Group:
    """Candidates that teach the same tool sequence: one call and a call for each item are two."""

    best: Scored
    score: float = 0.0
    members: list[int] = field(default_factory=list[int])


def diversify(candidates: Sequence[Scored], bullet_of: Mapping[int, PlaybookBullet]) -> list[Group]:
    """Group by tool sequence, the best first; one call and a call for each item are two sequences.

    Bullets that teach the same sequence support it with geometrically falling weight, so that a sequence several
    near tasks agree on beats one that scored high by chance. Where some make a call once and some for each item, all
    support the better of the two groups; the other has the score of its best bullet alone.
    Among equals the one that took fewer iterations comes first, then the one of which more calls succeeded.
    """
    pairs = [(candidate, bullet_of[candidate.number]) for candidate in candidates]
    scored = [(-candidate.score * utility(bullet), _tie(bullet), candidate, bullet) for candidate, bullet in pairs]
    groups = defaultdict[tuple[bool, tuple[str, ...]], dict[frozenset[str], Group]](dict)
    for less, _, candidate, bullet in sorted(scored, key=itemgetter(0, 1)):
        # calls that failed are no evidence for the same calls that worked
        same = groups[bullet.section == "Pitfalls", bullet.key]
        before = sum(len(group.members) for group in same.values())
        same.setdefault(bullet.repeated, Group(candidate, -less)).members.append(candidate.number)
        if 0 < before < MAX_SUPPORT:
            next(iter(same.values())).score -= less * SUPPORT**before
    found = [group for same in groups.values() for group in same.values()]
    return sorted(found, key=lambda g: (-g.score, _tie(bullet_of[g.best.number])))


def failed_nearer(shown: Iterable[Group], fitting: Sequence[Scored], bullet_of: Mapping[int, PlaybookBullet]) -> bool:
    """Return whether the calls of every Strategy of some groups are known to fail in a situation nearer to the request.

    One right lesson is worth several wrong ones beside it: so all of them stay, or none.
    """
    cosine_of = {candidate.number: candidate.cosine or 0.0 for candidate in fitting}
    failed = dict[tuple[str, ...], float]()
    for number, cosine in cosine_of.items():
        bullet = bullet_of[number]
        if bullet.section == "Pitfalls" and bullet.key:  # runs that changed nothing have nothing in common
            failed[bullet.key] = max(cosine, failed.get(bullet.key, 0.0))

    def out_of_place(group: Group) -> bool:
        bullet, nearest = bullet_of[group.best.number], max(cosine_of[number] for number in group.members)
        # that one call failed does not say that a call for each item does
        return not bullet.repeated and failed.get(bullet.key, 0.0) > nearest + NEARER

    strategies = [group for group in shown if bullet_of[group.best.number].section == "Strategies"]
    return bool(strategies) and all(map(out_of_place, strategies))


def _tie(bullet: PlaybookBullet) -> tuple[float, float, int]:
    """Return what decides between bullets with the same score."""
    iterations = math.inf if bullet.avg_iterations is None else bullet.avg_iterations
    return (iterations, -(bullet.tool_success_rate or 0.0), bullet.number)


def ranked(groups: Sequence[Group], bullet_of: Mapping[int, PlaybookBullet]) -> list[int]:
    """Return the numbers of the best bullets of the groups; then advice that names no tools, which repeats no other."""
    best = [group.best.number for group in groups]
    others = [number for group in groups for number in group.members if number != group.best.number]
    return best + [n for n in others if not (bullet_of[n].tool_sequence or bullet_of[n].changing_tools)]


def pinned_first(bullets: Sequence[PlaybookBullet]) -> list[PlaybookBullet]:
    """Put pinned bullets first, in id order, then the others as they are: a stable prefix keeps a provider's prompt cache
    warm."""
    return sorted(bullets, key=lambda b: (False, b.number) if b.stage == "pinned" else (True, 0))
