"""Laws that hold for every table of votes, and ten thousand small worlds that must not break anything."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_elo.rating import Comparisons, Settings, Usage, evaluate
from pytest_elo.rating.bradley_terry import bradley_terry
from pytest_elo.rating.results import Interval

modes = st.sampled_from(["half", "davidson", "drop"])


@st.composite
def fields(draw):
    """(n, n) wins and symmetric ties of 2 to 6 policies, whole counts."""
    n = draw(st.integers(2, 6))
    counts = hnp.arrays(np.int64, (n, n), elements=st.integers(0, 9))
    wins = draw(counts).astype(float)
    ties = np.triu(draw(counts), 1).astype(float)
    np.fill_diagonal(wins, 0.0)
    return wins, ties + ties.T


def gaps(ratings):
    """Differences where the data define them, NaN elsewhere."""
    return np.where(ratings.together, ratings.theta[:, None] - ratings.theta[None, :], np.nan)


@given(fields(), modes)
def test_unit_counts_always_converge_to_numbers_where_something_is_known(field, mode):
    ratings = bradley_terry(*field, mode)
    assert ratings.converged
    known = ratings.together & ~np.eye(len(ratings.theta), dtype=bool)
    assert np.isfinite(gaps(ratings)[known]).all()
    assert np.abs(gaps(ratings)[known]).max(initial=0.0) < 20.0


@given(fields(), modes, st.randoms(use_true_random=False))
def test_relabelling_policies_relabels_ratings(field, mode, random):
    wins, ties = field
    order = list(range(len(wins)))
    random.shuffle(order)
    moved = bradley_terry(wins[np.ix_(order, order)], ties[np.ix_(order, order)], mode)
    straight = bradley_terry(wins, ties, mode)
    assert gaps(moved) == pytest.approx(gaps(straight)[np.ix_(order, order)], abs=1e-7, nan_ok=True)


@given(fields(), modes)
def test_swapping_winners_and_losers_turns_the_signs(field, mode):
    wins, ties = field
    assert gaps(bradley_terry(wins.T.copy(), ties, mode)) == pytest.approx(
        -gaps(bradley_terry(wins, ties, mode)), abs=1e-7, nan_ok=True
    )


@given(fields(), modes, st.sampled_from([0.01, 0.5, 3.0, 1000.0]))
def test_scaling_all_weights_changes_no_maximum_likelihood_rating(field, mode, factor):
    wins, ties = field
    ratings = bradley_terry(wins, ties, mode)
    if ratings.penalised:
        return
    scaled = bradley_terry(factor * wins, factor * ties, mode)
    assert gaps(scaled) == pytest.approx(gaps(ratings), abs=1e-7, nan_ok=True)


@given(fields(), st.integers(1, 30))
def test_ties_between_two_pull_them_together_and_never_past_each_other(field, more):
    wins, ties = field
    wins, ties = wins[:2, :2], ties[:2, :2]
    before = bradley_terry(wins + 1.0 - np.eye(2), ties)
    extra = more * (1.0 - np.eye(2))
    after = bradley_terry(wins + 1.0 - np.eye(2), ties + extra)
    one, other = before.theta[0] - before.theta[1], after.theta[0] - after.theta[1]
    assert math.copysign(1.0, one) == math.copysign(1.0, other) or abs(one) < 1e-9
    assert abs(other) <= abs(one) + 1e-9


@given(fields(), modes)
def test_the_expected_scores_equal_the_scores(field, mode):
    """The likelihood equations, checked from outside."""
    wins, ties = field
    ratings = bradley_terry(wins, ties, mode)
    if ratings.penalised:
        return
    counted = ties if mode != "drop" and (mode == "half" or wins.any()) else np.zeros_like(ties)
    counts = wins + wins.T + counted
    half = np.nan_to_num(gaps(ratings)) / 2.0
    nu = ratings.nu
    expected = 0.5 + np.sinh(half) / (2.0 * np.cosh(half) + nu)
    assert (counts * expected).sum(axis=1) == pytest.approx((wins + 0.5 * counted).sum(axis=1), abs=1e-7)


def small_world(rng, n_tasks):
    """Anything a run might hand over: few items, few rows, odd weights, missing usage, free tokens."""
    n, items, rows = int(rng.integers(2, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 12)) * n_tasks
    names = {
        "tasks": tuple(f"t{i:02}" for i in range(n_tasks)),
        "items": tuple(f"i{i}" for i in range(items)),
        "policies": tuple("abcd"[:n]),
    }
    a = rng.integers(0, n, rows)
    shares = [
        rng.integers(0, 2, rows) * 1.0,
        rng.integers(0, 3, rows) / 2,
        np.full(rows, 0.5),
        rng.random(rows),
    ]
    weights = [np.ones(rows), rng.random(rows), 10.0 ** rng.integers(-6, 7, rows)]
    comparisons = Comparisons(
        **names,
        judges=("x", "y"),
        task=rng.integers(0, n_tasks, rows),
        item=rng.integers(0, items, rows),
        a=a,
        b=(a + rng.integers(1, n, rows)) % n,
        share=shares[rng.integers(0, 4)],
        weight=weights[rng.integers(0, 3)],
        judge=None if rng.random() < 0.7 else rng.integers(-1, 2, rows),
    )
    if rng.random() < 0.2:
        return comparisons, None
    task, item, policy = np.nonzero(rng.random((n_tasks, items, n)) < rng.choice([0.6, 1.0]))
    m = len(task)
    tokens = [rng.lognormal(5.0, 2.0, m), np.full(m, 100.0), np.zeros(m), rng.integers(0, 3, m) * 1.0]
    spent = tokens[rng.integers(0, 4)]
    score = np.where(rng.random(m) < 0.1, np.nan, rng.integers(0, 2, m))
    usage = Usage(
        **names, task=task, item=item, policy=policy, tokens=spent, tokens_high=spent * 1.5,
        completion_tokens=0.3 * spent, last_success_tokens=0.5 * spent,
        usd=np.where(rng.random(m) < 0.2, np.nan, 1e-6 * spent), score=score, repeats=np.ones(m),
    )  # fmt: skip
    return comparisons, usage


def assert_plain(value, path="report"):
    """Plain Python values only, no float that is not a number, and no interval that claims certainty."""
    if isinstance(value, Interval) and value.bounded:
        assert value.low < value.high, (path, value)
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert_plain(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            assert_plain(part, f"{path}[{i}]")
    else:
        assert value is None or type(value) in (str, int, bool, float), (path, type(value))
        assert type(value) is not float or math.isfinite(value), (path, value)


def test_ten_thousand_small_worlds_never_crash_and_never_give_nan():
    """Each task is a small world of its own; every mode, route and interval takes its turn."""
    worlds = 0
    for number in range(200):
        rng = np.random.default_rng(number)
        comparisons, usage = small_world(rng, 50)
        chosen = Settings(
            anchor="a",
            ties=("half", "davidson", "drop")[number % 3],
            route=("anchored", "pooled", "hierarchical")[number // 3 % 3],
            interval="cr1" if number % 20 else ("percentile", "bca")[number // 20 % 2],
            bootstrap_rounds=100,
            ladders=(comparisons.policies,),
            missing_anchor="drop",
        )
        assert_plain(evaluate(comparisons, usage, chosen))
        worlds += 50
    assert worlds == 10_000


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_splitting_a_row_in_two_halves_says_the_same(seed, n_tasks):
    comparisons, usage = small_world(np.random.default_rng(seed), n_tasks)
    comparisons = dataclasses.replace(comparisons, weight=np.ones(len(comparisons.task)))
    chosen = Settings(anchor="a", missing_anchor="drop")
    doubled = {
        name: np.concatenate([getattr(comparisons, name)] * 2)
        for name in ("task", "item", "a", "b", "share", "judge")
        if getattr(comparisons, name) is not None
    }
    split = dataclasses.replace(comparisons, **doubled, weight=np.full(2 * len(comparisons.task), 0.5))
    assume(0 in np.r_[comparisons.a, comparisons.b])
    whole = evaluate(comparisons, usage, chosen)
    halves = evaluate(split, usage, chosen)
    for row in whole.policies:
        other = next(each for each in halves.policies if each.policy == row.policy)
        assert other.delta.value == pytest.approx(row.delta.value, abs=1e-6)
        if row.delta.interval is not None and other.delta.interval is not None:
            assert other.delta.interval.low == pytest.approx(row.delta.interval.low, abs=1e-6)
