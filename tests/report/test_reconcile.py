"""The ledger of a real session against the bill of the gateway that served it, and against bills that differ."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, error, model_answer


@pytest.fixture
def run(pytester: pytest.Pytester) -> tuple[Path, list[Request]]:
    """A run of three samples an item, every seventh attempt rate-limited, and the requests that it was billed for."""

    def answer(request: Request) -> Response:
        return error(429, "Rate limit reached") if request.number % 7 == 3 else model_answer(request)

    suite = Suite(pytester).items(4).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    with LoopbackGateway(answer) as gateway:
        done = suite.live(gateway)
    assert done.exit_code == 0, done.output
    return done.run_dir, gateway.requests


def bill(path: Path, served: list[Request], **more: Any) -> str:
    """The gateway's own bill as an export: a line a model and day, columns named as providers name them."""
    paid = [request for request in served if request.billed.total_tokens]
    line = {
        "Date": json.loads((path / "runs.jsonl").read_text("utf-8").splitlines()[0])["ts"][:10],
        "Model": "test-model",
        "Input tokens": sum(request.billed.prompt_tokens for request in paid),
        "Output tokens": sum(request.billed.completion_tokens for request in paid),
    }
    for name, value in more.items():
        column = name.replace("_", " ")
        line[column] = line[column] + value if column in line else value
    target = path / "usage.csv"
    with target.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(line))
        writer.writeheader()
        writer.writerow(line)
    return str(target)


def reconcile(path: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest_elo", "reconcile", str(path), "--billed", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_gateways_own_bill_is_the_ledger(run: tuple[Path, list[Request]]) -> None:
    path, requests = run
    code, out = reconcile(path, bill(path, requests))
    assert code == 0, out
    assert out.count("+0") == 3  # in total, by model and by day
    total = sum(request.billed.total_tokens for request in requests)
    assert reconcile(path, str(total))[0] == 0
    assert reconcile(path, f"{total * 1.02:.0f}")[0] == 0
    assert reconcile(path, f"{total * 1.02:.0f}", "--tolerance", "0.01")[0] == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"Input_tokens": 400}, "tool results: 400 of the tokens are prompt"),
        ({"Output_tokens": 400}, "discarded branches: 400 of the tokens are completions"),
        ({"Input_tokens": 400, "Output_tokens": 60, "requests": 40}, "retries: 20 more requests were billed"),
        ({"Model": "-mini"}, "overhead or judge"),
    ],
)
def test_what_the_ledger_lacks_is_named(run: tuple[Path, list[Request]], more: dict[str, Any], said: str) -> None:
    path, requests = run
    if "requests" in more:
        more = {**more, "requests": sum(request.status == 200 for request in requests) + 20}
    code, out = reconcile(path, bill(path, requests, **more))
    assert (code, said in out) == (1, True), out


def test_whole_calls_that_are_missing_are_one_of_the_kinds_without_rows(run: tuple[Path, list[Request]]) -> None:
    path, requests = run
    total = sum(request.billed.total_tokens for request in requests)
    code, out = reconcile(path, str(total * 2))
    assert code == 1
    assert "judge or overhead: the ledger has none of it" in out


def test_a_bill_without_the_discards_names_them(run: tuple[Path, list[Request]]) -> None:
    path, _ = run
    rows = [json.loads(line) for line in (path / "runs.jsonl").read_text("utf-8").splitlines()]
    discarded = sum(row["total_tokens"] for row in rows if row["kept"] is False and row["status"] == "ok")
    total = sum(row["total_tokens"] for row in rows)
    code, out = reconcile(path, str(total - discarded))
    assert code == 1
    assert f"discarded branches: {discarded:,} tokens on the ledger" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,cost\nx,1\n", "no column tells the tokens"),
        ("model,total_tokens\nx,many\n", "line 2: total_tokens is 'many'"),
        ("date,total_tokens\nyesterday,1\n", "line 2: 'yesterday' is no date"),
    ],
)
def test_an_export_that_cannot_be_read_is_an_error_that_names_the_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "runs.jsonl").write_text("")
    (tmp_path / "usage.csv").write_text(text)
    code, out = reconcile(tmp_path, str(tmp_path / "usage.csv"))
    assert (code, said in out) == (4, True), out


def test_anthropics_export_adds_its_inputs_up(tmp_path: Path) -> None:
    from pytest_elo.report.usage_export import read_billed

    (tmp_path / "usage.csv").write_text(
        "usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,"
        'usage_input_tokens_cache_read,usage_output_tokens\n2026-01-31,big-1,"1,000",20,300,4\n'
    )
    (line,) = read_billed(str(tmp_path / "usage.csv"))
    assert (line.day, line.model, line.prompt, line.completion, line.total) == ("2026-01-31", "big-1", 1320, 4, 1324)
