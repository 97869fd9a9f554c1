"""The plan of a run: decided once by the controller, handed to every worker as one JSON string."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pytest_elo._parse import parse_json
from pytest_elo.config import Settings, fingerprint
from pytest_elo.errors import ConfigError
from pytest_elo.records import Task

__all__ = ["Mode", "Plan", "access_facts", "choose_mode", "condition_of", "evaluation_facts", "run_header"]

Mode = Literal["replay", "live", "embedded"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every process of a run must agree on. Never written to disk: it may hold a throwaway key."""

    run_id: str
    run_dir: str
    config_paths: Sequence[str]
    mode: Mode
    record: bool
    model: str
    answers: str
    """What answers, in words: the header of the table."""
    identity: str
    """Which gateway or recording answers; outcomes of two identities are not comparable."""
    base_url: str = ""
    """Normalised, with the working path; empty in replay, and until the preflight has found it."""
    host: str = ""
    embedded_key: str = ""
    negotiated: str = ""
    """What preflight learnt of the parameters that the model takes."""
    stores: Sequence[str] | None = None
    """Response stores of earlier runs that answer first; ``None``: nothing answers but the model."""
    done: Sequence[Sequence[Any]] = ()
    """(task, item, strategy, repeat) of outcomes that a resumed run has already."""
    nonce: str = ""
    """What the controller's run directory holds, so that a worker knows whether it sees it."""
    root: str = ""
    """The controller's pytest root."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """The condition of each task's outcomes that a resumed run has already."""

    @property
    def awaits_preflight(self) -> bool:
        """Whether the gateway is still being asked: then nothing may be bought yet."""
        return self.mode == "live" and not self.base_url

    def checked(self, found: str) -> Self:
        """The plan with what the preflight has found (``Access.check``)."""
        known = parse_json(found)
        return dataclasses.replace(self, base_url=known["base_url"], negotiated=known["negotiated"])

    def dumps(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        return cls(**parse_json(text))


def condition_of(plan: Plan, settings: Settings, task: Task) -> str:
    """Hash of all that must be equal for two outcomes of a task to be comparable.

    What competes (the strategies) is not part of it: outcomes of two strategies must share a condition.
    """
    parts = [plan.identity, plan.model, settings.seed, task.task_id, task.fingerprint]
    if settings.temperature is not None:
        parts.append({"temperature": settings.temperature})
    return fingerprint(*parts)[:12]


def access_facts(settings: Settings, plan: Plan) -> dict[str, Any]:
    """How the model is reached."""
    return {
        "mode": plan.mode,
        "host": plan.host,
        "model": plan.model,
        "models": dict(settings.models),
        "timeout_s": settings.timeout_s,
        "max_retries": settings.max_retries,
        "allow_model_substitution": settings.allow_model_substitution,
    }


def evaluation_facts(settings: Settings) -> dict[str, Any]:
    """What is asked, how often, and how it is rated."""
    return {
        "seed": settings.seed,
        "repeats": settings.repeats,
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "anchor": settings.anchor,
        "strategies": strategies_of(settings),
        "ladders": [list(ladder) for ladder in settings.ladders],
        "tasks": {name: dict(options) for name, options in settings.tasks.items()},
        "rating": dataclasses.asdict(settings.rating) | {"seed": settings.seed},
    }


def strategies_of(settings: Settings) -> dict[str, dict[str, Any]]:
    return {spec.name: {"kind": spec.kind, **spec.parameters} for spec in settings.strategies}


def run_header(settings: Settings, plan: Plan) -> dict[str, Any]:
    """What ``run.json`` says of a run: all that a report needs besides the rows, and no secret; nor a clock."""
    access, evaluation = access_facts(settings, plan), evaluation_facts(settings)
    rated = ("seed", "repeats", "anchor", "strategies", "ladders", "rating", "max_tokens", "temperature")
    prices = {name: dataclasses.asdict(price) for name, price in settings.prices.items()}
    return {
        "v": 1,
        "run_id": plan.run_id,
        "mode": plan.mode,
        "answers": plan.answers,
        "identity": plan.identity,
        "config": os.path.relpath(plan.config_paths[0]) if plan.config_paths else "",
        "model": plan.model,
        "models": dict(settings.models),
        "host": plan.host,
        **{name: evaluation[name] for name in rated},
        "prices": {"date": settings.prices_date, "models": prices} if prices else None,
        "access_hash": fingerprint(access)[:12],
        "evaluation_hash": fingerprint(evaluation)[:12],
    }


def choose_mode(settings: Settings, *, replay: bool, record: bool) -> Mode:
    """Replay, live or embedded, by what is configured; raises ``ConfigError`` when nothing can answer.

    ``--elo-replay`` forces recordings. A model named ``embedded`` is the local one. An address that was
    chosen explicitly, or a key variable that exists (even empty: that is a broken secret, not a wish to
    replay), means the gateway. Otherwise the recordings answer.
    """
    if replay and record:
        raise ConfigError("--elo-replay and --elo-record exclude each other; drop one")
    if replay:
        return "replay"
    if settings.model == "embedded":
        return "embedded"
    if settings.gateway_configured or settings.key_variable in os.environ or record:
        return "live"
    if settings.recordings is not None and Path(settings.recordings, "manifest.json").is_file():
        return "replay"
    where = f" and no recordings stand in {settings.recordings}" if settings.recordings else ""
    raise ConfigError(
        f"no model can answer: {settings.key_variable} is not set{where}; "
        f"export {settings.key_variable}, or run the local model with --elo-model embedded"
    )
