"""What a playbook answers: bullets with the reasons, what waits for review, what a record says, counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ace.playbook.bullet import PlaybookBullet


class Retrieved(list[PlaybookBullet]):
    """The bullets to show, best first; and what a coin or a changed tool kept away.

    Example:
        >>> Retrieved([], withheld=["b-3"]).withheld
        ('b-3',)
    """

    def __init__(
        self,
        bullets: Iterable[PlaybookBullet] = (),
        *,
        withheld: Iterable[str] = (),
        tossed: Iterable[str] = (),
        explored: Iterable[str] = (),
        stale: Iterable[str] = (),
    ) -> None:
        super().__init__(bullets)
        self.withheld = tuple(withheld)
        """Ids that would have been shown, had their coin not said otherwise."""
        self.tossed = tuple(tossed)
        """Ids that are shown because their coin said so; without a coin nothing is."""
        self.explored = tuple(explored)
        """Ids of shadow bullets that are shown to learn about them."""
        self.stale = tuple(stale)
        """Ids that are hidden because one of their tools has changed since."""


class Reason(BaseModel):
    """Why one bullet came, or did not."""

    model_config = ConfigDict(frozen=True)

    bullet: PlaybookBullet
    chosen: bool
    why: str
    """In words."""
    dense_rank: int | None = None
    """From 1, by meaning; None when it was not among the nearest."""
    cosine: float | None = None
    lexical_rank: int | None = None
    """From 1, by words."""
    words: float | None = None
    """Cosine of the TF-IDF weights."""
    fused: float = 0.0
    """Score of the reciprocal rank fusion."""
    utility: float = 1.0
    supporters: int = 0
    """Other candidates that teach the same tool sequence."""
    tokens: int = 0
    """What it takes in a prompt."""


class Explanation(BaseModel):
    """A retrieval with its reasons; `bullets` are what `retrieve` returns without `explain`."""

    model_config = ConfigDict(frozen=True)

    query: str
    cached: bool
    """Whether the candidates came out of the cache."""
    reasons: tuple[Reason, ...]
    """The chosen bullets in their order, then what else was near, best first."""
    budget: int
    tokens: int
    """What the chosen ones take together."""
    embedder: str
    index: Literal["exact", "approximate", "none"]

    @property
    def bullets(self) -> list[PlaybookBullet]:
        """The chosen bullets."""
        return [reason.bullet for reason in self.reasons if reason.chosen]

    @property
    def near(self) -> list[Reason]:
        """What else was near, with the reason why it did not come."""
        return [reason for reason in self.reasons if not reason.chosen]


class ReviewItem(BaseModel):
    """A bullet that waits for a person."""

    model_config = ConfigDict(frozen=True)

    bullet: PlaybookBullet
    why: str
    """What held it back."""
    author: str
    revision: int
    """Since when it waits."""


class Judgement(BaseModel):
    """What a bullet's record says, and what would be done about it."""

    model_config = ConfigDict(frozen=True)

    bullet: PlaybookBullet
    better: float
    """Posterior probability that it is better than nothing."""
    action: Literal["prune", "promote", "keep"]


class BookStats(BaseModel):
    """A book in numbers."""

    model_config = ConfigDict(frozen=True)

    revision: int
    bullets: int
    stages: dict[str, int]
    sections: dict[str, int]
    tainted: int
    credited: int
    index: str
    embedder: str
