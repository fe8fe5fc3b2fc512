"""Scores: intervals that cover, rules that keep good bullets."""

import numpy as np
import pytest

from ace.playbook.statistics import (
    Record,
    chance_of_being_better,
    effect,
    should_promote,
    should_prune,
)


def test_the_chance_of_being_better_is_the_integral_over_both_posteriors():
    random = np.random.default_rng(0)
    for of, null in ((Record(7, 3), Record(4, 6)), (Record(0, 0), Record(19, 1)), (Record(150, 50), Record(1, 0))):
        a = random.beta(1 + of.successes, 1 + of.failures, 200_000)
        b = random.beta(1 + null.successes, 1 + null.failures, 200_000)
        assert chance_of_being_better(of, null) == pytest.approx((a > b).mean(), abs=0.005)
    assert chance_of_being_better(Record(0, 0), 0.3) == pytest.approx(0.7)


def test_clean_streaks_that_prune_and_promote():
    assert next(n for n in range(10) if should_prune(Record(0, n), 0.5)) == 6
    assert next(n for n in range(10) if should_promote(Record(n, 0), 0.5)) == 4
    assert not should_prune(Record(0, 0), 0.99)
    assert not should_promote(Record(3, 0), 0.1)  # too few, however clear


def test_a_good_bullet_survives_two_hundred_uses_and_a_bad_one_does_not():
    random = np.random.default_rng(1)

    def pruned(rate, runs=200):
        gone = 0
        for outcomes in random.random((runs, 200)) < rate:
            wins = 0
            for uses, won in enumerate(outcomes, start=1):
                wins += won
                if wins < uses / 2 and should_prune(Record(wins, uses - wins), 0.5):
                    gone += 1
                    break
        return gone / runs

    assert pruned(0.7) <= 0.02
    assert pruned(0.3) >= 0.95


def test_the_effect_interval_narrows_with_more_runs():
    found = effect(Record(60, 40), Record(5, 5))
    assert found.estimate == pytest.approx(0.1)
    assert found.low < 0.1 < found.high
    assert effect(Record(9, 1), Record(0, 0)) == (None, -1.0, 1.0)
    for treated, control in (
        (Record(50, 0), Record(5, 0)),
        (Record(0, 50), Record(5, 0)),
        (Record(45, 0), Record(0, 5)),
    ):
        low, high = effect(treated, control)[1:]
        assert -1 <= low <= high <= 1
    wide, narrow = effect(Record(30, 20), Record(3, 2)), effect(Record(300, 200), Record(30, 20))
    assert narrow.high - narrow.low < wide.high - wide.low


@pytest.mark.parametrize(("p", "q", "uses"), [(0.7, 0.5, 50), (0.95, 0.9, 50), (0.6, 0.6, 200)])
def test_the_effect_interval_covers_the_truth(p, q, uses):
    random = np.random.default_rng(7)
    covered, n = 0, 1_000
    for controls in random.binomial(uses, 0.1, n):
        a, b = random.binomial(uses - controls, p), random.binomial(controls, q)
        found = effect(Record(a, uses - controls - a), Record(b, controls - b))
        covered += found.low <= p - q <= found.high
    assert 0.92 <= covered / n <= 0.98


def test_an_effect_has_the_interval_that_newcombe_published():
    """Statistics in Medicine 17 (1998), page 877, table II, method 10: 56/70 beside 48/80, and 9/10 beside 3/10."""
    for treated, control, low, high in (
        (Record(56, 14), Record(48, 32), 0.0524, 0.3339),
        (Record(9, 1), Record(3, 7), 0.1705, 0.8090),
        (Record(10, 0), Record(0, 10), 0.6075, 1.0),
    ):
        assert effect(treated, control)[1:] == pytest.approx((low, high), abs=5e-4)


def test_an_effect_without_controls_or_uses_is_anything():
    assert effect(Record(3, 1), Record(0, 0)) == (None, -1.0, 1.0)
    assert effect(Record(0, 0), Record(3, 1)) == (None, -1.0, 1.0)


@pytest.mark.parametrize("one", [(0, 0), (3, 1), (700, 300), (50_000, 50_100)])
@pytest.mark.parametrize("other", [(0, 0), (1, 5), (60, 40), (99_000, 100_000)])
def test_a_comparison_of_two_records_is_the_integral_however_narrow_one_is(one, other):
    from scipy import integrate, stats

    x, y = (stats.beta(1 + successes, 1 + failures) for successes, failures in (one, other))
    middle, width = float(x.mean()), float(x.std())
    inside = [p for p in (middle - 8 * width, middle - width, middle, middle + width, middle + 8 * width) if 0 < p < 1]
    there = [p for p in (float(y.mean()) + k * float(y.std()) for k in (-8, -1, 0, 1, 8)) if 0 < p < 1]
    exact = integrate.quad(lambda p: x.pdf(p) * y.cdf(p), 0, 1, points=sorted({*inside, *there}), limit=500)[0]
    assert chance_of_being_better(Record(*one), Record(*other)) == pytest.approx(exact, abs=1e-6)
