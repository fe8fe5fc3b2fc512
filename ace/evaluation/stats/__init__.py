"""Estimates with 95 % intervals, tests for pairs, and what repeated runs show."""

from ace.evaluation.stats.clustered import (
    Estimate,
    difference,
    mean,
    ratio,
    share,
    share_closed,
    share_interval,
    spread,
)
from ace.evaluation.stats.paired import compare, holm, mcnemar, paired_bootstrap, smallest_effect
from ace.evaluation.stats.repeats import calibration, learning_curve, pass_hat_k

__all__ = [
    "Estimate",
    "calibration",
    "compare",
    "difference",
    "holm",
    "learning_curve",
    "mcnemar",
    "mean",
    "paired_bootstrap",
    "pass_hat_k",
    "ratio",
    "share",
    "share_closed",
    "share_interval",
    "smallest_effect",
    "spread",
]
