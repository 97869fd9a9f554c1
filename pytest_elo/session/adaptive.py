"""The adaptive plan: once all answers of a run are there, judge the pairs that tell most, within a budget.

Which pair comes next depends on all verdicts so far, so it is decided in one place: by the controller, between
the last item and the report.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo.config import Settings
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.session.plan import Plan, condition_of
from pytest_elo.session.work import pair_tag

if TYPE_CHECKING:
    from pytest_elo.tasks.arena import ArenaTask, Contestant, Judge, Pairing, Ruling

__all__ = ["judge_what_waits", "waiting"]


def waiting(ledger: Ledger) -> Mapping[str, Path]:
    """Tasks whose pairs wait for the whole run, with the files that hold their prompts."""
    return {task_id: Path(data) for task_id, data in sorted(ledger.adaptive.items())}


def judge_what_waits(settings: Settings, plan: Plan, run_dir: RunDir, ledger: Ledger) -> None:
    """Judge every waiting task and fold votes, attempts and the saving into ``ledger``.

    Everything is journaled as it comes, so what an interrupt or a kill leaves is found again on resume. Raises
    ``EloError`` where a task cannot be loaded or its judges cannot be asked.
    """
    from pytest_elo.session.collect import Collector

    journal = Journal(run_dir.shards / "controller-judges.jsonl", plan.run_id)
    collector = Collector(settings)
    try:
        for task_id, data in waiting(ledger).items():
            task: ArenaTask = collector.load(task_id, "arena", data)  # type: ignore[assignment]
            journal.note(f"{task_id}: {asyncio.run(_judge(task, settings, plan, run_dir, journal, ledger))}")
    finally:
        journal.shut()
        ledger.add_lines(journal.take())


async def _judge(
    task: ArenaTask, settings: Settings, plan: Plan, run_dir: RunDir, journal: Journal, ledger: Ledger
) -> str:
    from pytest_elo.session.access import open_gateway
    from pytest_elo.tasks.arena import judge_adaptively, judges_of
    from pytest_elo.votes.verdicts import votes_of

    gateway = open_gateway(settings, plan, journal, run_dir.path, 1, lambda: math.inf)
    condition = condition_of(plan, settings, task)

    def judges(pairing: Pairing) -> Sequence[Judge]:
        tag = pair_tag(task.task_id, pairing, 0, condition)
        return judges_of(task, gateway.ask_as(tag, model=plan.model), plan.model)

    def settled(ruling: Ruling) -> None:
        for vote in votes_of(ruling.verdict, ruling.pair, task.judges or (plan.model,)):
            journal.vote(vote.to_dict())
        journal.settle(ruling.verdict.used_calls)

    try:
        _, saving = await judge_adaptively(task, _contestants(task, ledger), judges, settled=settled)
    finally:
        await gateway.aclose()
        gateway.close()
    return saving


def _contestants(task: ArenaTask, ledger: Ledger) -> Mapping[str, Sequence[Contestant]]:
    """The answers of the first repeat that can be judged, by item."""
    from pytest_elo.tasks.arena.judging import failure_of

    found: dict[str, list[Contestant]] = defaultdict(list)
    for outcome in ledger.outcomes():
        if outcome.task_id == task.task_id and outcome.repeat == 0:
            contestant = task.contestant(outcome, outcome.output or "")
            if failure_of(contestant) is None:
                found[outcome.item_id].append(contestant)
    return found
