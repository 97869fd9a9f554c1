"""The terminal table and the lines around it, as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_elo._text import printable
from pytest_elo.gates.words import gate_lines
from pytest_elo.records import UNSCORED, is_scored
from pytest_elo.report.arena_text import arena_lines
from pytest_elo.report.budget import budget_lines, budgets_of
from pytest_elo.report.build import Report
from pytest_elo.report.details import detail_columns, detail_lines
from pytest_elo.report.fitting import WIDEST, fitted, terminal_width
from pytest_elo.report.flags import flag_lines, labels
from pytest_elo.report.numbers import MISSING, interval, plain, signed
from pytest_elo.report.online import online_lines
from pytest_elo.report.repeats import repeat_lines
from pytest_elo.report.tables import plain_columns, strategy_columns, task_columns

if TYPE_CHECKING:
    from pytest_elo.rating.results import LadderReport, PolicyReport, RatingReport

DISPENSABLE = ("SD\ntasks", "sam-\nples", "marginal\nElo/1k", "items", "Elo\n/1k")
"""Columns of the strategy table in the order in which they go where there is no room."""

SPARE_DETAILS = ("Elo per\ndoubling", "without\none task", "SD tasks,\nno noise", "Elo/1k\ncompletion", "Elo\n/USD")
"""What the table of details does without first where it does not fit."""

__all__ = ["header_lines", "lines", "remarks", "strategy_table"]


def lines(report: Report) -> list[str]:
    """Everything the terminal shows, in order; no text of a run can steer the terminal."""
    return [printable(line) for line in _lines(report, terminal_width())]


def _lines(report: Report, width: int) -> list[str]:
    out = ["", *header_lines(report), ""]
    if report.rating is not None:
        out += [*strategy_table(report, width), ""]
        out += [*fitted(*task_columns(report.rating, labels(report)), ("ties", "items", "Elo\n/1k"), width), ""]
        budgets = budgets_of(report)
        out += [*budget_lines(budgets), ""] if budgets is not None else []
        details = detail_columns(report.rating, labels(report))
        out += [*fitted(*details, SPARE_DETAILS, width, last="right"), ""]
        out += [*online_lines(report.online), ""] if report.online is not None else []
    else:
        out += [*fitted(*plain_columns(report), (), width), ""]
    for arena in report.arenas:
        out += [*arena_lines(arena), ""]
    out += remarks(report)
    if report.gates:
        out += ["", *gate_lines(report.gates)]
    return out


def remarks(report: Report) -> list[str]:
    """The sentences under the tables."""
    out = [f"no rating: {report.unrated}"] if report.rating is None else list(_footnotes(report.rating))
    if report.rating is not None:
        out += detail_lines(report.rating, (report.header.get("prices") or {}).get("date"))
    out += list(flag_lines(report))
    out += list(_counts(report))
    out += [f"warning: {warning}" for warning in (report.rating.warnings if report.rating else ())]
    return out + [f"note: {note}" for note in report.notes]


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


def strategy_table(report: Report, width: int) -> list[str]:
    """One row a strategy, in the order of the ladder where there is one.

    The Δ of each task stands in a column of its own as long as the table fits ``width``; otherwise only in
    the table of tasks.
    """
    rating = report.rating
    assert rating is not None
    names = labels(report)
    full = fitted(*strategy_columns(rating, [task.task for task in rating.tasks], names), DISPENSABLE[:1], WIDEST)
    if len(rating.tasks) > 1 and max(map(len, full)) <= width:
        return full
    return fitted(*strategy_columns(rating, [], names), DISPENSABLE, width)


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
        last = signed(policy.elo_per_1k_last_success.value, 2)
        yield f"counting the last success alone would show {last} Elo/1k, {policy.last_success_ratio:.2f} times as much"


def _ladder_lines(ladder: LadderReport) -> Iterator[str]:
    name = " -> ".join(ladder.tiers or ladder.ladder)
    verdict = ladder.verdict
    needed = "" if verdict.items_needed is None else f"; about {verdict.items_needed:,} items would decide"
    yield f"verdict for {name}: {verdict.code}, {verdict.text_en} ({verdict.reason}{needed})"
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
    yield from _unfaithful(report)
    yield from _parsers(report)
    yield from _no_answers(report)
    statuses = Counter(outcome.status for outcome in report.outcomes)
    yield "outcomes: " + ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    yield from repeat_lines(report.outcomes, report.totals)
    yield _attempts(report)
    for role, cell in sorted(report.totals.apart.items()):
        yield f"not charged to any strategy: {cell.total_tokens:,} tokens in {cell.attempts} {role} attempts"
    ties = sum("vote_tie" in outcome.marks for outcome in report.outcomes)
    if ties:
        yield f"{ties} votes were tied and went to the answer seen first"


def _denominators(report: Report) -> str:
    dropped = sum(report.dropped.counts.values())
    scored = sum(map(is_scored, report.outcomes))
    judged = len(report.outcomes) - dropped - scored
    text = f"{scored} of {len(report.outcomes) - judged} outcomes are scored"
    if judged:
        text += f"; {judged} more are answers that have no score: votes compare them"
    if not report.dropped:
        return text
    parts = (
        f"{count} {status} in {task}/{strategy}" for (task, strategy, status), count in report.dropped.counts.items()
    )
    text = f"{text}; dropped: {', '.join(parts)}"
    if not scored:
        return text
    correct = sum(outcome.score for outcome in report.outcomes if is_scored(outcome))
    # what an arena dropped has no score to be wrong by
    scorable = scored + sum(UNSCORED not in outcome.marks for outcome in report.outcomes if not is_scored(outcome))
    return (
        f"{text}. Score over scored outcomes {correct / scored:.3f}, "
        f"with the dropped ones as wrong {correct / scorable:.3f}"
    )


def _unfaithful(report: Report) -> Iterator[str]:
    """How many items of a task can be judged on this machine at all, and why the others cannot."""
    items: dict[str, set[str]] = {}
    reasons: dict[str, dict[str, set[str]]] = {}
    for outcome in report.outcomes:
        items.setdefault(outcome.task_id, set()).add(outcome.item_id)
        if outcome.status == "unfaithful":
            named = reasons.setdefault(outcome.task_id, {})
            named.setdefault(outcome.detail or "", set()).add(outcome.item_id)
    for task, named in sorted(reasons.items()):
        skipped = set().union(*named.values())
        faithful = len(items[task]) - len(skipped)
        yield f"warning: {task}: faithful {faithful} of {len(items[task])} items; the others are skipped:"
        for reason, found in sorted(named.items()):
            yield f"  {', '.join(sorted(found))}: {reason}"


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
