from __future__ import annotations

import random
from itertools import combinations

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.arena._information import expected_shares
from pytest_elo.tasks.arena.plans import AdaptivePlan, Pairing, all_pairs, anchor_pairs

POLICIES = ["baseline", "r3", "r5", "reflect"]
ITEMS = [f"p{i}" for i in range(60)]


def test_all_and_anchor_plans_hold_each_pair_once() -> None:
    assert len({frozenset((p.a, p.b)) for p in all_pairs("p1", POLICIES)}) == 6
    assert [(p.a, p.b) for p in anchor_pairs("p1", POLICIES, "baseline")] == [
        ("r3", "baseline"),
        ("r5", "baseline"),
        ("reflect", "baseline"),
    ]


def test_an_anchor_that_does_not_compete_is_an_error() -> None:
    with pytest.raises(ConfigError, match="anchor 'r9' is not among the policies"):
        anchor_pairs("p1", POLICIES, "r9")


def judged_by(elo: dict[str, float], draw: random.Random):
    def share(pairing: Pairing) -> float:
        p = 1 / (1 + 10 ** ((elo[pairing.b] - elo[pairing.a]) / 400))
        return float(draw.random() < p)

    return share


def run(plan: AdaptivePlan, share) -> list[Pairing]:
    order: list[Pairing] = []
    while batch := plan.next_batch():
        order += batch
        plan.record((pairing, share(pairing)) for pairing in batch)
    return order


def test_the_budget_holds_no_item_repeats_for_a_pair_and_the_saving_is_said() -> None:
    plan = AdaptivePlan(POLICIES, ITEMS, budget=50)
    order = run(plan, lambda pairing: 0.5)
    assert len(order) == len(set(order)) == plan.judged == 50
    assert plan.saving == ("adaptive plan: judged 50 of 360 pairs, saved 310 pairs = 620 verdicts a judge (86%)")
    exhausted = AdaptivePlan(POLICIES, ITEMS[:2], budget=999)
    assert len(run(exhausted, lambda pairing: 1.0)) == exhausted.possible == 12


def test_the_plan_depends_on_results_only() -> None:
    elo = dict(zip(POLICIES, [1000, 1100, 1150, 900], strict=True))
    share = {p: judged_by(elo, random.Random(1))(p) for i in ITEMS for p in all_pairs(i, POLICIES)}
    first = run(AdaptivePlan(POLICIES, ITEMS, budget=40), lambda p: share[p])
    shuffled = run(AdaptivePlan(POLICIES[::-1], ITEMS[::-1], budget=40), lambda p: share[p])
    assert first == shuffled
    resumed = AdaptivePlan(POLICIES, ITEMS, budget=40)
    resumed.record((p, share[p]) for p in reversed(first[:16]))
    assert run(resumed, lambda p: share[p]) == first[16:]


def test_results_that_teach_nothing_use_up_budget() -> None:
    plan = AdaptivePlan(POLICIES, ITEMS, budget=16)
    assert len(run(plan, lambda pairing: None)) == 16


def misordered(plan: AdaptivePlan, truth: list[float]) -> int:
    """Pairs of policies that the recorded results rank the wrong way (truth rises with the index)."""
    p = expected_shares(*plan._tables(), 400.0)
    return sum(p[i, j] > 0.5 for i, j in combinations(range(len(truth)), 2))


def test_for_one_budget_adaptive_pairs_find_the_order_better_than_random_ones() -> None:
    policies = [f"s{i}" for i in range(8)]
    truth = [100.0 * i for i in range(8)]
    elo = dict(zip(policies, truth, strict=True))
    candidates = [Pairing(i, a, b) for i in ITEMS for a, b in combinations(policies, 2)]
    wrong = {"adaptive": 0, "random": 0}
    for seed in range(20):
        draw = random.Random(seed)
        share = judged_by(elo, draw)
        adaptive = AdaptivePlan(policies, ITEMS, budget=160)
        run(adaptive, share)
        scattered = AdaptivePlan(policies, ITEMS, budget=160)
        scattered.record((p, share(p)) for p in draw.sample(candidates, 160))
        wrong["adaptive"] += misordered(adaptive, truth)
        wrong["random"] += misordered(scattered, truth)
    assert wrong["adaptive"] < 0.6 * wrong["random"]
