"""Drawing samples: one or several at once, the same way for every kind of task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from pytest_elo.records import Ask, Draft, Problem, Role
from pytest_elo.strategies.asks import BoundParameters

__all__ = ["all_of", "draw", "draws"]

T = TypeVar("T")


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, then raise the first failure in the calls' order: what is on the wire is paid for anyway."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def draw(
    problem: Problem,
    ask: Ask,
    *,
    sample: int = 0,
    role: Role = "generate",
    temperature: float | None = None,
    **parameters: Any,
) -> Draft:
    """One sample, by the problem's own ``generate`` where it has one, else by one call.

    ``parameters`` (``model``, ``logprobs``, ...) go with every request that is made for the sample.
    """
    generate = getattr(problem, "generate", None)
    if generate is not None:
        bound = BoundParameters(ask, parameters) if parameters else ask
        draft: Draft = await generate(bound, sample=sample, role=role, temperature=temperature)
        return draft
    reply = await ask(
        problem.messages,
        role=role,
        sample=sample,
        temperature=temperature,
        max_tokens=problem.max_tokens,
        **parameters,
    )
    return Draft(reply=reply, kept=(reply.call_id,), messages=tuple(problem.messages))


async def draws(problem: Problem, ask: Ask, samples: Iterable[int], **options: Any) -> list[Draft]:
    """The samples of these numbers, all at once; ``options`` as in ``draw``."""
    return await all_of(draw(problem, ask, sample=i, **options) for i in samples)
