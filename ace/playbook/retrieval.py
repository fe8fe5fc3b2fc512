"""Which bullets fit a task: fusion of two rankings, utility, and different tool sequences first.

Every function is pure; `Playbook` brings the rankings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ace.playbook.bullet import SHOWN_STAGES, PlaybookBullet, Section

DEPTH = 50
"""How many bullets each ranking contributes."""
RRF_K = 10
"""Constant of reciprocal rank fusion (Cormack et al., SIGIR 2009, use 60 over web-sized lists; lists of 50 want less)."""
SUPPORT = 0.5
"""A second bullet with the same tool sequence adds this share of its score, a third its square, and so on."""
MAX_SUPPORT = 5
"""So many bullets may speak for one sequence."""
PITFALL_WEIGHT = 0.25
"""A Pitfall says what not to do: it may fill a slot that no Strategy fits nearly as well, not take one."""


@dataclass(frozen=True)
class Filters:
    """What may come at all.

    Example:
        >>> Filters(sections=("Strategies",), exclude_tasks=("t-1",)).guarded
        True
    """

    sections: tuple[Section, ...] | None = None
    tags: tuple[str, ...] = ()
    """A bullet must have all of them."""
    tools: Mapping[str, str] | None = None
    """Tool name to schema hash: bullets of other tools, or of other versions of these, do not come."""
    exclude_tasks: tuple[str, ...] = ()
    """Leave-one-task-out guard: no bullet that rests on one of these tasks."""
    exclude_groups: tuple[str, ...] = ()
    """Leave-one-family-out guard."""

    def __post_init__(self) -> None:
        # a bare "t-1" would be split into letters and guard nothing, without a word
        for name in ("sections", "tags", "exclude_tasks", "exclude_groups"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    @property
    def guarded(self) -> bool:
        """Whether an evaluation guard is on."""
        return bool(self.exclude_tasks or self.exclude_groups)

    @property
    def cache_key(self) -> tuple[object, ...]:
        """Hashable form."""
        tools = None if self.tools is None else tuple(sorted(self.tools.items()))
        return (self.sections, self.tags, tools, self.exclude_tasks, self.exclude_groups)

    def allow(self, bullet: PlaybookBullet, domain: str | None, tenant: str | None) -> bool:
        """Whether a bullet may be shown for a task of this domain and tenant."""
        if bullet.stage not in SHOWN_STAGES or bullet.tenant not in (None, tenant):
            return False
        if domain is not None and bullet.domain not in (None, domain):
            return False
        if self.sections is not None and bullet.section not in self.sections:
            return False
        if not set(self.tags) <= set(bullet.tags):
            return False
        if self.guarded and (
            set(self.exclude_tasks) & set(bullet.provenance.task_ids)
            or set(self.exclude_groups) & set(bullet.provenance.groups)
        ):
            return False
        return self.tools is None or _tools_fit(bullet, self.tools)


def _tools_fit(bullet: PlaybookBullet, tools: Mapping[str, str]) -> bool:
    if not set(bullet.tool_sequence) <= tools.keys():
        return False
    return all(tools.get(name, digest) == digest for name, digest in bullet.tool_schema_hashes.items())


@dataclass(frozen=True)
class Scored:
    """A bullet's number with its fused score."""

    number: int
    score: float


def fuse(rankings: Sequence[Sequence[int]], k: int = RRF_K) -> list[Scored]:
    """Reciprocal rank fusion: each ranking gives ``1 / (k + rank)``, ranks from 0.

    Example:
        >>> [s.number for s in fuse([[1, 2, 3], [2, 1]])]
        [1, 2, 3]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking):
            scores[number] = scores.get(number, 0.0) + 1.0 / (k + rank)
    return sorted((Scored(n, s) for n, s in scores.items()), key=lambda s: (-s.score, s.number))


def utility(bullet: PlaybookBullet) -> float:
    """A factor around 1 from the mean of the Beta(1, 1) posterior of its helpful rate: 0.5 (harmful) to 1.5 (helpful).

    Example:
        >>> utility(PlaybookBullet(section="Strategies", content="x"))
        1.0
    """
    mean = (1 + bullet.helpful_count) / (2 + bullet.helpful_count + bullet.harmful_count)
    return (0.5 + mean) * (PITFALL_WEIGHT if bullet.section == "Pitfalls" else 1.0)


@dataclass
class _Group:
    best: PlaybookBullet
    score: float = 0.0
    members: int = field(default=0)


def diversify(
    candidates: Sequence[Scored],
    bullet_of: Mapping[int, PlaybookBullet],
    weigh: Callable[[PlaybookBullet], float] = utility,
) -> list[PlaybookBullet]:
    """The best bullet of each tool sequence, the best sequence first.

    Bullets that teach the same sequence support it with geometrically falling weight, so that a sequence several
    near tasks agree on beats a lucky single one.
    """
    scored = [(bullet_of[c.number], c.score * weigh(bullet_of[c.number])) for c in candidates]
    scored.sort(key=lambda pair: (-pair[1], pair[0].number))
    groups: dict[tuple[bool, tuple[str, ...]], _Group] = {}
    for bullet, score in scored:
        # calls that failed say nothing for the same calls that worked
        group = groups.setdefault((bullet.section == "Pitfalls", bullet.key), _Group(bullet))
        if group.members < MAX_SUPPORT:
            group.score += score * SUPPORT**group.members
            group.members += 1
    best = sorted(groups.values(), key=lambda g: (-g.score, g.best.number))
    return [group.best for group in best]


def pinned_first(bullets: Sequence[PlaybookBullet]) -> list[PlaybookBullet]:
    """Pinned bullets in id order, then the others as they are: a stable prefix keeps a provider's prompt cache warm."""
    ordered = sorted(bullets, key=lambda b: b.stage != "pinned")
    pinned, others = [], []
    for is_pinned, group in groupby(ordered, key=lambda b: b.stage == "pinned"):
        if is_pinned:
            pinned = sorted(group, key=lambda b: b.number)
        else:
            others = list(group)
    return [*pinned, *others]
