"""Two runs side by side: which items stand in both, whether they may be compared, and which ones flipped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_elo.errors import ConfigError
from pytest_elo.gates.snapshot import Cell, Snapshot

__all__ = ["CONDITIONS", "Flip", "Pairing", "Slice", "differences", "pair", "require_comparable"]

CONDITIONS = ("model", "endpoint", "seed", "grading")
"""What must be equal in two runs; each can be allowed to differ by name, when it is what is under test."""

NAMED_AT_MOST = 5

Slice = tuple[str | None, str]
"""task (``None``: all of them) and strategy"""


@dataclass(frozen=True, slots=True)
class Flip:
    """An item whose score changed."""

    item: str
    """``task/item``"""
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.item} ({self.before:g} -> {self.after:g})"


@dataclass(frozen=True, slots=True)
class Pairing:
    """One strategy's items that both runs scored, in one order."""

    strategy: str
    tasks: tuple[str, ...]
    items: tuple[str, ...] = field(repr=False)
    """``task/item``"""
    ours: tuple[Cell, ...] = field(repr=False)
    theirs: tuple[Cell, ...] = field(repr=False)
    item_tasks: tuple[str, ...] = field(repr=False)
    only_ours: int
    only_theirs: int
    prompts_changed: int

    @property
    def scores(self) -> tuple[list[float], list[float]]:
        return [cell.score for cell in self.ours], [cell.score for cell in self.theirs]

    @property
    def worse(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self._flips() if flip.after < flip.before)

    @property
    def better(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self._flips() if flip.after > flip.before)

    def _flips(self) -> Iterator[Flip]:
        for item, mine, other in zip(self.items, self.ours, self.theirs, strict=True):
            if mine.score != other.score:
                yield Flip(item, other.score, mine.score)

    def remarks(self, theirs: str) -> Iterator[str]:
        """What a reader must know of the pairing, one sentence each."""
        if self.prompts_changed:
            yield f"the prompts of {self.prompts_changed} of {len(self.items)} items differ from {theirs}'s"
        if self.only_ours:
            yield f"{self.only_ours} items are new and have no partner in {theirs}"
        if self.only_theirs:
            yield f"{self.only_theirs} items of {theirs} were not scored here and are left out"


def pair(ours: Snapshot, theirs: Snapshot, where: Slice) -> Pairing:
    """Align the two runs' cells of one strategy, in one task or in all."""
    task, strategy = where

    def mine(snapshot: Snapshot) -> dict[tuple[str, str], Cell]:
        return {
            (key[0], key[1]): cell
            for key, cell in snapshot.cells.items()
            if key[2] == strategy and task in (None, key[0])
        }

    left, right = mine(ours), mine(theirs)
    both = sorted(left.keys() & right.keys())
    return Pairing(
        strategy=strategy,
        tasks=tuple(sorted({task_id for task_id, _ in both})),
        items=tuple(f"{task_id}/{item}" for task_id, item in both),
        ours=tuple(left[key] for key in both),
        theirs=tuple(right[key] for key in both),
        item_tasks=tuple(task_id for task_id, _ in both),
        only_ours=len(left.keys() - right.keys()),
        only_theirs=len(right.keys() - left.keys()),
        prompts_changed=sum(_differ(left[key].prompt, right[key].prompt) for key in both),
    )


def _differ(ours: str, theirs: str) -> bool:
    return bool(ours and theirs) and ours != theirs


def differences(ours: Snapshot, theirs: Snapshot) -> dict[str, str]:
    """Which of ``CONDITIONS`` differ, each with a clause that names both sides."""
    mine, other = ours.facts, theirs.facts
    found: dict[str, str] = {}
    if mine.models != other.models:
        found["model"] = f"model {_listed(mine.models)} here, {_listed(other.models)} in {theirs.name}"
    if mine.endpoint and other.endpoint and mine.endpoint != other.endpoint:
        found["endpoint"] = f"endpoint {mine.endpoint[:24]} here, {other.endpoint[:24]} in {theirs.name}"
    if mine.seed is not None and other.seed is not None and mine.seed != other.seed:
        found["seed"] = f"seed {mine.seed} here, {other.seed} in {theirs.name}"
    regraded = sorted(
        {
            f"{key[0]}/{key[1]}"
            for key in ours.cells.keys() & theirs.cells.keys()
            if _differ(ours.cells[key].grading, theirs.cells[key].grading)
        }
    )
    if regraded:
        found["grading"] = f"the answer key or the grading rules of {_some(regraded)} changed"
    return found


def require_comparable(ours: Snapshot, theirs: Snapshot, allowed: Collection[str] = ()) -> list[str]:
    """Sentences about allowed differences; raises ``ConfigError`` naming every other one.

    The strategies' settings and the prompts are what competes, so they may differ.
    """
    found = differences(ours, theirs)
    refused = [clause for name, clause in found.items() if name not in allowed]
    if refused:
        names = ", ".join(name for name in found if name not in allowed)
        raise ConfigError(
            f"{ours.name} and {theirs.name} are runs of different conditions: {'; '.join(refused)}. Save a new "
            f"baseline under the new condition, or allow what is under test (allow: {names})"
        )
    return [f"allowed to differ: {clause}" for clause in found.values()] + list(_competing(ours, theirs))


def _competing(ours: Snapshot, theirs: Snapshot) -> Iterator[str]:
    dates = ours.facts.prices_date, theirs.facts.prices_date
    if all(dates) and dates[0] != dates[1]:
        yield f"USD stand on the prices of {dates[0]} here and of {dates[1]} in {theirs.name}"
    mine, other = ours.facts.strategies, theirs.facts.strategies
    for name in sorted(mine.keys() & other.keys()):
        if mine[name] != other[name]:
            yield f"{name} is {_settings(mine[name])} here and {_settings(other[name])} in {theirs.name}"


def _settings(values: object) -> str:
    if not isinstance(values, dict):
        return str(values)
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) or "none"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_AT_MOST])
    return shown if len(names) <= NAMED_AT_MOST else f"{shown} and {len(names) - NAMED_AT_MOST} more items"
