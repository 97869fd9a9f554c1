"""Gates: known values, and the rate of false alarms they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.errors import DataError
from pytest_elo.rating.paired import (
    estimate_test,
    holm,
    mcnemar_mid_p,
    noninferiority_test,
    regression_test,
    tango_interval,
)


def test_mcnemar_mid_p_of_the_airway_example():
    """Seven against one: two-sided mid-p 0.0391 (Fagerland, Lydersen and Laake 2013)."""
    assert 2.0 * mcnemar_mid_p(7, 1) == pytest.approx(0.0391, abs=1e-4)
    assert mcnemar_mid_p(0, 0) == 0.5


@given(st.integers(0, 60), st.integers(0, 60))
def test_mid_p_values_of_both_directions_sum_to_one(worse, better):
    assert mcnemar_mid_p(worse, better) + mcnemar_mid_p(better, worse) == pytest.approx(1.0, abs=1e-9)


@given(st.integers(1, 300), st.data())
def test_tango_interval_solves_the_score_equation(n, data):
    """Checked against the restricted likelihood itself, maximised on a grid."""
    worse = data.draw(st.integers(0, n))
    better = data.draw(st.integers(0, n - worse))
    low, high = tango_interval(worse, better, n, level=0.9)
    assert -1.0 <= low <= (better - worse) / n <= high <= 1.0
    mirrored = tango_interval(better, worse, n, level=0.9)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)
    if -0.99 < low < 0.99:
        q = restricted_worse_share(worse, better, n, low)
        spread = math.sqrt((2.0 * q + low - low * low) / n)
        assert ((better - worse) / n - low) / spread == pytest.approx(1.6449, abs=0.01)


def restricted_worse_share(worse, better, n, difference):
    """Maximum-likelihood share of worse items when the shares differ by ``difference``, by ternary search."""

    def likelihood(q):
        parts = ((better, q + difference), (worse, q), (n - worse - better, 1.0 - 2.0 * q - difference))
        return sum(count * math.log(max(share, 1e-300)) for count, share in parts if count)

    low, high = max(0.0, -difference), (1.0 - difference) / 2.0
    for _ in range(200):
        third = (high - low) / 3.0
        if likelihood(low + third) < likelihood(high - third):
            low += third
        else:
            high -= third
    return 0.5 * (low + high)


def test_nothing_changed_and_nothing_seen_is_not_a_pass_of_a_narrow_margin():
    same = np.ones(50)
    assert regression_test(same, same).answer == "inconclusive"
    assert noninferiority_test(same, same, margin=0.02).answer == "inconclusive"
    assert noninferiority_test(same, same, margin=0.10).answer == "pass"


def test_three_answers():
    rng = np.random.default_rng(0)
    main = (rng.random(400) < 0.7).astype(float)
    broken = np.where(rng.random(400) < 0.15, 0.0, main)
    assert regression_test(broken, main).answer == "fail"
    assert noninferiority_test(broken, main, margin=0.02).answer == "fail"
    assert noninferiority_test(main, main, margin=0.05).answer == "pass"
    few = slice(0, 12)
    assert noninferiority_test(broken[few], main[few], margin=0.05).answer == "inconclusive"
    assert regression_test(np.full(3, np.nan), main[:3]).answer == "inconclusive"


def test_a_drop_below_what_matters_in_practice_does_not_fail():
    main = np.ones(1000)
    new = np.where(np.arange(1000) < 20, 0.0, 1.0)
    assert regression_test(new, main).answer == "fail"
    assert regression_test(new, main, practical=0.05).answer == "pass"


@pytest.mark.parametrize("n", [50, 200, 500])
def test_false_alarms_stay_near_five_percent(n):
    """Pass/fail with a fifth of the items differing by chance; the naive comparison alarms in 45 %."""
    rng = np.random.default_rng(n)
    alarms = 0
    for differ in rng.binomial(n, 0.2, 1500):
        worse = int(rng.binomial(differ, 0.5))
        alarms += mcnemar_mid_p(worse, int(differ) - worse) < 0.05
    assert 0.035 < alarms / 1500 < 0.065


def test_elo_estimates_and_holm():
    assert estimate_test(-5.0, 4.0, 60.0, margin=20.0).answer == "pass"
    assert estimate_test(-40.0, 4.0, 60.0, margin=20.0).answer == "fail"
    assert estimate_test(-20.0, 4.0, 60.0, margin=20.0).answer == "inconclusive"
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))


def test_misaligned_scores_are_refused():
    with pytest.raises(DataError, match="align them by item"):
        regression_test(np.ones(3), np.ones(4))
    with pytest.raises(DataError, match="margin"):
        noninferiority_test(np.ones(3), np.ones(3), margin=0.0)
