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
    "gpqa": "pytest_elo.tasks.gpqa",
    "own": "pytest_elo.tasks.own",
    "swebench": "pytest_elo.tasks.swebench",
}


def load_task(
    task_id: str,
    kind: str,
    data: Path,
    options: Mapping[str, Any],
    defaults: Mapping[str, Any],
    where: str,
    named: str = "",
) -> Task:
    """Load the items of a task; raises ``ConfigError`` for a kind or option that does not exist.

    ``data`` is the file that the mark means and ``named`` what it says: a kind with a function
    ``find_data(named, path)`` may take what is no file. ``options`` are the task's section of ``elo.yaml`` and
    ``where`` names that file in errors; ``defaults`` (the run's seed, the folder that paths are relative to, ...)
    apply to the kinds that know them.
    """
    if kind not in KINDS:
        raise ConfigError(f"{where}: no task kind {kind!r}{did_you_mean(kind, KINDS)}")
    module = importlib.import_module(KINDS[kind])
    load = module.load
    known = set(inspect.signature(load).parameters) - {"path", "task_id"}
    settable = known - {"base"}
    for name in options:
        if name not in settable:
            raise ConfigError(f"{where}: tasks.{task_id}: unknown option {name!r}{did_you_mean(name, settable)}")
    find_data = getattr(module, "find_data", None)
    source = data if data.is_file() else find_data(named, data) if find_data is not None else None
    if source is None:
        raise DataError(f"{data}: no such file; the data of task {task_id!r} is looked up relative to its test file")
    applicable = {name: value for name, value in defaults.items() if name in known}
    task: Task = load(source, task_id=task_id, **(applicable | dict(options)))
    return task
