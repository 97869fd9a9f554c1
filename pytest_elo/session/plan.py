"""The plan of a run: decided once by the controller, handed to every worker as one JSON string."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError

__all__ = ["Mode", "Plan", "choose_mode", "run_header"]

Mode = Literal["replay", "live", "embedded"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every process of a run must agree on. Never written to disk: it may hold a throwaway key."""

    run_id: str
    run_dir: str
    config_path: str
    mode: Mode
    record: bool
    model: str
    answers: str
    """What answers, in words: for a replay the model, its file's hash and the date of the recordings."""
    identity: str
    """What of the answering side belongs to the condition: the endpoint's host, or the model file's hash."""
    base_url: str = ""
    """Normalised, with the working path; empty in replay."""
    host: str = ""
    embedded_key: str = ""
    negotiated: str = ""
    """What preflight learnt of the parameters that the model takes."""

    def dumps(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        return cls(**json.loads(text))


def run_header(settings: Settings, plan: Plan, started: str) -> dict[str, Any]:
    """What ``run.json`` says of a run: all that a report needs besides the rows, and no secret."""
    rating = dataclasses.asdict(settings.rating)
    return {
        "v": 1,
        "run_id": plan.run_id,
        "started": started,
        "mode": plan.mode,
        "answers": plan.answers,
        "model": plan.model,
        "host": plan.host,
        "identity": plan.identity,
        "config": os.path.relpath(plan.config_path),
        "seed": settings.seed,
        "repeats": settings.repeats,
        "anchor": settings.anchor,
        "strategies": {spec.name: {"kind": spec.kind, **spec.parameters} for spec in settings.strategies},
        "ladders": [list(ladder) for ladder in settings.ladders],
        "rating": rating | {"seed": settings.seed},
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
