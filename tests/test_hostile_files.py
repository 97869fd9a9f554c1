"""Something else where a text, a number or a list belongs: one line that names the file, from every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fuzz_more_targets import BASELINE, BILL, CALLS, CLAUDE, CODEX, MAPPING, SOLVED, run_files
from pytest_elo._parse import parse_toml, parse_yaml
from pytest_elo.cli import main
from pytest_elo.config import load
from pytest_elo.errors import DataError, EloError
from pytest_elo.gates import baseline
from pytest_elo.gateway.reading import read_response
from pytest_elo.gateway.recordings import Recordings
from pytest_elo.gateway.stream import StreamReader
from pytest_elo.ledger.import_runs import import_runs
from pytest_elo.ledger.stream import read_sums
from pytest_elo.ledger.totals import by_task_strategy, totals_of
from pytest_elo.records import Tag
from pytest_elo.report.build import build
from pytest_elo.report.usage_export import read_billed
from pytest_elo.session.client_config import Provider, client_files
from pytest_elo.session.client_files import check_clients
from pytest_elo.tasks import own
from pytest_elo.tasks.swebench.local.environments import known_specs
from pytest_elo.tasks.swebench.reports import ReportRunner
from pytest_elo.votes.imports import import_votes
from pytest_elo.votes.page.ballots import read_ballots

ROOT = Path(__file__).parents[1]
PROVIDER = Provider(name="g", base_url="https://g.test", key_variable="KEY", model="m")
LONG = "a" * 5000
BALLOT = {"task_id": "t", "item_id": "i", "prompt": "p", "a": "x", "b": "y", "answer_a": "1", "answer_b": "2"}
LMSYS = {"question_id": 1, "model_a": "a", "model_b": "b", "winner": "tie"}
OURS = {"task_id": "t", "item_id": "i", "a": "x", "b": "y", "winner": "a", "judge": "j"}
SPEC = {"python": "3.12", "requirements": []}


def refused(read: Callable[[], object]) -> str:
    with pytest.raises(EloError) as caught:
        read()
    told = str(caught.value)
    assert len(told.splitlines()) == 1
    return told


def report_of(tmp_path: Path, name: str, content: bytes) -> object:
    run = tmp_path / "run"
    (run / "responses").mkdir(parents=True)
    for other, valid in run_files().items():
        (run / other).write_bytes(content if other == name else valid)
    return build(run)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prices", {"models": {"m": {"prompt": 1, "Yompletion": 2}}}),
        ("prices", {"models": {"m": {"prompt": float("nan"), "completion": 2}}}),
        ("prices", {"models": {"m": {"prompt": None, "completion": 2}}}),
        ("prices", {"models": [1]}),
        ("rating", {"level": "high"}),
        ("ladders", ["baseline"]),
        ("notes", [1]),
        ("partial", [{"task": "t"}]),
        ("anchor", ["baseline"]),
        ("strategies", float("inf")),
    ],
)
def test_a_header_of_a_run(tmp_path: Path, key: str, value: Any) -> None:
    header = json.loads(run_files()["run.json"]) | {key: value}
    told = refused(lambda: report_of(tmp_path, "run.json", json.dumps(header).encode()))
    assert "run.json" in told
    assert key in told or "infinite" in told


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gates.json", '{"gates": ["x"]}'),
        ("gates.json", '{"gates": [{"gate": "g", "answer": "maybe", "found": "f"}]}'),
        ("votes.jsonl", json.dumps(OURS | {"a": ["x"]}) + "\n"),
        ("votes.jsonl", json.dumps(OURS | {"winner": "graded", "graded_share": 7}) + "\n"),
        ("votes.jsonl", json.dumps(OURS | {"style_a": {"chars": "many"}}) + "\n"),
        ("contests.jsonl", json.dumps({**BALLOT, "repeat": 0, "plan": "all", "pairs": [["a", 1]]}) + "\n"),
    ],
)
def test_other_files_of_a_run(tmp_path: Path, name: str, text: str) -> None:
    assert name in refused(lambda: report_of(tmp_path, name, text.encode()))


def test_the_same_run_without_damage_is_read(tmp_path: Path) -> None:
    report_of(tmp_path, "", b"")


@pytest.mark.parametrize("count", ["inf", "nan", "-1", "1e400", "0.5"])
def test_a_bill(tmp_path: Path, count: str) -> None:
    path = tmp_path / "bill.csv"
    path.write_bytes(BILL.replace(b"30", count.encode()))
    assert "a count is a whole number" in refused(lambda: read_billed(str(path)))


def test_a_bill_that_is_no_number_of_tokens_and_no_name_of_a_file() -> None:
    for source in ("9" * 5000, "a\0b"):
        refused(lambda source=source: read_billed(source))


def test_a_bill_of_a_day_that_no_calendar_has(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_bytes(BILL.replace(b"2026-01-01T23:59:59Z", b"0001-01-01T00:00:00+14:00"))
    assert "is no date" in refused(lambda: read_billed(str(path)))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("calls.csv", b"1e-3", b"1e-3a", "latency_s is '1e-3a'"),
        ("calls.csv", b",10,5,,m", b",nan,5,,m", "prompt_tokens is 'nan'"),
        ("outcomes.csv", b"simple,1,HumanEval/1,1,m", b"simple,1", "line 2: 5 columns are expected"),
        ("outcomes.csv", b",0.5,m", b",5,m", "a score is 0 to 1"),
        ("mapping.yaml", b"anchor: simple", b"anchor: a: b", "cannot be read as YAML: line 2"),
        ("mapping.yaml", b"{strategy: simple}}", b"[simple]}", "groups[0]: where: a mapping"),
        ("mapping.yaml", b"[[simple, retry]]", b"[simple]", "ladders"),
        ("mapping.yaml", b"task: t,", b"task: [t],", "groups[0]: task is ['t']"),
    ],
)
def test_logs_of_others(tmp_path: Path, name: str, old: bytes, new: bytes, said: str) -> None:
    files = {"calls.csv": CALLS, "outcomes.csv": SOLVED, "mapping.yaml": MAPPING}
    for other, content in files.items():
        (tmp_path / other).write_bytes(content.replace(old, new) if other == name else content)
    assert said in refused(lambda: import_runs(*(tmp_path / other for other in files), tmp_path / "out"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"models": ["m"]', b'"models": 3'),
        (b'"strategies": {"r3": {"kind"', b'"strategies": [], "x": {"r3": {"kind"'),
        (b"2410.5", b"Infinity"),
        (b"0.1", b'"x"'),
    ],
)
def test_a_baseline(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(BASELINE.replace(old, new))
    assert "main.jsonl, line" in refused(lambda: baseline.load(path, "main"))


def test_a_baseline_of_items_whose_names_break_lines(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    path.write_bytes(BASELINE.replace(b'"item": "i"', '"item": "a\u2028b\x85c"'.encode()))
    snapshot = baseline.load(path, "main")
    path.write_text(baseline.dump(snapshot), encoding="utf-8")
    assert baseline.load(path, "main") == snapshot
    assert ("t", "a\u2028b\x85c", "r3") in snapshot.cells


@pytest.mark.parametrize("address", ["http://[", "http://[*a, *a]/v1", "http://127.0.0.1:99999/v1", "https://h:x/v1"])
def test_addresses_of_clients_that_are_none(tmp_path: Path, address: str) -> None:
    files = {
        ".claude/settings.json": json.dumps({"env": {"ANTHROPIC_BASE_URL": address}}),
        ".codex/config.toml": f'[model_providers.a]\nbase_url = "{address}"\n',
        ".cline/data/globalState.json": json.dumps({"openAiBaseUrl": address}),
        ".cc-switch/config.json": json.dumps({"activeProvider": "a", "providers": [{"name": "a", "baseUrl": address}]}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    complaints = list(check_clients(tmp_path, tmp_path / "none", "g.test", {}))
    for name in files:
        assert any(name in complaint and "is no address" in complaint for complaint in complaints), complaints


def test_files_of_clients_nested_too_deep_or_with_half_a_character(tmp_path: Path) -> None:
    for name, text in {
        ".codex/config.toml": CODEX.decode() + "a" + ".a" * 20_000 + " = 1\n",
        ".claude/settings.json": '{"a": ' + "[" * 2000 + "]" * 2000 + "}",
    }.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
        assert name in refused(lambda: list(client_files(PROVIDER, tmp_path)))
        assert isinstance(list(check_clients(tmp_path, tmp_path / "none", "g.test", {})), list)
        path.unlink()
    (tmp_path / ".claude/settings.json").write_bytes(CLAUDE.replace(b'"Read"', b'"\\ud800"'))
    written = next(file.text for file in client_files(PROVIDER, tmp_path) if file.client == "claude-code")
    assert written is not None
    assert json.loads(written.encode())["permissions"] == {"allow": ["\ud800"]}


@pytest.mark.parametrize(
    "text", ["a: 2026-99-99", "a: !!bool x", "a: !!int ''", "a: !!timestamp x", "a: !!float x", "? [a]\n: 1", "a: [b"]
)
def test_yaml_values_that_are_not_what_their_form_says(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_yaml(text)
    path = tmp_path / "elo.yaml"
    path.write_text(text)
    assert "elo.yaml: is not valid YAML" in refused(lambda: load(path))


def billion() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    return "\n".join(lines + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (billion(), "repeat values until they are too many"),
        ("a: &a [1, *a]", "holds itself"),
        ("a: &a {b: {c: *a}}", "holds itself"),
        ("a: " + "[" * 300 + "]" * 300, "nested more than 200 deep"),
    ],
)
def test_aliases_that_grow_without_end(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "elo.yaml"
    path.write_text(text)
    assert said in refused(lambda: load(path))
    path.write_text("- id: x\n  prompt: p\n  schema:\n" + "".join(f"    {line}\n" for line in text.split("\n")))
    assert said in refused(lambda: own.load(path))


def test_aliases_that_spare_some_writing(tmp_path: Path) -> None:
    text = "base: &b [1, 2]\nall: [" + ", ".join(["*b"] * 2000) + "]"
    assert parse_yaml(text)["all"] == [[1, 2]] * 2000


def test_a_key_of_toml_with_many_parts_is_refused_and_a_text_of_many_dots_is_not() -> None:
    with pytest.raises(ValueError, match="nested more than 200 deep"):
        parse_toml("a" + ".a" * 5000 + " = 1")
    assert parse_toml("a = '" + "a. b c. " * 5000 + "." * 5000 + "'")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (SPEC | {"requirements": "pytest"}, "requirements is 'pytest'"),
        (SPEC | {"environment": ["A=1"]}, "environment is ['A=1']"),
        (SPEC | {"pre_install": None}, "pre_install is None"),
        (SPEC | {"network": "all"}, "network is 'all'"),
    ],
)
def test_environments(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    path = tmp_path / "environments.json"
    path.write_text(json.dumps({"a/b": entry}))
    assert said in refused(lambda: known_specs(path))


@pytest.mark.parametrize(
    "document",
    [
        {"resolved_ids": 0.5},
        {"a__b-1": {"resolved": True, "tests_status": 1}},
        {"a__b-1": {"resolved": True, "tests_status": {"FAIL_TO_PASS": {"success": 3}}}},
    ],
)
def test_reports_of_the_official_harness(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    assert "not an official report" in refused(lambda: ReportRunner(path)) or "tests_status" in refused(
        lambda: ReportRunner(path)
    )


def test_votes_and_ballots(tmp_path: Path) -> None:
    votes = tmp_path / "v.json"
    votes.write_text(json.dumps([LMSYS | {"judge": []}]))
    assert import_votes([votes], judge="me").votes[0].judge == "me"
    ballots = tmp_path / "ballots.jsonl"
    for content in (json.dumps(BALLOT | {"a": ["x"]}).encode(), b'{"a": "\x84"}'):
        ballots.write_bytes(content + b"\n")
        assert "ballots.jsonl" in refused(lambda: read_ballots(tmp_path))


@pytest.mark.parametrize(("key", "value"), [("key", ["x"]), ("attempts", [{"total_tokens": "9"}]), ("body", 3)])
def test_recordings(tmp_path: Path, key: str, value: Any) -> None:
    recorded = json.loads(next((ROOT / "evals/recordings").glob("*.jsonl")).read_bytes().split(b"\n")[0])
    (tmp_path / "t.jsonl").write_text(json.dumps(recorded | {key: value}) + "\n")
    (tmp_path / "manifest.json").write_text('{"v": 1, "model": "m", "host": "h", "date": "2026-01-01"}')
    tag = Tag(recorded["task_id"], recorded["item_id"], "baseline", recorded["repeat"])

    def replayed() -> None:
        Recordings(tmp_path, mode="replay").find(tag, recorded["key"], recorded["occurrence"])

    said = refused(replayed)
    assert "t.jsonl" in said
    assert "is not a recorded call" in said


def test_a_gateway_whose_content_is_a_number() -> None:
    body = b'{"status": "completed", "output": [{"type": "message", "content": 3}]}'
    assert read_response("responses", 200, "application/json", body).text == ""


@pytest.mark.parametrize(
    ("api", "event"),
    [
        ("chat", {"choices": 3}),
        ("chat", {"choices": [{"delta": {"tool_calls": 3}, "logprobs": {"content": 3}}]}),
        ("chat", {"choices": [{"delta": {"tool_calls": [{"function": [1]}]}}]}),
        ("messages", {"type": "message_start", "message": {"usage": [1]}}),
        ("messages", {"type": "content_block_delta", "delta": {"text": 3, "thinking": [1]}}),
        ("messages", {"type": "message_delta", "usage": 3, "delta": "end"}),
        ("responses", {"type": "response.completed", "response": {"output": 3}}),
    ],
)
def test_a_stream_of_other_types(api: str, event: dict[str, Any]) -> None:
    reader = StreamReader(api, 200)
    reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert reader.reading().text == ""


def test_half_a_character_of_json_is_hashed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"instruction": "\\ud800", "generator_1": "a", "generator_2": "b", "preference": 1}]')
    assert len(import_votes([path]).votes[0].item_id) == 16


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    assert str(DataError("a:\n  b\r\n\u2028c")) == "a: b c"


@pytest.mark.parametrize(
    "command",
    [
        ["report", LONG],
        ["compare", LONG, LONG],
        ["merge", LONG, "--out", "x"],
        ["vote", LONG],
        ["import-votes", LONG],
        ["reconcile", LONG, "--billed", "3"],
        ["baseline", "save", LONG],
        ["embed", "--model-file", LONG],
        ["doctor", "--elo-config", LONG],
        ["init", LONG],
    ],
    ids=lambda command: command[0],
)
def test_a_name_too_long_for_any_file(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 4
    assert "Traceback" not in "".join(capfd.readouterr())


def test_two_rows_on_one_line_are_no_line_for_any_reader(tmp_path: Path) -> None:
    rows = run_files()["runs.jsonl"]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(rows.replace(b"\n", b"", 1))
    assert "line 1: not JSON" in refused(lambda: read_sums(path, lambda text: None))
    path.write_bytes(rows.replace(b"\n", b"\n\n", 1))
    with_a_gap = by_task_strategy(totals_of(read_sums(path, lambda text: None)))
    path.write_bytes(rows)
    assert with_a_gap == by_task_strategy(totals_of(read_sums(path, lambda text: None)))
