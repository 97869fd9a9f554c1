"""The Elo scale: a difference of 400 means odds of ten to one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["ANCHOR_ELO", "ELO_PER_LOGIT", "settled"]

ELO_PER_LOGIT = 400.0 / math.log(10.0)
"""Elo points per unit of log-odds (173.7178)."""

ANCHOR_ELO = 1000.0
"""Where the anchor stands when a rating is shown instead of a difference."""

_DUST = 1e-9
"""Logits (1.7e-7 Elo) that a fit to rounding may leave of an exact tie."""


def settled(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences in logits; those that are 0 up to rounding become 0, so that their sign means something."""
    return np.where(np.abs(differences) < _DUST, 0.0, differences)
