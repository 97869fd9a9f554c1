"""The arena: prompts without a right answer, contestants judged against each other in pairs.

``load`` makes the task; ``judge_item`` and ``judge_adaptively`` turn its answers into rulings.
"""

from __future__ import annotations

from pytest_elo.tasks.arena.contest import (
    Ruling,
    constant_answers,
    judge_adaptively,
    judge_item,
    judge_pairings,
    judges_of,
)
from pytest_elo.tasks.arena.judging import ANSWERED, Contestant, Judge, OrderVerdict, Pair, PairVerdict, judge_pair
from pytest_elo.tasks.arena.plans import Pairing
from pytest_elo.tasks.arena.task import ArenaProblem, ArenaTask, load
from pytest_elo.tasks.arena.template import DEFAULT_TEMPLATE, JudgeTemplate

__all__ = [
    "ANSWERED",
    "DEFAULT_TEMPLATE",
    "ArenaProblem",
    "ArenaTask",
    "Contestant",
    "Judge",
    "JudgeTemplate",
    "OrderVerdict",
    "Pair",
    "PairVerdict",
    "Pairing",
    "Ruling",
    "constant_answers",
    "judge_adaptively",
    "judge_item",
    "judge_pair",
    "judge_pairings",
    "judges_of",
    "load",
]
