"""Rating: numpy only, no I/O. Comparisons and usage in, ratings, intervals, efficiency and verdicts out.

``evaluate(comparisons, usage, settings)`` is the front door. Names are loaded on first use, so that
importing the package costs nothing until something is rated.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_elo.rating.evaluation import evaluate as evaluate
    from pytest_elo.rating.inputs import Comparisons as Comparisons
    from pytest_elo.rating.inputs import Usage as Usage
    from pytest_elo.rating.outcomes import comparisons_from_outcomes as comparisons_from_outcomes
    from pytest_elo.rating.results import RatingReport as RatingReport
    from pytest_elo.rating.settings import Settings as Settings

_HOMES = {
    "bradley_terry": "bradley_terry",
    "Comparisons": "inputs",
    "RatingReport": "results",
    "Settings": "settings",
    "Usage": "inputs",
    "comparisons_from_outcomes": "outcomes",
    "evaluate": "evaluation",
}

__all__ = ["Comparisons", "RatingReport", "Settings", "Usage", "comparisons_from_outcomes", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
