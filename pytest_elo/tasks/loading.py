"""Task kinds by name, and how a test's ``elo`` mark becomes a task."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Task

__all__ = ["KINDS", "load_task"]

KINDS: Mapping[str, str] = {
    "arena": "pytest_elo.tasks.arena",
    "gpqa": "pytest_elo.tasks.gpqa",
    "own": "pytest_elo.tasks.own",
    "swebench": "pytest_elo.tasks.swebench",
}


def load_task(
    task_id: str, kind: str, data: Path, options: Mapping[str, Any], defaults: Mapping[str, Any], where: str
) -> Task:
    """Load the items of a task; raises ``ConfigError`` for a kind or option that does not exist.

    ``options`` are the task's section of ``elo.yaml`` and ``where`` names that file in errors; ``defaults``
    (the run's seed, ...) apply to the kinds that know them.
    """
    if kind not in KINDS:
        raise ConfigError(f"{where}: no task kind {kind!r}{did_you_mean(kind, KINDS)}")
    load = importlib.import_module(KINDS[kind]).load
    known = set(inspect.signature(load).parameters) - {"path", "task_id"}
    for name in options:
        if name not in known:
            raise ConfigError(f"{where}: tasks.{task_id}: unknown option {name!r}{did_you_mean(name, known)}")
    if not data.is_file():
        raise DataError(f"{data}: no such file; the data of task {task_id!r} is looked up relative to its test file")
    applicable = {name: value for name, value in defaults.items() if name in known}
    task: Task = load(data, task_id=task_id, **(applicable | dict(options)))
    return task
