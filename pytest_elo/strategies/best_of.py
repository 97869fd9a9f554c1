"""Best of n: several independent samples, and a selector that chooses one of them.

Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems" (arXiv 2110.14168), for verifiers; Zheng et
al. 2023, "Judging LLM-as-a-Judge" (arXiv 2306.05685), for pointwise and pairwise judges and their biases.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Problem
from pytest_elo.strategies.candidates import Candidate, candidates_of
from pytest_elo.strategies.samples import draws
from pytest_elo.strategies.selectors import (
    Selection,
    by_check,
    by_comparison,
    by_logprob,
    by_oracle,
    by_score,
    require,
)
from pytest_elo.strategies.verdicts import Critic

__all__ = ["best_of", "suits"]

COMPARISONS = ("pointwise", "pairwise")


async def best_of(
    problem: Problem,
    ask: Ask,
    *,
    n: int,
    selector: str = "judge",
    compare: str = "pointwise",
    both_orders: bool = False,
    rubric: str = "",
    temperature: float = 0.8,
    judge_model: str | None = None,
    judge_tokens: int = 64,
) -> Answer:
    """Draw ``n`` samples and return the one that the selector chooses.

    Samples that give the same answer are one candidate, so nothing is asked where all agree. A judge makes
    one call a candidate (``pointwise``), or one a challenge (``pairwise``; two with ``both_orders``). Kept are
    the chosen sample and the readable verdicts on it; the other samples and verdicts are discards.
    """
    suits(problem, n=n, selector=selector, compare=compare)
    asked = {"logprobs": True} if selector == "logprob" else {}
    drafts = await draws(problem, ask, range(n), temperature=temperature, **asked)
    candidates = candidates_of(problem, drafts)
    critic = Critic(problem=problem, ask=ask, rubric=rubric, model=judge_model, max_tokens=judge_tokens)
    selection = await _select(problem, critic, candidates, selector, compare, both_orders)
    chosen = candidates[selection.chosen].draft
    return Answer(reply=chosen.reply, kept=[*chosen.kept, *selection.kept], marks=selection.marks)


def suits(problem: Problem, *, n: int, selector: str = "judge", compare: str = "pointwise", **_: object) -> None:
    if n < 1:
        raise ConfigError(f"best_of needs n of at least 1, not {n}")
    if compare not in COMPARISONS:
        raise ConfigError(f"compare is {compare!r}; choose one of {', '.join(COMPARISONS)}")
    require(problem, selector)


async def _select(
    problem: Problem,
    critic: Critic,
    candidates: Sequence[Candidate],
    selector: str,
    compare: str,
    both_orders: bool,
) -> Selection:
    if selector == "oracle":
        return await by_oracle(problem, candidates)
    if selector == "logprob":
        return by_logprob(candidates)
    if len(candidates) == 1:
        return Selection(0)
    if selector == "verifier":
        return await by_check(problem, candidates)
    if compare == "pairwise":
        return await by_comparison(critic, candidates, both_orders)
    return await by_score(critic, candidates)
