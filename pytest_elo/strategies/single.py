"""One sample: the baseline that every other strategy is measured against."""

from __future__ import annotations

from pytest_elo.records import Answer, Ask, Problem

__all__ = ["single"]


async def single(problem: Problem, ask: Ask, *, temperature: float = 0.0) -> Answer:
    """Ask once and take the reply."""
    reply = await ask(problem.messages, temperature=temperature, max_tokens=problem.max_tokens)
    return Answer(reply=reply, kept=[reply.call_id])
