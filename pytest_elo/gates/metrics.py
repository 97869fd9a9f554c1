"""What a threshold gate may speak about: names, units, and which of them need a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["METRICS", "STATUS_SHARES", "Metric", "Unit"]

Unit = Literal["share", "points", "elo", "tokens", "usd"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a run. ``share`` runs from 0 to 1 and may be written in percent."""

    name: str
    unit: Unit
    needs_strategy: bool
    meaning: str


STATUS_SHARES = {
    "infra_errors": ("infra_error",),
    "no_answer": ("no_answer", "truncated", "empty"),
    "truncated": ("truncated",),
    "refused": ("refused",),
    "filtered": ("filtered",),
}
"""Metrics that are shares of all outcomes with one of these statuses."""

_ALL = (
    Metric("score", "share", False, "mean score over scored items"),
    Metric("score_points", "points", True, "score difference to the anchor, in points"),
    Metric("delta_elo", "elo", True, "ΔElo against the anchor"),
    Metric("elo_per_1k", "elo", True, "ΔElo per 1,000 tokens"),
    Metric("elo_per_extra_1k", "elo", True, "ΔElo per 1,000 tokens beyond the anchor's"),
    Metric("marginal_elo_per_1k", "elo", True, "ΔElo per 1,000 tokens beyond the tier below"),
    Metric("tokens_per_item", "tokens", False, "tokens an item, every attempt counted"),
    Metric("usd_per_item", "usd", False, "USD an item by the price table of elo.yaml, every attempt counted"),
    Metric("elo_per_usd", "elo", True, "ΔElo per USD"),
    Metric("infra_errors", "share", False, "share of outcomes that failed outside the model"),
    Metric("no_answer", "share", False, "share of outcomes without an answer, cut and empty replies included"),
    Metric("truncated", "share", False, "share of outcomes cut by the token cap"),
    Metric("refused", "share", False, "share of outcomes that the model refused"),
    Metric("filtered", "share", False, "share of outcomes that a content filter took"),
    Metric("estimated_tokens", "share", False, "share of tokens that the gateway did not report"),
    Metric("discarded_tokens", "share", False, "share of tokens spent on calls whose reply was not used"),
)

METRICS = {metric.name: metric for metric in _ALL}
