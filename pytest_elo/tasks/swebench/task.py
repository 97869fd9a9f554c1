"""The SWE-bench task: instances, how they are posed, and where they are run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.containers import ContainerRunner, find_engine
from pytest_elo.tasks.swebench.generate import prompts
from pytest_elo.tasks.swebench.generate.ranking import rank
from pytest_elo.tasks.swebench.generate.settings import GeneratorName, GeneratorSettings, Material
from pytest_elo.tasks.swebench.generate.sources import Sources, is_source
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

__all__ = ["RUNNERS", "SweBenchTask", "default_cache", "load"]

RUNNERS = ("local", "docker", "import")
GENERATORS = ("map", "single", "agent")
_KEPT_MATERIALS = 4
"""Repositories whose sources stay in memory (15 MB of text for the largest)."""


class SweBenchTask:
    """Instances as a task.

    Loading it reads the dataset and nothing else: no sandbox is tried before an item is posed, so a machine
    that can run none still collects, and each item's ``preflight`` says why it is skipped.

    Args:
        make_runner: called once, when a runner is first needed.
        setting: what of the runner's settings decides verdicts; part of the fingerprint.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        make_runner: Callable[[], Runner],
        mirrors: Mirrors,
        settings: GeneratorSettings | None = None,
        *,
        task_id: str = "swebench",
        artefacts: Path | None = None,
        setting: Sequence[Any] = (),
    ) -> None:
        self.task_id = task_id
        self._instances = {instance.instance_id: instance for instance in instances}
        self._make_runner = make_runner
        self._runner: Runner | None = None
        self._mirrors = mirrors
        self._settings = settings or GeneratorSettings()
        self._artefacts = artefacts
        self._setting = list(setting)
        self._lock = threading.Lock()
        self._materials: OrderedDict[str, Material] = OrderedDict()

    @property
    def item_ids(self) -> Sequence[str]:
        return tuple(self._instances)

    @property
    def fingerprint(self) -> str:
        parts = [
            GRADER_VERSION,
            self._setting,
            dataclasses.asdict(self._settings),
            [prompts.AGENT, prompts.EDIT_FORMAT, prompts.DIFF_FORMAT],
            prompts.localise_prompt("", "", 0) + prompts.edit_prompt("", []) + prompts.repair_prompt([], []),
            [(instance.fingerprint, instance.problem_statement) for instance in self._instances.values()],
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def warnings(self) -> Sequence[str]:
        found = []
        if "none" in self._setting:
            found.append("model-written code runs WITHOUT a sandbox (sandbox: none)")
        if "local" in self._setting:
            found.append("verdicts of the local runner are unofficial; compare within one machine")
        return tuple(found)

    def pose(self, item_id: str, repeat: int) -> SweBenchProblem:
        return SweBenchProblem(
            self._instances[item_id],
            repeat,
            task_id=self.task_id,
            runner=self.runner,
            material=self.material,
            settings=self._settings,
            known_ids=self._instances,
            artefacts=self._artefacts,
        )

    def runner(self) -> Runner:
        """The runner, made on first use. Raises ``ConfigError`` when this machine cannot run it."""
        with self._lock:
            if self._runner is None:
                self._runner = self._make_runner()
            return self._runner

    def material(self, instance: Instance) -> Material:
        """Issue and ranked files of an instance; seconds for a large repository, then kept for a while."""
        key = instance.instance_id
        with self._lock:
            if key not in self._materials:
                self._materials[key] = _material(instance, self._mirrors, self._settings.include_hints)
            self._materials.move_to_end(key)
            while len(self._materials) > _KEPT_MATERIALS:
                self._materials.popitem(last=False)
            return self._materials[key]


def _material(instance: Instance, mirrors: Mirrors, include_hints: bool) -> Material:
    sources = Sources(mirrors.holding(instance.repo, instance.base_commit), instance.base_commit)
    issue = instance.problem_statement
    if include_hints and instance.hints:
        issue += f"\n\nFrom the discussion of the issue:\n{instance.hints}"
    paths = [path for path in sources.paths if is_source(path)]
    sources.load(paths)
    texts = {path: text for path in paths if (text := sources.read(path)) is not None}
    return Material(issue=issue, ranked=rank(issue, texts), read=sources.read)


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/pytest-elo/swebench``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pytest-elo" / "swebench"


def load(
    path: str | Path,
    *,
    task_id: str = "swebench",
    only: Sequence[str] = (),
    split: str = "test",
    runner: str = "local",
    sandbox: str = "auto",
    network: Network | None = None,
    engine: str = "auto",
    report: str | Path | None = None,
    cache: str | Path | None = None,
    cache_max_gb: float = 20.0,
    mirror_dir: str | Path | None = None,
    repositories: Mapping[str, str] | None = None,
    environments: str | Path | None = None,
    limits: Mapping[str, Any] | None = None,
    disk_mb: int = 1024,
    artefacts: str | Path | None = None,
    generator: GeneratorName = "map",
    max_context_tokens: int = 100_000,
    include_repo_map: bool = True,
    map_tokens: int = 20_000,
    include_hints: bool = False,
    max_files: int = 5,
    max_tokens: int = 8192,
    max_steps: int = 250,
    command_s: float = 60.0,
    observation_chars: int = 10_000,
    agent_wall_s: float = 3600.0,
    agent_tokens: int = 2_000_000,
) -> SweBenchTask:
    """A task from the settings of ``elo.yaml``. Relative paths are relative to the dataset's folder.

    Args:
        path: dataset (see ``load_instances``); ``only`` and ``split`` choose from it.
        runner: ``local``, ``docker`` (``engine`` names docker or podman) or ``import`` (with ``report``).
        sandbox: ``auto``, ``bubblewrap``, ``unshare``, or ``none`` (unprotected, on request only).
        network: overrides what the environments ask for: ``none``, ``sink`` or ``host``.
        cache, cache_max_gb: where environments, trees and verdicts are kept, and how much of the first two.
        mirror_dir, repositories: copies of repositories (default: ``repositories`` beside the dataset, where
            there is one); everything else is cloned once.
        environments: a JSON file of environments (default: ``environments.json`` beside the dataset, where
            there is one) that goes before the shipped ones.
        limits: fields of ``Limits``; ``disk_mb`` is the size of the tree and of ``/tmp`` inside, each.
        artefacts: a folder for each graded patch's ``report.json``, ``patch.diff`` and ``test_output.txt``.

    The settings from ``generator`` on are those of ``GeneratorSettings``.

    Raises:
        ConfigError, DataError: one line that names the setting, file or column and what to do.
    """
    for name, value, known in (("runner", runner, RUNNERS), ("generator", generator, GENERATORS)):
        if value not in known:
            raise ConfigError(f"tasks.{task_id}: {name} is {value!r}; choose one of {', '.join(known)}")
    here = Path(path).parent if Path(path).exists() else Path()
    folder = Path(cache).expanduser() if cache else default_cache()
    checked = _limits(limits or {}, task_id)
    mirrors = Mirrors(
        folder=folder / "mirrors",
        mirror_dir=_beside(here, mirror_dir, "repositories"),
        repositories={repo: _address(here, source) for repo, source in (repositories or {}).items()},
    )
    specs_file = _beside(here, environments, "environments.json")
    specs = known_specs(specs_file)
    if runner == "import" and report is None:
        raise ConfigError(f"tasks.{task_id}: runner 'import' needs 'report': an official report or logs folder")

    def make_runner() -> Runner:
        if runner == "import":
            return ReportRunner(here / str(report))
        prune([folder / "environments", folder / "trees"], int(cache_max_gb * 1e9))
        if runner == "docker":
            return ContainerRunner(engine=find_engine(engine), cache=folder, limits=checked)
        chosen = choose_sandbox(sandbox)
        return LocalRunner(
            sandbox=chosen,
            cache=folder,
            mirrors=dataclasses.replace(mirrors, wrap=chosen.contain([])),
            specs=specs,
            network=network,
            limits=checked,
            disk_mb=disk_mb,
        )

    return SweBenchTask(
        load_instances(path, split=split, only=only),
        make_runner,
        mirrors,
        GeneratorSettings(
            generator=generator,
            max_context_tokens=max_context_tokens,
            include_repo_map=include_repo_map,
            map_tokens=map_tokens,
            include_hints=include_hints,
            max_files=max_files,
            max_tokens=max_tokens,
            max_steps=max_steps,
            command_s=command_s,
            observation_chars=observation_chars,
            agent_wall_s=agent_wall_s,
            agent_tokens=agent_tokens,
        ),
        task_id=task_id,
        artefacts=here / artefacts if artefacts else None,
        setting=[runner, *([sandbox, network] if runner == "local" else []), dataclasses.asdict(checked), disk_mb],
    )


def _beside(here: Path, given: str | Path | None, usual: str) -> Path | None:
    """A setting's path, or the usual one beside the dataset where there is one."""
    if given is not None:
        return here / Path(given).expanduser()
    return here / usual if (here / usual).exists() else None


def _address(here: Path, source: str) -> str:
    """A path relative to the dataset, or an address as it is."""
    path = here / Path(source).expanduser()
    return str(path) if path.exists() else source


def _limits(values: Mapping[str, Any], task_id: str) -> Limits:
    names = {field.name for field in dataclasses.fields(Limits)}
    for key in values:
        if key not in names:
            raise ConfigError(f"tasks.{task_id}: limits has no {key!r} (known: {', '.join(sorted(names))})")
    return Limits(**values)
