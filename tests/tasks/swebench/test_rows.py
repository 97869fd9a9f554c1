"""Rows of every generation become the same instance; a row that cannot be used names its column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.swebench.rows import load_instances

SUITE = Path(__file__).parents[3] / "evals" / "data" / "swebench" / "instances.jsonl"
TEST_PATCH = """\
diff --git a/tests/data.toml b/tests/data.toml
new file mode 100644
--- /dev/null
+++ b/tests/data.toml
@@ -0,0 +1 @@
+a = 1
diff --git a/tests/model_fields/test_a.py b/tests/model_fields/test_a.py
--- a/tests/model_fields/test_a.py
+++ b/tests/model_fields/test_a.py
@@ -1 +1,2 @@
 import a
+assert a
"""


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SUITE.read_text(encoding="utf-8").splitlines()]


def old_row(**changes: Any) -> dict[str, Any]:
    """A row of 4.x: no eval_script, log_parser, eval_type or image."""
    row = {
        "instance_id": "pallets__flask-1",
        "repo": "pallets/flask",
        "base_commit": "0" * 40,
        "patch": "diff --git a/a.py b/a.py\n",
        "test_patch": TEST_PATCH,
        "problem_statement": "It is broken.",
        "hints_text": "A secret of the discussion.",
        "version": "2.3",
        "FAIL_TO_PASS": '["tests/test_a.py::test_b"]',
        "PASS_TO_PASS": [],
    }
    return {**row, **changes}


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_every_container_gives_the_same_instances(tmp_path: Path) -> None:
    instances = load_instances(SUITE)
    assert [instance.instance_id for instance in instances] == [row["instance_id"] for row in rows()]
    as_list = write(tmp_path / "list.json", rows())
    by_id = write(tmp_path / "map.json", {row["instance_id"]: row for row in rows()})
    lists = [
        {
            **row,
            "FAIL_TO_PASS": json.loads(row["FAIL_TO_PASS"]),
            "PASS_TO_PASS": json.loads(row["PASS_TO_PASS"]),
        }
        for row in rows()
    ]
    with_lists = write(tmp_path / "lists.json", lists)
    assert load_instances(as_list) == load_instances(by_id) == load_instances(with_lists) == instances
    folder = tmp_path / "folder"
    folder.mkdir()
    for row in rows():
        write(folder / f"{row['instance_id']}.json", row)
    assert set(load_instances(folder)) == set(instances)


def test_only_picks_and_misses_loudly() -> None:
    (one,) = load_instances(SUITE, only=["mini__poly-1"])
    assert one.parser == "parse_log_sympy"
    with pytest.raises(ConfigError, match="no instance nowhere-1"):
        load_instances(SUITE, only=["mini__poly-1", "nowhere-1"])


@pytest.mark.parametrize(
    ("repo", "command", "parser"),
    [
        ("pallets/flask", "pytest -rA tests/model_fields/test_a.py", "parse_log_flask"),
        (
            "django/django",
            "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 model_fields.test_a",
            "parse_log_django",
        ),
        (
            "sphinx-doc/sphinx",
            "tox --current-env -epy39 -v -- tests/model_fields/test_a.py",
            "parse_log_sphinx",
        ),
    ],
)
def test_rows_of_4x_get_command_and_parser(tmp_path: Path, repo: str, command: str, parser: str) -> None:
    (instance,) = load_instances(write(tmp_path / "old.json", old_row(repo=repo)))
    assert (instance.test_command, instance.parser) == (command, parser)
    assert instance.test_files == ("tests/data.toml", "tests/model_fields/test_a.py")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instance_id": ""}, "column 'instance_id' is empty"),
        ({"repo": "flask"}, "column 'repo' must be owner/name"),
        ({"base_commit": "main"}, "column 'base_commit' must be a full 40-digit"),
        ({"test_patch": 3}, "column 'test_patch' is not a text"),
        ({"FAIL_TO_PASS": "[]"}, "column 'FAIL_TO_PASS' is empty"),
        ({"FAIL_TO_PASS": "test_b"}, "column 'FAIL_TO_PASS' is neither a list nor the JSON"),
        ({"PASS_TO_PASS": [1]}, "column 'PASS_TO_PASS' must be a list"),
        ({"repo": "me/mine"}, "column 'log_parser' is missing"),
        ({"repo": "me/mine", "log_parser": "parse_log_flask"}, "column 'eval_script' is missing"),
        ({"log_parser": "parse_log_jest"}, "column 'log_parser' names 'parse_log_jest'"),
        ({"eval_type": "fail_only"}, "column 'eval_type' is 'fail_only'"),
        ({"eval_script": "pytest -rA"}, "column 'eval_script' must hold one start"),
    ],
)
def test_unusable_rows_name_their_column(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(old_row()) + "\n" + json.dumps({**old_row(instance_id="b"), **changes}) + "\n")
    with pytest.raises(DataError) as caught:
        load_instances(path)
    assert f"{path}:2" in str(caught.value)
    assert message in str(caught.value)


def test_missing_column_and_duplicate_id(tmp_path: Path) -> None:
    row = old_row()
    del row["PASS_TO_PASS"]
    with pytest.raises(DataError, match="column 'PASS_TO_PASS' is missing"):
        load_instances(write(tmp_path / "a.json", [row]))
    with pytest.raises(DataError, match=r"row 2.*is there twice"):
        load_instances(write(tmp_path / "b.json", [old_row(), old_row()]))


def test_fingerprint_follows_what_decides_the_verdict(tmp_path: Path) -> None:
    one, hinted, harder = (
        load_instances(write(tmp_path / f"{i}.json", old_row(**changes)))[0]
        for i, changes in enumerate([{}, {"hints_text": "x"}, {"PASS_TO_PASS": ["t"]}])
    )
    assert one.fingerprint == hinted.fingerprint != harder.fingerprint
