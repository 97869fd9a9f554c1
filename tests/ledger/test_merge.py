"""Joining ledgers in any order, also other programs'; the session's shards stand in tests/session/test_shards.py."""

from __future__ import annotations

import json
import random

import pytest

from pytest_elo.errors import DataError
from pytest_elo.ledger import merge_rows
from pytest_elo.ledger.merge import join
from pytest_elo.ledger.merge_rows import ORDER
from tests.ledger.test_stream import rows, write


def run(tmp_path, name: str, task: str, *, order: int | None = None, seed: int = 1, expected: int = 6):
    folder = tmp_path / name
    folder.mkdir()
    made = [row | {"task_id": task, "call_id": f"{task}{row['call_id']}"} for row in rows(400, seed)]
    made.sort(key=lambda row: [row[name] for name in ORDER])
    if order is not None:
        random.Random(order).shuffle(made)
    write(folder / "runs.jsonl", made)
    outcomes = [
        {"task_id": task, "item_id": f"i{i}", "strategy": "r3", "model": "m0", "status": "correct", "score": 1.0}
        for i in range(6)
    ]
    write(folder / "outcomes.jsonl", outcomes if order is None else outcomes[::-1])
    header = {
        "v": 1,
        "run_id": name,
        "started": f"2026-{seed:02d}",
        "notes": [name],
        "expected": {task: {"r3": expected}},
    }
    (folder / "run.json").write_text(json.dumps(header))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_rows_in_any_order_come_out_in_the_ledgers_order(tmp_path, monkeypatch):
    monkeypatch.setattr(merge_rows, "CHUNK", 90)
    first = [run(tmp_path, "a", "t0"), run(tmp_path, "b", "t1", seed=2)]
    joined = join(first, tmp_path / "out")
    (tmp_path / "again").mkdir()
    shuffled = [run(tmp_path / "again", "b", "t1", order=5, seed=2), run(tmp_path / "again", "a", "t0", order=7)]
    join(shuffled, tmp_path / "other")
    assert contents(tmp_path / "out") == contents(tmp_path / "other")
    assert (joined.runs, joined.rows, joined.outcomes, joined.missing) == (2, 800, 12, [])
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert [[row[name] for name in ORDER] for row in lines] == sorted([row[name] for name in ORDER] for row in lines)
    header = json.loads((tmp_path / "out" / "run.json").read_text())
    assert header["expected"] == {"t0": {"r3": 6}, "t1": {"r3": 6}}
    assert (header["started"], header["notes"]) == ("2026-01", ["a", "b"])


def test_the_plain_reader_joins_the_same(tmp_path, monkeypatch):
    folders = [run(tmp_path, "a", "t0"), run(tmp_path, "b", "t1", order=3)]
    join(folders, tmp_path / "fast")
    monkeypatch.setattr(merge_rows, "_decoder", lambda: None)
    join(folders, tmp_path / "plain")
    assert contents(tmp_path / "fast") == contents(tmp_path / "plain")


def test_what_is_less_than_expected_is_said_and_a_bad_line_leaves_nothing(tmp_path):
    short = run(tmp_path, "a", "t0", expected=9)
    assert join([short], tmp_path / "out").missing == ["t0/r3 has 6 of 9"]
    with (short / "runs.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(DataError, match="line 401: no task_id"):
        join([short], tmp_path / "never")
    assert not (tmp_path / "never").exists()
