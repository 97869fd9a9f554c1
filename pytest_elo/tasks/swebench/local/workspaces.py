"""Prepared trees: the base commit with one commit of history, and the project's own installation beside it.

Prepared once per base commit and environment, then only read: every run copies the tree into memory. The
installation goes into a prefix (metadata, console scripts) while the tree itself is put on ``PYTHONPATH``, as
the official images' legacy editable installs had it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.environments import Environment, EnvironmentSpec
from pytest_elo.tasks.swebench.local.git import git
from pytest_elo.tasks.swebench.local.mirrors import Mirrors, checkout_shallow
from pytest_elo.tasks.swebench.locks import build_once
from pytest_elo.tasks.swebench.sandbox import Cell, Limits, Sandbox, Scratch, run_in

__all__ = ["TESTBED", "Workspace", "install_text", "prepare_workspace"]

TESTBED, PREFIX = "/testbed", "/prefix"
_LAYOUT = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """An instance's prepared tree and all that a run of its tests needs."""

    key: str
    tree: Path
    prefix: Path
    environment: Environment
    spec: EnvironmentSpec

    def variables(self, testbed: str = TESTBED, prefix: str = PREFIX) -> dict[str, str]:
        """The whole environment of a run."""
        roots = [testbed, f"{testbed}/src"] if (self.tree / "src").is_dir() else [testbed]
        site = self.environment.site_packages
        path = [*roots, f"{prefix}/{site}"]
        if self.spec.site_on_path:
            path.append(str(self.environment.path / site))
        path += [str(folder) for folder in self.environment.sites]
        return {
            "PATH": f"{prefix}/bin:{self.environment.path}/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": ":".join(path),
            "VIRTUAL_ENV": str(self.environment.path),
            "HOME": "/tmp",
            "USER": "root",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            **self.spec.environment,
        }

    def mounts(self) -> dict[str, Path]:
        """Read-only mounts by target: the interpreter, the environment, the installation."""
        environment = self.environment
        mounts = {str(environment.path): environment.path, PREFIX: self.prefix}
        if str(environment.base_prefix) not in ("/usr", "/"):
            mounts[str(environment.base_prefix)] = environment.base_prefix
        mounts.update({str(folder): folder for folder in environment.sites})
        return mounts

    def import_names(self) -> tuple[str, ...]:
        """Top-level names that the environment and the standard library provide: not to be shadowed."""
        found = set()
        version = ".".join(self.environment.version.split(".")[:2])
        standard = self.environment.base_prefix / "lib" / f"python{version}"
        site = self.environment.path / self.environment.site_packages
        for folder in (folder for folder in (site, standard, *self.environment.sites) if folder.is_dir()):
            for entry in folder.iterdir():
                name = entry.name.split(".")[0]
                if (entry.is_dir() or entry.suffix in (".py", ".so")) and name.isidentifier():
                    found.add(name)
        return tuple(sorted(found))


def prepare_workspace(
    instance: Instance,
    spec: EnvironmentSpec,
    environment: Environment,
    mirrors: Mirrors,
    sandbox: Sandbox,
    folder: Path,
) -> Workspace:
    """The workspace of an instance, prepared under a lock when it is not there yet.

    Raises:
        ConfigError: the commit cannot be had, or the project does not install without network.
    """
    parts = [
        _LAYOUT, instance.repo, instance.base_commit, environment.key, spec.install, list(spec.pre_install),
        sorted(spec.environment.items()),
    ]  # fmt: skip
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    path = folder / key
    workspace = Workspace(key=key, tree=path / "tree", prefix=path / "prefix", environment=environment, spec=spec)

    def build(_: Path) -> None:
        checkout_shallow(mirrors.holding(instance.repo, instance.base_commit), instance.base_commit, workspace.tree)
        (workspace.prefix / "bin").mkdir(parents=True)
        for name, text in environment.scripts.items():
            script = workspace.prefix / "bin" / name
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
        _install(workspace, sandbox, instance.instance_id)
        _settle(workspace.tree)

    build_once(path, build)
    return workspace


def install_text(spec: EnvironmentSpec, prefix: str = f"$root{PREFIX}") -> str:
    """Shell text that installs the tree at the current folder into a prefix, without network."""
    if not spec.install:
        return ":"
    return "\n".join(
        [
            f"export PIP_PREFIX={prefix} PIP_NO_DEPS=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1",
            # pip takes a negative option's variable as the option's own value: 0 is --no-build-isolation
            "export PIP_NO_BUILD_ISOLATION=0 PIP_NO_WARN_SCRIPT_LOCATION=1 PIP_ROOT_USER_ACTION=ignore",
            spec.install,
        ]
    )


def _install(workspace: Workspace, sandbox: Sandbox, name: str) -> None:
    """Run the project's own setup at its base commit: trusted as much as installing that release would be."""
    if not workspace.spec.install and not workspace.spec.pre_install:
        return
    mounts = workspace.mounts()
    writable = {TESTBED: workspace.tree, PREFIX: mounts.pop(PREFIX)}
    script = "\n".join([f"set -e; cd $root{TESTBED}", *workspace.spec.pre_install, install_text(workspace.spec)])
    cell = Cell(
        read_only=mounts,
        writable=writable,
        scratch=(Scratch("/tmp", 1024),),
        environment=workspace.variables(),
        limits=Limits(wall_s=1200, memory_mb=8192),
    )
    finished = run_in(sandbox, cell, ["bash", "-c", f"root=${{ELO_ROOT-}}; {script}"])
    if finished.ended != "exit" or finished.exit_code:
        tail = " | ".join(finished.text.strip().splitlines()[-3:])
        raise ConfigError(f"swebench: {name} does not install in its environment: {tail}; check its pins")


def _settle(tree: Path) -> None:
    """Commit edits of ``pre_install`` as the official images do, and hide what the installation left."""
    identity: Mapping[str, str] = {
        "GIT_AUTHOR_NAME": "SWE-bench", "GIT_AUTHOR_EMAIL": "setup@swebench.config",
        "GIT_COMMITTER_NAME": "SWE-bench", "GIT_COMMITTER_EMAIL": "setup@swebench.config",
    }  # fmt: skip
    if git(["status", "--porcelain", "--untracked-files=no"], cwd=tree).strip():
        git(["commit", "--quiet", "--all", "--message", "SWE-bench"], cwd=tree, environment=identity)
    left = git(["ls-files", "--others", "--exclude-standard", "-z"], cwd=tree).split("\0")
    if patterns := [f"/{path}" for path in left if path]:
        exclude = tree / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text("\n".join(patterns) + "\n")
