"""From ``@pytest.mark.elo`` to parameters: one per item, strategy and repeat, the same in every process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.config import Settings, StrategySpec
from pytest_elo.errors import ConfigError
from pytest_elo.records import Task
from pytest_elo.session.contest import ContestKey
from pytest_elo.session.trial import TrialKey
from pytest_elo.strategies.registry import check, check_problem
from pytest_elo.tasks.loading import load_task

__all__ = ["Collector"]

MARK_HELP = '@pytest.mark.elo("gpqa", data="questions.csv") names the task and its data'


class Collector:
    """Loads each task once a process and lists its trials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tasks: dict[tuple[str, str], Task] = {}
        self._tests: dict[str, str] = {}
        self._checked = False
        self.warnings: list[str] = []

    def trials(self, mark: pytest.Mark, module: Path, test: str) -> tuple[list[TrialKey] | list[ContestKey], list[str]]:
        """What the items of a marked test stand for, and their ids.

        A trial each (``<item>-<strategy>[-rep<n>]``), or in an arena a contest each (``<item>[-rep<n>]``).
        Raises ``ConfigError`` or ``DataError``.
        """
        self._check_strategies()
        task = self._task(mark, module)
        first = self._tests.setdefault(task.task_id, test)
        if first != test:
            raise ConfigError(
                f"{first} and {test} both hold task {task.task_id!r}, so each of its outcomes would be there twice; "
                "give one of them another task name in its elo mark"
            )
        item_ids = task.item_ids[: self._settings.limit]
        self._check_problems(task, item_ids)
        trials = list(self._keys(task, item_ids))
        if not getattr(task, "judged_in_pairs", False):
            return trials, [self._id(key, f"-{key.strategy}") for key in trials]
        contests = list(self._contests(trials))
        return contests, [self._id(key) for key in contests]

    def _contests(self, trials: Sequence[TrialKey]) -> Iterator[ContestKey]:
        for _, group in groupby(trials, key=lambda key: (key.item_id, key.repeat)):
            found = tuple(group)
            task: Any = found[0].task
            key = ContestKey(task, found[0].task_id, found[0].item_id, found[0].repeat, found)
            if len(found) > 1:
                key.pairings(self._settings.anchor)  # a plan that cannot be kept is refused before anything is bought
            yield key

    def _keys(self, task: Task, item_ids: Sequence[str]) -> Iterator[TrialKey]:
        for item_id in item_ids:
            for repeat in range(self._settings.repeats):
                for spec in self._order(task.task_id, item_id, repeat):
                    yield TrialKey(task, task.task_id, item_id, spec, spec.name, repeat)

    def _order(self, task_id: str, item_id: str, repeat: int) -> list[StrategySpec]:
        # A warm prompt cache favours whichever strategy comes second, so none always does.
        specs = list(self._settings.strategies_of(task_id))
        if len(specs) < 2:
            return specs
        random.Random(f"{self._settings.seed}/{task_id}/{item_id}/{repeat}").shuffle(specs)
        return specs

    def _id(self, key: TrialKey | ContestKey, strategy: str = "") -> str:
        suffix = f"-rep{key.repeat}" if self._settings.repeats > 1 else ""
        return f"{key.item_id}{strategy}{suffix}"

    def _task(self, mark: pytest.Mark, module: Path) -> Task:
        named = mark.args[0] if len(mark.args) == 1 else None
        if named is not None and not isinstance(named, str):
            task: Task = named
            return task
        configured = self._settings.tasks.get(named, {}).get("data") if named is not None else None
        data = mark.kwargs.get("data", configured)
        if named is None or not isinstance(data, str | Path):
            raise ConfigError(f"{module}: the elo mark is incomplete: {MARK_HELP}")
        return self.load(named, mark.kwargs.get("kind", named), _data_file(module.parent, str(data)), str(data))

    def load(self, named: str, kind: str, path: Path, data: str = "") -> Task:
        """The task of a name, loaded once from its data file, which the mark calls ``data``.

        Raises ``ConfigError`` or ``DataError``.
        """
        options = {k: v for k, v in self._settings.tasks.get(named, {}).items() if k not in ("data", "strategies")}
        cached = self._tasks.get((named, str(path)))
        if cached is None:
            where = str(self._settings.path)
            options |= self._settings.kind_options.get(kind, {})
            defaults: dict[str, Any] = {"seed": self._settings.seed}
            if self._settings.path is not None:
                defaults["base"] = self._settings.path.parent
            if self._settings.max_tokens is not None:
                defaults["max_tokens"] = self._settings.max_tokens
            cached = load_task(named, kind, path, options, defaults, where, data or str(path))
            self._tasks[named, str(path)] = cached
            self.warnings.extend(f"{named}: {warning}" for warning in cached.warnings)
        return cached

    def _check_problems(self, task: Task, item_ids: Sequence[str]) -> None:
        # Items of one task may differ in what they offer (an own task's checks do). A task that knows which of
        # them differ says so, and posing one of each is enough; of any other all are looked at.
        distinct: Sequence[str] | None = getattr(task, "distinct_ids", None)
        if distinct is not None:
            chosen = set(item_ids)
            item_ids = [item_id for item_id in distinct if item_id in chosen]
        for item_id in item_ids:
            problem = task.pose(item_id, 0)
            for spec in self._settings.strategies_of(task.task_id):
                check_problem(spec.name, spec.kind, spec.parameters, problem)

    def _check_strategies(self) -> None:
        if not self._checked:
            for spec in self._settings.strategies:
                check(spec.name, spec.kind, spec.parameters)
            self._checked = True


def _data_file(folder: Path, data: str) -> Path:
    """The file of a mark's ``data``; a bare name such as ``gpqa_diamond`` is looked for beside the test."""
    if not Path(data).suffix:
        for place in ("", "data/"):
            for suffix in (".csv", ".jsonl", ".json", ".parquet"):
                if (candidate := folder / f"{place}{data}{suffix}").is_file():
                    return candidate.resolve()
    return (folder / data).resolve()
