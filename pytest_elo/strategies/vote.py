"""Self-consistency: several independent samples, and the answer most of them give (Wang et al. 2022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Problem, Reply
from pytest_elo.strategies.samples import all_of

__all__ = ["majority", "vote"]


async def vote(problem: Problem, ask: Ask, *, n: int, temperature: float = 0.8) -> Answer:
    """Draw ``n`` samples and return a reply of the majority's answer.

    What counts as the same answer is the task's decision (``Problem.answer_key``). Ties go to the answer
    seen first and are marked ``vote_tie``. Every sample is charged; those that did not give the chosen
    answer are discards.
    """
    if n < 1:
        raise ConfigError(f"vote needs n of at least 1, not {n}")
    replies = await all_of(
        ask(problem.messages, role="vote", sample=i, temperature=temperature, max_tokens=problem.max_tokens)
        for i in range(n)
    )
    keys = [problem.answer_key(reply) for reply in replies]
    return majority(replies, keys)


def majority(replies: Sequence[Reply], keys: Sequence[Hashable | None]) -> Answer:
    """The most frequent key's first reply; replies without an answer (``None``) do not vote."""
    counts = Counter(key for key in keys if key is not None)
    if not counts:
        return Answer(reply=replies[0], kept=[replies[0].call_id])
    top = max(counts.values())
    leaders = [key for key, count in counts.items() if count == top]
    winner = leaders[0]  # Counter keeps first-seen order, so ties go to the first answer seen
    agreeing = [reply for reply, key in zip(replies, keys, strict=True) if key == winner]
    marks = ("vote_tie",) if len(leaders) > 1 else ()
    return Answer(reply=agreeing[0], kept=[reply.call_id for reply in agreeing], marks=marks)
