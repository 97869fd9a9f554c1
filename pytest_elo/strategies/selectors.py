"""How one of several candidates is chosen: by a judge, the task's public check, log-probability, or an oracle.

A selector returns a ``Selection``. Equal candidates are decided by the number of samples that gave the
answer, then by which was seen first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_elo.errors import ConfigError
from pytest_elo.records import CheckResult, Problem
from pytest_elo.strategies.candidates import Candidate
from pytest_elo.strategies.samples import all_of
from pytest_elo.strategies.verdicts import Critic, Verdict
from pytest_elo.strategies.vote import require_logprob

__all__ = ["SELECTORS", "Selection", "by_check", "by_comparison", "by_logprob", "by_oracle", "by_score", "require"]

SELECTORS = ("judge", "verifier", "logprob", "oracle")


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen candidate's position, the verdicts it rests on, and what a reader must know."""

    chosen: int
    kept: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


def require(problem: Problem, selector: str) -> None:
    """Refuse a problem that the selector cannot work on; raises ``ConfigError``."""
    if selector not in SELECTORS:
        raise ConfigError(f"selector is {selector!r}; choose one of {', '.join(SELECTORS)}")
    if selector == "verifier" and getattr(problem, "check", None) is None:
        raise ConfigError("this task has no public check, so selector: verifier has nothing to run; use judge")
    if selector == "logprob" and getattr(problem, "generate", None) is not None:
        raise ConfigError("this task's samples take several calls, so they have no log-probability; use judge")
    if selector == "oracle" and getattr(problem, "grade_with", None) is not None:
        raise ConfigError("this task is graded by a judge, so there is no oracle to ask; use judge")


async def by_score(critic: Critic, candidates: Sequence[Candidate]) -> Selection:
    """Pointwise: the candidate that is rated highest; an unreadable score ranks below all others."""
    verdicts = await critic.rate([candidate.text for candidate in candidates])
    scores = [0.0 if verdict.value is None else verdict.value for verdict in verdicts]
    chosen = _best(scores, candidates)
    return Selection(chosen, _kept(verdicts, chosen), _judge_marks(verdicts, scores, chosen))


async def by_comparison(critic: Critic, candidates: Sequence[Candidate], both_orders: bool) -> Selection:
    """Pairwise: each candidate challenges the best so far; an unreadable verdict leaves the best in place.

    Judges favour a position, so with ``both_orders`` a challenger must win shown first and shown second.
    Without, the best so far is shown first and second by turns.
    """
    texts = [candidate.text for candidate in candidates]
    best, verdicts = 0, list[Verdict]()
    for challenger in range(1, len(candidates)):
        orders = [(best, challenger), (challenger, best)]
        shown = orders if both_orders else [orders[(challenger - 1) % 2]]
        found = await all_of(critic.compare(texts, first, second) for first, second in shown)
        verdicts += found
        if all(verdict.value == challenger for verdict in found):
            best = challenger
    unread = all(verdict.value is None for verdict in verdicts)
    return Selection(best, _kept(verdicts, best), ("no_verdict",) if verdicts and unread else ())


async def by_check(problem: Problem, candidates: Sequence[Candidate]) -> Selection:
    """The candidate that passes the task's public check, or passes most of it. No call is made for it."""
    results: list[CheckResult] = await all_of(
        asyncio.to_thread(problem.check, candidate.draft.reply)  # type: ignore[attr-defined]
        for candidate in candidates
    )
    scores = [_check_score(result) for result in results]
    chosen = _best(scores, candidates)
    return Selection(chosen, marks=() if results[chosen].passed else ("none_passed",))


def by_logprob(candidates: Sequence[Candidate]) -> Selection:
    """The candidate with the highest mean log-probability a token."""
    return Selection(_best([require_logprob(candidate.draft) for candidate in candidates], candidates))


async def by_oracle(problem: Problem, candidates: Sequence[Candidate]) -> Selection:
    """The candidate that is graded best: an upper bound for every selector, marked and never a policy."""
    grades = await all_of(asyncio.to_thread(problem.grade, candidate.draft.reply) for candidate in candidates)
    return Selection(_best([grade.score for grade in grades], candidates), marks=("oracle",))


def _check_score(result: CheckResult) -> float:
    # getattr: a task may bring a result of its own that only knows passed or not
    share = getattr(result, "score", None)
    return 2.0 if result.passed else 0.0 if share is None else float(share)


def _best(scores: Sequence[float], candidates: Sequence[Candidate]) -> int:
    return max(range(len(scores)), key=lambda i: (scores[i], candidates[i].votes, -i))


def _kept(verdicts: Sequence[Verdict], chosen: int) -> tuple[str, ...]:
    return tuple(verdict.call_id for verdict in verdicts if chosen in verdict.about and verdict.value is not None)


def _judge_marks(verdicts: Sequence[Verdict], scores: Sequence[float], chosen: int) -> tuple[str, ...]:
    if all(verdict.value is None for verdict in verdicts):
        return ("no_verdict",)
    return ("select_tie",) if list(scores).count(scores[chosen]) > 1 else ()
