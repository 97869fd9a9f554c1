"""What answers this run: prepared once by the controller, opened from the plan by every process."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo._text import did_you_mean
from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint, check_model_name
from pytest_elo.gateway.recordings import Manifest, Recordings, merge
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Sink
from pytest_elo.session.plan import Mode, Plan, choose_mode
from pytest_elo.strategies.registry import models_named

if TYPE_CHECKING:
    from pytest_elo.gateway.embedded import EmbeddedModel
    from pytest_elo.gateway.preflight import Preflight

__all__ = ["Access", "earlier_stores", "live_endpoint", "live_preflight", "models_used", "open_gateway", "prepare"]

EMBEDDED_TIMEOUT_S = 900.0
"""A small model on a busy core takes its time; seconds a request."""


@dataclass(slots=True)
class Access:
    """The controller's side: what was decided, and what must be shut down and merged at the end."""

    settings: Settings
    mode: Mode
    record: bool
    model: str
    answers: str
    identity: str
    endpoint: Endpoint | None = None
    manifest: Manifest | None = None
    embedded_key: str = ""
    models: Sequence[str] = ()
    """What the preflight asks; empty where there is nothing to ask."""
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def plan(self, run_dir: Path, *, stores: Sequence[Path] | None) -> Plan:
        return Plan(
            run_id=run_dir.name,
            run_dir=str(run_dir),
            config_paths=[str(path) for path in self.settings.paths],
            mode=self.mode,
            record=self.record,
            model=self.model,
            answers=self.answers,
            identity=self.identity,
            base_url=self.endpoint.base_url if self.endpoint and not self.models else "",
            host=self.endpoint.host if self.endpoint and self.mode == "live" else "",
            embedded_key=self.embedded_key,
            stores=None if stores is None else [str(store) for store in stores],
        )

    def check(self, sink: Sink, run_id: str) -> str:
        """Ask each model once; returns what every process must know of the answers (``Plan.checked``).

        The attempts go to ``sink``. Raises ``ConfigError`` with the line of the step that failed.
        """
        assert self.endpoint is not None
        found = live_preflight(self.settings, self.endpoint, self.models, sink, run_id)
        found.require()
        return json.dumps({"base_url": found.base_url, "negotiated": found.negotiated})

    def close(self, responses: Path) -> Iterator[str]:
        """Stop the local model and, when recording, fold the run's replies into the recordings."""
        self._open.close()
        recorded = self.record and responses.is_dir()
        if recorded and self.manifest is not None and self.settings.recordings is not None:
            calls, torn = merge(responses, self.settings.recordings)
            self.manifest.write(self.settings.recordings)
            yield f"{calls} recorded calls now stand in {self.settings.recordings}"
            if torn:
                yield f"{torn} replies in {responses} are torn and not among them"


def prepare(settings: Settings, *, replay: bool, record: bool) -> Access:
    """Decide what answers, and check all of it that costs nothing; raises ``ConfigError``.

    A gateway has not been asked yet: that is ``Access.check``.
    """
    mode = choose_mode(settings, replay=replay, record=record)
    if record and settings.recordings is None:
        raise ConfigError(f"{settings.path}: --elo-record needs 'recordings: <folder>' to know where to write")
    if mode == "replay":
        return _replay(settings)
    return _embedded(settings, record) if mode == "embedded" else _live(settings, record)


def _replay(settings: Settings) -> Access:
    if settings.recordings is None:
        raise ConfigError(f"{settings.path}: a replay needs 'recordings: <folder>'")
    manifest = Manifest.read(settings.recordings)
    model_file = f"{manifest.model_file}, " if manifest.model_file else ""
    sha256 = f"SHA-256 {manifest.model_sha256[:12]}..., " if manifest.model_sha256 else ""
    answers = (
        f"replay of {manifest.model}'s own answers ({model_file}{sha256}recorded {manifest.date}); "
        f"no model was called. Set {settings.key_variable} to call models"
    )
    identity = manifest.model_sha256 or manifest.host
    return Access(settings, "replay", False, manifest.model, answers, identity, manifest=manifest)


def _live(settings: Settings, record: bool) -> Access:
    # here and not in the preflight's thread: there, imports wait again and again for the main thread's collecting
    import pytest_elo.gateway.direct  # noqa: F401

    endpoint, models = live_endpoint(settings)
    model = models[0]
    return Access(
        settings,
        "live",
        record,
        model,
        f"live answers of {model} at {endpoint.host}",
        endpoint.host,
        endpoint=endpoint,
        models=models,
        manifest=Manifest(model=model, host=endpoint.host, date=_today()) if record else None,
    )


def live_endpoint(settings: Settings) -> tuple[Endpoint, list[str]]:
    """The checked address with its key, and every model that will be asked there, the general one first.

    Raises ``ConfigError`` without having asked anything.
    """
    key = os.environ.get(settings.key_variable)
    endpoint = Endpoint.checked(
        settings.base_url, key, key_variable=settings.key_variable, url_source=settings.base_url_from
    )
    if not settings.model:
        raise ConfigError(f"{settings.path}: no model is named; write 'model: <name>' or give --elo-model")
    models = models_used(settings, check_model_name(settings.model))
    _require_prices(settings, models)
    return endpoint, models


def live_preflight(
    settings: Settings, endpoint: Endpoint, models: Sequence[str], sink: Sink, run_id: str = ""
) -> Preflight:
    from pytest_elo.gateway.preflight import preflight

    return preflight(endpoint, replace(_gateway_settings(settings, models[0]), run_id=run_id), sink, models)


def earlier_stores(run_dir: Path) -> list[Path]:
    """The response stores of the runs beside ``run_dir``, newest first."""
    found = [store for store in run_dir.parent.glob("*/responses") if store.parent.resolve() != run_dir.resolve()]
    return sorted({store.resolve() for store in found}, reverse=True)


def models_used(settings: Settings, model: str) -> list[str]:
    """Every model that this run will ask: the general one, those that strategies name, and tasks' judges."""
    named = [name for spec in settings.strategies for name in models_named(spec.parameters)]
    judges = [name for options in settings.tasks.values() for name in _judges(options.get("judge"))]
    return list(dict.fromkeys([model, *named, *judges]))


def _judges(option: object) -> list[str]:
    """The models of a task's ``judge``: one, a panel, or none where people judge."""
    names = option if isinstance(option, list) else [option]
    return [name for name in names if isinstance(name, str) and name != "people"]


def _require_prices(settings: Settings, models: Sequence[str]) -> None:
    for model in models:
        if settings.usd_budget is not None and model not in settings.prices:
            raise ConfigError(
                f"{settings.path}: a budget in USD needs the price of {model!r}"
                f"{did_you_mean(model, settings.prices)}; add it under prices.models"
            )


def _embedded(settings: Settings, record: bool) -> Access:
    from pytest_elo.gateway.embedded import EmbeddedModel
    from pytest_elo.gateway.models import locate

    stack = contextlib.ExitStack()
    file = locate()
    server: EmbeddedModel = stack.enter_context(EmbeddedModel(file))
    manifest = Manifest(
        model=server.model_name,
        host="embedded",
        date=_today(),
        model_file=file.path.name,
        model_sha256=server.sha256,
        versions={"runtime": server.runtime_version},
    )
    return Access(
        settings,
        "embedded",
        record,
        server.model_name,
        f"live answers of the local model {server.model_name} (SHA-256 {server.sha256[:12]}...)",
        server.sha256,
        endpoint=Endpoint.checked(server.base_url, server.api_key, key_variable="(throwaway key)"),
        manifest=manifest if record else None,
        embedded_key=server.api_key,
        _open=stack,
    )


def open_gateway(
    settings: Settings,
    plan: Plan,
    sink: Sink,
    run_dir: Path,
    workers: int,
    time_left_s: Callable[[], float],
    ship: Callable[[str], None] | None = None,
) -> Gateway:
    """This process's gateway under the controller's plan.

    Every reply that is bought goes to the run's response store at once, whatever becomes of the item; what
    this run has bought before (a worker that died, a run that is resumed) is found there again. ``ship`` takes
    every reply that is kept where the controller cannot read it.
    """
    endpoint = None
    if plan.mode == "replay":
        recordings = Recordings(settings.recordings, mode="replay")
    else:
        recordings = _buying(settings, plan, RunDir(run_dir), ship)
        key = plan.embedded_key or os.environ.get(settings.key_variable)
        endpoint = Endpoint.checked(plan.base_url, key, key_variable=settings.key_variable)
    gateway_settings = replace(
        _gateway_settings(settings, plan.model),
        shared_directory=run_dir / "limits" if workers > 1 else None,
        run_id=plan.run_id,
        negotiated=plan.negotiated,
    )
    if plan.mode == "embedded":
        # One slot answers one request at a time; more in flight would put the queue into the latencies.
        gateway_settings = replace(gateway_settings, source="embedded", concurrency=1, timeout_s=EMBEDDED_TIMEOUT_S)
    return Gateway(endpoint, gateway_settings, sink, recordings=recordings, time_left_s=time_left_s)


def _buying(settings: Settings, plan: Plan, run: RunDir, ship: Callable[[str], None] | None) -> Recordings:
    if plan.stores is not None:
        stores = [Path(store) for store in plan.stores]
        return Recordings(
            settings.recordings, mode="cache", shards=run.responses, stores=stores, lost=run.lost, ship=ship
        )
    # Recording looks its own replies up again: a strategy that asks what another has asked, with the
    # same seed, is answered as its replay will be.
    return Recordings(None, mode="cache" if plan.record else "record", shards=run.responses, lost=run.lost, ship=ship)


def _gateway_settings(settings: Settings, model: str) -> GatewaySettings:
    return GatewaySettings(
        model=model,
        seed=settings.seed,
        temperature=0.0 if settings.temperature is None else settings.temperature,
        timeout_s=settings.timeout_s,
        retry=RetryPolicy(max_attempts=settings.max_retries + 1, patience_s=settings.patience_s),
        concurrency=settings.concurrency,
        allowed_models=frozenset({"*"}) if settings.allow_model_substitution else frozenset(),
    )


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
