"""What a run put to the vote: ``contests.jsonl``, one arena prompt a line, and the ballots that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.ledger.read import TEXT, Types, check_types, read_outcomes
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.tasks.arena.judging import Contestant, Pair
from pytest_elo.tasks.parsing import visible

__all__ = ["Contested", "pairs_of_run", "read_contests"]


TYPES: Types = {
    **dict.fromkeys(("task_id", "item_id", "prompt", "plan"), TEXT),
    "repeat": ("a whole number", int),
    "pairs": ("a list", list),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """One prompt in one repeat, as judges and voters see it, and the pairs that its plan holds."""

    task_id: str
    item_id: str
    repeat: int
    prompt: str
    plan: str
    pairs: Sequence[tuple[str, str]]


def read_contests(path: Path) -> Sequence[Contested]:
    """Raises :class:`DataError` naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    return tuple(_contest(line, f"{path}:{n}") for n, line in enumerate(lines, start=1) if line.strip())


def pairs_of_run(directory: Path) -> Sequence[Pair]:
    """The pairs of a run's arenas with the answers that its outcomes hold.

    Raises :class:`DataError` naming file and line.
    """
    run = RunDir(directory)
    answers = {
        (outcome.task_id, outcome.item_id, outcome.repeat, outcome.strategy): outcome
        for outcome in read_outcomes(run.outcomes, lambda _: None)
    }
    pairs = []
    for contest in read_contests(run.contests):
        place = (contest.task_id, contest.item_id, contest.repeat)
        for names in contest.pairs:
            found = [answers.get((*place, name)) for name in names]
            a, b = (Contestant.of(o, visible(o.output or "").strip()) if o is not None else None for o in found)
            if a is not None and b is not None:
                task, item, repeat = place
                pairs.append(Pair(task_id=task, item_id=item, prompt=contest.prompt, a=a, b=b, repeat=repeat))
    return pairs


def _contest(line: str, where: str) -> Contested:
    try:
        values: dict[str, Any] = parse_json(line)
        check_types(values, TYPES, where)
        named = {name: values[name] for name in ("task_id", "item_id", "repeat", "prompt", "plan")}
        pairs = [(a, b) for a, b in values["pairs"]]
        if not all(isinstance(name, str) for pair in pairs for name in pair):
            raise TypeError("pairs hold names")
        return Contested(**named, pairs=pairs)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: not a contest ({error}); is this a file of pytest-elo?") from None
