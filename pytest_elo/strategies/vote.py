"""Self-consistency: several independent samples, and the answer that most of them give.

Wang et al. 2022, "Self-Consistency Improves Chain of Thought Reasoning in Language Models"
(arXiv 2203.11171): plain majority, or samples weighted by their length-normalised probability.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from pytest_elo.errors import ConfigError, GatewayError
from pytest_elo.records import Answer, Ask, Draft, Problem
from pytest_elo.strategies.samples import draws
from pytest_elo.strategies.tally import tally

__all__ = ["elect", "require_equivalence", "require_logprob", "suits", "vote", "weights_of"]

WEIGHTS = ("equal", "logprob")


async def vote(
    problem: Problem,
    ask: Ask,
    *,
    n: int,
    temperature: float = 0.8,
    weights: str = "equal",
    early_stop: bool = False,
) -> Answer:
    """Draw up to ``n`` samples and return a reply of the answer with the most weight.

    What counts as the same answer is the task's decision (``Problem.answer_key``). Ties go to the answer seen
    first and are marked ``vote_tie``. Every sample is charged; those that did not give the chosen answer are
    discards.

    Without ``early_stop`` all samples are drawn at once. With it they come in waves, each as large as the
    fewest samples that could settle the vote; it ends when no other answer can draw level any more. The reply
    and the marks are then those of the full vote.
    """
    suits(problem, n=n, weights=weights)
    asked = {"logprobs": True} if weights == "logprob" else {}
    drafts: list[Draft] = []
    while len(drafts) < n:
        outstanding = n - len(drafts)
        counted = tally(_keys(problem, drafts), weights_of(drafts, weights))
        if counted.is_settled(outstanding):
            break
        wave = counted.fewest_to_settle(outstanding) if early_stop else n
        numbers = range(len(drafts), len(drafts) + wave)
        drafts += await draws(problem, ask, numbers, role="vote", temperature=temperature, **asked)
    return elect(drafts, _keys(problem, drafts), weights_of(drafts, weights))


def suits(problem: Problem, *, n: int, weights: str = "equal", **_: object) -> None:
    if n < 1:
        raise ConfigError(f"vote needs n of at least 1, not {n}")
    if weights not in WEIGHTS:
        raise ConfigError(f"weights is {weights!r}; choose one of {', '.join(WEIGHTS)}")
    if weights == "logprob" and getattr(problem, "generate", None) is not None:
        raise ConfigError("this task's samples take several calls, so they have no log-probability; use weights: equal")
    require_equivalence(problem)


def require_equivalence(problem: Problem) -> None:
    """Refuse a problem whose answers are free text, where two samples never agree."""
    if getattr(problem, "free_text", False):
        raise ConfigError(
            "its answers are free text, so no two samples agree and there is nothing to vote on; "
            "use {kind: best_of, selector: judge} instead"
        )


def elect(drafts: Sequence[Draft], keys: Sequence[Hashable | None], weights: Sequence[float]) -> Answer:
    """The first reply of the winning answer; the first reply of all where none holds an answer."""
    counted = tally(keys, weights)
    if counted.winner is None:
        return Answer(reply=drafts[0].reply, kept=drafts[0].kept)
    agreeing = [draft for draft, key in zip(drafts, keys, strict=True) if key == counted.winner]
    kept = [call_id for draft in agreeing for call_id in draft.kept]
    return Answer(reply=agreeing[0].reply, kept=kept, marks=("vote_tie",) if counted.is_tied else ())


def weights_of(drafts: Sequence[Draft], weights: str) -> list[float]:
    """1 each, or exp(mean log-probability a token), which is the length-normalised probability."""
    if weights == "equal":
        return [1.0] * len(drafts)
    return [math.exp(min(0.0, require_logprob(draft))) for draft in drafts]


def require_logprob(draft: Draft) -> float:
    """The reply's mean log-probability; without one every further call would be bought in vain."""
    value = draft.reply.mean_logprob
    if value is None:
        raise GatewayError(
            f"{draft.reply.model or 'the model'} gives no log-probabilities here; "
            "use weights: equal, or another selector than logprob",
            kind="no_logprobs",
            status="config_error",
        )
    return value


def _keys(problem: Problem, drafts: Sequence[Draft]) -> list[Hashable | None]:
    return [problem.answer_key(draft.reply) for draft in drafts]
