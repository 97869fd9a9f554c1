"""Tests that do nothing: what pytest itself costs."""

import os

import pytest


@pytest.mark.parametrize("i", range(int(os.environ["BENCH_ITEMS"])))
def test_nothing(i):
    pass
