"""``pytest-elo proxy``: the metering proxy by itself, for programs that no eval starts."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pytest_elo.config import Settings, load
from pytest_elo.errors import ConfigError
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.rundir import RunDir, new_run_id, recover
from pytest_elo.records import Tag

if TYPE_CHECKING:
    from pytest_elo.gateway.client import Gateway

__all__ = ["ProxyOptions", "run_proxy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """What the command line says; empty words leave the choice to the settings."""

    directory: Path | None = None
    config: Path | None = None
    base_url: str = ""
    key_variable: str = ""
    model: str = ""
    port: int = 0
    task: str = "(proxy)"
    item: str = "(proxy)"
    strategy: str = "(proxy)"
    command: Sequence[str] = ()


def run_proxy(options: ProxyOptions) -> int:
    """Serve until interrupted, or until ``command`` ends; then write ``runs.jsonl``. Returns the exit code.

    The directory may hold an earlier ledger: what is metered now is added to it. Raises ``ConfigError``.
    """
    settings = _settings(options)
    path = options.directory or Path(".elo") / new_run_id()
    path.parent.mkdir(parents=True, exist_ok=True)
    for sentence in recover(path.parent):
        print(f"elo: {sentence}")
    with _gateway(settings, RunDir(path)) as gateway:
        return _serve(gateway, options, path)


def _settings(options: ProxyOptions) -> Settings:

    found = options.config or next(
        (path for path in (Path("elo.yaml"), Path("evals/elo.yaml")) if path.is_file()), None
    )
    settings = load(found)
    base_url = options.base_url or os.environ.get("OPENAI_BASE_URL", "") or settings.base_url
    return replace(
        settings,
        base_url=base_url,
        base_url_from="--base-url" if options.base_url else "OPENAI_BASE_URL or gateway.base_url",
        key_variable=options.key_variable or settings.key_variable,
        model=options.model or settings.model,
    )


@contextmanager
def _gateway(settings: Settings, run_dir: RunDir) -> Iterator[Gateway]:
    """A gateway whose rows are in ``run_dir`` when it is left, however it is left."""
    from pytest_elo.gateway.client import Gateway, GatewaySettings
    from pytest_elo.gateway.endpoint import Endpoint

    endpoint = Endpoint.checked(
        settings.base_url,
        os.environ.get(settings.key_variable),
        key_variable=settings.key_variable,
        url_source=settings.base_url_from,
    )
    ledger = Ledger()
    run_dir.create()
    run_dir.read(ledger)
    journal = Journal(run_dir.shards / f"proxy-{os.getpid()}.jsonl", run_dir.path.name)
    gateway = Gateway(
        endpoint,
        GatewaySettings(
            model=settings.model or "",
            timeout_s=settings.timeout_s,
            concurrency=settings.concurrency,
            run_id=run_dir.path.name,
            allowed_models=frozenset({"*"}) if settings.allow_model_substitution else frozenset(),
        ),
        journal,
    )
    try:
        yield gateway
    finally:
        gateway.close()
        journal.shut()
        run_dir.sweep(ledger)
        run_dir.write(ledger.attempts(), ledger.outcomes())
        facts = run_dir.read_header()
        started = facts.get("started", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        run_dir.write_header({**facts, "started": started, "host": endpoint.host, "model": settings.model or ""})
        run_dir.point_latest()
        run_dir.finish()


def _serve(gateway: Gateway, options: ProxyOptions, path: Path) -> int:
    from pytest_elo.gateway.proxy.server import Proxy

    try:
        proxy = Proxy(gateway).start(options.port)
    except OSError as error:
        raise ConfigError(f"--port {options.port} cannot be used ({error.strerror}); choose another") from None
    with proxy:
        lease = proxy.lease(
            Tag(options.task, options.item, options.strategy, role="agent"), model=gateway.settings.model
        )
        lease.takes_labels = True
        access = lease.environment(proxy.origin)
        try:
            if options.command:
                return _run(options.command, access, gateway)
            _print_access(access, proxy.origin, lease.token)
            _wait()
            return 0
        finally:
            proxy.end(lease)
            rows = [row for call in lease.calls for row in call.attempts]
            print(
                f"elo: {len(rows)} attempts, {sum(row.total_tokens for row in rows):,} tokens; ledger {path}/runs.jsonl"
            )


def _run(command: Sequence[str], access: Mapping[str, str], gateway: Gateway) -> int:
    assert gateway.endpoint is not None
    key = gateway.endpoint.key.reveal()
    environment = {name: value for name, value in os.environ.items() if key not in value}
    try:
        process = subprocess.Popen(list(command), env={**environment, **access})
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be started: {error.strerror}") from None
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _print_access(access: Mapping[str, str], origin: str, token: str) -> None:
    for name, value in access.items():
        print(f"export {name}={value}")
    print(f"# to charge a call to an item, put it into the path: {origin}/{token}/for/TASK/ITEM/STRATEGY/v1")
    print("# Ctrl-C ends the proxy and writes the ledger", flush=True)


def _wait() -> None:
    """Until an interrupt or a termination signal."""
    over = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        over.set()

    before: dict[int, Any] = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        over.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
