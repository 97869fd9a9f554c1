"""Shards of a suite on several machines, joined: as if one machine had run it all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

REPORTS = (
    "elo.json", "elo.csv", "report.md", "report.html", "pairwise.json", "tokens_by_strategy.json",
    "tokens_by_task_strategy.csv", "gates.json", "metrics.txt",
)  # fmt: skip
GATES = ["r3 score >= 0.1", "r3 not_worse_than main by 5 points", "baseline score >= 0.99"]


def seeded(request: Request) -> Response:
    """Wrong for a third of the seeds, so that samples differ."""
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    return reply(f"ANSWER: {2 * int(prompt.split()[2]) + (request.body['seed'] % 3 == 0)}")


def merge(suite: Suite, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_elo", "merge", *arguments]
    # readline, which pytest imports, tells child processes of 80 columns behind the back of os.environ
    return subprocess.run(command, capture_output=True, text=True, cwd=suite.path, env={**os.environ}, check=False)


@pytest.fixture(scope="module")
def shards(tmp_path_factory, request):
    """A recorded suite: the run of the whole, and of its three shards."""

    class Place:
        path = tmp_path_factory.mktemp("suite")

    suite = Suite(Place)  # type: ignore[arg-type]
    (suite.path / "pytest.ini").write_text("[pytest]\n")
    suite.items(14).set(repeats=2)
    with LoopbackGateway(seeded) as gateway:
        recorded = suite.live(gateway, "--elo-record", "-n", "2")
    assert recorded.exit_code == 0, recorded.output
    del suite.settings["gateway"]
    suite.set(gates=GATES)
    command = [sys.executable, "-m", "pytest_elo", "baseline", "save"]
    assert subprocess.run(command, cwd=suite.path, check=False).returncode == 0
    runs = {"whole": suite.run("--elo-dir", "whole", "-n", "2")}
    for i in (1, 2, 3):
        runs[i] = suite.run("--elo-dir", f"shard{i}", "--elo-shard", f"{i}/3", *(["-n", "2"] if i == 2 else []))
    return suite, runs


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file()}


def places(folder: Path) -> set[tuple]:
    lines = [json.loads(line) for line in (folder / "outcomes.jsonl").read_text().splitlines()]
    return {(line["task_id"], line["item_id"], line["strategy"], line["repeat"]) for line in lines}


def test_an_item_is_in_one_shard_with_all_its_strategies_and_repeats(shards):
    suite, runs = shards
    found = [places(suite.path / f"shard{i}") for i in (1, 2, 3)]
    assert set.union(*found) == places(suite.path / "whole")
    assert sum(map(len, found)) == 14 * 3 * 2
    items = [{item for _, item, _, _ in shard} for shard in found]
    assert sum(map(len, items)) == 14
    assert all(runs[i].exit_code == 0 for i in (1, 2, 3)), runs[2].output
    assert runs["whole"].exit_code == 1
    header = json.loads((suite.path / "shard2" / "run.json").read_text())
    assert header["shard"] == {"index": 2, "of": 3}
    assert header["whole"] == {"sums": {"baseline": 28, "r3": 28, "r5": 28}}
    assert header["expected"]["sums"]["r3"] == 2 * len(items[1])
    assert f"shard 2/3 holds {len(found[1])} of 84 outcomes and judges no gate" in runs[2].output


def test_joined_shards_are_the_unsharded_run_in_any_order_and_grouping(shards):
    suite, runs = shards
    whole = contents(suite.path / "whole")
    process = merge(suite, "shard1", "shard2", "shard3", "--out", "joined")
    assert process.returncode == 1, process.stderr  # a gate fails, as it does in the whole run
    table = [line for line in process.stdout.splitlines() if re.search(r"^(baseline|r3) | score >= |points", line)]
    assert len(table) >= 5
    assert [line for line in table if line not in runs["whole"].output] == []
    joined = contents(suite.path / "joined")
    assert {name: joined[name] for name in REPORTS} == {name: whole[name] for name in REPORTS}
    del joined["report.html"]
    steps = ["shard3 shard1 shard2 out", "shard2 shard1 some", "some shard3 shard2 some grouped"]
    for *folders, out in map(str.split, steps):
        assert merge(suite, *folders, "--out", out, "--no-html").returncode == 1
    assert contents(suite.path / "out") == joined
    assert contents(suite.path / "grouped") == joined


def test_a_missing_shard_is_named_and_nothing_is_rated_or_judged(shards):
    suite, _ = shards
    process = merge(suite, "shard3", "shard1", "--out", "two", "--no-html")
    assert process.returncode == 1
    assert "MISSING: shard 2/3 is missing" in process.stdout
    assert "so no gate was judged" in process.stdout
    assert "sums/r3 is partial" in process.stdout
    assert not (suite.path / "two" / "gates.json").exists()


def copy_of(suite: Suite, name: str, copy: str) -> Path:
    target = suite.path / copy
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(suite.path / name, target)
    return target


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


CONTRADICTIONS = [
    ("outcomes.jsonl", '"status": "wrong"', '"status": "refused"', "two outcomes of sums/sum"),
    ("runs.jsonl", '"latency_s": ', '"latency_s": 1', "two rows of call "),
    ("run.json", '"seed": 0', '"seed": 1', "seed is 0 in shard1 and 1 in other"),
    ("run.json", '"n": 3', '"n": 4', "strategies.r3.n is 3 in shard1 and 4 in other"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), CONTRADICTIONS)
def test_what_contradicts_is_named_with_both_places(shards, file, old, new, message):
    suite, _ = shards
    other = copy_of(suite, "shard1", "other")
    assert merge(suite, "shard1", "other", "--out", "same", "--no-html").returncode == 1
    change(other / file, old, new)
    process = merge(suite, "shard1", "other", "--out", "never")
    assert process.returncode == 4
    assert message in process.stderr
    assert len(process.stderr.splitlines()) == 1


def test_directories_that_cannot_be_joined_or_written(shards):
    suite, _ = shards
    (suite.path / "empty").mkdir(exist_ok=True)
    assert "no finished run" in merge(suite, "empty", "--out", "never").stderr
    assert "exists and is no joined run" in merge(suite, "shard1", "--out", "shard2").stderr
    rerun = copy_of(suite, "shard1", "rerun")
    change(rerun / "run.json", '"run_id": "shard1"', '"run_id": "rerun"')
    assert "shard 1/3 is in shard1 and in rerun" in merge(suite, "shard1", "rerun", "--out", "never").stderr


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/3/5"])
def test_a_shard_that_cannot_be_is_a_usage_error(pytester, text):
    run = Suite(pytester).run("--elo-shard", text)
    assert run.exit_code == 4
    assert f"--elo-shard is '{text}'; write i/n with i from 1 to n" in run.output


@pytest.mark.parametrize("arguments", [[], ["-n", "2"]])
def test_a_shard_without_items_is_no_error_unless_nothing_was_selected_at_all(pytester, arguments):
    suite = Suite(pytester).items(1).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    codes, folders = [], []
    with LoopbackGateway(seeded) as gateway:
        for i in (1, 2):
            folders.append(f"part{i}")
            codes.append(suite.live(gateway, "--elo-shard", f"{i}/2", "--elo-dir", folders[-1], *arguments).exit_code)
        nothing = suite.live(gateway, "--elo-shard", "1/2", "-k", "nowhere", *arguments)
    assert codes == [0, 0]
    assert nothing.exit_code == 5
    assert merge(suite, *folders, "--out", "joined", "--no-html").returncode == 0
