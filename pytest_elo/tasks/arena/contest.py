"""Judging what has been answered: one prompt at once, or a whole run with a budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_elo.errors import ConfigError
from pytest_elo.records import Ask, Outcome
from pytest_elo.tasks.arena.judging import Contestant, Judge, Pair, PairVerdict, judge_pair, together
from pytest_elo.tasks.arena.plans import AdaptivePlan, Pairing
from pytest_elo.tasks.arena.task import ArenaTask

__all__ = ["JudgesOf", "Ruling", "constant_answers", "judge_adaptively", "judge_item", "judge_pairings", "judges_of"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """A pair and what it came to."""

    pair: Pair
    verdict: PairVerdict


JudgesOf = Callable[[Pairing], Sequence[Judge]]
"""The judges of a pairing: each pair is asked about, and paid for, under its own name."""
Settled = Callable[[Ruling], None]
"""Told of every pair the moment it is judged, so that no verdict that was paid for is lost with the rest."""


def _unheard(_: Ruling) -> None:
    """Nobody asked to be told."""


def judges_of(task: ArenaTask, ask: Ask, own_model: str) -> tuple[Judge, ...]:
    """The panel of ``task`` asking through ``ask``; without a panel, the run's own model."""
    return tuple(Judge(model, ask, max_tokens=task.judge_max_tokens) for model in task.judges or (own_model,))


def constant_answers(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """A line for each policy that gave one answer to different prompts: a constant text can win a judge.

    ``outcomes`` are those of one arena task; their ``answer`` is the SHA-256 of the text.
    """
    items: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    answered: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.answer:
            items[outcome.strategy][outcome.answer].add(outcome.item_id)
            answered[outcome.strategy] += 1
    return tuple(
        f"{policy} gave the same answer to {most} different prompts (of {answered[policy]} answers)"
        for policy in sorted(items)
        if (most := max(map(len, items[policy].values()))) > 1
    )


async def judge_item(
    task: ArenaTask,
    item_id: str,
    contestants: Sequence[Contestant],
    judges: JudgesOf,
    *,
    anchor: str,
    repeat: int = 0,
    settled: Settled = _unheard,
) -> tuple[Ruling, ...]:
    """Judge all planned pairs of one prompt at once (plans ``all`` and ``anchor``)."""
    by_policy = {contestant.policy: contestant for contestant in contestants}
    pairings = task.pairings(item_id, list(by_policy), anchor)
    return await judge_pairings(task, pairings, contestants, judges, repeat=repeat, settled=settled)


async def judge_pairings(
    task: ArenaTask,
    pairings: Sequence[Pairing],
    contestants: Sequence[Contestant],
    judges: JudgesOf,
    *,
    repeat: int = 0,
    settled: Settled = _unheard,
) -> tuple[Ruling, ...]:
    """Judge these pairs of one prompt's answers at once; the rulings stand in the pairs' order."""
    by_item = {pairing.item_id: {c.policy: c for c in contestants} for pairing in pairings}
    return await _judge(task, pairings, by_item, judges, repeat, settled)


async def judge_adaptively(
    task: ArenaTask,
    contestants: Mapping[str, Sequence[Contestant]],
    judges: JudgesOf,
    *,
    settled: Settled = _unheard,
) -> tuple[tuple[Ruling, ...], str]:
    """Judge ``task.budget`` pairs of a finished run, the most informative first; also the saving as text.

    ``contestants`` holds the answers by item. Only items that every policy answered are drawn from, so
    the plan is a function of the answers and the verdicts and of nothing else. Raises
    :class:`ConfigError` without a budget.
    """
    if task.budget is None:
        raise ConfigError(f"tasks.{task.task_id}: the adaptive plan needs 'budget: <pairs>'")
    by_item = {item: {c.policy: c for c in answers} for item, answers in contestants.items()}
    policies = sorted({policy for answers in by_item.values() for policy in answers})
    complete = [item for item in task.item_ids if len(by_item.get(item, ())) == len(policies)]
    plan = AdaptivePlan(policies, complete, budget=task.budget)
    rulings: list[Ruling] = []
    while batch := plan.next_batch():
        judged = await _judge(task, batch, by_item, judges, 0, settled)
        plan.record((pairing, r.verdict.share) for pairing, r in zip(batch, judged, strict=True))
        rulings += judged
    return tuple(rulings), plan.saving


async def _judge(
    task: ArenaTask,
    pairings: Sequence[Pairing],
    contestants: Mapping[str, Mapping[str, Contestant]],
    judges: JudgesOf,
    repeat: int,
    settled: Settled,
) -> tuple[Ruling, ...]:
    async def ruling(pairing: Pairing) -> Ruling:
        pair = task.pair(pairing, contestants[pairing.item_id], repeat)
        found = Ruling(pair, await judge_pair(pair, judges(pairing), template=task.template))
        settled(found)
        return found

    return tuple(await together([ruling(pairing) for pairing in pairings]))
