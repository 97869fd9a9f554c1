"""Every command in the documentation: run where that needs no key, host or install, else parsed by the real parsers.

A page's commands run in its order, in a copy of ``evals/`` with one item of each task, answered by the recordings.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_elo import cli
from tests.harness import PYC

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").rglob("*.md"))]
PAGES.remove(ROOT / "docs" / "design.md")  # the map names what is not there yet
PAGES.remove(ROOT / "docs" / "tutorial.md")  # a story of its own: test_docs_pages.py
COMMAND = re.compile(r"(?:pytest|pytest-elo|python -m benchmarks[\w.]*)(?: |$)")
SHELL = ("bash", "sh", "console", "yaml")
SMALL = ["--elo-limit", "1", "--elo-strategies", "baseline,r3", "--elo-replay", "-p", "no:cacheprovider"]
RUN_ON_A_RUN = ("report", "compare", "baseline", "doctor", "init")
"""Subcommands that need a run at most; the others need files of the user's, a key or a model."""
NEED_MORE = ("--elo-model", "--elo-record", "--elo-cache", "--tx", "DIR")
"""Options that need a key, a model or another host, and what stands for a name."""


def commands(page: Path) -> Iterator[str]:
    """What a reader of the page may type: lines of shell and workflow blocks, indented lines, code spans."""
    fence = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip() or "text"
        elif fence in SHELL or (fence is None and line.startswith("    ")):
            typed = re.split(r"\s+#", re.sub(r"^\s*(?:\$ |- run: |run: |- )?", "", line))[0]
            yield from (part for part in re.split(r"\s*&&\s*", typed) if COMMAND.match(part))
        elif fence is None:
            spans = (span for span in re.findall(r"`([^`]+)`", line) if " " in span)
            yield from (span for span in spans if COMMAND.match(span))


def variants(command: str) -> Iterator[list[str]]:
    """The words of a command; ``md|csv`` stands for either."""
    words = shlex.split(command)
    at = next((i for i, word in enumerate(words) if re.fullmatch(r"\w+(\|\w+)+", word)), None)
    if at is None:
        yield words
        return
    for choice in words[at].split("|"):
        yield [*words[:at], choice, *words[at + 1 :]]


ALL = [words for page in PAGES for command in commands(page) for words in variants(command)]


def runs_here(words: list[str]) -> bool:
    if any(word in NEED_MORE for word in words):
        return False
    if words[0] == "pytest-elo":
        return words[1] in RUN_ON_A_RUN and words != ["pytest-elo", "doctor"]  # alone it is only named
    return words[:2] == ["pytest", "evals"]


@pytest.fixture(scope="module")
def options() -> set[str]:
    shown = subprocess.run([sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown.stdout))


def test_there_is_something_to_run() -> None:
    assert len(ALL) > 30
    assert {"report", "compare", "baseline", "doctor", "init"} <= {words[1] for words in ALL if runs_here(words)}


@pytest.mark.parametrize("words", [words for words in ALL if words[0] == "pytest"], ids=" ".join)
def test_options_of_pytest_exist(words: list[str], options: set[str]) -> None:
    named = {word.split("=")[0] for word in words[1:] if word.startswith("-")}
    assert sorted(named - options - {"--junitxml"}) == []  # an alias that pytest's help does not show


@pytest.mark.parametrize("words", [words for words in ALL if words[0] == "pytest-elo"], ids=" ".join)
def test_commands_of_pytest_elo_are_understood(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if len(words) > 2:
        assert cli._parser().parse_known_args(words[1:])[0].run is not None
        return
    with pytest.raises(SystemExit) as ended:  # a command is only named: its help says that it exists
        cli._parser().parse_args([words[1], "--help"])
    assert ended.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("words", [words for words in ALL if words[0] == "python"], ids=" ".join)
def test_benchmarks_have_the_options_that_the_pages_name(words: list[str]) -> None:
    module = importlib.util.find_spec(words[2])
    assert module is not None
    if module.submodule_search_locations is not None:
        module = importlib.util.find_spec(f"{words[2]}.__main__")
    assert module is not None
    assert module.origin is not None
    source = Path(module.origin).read_text(encoding="utf-8")
    assert [word for word in words[3:] if word.startswith("--") and f'"{word}"' not in source] == []


def test_what_runs_offline_runs(tmp_path: Path) -> None:
    """One story in one folder: sessions, then what is made of their run directories."""
    evals = tmp_path / "evals"
    shutil.copytree(ROOT / "evals", evals)
    for path in evals.glob("test_*.py"):
        if path.name not in ("test_gpqa.py", "test_own.py"):  # these two need nothing but the recordings
            path.unlink()
    (tmp_path / "pytest.ini").write_text("[pytest]\nelo_html = false\n")
    ordered: dict[tuple[str, ...], None] = dict.fromkeys(tuple(words) for words in ALL if runs_here(words))
    sessions = [words for words in ordered if words[0] == "pytest"]
    others = [words for words in ordered if words[0] != "pytest"]
    assert len(sessions) >= 4
    failed = []
    for words in [*sessions, *sorted(others, key=lambda words: words[1] != "baseline")]:
        done = typed(words, tmp_path / "elsewhere" if words[1] == "init" else tmp_path)
        if done.returncode != 0:
            failed.append((" ".join(words), done.returncode, done.stdout[-1500:]))
    assert failed == []


def typed(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    names = ("PYTEST_", "PYTHONDONTWRITEBYTECODE", "TAOTOKEN", "OPENAI", "ELO_", "AGENT_MODEL", "CI", "GITHUB_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    module = "pytest" if words[0] == "pytest" else "pytest_elo"
    fewer = ["1" if before == "-n" else word for before, word in pairwise(words)]
    extra = SMALL if module == "pytest" or words[1] == "doctor" else []
    return subprocess.run(
        [sys.executable, "-m", module, *fewer, *extra],
        cwd=folder,
        env=clean | PYC | {"HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
