"""Finding the answer in a reply, comparing texts, reading numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.tasks.answers import Found, canonical_number, find_answer, normalised, read_number
from tests.hang import ends


@pytest.mark.parametrize(
    ("text", "answer", "stated"),
    [
        ("3 * 4 = 12\nANSWER: 12", "12", True),
        ("First ANSWER: 11\nno:\nANSWER: 12 apples\nHope this helps!", "12 apples", True),
        ("So it is 12. ANSWER: 12", "12", True),
        ("**Answer:** `desserts`", "desserts", True),
        ("### Final Answer:\n\ndesserts\n", "desserts", True),
        ("The answer: a dog", "a dog", True),
        ("<think>ANSWER: 1</think>\nANSWER: 2", "2", True),
        ("ANSWER\uff1a12", "12", True),
        ("Some work.\n\n**Paris**\n", "Paris", False),
        ("My answer is in the answer: none", "My answer is in the answer: none", False),
        ("NO_ANSWER: 3", "NO_ANSWER: 3", False),
    ],
)
def test_where_the_answer_stands(text: str, answer: str, stated: bool) -> None:
    assert find_answer(text, whole=False) == Found(answer, stated)


def test_a_reply_without_a_mark_is_read_whole_or_by_its_last_line() -> None:
    assert find_answer("one\ntwo\n", whole=True) == Found("one\ntwo", stated=False)
    assert find_answer("one\ntwo\n", whole=False) == Found("two", stated=False)


@pytest.mark.parametrize("text", ["", " \n", "ANSWER:", "ANSWER: **", "<think>42", "work</think> "])
def test_nothing_to_read(text: str) -> None:
    assert find_answer(text, whole=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "desserts",
        " Desserts. ",
        "**desserts**",
        '"Desserts"',
        "`desserts`.",
        "\u201cdesserts\u201d",
        "DESSERTS",
    ],
)
def test_same_text(text: str) -> None:
    assert normalised(text) == "desserts"


@pytest.mark.parametrize(
    ("text", "expected"), [("a  B\tc", "a b c"), ("...", "..."), ("1.5", "1.5"), ("__init__", "__init__")]
)
def test_normal_form(text: str, expected: str) -> None:
    assert normalised(text) == expected


NUMBERS = [
    ("42", "42"),
    ("-3.50 degrees", "-3.5"),
    ("\u22127", "-7"),
    ("$1,234.50", "1234.5"),
    ("1\u202f234", "1234"),
    ("50%", "50"),
    ("3/4", "0.75"),
    ("1/3 of it", "1/3"),
    ("1.5e3 m", "1500"),
    ("1.5 x 10^3", "1500"),
    ("2 \u00d7 10\u207b\u00b3 mol", "0.002"),
    ("6*10**2", "600"),
    (".5", "0.5"),
    ("12km", "12"),
    ("3 x 12 = 36 apples", "36"),
    ("x = 5 or so", "5"),
    ("36 apples in 3 boxes", "36"),
    ("H2O", None),
    ("7:25", None),
    ("1.2.3", None),
    ("3,5", None),
    ("12/05/2024", None),
    ("0x1F", None),
    ("14\u03c0", None),
    ("2\u221a3", None),
    ("5/0", None),
    ("none", None),
]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers_of_stated_answers(text: str, number: str | None) -> None:
    value = read_number(Found(text, stated=True))
    assert (None if value is None else canonical_number(value)) == number


def test_an_unmarked_line_states_its_last_number() -> None:
    assert read_number(Found("With 3 boxes of 12 there are 36 apples.", stated=False)) == 36
    assert read_number(Found("So 3 * 12 = 36 apples in 3 boxes.", stated=False)) == 36


@given(st.fractions())
def test_canonical_numbers_are_exact(value: Fraction) -> None:
    assert Fraction(canonical_number(value)) == value


@given(st.integers(-(10**30), 10**30), st.integers(0, 12))
def test_one_value_has_one_canonical_number(digits: int, places: int) -> None:
    value = Fraction(digits, 10**places)
    text = canonical_number(value)
    assert read_number(Found(text, stated=True)) == value
    assert not ("." in text and text.endswith("0"))


@pytest.mark.parametrize("hostile", ["ANSWER: ", "1,234", "9" * 50 + " ", "- ", "= 1 ", "**the answer ", "1 x 10^"])
def test_reading_is_linear(hostile: str) -> None:
    text = hostile * (400_000 // len(hostile))
    with ends():
        found = find_answer(text, whole=True)
        if found:
            read_number(found)
            normalised(found.text)
