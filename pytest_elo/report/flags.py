"""What a reader must know of a strategy before its numbers: an oracle chose, or other models were paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_elo.report.build import Report
from pytest_elo.report.columns import TOKENS_UNKNOWN
from pytest_elo.report.oracles import ORACLE, oracles

__all__ = ["flag_lines", "flags_of", "labels", "models_of"]

MIXED, OTHER, UNPRICED = "mixed", "other model", "tokens unknown"


def flags_of(report: Report) -> dict[str, tuple[str, ...]]:
    """The flags of each flagged strategy; all others are not in it.

    ``oracle``: it looked at the right answer, if only once. ``mixed``: it paid for several models within one
    task. ``other model``: for one, that is not the run's. These two make tokens a wrong denominator.
    ``tokens unknown``: answers of another program, for which nothing was bought here.
    """
    flags: dict[str, tuple[str, ...]] = dict.fromkeys(oracles(report.outcomes), (ORACLE,))
    for name in {outcome.strategy for outcome in report.outcomes if TOKENS_UNKNOWN in outcome.marks}:
        flags[name] = (*flags.get(name, ()), UNPRICED)
    for name, models in models_of(report).items():
        flag = _model_flag(models, report.header.get("model"))
        if flag is not None:
            flags[name] = (*flags.get(name, ()), flag)
    return dict(sorted(flags.items()))


def models_of(report: Report) -> dict[str, tuple[str, ...]]:
    """The models that a strategy was charged for, by strategy: those of the task where it used most.

    Judges and pings are no part of it. By task, since a ledger may hold each task under another model.
    """
    rated = {(outcome.task_id, outcome.strategy) for outcome in report.outcomes}
    by_task = {place: tier.models for place, tier in report.totals.tiers.items() if place in rated}
    most: dict[str, tuple[str, ...]] = {}
    for (_, name), models in sorted(by_task.items()):
        most[name] = max(most.get(name, ()), tuple(sorted(models)), key=len)
    return most


def labels(report: Report) -> Mapping[str, str]:
    """The names of flagged strategies as tables and plots show them; ``?`` where the tokens column shows nothing."""
    short = {UNPRICED: "?"}
    return {
        name: f"{name} ({', '.join(short.get(flag, flag) for flag in flags)})"
        for name, flags in flags_of(report).items()
    }


def flag_lines(report: Report) -> Iterator[str]:
    """The sentences under the table."""
    models = models_of(report)
    for name, flags in flags_of(report).items():
        if ORACLE in flags:
            yield f"{name} (oracle): it chose with the right answer at hand, an upper bound that no policy reaches"
        if UNPRICED in flags:
            yield f"{name} (?): tokens unknown, another program made its answers; that is not 0"
        if MIXED in flags or OTHER in flags:
            yield (
                f"{name} ({flags[-1]}): it spends tokens of {' and '.join(models[name])}, whose price is not that of "
                "the others' tokens; compare it by Elo per dollar, not by Elo per 1k tokens"
            )


def _model_flag(models: tuple[str, ...], own: str | None) -> str | None:
    if len(models) > 1:
        return MIXED
    return OTHER if own and models and models != (own,) else None
