"""Answers to gates: on points, on intervals, against stored runs; and when a gate may not decide."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.gates.judge import Judging, judge
from pytest_elo.gates.language import parse
from pytest_elo.gates.results import GateResult, exit_code
from pytest_elo.report.compare import compare, render
from tests.gates.runs import run_of

HALF = [1.0, 0.0] * 10
MOST = [1.0] * 16 + [0.0] * 4
RUN = {("sums", "baseline"): HALF, ("sums", "r3"): MOST}


def answers(*gates: str, run=None, how: Judging | None = None) -> list[GateResult]:
    judged = run or run_of(RUN)
    return list(judge([parse(gate, "test") for gate in gates], judged, how or Judging()))


def against(scores, stored, gate, **options) -> GateResult:
    """Judge ``gate`` on one strategy's scores against other scores of the same items."""
    run, main = run_of({("sums", "r3"): scores}, **options), run_of({("sums", "r3"): stored})
    snapshot = replace(main.snapshot, name="main")
    (result,) = answers(gate, run=run, how=Judging(baseline=lambda _: snapshot))
    return result


@pytest.mark.parametrize(
    ("gate", "answer", "found"),
    [
        ("r3 score >= 0.8", "pass", "0.800 over 20 items"),
        ("r3 score > 80%", "fail", "0.800 over 20 items"),
        ("sums/r3 score >= 0.7 at 95%", "inconclusive", "0.800 [0.584, 0.919] at 95% over 20 items"),
        ("sums/r3 score >= 0.5 at 95%", "pass", "[0.584, 0.919]"),
        ("sums/r3 score >= 0.95 at 95%", "fail", "[0.584, 0.919]"),
        ("r3 tokens_per_item <= 100", "pass", "100.0 over 20 items"),
        ("r3 tokens_per_item < 100", "fail", "100.0 over 20 items"),
        ("infra_errors <= 2%", "pass", "0.000 over 20 items"),
        ("baseline delta_elo >= 0", "pass", "+0.00"),
        ("r3 delta_elo > 0", "pass", "+107"),
        ("r3 delta_elo < 0", "fail", "+107"),
        ("verdict(r3) != HARMFUL", "pass", ""),
    ],
)
def test_thresholds_act_on_the_point_or_the_interval(gate, answer, found):
    (result,) = answers(gate)
    assert result.answer == answer, result.found
    assert found in result.found


PRICES = {"prices": {"date": "2026-11-01", "models": {"m": {"prompt": 1.0, "completion": 4.0, "cached": None}}}}


def test_gates_on_usd_stand_on_the_dated_prices():
    run = run_of(RUN, header=PRICES)
    cheap, dear, per_usd = answers("r3 usd_per_item <= 0.0004", "usd_per_item < 0.0004", "r3 elo_per_usd > 0", run=run)
    assert (cheap.answer, dear.answer, per_usd.answer) == ("pass", "fail", "pass")
    assert cheap.found == "0.000400 USD over 20 items"
    (unknown,) = answers("r3 usd_per_item <= 1")
    assert unknown.answer == "inconclusive"
    assert "has no price" in unknown.found


def test_a_comparison_shows_usd_where_both_runs_know_every_price():
    before, after = (run_of(RUN, header=PRICES, tokens=tokens).snapshot for tokens in (100, 150))
    (found, _) = compare(before, after, (), 0.95).changes
    assert (found.usd.before, found.usd.after) == pytest.approx((0.0004, 0.0006))
    assert "0.0004 -> 0.0006" in render(compare(before, after, (), 0.95), "text")
    later = replace(after, facts=replace(after.facts, prices_date="2027-01-01"))
    assert "USD stand on the prices of 2027-01-01 here and of 2026-11-01" in render(
        compare(before, later, (), 0.95), "md"
    )
    without = run_of(RUN).snapshot
    assert "USD" not in render(compare(without, replace(without, name="again"), (), 0.95), "text")


def test_interval_gates_use_the_interval_at_their_own_level():
    run = run_of(RUN)
    wide, narrow = answers("r3 delta_elo > 0 at 99%", "r3 delta_elo > 0 at 60%", run=run)
    assert wide.numbers["low"] < narrow.numbers["low"] < run.rate(None).policies[1].delta.value
    assert wide.numbers["level"] == 0.99


def test_shares_of_outcomes_count_what_scores_leave_out():
    statuses = {("sums", "r3", 0): "infra_error", ("sums", "r3", 1): "no_answer", ("sums", "r3", 2): "truncated"}
    run = run_of({("sums", "baseline"): HALF, ("sums", "r3"): [0.0] * 3 + [1.0] * 17}, statuses=statuses)
    for gate, value in (("r3 infra_errors <= 5%", 1 / 20), ("r3 no_answer <= 10%", 2 / 20), ("r3 score > 0", 17 / 19)):
        (result,) = answers(gate, run=run)
        assert result.answer == "pass"
        assert result.numbers["value"] == pytest.approx(value)


def test_a_rating_that_only_a_penalty_keeps_finite_is_judged_by_its_bound():
    run = run_of({("sums", "baseline"): [0.0] * 20, ("sums", "r3"): [1.0] * 20})
    high, low = answers("r3 delta_elo > 0", "r3 delta_elo > 5000", run=run)
    assert high.answer == "pass"
    assert low.answer == "inconclusive"
    assert "no finite rating exists" in low.found


def test_a_name_that_stands_for_nothing_is_an_error_unless_the_run_was_narrowed():
    with pytest.raises(ConfigError, match="did you mean 'sums'"):
        answers("sms/r3 score > 0")
    (skipped,) = answers("gpqa/r3 score > 0", how=Judging(selection="-k sums"))
    assert skipped.answer == "skipped"
    assert "-k sums" in skipped.found
    (declared,) = answers("r5 score > 0")
    assert (declared.answer, declared.found) == ("skipped", "the strategy 'r5' did not run")


def test_oracles_and_judges_of_their_own_work_decide_nothing():
    run = run_of(RUN, marks={"r3": ["oracle"]})
    refused, fine, cost = answers("r3 score > 0", "baseline score > 0", "r3 tokens_per_item < 1e9", run=run)
    assert refused.answer == "refused"
    assert "oracle" in refused.found
    assert (fine.answer, cost.answer) == ("pass", "pass")
    assert exit_code([refused, fine]) == 4
    itself = run_of(RUN, judge="m")
    (refused,) = answers("r3 delta_elo > 0", run=itself)
    assert refused.answer == "refused"
    assert "judges its own answers" in refused.found
    (allowed,) = answers("r3 delta_elo > 0", run=itself, how=Judging(allowed=("self_judging",)))
    assert allowed.answer == "pass"
    assert answers("r3 delta_elo > 0", run=run_of(RUN, judge="other"))[0].answer == "pass"


def test_a_clear_loss_fails_and_names_the_items():
    worse = against([0.0] * 12 + [1.0] * 28, [1.0] * 40, "r3 not_worse_than main by 2 points")
    assert worse.answer == "fail"
    assert worse.worse[:2] == ("sums/i000 (1 -> 0)", "sums/i001 (1 -> 0)")
    assert len(worse.worse) == 12
    assert worse.better == ()
    assert worse.numbers["difference"] == pytest.approx(-30)
    assert exit_code([worse]) == 1


def test_what_the_data_cannot_tell_is_inconclusive_and_says_what_would_decide():
    little = against([0.0] + [1.0] * 19, [1.0] * 20, "r3 not_worse_than main by 2 points")
    assert little.answer == "inconclusive"
    assert "a loss above" in little.found
    assert "items would decide" in little.found
    assert exit_code([little]) == 0
    assert exit_code([replace(little, strict=True)]) == 1


def test_evidence_of_no_loss_passes():
    same = [1.0, 0.0] * 250
    assert against(same, same, "r3 not_worse_than main by 2 points").answer == "pass"
    assert against(same, same, "r3 not_worse_than main by 7 elo").answer == "inconclusive"  # no spread, no test
    rng = random.Random(5)
    near = [1 - score if rng.random() < 0.02 else score for score in same]
    assert against(near, same, "r3 not_worse_than main by 15 elo").answer == "pass"


def test_better_means_evidence_of_better():
    gained = against([1.0] * 40, [0.0] * 12 + [1.0] * 28, "r3 better_than main by 5 points")
    assert gained.answer == "pass"
    assert len(gained.better) == 12
    assert against([1.0] * 40, [0.0] * 12 + [1.0] * 28, "r3 better_than main").answer == "pass"
    assert against([0.0] * 12 + [1.0] * 28, [1.0] * 40, "r3 better_than main").answer == "fail"
    assert against([1.0] * 40, [0.0] + [1.0] * 39, "r3 better_than main").answer == "inconclusive"


def test_repeats_are_averaged_within_items_before_the_test():
    rng = random.Random(3)
    main = [rng.randint(0, 4) / 4 for _ in range(60)]
    loss = [max(0.0, score - 0.25) for score in main]
    result = against(loss, main, "r3 not_worse_than main")
    assert result.answer == "fail"
    assert result.numbers["method"] == "cluster-t"


def test_several_gates_are_one_family():
    main = run_of({("sums", name): [1.0] * 40 for name in ("baseline", "r3")}).snapshot
    # five items lost and none won: p = 1/64 alone, twice that in a family of two
    run = run_of({("sums", "baseline"): [1.0] * 40, ("sums", "r3"): [0.0] * 5 + [1.0] * 35})
    how = Judging(baseline=lambda _: main)
    (alone,) = answers("r3 not_worse_than main", run=run, how=how)
    three = answers(*["r3 not_worse_than main"] * 4, run=run, how=how)
    assert alone.answer == "fail"
    assert alone.numbers["p"] == pytest.approx(1 / 64)
    assert {result.answer for result in three} == {"inconclusive"}
    assert three[0].numbers["p_adjusted"] == pytest.approx(4 / 64)
    assert "Holm over 4 gates" in three[0].found


def test_a_comparison_without_a_strategy_is_made_for_each():
    main = run_of(RUN).snapshot
    results = answers("not_worse_than main", how=Judging(baseline=lambda _: main))
    assert [result.gate for result in results] == ["baseline: not_worse_than main", "r3: not_worse_than main"]


@pytest.mark.parametrize(
    ("options", "allow", "said"),
    [
        ({"header": {"seed": 1}}, "seed", "seed 1 here, 0 in main"),
        ({"header": {"identity": "other"}}, "endpoint", "endpoint other here, host in main"),
        ({"grading": "h"}, "grading", "the answer key or the grading rules of sums/i000"),
    ],
)
def test_runs_of_different_conditions_are_refused_with_the_difference_named(options, allow, said):
    refused = against(HALF, HALF, "r3 not_worse_than main", **options)
    assert refused.answer == "refused"
    assert said in refused.found
    assert f"allow: {allow}" in refused.found
    main = replace(run_of({("sums", "r3"): HALF}).snapshot, name="main")
    how = Judging(baseline=lambda _: main, allowed=(allow,))
    (allowed,) = answers("r3 not_worse_than main", run=run_of({("sums", "r3"): HALF}, **options), how=how)
    assert allowed.answer != "refused"
    assert any(said in remark for remark in allowed.remarks)


def test_changed_prompts_are_what_is_under_test():
    result = against(HALF, HALF, "r3 not_worse_than main", prompt="q")
    assert result.answer == "inconclusive"
    assert "the prompts of 20 of 20 items differ from main's" in result.remarks


@pytest.mark.parametrize("gate", ["r3 not_worse_than main", "r3 not_worse_than main by 2 points"])
def test_nothing_changed_fails_at_most_at_the_nominal_rate(gate):
    """Temperature 0.8: each item has its own chance to be right, drawn anew in every run."""
    rng = random.Random(11)
    chances = [rng.random() ** 0.5 for _ in range(40)]
    runs = [run_of({("sums", "r3"): [float(rng.random() < p) for p in chances]}) for _ in range(300)]
    failed = 0
    for mine, main in zip(runs[::2], runs[1::2], strict=True):
        (result,) = answers(gate, run=mine, how=Judging(baseline=lambda _, main=main: main.snapshot))
        failed += result.answer == "fail"
    # 150 draws at 5 %: more than 14 would come up once in a hundred
    assert failed <= 14
