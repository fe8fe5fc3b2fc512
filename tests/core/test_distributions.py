"""The distributions, held to SciPy's."""

import math

import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from ace.core.distributions import (
    beta_cdf,
    beta_quantile,
    bisect,
    normal_quantile,
    student_cdf,
    student_quantile,
)

shapes = st.floats(0.01, 4).map(lambda exponent: 10**exponent)
degrees = st.floats(-0.3, 5).map(lambda exponent: 10**exponent)
chances = st.one_of(st.just(0.975), st.floats(1e-4, 1 - 1e-4))


@settings(max_examples=300, deadline=None)
@given(shapes, shapes, chances)
def test_beta_is_scipys(a, b, p):
    x = float(special.betaincinv(a, b, p))
    assert beta_cdf(x, a, b) == pytest.approx(float(special.betainc(a, b, x)), rel=1e-8)
    assert beta_quantile(p, a, b) == pytest.approx(x, rel=1e-8)


@settings(max_examples=300, deadline=None)
@given(degrees, chances)
def test_student_is_scipys(df, p):
    t = float(special.stdtrit(df, p))
    assert student_cdf(t, df) == pytest.approx(float(special.stdtr(df, t)), rel=1e-8)
    assert student_quantile(p, df) == pytest.approx(t, rel=1e-7, abs=1e-7)
    assert student_cdf(-t, df) == pytest.approx(1 - student_cdf(t, df), abs=1e-12)


def test_far_out_in_a_tail_nothing_is_lost():
    assert student_cdf(-40.0, 10) == pytest.approx(float(special.stdtr(10, -40.0)), rel=1e-9)
    assert student_cdf(-1e6, 3) == pytest.approx(float(special.stdtr(3, -1e6)), rel=1e-9)
    assert beta_cdf(1e-12, 2, 3) == pytest.approx(float(special.betainc(2, 3, 1e-12)), rel=1e-9)


def test_ends_and_infinite_degrees():
    assert (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3), beta_cdf(-1, 2, 3)) == (0, 1, 0)
    assert (beta_quantile(0, 2, 3), beta_quantile(1, 2, 3)) == (0, 1)
    assert (student_cdf(0, 7), student_cdf(math.inf, 7), student_cdf(-math.inf, 7)) == (0.5, 1, 0)
    assert student_quantile(0.5, 7) == 0
    assert student_quantile(0.975, math.inf) == normal_quantile(0.975) == pytest.approx(1.959963984540054)
    assert student_cdf(1.0, math.inf) == pytest.approx(0.8413447460685429)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sign_change_is_found_whichever_way_it_goes(sign):
    assert bisect(lambda x: sign * (x**3 - 2), 0.0, 2.0) == pytest.approx(2 ** (1 / 3))
