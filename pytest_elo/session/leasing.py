"""The environment of a test's own program: access to the model, charged to the test's item, and no key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_elo.gateway.context import CallRecord
    from pytest_elo.session.runner import Runner
    from pytest_elo.session.trial import TrialKey

__all__ = ["leased"]


@contextmanager
def leased(runner: Runner, key: TrialKey | None, calls: list[CallRecord], node_id: str) -> Iterator[dict[str, str]]:
    """This process's environment with the proxy's addresses and a token in place of every key of the gateway.

    Records of the program's calls go to ``calls`` when it is over. ``ELO_MODEL`` names the run's model.
    """
    from pytest_elo.gateway.proxy.lease import Admission

    tag = runner.payer(key, node_id)
    proxy = runner.gateway.proxy
    room = getattr(runner.sink, "room", nullcontext)  # a run with a budget has one before its journal
    lease = proxy.lease(
        replace(tag, role="agent"),
        model=runner.plan.model,
        admission=Admission(may_go_on=runner.engine.may_go_on, room=room),
    )
    endpoint = runner.gateway.endpoint
    secrets = {runner.plan.embedded_key, "" if endpoint is None else endpoint.key.reveal()} - {""}
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != runner.settings.key_variable and not any(secret in value for secret in secrets)
    }
    # a client that finds both headers' keys may take the wrong one
    environment.pop("ANTHROPIC_API_KEY", None)
    try:
        yield {**environment, **lease.environment(proxy.origin), "ELO_MODEL": runner.plan.model}
    finally:
        proxy.end(lease)
        calls.extend(lease.calls)
        runner.journal.keep_rest(tag)
