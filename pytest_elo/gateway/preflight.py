"""Before the first item: does this gateway, with this key and these models, answer and count?

The OpenAI SDK appends only ``/chat/completions``, so ``https://host/api`` and ``https://host/api/v1`` are two
addresses, and gateways answer the wrong one with 404 or with a web page. Both are tried once here, on the
controller; workers get the outcome as a string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_elo.errors import ConfigError
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint, check_model_name, suggest
from pytest_elo.gateway.reading import Reading
from pytest_elo.records import Sink, Tag

__all__ = ["Preflight", "Step", "preflight"]

PING_TAG = Tag(task_id="(preflight)", item_id="ping", strategy="(preflight)", role="ping")
_PING = [{"role": "user", "content": "Reply with OK only."}]
_PING_MAX_TOKENS = 16
_WRONG_PATH = frozenset({"not_found", "html", "redirect", "bad_json"})


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was checked, and what came out in one line."""

    name: str
    is_ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Preflight:
    """All steps up to the first that failed, and what workers need to know."""

    steps: tuple[Step, ...]
    base_url: str
    negotiated: str

    @property
    def is_ok(self) -> bool:
        return all(step.is_ok for step in self.steps)

    def require(self) -> None:
        """Raise ``ConfigError`` with the line of the step that failed."""
        for step in self.steps:
            if not step.is_ok:
                raise ConfigError(f"preflight, {step.name}: {step.text}")


def preflight(endpoint: Endpoint, settings: GatewaySettings, sink: Sink, models: Sequence[str]) -> Preflight:
    """Find the working path with one small request per model; rows go to ``sink`` with role ``ping``."""
    steps = [
        Step("key", True, f"{endpoint.key_variable} is set ({endpoint.key.hint})"),
        Step("address", True, endpoint.base_url),
    ]
    negotiated = settings.negotiated
    for model in dict.fromkeys(models):
        check_model_name(model)
        candidates = _candidates(endpoint.base_url) if len(steps) == 2 else [endpoint.base_url]
        patience = replace(settings.retry, max_attempts=3, max_rate_limited=5, patience_s=0.0, final_kinds=_WRONG_PATH)
        asked = replace(settings, negotiated=negotiated, shared_directory=None, retry=patience)
        answered = _first_answer(endpoint, asked, sink, model, candidates)
        endpoint, negotiated = answered.endpoint, answered.negotiated
        steps.append(answered.step)
        if not answered.step.is_ok:
            break
    return Preflight(tuple(steps), endpoint.base_url, negotiated)


@dataclass(frozen=True, slots=True)
class _Answered:
    endpoint: Endpoint
    negotiated: str
    step: Step


def _candidates(base_url: str) -> list[str]:
    """``/v1`` before bare: it is where most gateways answer."""
    if base_url.endswith("/v1"):
        return [base_url, base_url.removesuffix("/v1")]
    return [f"{base_url}/v1", base_url]


def _first_answer(
    endpoint: Endpoint, settings: GatewaySettings, sink: Sink, model: str, candidates: Sequence[str]
) -> _Answered:
    first_failure: Step | None = None
    for base_url in candidates:
        gateway = Gateway(endpoint.at(base_url), settings, sink)
        try:
            step, is_wrong_path = _ping(gateway, model)
            found = _Answered(endpoint.at(base_url), gateway.rules.negotiator.snapshot(), step)
        finally:
            gateway.close()
        if not is_wrong_path:
            return found
        first_failure = first_failure or step
    assert first_failure is not None
    tried = ", ".join(f"{base_url}/chat/completions" for base_url in candidates)
    text = f"{first_failure.text} (tried {tried})"
    return _Answered(endpoint, settings.negotiated, replace(first_failure, text=text))


def _ping(gateway: Gateway, model: str) -> tuple[Step, bool]:
    """The step of asking ``model`` once, and whether the path seems to be the wrong one."""
    settings = gateway.settings
    body = {
        "model": model,
        "messages": _PING,
        "temperature": settings.temperature,
        "max_tokens": _PING_MAX_TOKENS,
        "seed": settings.seed,
        **settings.parameters,
    }
    reading, call = gateway.ping(PING_TAG, {name: value for name, value in body.items() if value is not None})
    name = f"model {model}"
    if reading.error_kind is not None:
        text = str(gateway.error_of(call, reading))
        if reading.error_kind == "model_not_found":
            text += suggest(model, gateway.served_models(PING_TAG))
        return Step(name, False, text), reading.error_kind in _WRONG_PATH
    return _counted(name, reading, gateway), False


def _counted(name: str, reading: Reading, gateway: Gateway) -> Step:
    assert gateway.endpoint is not None
    where = f"{gateway.endpoint.base_url}/chat/completions"
    usage = reading.usage
    if usage is None or usage.prompt == 0 or usage.total == 0:
        text = f"{where} answers, but its usage is missing or empty: tokens cannot be counted, ask the provider"
        return Step(name, False, text)
    notes = [f"{where} answers as {reading.model}, {usage.total} tokens counted"]
    if usage.repaired:
        notes.append("its usage contradicts itself and is repaired")
    adaptations = gateway.rules.negotiator.adaptations(name.removeprefix("model "))
    if adaptations:
        notes.append(f"adapted: {', '.join(adaptations)}")
    return Step(name, True, "; ".join(notes))
