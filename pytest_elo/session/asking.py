"""How a strategy asks inside the engine: in its turn, as a judge, and anew on a rerun."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from pytest_elo.gateway.client import BoundAsk, seed_for
from pytest_elo.gateway.proxy.lease import Admission
from pytest_elo.records import Message, Reply, Role, Tag

if TYPE_CHECKING:
    from pytest_elo.engine import Engine
    from pytest_elo.gateway.proxy.access import Access
    from pytest_elo.session.budget import Budget

__all__ = ["JudgeAsk", "TurnAsk"]

_RERUN_STRIDE = 1_000_003
"""Added to the run's seed for each rerun: other seeds for every sample, and the same ones next time."""


class TurnAsk:
    """An ``Ask`` whose every call waits for its turn in flight, and is not made once the run stops."""

    def __init__(
        self, ask: BoundAsk, engine: Engine[Any, Any], tag: Tag, seed: int, rerun: int, budget: Budget | None
    ) -> None:
        self._ask = ask
        self._engine = engine
        self._tag = tag
        self._room = budget.room if budget is not None else nullcontext
        self._seed = seed + _RERUN_STRIDE * rerun
        self._is_rerun = rerun > 0

    async def __call__(
        self, messages: Sequence[Message], *, role: Role = "generate", sample: int = 0, **parameters: Any
    ) -> Reply:
        if self._is_rerun and "seed" not in parameters:
            tag = self._tag
            parameters["seed"] = seed_for(self._seed, tag.task_id, tag.item_id, tag.repeat, sample)
        async with self._engine.turn(self._room):
            return await self._ask(messages, role=role, sample=sample, **parameters)

    def lease(self, **options: Any) -> AbstractAsyncContextManager[Access]:
        """Access for a program; the run decides before each of its calls as before each of ours."""
        return self._ask.lease(**options, admission=Admission(may_go_on=self._engine.may_go_on, room=self._room))


class JudgeAsk:
    """The same, charged to the role ``judge`` whatever the caller says: grading is no policy's cost."""

    def __init__(self, ask: TurnAsk) -> None:
        self._ask = ask

    async def __call__(self, messages: Sequence[Message], *, role: Role = "judge", **parameters: Any) -> Reply:
        return await self._ask(messages, role="judge", **parameters)
