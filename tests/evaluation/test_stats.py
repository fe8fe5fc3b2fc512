"""The estimators against closed forms, other libraries and simulated truth; full counts in `benchmarks/evaluation/estimators.py`."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import stats as reference

from ace.evaluation.stats import (
    calibration,
    compare,
    difference,
    holm,
    learning_curve,
    mcnemar,
    mean,
    paired_difference,
    pass_hat_k,
    ratio,
    share,
    share_closed,
    share_interval,
    smallest_effect,
    spread,
)
from ace.evaluation.stats.paired import mid_p
from benchmarks.evaluation import estimators

VALUES = np.random.default_rng(0).normal(3, 1, 40)


def test_a_mean_of_independent_values_is_the_t_test():
    found, known = mean(VALUES), reference.ttest_1samp(VALUES, 0)
    low, high = known.confidence_interval(0.95)
    assert found == pytest.approx((VALUES.mean(), low, high, known.pvalue))


def test_a_mean_over_equal_families_is_the_t_test_of_their_means():
    families = np.repeat(np.arange(8), 5)
    low, high = reference.ttest_1samp(VALUES.reshape(8, 5).mean(axis=1), 0).confidence_interval(0.95)
    assert mean(VALUES, families.tolist())[:3] == pytest.approx((VALUES.mean(), low, high))


def test_unequal_families_agree_with_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    families = np.repeat(np.arange(5), [2, 3, 5, 10, 20])
    fit = sm.OLS(VALUES, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": families, "use_correction": False})
    # CR0 lacks the correction of 1 - size / n for each family
    sums = np.bincount(families, VALUES - VALUES.mean())
    assert fit.cov_params()[0, 0] == pytest.approx((sums**2).sum() / 40**2)
    corrected = (sums**2 / (1 - np.array([2, 3, 5, 10, 20]) / 40)).sum() / 40**2
    found = spread(VALUES, families.tolist())
    assert found.variance == pytest.approx(corrected)
    assert 1 < found.df < 4, "one family holds half of the runs: five families are worth fewer"


def test_degrees_of_freedom_are_those_of_the_matrix_formula():
    sizes = np.array([2.0, 3.0, 5.0, 10.0, 20.0])
    scale = 1 / np.sqrt(1 - sizes / 40)
    moments = scale[:, None] * (np.diag(sizes) - np.outer(sizes, sizes) / 40) * scale[None]
    found = spread(VALUES, np.repeat(np.arange(5), sizes.astype(int)).tolist())
    assert found.df == pytest.approx(np.trace(moments) ** 2 / np.sum(moments**2))


def test_seeds_that_share_something_widen_the_interval():
    rng = np.random.default_rng(0)
    seeds, families = np.tile(np.arange(5), 24), np.repeat(np.arange(12), 10)
    shared = rng.normal(0, 1, 5)[seeds] + rng.normal(0, 0.1, 120)
    assert spread(shared, families, seeds).variance > 50 * spread(shared, families).variance
    own = rng.normal(0, 1, 12)[families] + np.tile([1.0, -1.0, 1.0, -1.0, 0.0], 24) * np.repeat([1, -1], 60)
    assert spread(own, families, seeds).variance == spread(own, families).variance
    assert spread(own, families, seeds).df < spread(own, families).df, (
        "five seeds cannot say for sure that they add nothing"
    )
    assert spread(own, families, [0] * 120) == spread(own, families)


@pytest.mark.parametrize("right", [0, 1, 10, 39, 40])
def test_a_share_stays_between_nothing_and_everything(right):
    found = share([1.0] * right + [0.0] * (40 - right), list(range(8)) * 5)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high - found.low > 0.01


def test_one_family_says_nothing_about_others():
    found = difference([0, 0], [1, 0], ["a", "a"])
    assert (found.value, found.interval) == (0.5, (None, None))
    assert math.isnan(found.p)
    assert share([1.0, 0.0], ["a", "a"])[1:3] == (0.0, 1.0)
    assert math.isnan(mean([]).value)


def test_a_ratio_covers_what_fieller_does():
    rng = np.random.default_rng(0)
    below, families = rng.normal(5, 1, 60), list(range(12)) * 5
    found = ratio(2 * below + rng.normal(0, 0.01, 60), below, families)
    assert found[:3] == pytest.approx((2, 2, 2), abs=0.01)
    alike = ratio(2 * below, below, families)
    assert (alike.value, alike.interval) == (pytest.approx(2), (None, None)), (
        "nothing varies: nothing is known of others"
    )
    assert mean([3.0] * 6).interval == (None, None)
    unsure = ratio(below, rng.normal(0, 1, 60), families)
    assert unsure.interval == (None, None), "what it is divided by may be 0"
    assert math.isnan(share_closed([1, 1], [1, 1], [1, 1], ["a", "b"]).value)


@pytest.mark.parametrize(("families", "low"), [(4, 0.0), (5, 0.0), (6, 0.26), (8, 0.42), (12, 0.59), (25, 0.79)])
def test_all_gained_is_no_certainty(families, low):
    found = paired_difference([0.0] * families, [1.0] * families)
    assert (found.rule, found.estimate.value, found.estimate.high) == ("newcombe", 1.0, 1.0)
    assert found.estimate.low == pytest.approx(low, abs=0.02)
    assert found.estimate.p >= 2.0 ** (1 - families)


@pytest.mark.parametrize(("families", "half"), [(6, 0.52), (8, 0.41), (12, 0.29), (25, 0.15)])
def test_nothing_solved_by_either_arm_is_no_certainty(families, half):
    found = paired_difference([0.0] * families, [0.0] * families).estimate
    assert (-found.low, found.high) == pytest.approx((half, half), abs=0.01)
    assert found.p == pytest.approx(1, abs=1e-6)


def test_families_decide_how_many_runs_there_are():
    before, after = [0.0] * 24, [1.0] * 12 + [0.0] * 12
    alone = paired_difference(before, after).estimate
    whole = paired_difference(before, after, [n // 4 for n in range(24)]).estimate
    assert alone.value == whole.value == 0.5
    assert whole.high - whole.low > 1.5 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("before", "after", "clusters", "rule"),
    [
        ([], [], None, "no runs"),
        ([0, 1, 0], [1, 1, 1], None, "too few families"),
        ([0] * 9, [1] * 9, list("aaabbbccc"), "too few families"),
        ([3.0] * 6, [2.0] * 6, None, "no variance"),
        ([3.0, 2.0] * 3, [2.0, 2.0] * 3, None, "student"),
    ],
)
def test_the_rule_is_named(before, after, clusters, rule):
    found = paired_difference(before, after, clusters)
    assert found.rule == rule
    assert found.reason
    if rule not in ("student", "newcombe"):
        assert found.estimate.interval == (None, None)
        assert math.isnan(found.estimate.p)
    if rule == "student":
        assert found.estimate == mean([late - early for early, late in zip(before, after, strict=True)])


def test_a_count_that_is_1_everywhere_is_no_success():
    assert paired_difference([1] * 6, [1] * 6).rule == "newcombe", "a caller who does not know"
    assert paired_difference([1] * 6, [1] * 6, binary=False).rule == "no variance"
    assert paired_difference([1] * 6, [1, 0] * 3, binary=False).rule == "student"
    assert difference([0] * 6, [1] * 6, binary=False).interval == (None, None)
    found = compare([1] * 6, [1, 0] * 3, binary=False)
    assert (found.gained, found.lost, math.isnan(found.mcnemar)) == (0, 0, True)
    with pytest.raises(ValueError, match="expected 0 or 1 for each run"):
        compare([1] * 6, [1, 2] * 3, binary=True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("binary", [None, True, False])
def test_what_is_no_finite_number_is_refused(value, binary):
    for compared in (paired_difference, compare):
        with pytest.raises(ValueError, match=r"finite numbers, got nan or infinity in argument 1"):
            compared([value, 0, 0, 0, 0, 0], [1] * 6, binary=binary)
        with pytest.raises(ValueError, match=r"argument 2"):
            compared([1] * 6, [value] * 6, binary=binary)


def test_counts_of_few_families_keep_students_interval():
    found = paired_difference([10] * 4, [7.0, 7.01, 7.02, 7.03]).estimate
    assert found.high < 0
    assert found.p < 2.0 ** (1 - 4), "that is the least for right and wrong"


def test_an_interval_that_leaves_0_out_has_a_p_below_5_percent():
    rng = np.random.default_rng(3)
    for _ in range(200):
        k = int(rng.integers(6, 20))
        before, after = rng.random((2, k, 3)) < np.array([0.3, rng.choice([0.3, 0.7])])[:, None, None]
        found = paired_difference(
            before.ravel() * 1.0, after.ravel() * 1.0, np.repeat(np.arange(k), 3).tolist()
        ).estimate
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0), found


def test_mcnemar_is_the_exact_test_less_half_of_the_point():
    for gained, lost in ((6, 0), (9, 3), (4, 5), (0, 0)):
        before, after = [False] * gained + [True] * lost + [True] * 7, [True] * gained + [False] * lost + [True] * 7
        n = gained + lost
        exact = reference.binomtest(min(gained, lost), n).pvalue if n else 1.0
        half = float(reference.binom.pmf(min(gained, lost), n, 0.5)) if n and gained != lost else 0.0
        assert mcnemar(before, after) == pytest.approx(exact - half)


def test_holm_agrees_with_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = {f"c{i}": float(v) for i, v in enumerate(np.random.default_rng(1).random(9) ** 3)}
    known = multitest.multipletests(list(p.values()), method="holm")[1]
    found = holm({**p, "none": float("nan")})
    assert [found[name] for name in p] == pytest.approx(list(known))
    assert math.isnan(found["none"])
    assert holm({}) == {}


def test_the_smallest_effect_is_found_four_times_of_five():
    rng, found = np.random.default_rng(0), 0
    effect = smallest_effect(1 / 20, 19)
    for _ in range(2_000):
        found += reference.ttest_1samp(rng.normal(effect, 1, 20), 0).pvalue < 0.05
    assert 0.77 < found / 2_000 < 0.84
    assert math.isnan(smallest_effect(float("nan"), 0))


@pytest.mark.parametrize("families", [2, 3, 4, 5])
def test_too_few_families_could_show_no_difference(families):
    names = [n % families for n in range(10 * families)]
    after = [float(n % 3 > 0) for n in range(10 * families)]
    assert math.isnan(compare([0.0] * len(names), after, names).smallest_effect)
    counts = compare([9.0] * len(names), after, names)
    assert math.isnan(counts.smallest_effect) == (families < 4), "Student's interval may leave 0 out"


def test_too_wide_an_interval_could_show_no_difference():
    assert math.isnan(compare([0, 1, 1, 0, 0, 1], [1, 0, 1, 0, 1, 0]).smallest_effect)


@pytest.mark.parametrize("base", [0.1, 0.5])
@pytest.mark.parametrize("families", [6, 8, 12, 25])
def test_the_smallest_effect_of_right_and_wrong_is_found_four_times_of_five(families, base):
    rng, names = np.random.default_rng(families), np.repeat(np.arange(families), 4).tolist()

    def compared(effect):
        before, after = (
            (rng.random(len(names)) < right).astype(float).tolist() for right in (base, min(1, base + effect))
        )
        return compare(before, after, names, binary=True)

    alike = float(np.nanmedian([compared(0.0).smallest_effect for _ in range(50)]))
    effect = float(np.nanmedian([compared(alike).smallest_effect for _ in range(50)]))
    assert alike == pytest.approx(effect, abs=0.08), "the effect itself hardly moves what could show"
    found = sum(compared(effect).difference.low > 0 for _ in range(300)) / 300
    assert 0.7 <= found <= 0.95


def test_a_comparison_tells_who_won_and_lost():
    found = compare([0, 0, 1, 1], [1, 1, 1, 0], list("abcd"))
    assert (found.gained, found.lost) == (2, 1)
    assert found.mcnemar == mcnemar([False, False, True, True], [True, True, True, False])
    assert math.isnan(compare([1.5, 2.0], [1.0, 1.0], list("ab")).mcnemar)
    with pytest.raises(ValueError, match="argument 2"):
        compare([0, 1], [1])


def test_pass_hat_k_is_the_share_of_all_subsets():
    runs = {"a": [True, True, False, True], "b": [False] * 4, "c": [True] * 4}
    assert pass_hat_k(runs, 1).value == pytest.approx((0.75 + 0 + 1) / 3)
    assert pass_hat_k(runs, 3).value == pytest.approx((0.25 + 0 + 1) / 3)
    with pytest.raises(ValueError, match=r"pass\^5 needs at least 5 runs"):
        pass_hat_k(runs, 5)


def test_calibration_of_a_perfect_and_of_a_boasting_model():
    assert calibration([1.0, 0.0], [True, False])[:2] == (0.0, 0.0)
    boasting = calibration([0.95] * 10, [True] * 5 + [False] * 5)
    assert boasting.error == pytest.approx(0.45)
    assert boasting.brier == pytest.approx((0.05**2 + 0.95**2) / 2)
    assert boasting.bins[0].n == 10
    for bad in ([1.2], [float("nan")]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            calibration(bad, [True])
    with pytest.raises(ValueError, match="as many"):
        calibration([], [])


def test_a_learning_curve_has_points_of_equally_many_runs():
    curve = learning_curve([0.0] * 50 + [1.0] * 50, list(range(100)), [str(i % 5) for i in range(100)], points=4)
    assert [round(step, 1) for step, _ in curve] == [12.0, 37.0, 62.0, 87.0]
    assert [found.value for _, found in curve] == [0, 0, 1, 1]
    assert learning_curve([], []) == []


def test_intervals_cover_and_tests_keep_their_size():
    rng = np.random.default_rng(7)
    found = estimators.coverage(estimators.WORLDS["different"], 0.7, 400, rng)
    for name in ("share", "difference", "share closed"):
        assert 91.5 <= found[name] <= 98, found
    for name in ("share, clusters ignored", "difference, clusters ignored"):
        assert found[name] < 93, found
    tests = estimators.sizes(0.7, 400, rng)
    assert 2 <= tests["mcnemar"] <= 8, tests
    assert tests["mcnemar, clusters ignored"] > 15, tests


@pytest.mark.parametrize(
    ("before", "after", "low", "high", "p"),
    [
        ([1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1], -0.0994, 0.5086, 0.1467),
        ([1, 0] * 6, [0, 1] * 5 + [1, 1], -0.5149, 0.6248, 0.7751),
    ],
    ids=["the arms agree", "the arms disagree"],
)
def test_the_rule_for_pairs_gives_the_figures_of_another_program(before, after, low, high, p):
    """Worked out by a program of its own; where the arms agree, their correlation is shrunk."""
    found = paired_difference(before, after, list("aabbccddeeff")).estimate
    assert (found.low, found.high, found.p) == pytest.approx((low, high, p), abs=1e-4)


def test_seeds_that_share_something_widen_the_interval_of_a_ratio():
    rng = np.random.default_rng(3)
    seeds, families = np.tile(np.arange(5), 24).tolist(), np.repeat(np.arange(12), 10).tolist()
    over = 2 + rng.normal(0, 0.3, 5)[seeds] + rng.normal(0, 0.1, 120)
    alone, together = (ratio(over, np.full(120, 4.0), families, given) for given in (None, seeds))
    assert together.value == pytest.approx(alone.value)
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_what_a_comparison_found_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        paired_difference([0] * 6, [1] * 6).rule = "student"


@pytest.mark.parametrize(
    ("values", "adds"),
    [
        ([0.1, 0.9, 1.0, 0.2, 0.8, 0.9, 0.4, 1.0, 0.7, 0.3, 0.9, 0.8], True),
        ([0.1, 0.2, 0.3, 0.2, 0.1, 0.1, 0.9, 1.0, 0.8, 0.4, 0.3, 0.5], False),
    ],
)
def test_seeds_and_families_are_joined_by_satterthwaite(values, adds):
    from ace.evaluation.stats.clustered import _one_way, spread

    families, seeds = list("aaabbbcccddd"), [0, 1, 2] * 4
    array = np.asarray(values)
    parts = [_one_way(array, names) for names in (families, seeds, list(zip(families, seeds, strict=True)))]
    more = parts[1].variance - parts[2].variance
    assert (more > 0) is adds
    both = spread(values, families, seeds)
    assert both.variance == pytest.approx(parts[0].variance + max(0, more))
    known = both.variance**2 / sum(part.variance**2 / part.df for part in parts)
    assert both.df == pytest.approx(max(known, min(parts[0].df, parts[1].df)))
    assert spread(values, families).variance == parts[0].variance


def test_two_seeds_say_next_to_nothing_of_others():
    families, seeds = list("aabbccdd"), [0, 1] * 4
    assert spread([0.1, 0.9, 0.2, 0.8, 0.4, 1.0, 0.3, 0.9], families, seeds).df == pytest.approx(1)


def test_values_that_do_not_vary_have_the_degrees_of_the_families():
    families, seeds = list("aabbccdd"), [0, 1] * 4
    assert spread([0.5] * 8, families, seeds) == spread([0.5] * 8, families)


def test_arms_of_different_length_are_no_pairs():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        mcnemar([True, False], [True])


@pytest.mark.parametrize(("successes", "n"), [(8, 10), (0, 5), (5, 5), (1, 100), (50, 100)])
def test_the_interval_of_a_share_is_wilsons(successes, n):
    known = reference.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert share_interval(successes, n) == pytest.approx((known.low, known.high), abs=1e-12)
    assert share_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("gained", "lost"), [(3, 1), (1, 3), (9, 0), (40, 22), (700, 640)])
def test_the_mid_p_value_is_the_binomial_one(gained, lost):
    fewer, n = min(gained, lost), gained + lost
    known = 2 * reference.binom.cdf(fewer, n, 0.5) - reference.binom.pmf(fewer, n, 0.5)
    assert mid_p(gained, lost) == pytest.approx(min(1.0, known), rel=1e-9)
