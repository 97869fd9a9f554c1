"""The task's own agent: a loop of commands in the task's environment, every turn charged."""

from __future__ import annotations

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Draft, Problem

__all__ = ["agent", "suits"]


async def agent(problem: Problem, ask: Ask, *, temperature: float = 0.0) -> Answer:
    """Let the task's agent work until it submits or meets the task's limits."""
    suits(problem)
    generate = problem.generate  # type: ignore[attr-defined]
    draft: Draft = await generate(ask, generator="agent", temperature=temperature)
    return Answer(reply=draft.reply, kept=draft.kept)


def suits(problem: Problem, **_: object) -> None:
    """Raises ``ConfigError`` for a task without an environment to act in."""
    if not hasattr(problem, "generate"):
        raise ConfigError("agent needs a task with an environment to act in, such as swebench")
