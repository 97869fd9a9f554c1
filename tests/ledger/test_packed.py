"""What the fold holds of a row gives the row back, to the byte; and it holds nothing else of it."""

from __future__ import annotations

import gc
import json
from types import FunctionType, ModuleType

from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.packed import packed_attempts, packed_outcomes
from pytest_elo.records import Attempt, Outcome

HEX = st.sampled_from(["0" * 32, "ab" * 32, "AB" * 32, "a b" * 11 + "abcdefg"[:-1], "é" * 32])
TEXTS = st.text(max_size=5) | HEX
NUMBERS = st.integers(0, 2**70) | st.booleans() | st.floats(allow_nan=False)
VALUES = st.dictionaries(TEXTS, st.none() | NUMBERS | TEXTS | st.lists(TEXTS, max_size=2), max_size=3)


@given(call_id=TEXTS, ts=TEXTS, status=TEXTS, tokens=NUMBERS, parameters=VALUES)
def test_an_attempt_comes_back_to_the_byte(call_id, ts, status, tokens, parameters):
    row = Attempt(
        ts=ts, task_id="t", strategy=call_id, model="m", call_id=call_id, item_id=ts, status=status,
        total_tokens=tokens, kept=True, parameters=parameters,
    )  # fmt: skip
    packed = packed_attempts()
    other = packed.pack(json.loads(Attempt(ts="", task_id="", strategy="", model="", call_id="", item_id="").to_json()))
    again = packed.record(packed.pack(json.loads(row.to_json())))
    assert again.to_json() == row.to_json()
    assert packed.record(other).call_id == ""


@given(texts=st.lists(TEXTS, min_size=4, max_size=4), scores=VALUES, calls=st.lists(TEXTS), score=NUMBERS)
def test_an_outcome_comes_back_to_the_byte(texts, scores, calls, score):
    row = Outcome(
        task_id=texts[0], item_id=texts[1], strategy="s", model="m", status="wrong", score=score, scores=scores,
        answer=texts[2], output=texts[3], call_ids=calls, response_sha256="0f" * 32, marks=("oracle",),
    )  # fmt: skip
    packed = packed_outcomes()
    assert packed.record(packed.pack(json.loads(row.to_json()))).to_json() == row.to_json()


def test_a_newer_schemas_fields_are_left_out_and_missing_ones_take_their_default():
    values = {"task_id": "t", "item_id": "i", "strategy": "s", "model": "m", "status": "wrong", "new": 1}
    packed = packed_outcomes()
    default = Outcome(task_id="t", item_id="i", strategy="s", model="m", status="wrong")
    assert packed.record(packed.pack(values)).to_json() == default.to_json()


def test_a_ledger_holds_bytes_and_no_records():
    ledger = Ledger()
    for number in range(20):
        row = Attempt(ts="2026", task_id="t", strategy="s", model="m", call_id=f"c{number}", item_id=f"i{number}")
        outcome = Outcome(task_id="t", item_id=f"i{number}", strategy="s", model="m", status="wrong", output="x")
        ledger.add({"close": row.to_dict()})
        ledger.add({"outcome": outcome.to_dict()})
    assert len(list(ledger.attempts())) == len(list(ledger.outcomes())) == 20
    assert [held for held in _held_by(ledger) if isinstance(held, Attempt | Outcome)] == []


def test_what_models_say_at_length_is_not_held_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ledger = Ledger()
    texts = {f"i{number}": f"{number} says é " * 100_000 for number in range(20)}
    for item, text in texts.items():
        outcome = Outcome(task_id="t", item_id=item, strategy="s", model="m", status="wrong", output=text)
        ledger.add({"outcome": outcome.to_dict()})
        ledger.add({"contest": {"task_id": "t", "item_id": item, "repeat": 0, "prompt": text}})
    assert {outcome.item_id: outcome.output for outcome in ledger.outcomes()} == texts
    assert {contest["item_id"]: contest["prompt"] for contest in ledger.contests()} == texts
    assert sum(map(len, (held for held in _held_by(ledger) if isinstance(held, bytes)))) < 6_000_000
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_to_set_texts_aside_they_are_held(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    ledger = Ledger()
    for number in range(8):
        text = "x" * 1_000_000
        outcome = Outcome(task_id="t", item_id=f"i{number}", strategy="s", model="m", status="wrong", output=text)
        ledger.add({"outcome": outcome.to_dict()})
    assert [len(outcome.output or "") for outcome in ledger.outcomes()] == [1_000_000] * 8


def _held_by(thing: object) -> list[object]:
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, type | ModuleType | FunctionType):
            seen[id(found)] = found
            waiting.extend(gc.get_referents(found))
    return list(seen.values())
