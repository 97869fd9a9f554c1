"""Equal budgets on real logs: tiers as measured, lines between resolved tiers, and nothing beyond."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from pytest_elo.ledger.import_runs import import_runs
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.records import Attempt, Outcome
from pytest_elo.report.budget import budget_lines, budgets_of, equal_budgets
from pytest_elo.report.build import build_from
from tests.report.test_humaneval import CALLS, DATA, OUTCOMES

TASK = "gpt-4-turbo-2024-04-09"
LADDERS = [["baseline", "warming5", "LDB (full)"], ["baseline", "retry5", "retry8"], ["baseline", "escalation"]]


@pytest.fixture(scope="module")
def rating(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("humaneval")
    import_runs(CALLS, OUTCOMES, DATA / "mapping.yaml", run_dir)
    attempts = [row for row in read_attempts(run_dir / "runs.jsonl", warn=pytest.fail) if row.task_id == TASK]
    outcomes = [row for row in read_outcomes(run_dir / "outcomes.jsonl", warn=pytest.fail) if row.task_id == TASK]
    return build_from({"ladders": LADDERS}, attempts, outcomes, (), {}).rating


def test_each_family_at_the_tokens_of_every_tier(rating) -> None:
    view = equal_budgets(rating)
    policies = {policy.policy: policy for policy in rating.policies}
    assert [budget.tier for budget in view.budgets] == [
        *("baseline", "warming5", "retry5", "retry8", "escalation", "LDB (full)")
    ]
    resolved = {(step.lower, step.upper): step.resolved for ladder in rating.ladders for step in ladder.steps}
    kinds = set()
    for budget in view.budgets:
        for ladder in rating.ladders:
            offer = budget.offers[" -> ".join(ladder.tiers)]
            cheapest, dearest = (policies[ladder.tiers[i]].tokens_per_item for i in (0, -1))
            if budget.tier in ladder.tiers:
                kinds.add("tier")
                assert offer.delta == policies[budget.tier].delta.value
            elif not cheapest <= budget.tokens_per_item <= dearest:
                kinds.add("beyond")
                assert offer.delta is None
            elif not resolved[offer.tiers]:
                kinds.add("unresolved")
                assert offer.delta is None
                assert "not resolved" in offer.reason
            else:
                kinds.add("between")
                lower, upper = (policies[name] for name in offer.tiers)
                # a lot drawn for each item, so that the budget is spent in expectation
                share = (budget.tokens_per_item - lower.tokens_per_item) / (
                    upper.tokens_per_item - lower.tokens_per_item
                )
                assert 0 < share < 1
                assert offer.score == pytest.approx((1 - share) * lower.score + share * upper.score)
                assert offer.delta == pytest.approx((1 - share) * lower.delta.value + share * upper.delta.value)
    assert kinds >= {"tier", "between", "beyond"}


def test_the_block_says_what_is_interpolated_and_what_is_not_measured(rating) -> None:
    printed = "\n".join(budget_lines(equal_budgets(rating)))
    assert "~ on the straight line between two resolved tiers" in printed
    assert "Nothing is extrapolated" in printed
    assert max(map(len, printed.splitlines()[1:-2])) <= 100


def test_tiers_are_compared_over_the_tasks_that_all_of_them_ran() -> None:
    """A task that one family skips would make that family look cheaper than the tokens of its items."""
    attempts, outcomes = [], []
    for task, n, tokens, names in (("all", 30, 100, "abc"), ("some", 5, 9000, "ab")):
        for item, name in product(range(n), names):
            place = {"task_id": task, "item_id": f"{task}{item}", "strategy": name, "model": "m"}
            spent = tokens * (1 + "abc".index(name)) + item
            call = {"ts": "", "call_id": f"{task}{item}{name}", "role": "generate", "status": "ok"}
            attempts.append(Attempt(**place, **call, prompt_tokens=spent, total_tokens=spent, total_tokens_high=spent))
            won = (item + "abc".index(name)) % 3 > 0
            outcomes.append(Outcome(**place, status="correct" if won else "wrong", score=float(won), condition="c"))
    header = {"anchor": "a", "ladders": [["a", "b"], ["a", "c"]]}
    whole = build_from(header, attempts, outcomes, (), {})
    part = build_from(header, attempts, [row for row in outcomes if row.task_id == "all"], (), {})
    assert [round(budget.tokens_per_item) for budget in budgets_of(whole).budgets] == [114, 214, 314]
    assert budgets_of(whole) == dataclasses.replace(budgets_of(part), tasks=("all",))
    assert budget_lines(budgets_of(whole))[0].startswith("At equal budgets over all, which all of them ran (what")


def test_one_family_has_nothing_to_be_compared_with(rating) -> None:
    assert equal_budgets(dataclasses.replace(rating, ladders=rating.ladders[:1])) is None
