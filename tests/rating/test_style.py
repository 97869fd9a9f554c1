from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.rating.style import StyleControl, control_style, log_ratio, relative_difference

ELO = 400 / math.log(10)


def fit(a, b, share, covariates=None, items=None, **options) -> StyleControl:
    n = max(*a, *b) + 1
    clusters = {"item": np.arange(len(a)) if items is None else items}
    return control_style(
        policies=[f"s{i}" for i in range(n)],
        a=a,
        b=b,
        share=share,
        covariates=covariates or {},
        clusters=options.pop("clusters", clusters),
        anchor="s0",
        **options,
    )


def test_one_lost_game_is_the_exact_penalised_value() -> None:
    """One loss under Jeffreys' prior: half a win against one and a half, -173.7 ln 3."""
    report = fit([0], [1], [1.0])
    assert report.ratings[1].raw == pytest.approx(-ELO * math.log(3), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 4), rows=st.integers(6, 40), k=st.integers(0, 2))
def test_the_fit_is_the_top_of_the_penalised_likelihood(seed: int, n: int, rows: int, k: int) -> None:
    """The gradient of l + 1/2 log det I, taken numerically on a dense design, vanishes at the answer."""
    draw = np.random.default_rng(seed)
    a = np.concatenate([np.arange(1, n), draw.integers(0, n, rows)])
    b = np.concatenate([np.zeros(n - 1, int), (a[n - 1 :] + draw.integers(1, n, rows)) % n])
    share, weight = draw.choice([0, 0.5, 1], len(a)), draw.uniform(0.5, 2, len(a))
    covariates = {f"z{j}": draw.normal(size=len(a)) for j in range(k)}
    report = fit(a, b, share, covariates, weight=weight)
    assert not report.dropped
    scaled = [covariates[c.name] / c.sd for c in report.coefficients]
    x = np.column_stack([np.eye(n)[a] - np.eye(n)[b], *scaled])[:, 1:]
    at = np.array([r.controlled for r in report.ratings[1:]] + [c.elo_per_sd for c in report.coefficients]) / ELO

    def penalised(parameters):
        p = 1 / (1 + np.exp(-x @ parameters))
        information = x.T @ (x * (weight * p * (1 - p))[:, None])
        likelihood = np.sum(weight * (share * np.log(p) + (1 - share) * np.log(1 - p)))
        return likelihood + 0.5 * np.linalg.slogdet(information)[1]

    for direction in np.eye(len(at)):
        step = 1e-5 * direction
        assert abs(penalised(at + step) - penalised(at - step)) / 2e-5 < 1e-4


def simulated(effect: float, seed: int = 3, items: int = 600):
    """Three policies of Elo 0, 60, 120; s1 writes long. The judge adds ``effect`` logits per log-ratio."""
    draw = np.random.default_rng(seed)
    truth = np.array([0.0, 60.0, 120.0]) / ELO
    a, b = np.array([(0, 1), (0, 2), (1, 2)] * items).T
    item = np.repeat(np.arange(items), 3)
    length = np.exp(draw.normal([5.0, 6.0, 5.0], 0.5, size=(items, 3)))
    z = log_ratio(length[item, a], length[item, b])
    p = 1 / (1 + np.exp(-(truth[a] - truth[b] + effect * z)))
    return a, b, (draw.random(len(p)) < p).astype(float), z, item


def test_control_finds_the_ratings_that_length_distorts() -> None:
    a, b, share, z, item = simulated(effect=0.8)
    report = fit(a, b, share, {"length": z}, items=item)
    long_winded = report.ratings[1]
    assert long_winded.raw - 60 > 60
    for rating, true in zip(report.ratings, (0, 60, 120), strict=True):
        assert abs(rating.controlled - true) <= (rating.controlled_half_width or 0) + 1e-9
    [length] = report.coefficients
    assert abs(length.elo_per_sd - 0.8 * ELO * length.sd) < (length.half_width or 0)


def test_without_an_effect_raw_and_controlled_agree() -> None:
    a, b, share, z, item = simulated(effect=0.0)
    for rating in fit(a, b, share, {"length": z}, items=item).ratings:
        assert abs(rating.raw - rating.controlled) < 20


def test_a_judge_of_length_alone_still_has_finite_ratings() -> None:
    a, b, _, z, item = simulated(effect=0.0, items=60)
    report = fit(a, b, (z > 0).astype(float), {"length": z}, items=item)
    assert report.ratings[1].raw > 200
    assert abs(report.ratings[1].controlled) < abs(report.ratings[1].raw) / 2
    assert all(math.isfinite(rating.controlled) for rating in report.ratings)


def test_swapping_slots_changes_nothing() -> None:
    a, b, share, z, item = simulated(effect=0.8, items=50)
    report, swapped = fit(a, b, share, {"z": z}, item), fit(b, a, 1 - share, {"z": -z}, item)
    for one, other in zip(report.ratings, swapped.ratings, strict=True):
        assert one.controlled == pytest.approx(other.controlled, abs=1e-6)


def test_columns_that_cannot_tell_anything_are_dropped_by_name() -> None:
    a, b, share, z, item = simulated(effect=0.3, items=40)
    per_policy = np.array([1.0, 2.0, 5.0])
    covariates = {
        "bold": np.zeros(len(a)),
        "slot": np.ones(len(a)),
        "length": z,
        "again": 2 * z,
        "habit": per_policy[a] - per_policy[b],
    }
    report = fit(a, b, share, covariates, item)
    assert [c.name for c in report.coefficients] == ["length"]
    assert report.dropped == {
        "bold": "never varies",
        "slot": "never varies",
        "again": "cannot be told from the policies and the other covariates",
        "habit": "cannot be told from the policies and the other covariates",
    }


def test_repeating_every_vote_of_an_item_does_not_narrow_the_interval() -> None:
    a, b, share, z, item = simulated(effect=0.8, items=80)
    once = fit(a, b, share, {"z": z}, item).ratings[2].controlled_half_width
    thrice = fit(*(np.tile(column, 3) for column in (a, b, share)), {"z": np.tile(z, 3)}, np.tile(item, 3))
    assert thrice.ratings[2].controlled_half_width == pytest.approx(once, rel=0.02)


def test_judges_that_lean_together_widen_the_interval_once_there_are_enough_of_them() -> None:
    draw = np.random.default_rng(0)
    judges, items = 12, 60
    lean = draw.normal(0, 1.5, judges)
    judge, item = np.repeat(np.arange(judges), items), np.tile(np.arange(items), judges)
    share = (draw.random(len(judge)) < 1 / (1 + np.exp(-lean[judge]))).astype(float)
    a, b = np.zeros(len(judge), int), np.ones(len(judge), int)
    by_item = fit(a, b, share, clusters={"item": item})
    two_way = fit(a, b, share, clusters={"item": item, "judge": judge})
    assert two_way.clusters == {"item": 60, "judge": 12}
    assert (two_way.ratings[1].raw_half_width or 0) > 3 * (by_item.ratings[1].raw_half_width or 0)
    few = fit(a, b, share, clusters={"item": item, "judge": judge // 3})
    assert few.clusters == {"item": 60}


def test_counts_and_lengths_never_divide_by_zero() -> None:
    assert log_ratio([0, 9], [0, 99]) == pytest.approx([0, -math.log(10)])
    assert relative_difference([0, 3], [0, 1]) == pytest.approx([0, 0.4])


def test_what_cannot_be_rated_is_an_error() -> None:
    with pytest.raises(DataError, match="groups that never met"):
        fit([0, 2], [1, 3], [1, 0])
    with pytest.raises(DataError, match="covariate is not a number"):
        fit([0, 0], [1, 1], [1, 0], {"z": [math.nan, 1.0]})
    with pytest.raises(ConfigError, match="anchor 's9'"):
        control_style(
            policies=["s0", "s1"], a=[0], b=[1], share=[1], covariates={}, clusters={"item": [0]}, anchor="s9"
        )
