"""Self-reflection: draft, critique, revision, until the critique finds nothing.

Madaan et al. 2023, "Self-Refine: Iterative Refinement with Self-Feedback" (arXiv 2303.17651). The model never
learns whether it is right: there is no oracle. With ``critic: check`` the task's public check takes the place
of the model's critique, as test feedback does in Reflexion (Shinn et al. 2023, arXiv 2303.11366).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Draft, Message, Problem, Role
from pytest_elo.strategies.prompts import finds_nothing
from pytest_elo.strategies.samples import draw

__all__ = ["reflect", "suits"]

CRITICS = ("self", "check")

CRITIQUE = (
    "Check your answer above for mistakes, briefly. Finish with a last line 'VERDICT: OK' if you find none, "
    "or 'VERDICT: REVISE' if something must change."
)
REVISE = "Revise your answer accordingly. Write it in full, in the form first asked for."


async def reflect(
    problem: Problem,
    ask: Ask,
    *,
    rounds: int = 1,
    temperature: float = 0.0,
    critic: str = "self",
    critique_tokens: int | None = None,
) -> Answer:
    """Draft once, then up to ``rounds`` times criticise and revise; the last revision is the answer.

    A draft and its revisions have the role ``generate``, critiques ``reflect``; a revision that is given the
    output of a check has the role ``tool``. The conversation grows: each
    critique sees all earlier drafts and critiques. All calls are kept, since the answer rests on all of them.
    ``critique_tokens`` caps a critique (default: the task's own cap).
    """
    suits(problem, rounds=rounds, critic=critic)
    draft = await draw(problem, ask, temperature=temperature)
    kept = list(draft.kept)
    for number in range(1, rounds + 1):
        if not draft.reply.text.strip():
            break  # nothing to criticise, and gateways refuse empty messages
        if critic == "check":
            result = await asyncio.to_thread(problem.check, draft.reply)  # type: ignore[attr-defined]
            done, feedback = result.passed, result.feedback
        else:
            critique = await ask(
                _continued(draft, CRITIQUE),
                role="reflect",
                sample=number,
                temperature=temperature,
                max_tokens=critique_tokens or problem.max_tokens,
            )
            kept.append(critique.call_id)
            done, feedback = finds_nothing(critique.text), critique.text
        if done or not feedback.strip():
            break
        draft = await _revised(problem, ask, draft, feedback, number, temperature, critic)
        kept += draft.kept
    return Answer(reply=draft.reply, kept=kept)


def suits(problem: Problem, *, rounds: int = 1, critic: str = "self", **_: object) -> None:
    if rounds < 1:
        raise ConfigError(f"reflect needs rounds of at least 1, not {rounds}")
    if critic not in CRITICS:
        raise ConfigError(f"critic is {critic!r}; choose one of {', '.join(CRITICS)}")
    if critic == "check" and getattr(problem, "check", None) is None:
        raise ConfigError("this task has no public check to reflect on; use critic: self")


async def _revised(
    problem: Problem, ask: Ask, draft: Draft, feedback: str, number: int, temperature: float, critic: str
) -> Draft:
    role: Role = "tool" if critic == "check" else "generate"
    generate = getattr(problem, "generate", None)
    if generate is not None:
        revision: Draft = await generate(
            ask, sample=number, role=role, temperature=temperature, previous=draft, feedback=feedback
        )
        return revision
    if critic == "check":
        messages = _continued(draft, f"A check of your answer says:\n\n{feedback}\n\n{REVISE}")
    else:
        messages = [*_continued(draft, CRITIQUE), _message("assistant", feedback), _message("user", REVISE)]
    reply = await ask(messages, role=role, sample=number, temperature=temperature, max_tokens=problem.max_tokens)
    return Draft(reply=reply, kept=(reply.call_id,), messages=tuple(messages))


def _continued(draft: Draft, request: str) -> Sequence[Message]:
    return [*draft.messages, _message("assistant", draft.reply.text), _message("user", request)]


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
