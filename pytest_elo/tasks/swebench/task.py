"""The SWE-bench task: instances, how they are posed, and where they are run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.containers import ContainerRunner, find_engine
from pytest_elo.tasks.swebench.generate import prompts
from pytest_elo.tasks.swebench.generate.draft import GeneratorSettings
from pytest_elo.tasks.swebench.grading import GRADER_VERSION
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.environments import known_specs
from pytest_elo.tasks.swebench.local.mirrors import Mirrors
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.locks import prune
from pytest_elo.tasks.swebench.problem import SweBenchProblem
from pytest_elo.tasks.swebench.reports import ReportRunner
from pytest_elo.tasks.swebench.rows import load_instances
from pytest_elo.tasks.swebench.runner import Runner
from pytest_elo.tasks.swebench.sandbox import Limits, Network, choose_sandbox

__all__ = ["SweBenchTask", "default_cache", "swebench_task"]

RunnerName = Literal["local", "docker", "import"]


class SweBenchTask:
    """Instances as a task. Loading it runs nothing and needs no sandbox; posing and grading do."""

    def __init__(
        self,
        instances: Sequence[Instance],
        runner: Runner,
        mirrors: Mirrors,
        settings: GeneratorSettings | None = None,
        *,
        task_id: str = "swebench",
        artefacts: Path | None = None,
    ) -> None:
        self.task_id = task_id
        self._instances = {instance.instance_id: instance for instance in instances}
        self._runner = runner
        self._mirrors = mirrors
        self._settings = settings or GeneratorSettings()
        self._artefacts = artefacts

    @property
    def item_ids(self) -> Sequence[str]:
        return tuple(self._instances)

    @property
    def fingerprint(self) -> str:
        parts = [
            GRADER_VERSION,
            self._runner.name,
            dataclasses.asdict(self._settings),
            [prompts.AGENT, prompts.EDIT_FORMAT, prompts.DIFF_FORMAT],
            prompts.localise_prompt("", "", 0) + prompts.edit_prompt("", []) + prompts.repair_prompt([], []),
            [(instance.fingerprint, instance.problem_statement) for instance in self._instances.values()],
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def warnings(self) -> Sequence[str]:
        found = []
        if self._runner.name == "local/none":
            found.append("swebench: model-written code runs WITHOUT a sandbox (sandbox: none)")
        if self._runner.name.startswith("local/"):
            found.append("swebench: verdicts of the local runner are unofficial; compare within this machine")
        return tuple(found)

    def pose(self, item_id: str, repeat: int) -> SweBenchProblem:
        return SweBenchProblem(
            self._instances[item_id],
            repeat,
            task_id=self.task_id,
            runner=self._runner,
            mirrors=self._mirrors,
            settings=self._settings,
            artefacts=self._artefacts,
        )


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/pytest-elo/swebench``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pytest-elo" / "swebench"


def swebench_task(
    data: str | Path,
    *,
    only: Sequence[str] = (),
    split: str = "test",
    runner: RunnerName = "local",
    sandbox: str = "auto",
    network: Network | None = None,
    engine: str = "auto",
    report: Path | None = None,
    cache: Path | None = None,
    cache_max_gb: float = 20.0,
    mirror_dir: Path | None = None,
    repositories: Mapping[str, str] | None = None,
    environments: Path | None = None,
    limits: Mapping[str, Any] | None = None,
    disk_mb: int = 1024,
    artefacts: Path | None = None,
    **generation: Any,
) -> SweBenchTask:
    """A task from settings, as ``elo.yaml`` gives them.

    Args:
        data: dataset (see ``load_instances``); ``only`` and ``split`` choose from it.
        runner: ``local``, ``docker`` or ``import`` (with ``report``).
        sandbox: ``auto``, ``bubblewrap``, ``unshare``, or ``none`` (unprotected, on request only).
        network: overrides what the environments ask for.
        mirror_dir, repositories: copies of repositories; everything else is cloned once.
        cache, cache_max_gb: where environments, trees and verdicts are kept, and how much of the first two.
        environments: a JSON file of environments beside the shipped ones.
        limits: fields of ``Limits``; ``disk_mb`` is the size of the tree and of ``/tmp`` inside, each.
        generation: fields of ``GeneratorSettings``.

    Raises:
        ConfigError, DataError: one line that names the setting, file or column and what to do.
    """
    folder = cache or default_cache()
    prune([folder / "environments", folder / "trees"], int(cache_max_gb * 1e9))
    checked = Limits(**_known(Limits, limits or {}, "swebench.limits"))
    settings = GeneratorSettings(**_known(GeneratorSettings, generation, "swebench"))
    mirrors = Mirrors(folder=folder / "mirrors", mirror_dir=mirror_dir, repositories=dict(repositories or {}))
    made: Runner
    if runner == "local":
        chosen = choose_sandbox(sandbox)
        mirrors = dataclasses.replace(mirrors, wrap=chosen.contain([]))
        made = LocalRunner(
            sandbox=chosen,
            cache=folder,
            mirrors=mirrors,
            specs=known_specs(environments),
            network=network,
            limits=checked,
            disk_mb=disk_mb,
        )
    elif runner == "docker":
        made = ContainerRunner(engine=find_engine(engine), cache=folder, limits=checked)
    elif runner == "import":
        if report is None:
            raise ConfigError(
                "swebench: runner 'import' needs swebench.report, an official report or logs folder"
            )
        made = ReportRunner(report)
    else:
        raise ConfigError(f"swebench: no runner {runner!r}; choose local, docker or import")
    return SweBenchTask(
        load_instances(data, split=split, only=only), made, mirrors, settings, artefacts=artefacts
    )


def _known(kind: Any, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(kind)}
    for key in values:
        if key not in names:
            raise ConfigError(f"{where}: no setting {key!r} (known: {', '.join(sorted(names))})")
    return dict(values)
