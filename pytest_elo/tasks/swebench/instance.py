"""One SWE-bench instance: a row of the dataset, checked and with its defaults filled in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.tasks.swebench.diffs import is_empty, read_changes
from pytest_elo.tasks.swebench.logparsers import PARSERS, parser_of_repository

__all__ = ["NON_TEST_SUFFIXES", "Instance", "instance_from_row"]

NON_TEST_SUFFIXES = (
    ".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml",
)  # fmt: skip
"""Files of a test patch that are data, not tests, in the official harness (``csv`` has no dot there)."""

_SHA1 = re.compile(r"^[0-9a-f]{40}$")
_ID = re.compile(r"^[A-Za-z0-9._-]+$")
_REPO = re.compile(r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")
_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What is needed to pose, run and grade one instance.

    ``test_command`` is shell text, run at the root of the tree after the test patch was applied.
    ``parser`` names an entry of ``PARSERS``. ``image`` is empty for rows without one (no docker runner).
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    parser: str
    test_command: str
    hints: str = ""
    version: str = ""
    image: str = ""

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files that the test patch writes or removes; each is reset on its own before grading."""
        paths: dict[str, None] = {}
        for change in read_changes(self.test_patch):
            for path in (change.old, change.new):
                if path:
                    paths[path] = None
        return tuple(paths)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything a verdict depends on."""
        parts = [
            self.instance_id, self.repo, self.base_commit, self.test_patch, self.parser, self.test_command,
            list(self.fail_to_pass), list(self.pass_to_pass),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def instance_from_row(row: Mapping[str, Any], where: str, test_command: str = "") -> Instance:
    """Check one row of a dataset.

    Accepts the columns of SWE-bench 5.x, and those of 4.x by deriving the test command and the parser for
    the Python repositories of the benchmark. ``where`` (file and line) starts every error message;
    ``test_command`` takes the place of the row's own.

    Raises:
        DataError: naming the column that is missing or cannot be used.
    """
    instance_id = _text(row, "instance_id", where)
    if not _ID.fullmatch(instance_id):
        raise DataError(f"{where}: column 'instance_id' may hold letters, digits and ._- only")
    where = f"{where} ({instance_id})"
    repo = _text(row, "repo", where)
    if not _REPO.fullmatch(repo):
        raise DataError(f"{where}: column 'repo' must be owner/name, not {repo!r}")
    base_commit = _text(row, "base_commit", where)
    if not _SHA1.fullmatch(base_commit):
        raise DataError(f"{where}: column 'base_commit' must be a full 40-digit commit id, not {base_commit!r}")
    test_patch = _text(row, "test_patch", where)
    fail_to_pass = _tests(row, "FAIL_TO_PASS", where)
    if not fail_to_pass:
        raise DataError(f"{where}: column 'FAIL_TO_PASS' is empty, so every patch would count as resolved; remove it")
    return Instance(
        instance_id=instance_id,
        repo=repo,
        base_commit=base_commit,
        problem_statement=_text(row, "problem_statement", where),
        patch=_text(row, "patch", where),
        test_patch=test_patch,
        fail_to_pass=fail_to_pass,
        pass_to_pass=_tests(row, "PASS_TO_PASS", where),
        parser=_parser(row, repo, where),
        test_command=_test_command(row, repo, test_patch, where, test_command),
        hints=str(row.get("hints_text") or ""),
        version=str(row.get("version") or ""),
        image=str(row.get("image") or "").lower(),
    )


def _text(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or is_empty(value):
        state = "missing" if column not in row else "empty" if not value else "not a text"
        raise DataError(f"{where}: column {column!r} is {state}; take the row from a SWE-bench 4.x or 5.x dataset")
    return value


def _tests(row: Mapping[str, Any], column: str, where: str) -> tuple[str, ...]:
    """Test names as a list, or as the JSON text of one (the form on the Hugging Face hub)."""
    if column not in row:
        raise DataError(f"{where}: column {column!r} is missing; without it no verdict is possible")
    value = row[column]
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise DataError(f"{where}: column {column!r} is neither a list nor the JSON of one ({error})") from None
    if hasattr(value, "tolist"):  # parquet readers give arrays
        value = value.tolist()
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise DataError(f"{where}: column {column!r} must be a list of test names")
    return tuple(value)


def _parser(row: Mapping[str, Any], repo: str, where: str) -> str:
    if row.get("eval_type") not in (None, "", "pass_and_fail"):
        raise DataError(f"{where}: column 'eval_type' is {row['eval_type']!r}; only 'pass_and_fail' can be graded here")
    name = row.get("log_parser") or parser_of_repository(repo)
    if name is None:
        raise DataError(
            f"{where}: column 'log_parser' is missing and {repo} is not one of the benchmark's Python "
            f"repositories; add one of {', '.join(sorted(PARSERS))}"
        )
    if not isinstance(name, str) or name not in PARSERS:
        raise DataError(f"{where}: column 'log_parser' names {name!r}, which is not supported (Python parsers only)")
    return name


def _test_command(row: Mapping[str, Any], repo: str, test_patch: str, where: str, own: str) -> str:
    files = [path for path in _present_files(test_patch) if not path.endswith(NON_TEST_SUFFIXES)]
    if own:
        # pytest names the tests that passed only with -rA, and what is not named has failed
        listing = " -rA" if "pytest" in own.split() and "-rA" not in own.split() else ""
        return f"{own}{listing} {' '.join(files)}"
    script = row.get("eval_script")
    if script:
        return _command_of_script(str(script), where)
    if parser_of_repository(repo) is None:
        raise DataError(f"{where}: column 'eval_script' is missing and {repo} has no known test command")
    if not files:
        raise DataError(f"{where}: column 'eval_script' is missing and 'test_patch' holds no test file")
    return _known_command(repo, files)


def _present_files(test_patch: str) -> list[str]:
    return [change.new for change in read_changes(test_patch) if change.new]


def _command_of_script(script: str, where: str) -> str:
    """The lines between the official markers, preceded by the script's own ``export`` lines."""
    lines = script.splitlines()
    marks = [[i for i, line in enumerate(lines) if line.startswith(":") and mark in line] for mark in (_START, _END)]
    if len(marks[0]) != 1 or len(marks[1]) != 1 or marks[0] > marks[1]:
        raise DataError(f"{where}: column 'eval_script' must hold one start and one end marker of the test output")
    start, end = marks[0][0], marks[1][0]
    exports = [line for line in lines[:start] if re.match(r"export [A-Z_]+=\S+$", line)]
    command = "\n".join(exports + lines[start + 1 : end]).strip()
    if not command:
        raise DataError(f"{where}: column 'eval_script' runs no test between its markers")
    return command


def _known_command(repo: str, files: list[str]) -> str:
    if repo == "django/django":
        modules = [re.sub(r"\.py$", "", re.sub(r"^tests/", "", path)).replace("/", ".") for path in files]
        return "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 " + " ".join(modules)
    runner = {
        "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
        "sphinx-doc/sphinx": "tox --current-env -epy39 -v --",
        "mwaskom/seaborn": "pytest --no-header -rA",
    }.get(repo, "pytest -rA")
    return f"{runner} {' '.join(files)}"
