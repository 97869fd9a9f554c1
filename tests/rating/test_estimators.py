"""The parts, each against an independent way to the same number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_elo.errors import DataError
from pytest_elo.rating import comparisons_from_outcomes
from pytest_elo.rating.bradley_terry import bootstrap_ratings, bradley_terry
from pytest_elo.rating.connectivity import components, is_strongly_connected
from pytest_elo.rating.fieller import fieller_set
from pytest_elo.rating.fit import fit_tables
from pytest_elo.rating.online import online_elo
from pytest_elo.rating.poisson import PoissonCells
from pytest_elo.rating.quantiles import chi_square_survival, student_cdf, student_quantile
from pytest_elo.rating.refit import Design, refit
from pytest_elo.rating.scale import ELO_PER_LOGIT
from pytest_elo.rating.verdict import legacy_verdict
from pytest_elo.rating.votes import count_votes, intern_names


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [(0.975, 1, 12.7062), (0.975, 3, 3.18245), (0.95, 10, 1.81246), (0.995, 29, 2.75639)],
)
def test_student_quantiles_of_the_tables(p, df, value):
    assert student_quantile(p, df) == pytest.approx(value, rel=2e-6)
    assert student_cdf(student_quantile(p, df), df) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize(("x", "df"), [(3.841459, 1), (5.991465, 2), (7.814728, 3), (18.30704, 10)])
def test_chi_square_of_the_tables(x, df):
    assert chi_square_survival(x, df) == pytest.approx(0.05, abs=1e-6)


def test_fieller_shapes():
    bounded = fieller_set(10.0, 2.0, 4.0, 0.04, 0.0, quantile=2.0, level=0.95)
    assert bounded.bounded
    for end in (bounded.low, bounded.high):
        assert (10.0 - end * 2.0) ** 2 == pytest.approx(4.0 * (4.0 + end**2 * 0.04))
    outside = fieller_set(10.0, 0.1, 4.0, 0.04, 0.0, quantile=2.0, level=0.95)
    assert outside.shape == "outside"
    assert not outside.low < 10.0 / 0.1 < outside.high
    assert fieller_set(1.0, 0.1, 4.0, 0.04, 0.0, quantile=2.0, level=0.95).shape == "everything"


def test_pooled_firth_of_the_articles_sample():
    """Twelve comparisons of baseline, r1, r3, r5 with the penalty: -274, -274, -87."""
    wins = np.zeros((4, 4))
    for winner, loser in [
        (0, 1),
        (0, 2),
        (1, 2),
        (0, 3),
        (0, 1),
        (2, 0),
        (2, 1),
        (3, 2),
        (0, 1),
        (0, 2),
        (1, 2),
        (3, 1),
    ]:
        wins[winner, loser] += 1.0
    together = np.ones((1, 4, 4), dtype=bool)
    fit = fit_tables(wins[None], np.zeros((1, 4, 4)), together, davidson=np.array([False]), penalised=np.array([True]))
    theta = (fit.theta[0] - fit.theta[0, 0]) * ELO_PER_LOGIT
    assert [round(x) for x in theta] == [0, -274, -274, -87]
    assert 0.5 * fit.virtual.sum() == pytest.approx(3.0)


def test_ford():
    chain = np.zeros((4, 4), dtype=bool)
    chain[[0, 1, 2], [1, 2, 3]] = True
    assert not is_strongly_connected(chain)
    chain[3, 0] = True
    assert is_strongly_connected(chain)
    apart = np.zeros((4, 4), dtype=bool)
    apart[0, 2] = apart[3, 1] = True
    assert components(apart) == ((0, 2), (1, 3))


def test_votes_are_counted_in_chunks_as_in_a_loop():
    rng = np.random.default_rng(2)
    a = rng.integers(0, 5, 200_000)
    b = (a + rng.integers(1, 5, len(a))) % 5
    outcome = rng.integers(0, 3, len(a)).astype(np.int8)
    wins, ties = count_votes(a, b, outcome, 5)
    assert wins.sum() + ties.sum() / 2 == len(a)
    assert wins[1, 3] == ((a == 1) & (b == 3) & (outcome == 2)).sum() + ((a == 3) & (b == 1) & (outcome == 0)).sum()
    assert ties[1, 3] == ties[3, 1] == (outcome[((a == 1) & (b == 3)) | ((a == 3) & (b == 1))] == 1).sum()
    with pytest.raises(DataError, match=r"votes.outcome: row 3 holds a code outside 0..2"):
        count_votes(np.zeros(4, int), np.ones(4, int), np.array([0, 1, 2, 3]), 2)
    assert intern_names(["b", "c"], ["a", "b"])[0] == ["a", "b", "c"]


def test_poisson_tables_have_poisson_moments():
    means = np.array([0.0, 0.3, 1.0, 7.5, 120.0, 1500.0])
    numbers = PoissonCells(means).draw(np.random.default_rng(1), 40_000).astype(float)
    error = np.sqrt(np.maximum(means, 1e-12) / 40_000)
    assert (np.abs(numbers.mean(axis=1) - means) <= 4.5 * error).all()
    assert numbers.var(axis=1) == pytest.approx(means, rel=0.05)
    assert (numbers[1] == 0).mean() == pytest.approx(math.exp(-0.3), abs=0.01)


def test_bootstrap_rounds_are_fits():
    """Every round solves its own likelihood equations, and the spread is that of the information."""
    rng = np.random.default_rng(4)
    strength = np.linspace(-0.6, 0.6, 12)
    chance = 1.0 / (1.0 + np.exp(strength[None, :] - strength[:, None]))
    upper = np.triu(rng.binomial(80, chance), 1).astype(float)
    wins = upper + np.triu(80.0 - upper, 1).T * (np.tri(12, k=-1) > 0)
    ratings = bradley_terry(wins, np.zeros_like(wins))
    drawn = bootstrap_ratings(wins, np.zeros_like(wins), rounds=400, seed=1)
    assert drawn.shape == (400, 12)
    assert drawn.mean(axis=0) == pytest.approx(ratings.theta, abs=0.03)
    gap = ratings.theta[:, None] - ratings.theta[None, :]
    weight = (wins + wins.T) / (2.0 + 2.0 * np.cosh(gap))
    covariance = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    assert drawn.std(axis=0) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.15)


@pytest.mark.parametrize(("n", "density"), [(12, 1.0), (13, 0.7), (30, 0.15)])
def test_rounds_fitted_side_by_side_reach_the_gradient_of_a_fit_alone(n, density):
    """On full boards, boards with gaps and sparse ones, with rounds that no longer hold together."""
    rng = np.random.default_rng([n, 4])
    met = np.triu(rng.random((n, n)) < density, 1) | np.eye(n, k=1, dtype=bool)
    theta = rng.normal(0.0, 1.0, n)
    chance = 1.0 / (1.0 + np.exp(theta[None, :] - theta[:, None]))
    size = np.where(met, rng.integers(2, 60, (n, n)), 0)
    table = np.where(met, rng.binomial(size, chance), 0).astype(float)
    table += (size - table).T * met.T
    full = bradley_terry(table, np.zeros_like(table)).theta
    counts = table + table.T
    weight = counts * chance * chance.T
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    design = Design.of(counts, full, inverse)
    rounds = rng.poisson(table, (20, n, n)).astype(float)
    found = refit(design, rounds[:, design.first, design.second].T, rounds[:, design.second, design.first].T).T
    for each, strengths in zip(rounds, found, strict=True):
        alone = bradley_terry(each, np.zeros_like(each))
        assert strengths == pytest.approx(alone.theta, abs=1e-6 / ELO_PER_LOGIT, nan_ok=True)
        if not alone.penalised:
            expected = (each + each.T) / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))
            assert np.abs(each.sum(axis=1) - expected.sum(axis=1)).max() <= 1.01e-10 * counts.sum(axis=1).max()


def test_sparse_bootstrap_rounds_are_never_dropped():
    wins = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    drawn = bootstrap_ratings(wins, np.zeros_like(wins), rounds=500)
    assert np.isfinite(drawn).mean() > 0.9
    assert np.nanmax(np.abs(drawn)) < 20.0


def test_outcomes_meet_in_all_pairs_of_repeats():
    comparisons = comparisons_from_outcomes(
        tasks=("t",), items=("i",), policies=("a", "b"), task=[0] * 5, item=[0] * 5, policy=[0, 0, 1, 1, 1],
        repeat=[0, 1, 0, 1, 2], score=[1.0, 0.0, 0.0, 1.0, 0.5], epsilon=0.1,
    )  # fmt: skip
    assert dict(zip(comparisons.share, comparisons.weight, strict=True)) == {
        0.0: 2 / 6,
        0.5: 2 / 6,
        1.0: 2 / 6,
    }
    with pytest.raises(DataError, match="task 't', item 'i', policy 'a', repeat 0 stands twice"):
        comparisons_from_outcomes(
            tasks=("t",), items=("i",), policies=("a",), task=[0, 0], item=[0, 0], policy=[0, 0],
            repeat=[0, 0], score=[1.0, 0.0],
        )  # fmt: skip


def test_online_elo_averages_over_orders_and_ignores_the_given_one():
    rng = np.random.default_rng(6)
    a = rng.integers(0, 3, 300)
    b = (a + rng.integers(1, 3, 300)) % 3
    share = (rng.random(300) < np.where(a < b, 0.7, 0.3)).astype(float)
    rated = online_elo(a, b, share, 3)
    order = rng.permutation(300)
    again = online_elo(a[order], b[order], share[order], 3)
    assert (rated.mean == again.mean).all()
    assert rated.mean[0] > rated.mean[1] > rated.mean[2]
    assert (rated.spread > 5.0).all()
    with pytest.raises(DataError, match="fewer than 100"):
        online_elo(a, b, share, 3, orders=10)


@pytest.mark.parametrize(
    ("per_1k", "marginals", "code"),
    [
        ([5.0], [5.0], "INSUFFICIENT"),
        ([9.0, 5.0, 2.0], [9.0, -1.0, -2.0], "PLATEAU"),
        ([9.0, 5.0, 2.0], [9.0, 1.0, -2.0], "DECAY"),
        ([9.0, 5.0, 4.6], [9.0, 1.0, 4.0], "CONTINUE"),
    ],
)
def test_the_articles_own_rule(per_1k, marginals, code):
    assert legacy_verdict(per_1k, marginals).code == code
