"""The gateway of one process: metered OpenAI clients for users, a metered ``ask`` for strategies."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo._text import text_hash
from pytest_elo.errors import ConfigError, GatewayError, NotRecordedError
from pytest_elo.gateway.call import Call
from pytest_elo.gateway.context import CallRecord
from pytest_elo.gateway.endpoint import Endpoint, check_model_name
from pytest_elo.gateway.errors import outcome_status
from pytest_elo.gateway.exchange import Delivered
from pytest_elo.gateway.http import http_module
from pytest_elo.gateway.limits import SharedLimits
from pytest_elo.gateway.meter import Meter
from pytest_elo.gateway.negotiate import Negotiator
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.recorded import Recorded
from pytest_elo.gateway.recordings import Recordings
from pytest_elo.gateway.replaying import reply_of, reply_of_reading
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.gateway.rules import Rules, key_of, lookup, replay_call
from pytest_elo.records import Message, Reply, Role, Sink, Tag

if TYPE_CHECKING:  # a replay needs nothing that goes over a network
    import openai

    from pytest_elo.gateway.direct import Transports
    from pytest_elo.gateway.proxy.access import Access
    from pytest_elo.gateway.proxy.lease import Admission
    from pytest_elo.gateway.proxy.server import Proxy
    from pytest_elo.gateway.upstream import Outgoing

__all__ = ["BoundAsk", "Gateway", "GatewaySettings", "seed_for"]

_CONNECT_TIMEOUT_S = 10.0
_HEADERS = (("content-type", "application/json"), ("accept", "application/json"), ("user-agent", "pytest-elo"))
_CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How a run asks. Times in seconds."""

    model: str = ""
    """Default model; in replay, empty means the recorded one."""
    temperature: float | None = 0.0
    max_tokens: int | None = 2048
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further request parameters of every ``ask`` (``top_p``, ``reasoning_effort``, ...)."""
    seed: int = 0
    timeout_s: float = 120.0
    call_budget_s: float = 900.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    concurrency: int = 64
    """Most HTTP attempts in flight per model, over all processes that share ``shared_directory``."""
    shared_directory: Path | None = None
    """Where the processes of a run share their limit; ``None``: each has its own."""
    allowed_models: frozenset[str] = frozenset()
    """Model names accepted in answers besides the requested one; ``*`` accepts any."""
    run_id: str = ""
    source: str = "live"
    """``live`` or ``embedded``, as it stands in the rows."""
    negotiated: str = ""
    """What preflight learnt (``Negotiator.snapshot()``)."""


class Gateway:
    """Clients whose every HTTP attempt leaves one row in ``sink``.

    ``endpoint`` may be ``None`` only when ``recordings`` replay. ``time_left_s`` tells how long the run may
    still go on: no retry is waited for beyond it. Threads may share a gateway; event loops too.
    """

    def __init__(
        self,
        endpoint: Endpoint | None,
        settings: GatewaySettings,
        sink: Sink,
        *,
        recordings: Recordings | None = None,
        time_left_s: Callable[[], float] | None = None,
    ) -> None:
        if endpoint is None and (recordings is None or not recordings.replays):
            raise ConfigError("no gateway is configured and nothing is replayed: set TAOTOKEN_API_KEY")
        self.endpoint = endpoint
        self.settings = settings
        self.recordings = recordings
        secret = "" if endpoint is None else endpoint.key.reveal()
        self.rules = Rules(
            meter=Meter(sink, run_id=settings.run_id, secret=secret),
            limits=SharedLimits(settings.concurrency, settings.shared_directory),
            negotiator=Negotiator(settings.negotiated),
            retry=settings.retry,
            host="" if endpoint is None else endpoint.host,
            secret=secret,
            source=settings.source,
            call_budget_s=settings.call_budget_s,
            allowed_models=settings.allowed_models,
            recordings=recordings,
        )
        if time_left_s is not None:
            self.rules.time_left_s = time_left_s
        self._made_transports: Transports | None = None
        self._proxy: Proxy | None = None
        self._making = threading.Lock()

    @property
    def _transports(self) -> Transports:
        with self._making:
            if self._made_transports is None:
                from pytest_elo.gateway.direct import Transports

                self._made_transports = Transports.to(self.rules, self.endpoint)
            return self._made_transports

    @property
    def model(self) -> str:
        """The default model's name; raises ``ConfigError`` when none is set."""
        manifest = None if self.recordings is None else self.recordings.manifest
        return check_model_name(self.settings.model or (manifest.model if manifest else ""))

    def client(self) -> openai.OpenAI:
        """A client of the OpenAI SDK whose requests are charged to the current tag."""
        import openai

        transport: Any = self._transports.sync
        http_client = openai.DefaultHttpxClient(transport=transport, follow_redirects=False, trust_env=False)
        return openai.OpenAI(http_client=http_client, **self._client_options())

    def async_client(self) -> openai.AsyncOpenAI:
        """Like ``client``, for asyncio; usable from any event loop."""
        import openai

        transport: Any = self._transports.asynchronous
        http_client = openai.DefaultAsyncHttpxClient(transport=transport, follow_redirects=False, trust_env=False)
        return openai.AsyncOpenAI(http_client=http_client, **self._client_options())

    def _client_options(self) -> dict[str, Any]:
        return {
            # the transport puts the key on the wire: no client, exception or traceback holds it
            "api_key": "held-by-pytest-elo",
            "base_url": "http://replay.invalid" if self.endpoint is None else self.endpoint.base_url,
            "max_retries": 0,
            "timeout": http_module().Timeout(**self.timeouts()),
        }

    def ask_as(
        self,
        tag: Tag,
        *,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> BoundAsk:
        """An ``Ask`` charged to ``tag``, with these defaults before the settings' own."""
        return BoundAsk(
            self,
            tag,
            model=model or self.model,
            temperature=self.settings.temperature if temperature is None else temperature,
            max_tokens=self.settings.max_tokens if max_tokens is None else max_tokens,
            parameters={**self.settings.parameters, **(parameters or {})},
        )

    async def send_chat(self, tag: Tag, body: Mapping[str, Any], calls: list[CallRecord]) -> Reply | GatewayError:
        """Send one chat request charged to ``tag``: the reply, or why there is none.

        The call's record is put into ``calls`` before anything is sent.
        """
        key = key_of(self.rules, tag, "chat", body)
        try:
            recorded = lookup(self.rules, tag, "chat", body, key)
        except NotRecordedError as error:
            return error
        if recorded is not None:
            record = replay_call(self.rules, recorded, tag, str(body["model"]))
            calls.append(record)
            return self._replayed(tag, recorded, record)
        call = self._chat_call(tag, body, key)
        calls.append(call.record)
        ended = await self._transports.direct.carry(call, self._chat_request)
        reading = ended.reading if isinstance(ended, Delivered) else ended
        if reading.error_kind is not None:
            return self.error_of(call, reading)
        return reply_of_reading(reading, call.record)

    def _replayed(self, tag: Tag, recorded: Recorded, record: CallRecord) -> Reply | GatewayError:
        if recorded.error is None:
            return reply_of(recorded, record)
        kind = str(recorded.error["kind"])
        message = f"{tag.task_id}[{tag.item_id}]: the recorded call was refused ({kind})"
        return GatewayError(message, kind=kind, status=outcome_status(kind))

    def ping(self, tag: Tag, body: Mapping[str, Any]) -> tuple[Reading, Call]:
        """Send one chat request now, past all recordings; not from a running event loop."""
        call = self._chat_call(tag, body, None)
        ended = asyncio.run(self._carry_once(call, self._chat_request))
        return (ended.reading if isinstance(ended, Delivered) else ended), call

    def error_of(self, call: Call, reading: Reading) -> GatewayError:
        from pytest_elo.gateway.transport import error_of

        return error_of(call, reading, self.endpoint, self._url(_CHAT))

    def served_models(self, tag: Tag) -> list[str]:
        """The model names that the gateway lists; empty where it lists none. Not from a running event loop."""
        call = Call(self.rules, tag, api="other", body={}, content=b"")
        ended = asyncio.run(self._carry_once(call, self._request("GET", "/models")))
        body = ended.reading.body if isinstance(ended, Delivered) else None
        data = body.get("data") if isinstance(body, Mapping) else None
        return [str(entry["id"]) for entry in data or () if isinstance(entry, Mapping) and "id" in entry]

    @property
    def proxy(self) -> Proxy:
        """The metering proxy for programs, started when first asked for."""
        with self._making:
            if self._proxy is None:
                from pytest_elo.gateway.proxy.server import Proxy

                self._proxy = Proxy(self).start()
            return self._proxy

    def _chat_call(self, tag: Tag, body: Mapping[str, Any], key: tuple[str, int] | None) -> Call:
        requested = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        return Call(
            self.rules,
            tag,
            api="chat",
            body=requested,
            content=json.dumps(requested).encode(),
            key=key,
            adaptations=("stream",) if body.get("stream") else (),
        )

    def _url(self, path: str) -> str:
        assert self.endpoint is not None
        return self.endpoint.base_url + path

    async def _carry_once(self, call: Call, request: Outgoing) -> Any:
        direct = self._transports.direct
        try:
            return await direct.carry(call, request)
        finally:
            await direct.aclose()

    @cached_property
    def _chat_request(self) -> Outgoing:
        """What all chat requests have in common."""
        return self._request("POST", _CHAT)

    def _request(self, method: str, path: str) -> Outgoing:
        from pytest_elo.gateway.upstream import Outgoing

        return Outgoing.to(method, self._url(path), _HEADERS, {"timeout": self.timeouts()})

    def timeouts(self) -> dict[str, float]:
        """Of the phases of one request, in seconds, as the HTTP library names them."""
        timeout = self.settings.timeout_s
        return {
            "connect": min(timeout, _CONNECT_TIMEOUT_S),
            "read": timeout,
            "write": timeout,
            "pool": timeout,
        }

    def close(self) -> None:
        """Close the proxy, the sync connections, the recordings' shard and the shared limits."""
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        if self._made_transports is not None:
            self._made_transports.sync.close()
        self.rules.limits.close()
        if self.recordings is not None:
            self.recordings.close()

    async def aclose(self) -> None:
        """Close the running event loop's connections."""
        if self._made_transports is not None:
            await self._made_transports.asynchronous.aclose()
            await self._made_transports.direct.aclose()


class BoundAsk:
    """An ``Ask`` for one item under one strategy. ``calls`` holds a record of every call it started."""

    def __init__(
        self,
        gateway: Gateway,
        tag: Tag,
        *,
        model: str,
        temperature: float | None,
        max_tokens: int | None,
        parameters: Mapping[str, Any],
    ) -> None:
        self.calls: list[CallRecord] = []
        self._gateway = gateway
        self._tag = tag
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._parameters = parameters

    async def __call__(
        self,
        messages: Sequence[Message],
        *,
        role: Role = "generate",
        sample: int = 0,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
        **parameters: Any,
    ) -> Reply:
        """Ask once. ``None`` means the default; a parameter given as ``None`` is not sent.

        Raises ``GatewayError`` when no usable reply came back after all attempts.
        """
        base = self._tag
        tag = Tag(
            base.task_id,
            base.item_id,
            base.strategy,
            base.repeat,
            role=role,
            sample=sample,
            condition=base.condition,
        )
        body: dict[str, Any] = {
            "model": model or self._model,
            "messages": [dict(message) for message in messages],
            "temperature": self._temperature if temperature is None else temperature,
            "max_tokens": self._max_tokens if max_tokens is None else max_tokens,
            "seed": seed_for(self._gateway.settings.seed, base.task_id, base.item_id, base.repeat, sample),
            **self._parameters,
            **parameters,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        reply = await self._gateway.send_chat(tag, sent, self.calls)
        if isinstance(reply, GatewayError):
            raise reply
        return reply

    @asynccontextmanager
    async def lease(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
        model: str | None = None,
        admission: Admission | None = None,
    ) -> AsyncIterator[Access]:
        """Access for a program that asks by itself, through the proxy; its calls are this ask's calls."""
        from pytest_elo.gateway.proxy.access import Access
        from pytest_elo.gateway.proxy.lease import Allowance

        proxy = await asyncio.to_thread(lambda: self._gateway.proxy)
        lease = proxy.lease(
            replace(self._tag, role="agent"),
            model=model or self._model,
            allowance=Allowance(calls=calls, tokens=tokens, seconds=seconds),
            admission=admission,
        )
        try:
            yield Access(proxy, lease)
        finally:
            await asyncio.shield(asyncio.to_thread(proxy.end, lease))
            self.calls.extend(lease.calls)


def seed_for(seed: int, task_id: str, item_id: str, repeat: int, sample: int) -> int:
    """The request seed of a sample, in [0, 2^31): equal under all strategies, distinct per sample.

    Without its repeat and sample it is a hash of run seed, task and item; those two are added on top, so
    that no two samples of an item can collide (below 1024 samples a repeat).
    """
    text = json.dumps([seed, task_id, item_id])
    base = int.from_bytes(text_hash(text).digest()[:4], "big")
    return (base + repeat * 1024 + sample) % 2**31
