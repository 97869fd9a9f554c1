"""The SWE-bench task: instances, how they are posed, and where they are run."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
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
from pytest_elo.tasks.swebench.predictions import Prediction, read_predictions
from pytest_elo.tasks.swebench.problem import SweBenchProblem
from pytest_elo.tasks.swebench.reports import ReportRunner
from pytest_elo.tasks.swebench.rows import instance_ids, load_instances
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
    that can run none still collects, and each item's ``preflight`` says why it is skipped. It has no
    ``distinct_ids``: a file of predictions may lack any single instance, so all are looked at (nothing is read for it).

    Args:
        make_runner: called once, when a runner is first needed.
        setting: what of the runner's settings decides verdicts; part of the fingerprint.
        base: the folder that relative paths of predictions are relative to.
        known_ids: gives the ids that predictions may be for (default: those of the instances); the dataset may
            hold more than are run.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        make_runner: Callable[[], Runner],
        mirrors: Mirrors,
        settings: GeneratorSettings | None = None,
        *,
        task_id: str = "swebench",
        patch_dir: Path | None = None,
        setting: Sequence[Any] = (),
        base: Path | None = None,
        known_ids: Callable[[], Collection[str]] | None = None,
    ) -> None:
        self.task_id = task_id
        self._instances = {instance.instance_id: instance for instance in instances}
        self._make_runner = make_runner
        self._runner: Runner | None = None
        self._mirrors = mirrors
        self._settings = settings or GeneratorSettings()
        self._patch_dir = patch_dir
        self._setting = list(setting)
        self._lock = threading.Lock()
        self._materials: OrderedDict[str, Material] = OrderedDict()
        self._base = base
        self._known_ids = known_ids or (lambda: self._instances)
        self._predictions: dict[str, Mapping[str, Prediction]] = {}

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
            predictions=self.predictions,
            patch_dir=self._patch_dir,
        )

    def runner(self) -> Runner:
        """The runner, made on first use. Raises ``ConfigError`` when this machine cannot run it."""
        with self._lock:
            if self._runner is None:
                self._runner = self._make_runner()
            return self._runner

    def predictions(self, path: str) -> Mapping[str, Prediction]:
        """The predictions of a file, read once. Raises ``DataError`` naming file and line."""
        with self._lock:
            if path not in self._predictions:
                self._predictions[path] = read_predictions(Path(self._base or "", path), self._known_ids())
            return self._predictions[path]

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
    base: str | Path | None = None,
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
    repo_cache: str | Path | None = None,
    repositories: Mapping[str, str] | None = None,
    environments: str | Path | None = None,
    test_command: str = "",
    limits: Mapping[str, Any] | None = None,
    test_timeout: float | None = None,
    patch_apply_timeout: float | None = None,
    disk_mb: int = 1024,
    max_workers: int | None = None,
    patch_dir: str | Path | None = None,
    generator: GeneratorName = "map",
    max_context_tokens: int = 100_000,
    include_repo_map: bool = True,
    map_tokens: int = 20_000,
    include_hints: bool = False,
    system: str = "",
    max_files: int = 5,
    max_tokens: int = 8192,
    max_steps: int = 250,
    command_s: float = 60.0,
    observation_chars: int = 10_000,
    agent_wall_s: float = 3600.0,
    agent_tokens: int = 2_000_000,
) -> SweBenchTask:
    """A task from the settings of ``elo.yaml``.

    Args:
        base: the folder that relative paths are relative to (default: the dataset's).
        path: dataset (see ``load_instances``); ``only`` and ``split`` choose from it.
        runner: ``local``, ``docker`` (``engine`` names docker or podman) or ``import`` (with ``report``).
        sandbox: ``auto``, ``bwrap``, ``unshare``, or ``none`` (unprotected, on request only).
        network: overrides what the environments ask for: ``none``, ``sink`` or ``host``.
        cache, cache_max_gb: where environments, trees and verdicts are kept, and how much of the first two.
        repositories: addresses or paths by ``owner/name``, and folders of copies: ``mirror_dir``, ``repo_cache``
            and ``repositories`` beside the dataset. What is in none of them is cloned once, into the cache or
            into ``pytest-elo`` below ``repo_cache``.
        environments: a JSON file of environments (default: ``environments.json`` beside the dataset, where
            there is one) that goes before the shipped ones.
        test_command: in place of each row's own, such as ``pytest -q``; the test files are appended.
        limits: fields of ``Limits``, of which ``test_timeout`` and ``patch_apply_timeout`` are ``wall_s`` and
            ``apply_s``; ``disk_mb`` is the size of the tree and of ``/tmp`` inside, each.
        max_workers: test runs at a time on this machine (default: one a core).
        patch_dir: a folder for each graded patch's ``report.json``, ``patch.diff`` and ``test_output.txt``.

    The settings from ``generator`` on are those of ``GeneratorSettings``.

    Raises:
        ConfigError, DataError: one line that names the setting, file or column and what to do.
    """
    for name, value, known in (("runner", runner, RUNNERS), ("generator", generator, GENERATORS)):
        if value not in known:
            raise ConfigError(f"tasks.{task_id}: {name} is {value!r}; choose one of {', '.join(known)}")
    beside = Path(path).parent if Path(path).exists() else Path()
    here = Path(base) if base is not None else beside
    folder = here / Path(cache).expanduser() if cache else default_cache()
    given = {"wall_s": test_timeout, "apply_s": patch_apply_timeout}
    checked = _limits({**(limits or {}), **{key: value for key, value in given.items() if value is not None}}, task_id)
    workers = max_workers if max_workers is not None else os.cpu_count() or 1
    if workers < 1:
        raise ConfigError(f"tasks.{task_id}: max_workers is {workers}; give at least 1")
    shipped = beside / "repositories"
    mirrors = Mirrors(
        folder=here / Path(repo_cache).expanduser() / "pytest-elo" if repo_cache else folder / "mirrors",
        mirror_dirs=_folders(here, mirror_dir, repo_cache) + ((shipped,) if shipped.is_dir() else ()),
        repositories={repo: _address(here, source) for repo, source in (repositories or {}).items()},
    )
    specs_file = _chosen(here, environments, beside / "environments.json")
    specs = known_specs(specs_file)
    if runner == "import" and report is None:
        raise ConfigError(f"tasks.{task_id}: runner 'import' needs 'report': an official report or logs folder")

    def make_runner() -> Runner:
        if runner == "import":
            return ReportRunner(here / str(report))
        _fence_off(folder)
        prune([folder / "environments", folder / "trees"], int(cache_max_gb * 1e9))
        if runner == "docker":
            return ContainerRunner(engine=find_engine(engine), cache=folder, limits=checked, max_workers=workers)
        chosen = choose_sandbox(sandbox)
        if shutil.which("git") is None:
            raise ConfigError("swebench: git is not installed; run: apt install git (or your system's like)")
        return LocalRunner(
            sandbox=chosen,
            cache=folder,
            mirrors=dataclasses.replace(mirrors, wrap=chosen.contain([])),
            specs=specs,
            network=network,
            limits=checked,
            disk_mb=disk_mb,
            max_workers=workers,
        )

    return SweBenchTask(
        load_instances(path, split=split, only=only, test_command=test_command),
        make_runner,
        mirrors,
        GeneratorSettings(
            generator=generator,
            max_context_tokens=max_context_tokens,
            include_repo_map=include_repo_map,
            map_tokens=map_tokens,
            include_hints=include_hints,
            system=system,
            max_files=max_files,
            max_tokens=max_tokens,
            max_steps=max_steps,
            command_s=command_s,
            observation_chars=observation_chars,
            agent_wall_s=agent_wall_s,
            agent_tokens=agent_tokens,
        ),
        task_id=task_id,
        base=here,
        known_ids=(lambda: instance_ids(path, split=split)) if only else None,
        patch_dir=here / patch_dir if patch_dir else None,
        setting=[runner, *([sandbox, network] if runner == "local" else []), dataclasses.asdict(checked), disk_mb],
    )


def _fence_off(cache: Path) -> None:
    """Keep pytest and git out of a cache that lies inside a project: it holds whole repositories with tests."""
    files = {"conftest.py": "collect_ignore_glob = ['*']\n", ".gitignore": "*\n"}
    try:
        cache.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with contextlib.suppress(FileExistsError), open(cache / name, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"swebench: the cache cannot be written ({error}); name another folder: cache") from None


def _chosen(here: Path, given: str | Path | None, usual: Path) -> Path | None:
    """A setting's path, or the usual one where there is one."""
    if given is not None:
        return here / Path(given).expanduser()
    return usual if usual.exists() else None


def _folders(here: Path, *given: str | Path | None) -> tuple[Path, ...]:
    return tuple(here / Path(folder).expanduser() for folder in given if folder is not None)


def _address(here: Path, source: str) -> str:
    """A path that exists, or an address as it is."""
    path = here / Path(source).expanduser()
    return str(path) if path.exists() else source


def _limits(values: Mapping[str, Any], task_id: str) -> Limits:
    names = {field.name for field in dataclasses.fields(Limits)}
    for key in values:
        if key not in names:
            raise ConfigError(f"tasks.{task_id}: limits has no {key!r} (known: {', '.join(sorted(names))})")
    return Limits(**values)
