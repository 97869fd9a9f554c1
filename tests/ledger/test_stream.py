"""A ledger in one pass: the same sums whoever reads it, in whatever parts, plain or compressed."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from pytest_elo.config import Price
from pytest_elo.errors import DataError
from pytest_elo.ledger import fast, stream
from pytest_elo.ledger.read import read_attempts
from pytest_elo.ledger.stream import Watch, read_sums
from pytest_elo.ledger.sums import Sums, columns_of
from pytest_elo.ledger.totals import by_strategy, by_task_strategy, total, totals_of

PRICES = {"m0": Price(3.0, 15.0, cached=0.3), "m1": Price(1.0, 2.0)}


def rows(n: int, seed: int = 1) -> list[dict]:
    """Rows as gateways leave them: failures, retries, discards, judges, interval costs, several models."""
    rng = random.Random(seed)
    made = []
    for number in range(n):
        prompt, completion = rng.randrange(2000), rng.randrange(3000)
        status = rng.choice(["ok"] * 6 + ["error", "open"])
        made.append(
            {
                "ts": f"2026-11-29T10:{rng.randrange(60):02d}:00.{rng.randrange(1000):03d}Z",
                "task_id": f"t{rng.randrange(2)}", "strategy": rng.choice(["baseline", "r3", "r5"]),
                "model": f"m{rng.randrange(2)}", "prompt_tokens": prompt, "completion_tokens": completion,
                "total_tokens": prompt + completion, "latency_s": round(rng.expovariate(0.5), 3),
                "finish_reason": "stop", "call_id": f"c{number}", "attempt": rng.choice([0, 0, 0, 1]),
                "item_id": f"i{rng.randrange(6)}", "repeat": rng.randrange(2), "sample": rng.randrange(3),
                "role": rng.choice(["generate", "vote", "judge", "ping"]), "status": status,
                "kept": rng.choice([True, False]) if status == "ok" else False,
                "estimated": rng.choice([None, None, "chars"]), "cached_tokens": rng.choice([None, prompt // 2]),
                "total_tokens_high": prompt + completion + rng.choice([0, 0, 500]), "response_model": "m0-2026",
                "parameters": rng.choice([{}, {"temperature": 0}, {"temperature": 0.8, "max_tokens": 9}]),
            }
        )  # fmt: skip
    return made


def write(path, lines: list[dict]):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def ledger(tmp_path):
    made = rows(3000)
    made.sort(key=lambda row: (row["task_id"], row["item_id"], row["strategy"], row["repeat"], row["ts"]))
    return write(tmp_path / "runs.jsonl", made)


def everything(sums: Sums):
    totals = totals_of(sums, PRICES)
    return totals.cells, totals.apart, totals.judges, totals.unanswered, by_strategy(totals), by_task_strategy(totals)


def test_totals_are_those_of_counting_by_hand(ledger):
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    totals = totals_of(read_sums(ledger, print), PRICES)
    key = ("t1", "i3", "r5", 0)
    mine = [
        row
        for row in lines
        if (row["task_id"], row["item_id"], row["strategy"], row["repeat"]) == key
        and row["role"] in ("generate", "vote")
    ]
    cell = totals.cells[key]
    assert cell.attempts == len(mine)
    assert cell.calls == sum(row["attempt"] == 0 for row in mine)
    assert cell.failed_attempts == sum(row["status"] != "ok" for row in mine)
    assert cell.total_tokens == sum(row["total_tokens"] for row in mine)
    assert cell.total_tokens_high == sum(row["total_tokens_high"] for row in mine)
    assert cell.discarded_tokens == sum(row["total_tokens"] for row in mine if row["kept"] is False)
    assert cell.estimated_tokens == sum(row["total_tokens"] for row in mine if row["estimated"])
    last = max((row for row in mine if row["status"] == "ok"), key=lambda row: (row["sample"], row["ts"]))
    assert cell.last_success_tokens == last["total_tokens"]
    usd = 0.0
    for row in mine:
        price, cached = PRICES[row["model"]], row["cached_tokens"] or 0
        unknown = row["total_tokens_high"] - row["prompt_tokens"] - row["completion_tokens"]
        usd += (row["prompt_tokens"] - cached) * price.prompt + (row["completion_tokens"] + unknown) * price.completion
        usd += cached * (0.3 if row["model"] == "m0" else 1.0)
    assert cell.usd == pytest.approx(usd / 1e6)
    assert totals.judges == {task: {"m0", "m1", "m0-2026"} for task in ("t0", "t1")}
    (r3,) = [record for record in by_strategy(totals) if record["strategy"] == "r3"]
    of_r3 = [row for row in lines if row["strategy"] == "r3" and row["role"] in ("generate", "vote")]
    latencies = sorted(row["latency_s"] for row in of_r3)
    assert r3["p95_latency"] == latencies[-(-95 * len(latencies) // 100) - 1]
    sampled = sum(row["parameters"].get("temperature") != 0 for row in of_r3)
    assert sum(tier.sampled for (_, name), tier in totals.tiers.items() if name == "r3") == sampled
    assert r3["tasks"] == len({(row["task_id"], row["item_id"]) for row in of_r3})


def test_the_plain_reader_and_the_fast_one_agree(ledger, monkeypatch):
    pytest.importorskip("msgspec")
    quickly = everything(read_sums(ledger, print))
    monkeypatch.setattr(stream, "decoder", lambda: None)
    assert everything(read_sums(ledger, print)) == quickly
    assert everything(Sums()) != quickly


NAMES = ["\u00e9", "\u65e5\u672c", 'a"b', "\\x", "", "x" * 300, "\u2028", "\U0001f600", "\ud83d"]
VALUES = [None, 0, 1, -1, 5.0, True, "ok", "1", [], {}, 10**12, 10**12 + 1, 1 << 40, "judge", 0.5, float("inf")]


@pytest.mark.parametrize("seed", range(8))
def test_they_agree_on_names_and_values_of_any_kind(tmp_path, monkeypatch, seed):
    """The fast one also where names come that it has not met before."""
    pytest.importorskip("msgspec")
    rng = random.Random(seed)
    fields = sorted(rows(1)[0].keys() - {"call_id", "finish_reason"})  # sums need neither, the fast one skips them
    for case in range(100):
        made = rows(rng.randrange(1, 9), seed=1000 * seed + case)
        for row in made:
            for name in ("task_id", "strategy", "model", "item_id"):
                if rng.random() < 0.15:
                    row[name] = rng.choice(NAMES)
            if rng.random() < 0.15:
                row[rng.choice(fields)] = rng.choice(VALUES)
            if rng.random() < 0.05:
                del row[rng.choice(fields)]
        path = write(tmp_path / "runs.jsonl", made)
        with monkeypatch.context() as plainly:
            plainly.setattr(stream, "decoder", lambda: None)
            plain = told(path)
        assert told(path) == plain


def test_more_names_than_a_decoder_learns_are_sums_too(tmp_path, monkeypatch):
    pytest.importorskip("msgspec")
    made = rows(2400)
    for number, row in enumerate(made):
        row["task_id"] = f"t{number % (fast.NAMES_AT_MOST + 50):04}"
    path = write(tmp_path / "runs.jsonl", made)
    fast.decoder.cache_clear()
    try:
        found = [told(path), told(path)]
    finally:
        fast.decoder.cache_clear()
    monkeypatch.setattr(stream, "decoder", lambda: None)
    assert found == [told(path)] * 2


def told(path):
    try:
        return repr(everything(read_sums(path, print)))
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_parts_are_the_sums_of_the_whole(ledger, seed):
    attempts = list(read_attempts(ledger, print))
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(len(attempts)), 4))
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(attempts)], strict=True):
        sums = Sums()
        sums.add(columns_of(attempts[start:end]))
        parts.append(sums)
    rng.shuffle(parts)
    merged = Sums()
    for part in parts:
        merged.merge(part)
    assert everything(merged) == everything(read_sums(ledger, print))


def test_rows_out_of_order_only_lose_their_order(ledger, tmp_path):
    lines = ledger.read_text().splitlines(keepends=True)
    random.Random(3).shuffle(lines)
    shuffled = tmp_path / "shuffled.jsonl"
    shuffled.write_text("".join(lines))
    assert by_strategy(totals_of(read_sums(shuffled, print))) == by_strategy(totals_of(read_sums(ledger, print)))


def test_a_large_file_is_read_in_parts_with_the_same_sums_and_rows(ledger, monkeypatch):
    places = {("t0", "i1", "r3", 1), ("t1", "i5", "baseline", 0)}
    one = Watch(places, 70)
    whole = read_sums(ledger, print, one)
    monkeypatch.setattr(stream, "PART", 100_000)
    monkeypatch.setattr(stream.os, "cpu_count", lambda: 2)
    several = Watch(places, 70)
    assert everything(read_sums(ledger, print, several)) == everything(whole)
    assert several.rows == one.rows
    assert len(one.rows) == 70
    with ledger.open("a") as file:
        file.write('{"task_id": "t0"}\n')
    with pytest.raises(DataError, match=r"runs\.jsonl, line 3001: no strategy and no total_tokens"):
        read_sums(ledger, print)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_ledgers_are_ledgers(ledger, suffix):
    plain = everything(read_sums(ledger, print))
    data = ledger.read_bytes()
    target = ledger.with_name(ledger.name + suffix)
    if suffix == ".gz":
        target.write_bytes(gzip.compress(data[:9000]) + gzip.compress(data[9000:]))
    else:
        zstandard = pytest.importorskip("zstandard")
        compress = zstandard.ZstdCompressor().compress
        target.write_bytes(compress(data[:9000]) + compress(data[9000:]))
    ledger.unlink()
    assert everything(read_sums(ledger, print)) == plain
    assert len(list(read_attempts(ledger, print))) == 3000
    target.write_bytes(target.read_bytes()[:-700])
    with pytest.raises(DataError, match="cannot be read to its end"):
        read_sums(ledger, print)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "runs.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(70):
            file.write(bytes(1 << 20))
    with pytest.raises(DataError, match="line 1: a line of more than 64 MB"):
        read_sums(tmp_path / "runs.jsonl", print)


BAD = [
    ({"total_tokens": -1}, "total_tokens is -1"),
    ({"total_tokens": 5.0}, "total_tokens is 5.0"),
    ({"parameters": None}, "parameters is 'None'"),
    ({"prompt_tokens": True}, "prompt_tokens is True"),
    ({"completion_tokens": None}, "completion_tokens is None"),
    ({"total_tokens": 10**30}, "total_tokens is 1000"),
    ({"latency_s": "fast"}, "latency_s is 'fast'"),
    ({"repeat": -1}, "repeat is -1"),
    ({"strategy": ["r3"]}, "strategy is "),
    ({"parameters": "none"}, "parameters is 'none'; an object is expected"),
    ({"response_model": {}}, "response_model is "),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_a_row_that_cannot_be_is_named_by_its_line(tmp_path, values, message):
    made = rows(20)
    made[13] |= values
    with pytest.raises(DataError, match=f"line 14: {message}"):
        read_sums(write(tmp_path / "runs.jsonl", made), print)


def test_rows_of_others_and_a_torn_end(tmp_path):
    foreign = {"task_id": 7, "strategy": "r3", "prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    path = write(tmp_path / "runs.jsonl", [foreign, foreign | {"latency_s": None, "role": "other"}])
    with path.open("a") as file:
        file.write('{"task_id": "x", "str')
    warned: list[str] = []
    totals = totals_of(read_sums(path, warned.append))
    assert totals.cells["7", "7", "r3", 0].total_tokens == 11
    assert totals.apart["other"].total_tokens == 11
    assert totals.unanswered == 0
    assert "line 3: the last line is torn" in warned[0]
    assert total(read_attempts(path, warned.append)).cells == totals.cells
