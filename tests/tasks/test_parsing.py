"""The two letter parsers on every shape of reply tail that is known to break some harness."""

from __future__ import annotations

import pytest

from pytest_elo.records import Reply
from pytest_elo.tasks.parsing import lenient_letter, strict_letter, unanswered, visible
from tests.hang import ends

REASONING = "Energy is conserved, so options B and D fail.\n"

# (row, tail, strict, lenient)
TABLE = [
    (1, "ANSWER: C  \n\n", "C", "C"),
    (2, "**ANSWER: C**", None, "C"),
    (3, "ANSWER: **C**", None, "C"),
    (4, "ANSWER: $C$", None, "C"),
    (5, "ANSWER: [C]", None, "C"),
    (6, r"\boxed{C}", None, "C"),
    (6, r"ANSWER: \boxed{C}", None, "C"),
    (6, r"So it is \boxed{\text{C}}.", None, "C"),
    (7, "Answer: (C)", None, "C"),
    (8, "ANSWER: C.", None, "C"),
    (9, "ANSWER\uff1aC", None, "C"),
    (9, "ANSWER: \uff23", None, "C"),
    (10, "ANSWER: C) 10^-4", None, "C"),
    (11, "ANSWER: A\nNo, the sign was wrong.\nANSWER: C", "C", "C"),
    (12, "ANSWER: C\nHope this helps!", None, "C"),
    (13, "<think>surely ANSWER: C</think>I am not sure about this one.", None, None),
    (14, "<think>ANSWER: A</think>ANSWER: C", "C", "C"),
    (15, "<think>so it must be ANSWER: C", None, None),
    (16, "answer: c", None, "C"),
    (17, "Answer: Diols", None, None),
    (17, "ANSWER: All options A, B, C, and D.", None, None),
    (17, "Answer: Both", None, None),
    (18, "ANSWER: C or D", None, None),
    (18, "ANSWER: A, C", None, None),
    (19, "ANSWER: None of the above", None, None),
    (19, "ANSWER: E", None, None),
    (20, "The gap is \\boxed{\\Delta E}.\n**Answer: D**", None, "D"),
    (21, "The answer is a small shift", None, None),
    (22, "I'm sorry, but I can't help with that.", None, None),
    (22, "I\u2019m sorry, I can\u2019t assist with this question.", None, None),
    (23, "Next we expand the sum and", None, None),
    (24, "", None, None),
    (24, " \n\t", None, None),
    (25, "I must end with ANSWER: X, X being A, B, C or D.\nANSWER: C", "C", "C"),
    (26, "### Final Answer\nC", None, "C"),
    (27, "ANSWER: \u0421", None, None),
    (28, "ANSWER:C", None, "C"),
    (28, "ANSWER:  C", None, "C"),
    (28, "ANSWER:\u00a0C", None, "C"),
]


def test_the_table_has_all_its_rows() -> None:
    assert {row for row, *_ in TABLE} == set(range(1, 29))


@pytest.mark.parametrize(("row", "tail", "strict", "lenient"), TABLE)
def test_letters_of_reply_tails(row: int, tail: str, strict: str | None, lenient: str | None) -> None:
    reply = tail if row == 24 else REASONING + tail
    assert (strict_letter(reply), lenient_letter(reply)) == (strict, lenient)


@pytest.mark.parametrize(
    ("tail", "lenient"),
    [
        ("The answer is option B.", "B"),
        ("**Answer:** D", "D"),
        ("Final answer = (A)", "A"),
        ("ANSWER: A / B", None),
        ("ANSWER: (A) and (B)", None),
        ("ANSWER: A\nANSWER: C or D", None),
        ("ANSWER: A'", None),
        ("the final answer\n**C**", "C"),
    ],
)
def test_lenient_declarations(tail: str, lenient: str | None) -> None:
    assert lenient_letter(tail) == lenient


def test_strict_reads_the_end_of_the_text_not_the_line() -> None:
    assert strict_letter("Final ANSWER: C") == "C"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<think>b</think>c", "ac"),
        ("b</think>c", "c"),
        ("a<think>b", "a"),
        ("<think>b<think>c</think>d</think>e", "e"),
        ("a<think>b</think>c<think>d</think>e", "ace"),
    ],
)
def test_reasoning_is_removed(text: str, expected: str) -> None:
    assert visible(text) == expected


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(call_id="1", text="Next we expand", finish_reason="length"), "truncated"),
        (Reply(call_id="1", text="", finish_reason="length"), "truncated"),
        (Reply(call_id="1", text=" \n", finish_reason="stop"), "empty"),
        (Reply(call_id="1", text="", refusal="I can't.", finish_reason="stop"), "refused"),
        (Reply(call_id="1", text="I'm sorry, but I can't help with that."), "refused"),
        (Reply(call_id="1", text="I cannot decide between them."), "no_answer"),
        (Reply(call_id="1", text="", finish_reason="content_filter"), "filtered"),
        (Reply(call_id="1", text="<think>still"), "no_answer"),
    ],
)
def test_why_there_is_no_answer(reply: Reply, status: str) -> None:
    assert unanswered(reply) == status


@pytest.mark.parametrize(
    "hostile",
    ["<think>", "answer " + "*" * 50, "answer is ", "ANSWER: A, ", "\\boxed{", "answer:" + " " * 30, "\n \n"],
)
def test_reading_is_linear(hostile: str) -> None:
    text = hostile * (400_000 // len(hostile))
    with ends():
        strict_letter(text)
        lenient_letter(text)
