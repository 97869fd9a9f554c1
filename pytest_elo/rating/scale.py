"""The Elo scale: a difference of 400 means odds of ten to one."""

from __future__ import annotations

import math

__all__ = ["ANCHOR_ELO", "ELO_PER_LOGIT"]

ELO_PER_LOGIT = 400.0 / math.log(10.0)
"""Elo points per unit of log-odds (173.7178)."""

ANCHOR_ELO = 1000.0
"""Where the anchor stands when a rating is shown instead of a difference."""
