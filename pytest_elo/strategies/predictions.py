"""Another program's predictions, graded like a strategy's own: no call is made and its tokens are not known."""

from __future__ import annotations

import asyncio

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Draft, Problem

__all__ = ["predictions", "suits"]


async def predictions(problem: Problem, ask: Ask, *, path: str) -> Answer:
    """The prediction for this item in ``path`` (``all_preds.jsonl`` or ``preds.json``, relative to ``elo.yaml``).

    The outcome is marked ``tokens_unknown``.
    """
    suits(problem, path=path)
    draft: Draft = await asyncio.to_thread(problem.predicted, path)  # type: ignore[attr-defined]
    return Answer(reply=draft.reply, kept=(), marks=("tokens_unknown",))


def suits(problem: Problem, *, path: str) -> None:
    """Raises ``ConfigError`` for a task without predictions files, ``DataError`` for a file that lacks this item."""
    predicted = getattr(problem, "predicted", None)
    if predicted is None:
        raise ConfigError("predictions needs a task with predictions files, such as swebench")
    predicted(path)
