"""Running a strategy on one item: within its limits, and whatever it does, affecting that item alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pytest_elo.errors import ConfigError, LimitExceededError
from pytest_elo.records import Answer, Ask, Draft, Problem, Reply
from pytest_elo.strategies.asks import LimitedAsk
from pytest_elo.strategies.registry import find, split_limits

__all__ = ["run"]


async def run(kind: str, problem: Problem, ask: Ask, parameters: Mapping[str, Any]) -> Answer:
    """The answer that the strategy settles on.

    Raises ``LimitExceededError`` when it exceeds its ``limits`` (calls, tokens, seconds), and whatever else the
    strategy raises. An async function that never awaits cannot be interrupted; nothing is promised for it.
    """
    limits, own = split_limits(parameters)
    limited = LimitedAsk(ask, limits)
    function = find(kind)
    try:
        async with asyncio.timeout(limits.seconds) as scope:
            limited.scope = scope
            settled = await function(problem, limited, **own)
    except TimeoutError:
        if scope.expired():
            raise LimitExceededError(f"the strategy reached its limit of {limits.seconds:g} s an item") from None
        raise
    except asyncio.CancelledError:
        if limited.exceeded is not None:
            raise limited.exceeded from None
        raise
    except SystemExit as error:
        raise RuntimeError(f"the strategy called sys.exit({error.code!r})") from error
    return _answer(settled, kind)


def _answer(settled: object, kind: str) -> Answer:
    if isinstance(settled, Answer):
        return settled
    if isinstance(settled, Draft):
        return Answer(reply=settled.reply, kept=settled.kept)
    if isinstance(settled, Reply):
        return Answer(reply=settled, kept=[settled.call_id])
    raise ConfigError(f"strategy {kind!r} returned {settled!r}; return a Reply or an Answer")
