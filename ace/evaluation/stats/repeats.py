"""What repeated runs show: how reliably a task is solved, how learning goes on, whether confidence means anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import NamedTuple, cast

import numpy as np

from ace.evaluation.stats.clustered import Estimate, Labels, mean, share


def pass_hat_k(runs: Mapping[str, Sequence[bool]], k: int, clusters: Mapping[str, object] | None = None) -> Estimate:
    """Estimate the chance that k runs of one task all succeed, mean over tasks (pass^k of tau-bench, Yao et al. 2024).

    Args:
        runs: Task to its runs; each task at least k.
        k: How many.
        clusters: Task to its family; each by itself when None.

    Raises:
        ValueError: A task has fewer runs, or there is none.

    Examples:
        >>> round(pass_hat_k({"a": [True, True, False, False], "b": [True] * 4}, 2).value, 3)
        0.583
    """
    short = [task for task, found in runs.items() if len(found) < k]
    if short or not runs or k < 1:
        raise ValueError(f"pass^{k} needs at least {max(k, 1)} runs of each task; {short[:3] or 'there are none'}")
    each = [comb(sum(found), k) / comb(len(found), k) for found in runs.values()]
    found = mean(each, None if clusters is None else [clusters[task] for task in runs])
    return found._replace(low=max(0.0, found.low), high=min(1.0, found.high), p=float("nan"))


def learning_curve(
    values: Sequence[float], steps: Sequence[int], clusters: Labels = None, points: int = 10
) -> list[tuple[float, Estimate]]:
    """Estimate how a value goes on while an agent learns, with a band.

    Args:
        values: Of each run, shape (n,); what lies from 0 to 1 is taken for a share.
        steps: How many runs were learned from before it, shape (n,).
        clusters: The family of each run.
        points: The curve has at most this many, of equally many runs each.

    Returns:
        The mean step of each point, and its estimate.

    Examples:
        >>> [round(found.value, 2) for _, found in learning_curve([0, 0, 1, 1], [0, 1, 2, 3], points=2)]
        [0.0, 1.0]
    """
    order = np.argsort(np.asarray(steps), kind="stable")
    parts = cast("list[list[int]]", np.array_split(order, min(points, len(order)))) if len(order) else []
    curve: list[tuple[float, Estimate]] = []
    estimate = share if all(0 <= value <= 1 for value in values) else mean
    for part in parts:
        chosen = None if clusters is None else [clusters[i] for i in part]
        found = estimate([values[i] for i in part], chosen)
        curve.append((float(np.mean([steps[i] for i in part])), found._replace(p=float("nan"))))
    return curve


class Bin(NamedTuple):
    """Runs whose confidence is alike."""

    confidence: float
    success: float
    n: int
    runs: tuple[int, ...]
    """Their places in what was given."""


class Calibration(NamedTuple):
    """Whether given confidence is met by success."""

    brier: float
    """Mean squared difference (Brier 1950); 0 is perfect."""
    error: float
    """Expected calibration error over the bins (Naeini et al. 2015)."""
    bins: tuple[Bin, ...]


def calibration(confidence: Sequence[float], success: Sequence[bool], bins: int = 10) -> Calibration:
    """Compare the stated confidence of runs with their success.

    Args:
        confidence: From 0 to 1, shape (n,).
        success: Shape (n,).
        bins: Of equal width.

    Raises:
        ValueError: They are not as many, there is none, or one is no probability.

    Examples:
        >>> round(calibration([0.9, 0.9, 0.1, 0.1], [True, True, False, False]).brier, 4)
        0.01
    """
    given, came = np.asarray(confidence, dtype=float), np.asarray(success, dtype=float)
    if len(given) == 0 or len(given) != len(came):
        raise ValueError(f"expected as many confidences as outcomes and at least one, got {len(given)} and {len(came)}")
    if not (given.min() >= 0 and given.max() <= 1):
        raise ValueError("a confidence is a probability, from 0 to 1")
    place = np.minimum((given * bins).astype(int), bins - 1)
    found: list[Bin] = []
    for i in sorted(set(place.tolist())):
        runs: list[int] = np.flatnonzero(place == i).tolist()
        found.append(Bin(float(given[runs].mean()), float(came[runs].mean()), len(runs), tuple(runs)))
    error = sum(part.n * abs(part.confidence - part.success) for part in found) / len(given)
    return Calibration(float(np.mean((given - came) ** 2)), float(error), tuple(found))
