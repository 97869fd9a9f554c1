"""One sample: the baseline that every other strategy is measured against."""

from __future__ import annotations

from typing import Any

from pytest_elo.records import Answer, Ask, Problem
from pytest_elo.strategies.samples import draw

__all__ = ["single"]


async def single(problem: Problem, ask: Ask, *, temperature: float = 0.0, model: str | None = None) -> Answer:
    """Draw one sample and take it. ``model`` names another model than the run's, as ``escalate`` may use."""
    chosen: dict[str, Any] = {} if model is None else {"model": model}
    draft = await draw(problem, ask, temperature=temperature, **chosen)
    return Answer(reply=draft.reply, kept=draft.kept)
