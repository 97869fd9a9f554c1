"""The shipped own tasks: every key is computed here from the facts of its prompt."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from datetime import date, datetime, timedelta
from itertools import count, product
from pathlib import Path

import pytest

from pytest_elo.records import Reply
from pytest_elo.tasks import own

EVALS = Path(__file__).parents[2] / "evals"
TASK = own.load(EVALS / "data" / "own_tasks.yaml")


def _socks(n_colours: int) -> int:
    """The least number of socks among which every draw has two of one colour."""
    return next(n for n in count(1) if all(len(set(draw)) < n for draw in product(range(n_colours), repeat=n)))


COMPUTED: dict[str, Callable[[], object]] = {
    "rolls-left": lambda: 6 * 8 - 29,
    "ticket-total": lambda: 3 * 12 + 5 * 7,
    "average-speed": lambda: (150 + 90) / (2.5 + 1.5),
    "two-years-interest": lambda: round(200 * 1.1**2, 2),
    "product-minus-product": lambda: 17 * 23 - 9 * 12,
    "number-riddle": lambda: next(n for n in range(100) if 2 * n + 7 == 31),
    "speed-in-metres": lambda: 90 * 1000 / 3600,
    "fahrenheit-to-celsius": lambda: round((100 - 32) / 1.8, 1),
    "area-in-square-metres": lambda: round(60 * 0.25 * 0.40, 6),
    "reverse-stop": lambda: "stop"[::-1],
    "count-e": lambda: "independence".count("e"),
    "fourth-letter": lambda: "planet"[3],
    "shifted-letters": lambda: "".join(chr(ord(letter) + 1) for letter in "cat"),
    "binary-of-37": lambda: format(37, "b"),
    "arrival-time": lambda: f"{datetime(2024, 1, 1, 14, 35) + timedelta(hours=2, minutes=50):%H:%M}",
    "days-between": lambda: (date(2023, 4, 5) - date(2023, 3, 10)).days,
    "leap-day": lambda: date(2024, 2, 27) + timedelta(days=3),
    "socks-in-the-dark": lambda: _socks(3),
    "gases-of-air": lambda: "oxygen and nitrogen",
    "colours-of-green": lambda: "Yellow and blue",
    "multiple-of-77": lambda: next(n for n in range(100, 1000) if n % 7 == 0 and n % 11 == 0),
    "sum-and-product": lambda: next(f"{a}, {17 - a}" for a in range(17) if a * (17 - a) == 72),
}


def _printed(item_id: str) -> str | None:
    """What the Python of a prompt really prints."""
    prompt = str(TASK.pose(item_id, 0).messages[-1]["content"])
    _, asked, code = prompt.partition("What does this Python print?")
    if not asked:
        return None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code.strip(), {})
    return output.getvalue().strip()


@pytest.mark.parametrize("item_id", TASK.item_ids)
def test_keys_hold(item_id: str) -> None:
    printed = _printed(item_id)
    answer = printed if printed is not None else str(COMPUTED[item_id]())
    problem = TASK.pose(item_id, 0)
    assert problem.grade(Reply(call_id="1", text=f"So.\nANSWER: {answer}")).status == "correct"
    assert problem.grade(Reply(call_id="1", text="So.\nANSWER: 123456")).status == "wrong"


def test_all_kinds_of_check_are_shown() -> None:
    kinds = {type(TASK.pose(item_id, 0).grading).__name__ for item_id in TASK.item_ids}
    assert kinds == {"Exact", "Contains", "Regex", "Numeric", "Function"}
    assert len(TASK.item_ids) >= 24


@pytest.mark.parametrize(
    ("item_id", "answer", "score"),
    [
        ("multiple-of-77", "770 (7 * 11 * 10 = 770)", 1.0),
        ("multiple-of-77", "77", 0.0),
        ("multiple-of-77", "none", 0.0),
        ("sum-and-product", "9 and 8", 1.0),
        ("sum-and-product", "6 and 12", 0.5),
        ("sum-and-product", "10 and 7", 0.5),
        ("sum-and-product", "72", 0.0),
    ],
)
def test_checks_with_many_right_answers(item_id: str, answer: str, score: float) -> None:
    assert TASK.pose(item_id, 0).grade(Reply(call_id="1", text=f"ANSWER: {answer}")).score == score
