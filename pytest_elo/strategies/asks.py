"""Asks around asks: with parameters bound, in a fixed role, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_elo.errors import ConfigError, LimitExceededError
from pytest_elo.records import Ask, Message, Reply

if TYPE_CHECKING:
    from pytest_elo.gateway.proxy.access import Access

__all__ = ["BoundParameters", "LimitedAsk", "Limits"]


class BoundParameters:
    """An ``Ask`` whose calls all carry these parameters (a model, a role, ``logprobs``, ...)."""

    def __init__(self, ask: Ask, parameters: Mapping[str, Any]) -> None:
        self._ask = ask
        self._parameters = parameters

    async def __call__(self, messages: Sequence[Message], **options: Any) -> Reply:
        return await self._ask(messages, **{**options, **self._parameters})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a strategy may spend on one item. The defaults stop what runs away, not what is merely dear."""

    calls: int = 1000
    tokens: int | None = None
    """Prompt and completion tokens of all replies."""
    seconds: float = 3600.0


class LimitedAsk:
    """An ``Ask`` that refuses the call after the last one allowed. Every strategy asks through one.

    Calls that are in flight when the tokens run out are finished and charged: the overshoot is at most what
    one parallel batch costs.
    """

    def __init__(self, ask: Ask, limits: Limits) -> None:
        self._ask = ask
        self._limits = limits
        self._calls = 0
        self._tokens = 0
        self.exceeded: LimitExceededError | None = None
        """Set once a call was refused."""
        self.scope: asyncio.Timeout | None = None
        """The timeout under which the strategy runs."""

    async def __call__(self, messages: Sequence[Message], **options: Any) -> Reply:
        reason = self._reason()
        if reason is not None:
            self._refuse(reason)
        self._calls += 1
        reply = await self._ask(messages, **_canonical(options))
        self._tokens += reply.prompt_tokens + reply.completion_tokens
        return reply

    @asynccontextmanager
    async def lease(self, *, model: str | None = None) -> AsyncIterator[Access]:
        """Access to the model for a program, within what is left of the limits.

        Raises ``ConfigError`` where the ask knows no proxy (a strategy that is run without a session).
        """
        lease = getattr(self._ask, "lease", None)
        if lease is None:
            raise ConfigError("a program needs the metering proxy, and this ask has none")
        limits = self._limits
        tokens_left = None if limits.tokens is None else max(limits.tokens - self._tokens, 0)
        async with lease(calls=max(limits.calls - self._calls, 0), tokens=tokens_left, model=model) as access:
            try:
                yield access
            finally:
                self._calls += len(access.calls)
                self._tokens += sum(row.total_tokens for call in access.calls for row in call.attempts)

    @asynccontextmanager
    async def unhurried(self) -> AsyncIterator[None]:
        """The limit of seconds does not run inside: for waiting that is no doing of the strategy."""
        ends = None if self.scope is None else self.scope.when()
        if self.scope is None or ends is None:
            yield
            return
        loop = asyncio.get_running_loop()
        left = ends - loop.time()
        self.scope.reschedule(None)
        try:
            yield
        finally:
            self.scope.reschedule(loop.time() + left)

    def _reason(self) -> str | None:
        limits = self._limits
        if self._calls >= limits.calls:
            return f"its limit of {limits.calls} calls an item"
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return f"its limit of {limits.tokens:,} tokens an item"
        return None

    def _refuse(self, reason: str) -> None:
        if self.exceeded is not None:
            # It caught the first refusal and goes on asking: only a cancellation ends that.
            raise asyncio.CancelledError(reason)
        self.exceeded = LimitExceededError(f"the strategy reached {reason}")
        raise self.exceeded


def _canonical(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same request for ``temperature: 0`` and ``0.0``, so that one recording answers both."""
    temperature = options.get("temperature")
    if isinstance(temperature, float) and temperature.is_integer():
        return {**options, "temperature": int(temperature)}
    return dict(options)
