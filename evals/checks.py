"""Checks of the own tasks that have many right answers: each takes the answer's text."""

from __future__ import annotations

import re


def three_digit_multiple_of_77(answer: str) -> bool:
    numbers = [int(digits) for digits in re.findall(r"[0-9]{1,9}", answer)]
    return bool(numbers) and 100 <= numbers[-1] <= 999 and numbers[-1] % 77 == 0


def sum_17_product_72(answer: str) -> float:
    """Half a point for numbers that fulfil only one of the two conditions."""
    numbers = [int(digits) for digits in re.findall(r"[0-9]{1,9}", answer)]
    if len(numbers) != 2:
        return 0.0
    a, b = numbers
    return 0.5 * (a + b == 17) + 0.5 * (a * b == 72)
