"""Items that all say the same are no certainty: what n of them may have missed is the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_elo.rating import Settings, Usage, comparisons_from_outcomes, evaluate
from pytest_elo.rating.quantiles import share_unseen

PER_LOGIT = 400.0 / math.log(10.0)


def rated(scores, tokens=(100.0, 1100.0), *, tasks=1, **settings):
    """``scores``: (items, policies) or (items, policies, repeats), the same in each task."""
    scores = np.atleast_3d(np.asarray(scores, dtype=float))
    n, m, repeats = scores.shape
    names = {
        "tasks": tuple(f"task{t}" for t in range(tasks)),
        "items": tuple(f"item{i:05}" for i in range(n)),
        "policies": ("baseline", "r3", "r5")[:m],
    }
    task, item, policy, repeat = (axis.ravel() for axis in np.indices((tasks, n, m, repeats)))
    rows = comparisons_from_outcomes(
        **names, task=task, item=item, policy=policy, repeat=repeat, score=scores[item, policy, repeat]
    )
    task, item, policy = (axis.ravel() for axis in np.indices((tasks, n, m)))
    spent = np.asarray(tokens)[policy] * np.where(item % 2, 1.1, 0.9)
    usage = Usage(
        **names, task=task, item=item, policy=policy, tokens=spent,
        tokens_high=spent, completion_tokens=spent, last_success_tokens=spent,
    )  # fmt: skip
    return evaluate(rows, usage, Settings(anchor="baseline", ladders=(names["policies"],), **settings))


def tied(n, m=2):
    """Passed by all policies or by none."""
    return np.tile(np.arange(n)[:, None] % 2, (1, m))


def delta(report, policy="r3"):
    return next(row for row in report.policies if row.policy == policy).delta


def test_four_items_that_tie_throughout_decide_nothing():
    report = rated(tied(4))
    share = 1 - 0.025 ** (1 / 4)
    reach = 400 * math.log10((1 + share) / (1 - share))
    assert reach == pytest.approx(242.1, abs=0.05)
    measure = delta(report)
    assert (measure.value, measure.se) == (0.0, None)
    assert (measure.interval.low, measure.interval.high) == (pytest.approx(-reach), pytest.approx(reach))
    assert measure.interval.method == report.tasks[0].policies[1].delta.interval.method == "unseen"
    assert report.policies[1].power.text == "4 items that all say the same resolve ±242 Elo"
    (ladder,) = report.ladders
    assert ladder.verdict.code == "UNDECIDED"
    assert "(all 4 items say the same)" in ladder.verdict.reason
    low, high = ladder.steps[0].marginal_verdict.low, ladder.steps[0].marginal_verdict.high
    assert low < -150 < 150 < high


def test_about_as_many_items_as_the_verdict_asks_for_decide_it():
    needed = rated(tied(40)).ladders[0].verdict.items_needed
    assert rated(tied(needed // 2)).ladders[0].verdict.code == "UNDECIDED"
    decided = rated(tied(int(1.1 * needed))).ladders[0]
    assert decided.verdict.code == "PLATEAU"
    assert decided.steps[0].marginal_verdict.high == pytest.approx(5.0, rel=0.15)


@pytest.mark.parametrize("n", [2, 5, 20, 300])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_a_difference_outside_the_interval_would_rarely_leave_no_trace(n, level):
    """If a share p of items goes to one side, n tie throughout with probability (1 - p)^n at most."""
    end = delta(rated(tied(n), level=level)).interval.high / PER_LOGIT
    share = math.tanh(end / 2)  # of items that would have to differ for a true difference at the interval's end
    assert (1 - share) ** n == pytest.approx((1 - level) / 2)
    assert share == pytest.approx(share_unseen(n, (1 - level) / 2))


@pytest.mark.parametrize("interval", ["cr1", "percentile", "bca"])
def test_one_item_that_differs_and_the_sandwich_tells(interval):
    scores = tied(20)
    scores[0] = (0, 1)
    measure = delta(rated(scores, interval=interval))
    assert measure.interval.method == interval
    assert measure.value == pytest.approx(400 * math.log10(0.525 / 0.475))
    alike = delta(rated(tied(20), interval=interval))
    assert alike.interval.method == "unseen"
    if interval == "cr1":
        # score residuals: 0.475 once and -0.025 nineteen times, over an information of 20 p (1 - p)
        se = math.sqrt((0.475**2 + 19 * 0.025**2) * 20 / 19) / (20 * 0.525 * 0.475)
        assert measure.se == pytest.approx(se * PER_LOGIT)


@pytest.mark.parametrize("route", ["anchored", "pooled", "hierarchical"])
def test_no_route_is_surer_of_several_tasks_than_all_their_items_allow(route):
    report = rated(tied(10), tasks=4, route=route)
    least = share_unseen(40, 0.025)
    for _, measure in report.policies[1].by_route:
        assert measure.interval.high >= PER_LOGIT * math.log((1 + least) / (1 - least))
    assert report.ladders[0].verdict.code == "UNDECIDED"


def test_tiers_that_tie_with_each_other_and_not_with_the_anchor():
    scores = tied(20, 3)
    scores[:3] = (0, 1, 1)
    report = rated(scores, (100.0, 1100.0, 2100.0))
    assert delta(report, "r5").interval.method == "cr1"
    first, second = report.ladders[0].steps
    assert first.elo_gap.interval.method == "cr1"
    assert (second.elo_gap.value, second.elo_gap.interval.method) == (0.0, "unseen")
    assert report.ladders[0].verdict.code == "UNDECIDED"


def test_a_gain_that_every_item_shows_alike_is_no_certainty_either():
    report = rated(np.tile([[[0, 1], [1, 1]]], (6, 1, 1)))
    measure = delta(report)
    assert measure.value == pytest.approx(400 * math.log10(3))
    assert measure.interval.low < 0 < measure.interval.high
    assert report.ladders[0].verdict.code == "UNDECIDED"
    assert {(row.rank.best, row.rank.worst) for row in report.policies} == {(1, 2)}


def test_a_tied_task_in_a_mean_over_tasks_is_called_out():
    scores = tied(24)
    names = {"tasks": ("alike", "mixed"), "items": tuple(f"i{i}" for i in range(24)), "policies": ("baseline", "r3")}
    task, item, policy = (axis.ravel() for axis in np.indices((2, 24, 2)))
    score = np.where((task == 1) & (item < 3), policy, scores[item, policy]).astype(float)
    rows = comparisons_from_outcomes(
        **names, task=task, item=item, policy=policy, repeat=np.zeros_like(item), score=score
    )
    report = evaluate(rows, None, Settings(anchor="baseline"))
    assert delta(report).interval.method == "cr1"
    (line,) = (line for line in report.warnings if line.startswith("task alike: every item says the same"))
    assert "of r3 against baseline, which adds nothing to the interval of the mean" in line
    assert "leave ±50 Elo" in line
