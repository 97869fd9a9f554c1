"""The task from settings: the articles' own keys, data that is no file, and where repositories come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_elo import config
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.loading import load_task
from pytest_elo.tasks.swebench import load
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.git import git
from pytest_elo.tasks.swebench.local.mirrors import Mirrors
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from tests.walls import needs_walls

ROOT = Path(__file__).parents[3]
DATA = ROOT / "evals" / "data" / "swebench"
ARTICLES = ROOT / "tests" / "data" / "articles"


@needs_walls
def test_the_articles_settings_run_as_they_are(tmp_path: Path) -> None:
    """``config.toml`` over ``settings.json``: test command, time limits, workers, folders and system message."""
    options = dict(config.load([ARTICLES / "settings.json", ARTICLES / "config.toml"]).tasks["swebench"])
    assert options.pop("data") == "SWE-bench_Verified"
    options |= {"repo_cache": str(tmp_path / "repos"), "patch_dir": str(tmp_path / "patches")}
    task = load(DATA / "instances.jsonl", only=["mini__durations-1"], cache=tmp_path / "cache", **options)
    problem = task.pose("mini__durations-1", 0)
    assert problem.instance.test_command == "pytest -q -rA tests/test_durations.py"
    assert problem.messages[0] == {"role": "system", "content": options["system"]}
    runner = task.runner()
    assert isinstance(runner, LocalRunner)
    assert (runner.limits.wall_s, runner.limits.apply_s, runner.max_workers) == (300, 60, 4)
    assert problem.preflight() is None  # the gold patch resolves it under this command too
    assert problem.grade(problem.predicted(str(DATA / "predictions" / "gold.jsonl")).reply).status == "correct"
    assert [path.name for path in (tmp_path / "patches").glob("*/*/patch.diff")] == ["patch.diff"]
    assert (tmp_path / "repos" / "pytest-elo" / "mini__durations.git").is_dir()


def test_a_cache_that_cannot_be_written_is_said_before_a_model_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    grade = load(DATA / "instances.jsonl", cache=tmp_path / "file" / "cache").pose("mini__poly-1", 0).preflight()
    assert grade is not None
    assert (grade.status, (grade.detail or "")[:45]) == ("unfaithful", "swebench: the cache cannot be written ([Errno")


@pytest.mark.parametrize("named", ["SWE-bench_Verified", "SWE-bench/SWE-bench_Lite"])
def test_names_of_the_hub_need_the_datasets_package(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(
        ConfigError, match=rf"^SWE-bench/{named.split('/')[-1]}: .*pip install 'pytest-elo\[datasets\]'"
    ):
        load_task("swebench", "swebench", tmp_path / named, {}, {}, "elo.yaml", named)


def test_what_the_hub_does_not_give_is_a_data_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"^nobody/nothing \[test\]: cannot be loaded \(.*\); check name, split"):
        load_task("swebench", "swebench", tmp_path / "nobody/nothing", {}, {}, "elo.yaml", "nobody/nothing")


def test_folders_are_data_and_options_are_checked(tmp_path: Path) -> None:
    rows = (DATA / "instances.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.jsonl").write_text(row, encoding="utf-8")
    task = load_task("swebench", "swebench", folder, {}, {}, "elo.yaml", "rows")
    assert len(task.item_ids) == len(rows)
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        load_task("swebench", "swebench", tmp_path / "nowhere.jsonl", {}, {}, "elo.yaml", "nowhere.jsonl")
    with pytest.raises(ConfigError, match=r"tasks.swebench: unknown option 'sandbx'; did you mean 'sandbox'"):
        load_task("swebench", "swebench", folder, {"sandbx": "none"}, {}, "elo.yaml", "rows")


def test_parquet_rows_are_those_of_jsonl_and_bad_ones_name_row_and_column(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    import json

    rows = [json.loads(row) for row in (DATA / "instances.jsonl").read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "test.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert load(path).item_ids == load(DATA / "instances.jsonl").item_ids
    rows[2]["base_commit"] = "main"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    with pytest.raises(DataError, match=rf"test.parquet: row 3 \({rows[2]['instance_id']}\): column 'base_commit'"):
        load(path)


def test_a_repository_is_cloned_once_and_then_only_fetched(tmp_path: Path, suite: dict[str, Instance]) -> None:
    source = tmp_path / "source"
    git(["init", "--quiet", str(source)])

    def commit(text: str) -> str:
        (source / "f.py").write_text(text)
        git(["add", "."], cwd=source)
        git(["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", text], cwd=source)
        return git(["rev-parse", "HEAD"], cwd=source).strip()

    first = commit("one")
    mirrors = Mirrors(folder=tmp_path / "mirrors", repositories={"own/er": f"file://{source}"})
    mirror = mirrors.holding("own/er", first)
    born = mirror.stat().st_ino
    second = commit("two")
    assert mirrors.holding("own/er", second) == mirror
    assert mirror.stat().st_ino == born
    gone = dataclasses.replace(mirrors, repositories={"own/er": "file:///nowhere"})
    assert gone.holding("own/er", second) == mirror
    with pytest.raises(ConfigError, match=r"own/er cannot be had from file:///nowhere .*swebench.mirror_dir"):
        gone.holding("own/er", "1" * 40)
    assert mirror.is_dir()
