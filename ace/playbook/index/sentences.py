"""Requests of several sentences: lessons are compared with each of them, and the telling ones count most.

A text's vector is dominated by what most of its words are about. In a long request that may be who speaks and how, while two
of its sentences say what is to be done. Which sentences those are shows in the book itself: the lessons nearest to a telling
sentence agree on a plan, those nearest to small talk do not.

The nearness of two texts, sentence by sentence, is that of late interaction (Khattab and Zaharia, SIGIR 2020), here in both
directions; `benchmarks/tau2_study.py` measures what it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ace.core.text import sentences
from ace.playbook.index.embedders import Vectors

LEAST = 4
"""Requests of fewer sentences are compared as a whole: there is little in them that tells nothing."""
MOST = 32
"""Of longer texts this many sentences are compared."""
WORDS = 3
"""Shorter sentences ("Thank you.") are left out."""
NEIGHBORS = 5
"""A sentence is as telling as the plans of this many lessons nearest to it are alike."""
FLOOR = 0.2
"""Weight of the least telling sentence; another's is higher by how much more the plans near it are alike, at most by 1."""
SHARE = 0.5
"""What nearness by sentences counts beside that of the whole texts."""


def parts(text: str) -> list[str]:
    """The sentences of a text that can be compared; the text itself when it has but one."""
    found = [part for part in sentences(text) if len(part.split()) >= WORDS][:MOST]
    return found if len(found) > 1 else [text]


def in_sentences(text: str) -> bool:
    """Whether a request is long enough to be compared sentence by sentence.

    Examples:
        >>> in_sentences("You are Ann Lee. It is late. You want to cancel your order. Be brief and polite.")
        True
    """
    return len(parts(text)) >= LEAST


def compared(request: str) -> list[str]:
    """All texts whose vectors a search for a request needs: itself, and its sentences when it is long enough."""
    return [request, *parts(request)] if in_sentences(request) else [request]


def nearness(asked: Vectors, lessons: Sequence[Vectors], plans: Sequence[Sequence[str]]) -> NDArray[Any]:
    """How near lessons are to a request, by their sentences.

    Args:
        asked: Unit vectors of the request's sentences, shape (sentences, dimension).
        lessons: The same of each lesson.
        plans: The tools of each lesson's plan.

    Returns:
        For each lesson the mean of two cosines: that of each sentence asked with the lesson's nearest one, weighted by how
        telling it is, and that of each of the lesson's with the nearest asked.
    """
    sizes = [len(vectors) for vectors in lessons]
    starts = np.cumsum([0, *sizes[:-1]])
    cosines = asked @ np.concatenate(lessons).T
    nearest = np.maximum.reduceat(cosines, starts, axis=1)  # (sentences asked, lessons)
    back = np.add.reduceat(cosines.max(axis=0), starts) / sizes
    return (_weights(nearest, plans) @ nearest + back) / 2


def _weights(nearest: NDArray[Any], plans: Sequence[Sequence[str]]) -> NDArray[Any]:
    """What each sentence asked counts, in all 1."""
    counted = [Counter(plan) for plan in plans]
    first: list[list[int]] = np.argsort(-nearest, axis=1, kind="stable")[:, :NEIGHBORS].tolist()
    agreed = np.array([_agreement([counted[i] for i in row]) for row in first])
    weights = agreed - agreed.min() + FLOOR
    return weights / weights.sum()


def _agreement(plans: Sequence[Counter[str]]) -> float:
    """The mean share of tools that two of the plans have in common; 0 for a single one."""
    alike: list[float] = []
    for one, other in combinations(plans, 2):
        total = (one | other).total()
        alike.append((one & other).total() / total if total else 1.0)
    return float(np.mean(alike)) if alike else 0.0
