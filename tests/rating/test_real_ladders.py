"""Elo per token of real test-time strategies, against figures computed by another program."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from pytest_elo.rating import Comparisons, Settings, Usage, comparisons_from_outcomes, evaluate

HUMANEVAL = {
    "gpt-4-turbo-2024-04-09": {
        "baseline": ("simple", "gpt-4-turbo-2024-04-09"),
        "retry5 T0.5": ("simple_repeat", "gpt-4-turbo-0409-5repeats-0.5temp"),
        "warming5": ("simple_incr_temp", "gpt-4-turbo-0409-5step"),
        "retry5": ("simple_repeat", "gpt-4-turbo-0409-5repeats-no-temp-incr"),
        "retry8": ("simple_repeat", "gpt-4-turbo-0409-8repeats-no-temp-incr"),
        "escalation": ("simple_boosting", "l3_8b-gpt35-l3_70b-gpt4-0409"),
        "LDB (full)": ("ldb", "gpt-4-turbo-2024-04-09+gpt-4-turbo-2024-04-09"),
    },
    "gpt-4-0613": {
        "baseline": ("simple", "gpt-4-0613"),
        "warming5": ("simple_incr_temp", "gpt-4-0613-5step"),
        "retry5": ("simple_repeat", "gpt-4-0613-5repeats-no-temp-incr"),
        "escalation": ("simple_boosting", "l3_8b-gpt-3.5-turbo-0613-l3_70b-gpt4-0613"),
        "LDB (full)": ("ldb", "gpt-4-0613+gpt-4-0613"),
    },
    "gpt-3.5-turbo-0613": {
        "baseline": ("simple", "gpt-3.5-turbo-0613"),
        "warming5": ("simple_incr_temp", "gpt-3.5-turbo-0613-5step"),
        "retry5": ("simple_repeat", "gpt-3.5-turbo-0613-5repeats-no-temp-incr"),
        "LDB (full)": ("ldb", "gpt-3.5-turbo-0613+gpt-3.5-turbo-0613"),
    },
}
"""The debugger's logs leave out the call that wrote its seed program: the baseline's tokens are added."""


def humaneval(rows, family):
    policies = tuple(HUMANEVAL[family])
    items = tuple(sorted({row["task_id"] for row in rows}))
    code = {item: i for i, item in enumerate(items)}
    outcomes, tokens = [], defaultdict(list)
    for j, source in enumerate(HUMANEVAL[family].values()):
        for row in rows:
            if (row["strategy"], row["model"]) != source:
                continue
            i = code[row["task_id"]]
            outcomes.append((i, j, int(row["run"].removeprefix("run")), float(row["solved"])))
            tokens[i, j].append(float(row["prompt_tokens"]) + float(row["completion_tokens"]))
    item, policy, repeat, score = (np.array(column) for column in zip(*outcomes, strict=True))
    comparisons = comparisons_from_outcomes(
        tasks=("humaneval",), items=items, policies=policies, task=np.zeros_like(item), item=item,
        policy=policy, repeat=repeat, score=score,
    )  # fmt: skip
    seeded = policies.index("LDB (full)"), policies.index("baseline")
    cells = [
        (i, j, np.mean(spent) + (np.mean(tokens[i, seeded[1]]) if j == seeded[0] else 0.0))
        for (i, j), spent in tokens.items()
    ]
    item, policy, mean = (np.array(column) for column in zip(*cells, strict=True))
    usage = Usage(
        tasks=("humaneval",), items=items, policies=policies, task=np.zeros_like(item), item=item,
        policy=policy, tokens=mean,
    )  # fmt: skip
    return comparisons, usage


def near(interval, low, high):
    """Ends within a tenth of the width (both programs draw their own bootstrap rounds)."""
    slack = 0.1 * (high - low)
    return abs(interval.low - low) <= slack and abs(interval.high - high) <= slack


@pytest.mark.parametrize("family", HUMANEVAL)
def test_humaneval_agents(table, family):
    expected = {row["strategy"]: row for row in table("elo_humaneval.csv") if row["family"] == family}
    comparisons, usage = humaneval(table("humaneval_by_task.csv.gz"), family)
    settings = Settings(anchor="baseline", interval="percentile", bootstrap_rounds=4000)
    report = evaluate(comparisons, usage, settings)
    assert {row.policy for row in report.policies} == set(HUMANEVAL[family])
    for row in report.policies:
        want = {key: float(value) for key, value in expected[row.policy].items() if key not in ("family", "strategy")}
        assert row.delta.value == pytest.approx(want["dElo_half"], abs=0.1)
        assert row.tokens_per_item == pytest.approx(want["tokens_per_task"], abs=0.1)
        assert row.elo_per_1k.value == pytest.approx(want["elo_per_1k"], abs=0.1)
        if not row.is_anchor:
            assert near(row.delta.interval, want["dElo_half_lo"], want["dElo_half_hi"])
            assert near(row.elo_per_1k.interval, want["e1k_lo"], want["e1k_hi"])


def test_a_step_between_tiers_ten_tokens_apart_has_no_marginal(table):
    comparisons, usage = humaneval(table("humaneval_by_task.csv.gz"), "gpt-4-turbo-2024-04-09")
    ladder = ("baseline", "retry5", "retry5 T0.5", "warming5", "retry8")
    report = evaluate(comparisons, usage, Settings(anchor="baseline", ladders=(ladder,)))
    (rungs,) = report.ladders
    assert rungs.tiers == ("baseline", "retry5 T0.5", "warming5", "retry5", "retry8")
    by_tiers = {(step.lower, step.upper): step for step in rungs.steps}
    near_step = by_tiers["retry5 T0.5", "warming5"]
    assert near_step.marginal.value is None
    assert near_step.marginal.reason.startswith("not resolved: the tiers are 10 tokens apart")
    plateau = by_tiers["retry5", "retry8"]
    assert plateau.resolved
    assert plateau.marginal.value == pytest.approx(0.0, abs=1e-6)
    assert plateau.marginal.interval.low < -40.0 < 40.0 < plateau.marginal.interval.high


def test_game_of_24(table):
    rows = table("tot_game24_by_task.csv")
    column = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}

    def best_of(correct, n):
        """Chance that n of 100 samples hold a correct one."""
        return np.array([1.0 - math.comb(100 - int(c), n) / math.comb(100, n) for c in correct])

    def spent(kind, n):
        """The prompt is billed once per request of 20 samples."""
        return column[f"{kind}_completion"] * n / 100 + column[f"{kind}_prompt"] * math.ceil(n / 20) / 5

    io, cot = column["io_correct_of_100"], column["cot_correct_of_100"]
    tree = column["tot_completion"] + column["tot_prompt"]
    policies = {
        "IO@1 (baseline)": (best_of(io, 1), spent("io", 1)),
        "IO best-of-10": (best_of(io, 10), spent("io", 10)),
        "CoT best-of-1": (best_of(cot, 1), spent("cot", 1)),
        "CoT best-of-10": (best_of(cot, 10), spent("cot", 10)),
        "IO best-of-100": (best_of(io, 100), spent("io", 100)),
        "CoT best-of-100": (best_of(cot, 100), spent("cot", 100)),
        "ToT b=5 first": (column["tot_first"], tree),
        "ToT b=5 any-of-5": (column["tot_any5"], tree),
    }
    expected = {row["strategy"]: row for row in table("elo_game24.csv")}
    base = "IO@1 (baseline)"
    for name in policies.keys() - {base}:
        # The reference rates each strategy against the baseline alone.
        comparisons, usage = from_chances({base: policies[base], name: policies[name]})
        settings = Settings(anchor=base, interval="percentile", bootstrap_rounds=4000)
        row = evaluate(comparisons, usage, settings).policies[1]
        want = {key: float(value) for key, value in expected[name].items() if key != "strategy"}
        assert row.delta.value == pytest.approx(want["dElo"], abs=0.1)
        assert row.tokens_per_item == pytest.approx(want["tokens_per_task"], abs=0.1)
        assert row.elo_per_1k.value == pytest.approx(want["elo_per_1k"], abs=0.01)
        # The reference has two columns of each name; the reader keeps the later ones, of Elo per 1k.
        assert near(row.elo_per_1k.interval, want["lo"], want["hi"])


def test_voting_that_rises_and_falls_stays_so():
    """Majority of K votes, one half of the items at p = 0.9 and one half at 0.4: more votes end up worse."""

    def majority(p, k):
        return sum(math.comb(k, i) * p**i * (1 - p) ** (k - i) for i in range(k // 2 + 1, k + 1))

    p = np.r_[np.full(50, 0.9), np.full(50, 0.4)]
    policies = {
        f"vote{k}": (np.array([majority(x, k) for x in p]), np.full(100, 100.0 * k)) for k in (1, 3, 5, 7, 9, 31)
    }
    comparisons, usage = from_chances(policies)
    settings = Settings(anchor="vote1", ladders=(tuple(policies),))
    report = evaluate(comparisons, usage, settings)
    delta = {row.policy: round(row.delta.value, 1) for row in report.policies}
    assert delta == {"vote1": 0.0, "vote3": 4.2, "vote5": 1.5, "vote7": -2.2, "vote9": -6.0, "vote31": -29.9}
    assert report.ladders[0].tiers == tuple(policies)
    assert [step.elo_gap.value > 0 for step in report.ladders[0].steps] == [True, False, False, False, False]


def from_chances(policies):
    """Comparisons of infinitely many repeats: win, loss and tie weights from chances to succeed per item."""
    names = tuple(policies)
    n_items = len(policies[names[0]][0])
    rows = []
    for i, first in enumerate(names):
        for j in range(i + 1, len(names)):
            p, q = policies[first][0], policies[names[j]][0]
            for share, weight in ((1.0, p * (1 - q)), (0.0, q * (1 - p)), (0.5, p * q + (1 - p) * (1 - q))):
                rows.extend((k, i, j, share, weight[k]) for k in range(n_items))
    item, a, b, share, weight = (np.array(column) for column in zip(*rows, strict=True))
    items = tuple(f"item{k:03}" for k in range(n_items))
    common = {"tasks": ("game",), "items": items, "policies": names}
    comparisons = Comparisons(**common, task=np.zeros_like(item), item=item, a=a, b=b, share=share, weight=weight)
    usage = Usage(
        **common,
        task=np.zeros(n_items * len(names), dtype=int),
        item=np.tile(np.arange(n_items), len(names)),
        policy=np.repeat(np.arange(len(names)), n_items),
        tokens=np.concatenate([policies[name][1] for name in names]),
    )
    return comparisons, usage
