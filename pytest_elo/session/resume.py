"""Continuing a run: which one, whether it may be continued, and what it has already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_elo._text import usable
from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError
from pytest_elo.ledger.fold import ContestKey, Ledger, outcome_key
from pytest_elo.session.plan import Plan, strategies_of

__all__ = ["continued", "require_same", "run_to_continue"]

RETRIED = frozenset({"infra_error", "config_error"})
"""Statuses of outcomes that are made again: nothing is known of the model."""

_COMPARED = ("mode", "model", "identity", "seed", "max_tokens", "temperature")


def run_to_continue(chosen: str, base: Path, invoked_in: Path) -> Path:
    """The run directory that ``--elo-resume`` means: the named one, else the latest. Raises ``ConfigError``."""
    try:
        path = usable(invoked_in / chosen) if chosen else (base / "latest")
    except ValueError as error:
        raise ConfigError(f"--elo-resume: {chosen[:80]!r} is no path ({error})") from None
    if not (path / "run.json").is_file():
        named = f"{chosen} holds no run.json, so it is no run; name a run directory" if chosen else "there is no run"
        raise ConfigError(f"--elo-resume: {named} (write --elo-resume=DIR, and paths of tests before it)")
    return path.resolve()


def require_same(header: Mapping[str, Any], settings: Settings, plan: Plan | None, path: Path) -> None:
    """Refuse to continue a run under another condition; names what differs. Raises ``ConfigError``.

    Before the plan is known only what the settings say is compared, so that a refusal costs nothing.
    """
    now: dict[str, Any] = {
        "seed": settings.seed,
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
    }
    if plan is not None:
        now |= {"mode": plan.mode, "model": plan.model, "identity": plan.identity}
    elif header.get("mode") == "live" and settings.model:
        now["model"] = settings.model
    for name in _COMPARED:
        if name in now and name in header and header[name] != now[name]:
            word = "endpoint" if name == "identity" else name
            raise _different(word, header[name], now[name], path)
    known = header.get("strategies", {})
    for name, definition in strategies_of(settings).items():
        if name in known and known[name] != definition:
            raise _different(f"strategy {name!r}", known[name], definition, path)


def _different(what: str, then: object, now: object, path: Path) -> ConfigError:
    return ConfigError(
        f"--elo-resume: {what} was {then!r} in {path} and is {now!r} now; outcomes of the two cannot be compared, "
        "so start a new run without --elo-resume, or set it back"
    )


def _unsettled(ledger: Ledger) -> set[ContestKey]:
    """Arena items of which a verdict is missing that may come now: lost with a process, or failed on its way."""
    votes = ledger.votes()
    lost = {_place(vote) for vote in votes if vote["winner"] is None and _may_pass(str(vote.get("reason")))}
    voted = {(*_place(vote), *sorted((vote["a"], vote["b"]))) for vote in votes}
    judged = {vote["task_id"] for vote in votes}
    for contest in ledger.contests():
        waiting = contest["plan"] != "adaptive" and contest["task_id"] in judged  # people's votes are not waited for
        if waiting and any((*_place(contest), *sorted(pair)) not in voted for pair in contest["pairs"]):
            lost.add(_place(contest))
    return lost


def _place(record: Mapping[str, Any]) -> ContestKey:
    return record["task_id"], record["item_id"], record.get("repeat", 0)


def _may_pass(reason: str) -> bool:
    """A network's error may be over; an answer that is not there, or a judge without a verdict, stays so."""
    return reason.startswith("error") or any(status in reason for status in RETRIED)


def continued(plan: Plan, ledger: Ledger) -> Plan:
    """The plan with the outcomes that need not be made again, and the conditions they were made under."""
    unsettled = _unsettled(ledger)
    done = [
        outcome
        for outcome in ledger.outcomes()
        if outcome.status not in RETRIED and (outcome.task_id, outcome.item_id, outcome.repeat) not in unsettled
    ]
    return replace(
        plan,
        done=[outcome_key(outcome) for outcome in done],
        conditions={outcome.task_id: outcome.condition for outcome in done},
    )
