"""The shipped GPQA-format questions: every key is computed here, and no other option comes near it."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from pytest_elo.records import Reply
from pytest_elo.tasks import gpqa
from pytest_elo.tasks.answers import Found, read_number

PATH = Path(__file__).parents[2] / "evals" / "data" / "gpqa_questions.csv"
TASK = gpqa.load(PATH)
with PATH.open(encoding="utf-8", newline="") as file:
    ROWS = {row["Record ID"]: row for row in csv.DictReader(file)}

# In the unit of the options.
NUMBERS: dict[str, float] = {
    "recHV4hKyzUxcLnQL": 5 * 3,
    "recnQzZSgiRqi021F": 4 * 3**2 / 2,
    "recQo4ta4rgsyYteE": 1 / (1 / 10 + 1 / 10),
    "rec9NGM5EPF4cWDSY": 340 / 170,
    "recKefKQafRo0Jxwx": 800 * 0.5 ** (15 / 5),
    "rec0T8uhFzeZUGCln": 200 * 10 * 15 / 10,
    "reczMbPgr1x7ovuZd": 1 / (2 * math.pi * 2.0e-9) / 1e6,
    "reczRSX1sPrGQVd1E": 2 * (3**2 - 1**2),
    "recVpkGnLUYMBmAcJ": 54 / 18,
    "recoVRoDoWuUT6JSl": 12 - 2,
    "recsaKWZZoOeIcOFs": 2 * 7 + 2,
    "rec4iWOSwPm32A3um": 2 * 2.5,
    "recPvf0G3obb8ikRH": 25 * 0.20 / 0.10,
    "reciYLXZbDkZmwlxO": -math.log10(0.010),
    # The exact root of h^2 + Ka h - Ka c = 0, not the approximation of the explanation.
    "recWbKcS3URQty2C0": (1.6e-5 / 4) ** (1 / 3),
    "recKBB0vlSp7hHjxc": 0.5 * 0.5,
    "recw4tzV4Tl6HR0pz": 300 / 3,
    "recmv2eKJVnMJq6CC": 70 * 80 / 1000,
    "recHOcP3li5jykDGj": 2**6,
    "recooICkwQFzfnFKG": 100 * 0.5 ** (12 / 4),
    "recOYPJFeB14TsNzO": 0.05 * 400,
    "rechAZoT22QdZpY1v": (100 - 2 * 22) / 2,
    "recLIlBSRIFbbVS3M": 3 / (1 + 3),
}
_ELEMENTS = {88: "radium", 90: "thorium", 91: "protactinium", 92: "uranium"}
_MOLAR_MASSES = {"CO2": 12.011 + 2 * 15.999, "O2": 2 * 15.999, "N2": 2 * 14.007, "SO2": 32.06 + 2 * 15.999}
TEXTS: dict[str, str] = {
    "recADn6iURthJgYsN": min(_MOLAR_MASSES, key=lambda gas: abs(_MOLAR_MASSES[gas] - 1.96 * 22.4)),
}


def number(option: str) -> float:
    value = read_number(Found(option, stated=True))
    assert value is not None, option
    return float(value)


def options(record_id: str) -> tuple[str, list[str]]:
    row = ROWS[record_id]
    return row["Correct Answer"], [row[f"Incorrect Answer {i}"] for i in (1, 2, 3)]


def test_every_question_has_a_computed_key() -> None:
    assert set(TASK.item_ids) == set(ROWS) == set(NUMBERS) | set(TEXTS)


@pytest.mark.parametrize("record_id", NUMBERS)
def test_numeric_keys_hold_and_stand_apart(record_id: str) -> None:
    correct, incorrect = options(record_id)
    assert number(correct) == pytest.approx(NUMBERS[record_id], rel=0.015)
    for option in incorrect:
        assert abs(number(option) - NUMBERS[record_id]) > 0.1 * abs(NUMBERS[record_id])


@pytest.mark.parametrize("record_id", TEXTS)
def test_text_keys_hold(record_id: str) -> None:
    correct, incorrect = options(record_id)
    assert correct == TEXTS[record_id]
    assert correct not in incorrect


def test_the_set_is_balanced_and_complete() -> None:
    assert not TASK.warnings
    assert all(re.fullmatch(r"rec[A-Za-z0-9]{14}", record_id) for record_id in TASK.item_ids)
    assert min(Counter(row["High-level domain"] for row in ROWS.values()).values()) >= 8
    assert all(row["Explanation"] and row["Subdomain"] for row in ROWS.values())
    letters = gpqa.key_letters(TASK.item_ids)
    assert all(0.15 <= letters[letter] / len(ROWS) <= 0.35 for letter in "ABCD")


@pytest.mark.parametrize("record_id", TASK.item_ids)
def test_the_key_as_posed_is_the_correct_answer(record_id: str) -> None:
    question = TASK.pose(record_id, 0)
    right = next(letter for letter in "ABCD" if question.options["ABCD".index(letter)] == options(record_id)[0])
    assert question.grade(Reply(call_id="1", text=f"ANSWER: {right}")).status == "correct"
