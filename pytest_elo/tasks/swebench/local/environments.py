"""Python environments: described by interpreter and pins, built once, never changed.

The project under test is *not* installed into its environment; it gets a prefix of its own (see
``workspaces``), so instances with equal pins share one environment and parallel runs cannot disturb it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

from pytest_elo._forms import Form, each, flag, listed, maybe, text
from pytest_elo._parse import parse_json
from pytest_elo._text import shorten
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.locks import build_once
from pytest_elo.tasks.swebench.sandbox.cell import Network

__all__ = ["Environment", "EnvironmentSpec", "build_environment", "known_specs", "spec_for"]

_DEFAULT_INSTALL = "python -m pip install -e ."
FORMS: Mapping[str, Form] = {
    "python": text,
    "requirements": listed(text),
    "install": text,
    "pre_install": listed(text),
    "environment": each(text),
    "network": maybe(lambda value: value in get_args(Network)),
    "site_on_path": flag,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """What an instance's tests need besides its tree.

    ``python`` is a minor version (``3.11``), or ``current`` for the environment this process runs in, with
    nothing to be built or downloaded.
    ``install`` is shell text run once at the base commit without network (empty: nothing to install);
    ``pre_install`` edits the tree before that; ``network`` is the least the tests need.
    """

    python: str
    requirements: tuple[str, ...]
    install: str = _DEFAULT_INSTALL
    pre_install: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    network: Network | None = None
    site_on_path: bool = False
    """Put the environment's packages on PYTHONPATH, for tools that start another Python (tox)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A built environment. ``base_prefix`` is the interpreter's home, which its ``python`` links to.

    ``sites`` are further folders of packages, outside of both; ``scripts`` are commands by name that its ``bin``
    lacks, as text.
    """

    key: str
    path: Path
    base_prefix: Path
    version: str
    sites: tuple[Path, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def site_packages(self) -> str:
        """Relative to a prefix: ``lib/python3.11/site-packages``."""
        return f"lib/python{'.'.join(self.version.split('.')[:2])}/site-packages"


def known_specs(own: Path | None = None) -> dict[str, EnvironmentSpec]:
    """The shipped specs (pins under which the gold patch resolves), overridden by the user's file.

    Keys are instance ids, ``owner/name@version`` or ``owner/name``.

    Raises:
        DataError: naming the file and key that cannot be used.
    """
    shipped = Path(__file__).parent.parent / "data" / "environments.json"
    specs: dict[str, EnvironmentSpec] = {}
    for path in (shipped, own):
        if path is not None:
            specs.update({key: _spec(entry, f"{path}: {key}") for key, entry in _entries(path).items()})
    return specs


def spec_for(instance: Instance, specs: Mapping[str, EnvironmentSpec]) -> EnvironmentSpec:
    """The most specific spec of an instance; raises ``ConfigError`` when there is none."""
    for key in (instance.instance_id, f"{instance.repo}@{instance.version}", instance.repo):
        if key in specs:
            return specs[key]
    raise ConfigError(
        f"swebench: no environment is known for {instance.instance_id} ({instance.repo} {instance.version}); "
        'add {"' + instance.repo + '": {"python": "3.11", "requirements": ["..."]}} to the file that '
        "swebench.environments names, or use the docker runner"
    )


def build_environment(spec: EnvironmentSpec, folder: Path, wrap: Sequence[str] = ()) -> Environment:
    """The environment of a spec, built under a lock when it is not there yet.

    Keyed by the interpreter's full version and home, the pins and the platform. Built with ``uv`` when it is
    on the path, else with ``venv`` and pip.

    Args:
        folder: where environments live.
        wrap: a sandbox's ``contain``, so that a killed build leaves no process behind.

    Raises:
        ConfigError: no interpreter, or the pins cannot be installed; the installer's last lines are told.
    """
    if spec.python == "current":
        return _current()
    executable, version, base_prefix = _interpreter(spec.python)
    pins = sorted(spec.requirements)
    parts = [version, str(base_prefix), pins, platform.machine(), *platform.libc_ver()]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    path = build_once(folder / key, lambda target: _build(executable, pins, target, wrap))
    return Environment(key=key, path=path, base_prefix=base_prefix, version=version)


def _current() -> Environment:
    """The environment this process runs in: nothing to build, and pytest is in it."""
    import pytest

    versions = [f"{name}=={metadata.version(name)}" for name in ("pytest", "pluggy", "iniconfig", "packaging")]
    site = Path(pytest.__file__).parent.parent  # of the user's own folder after pip install --user
    parts = [platform.python_version(), sys.prefix, str(site), *versions]
    is_inside = any(site.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix, "/usr"))
    return Environment(
        key="current-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8],
        path=Path(sys.prefix),
        base_prefix=Path(sys.base_prefix),
        version=platform.python_version(),
        sites=() if is_inside else (site,),
        scripts={
            name: f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n'
            for name, module in (("python", ""), ("pytest", "-m pytest "))
            if not Path(sys.prefix, "bin", name).exists()
        },
    )


def _build(executable: Path, pins: Sequence[str], target: Path, wrap: Sequence[str]) -> None:
    """With uv where there is one; what it cannot do (it reads no pip.conf, say) is left to venv and pip."""
    if uv := shutil.which("uv"):
        try:
            _build_with_uv(uv, executable, pins, target, wrap)
        except ConfigError:
            shutil.rmtree(target)
            target.mkdir()
        else:
            return
    _run([str(executable), "-m", "venv", str(target)], wrap)
    if pins:
        python = str(target / "bin" / "python")
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins], wrap)


def _build_with_uv(uv: str, executable: Path, pins: Sequence[str], target: Path, wrap: Sequence[str]) -> None:
    _run([uv, "venv", "--quiet", "--allow-existing", "--seed", "--python", str(executable), str(target)], wrap)
    if pins:
        python = str(target / "bin" / "python")
        _run([uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *pins], wrap)


def _run(command: Sequence[str], wrap: Sequence[str]) -> None:
    done = subprocess.run(
        [*wrap, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = " | ".join(done.stdout.strip().splitlines()[-3:])
        raise ConfigError(f"swebench: an environment could not be built: {tail}; check the pins and the network")


def _interpreter(version: str) -> tuple[Path, str, Path]:
    """Executable, full version and home of an interpreter of that minor version, else of the current one.

    The current one is only a try: whether it is good enough is what the gold preflight finds out.
    """
    candidates = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"))]
    if shutil.which("uv"):
        found = subprocess.run(
            ["uv", "python", "find", version],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        candidates.append(found.stdout.strip() or None)
    for candidate in candidates:
        told = _ask(candidate) if candidate else None
        if told and told[1].startswith(f"{version}."):
            return told
    told = _ask(sys.executable)
    if told is None:
        raise ConfigError(f"swebench: no Python {version} was found; install it or put uv on the path")
    return told


def _ask(executable: str) -> tuple[Path, str, Path] | None:
    code = "import sys, platform; print(sys.executable, platform.python_version(), sys.base_prefix, sep='\\n')"
    try:
        done = subprocess.run([executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    lines = done.stdout.split("\n")
    return (Path(lines[0]), lines[1], Path(lines[2])) if done.returncode == 0 and len(lines) >= 3 else None


def _entries(path: Path) -> dict[str, Any]:
    try:
        entries = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a JSON file of environments ({error})") from None
    if not isinstance(entries, dict):
        raise DataError(f"{path}: expected an object from repository or instance to environment")
    return entries


def _spec(entry: Any, where: str) -> EnvironmentSpec:
    if not isinstance(entry, dict) or "python" not in entry or "requirements" not in entry:
        raise DataError(f"{where}: an environment needs 'python' and 'requirements'")
    if unknown := sorted(set(entry) - FORMS.keys()):
        raise DataError(f"{where}: unknown key {unknown[0]!r} (known: {', '.join(sorted(FORMS))})")
    if wrong := sorted(key for key, value in entry.items() if not FORMS[key](value)):
        raise DataError(f"{where}: {wrong[0]} is {shorten(repr(entry[wrong[0]]), 60)}, which it cannot be")
    return EnvironmentSpec(
        python=entry["python"],
        requirements=tuple(entry["requirements"]),
        install=entry.get("install", _DEFAULT_INSTALL),
        pre_install=tuple(entry.get("pre_install", ())),
        environment=dict(entry.get("environment", {})),
        network=entry.get("network"),
        site_on_path=bool(entry.get("site_on_path", False)),
    )
