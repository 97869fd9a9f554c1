"""Types and style are part of the tests, and so is what importing the plugin costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.skipif(version("numpy").startswith("1."), reason="numpy 1 has fewer types than mypy --strict asks for")
def test_types_are_strict():
    process = run("-m", "mypy")
    assert process.returncode == 0, process.stdout


def test_style():
    process = run("-m", "ruff", "check", ".")
    assert process.returncode == 0, process.stdout


def test_format():
    process = run("-m", "ruff", "format", "--check", ".")
    assert process.returncode == 0, process.stdout


def test_an_unrelated_project_pays_for_nothing(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_sessionfinish():\n"
        "    names = {'openai', 'httpx', 'httpx2', 'numpy', 'yaml', 'asyncio', 'tabulate', 'tomllib'}\n"
        "    heavy = names & sys.modules.keys()\n"
        "    ours = {name for name in sys.modules if name.startswith('pytest_elo')}\n"
        "    print('LOADED', sorted(heavy), len(ours))\n"
    )
    command = ("-m", "pytest", "-q", "-s", "-p", "no:anyio", "-p", "no:xdist")
    bare = run(*command, "-p", "no:elo", cwd=tmp_path).stdout
    heavy = re.search(r"LOADED (\[.*\]) 0", bare)  # pytest's own: since Python 3.14 pdb brings asyncio
    assert heavy is not None, bare
    process = run(*command, cwd=tmp_path)
    loaded = f"LOADED {heavy[1]} 6"  # the plugin, its options, what decides that it sleeps
    assert loaded in process.stdout, process.stdout


def test_json_is_read_in_one_place():
    """Elsewhere a value nested too deep is a RecursionError; two programs that run without the package are let off."""
    apart = {"gateway/embedded_server.py", "tasks/swebench/sandbox/_enter.py"}
    package = ROOT / "pytest_elo"
    readers = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if "json.loads" in path.read_text()
    }
    assert readers - apart == {"_parse.py"}


def test_modules_hold_one_idea_each():
    sizes = {path: len(path.read_text().splitlines()) for path in (ROOT / "pytest_elo").rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > 400} == {}


def test_the_lock_has_all_that_development_needs() -> None:
    """Each requirement of the plugin and of its ``test`` extra, at a version that it allows; each file hashed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    own = next(Requirement(text) for text in extras["test"] if text.startswith(project["name"]))
    wanted = [*project["dependencies"], *extras["test"], *(text for name in own.extras for text in extras[name])]
    locked: dict[str, str] = {}
    for entry in re.split(r"\n(?=\w)", (ROOT / "requirements-dev.lock").read_text()):
        if found := re.match(r"([\w.-]+)==(\S+) \\", entry):
            locked[canonicalize_name(found[1])] = found[2]
            assert "--hash=sha256:" in entry, entry
    for requirement in map(Requirement, wanted):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement
