"""The two distributions that our statistics rest on: Beta and Student's t, with their quantiles.

SciPy has them too, in 143 MB, more than all else that is installed beside DSPy; the tests hold these to it. The continued
fraction is that of DLMF 8.17.22, evaluated by Lentz's method; quantiles are roots of the distribution functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

_MOST_TERMS = 100_000
_NORMAL = NormalDist()


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the chance that a Beta(a, b) variable is at most x: the regularized incomplete beta function.

    Args:
        x: From 0 to 1.
        a: Greater than 0.
        b: Greater than 0.

    Examples:
        >>> round(beta_cdf(0.5, 8, 4), 4)
        0.1133
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    return _incomplete(x, 1 - x, a, b)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the value that a Beta(a, b) variable stays below with the chance p.

    Examples:
        >>> round(beta_quantile(0.025, 9, 3), 3)
        0.482
    """
    if p <= 0 or p >= 1:
        return 0.0 if p <= 0 else 1.0
    return bisect(lambda x: beta_cdf(x, a, b) - p, 0.0, 1.0)


def normal_quantile(p: float) -> float:
    """Return the value that a standard normal variable stays below with the chance p, for p between 0 and 1.

    Examples:
        >>> round(normal_quantile(0.975), 3)
        1.96
    """
    return _NORMAL.inv_cdf(p)


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share of `n` independent trials (Wilson, JASA 1927).

    Args:
        share: From 0 to 1.
        n: Trials, more than 0.
        z: The quantile of the interval's level.

    Examples:
        >>> low, high = wilson(0.8, 10, 1.96)
        >>> round(low, 2), round(high, 2)
        (0.49, 0.94)
    """
    centre, below = share + z * z / 2 / n, 1 + z * z / n
    half = z * math.sqrt(max(0.0, share * (1 - share) / n + z * z / 4 / n**2))
    # at the ends rounding would leave what is exactly 0 or 1
    return (centre - half) / below if share > 0 else 0.0, (centre + half) / below if share < 1 else 1.0


def student_cdf(t: float, df: float) -> float:
    """Return the chance that a variable of Student's distribution is at most t.

    Args:
        t: Any number.
        df: Degrees of freedom, greater than 0; they need not be whole, and may be infinite.

    Examples:
        >>> round(student_cdf(2.0, 10), 4)
        0.9633
    """
    if math.isinf(df):
        return _NORMAL.cdf(t)
    if t == 0 or math.isinf(t):
        return 0.5 if t == 0 else float(t > 0)
    square = t * t
    beyond = _incomplete(df / (df + square), square / (df + square), df / 2, 0.5) / 2
    return 1 - beyond if t > 0 else beyond


def student_quantile(p: float, df: float) -> float:
    """Return the value that a variable of Student's distribution stays below with the chance p, for p between 0 and 1.

    Examples:
        >>> round(student_quantile(0.975, 10), 3)
        2.228
    """
    if p < 0.5:
        return -student_quantile(1 - p, df)
    if p == 0.5 or math.isinf(df):
        return normal_quantile(p)
    # right of 0 the density falls: Newton's steps from the normal quantile, which is nearer to 0, never pass the place
    log_peak = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    t = normal_quantile(p)
    for _ in range(_MOST_TERMS):
        density = math.exp(log_peak - (df + 1) / 2 * math.log1p(t * t / df))
        further = t + (p - student_cdf(t, df)) / density
        if not further > t:
            break
        t = further
    return t


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Find where a function that changes its sign between two places does so.

    Examples:
        >>> round(bisect(lambda x: x * x - 2, 0.0, 2.0), 6)
        1.414214
    """
    rises = function(low) < function(high)
    for _ in range(1_100):  # so many halves as a number near 0 has
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (function(middle) < 0) == rises else (low, middle)
    return (low + high) / 2


def _incomplete(x: float, y: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function at x, where y is 1 - x: each is small somewhere, and known exactly."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete(y, x, b, a)
    known = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(known + a * math.log(x) + b * (math.log1p(-x) if x < 0.5 else math.log(y))) / a
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    fraction = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            fraction *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return front * fraction
