"""Broken input to every reader; ``benchmarks/fuzz_readers.py`` does it a million times."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_elo._parse import DEPTH_AT_MOST, parse_json, parse_json_at
from pytest_elo.config import load
from pytest_elo.errors import EloError
from pytest_elo.ledger.fold import Ledger
from pytest_elo.tasks import own
from pytest_elo.votes.imports import import_votes

ROOT = Path(__file__).parents[1]


def test_a_few_thousand_cases_find_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks/fuzz_readers.py"),
        "--cases",
        "6000",
        "--keep",
        str(tmp_path / "kept"),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


FASTCHAT = {"question_id": 1, "model_1": "a", "model_2": "b", "g1_winner": "tie", "g2_winner": "tie", "judge": "j"}
LMSYS = {"question_id": 1, "model_a": "a", "model_b": "b", "winner": "tie", "judge": "j"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("v.jsonl", json.dumps(FASTCHAT | {"turn": float("nan")}) + "\n", "v.jsonl:1: turn is nan"),
        ("v.json", json.dumps([LMSYS | {"turn": "one"}]), "v.json:1: turn is 'one'"),
        (
            "v.json",
            json.dumps([LMSYS | {"conv_metadata": {"bold_count_a": {"b": []}}}]),
            "conv_metadata.bold_count_a is",
        ),
    ],
)
def test_votes_that_hold_no_number_where_one_belongs(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(EloError, match="expected") as caught:
        import_votes([path])
    assert said in str(caught.value)


@pytest.mark.parametrize("pattern", ["a{99999999999}", "[[a]", "[b-a]", "(?P<a>"])
def test_a_pattern_that_cannot_be_relied_on(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps([{"id": "a", "prompt": "p", "regex": pattern}]))
    with pytest.raises(EloError, match="not a regular expression") as caught:
        own.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b", "./" + "a" * 5000])
def test_a_path_that_is_none(tmp_path: Path, value: str) -> None:
    elo = tmp_path / "elo.yaml"
    elo.write_text(json.dumps({"recordings": value}))
    with pytest.raises(EloError):
        load(elo)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("elo.yaml", "strategies: {b: {kind: single}}\nanchor: null\ntasks: {own: {strategies: null}}\n"),
        ("elo.yaml", "gateway: {timeout_s: .nan}\n"),
        ("settings.json", json.dumps({"request": {"timeoutMs": 10**400}})),
    ],
)
def test_values_that_are_none_or_no_number_of_anything(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with suppress(EloError):  # taken or refused, never anything else
        load(path)


def test_settings_that_hold_themselves(tmp_path: Path) -> None:
    elo = tmp_path / "elo.yaml"
    elo.write_text("tasks: &a\n  own: {few: *a}\n")
    with pytest.raises(EloError, match="holds itself"):
        load(elo)


@pytest.mark.parametrize(
    "event", ['{"kept": 3}', '{"expected": {"t": 3}}', '{"open": 3}', '{"outcome": []}', "[]", "3"]
)
def test_a_journal_line_that_is_none_is_counted_as_torn(event: str) -> None:
    ledger = Ledger()
    ledger.add_lines(event + "\n")
    assert (len(ledger.torn), list(ledger.attempts()), list(ledger.outcomes())) == (1, [], [])


def test_a_log_of_opening_brackets_is_read_in_no_time() -> None:
    from pytest_elo.tasks.swebench.logparsers import parse_pytest_options

    name = "t" + "[x" * 100_000
    assert parse_pytest_options(f"PASSED {name}\nPASSED t[/a/b]") == {name: "PASSED", "t[/b]": "PASSED"}


@pytest.mark.parametrize("depth", [DEPTH_AT_MOST + 1, 900, 20_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_nested_too_deep_is_refused_by_every_python_alike(depth: int, opening: str, closing: str) -> None:
    text = opening * depth + "1" + closing * depth
    for read in (parse_json, lambda text: parse_json(text.encode()), lambda text: parse_json_at(text, 0)):
        with pytest.raises(ValueError, match="nested more than 200 deep"):
            read(text)


def test_json_as_deep_as_allowed_and_brackets_in_text_are_taken() -> None:
    text = "[" * DEPTH_AT_MOST + "]" * DEPTH_AT_MOST
    assert json.dumps(parse_json(text)) == text
    assert parse_json(json.dumps({"a": "[{" * 5000})) == {"a": "[{" * 5000}
    assert parse_json_at("  [1] x", 2) == ([1], 5)
