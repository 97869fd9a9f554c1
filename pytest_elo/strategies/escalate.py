"""Escalation: a few cheap samples first, and the stronger model only where they do not settle the item.

Chen et al. 2023, "FrugalGPT" (arXiv 2305.05176); with agreement as the signal, Yue et al. 2023, "Large Language
Model Cascades with Mixture of Thoughts Representations" (arXiv 2310.03094).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Draft, Problem
from pytest_elo.strategies.samples import draw, draws
from pytest_elo.strategies.tally import tally
from pytest_elo.strategies.vote import elect, require_equivalence

__all__ = ["escalate", "suits"]

SIGNALS = ("vote", "check")


async def escalate(
    problem: Problem,
    ask: Ask,
    *,
    n: int = 2,
    temperature: float = 0.8,
    model: str | None = None,
    until: str = "vote",
    agree: int | None = None,
    to: str | None = None,
    to_temperature: float = 0.0,
) -> Answer:
    """Draw ``n`` samples from ``model``; where they settle nothing, draw one from ``to`` and take that.

    Settled means that at least ``agree`` of them (default: all) give one answer (``until: vote``), or that one
    passes the task's public check (``until: check``). ``model`` and ``to`` default to the run's model: then
    only the temperature differs. An escalated answer is marked; its cheap samples are discards. Tokens of two
    models are not worth the same, which the report says of every policy that mixes models.
    """
    suits(problem, n=n, until=until, agree=agree)
    drafts = await draws(problem, ask, range(n), role="vote", temperature=temperature, **_named(model))
    settled = await _settled(problem, drafts, until, n if agree is None else agree)
    if settled is not None:
        return settled
    strong = await draw(problem, ask, temperature=to_temperature, **_named(to))
    return Answer(reply=strong.reply, kept=strong.kept, marks=("escalated",))


def suits(problem: Problem, *, n: int = 2, until: str = "vote", agree: int | None = None, **_: object) -> None:
    if n < 1:
        raise ConfigError(f"escalate needs n of at least 1, not {n}")
    if until not in SIGNALS:
        raise ConfigError(f"until is {until!r}; choose one of {', '.join(SIGNALS)}")
    if until == "check" and getattr(problem, "check", None) is None:
        raise ConfigError("this task has no public check, so until: check has nothing to run; use until: vote")
    if until == "vote":
        if n < 2:
            raise ConfigError("one sample always agrees with itself; escalate until: vote needs n of at least 2")
        if agree is not None and not 2 <= agree <= n:
            raise ConfigError(f"agree is {agree}; give a number from 2 to n ({n})")
        require_equivalence(problem)


async def _settled(problem: Problem, drafts: Sequence[Draft], until: str, agree: int) -> Answer | None:
    if until == "check":
        for draft in drafts:
            result = await asyncio.to_thread(problem.check, draft.reply)  # type: ignore[attr-defined]
            if result.passed:
                return Answer(reply=draft.reply, kept=draft.kept)
        return None
    keys = [problem.answer_key(draft.reply) for draft in drafts]
    winner = tally(keys, [1.0] * len(keys)).winner
    if winner is None or keys.count(winner) < agree:
        return None
    return elect(drafts, keys, [1.0] * len(keys))


def _named(model: str | None) -> dict[str, Any]:
    return {} if model is None else {"model": model}
