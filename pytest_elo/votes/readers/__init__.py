"""Readers of the vote files people hold: one a format, each with its own explicit winner labels."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_elo.votes.readers import (
    alpaca_eval,
    fastchat_pair,
    kaggle,
    lmsys,
    native,
    pairwise,
    pandalm,
    sides_csv,
)
from pytest_elo.votes.readers.base import Reader

__all__ = ["READERS", "Reader"]

READERS: Sequence[Reader] = (
    native.READER,
    fastchat_pair.READER,
    kaggle.READER,
    lmsys.READER,
    sides_csv.READER,
    sides_csv.XY_READER,
    alpaca_eval.READER,
    pandalm.READER,
    pairwise.READER,
)
"""In the order they are asked; each claims a file by fields that no other format has."""
