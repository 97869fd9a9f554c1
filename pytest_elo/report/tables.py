"""The tables of a report as rows and heads of text, for the terminal, Markdown, LaTeX and the page alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_elo.records import MODEL_STATUSES
from pytest_elo.report.build import Report
from pytest_elo.report.columns import TOKENS_UNKNOWN
from pytest_elo.report.flags import labels
from pytest_elo.report.numbers import MISSING, interval, plain, signed

if TYPE_CHECKING:
    from pytest_elo.rating.results import PolicyReport, PolicyTask, RatingReport, Step

__all__ = ["ordered", "plain_columns", "strategy_columns", "task_columns"]


def strategy_columns(
    rating: RatingReport, tasks: Sequence[str], names: Mapping[str, str]
) -> tuple[list[list[str]], list[str]]:
    """Rows and heads of the strategy table, with a Δ column for each of ``tasks``; ``names`` are labels."""
    steps = {step.upper: step for ladder in rating.ladders for step in ladder.steps}
    verdicts = {ladder.tiers[-1]: ladder.verdict.code for ladder in rating.ladders if ladder.tiers}
    rows = [
        [
            names.get(policy.policy, policy.policy),
            plain(policy.samples_per_item, 1),
            str(policy.n_items),
            MISSING if policy.score is None else f"{policy.score:.3f}",
            _tokens(policy),
            *(_task_delta(rating, task, policy) for task in tasks),
            _delta(policy),
            _ratio(policy),
            _marginal(steps.get(policy.policy)),
            plain(policy.between_task_sd, 1),
            verdicts.get(policy.policy, ""),
        ]
        for policy in ordered(rating)
    ]
    heads = [
        "strategy",
        "sam-\nples",
        "items",
        "score",
        "tokens\n/item",
        *(f"Δ\n{task}" for task in tasks),
        f"ΔElo\n[{rating.level:.0%} interval]",
        "Elo\n/1k",
        "marginal\nElo/1k",
        "SD\ntasks",
        "verdict",
    ]
    return rows, heads


def plain_columns(report: Report) -> tuple[list[list[str]], list[str]]:
    """Rows and heads of scores and tokens alone, when nothing can be rated."""
    names = labels(report)
    scores: dict[str, list[float]] = {}
    tokens: Counter[str] = Counter()
    for outcome in report.outcomes:
        found = scores.setdefault(outcome.strategy, [])
        if outcome.status in MODEL_STATUSES:
            found.append(outcome.score)
    for (_, _, strategy, _), cell in report.totals.cells.items():
        tokens[strategy] += cell.total_tokens
    unknown = {outcome.strategy for outcome in report.outcomes if TOKENS_UNKNOWN in outcome.marks}
    rows = [
        [
            names.get(name, name),
            str(len(found)),
            f"{sum(found) / len(found):.3f}" if found else MISSING,
            MISSING if name in unknown else f"{tokens[name]:,}",
        ]
        for name, found in sorted(scores.items())
    ]
    return rows, ["strategy", "scored", "score", "tokens"]


def task_columns(rating: RatingReport, names: Mapping[str, str]) -> tuple[list[list[str]], list[str]]:
    """One row a task and strategy: an in-task Elo means nothing outside its task, so only differences stand here."""
    rows = [
        [
            task.task,
            names.get(policy.policy, policy.policy),
            str(policy.n_items),
            MISSING if policy.score is None else f"{policy.score:.3f}",
            plain(policy.tokens_per_item, 1),
            f"{signed(policy.delta.value)} {interval(policy.delta.interval)}".strip(),
            signed(policy.elo_per_1k.value, 2),
            f"{task.tie_share:.0%}",
            _flag(policy),
        ]
        for task in rating.tasks
        for policy in task.policies
    ]
    heads = ["task", "strategy", "items", "score", "tokens\n/item", "ΔElo\nin task", "Elo\n/1k", "ties", "mark"]
    return rows, heads


def _flag(policy: PolicyTask) -> str:
    if policy.bound is None:
        return policy.flag or ""
    return f"{policy.flag}: {policy.bound.side} {signed(policy.bound.value)} at {policy.bound.level:.0%}"


def ordered(rating: RatingReport) -> list[PolicyReport]:
    """The policies as tables and plots show them: the anchor, the tiers of ladders in order, the others."""
    order: dict[str, int] = {}
    for ladder in rating.ladders:
        for name in ladder.tiers or ladder.ladder:
            order.setdefault(name, len(order))
    return sorted(rating.policies, key=lambda policy: (not policy.is_anchor, order.get(policy.policy, len(order))))


def _tokens(policy: PolicyReport) -> str:
    low, high = policy.tokens_per_item, policy.tokens_per_item_high
    if low is None or high is None or round(low, 1) == round(high, 1):
        return plain(low, 1)
    return f"{plain(low, 1)}..{plain(high, 1)}"


def _task_delta(rating: RatingReport, task: str, policy: PolicyReport) -> str:
    found = _in_task(rating, task, policy.policy)
    if found is None:
        return MISSING
    mark = "*" if found.penalised else ""
    return signed(found.delta.value) + mark


def _in_task(rating: RatingReport, task: str, policy: str) -> PolicyTask | None:
    for report in rating.tasks:
        if report.task == task:
            return next((row for row in report.policies if row.policy == policy), None)
    return None


def _delta(policy: PolicyReport) -> str:
    if policy.is_anchor:
        return "0 (anchor)"
    mark = "*" if policy.penalised else ""
    if policy.bound is not None:
        return f"{signed(policy.delta.value)}{mark} {policy.bound.side} {signed(policy.bound.value)}"
    return f"{signed(policy.delta.value)}{mark} {interval(policy.delta.interval)}".strip()


def _ratio(policy: PolicyReport) -> str:
    return signed(policy.elo_per_1k.value, 2)


def _marginal(step: Step | None) -> str:
    if step is None:
        return ""
    return signed(step.marginal.value, 2) if step.marginal.value is not None else "unresolved"
