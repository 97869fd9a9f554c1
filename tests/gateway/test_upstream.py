"""Connections past the SDK, as strategies and the proxy have them: TLS,
kept connections, compression nobody asked for, what breaks."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.proxy.forward import without_usage
from pytest_elo.records import Tag
from tests.gateway.conftest import CANARY, Connect, Rows
from tests.loopback import Billed, LoopbackGateway, Response, completion, reply

BODY = json.dumps({"model": "test-model", "messages": [{"role": "user", "content": "hello"}]})
TAG = Tag("swebench", "item-1", "coder", role="agent")


def asked(gateway: Gateway, n: int = 1) -> list[tuple[int, Any]]:
    """``n`` requests over one connection to the proxy: status and JSON of each answer."""
    proxy = gateway.proxy
    answers = []
    with proxy.leased(TAG, model="test-model") as lease:
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=20)
        for _ in range(n):
            connection.request("POST", f"/{lease.token}/v1/chat/completions", BODY)
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read())))
        connection.close()
    return answers


@contextmanager
def tls_in_front_of(port: int, folder: Path) -> Iterator[int]:
    """A TLS server for ``localhost`` that leads to a port of loopback; its certificate is ``folder/cert.pem``."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    name = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *name], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async def serve() -> None:
        over = asyncio.Event()
        async with await asyncio.start_server(lead, "127.0.0.1", 0, ssl=context) as server:
            found.update(port=server.sockets[0].getsockname()[1], stop=over.set, loop=asyncio.get_running_loop())
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield found["port"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"])
        thread.join(10)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackGateway([reply("42")]) as server, tls_in_front_of(server.port, tmp_path) as port:
        for trusted in (False, True):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
            rows = Rows()
            endpoint = Endpoint.checked(f"https://localhost:{port}/v1", CANARY, key_variable="KEY")
            gateway = Gateway(endpoint, GatewaySettings(model="test-model", timeout_s=5.0), rows)
            try:
                ((status, _),) = asked(gateway)
            finally:
                gateway.close()
            assert (status, rows.kinds, len(server.requests)) == (
                (200, [None], 1) if trusted else (502, ["connect"], 0)
            )


def test_connections_are_kept_and_a_dead_one_is_not_used_again(connect: Connect) -> None:
    """Two requests over one connection; the gateway closes it; the next request takes a new one and loses nothing."""
    setup = connect([reply("a"), reply("b", headers={"connection": "close"}), reply("c"), reply("d")])
    answers = asked(setup.gateway, 4)
    assert [body["choices"][0]["message"]["content"] for _, body in answers] == ["a", "b", "c", "d"]
    assert setup.rows.kinds == [None] * 4


def test_a_compression_nobody_asked_for_is_undone(connect: Connect) -> None:
    content = gzip.compress(json.dumps(completion("42")).encode())
    setup = connect([Response(body=content, headers={"content-encoding": "gzip"}, billed=Billed(10, 5))])
    ((status, body),) = asked(setup.gateway)
    assert (status, body["choices"][0]["message"]["content"], setup.rows.total_tokens) == (200, "42", 15)
    assert setup.server.requests[0].headers["accept-encoding"] == "identity"


def test_content_that_is_not_what_its_encoding_says_is_asked_for_again(connect: Connect) -> None:
    garbled = Response(body=b"not packed at all", headers={"content-encoding": "gzip"}, billed=Billed(10, 5))
    setup = connect([garbled, reply("42")])
    answer = asyncio.run(setup.gateway.ask_as(TAG)([{"role": "user", "content": "hello"}]))
    assert answer.text == "42"
    assert setup.rows.kinds == ["bad_json", None]


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (Response(fault="reset"), 502, "reset"),
        (reply("42", fault="truncate"), 502, "reset"),
        (reply("42", fault="reset_midway"), 502, "reset"),
        (reply("42", delay_s=3.0), 504, "timeout"),
    ],
)
def test_what_breaks_is_told_apart_and_nothing_of_it_is_used_again(
    connect: Connect, failure: Response, status: int, kind: str
) -> None:
    setup = connect([failure, reply("42")], timeout_s=0.5)
    answers = asked(setup.gateway, 2)
    assert [status for status, _ in answers] == [status, 200]
    assert answers[0][1]["error"]["code"] == kind
    assert setup.rows.kinds == [kind, None]
    assert setup.rows.closed[0].total_tokens_high > 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_only_the_usage_event_is_taken_out_of_a_stream_of_mixed_line_ends(size: int) -> None:
    usage = b'data: {"choices": [], "usage": {"total_tokens": 3}}'
    events = [
        b'data: {"choices": [1]}\r\n\r\n',
        usage + b"\r\n\r\n",
        b": alive\n\n",
        usage + b"\n\n",
        b"data: [DONE]\n\n",
    ]
    sent = b"".join(events)

    async def relayed() -> bytes:
        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(sent), size):
                yield sent[start : start + size]

        return b"".join([chunk async for chunk in without_usage(chunks())])

    assert asyncio.run(relayed()) == b"".join(event for event in events if usage not in event)
