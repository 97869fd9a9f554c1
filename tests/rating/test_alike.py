"""Items that all say the same are no certainty: what n of them may have missed is the interval."""

from __future__ import annotations

import itertools
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
        score=scores.mean(axis=2)[item, policy],
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


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_a_bootstrap_has_only_what_was_seen_to_draw_from(interval):
    scores = tied(20)
    scores[0] = (0, 1)
    measure = delta(rated(scores, interval=interval))
    assert measure.interval.method == interval
    assert measure.value == pytest.approx(400 * math.log10(0.525 / 0.475))
    assert delta(rated(tied(20), interval=interval)).interval.method == "unseen"


def differing(n, more, fewer=0):
    scores = tied(n)
    scores[:more], scores[more : more + fewer] = (0, 1), (1, 0)
    return scores


def half(measure):
    return 0.5 * (measure.interval.high - measure.interval.low)


def test_nobody_is_surer_for_a_few_items_that_differ_than_for_none():
    measures = [delta(rated(differing(100, k))) for k in range(8)]
    reaches = [half(measure) for measure in measures]
    assert all(later > 0.999 * sooner for sooner, later in itertools.pairwise(reaches))
    assert [measure.interval.method for measure in measures] == ["unseen"] * 4 + ["cr1"] * 4
    assert measures[0].se is None
    assert "few items of a task differ" in measures[2].reason
    assert measures[2].se == pytest.approx(half(measures[2]) / 1.984, rel=1e-3)
    # score residuals: 1 - p for four items, 0.5 - p for the others, over an information of n p (1 - p)
    p = 0.52
    se = math.sqrt((4 * (1 - p) ** 2 + 96 * (0.5 - p) ** 2) * 100 / 99) / (100 * p * (1 - p))
    assert measures[4].se == pytest.approx(se * PER_LOGIT)


def test_points_of_score_are_no_surer_than_elo():
    points = [rated(differing(100, k)).policies[1].score_points for k in range(6)]
    assert [measure.value for measure in points] == pytest.approx(list(range(6)))
    assert half(points[0]) == pytest.approx(100 * share_unseen(100, 0.025))
    assert all(later > 0.999 * sooner for sooner, later in itertools.pairwise(map(half, points)))
    assert [measure.interval.method for measure in points] == ["unseen"] * 4 + ["student"] * 2
    assert points[0].se is None


@pytest.mark.parametrize(("n", "more", "fewer"), [(100, 0.03, 0.0), (100, 0.01, 0.01), (500, 0.01, 0.0)])
def test_intervals_hold_the_truth_where_few_items_ever_differ(n, more, fewer):
    """Over every table that could be drawn, each rated once and weighted by its probability."""
    p = 0.5 + 0.5 * (more - fewer)
    truth = PER_LOGIT * math.log(p / (1 - p))
    held = told = 0.0
    for wins in range(16):
        for losses in range(7 if fewer else 1):
            ways = math.comb(n, wins) * math.comb(n - wins, losses)
            chance = ways * more**wins * fewer**losses * (1 - more - fewer) ** (n - wins - losses)
            if chance < 1e-4:
                continue
            interval = delta(rated(differing(n, wins, losses))).interval
            told += chance
            held += chance * (interval.low <= truth <= interval.high)
    assert told > 0.99
    assert held / told > 0.95


@pytest.mark.parametrize("route", ["anchored", "pooled", "hierarchical"])
def test_no_route_is_surer_of_several_tasks_than_all_their_items_allow(route):
    report = rated(tied(10), tasks=4, route=route)
    least = share_unseen(40, 0.025)
    for _, measure in report.policies[1].by_route:
        assert measure.interval.high >= PER_LOGIT * math.log((1 + least) / (1 - least))
    assert report.ladders[0].verdict.code == "UNDECIDED"


def test_tiers_that_tie_with_each_other_and_not_with_the_anchor():
    scores = tied(20, 3)
    scores[:5] = (0, 1, 1)
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


def test_a_tied_task_makes_nobody_surer_of_the_mean_over_tasks():
    scores = tied(24)
    names = {"tasks": ("alike", "mixed"), "items": tuple(f"i{i}" for i in range(24)), "policies": ("baseline", "r3")}
    task, item, policy = (axis.ravel() for axis in np.indices((2, 24, 2)))
    score = np.where((task == 1) & (item < 6), policy, scores[item, policy]).astype(float)
    rows = comparisons_from_outcomes(
        **names, task=task, item=item, policy=policy, repeat=np.zeros_like(item), score=score
    )
    report = evaluate(rows, None, Settings(anchor="baseline"))
    alike, mixed = (half(table.policies[1].delta) for table in report.tasks)
    assert half(delta(report)) == pytest.approx(0.5 * math.hypot(alike, mixed), rel=0.01)
    assert delta(report).interval.method == "unseen"
    assert [line for line in report.warnings if "few items" in line] == [f"r3: {delta(report).reason}"]
