"""Tree of Thoughts, breadth-first: propose steps, keep the most promising, answer from there.

Yao et al. 2023, "Tree of Thoughts: Deliberate Problem Solving with Large Language Models" (arXiv 2305.10601),
Algorithm 1 (ToT-BFS) with sampled proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_elo.errors import ConfigError
from pytest_elo.records import Answer, Ask, Draft, Message, Problem
from pytest_elo.strategies.candidates import candidates_of
from pytest_elo.strategies.prompts import with_note
from pytest_elo.strategies.samples import all_of
from pytest_elo.strategies.verdicts import Critic, Verdict
from pytest_elo.tasks.parsing import visible

__all__ = ["suits", "tree"]

EVALUATORS = ("vote", "value")

FIRST_STEP = "Do not answer yet. In one or two short sentences, say how to go about it."
NEXT_STEP = "Do not answer yet. In one or two short sentences, give the next step only."
ANSWER = "Go on from there and answer now, in the form asked for."


@dataclass(frozen=True, slots=True)
class _State:
    """A path from the root: its steps, and the calls that they and the verdicts on them took."""

    steps: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


async def tree(
    problem: Problem,
    ask: Ask,
    *,
    depth: int = 2,
    breadth: int = 1,
    proposals: int = 3,
    evaluator: str = "vote",
    votes: int = 1,
    temperature: float = 0.8,
    step_tokens: int = 96,
    judge_model: str | None = None,
    judge_tokens: int = 64,
) -> Answer:
    """Search ``depth`` levels: all but the last hold steps, the last holds answers.

    On each level every kept state gets ``proposals`` continuations, drawn at once. Of those the evaluator keeps
    ``breadth``, and one on the last level: by ``votes`` calls that each name the best of all (``vote``), or by
    one score a candidate (``value``). It is not asked where nothing is to be dropped, which is so when at most
    ``breadth`` different continuations (on the last level: one answer) are there. At most
    breadth * proposals calls for proposals a level, besides the verdicts.

    Kept are the calls on the path to the answer and the readable verdicts that kept it.
    """
    suits(problem, depth=depth, breadth=breadth, proposals=proposals, evaluator=evaluator, votes=votes)
    critic = Critic(problem=problem, ask=ask, noun="step", model=judge_model, max_tokens=judge_tokens)
    panel = _Panel(critic, evaluator, votes)
    states = [_State()]
    for _ in range(depth - 1):
        grown = await all_of(
            _step(problem, ask, state, i * proposals + j, temperature, step_tokens)
            for i, state in enumerate(states)
            for j in range(proposals)
        )
        states = await _pruned(_distinct(grown), panel, breadth)
    drafts = await all_of(
        _answer(problem, ask, state, i * proposals + j, temperature)
        for i, state in enumerate(states)
        for j in range(proposals)
    )
    return await _chosen(problem, drafts, replace(panel, critic=replace(critic, noun="answer")))


def suits(
    problem: Problem,
    *,
    depth: int = 2,
    breadth: int = 1,
    proposals: int = 3,
    evaluator: str = "vote",
    votes: int = 1,
    **_: object,
) -> None:
    for name, value in (("depth", depth), ("breadth", breadth), ("proposals", proposals), ("votes", votes)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; tree needs at least 1")
    if evaluator not in EVALUATORS:
        raise ConfigError(f"evaluator is {evaluator!r}; choose one of {', '.join(EVALUATORS)}")


@dataclass(frozen=True, slots=True)
class _Panel:
    """Ranks texts by verdicts."""

    critic: Critic
    evaluator: str
    votes: int

    async def rank(self, texts: Sequence[str]) -> tuple[list[int], list[Verdict]]:
        """Positions from best to worst (equals in the order given), and the verdicts."""
        if self.evaluator == "value":
            verdicts = await self.critic.rate(texts)
            points = [verdict.value or 0.0 for verdict in verdicts]
        else:
            verdicts = await all_of(self.critic.pick(texts, vote) for vote in range(self.votes))
            points = [float(sum(verdict.value == i for verdict in verdicts)) for i in range(len(texts))]
        return sorted(range(len(texts)), key=lambda i: -points[i]), verdicts


async def _step(problem: Problem, ask: Ask, state: _State, sample: int, temperature: float, step_tokens: int) -> _State:
    note = f"{_so_far(state)}{NEXT_STEP}" if any(state.steps) else FIRST_STEP
    reply = await ask(
        with_note(problem.messages, note),
        role="generate",
        sample=sample,
        temperature=temperature,
        max_tokens=step_tokens,
    )
    return _State((*state.steps, visible(reply.text).strip()), (*state.kept, reply.call_id))


async def _answer(problem: Problem, ask: Ask, state: _State, sample: int, temperature: float) -> Draft:
    messages: Sequence[Message] = problem.messages
    if any(state.steps):
        messages = with_note(problem.messages, f"{_so_far(state)}{ANSWER}")
    reply = await ask(messages, role="generate", sample=sample, temperature=temperature, max_tokens=problem.max_tokens)
    return Draft(reply=reply, kept=(*state.kept, reply.call_id), messages=tuple(messages))


def _so_far(state: _State) -> str:
    return "Considered so far:\n" + "\n".join(f"- {step}" for step in state.steps if step) + "\n\n"


def _distinct(states: Sequence[_State]) -> list[_State]:
    """The first state of each path; empty steps lead nowhere, unless there is no other."""
    first: dict[tuple[str, ...], _State] = {}
    for state in states:
        first.setdefault(tuple(" ".join(step.casefold().split()) for step in state.steps), state)
    told = [state for state in first.values() if state.steps[-1]]
    return told or list(first.values())


async def _pruned(states: list[_State], panel: _Panel, breadth: int) -> list[_State]:
    if len(states) <= breadth:
        return states
    order, verdicts = await panel.rank(["\n".join(state.steps) for state in states])
    return [replace(states[i], kept=(*states[i].kept, *_for(verdicts, i))) for i in order[:breadth]]


async def _chosen(problem: Problem, drafts: Sequence[Draft], panel: _Panel) -> Answer:
    candidates = candidates_of(problem, drafts)
    if len(candidates) == 1:
        return Answer(reply=candidates[0].draft.reply, kept=candidates[0].draft.kept)
    order, verdicts = await panel.rank([candidate.text for candidate in candidates])
    best = candidates[order[0]].draft
    marks = ("no_verdict",) if all(verdict.value is None for verdict in verdicts) else ()
    return Answer(reply=best.reply, kept=[*best.kept, *_for(verdicts, order[0])], marks=marks)


def _for(verdicts: Sequence[Verdict], i: int) -> list[str]:
    """Calls whose verdict speaks for candidate ``i``: its own score, or the votes for it."""
    return [
        verdict.call_id
        for verdict in verdicts
        if verdict.value is not None and (verdict.about == (i,) or (len(verdict.about) > 1 and verdict.value == i))
    ]
