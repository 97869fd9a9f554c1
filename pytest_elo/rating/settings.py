"""The choices that decide a number; each stands in the header of the report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from pytest_elo.errors import ConfigError
from pytest_elo.rating.groups import Ties

__all__ = ["IntervalMethod", "Route", "Settings"]

Route = Literal["anchored", "pooled", "hierarchical"]
IntervalMethod = Literal["cr1", "percentile", "bca"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Raises ``ConfigError`` on a value that is none of the choices or out of range."""

    anchor: str
    ties: Ties = "half"
    route: Route = "anchored"
    interval: IntervalMethod = "cr1"
    level: float = 0.95
    bootstrap_rounds: int = 1000
    seed: int = 0
    ladders: tuple[tuple[str, ...], ...] = ()
    worth_elo_per_1k: float = 5.0
    """what a further 1,000 tokens must bring to be worth it (the verdict's delta)"""
    missing_anchor: Literal["error", "drop"] = "error"
    """what to do with a task that has no comparison of the anchor (route ``anchored``)"""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            choices = get_args(hints[field.name])
            value = getattr(self, field.name)
            if choices and isinstance(choices[0], str) and value not in choices:
                raise ConfigError(f"{field.name}: {value!r} is none of {', '.join(choices)}")
        if not 0.5 < self.level < 1.0:
            raise ConfigError(f"level: {self.level!r} is not between 0.5 and 1; write 0.95 for 95 %")
        if self.bootstrap_rounds < 100:
            raise ConfigError(f"bootstrap_rounds: {self.bootstrap_rounds} is fewer than 100, too few for an interval")
        if self.seed < 0:
            raise ConfigError(f"seed: {self.seed} is negative")
