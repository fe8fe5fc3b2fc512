"""The results of a playbook: bullets with reasons, pending reviews, assessments, counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel

from ace.playbook.bullet import PlaybookBullet


class Retrieved(list[PlaybookBullet]):
    """The bullets to show, best first; and those that the holdout or a changed tool left out.

    Examples:
        >>> Retrieved([], held_back_at_random=["b-3"]).held_back_at_random
        ('b-3',)
    """

    def __init__(
        self,
        bullets: Iterable[PlaybookBullet] = (),
        *,
        held_back_at_random: Iterable[str] = (),
        randomized: Iterable[str] = (),
        outdated: Iterable[str] = (),
        released: Iterable[str] = (),
    ) -> None:
        super().__init__(bullets)
        self.held_back_at_random = tuple(held_back_at_random)
        """Ids that the holdout left out: without it they would have been shown."""
        self.randomized = tuple(randomized)
        """Ids that are shown although the holdout might have left them out."""
        self.outdated = tuple(outdated)
        """Ids that are hidden because one of their tools has changed since."""
        self.released = tuple(released)
        """Ids of those whose plan a person has released to be run as one call."""


class Reason(BaseModel, frozen=True):
    """Why one bullet came, or did not."""

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


class Explanation(BaseModel, frozen=True):
    """A retrieval with its reasons, from `book.explain("Refund order 17")`; `bullets` are what `retrieve` returns."""

    query: str
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


class ReviewItem(BaseModel, frozen=True):
    """A bullet that waits for a person."""

    bullet: PlaybookBullet
    why: str
    """What held it back."""
    author: str
    revision: int
    """Since when it waits."""


class Assessment(BaseModel, frozen=True):
    """A bullet's statistics, and what would be done about it."""

    bullet: PlaybookBullet
    better: float
    """Posterior probability that it is better than nothing."""
    action: Literal["prune", "promote", "keep"]
    effect: float | None = None
    """Measured by a holdout: success rate with the bullet minus without it; None while one side has no runs."""
    effect_interval: tuple[float, float] = (-1.0, 1.0)
    """95 %, of `effect`."""


class BookStats(BaseModel, frozen=True):
    """A book in numbers."""

    revision: int
    bullets: int
    stages: dict[str, int]
    sections: dict[str, int]
    tainted: int
    credited: int
    index: str
    embedder: str
