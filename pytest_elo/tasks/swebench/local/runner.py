"""Runner ``local``: tests in a sandbox on this machine, verdicts cached by everything they depend on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_elo.tasks.swebench.diffs import is_empty, named_paths
from pytest_elo.tasks.swebench.evaluations import cached_evaluation
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.environments import EnvironmentSpec, build_environment, spec_for
from pytest_elo.tasks.swebench.local.mirrors import Mirrors
from pytest_elo.tasks.swebench.local.workspaces import TESTBED, Workspace, install_text, prepare_workspace
from pytest_elo.tasks.swebench.patches import CONFIGURATION_NAMES, prepare, refusal
from pytest_elo.tasks.swebench.runner import (
    Evaluation,
    Preflight,
    judge_preflight,
    not_worth_running,
    read_run,
)
from pytest_elo.tasks.swebench.sandbox import (
    Cell,
    Furnish,
    Limits,
    Network,
    Sandbox,
    Scratch,
    launch_environment,
    run_in,
)
from pytest_elo.tasks.swebench.script import BOOTSTRAP, Plan, new_word, read_stages
from pytest_elo.tasks.swebench.session import ShellSession

__all__ = ["LocalRunner"]

_BASE = "/base"
_AGAIN = "$root/tmp/.prefix"
_PACKAGING_NAMES = ("setup.py", "MANIFEST.in", *CONFIGURATION_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunner:
    """Evaluates instances in a sandbox.

    Args:
        sandbox: from ``choose_sandbox``.
        cache: folder for mirrors, environments, prepared trees and verdicts; may be shared by processes.
        specs: environments by instance or repository, from ``known_specs``.
        network: overrides what the spec asks for; ``None`` leaves it to the spec (``none`` by default).
        disk_mb: size of the tree and of ``/tmp`` inside, each, in memory.
        max_workers: runs at a time, over all processes that share the cache.
    """

    sandbox: Sandbox
    cache: Path
    mirrors: Mirrors
    specs: Mapping[str, EnvironmentSpec]
    network: Network | None = None
    limits: Limits = field(default_factory=Limits)
    disk_mb: int = 1024
    max_workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def name(self) -> str:
        return f"local/{self.sandbox.name}"

    def workspace(self, instance: Instance) -> Workspace:
        """The prepared tree and environment of an instance, built on first use."""
        spec = spec_for(instance, self.specs)
        environment = build_environment(spec, self.cache / "environments", self.sandbox.contain([]))
        return prepare_workspace(instance, spec, environment, self.mirrors, self.sandbox, self.cache / "trees")

    def evaluate(self, instance: Instance, patch: str | None, *, generated: bool) -> Evaluation:
        return self._evaluated(instance, patch, generated=generated, hidden=True)

    def preflight(self, instance: Instance) -> Preflight:
        workspace = self.workspace(instance)
        without, gold = (
            self._cached(instance, workspace, self._plan(instance, workspace, patch, hidden=True))
            for patch in ("", prepare(instance.patch, generated=False).text)
        )
        return judge_preflight(instance, without, gold)

    def check(self, instance: Instance, patch: str) -> Evaluation:
        if is_empty(patch):
            workspace = self.workspace(instance)
            return self._cached(instance, workspace, self._plan(instance, workspace, "", hidden=False))
        return self._evaluated(instance, patch, generated=True, hidden=False)

    @contextlib.contextmanager
    def session(
        self, instance: Instance, patch: str, command_s: float, furnish: Furnish | None = None
    ) -> Iterator[ShellSession]:
        workspace = self.workspace(instance)
        cell = self.cell(workspace)
        if furnish is not None:
            cell = furnish(cell)
        word = new_word()
        prelude = f"cp -a $root{_BASE}/. $root{TESTBED} && cd $root{TESTBED} || fail copy"
        program = ShellSession.program(word, prelude, cell.limits, command_s)
        with (
            self.sandbox.entering(cell, ["bash", "-c", program]) as argv,
            ShellSession(argv, word, command_s=command_s, environment=launch_environment()) as session,
        ):
            if not is_empty(patch):
                session.put(patch)
            yield session

    def cell(self, workspace: Workspace) -> Cell:
        """The cell in which an instance's tests, and an agent's commands, run."""
        return Cell(
            read_only={**workspace.mounts(), _BASE: workspace.tree},
            scratch=(Scratch(TESTBED, self.disk_mb), Scratch("/tmp", self.disk_mb)),
            environment=workspace.variables(),
            network=self._network(workspace),
            limits=self.limits,
        )

    def _evaluated(self, instance: Instance, patch: str | None, *, generated: bool, hidden: bool) -> Evaluation:
        workspace = self.workspace(instance)
        tree = workspace.tree
        prepared = prepare(patch or "", generated=generated, has_crlf=lambda path: _has_crlf(tree / path))
        refused = refusal(prepared.text, lambda path: (tree / path).is_symlink())
        verdict = not_worth_running(instance, patch, prepared, refused)
        if verdict is not None:
            return Evaluation(verdict=verdict, patch=prepared.text, setting=self._setting(workspace))
        plan = self._plan(instance, workspace, prepared.text, hidden=hidden)
        return self._cached(instance, workspace, plan).marked(prepared.marks)

    def _network(self, workspace: Workspace) -> Network:
        return self.network or workspace.spec.network or "none"

    def _setting(self, workspace: Workspace) -> str:
        return f"{self.name} network={self._network(workspace)} environment={workspace.environment.key}"

    def _plan(self, instance: Instance, workspace: Workspace, patch: str, *, hidden: bool) -> Plan:
        packaging = any(path.split("/")[-1] in _PACKAGING_NAMES for path in named_paths(instance.patch))
        return Plan(
            word=new_word(),
            prelude=f"cp -a $root{_BASE}/. $root{TESTBED} && cd $root{TESTBED} || fail copy",
            patch=patch,
            test_command=instance.test_command,
            limits=self.limits,
            base_commit=instance.base_commit,
            test_files=instance.test_files if hidden else (),
            test_patch=instance.test_patch if hidden else None,
            import_names=workspace.import_names(),
            reinstall=install_text(workspace.spec, _AGAIN) if packaging and not is_empty(patch) else "",
            after_reinstall=(
                f'export PATH="{_AGAIN}/bin:$PATH"\n'
                f'export PYTHONPATH="$root{TESTBED}:$root{TESTBED}/src:'
                f'{_AGAIN}/{workspace.environment.site_packages}:$PYTHONPATH"'
            ),
        )

    def _run(self, instance: Instance, workspace: Workspace, plan: Plan) -> Evaluation:
        cell = self.cell(workspace)
        finished = run_in(self.sandbox, cell, ["bash", "-c", BOOTSTRAP], stdin=plan.archive())
        stages = read_stages(finished.text, plan.word)
        return Evaluation(
            verdict=read_run(instance, finished, stages, ()),
            patch=plan.patch,
            setting=self._setting(workspace),
            setup_log=stages.setup,
            output=stages.output,
            exit_code=finished.exit_code,
            wall_s=finished.wall_s,
        )

    def _cached(self, instance: Instance, workspace: Workspace, plan: Plan) -> Evaluation:
        parts = [
            instance.fingerprint, self._setting(workspace), workspace.key, plan.patch, plan.reinstall,
            plan.test_patch is None, plan.limits.shell(), self.disk_mb,
        ]  # fmt: skip
        return cached_evaluation(
            self.cache / "verdicts", parts, lambda: self._run(instance, workspace, plan), self.max_workers
        )


def _has_crlf(path: Path) -> bool:
    try:
        with open(path, "rb") as handle:
            return b"\r\n" in handle.read(1 << 16)
    except OSError:
        return False
