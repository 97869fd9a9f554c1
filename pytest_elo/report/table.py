"""The terminal table and the lines around it, as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_elo.gates.words import gate_lines
from pytest_elo.records import MODEL_STATUSES
from pytest_elo.report.budget import budget_lines, equal_budgets
from pytest_elo.report.build import Report
from pytest_elo.report.flags import flag_lines, labels
from pytest_elo.report.numbers import MISSING, interval, plain, signed

if TYPE_CHECKING:
    from pytest_elo.rating.results import LadderReport, PolicyReport, PolicyTask, RatingReport, Step

WIDTH = 100
"""Columns that the widest line of a table may take."""

__all__ = ["header_lines", "lines", "strategy_table", "task_table"]


def lines(report: Report) -> list[str]:
    """Everything the terminal shows, in order."""
    out = ["", *header_lines(report), ""]
    if report.rating is not None:
        out += [*strategy_table(report).splitlines(), ""]
        out += [*task_table(report.rating, labels(report)).splitlines(), ""]
        out += list(_footnotes(report.rating))
        budgets = equal_budgets(report.rating)
        if budgets is not None:
            out += ["", *budget_lines(budgets), ""]
    else:
        out += [*plain_table(report).splitlines(), "", f"no rating: {report.unrated}"]
    out += list(flag_lines(report))
    out += list(_counts(report))
    out += [f"warning: {warning}" for warning in (report.rating.warnings if report.rating else ())]
    out += [f"note: {note}" for note in report.notes]
    if report.gates:
        out += ["", *gate_lines(report.gates)]
    return out


def header_lines(report: Report) -> list[str]:
    header = report.header
    out = [f"Elo per token: {header.get('answers', 'a ledger without a header (run.json)')}"]
    model, host = header.get("model"), header.get("host")
    if model:
        out.append(f"model {model}, " + (f"endpoint {host}" if host else "no endpoint (recordings)"))
    conditions = sorted({(outcome.task_id, outcome.condition) for outcome in report.outcomes})
    out.append("condition " + ", ".join(f"{task} {condition or MISSING}" for task, condition in conditions))
    rating = report.rating
    if rating is not None:
        out.append(
            f"ties {rating.ties} ({rating.tie_share:.0%} of comparisons are ties), prior: {rating.penalty}, "
            f"tasks combined: {rating.route}"
        )
        rounds = f", {rating.bootstrap_rounds} bootstrap rounds" if rating.bootstrap_rounds else ""
        out.append(
            f"intervals {rating.interval} {rating.level:.0%} over {rating.n_items} items{rounds}, seed {rating.seed}"
        )
    out.append("denominator: total tokens of every attempt of the items compared, retries and discards included")
    return out


def strategy_table(report: Report, width: int = WIDTH) -> str:
    """One row a strategy, in the order of the ladder where there is one.

    The Δ of each task stands in a column of its own as long as the table fits ``width``; otherwise only in
    ``task_table``.
    """
    rating = report.rating
    assert rating is not None
    names = labels(report)
    full = _strategy_table(rating, [task.task for task in rating.tasks], names)
    if max(map(len, full.splitlines())) <= width:
        return full
    return _strategy_table(rating, [], names)


def _strategy_table(rating: RatingReport, tasks: Sequence[str], names: Mapping[str, str]) -> str:
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
        for policy in _ordered(rating)
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
    return _tabulate(rows, heads)


def plain_table(report: Report) -> str:
    """Scores and tokens alone, when nothing can be rated."""
    names = labels(report)
    scores: dict[str, list[float]] = {}
    tokens: Counter[str] = Counter()
    for outcome in report.outcomes:
        found = scores.setdefault(outcome.strategy, [])
        if outcome.status in MODEL_STATUSES:
            found.append(outcome.score)
    for (_, _, strategy, _), cell in report.totals.cells.items():
        tokens[strategy] += cell.total_tokens
    rows = [
        [
            names.get(name, name),
            str(len(found)),
            f"{sum(found) / len(found):.3f}" if found else MISSING,
            f"{tokens[name]:,}",
        ]
        for name, found in sorted(scores.items())
    ]
    return _tabulate(rows, ["strategy", "scored", "score", "tokens"])


def task_table(rating: RatingReport, names: Mapping[str, str]) -> str:
    """One row a task and strategy: an in-task Elo means nothing outside its task, so only differences stand here."""
    rows = [
        [
            task.task,
            names.get(policy.policy, policy.policy),
            str(policy.n_items),
            MISSING if policy.score is None else f"{policy.score:.3f}",
            plain(policy.tokens_per_item, 1),
            f"{signed(policy.delta.value)} {interval(policy.delta.interval)}".strip(),
            f"{task.tie_share:.0%}",
            _flag(policy),
        ]
        for task in rating.tasks
        for policy in task.policies
    ]
    return _tabulate(rows, ["task", "strategy", "items", "score", "tokens/item", "ΔElo in task", "ties", "mark"])


def _flag(policy: PolicyTask) -> str:
    if policy.bound is None:
        return policy.flag or ""
    return f"{policy.flag}: {policy.bound.side} {signed(policy.bound.value)} at {policy.bound.level:.0%}"


def _ordered(rating: RatingReport) -> list[PolicyReport]:
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


def _footnotes(rating: RatingReport) -> Iterator[str]:
    yield f"{rating.anchor} is the anchor: its ΔElo is 0 by construction, not a measurement."
    if any(policy.penalised for policy in rating.policies) or any(
        row.penalised for task in rating.tasks for row in task.policies
    ):
        yield "* finite only through the penalty: a strategy never lost or never won, so no other rating exists."
    for policy in rating.policies:
        if policy.is_anchor:
            continue
        yield f"{policy.policy}: {'; '.join(_facts(policy))}"
    for ladder in rating.ladders:
        yield from _ladder_lines(ladder)


def _facts(policy: PolicyReport) -> Iterator[str]:
    if policy.delta.value is None:
        yield f"no ΔElo: {policy.delta.reason}"
        return
    points = policy.score_points
    if points.value is not None:
        yield f"score {signed(points.value)} points {interval(points.interval)}".rstrip()
    yield from _efficiency(policy)
    if policy.power is not None:
        yield policy.power.text
    if policy.task_specific:
        yield "task-specific: the gain does not hold across tasks"


def _efficiency(policy: PolicyReport) -> Iterator[str]:
    extra, saved = policy.elo_per_extra_1k, policy.elo_lost_per_1k_saved
    if saved.value is not None:
        yield f"cheaper but weaker: {plain(saved.value, 2)} Elo lost per 1k tokens saved"
    elif extra.value is not None:
        yield f"{policy.quadrant}: {signed(extra.value, 2)} Elo per extra 1k {interval(extra.interval, 2)}".rstrip()
    elif extra.reason:
        yield f"no Elo per extra 1k: {extra.reason}"
    if policy.last_success_ratio is not None and abs(policy.last_success_ratio - 1) > 0.005:
        yield f"counting the last success alone would show {policy.last_success_ratio:.2f} times its Elo/1k"


def _ladder_lines(ladder: LadderReport) -> Iterator[str]:
    name = " -> ".join(ladder.tiers or ladder.ladder)
    yield f"verdict for {name}: {ladder.verdict.code}, {ladder.verdict.text_en} ({ladder.verdict.reason})"
    for step in ladder.steps:
        if step.marginal.value is None:
            yield f"marginal {step.lower} -> {step.upper}: {step.marginal.reason}"
        else:
            yield (
                f"marginal {step.lower} -> {step.upper}: {signed(step.marginal.value, 2)} Elo per extra 1k tokens "
                f"{interval(step.marginal.interval, 2)}"
            ).rstrip()
    yield f"the article's rule would say: {ladder.legacy.text_en} ({ladder.legacy.text_zh})"


def _counts(report: Report) -> Iterator[str]:
    yield _denominators(report)
    yield from _parsers(report)
    yield from _no_answers(report)
    statuses = Counter(outcome.status for outcome in report.outcomes)
    yield "outcomes: " + ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    yield _attempts(report)
    for role, cell in sorted(report.totals.apart.items()):
        yield f"not charged to any strategy: {cell.total_tokens:,} tokens in {cell.attempts} {role} attempts"
    ties = sum("vote_tie" in outcome.marks for outcome in report.outcomes)
    if ties:
        yield f"{ties} votes were tied and went to the answer seen first"


def _denominators(report: Report) -> str:
    scored = len(report.outcomes) - sum(report.dropped.counts.values())
    text = f"{scored} of {len(report.outcomes)} outcomes are scored"
    if not report.dropped:
        return text
    parts = (
        f"{count} {status} in {task}/{strategy}" for (task, strategy, status), count in report.dropped.counts.items()
    )
    correct = sum(outcome.score for outcome in report.outcomes)
    over_scored = f"{correct / scored:.3f}" if scored else MISSING
    return (
        f"{text}; dropped: {', '.join(parts)}. Score over scored outcomes {over_scored}, "
        f"with the dropped ones as wrong {correct / len(report.outcomes):.3f}"
    )


def _parsers(report: Report) -> Iterator[str]:
    """Both accuracies wherever outcomes were graded by two parsers."""
    by_task: dict[str, list[Any]] = {}
    for outcome in report.outcomes:
        if {"strict", "lenient"} <= outcome.scores.keys():
            by_task.setdefault(outcome.task_id, []).append(outcome.scores)
    for task, scores in sorted(by_task.items()):
        strict = sum(score["strict"] for score in scores) / len(scores)
        lenient = sum(score["lenient"] for score in scores) / len(scores)
        differ = sum(score["strict"] != score["lenient"] for score in scores)
        yield f"{task}: accuracy {strict:.3f} with the strict parser, {lenient:.3f} with the lenient; {differ} differ"


def _no_answers(report: Report) -> Iterator[str]:
    groups: dict[tuple[str, str], list[bool]] = {}
    for outcome in report.outcomes:
        groups.setdefault((outcome.task_id, outcome.strategy), []).append(outcome.status in ("no_answer", "truncated"))
    for (task, strategy), missing in sorted(groups.items()):
        if sum(missing) > len(missing) / 2:
            yield (
                f"warning: {sum(missing)} of {len(missing)} replies of {task}/{strategy} hold no answer; "
                "the prompt or the token cap may be at fault, look at failures.jsonl"
            )


def _attempts(report: Report) -> str:
    cells = report.totals.cells.values()
    attempts = sum(cell.attempts for cell in cells)
    failed = sum(cell.failed_attempts for cell in cells)
    tokens = sum(cell.total_tokens for cell in cells)
    discarded = sum(cell.discarded_tokens for cell in cells)
    estimated = sum(cell.estimated_tokens for cell in cells)
    text = f"ledger: {attempts} attempts ({failed} failed), {tokens:,} tokens, {discarded:,} of them discarded"
    if estimated:
        text += f", {estimated:,} estimated"
    if report.totals.unanswered:
        text += f"; {report.totals.unanswered} attempts never answered, their cost is an interval"
    return text


def _tabulate(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    from tabulate import tabulate

    align = ["left", *("right" for _ in heads[1:-1]), "left"]
    return tabulate(rows, heads, tablefmt="simple", disable_numparse=True, colalign=align)
