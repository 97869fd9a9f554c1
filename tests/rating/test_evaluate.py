"""What a reader may rely on in a report."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_elo.errors import DataError
from pytest_elo.rating import Comparisons, Settings, Usage, evaluate

TIERS = ("baseline", "r1", "r3", "r5")
SAMPLE = {
    "math_500": [("baseline", "r1"), ("baseline", "r3"), ("r1", "r3"), ("baseline", "r5")],
    "code_repair": [("baseline", "r1"), ("r3", "baseline"), ("r3", "r1"), ("r5", "r3")],
    "web_nav": [("baseline", "r1"), ("baseline", "r3"), ("r1", "r3"), ("r5", "r1")],
}
"""The source article's own sample (winner, loser); no task of it has a maximum-likelihood rating."""


def sample(tasks=SAMPLE):
    rows = [(t, k, w, lost) for t, pairs in enumerate(tasks.values()) for k, (w, lost) in enumerate(pairs)]
    return Comparisons(
        tasks=tuple(tasks),
        items=tuple(f"pair{k}" for k in range(4)),
        policies=TIERS,
        task=np.array([row[0] for row in rows]),
        item=np.array([row[1] for row in rows]),
        a=np.array([TIERS.index(row[2]) for row in rows]),
        b=np.array([TIERS.index(row[3]) for row in rows]),
        share=np.ones(len(rows)),
        weight=np.ones(len(rows)),
    )


def world(seed=0, *, n_tasks=3, n_items=40, n=4, gain=0.5, ties=0.3, judges=0):
    """A generated suite: each policy ``gain / n`` logits above the one before, tokens doubling."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(n, 1)
    shape = (n_tasks, n_items, len(first))
    task, item, pair = (axis.ravel() for axis in np.indices(shape))
    theta = gain * np.arange(n) / n
    chance = 1.0 / (1.0 + np.exp(theta[second[pair]] - theta[first[pair]]))
    share = np.where(rng.random(len(pair)) < ties, 0.5, rng.random(len(pair)) < chance).astype(float)
    names = {
        "tasks": tuple(f"task{t}" for t in range(n_tasks)),
        "items": tuple(f"item{k:03}" for k in range(n_items)),
        "policies": ("baseline", *(f"tier{j}" for j in range(1, n))),
    }
    comparisons = Comparisons(
        **names, task=task, item=item, a=first[pair], b=second[pair], share=share, weight=np.ones(len(pair)),
        judges=tuple(f"judge{j:02}" for j in range(judges)),
        judge=rng.integers(0, judges, len(pair)) if judges else None,
    )  # fmt: skip
    task, item, policy = (axis.ravel() for axis in np.indices((n_tasks, n_items, n)))
    tokens = 100.0 * 2.0**policy * rng.lognormal(0.0, 0.5, len(policy))
    usage = Usage(
        **names, task=task, item=item, policy=policy, tokens=tokens, tokens_high=1.1 * tokens,
        completion_tokens=0.4 * tokens, last_success_tokens=0.5 * tokens, usd=1e-6 * tokens,
        samples=2.0**policy, score=rng.random(len(policy)), repeats=np.ones(len(policy)),
    )  # fmt: skip
    return comparisons, usage


def shuffled(rows, seed):
    """The same rows in another order, under permuted name tuples."""
    rng = np.random.default_rng(seed)
    changes = {}
    kinds = {"tasks": ["task"], "items": ["item"], "policies": ["a", "b", "policy"], "judges": ["judge"]}
    for kind, columns in kinds.items():
        names = getattr(rows, kind, ())
        order = rng.permutation(len(names))
        changes[kind] = tuple(names[i] for i in order)
        for column in columns:
            if getattr(rows, column, None) is not None:
                changes[column] = np.argsort(order)[getattr(rows, column)]
    changes = {key: value for key, value in changes.items() if hasattr(rows, key)}
    rows = dataclasses.replace(rows, **changes)
    columns = [
        field.name
        for field in dataclasses.fields(rows)
        if field.name not in kinds and getattr(rows, field.name) is not None
    ]
    order = rng.permutation(len(getattr(rows, columns[0])))
    return dataclasses.replace(rows, **{column: np.asarray(getattr(rows, column))[order] for column in columns})


def row_of(report, policy):
    return next(row for row in report.policies if row.policy == policy)


def test_the_articles_sample_is_finite_marked_and_inseparable():
    report = evaluate(sample(), None, Settings(anchor="baseline", ladders=(TIERS,)))
    per_task = {
        task.task: [round(cell.delta.value) for cell in task.policies if cell.policy != "baseline"]
        for task in report.tasks
    }
    assert per_task == {
        "math_500": [-180, -360, -191],
        "code_repair": [-180, 180, 371],
        "web_nav": [-180, -360, 11],
    }
    assert {row.policy: round(row.delta.value) for row in report.policies} == {
        "baseline": 0, "r1": -180, "r3": -180, "r5": 64,
    }  # fmt: skip
    for row in report.policies[1:]:
        assert row.penalised
        assert row.delta.interval is None
        assert row.delta.reason == "finite only through the penalty"
    assert row_of(report, "r1").bound.side == "at most"
    assert row_of(report, "r1").bound.value > 0.0
    assert not any(task.strongly_connected for task in report.tasks)
    assert any(line.startswith("nothing is separable") for line in report.warnings)
    assert "Firth" in report.penalty
    assert report.ladders[0].verdict.code == "UNDECIDED"
    flags = {(cell.task, cell.policy): cell.flag for task in report.tasks for cell in task.policies}
    assert flags["code_repair", "r5"] == flags["web_nav", "r5"] == "never lost"
    assert flags["math_500", "r3"] == flags["web_nav", "r3"] == "never won"


def test_the_articles_sample_pooled_and_hierarchical():
    pooled = evaluate(sample(), None, Settings(anchor="baseline", route="pooled"))
    assert [round(row_of(pooled, name).delta.value) for name in TIERS] == [0, -368, -368, -103]
    assert not any(row.penalised for row in pooled.policies)
    layered = evaluate(sample(), None, Settings(anchor="baseline", route="hierarchical"))
    # The reference's prior has no mass on equal tasks: its intervals are a little wider.
    for name, centre, half in (("r1", -304, 449), ("r3", -313, 451), ("r5", -59, 521)):
        delta = row_of(layered, name).delta
        assert delta.value == pytest.approx(centre, abs=10)
        assert (delta.interval.high - delta.interval.low) / 2 == pytest.approx(half, rel=0.05)


@pytest.mark.parametrize("interval", ["cr1", "percentile", "bca"])
@pytest.mark.parametrize("route", ["anchored", "pooled", "hierarchical"])
def test_rows_in_any_order_give_the_same_report(route, interval):
    comparisons, usage = world(judges=5)
    settings = Settings(
        anchor="baseline",
        route=route,
        interval=interval,
        bootstrap_rounds=200,
        ladders=(comparisons.policies,),
    )
    report = evaluate(comparisons, usage, settings)
    for seed in (1, 2):
        assert evaluate(shuffled(comparisons, seed), shuffled(usage, seed), settings) == report


def test_blas_threads_change_no_bit():
    code = (
        "import importlib.util, sys; from pytest_elo.rating import Settings, evaluate\n"
        f"spec = importlib.util.spec_from_file_location('worlds', {__file__!r})\n"
        "worlds = importlib.util.module_from_spec(spec); spec.loader.exec_module(worlds)\n"
        "c, u = worlds.world(n_items=200, n=8)\n"
        "s = Settings(anchor='baseline', interval='percentile', bootstrap_rounds=300)\n"
        "print(repr(evaluate(c, u, s)))"
    )
    root = Path(__file__).parent.parent.parent
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(outputs) == 1


def test_the_anchor_is_zero_and_everything_is_relative_to_it():
    comparisons, usage = world()
    base = evaluate(comparisons, usage, Settings(anchor="baseline"))
    other = evaluate(comparisons, usage, Settings(anchor="tier2"))
    assert base.policies[0].policy == "baseline"
    assert base.policies[0].delta.value == 0.0
    assert base.policies[0].elo_per_1k.value == 0.0
    shift = row_of(base, "tier2").delta.value
    for row in base.policies:
        assert row_of(other, row.policy).delta.value == pytest.approx(row.delta.value - shift, abs=1e-6)


def test_ratios_are_ratios_of_the_printed_means():
    comparisons, usage = world()
    report = evaluate(comparisons, usage, Settings(anchor="baseline", ladders=(comparisons.policies,)))
    base = report.policies[0]
    for row in report.policies[1:]:
        delta = row.delta.value
        assert row.elo_per_1k.value == pytest.approx(1000 * delta / row.tokens_per_item)
        assert row.elo_per_1k_high_tokens == pytest.approx(1000 * delta / row.tokens_per_item_high)
        assert row.elo_per_1k_completion.value == pytest.approx(1000 * delta / row.completion_per_item)
        assert row.elo_per_usd.value == pytest.approx(delta / row.usd_per_item)
        assert row.last_success_ratio == pytest.approx(2.0)
        assert row.elo_per_extra_1k.value == pytest.approx(1000 * delta / (row.tokens_per_item - base.tokens_per_item))
        assert row.elo_per_doubling.value == pytest.approx(
            delta / math.log2(row.tokens_per_item / base.tokens_per_item)
        )
    for step in report.ladders[0].steps:
        assert step.marginal.value == pytest.approx(1000 * step.elo_gap.value / step.token_gap.value)


def test_between_tasks_one_task_carries_the_gain():
    comparisons, usage = world(n=2, ties=0.0, gain=0.0, n_items=60, n_tasks=4)
    # Half of the items each in three tasks; nine in ten for the second policy in the last.
    item = np.asarray(comparisons.item)
    share = np.where(np.asarray(comparisons.task) == 3, item % 10 == 0, item % 2 == 0).astype(float)
    report = evaluate(dataclasses.replace(comparisons, share=share), usage, Settings(anchor="baseline"))
    row = report.policies[1]
    assert row.task_specific
    assert dict(row.leave_one_out)["task3"] == pytest.approx(0.0, abs=1e-9)
    assert row.between_task_sd > row.between_task_sd_net > 100.0
    assert row.signs[0] == 1


def test_a_task_without_the_anchor_is_an_error_and_dropping_it_is_listed():
    tasks = SAMPLE | {"web_nav": [("r1", "r3"), ("r3", "r5"), ("r5", "r1"), ("r1", "r5")]}
    with pytest.raises(DataError, match="'baseline' has no comparison in web_nav"):
        evaluate(sample(tasks), None, Settings(anchor="baseline"))
    report = evaluate(sample(tasks), None, Settings(anchor="baseline", missing_anchor="drop"))
    dropped = next(task for task in report.tasks if task.task == "web_nav")
    assert not dropped.used
    assert any("web_nav is not in the ratings" in line for line in report.warnings)
    layered = evaluate(sample(tasks), None, Settings(anchor="baseline", route="hierarchical"))
    assert all(task.used for task in layered.tasks)


def test_policies_that_never_met_have_no_difference():
    tasks = {"only": [("baseline", "r1"), ("r1", "baseline"), ("r3", "r5"), ("r5", "r3")]}
    report = evaluate(sample(tasks), None, Settings(anchor="baseline"))
    assert report.tasks[0].components == (("baseline", "r1"), ("r3", "r5"))
    assert row_of(report, "r1").delta.value == pytest.approx(0.0, abs=1e-9)
    for name in ("r3", "r5"):
        assert row_of(report, name).delta.value is None
        assert "not connected to the anchor" in row_of(report, name).delta.reason


def test_tie_shares_that_differ_are_called_out_and_davidson_is_named():
    few, usage = world(ties=0.1, n_tasks=2)
    many = np.where((np.asarray(few.task) == 1) & (np.asarray(few.item) % 2 == 0), 0.5, few.share)
    comparisons = dataclasses.replace(few, share=many)
    half = evaluate(comparisons, usage, Settings(anchor="baseline"))
    assert any("ties = davidson" in line for line in half.warnings)
    davidson = evaluate(comparisons, usage, Settings(anchor="baseline", ties="davidson"))
    assert not any("ties = davidson" in line for line in davidson.warnings)
    assert davidson.tasks[1].nu > davidson.tasks[0].nu > 0.0


def test_the_weaker_and_cheaper_is_never_ranked_with_gains():
    """Naive Elo per token once put a weaker, cheaper model first with +3,791 Elo/1k."""
    comparisons, usage = world(n=2, n_tasks=1, gain=-2.0, ties=0.0, n_items=200)
    cheaper = np.where(np.asarray(usage.policy) == 1, 90.0, 100.0 + np.asarray(usage.item) % 7)
    report = evaluate(comparisons, dataclasses.replace(usage, tokens=cheaper), Settings(anchor="baseline"))
    row = report.policies[1]
    assert row.quadrant == "cheaper-but-weaker"
    assert row.elo_per_extra_1k.value is None
    assert row.elo_lost_per_1k_saved.value > 0.0
    assert row.elo_per_1k.value < 0.0


def test_judges_widen_the_interval_when_they_lean():
    comparisons, usage = world(n=2, n_tasks=1, n_items=400, ties=0.0, gain=0.0, judges=12)
    lean = np.asarray(comparisons.judge) % 2 == 0
    rng = np.random.default_rng(3)
    share = (rng.random(len(lean)) < np.where(lean, 0.9, 0.1)).astype(float)
    leaning = dataclasses.replace(comparisons, share=share)
    two_way = evaluate(leaning, usage, Settings(anchor="baseline"))
    item_only = evaluate(dataclasses.replace(leaning, judge=None, judges=()), usage, Settings(anchor="baseline"))
    assert two_way.n_judges == 12
    assert two_way.policies[1].delta.value == item_only.policies[1].delta.value
    assert two_way.policies[1].delta.se > 2.0 * item_only.policies[1].delta.se


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": [1.5]}, r"comparisons.share: row 0 holds 1.5, not a number in \[0, 1\]"),
        ({"weight": [math.nan]}, "comparisons.weight: row 0 holds nan"),
        ({"b": [0]}, "compares 'a' with itself"),
        ({"b": [7]}, "comparisons.b: a code is outside the 2 names given"),
        ({"task": [0, 0]}, "comparisons: columns differ in length"),
    ],
)
def test_rows_that_are_no_comparisons_are_refused(change, message):
    row = {"task": [0], "item": [0], "a": [0], "b": [1], "share": [1.0], "weight": [1.0]} | change
    rows = Comparisons(tasks=("t",), items=("i",), policies=("a", "b"), **row)
    with pytest.raises(DataError, match=message):
        evaluate(rows, None, Settings(anchor="a"))
