"""The voting page's server: the standard library's, on loopback, for as many voters as open the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

from pytest_elo._parse import parse_json
from pytest_elo._text import text_hash
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.ledger.rundir import CONTESTS
from pytest_elo.votes.page.booth import Booth
from pytest_elo.votes.page.markdown import render
from pytest_elo.votes.store import VOTES

__all__ = ["VotingServer", "serve"]

_LOOPBACK_NAMES = {"127.0.0.1", "localhost", "[::1]", "::1"}
_LARGEST_BODY = 65_536


class VotingServer(ThreadingHTTPServer):
    """Serves one directory. ``port=0`` takes a free one; see ``url``.

    Raises :class:`ConfigError` for a port that cannot be had and :class:`DataError` for the directory.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.booth = Booth(directory)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"port {port}: cannot listen there ({error}); choose another with --port") from None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @cached_property
    def page(self) -> bytes:
        """One self-contained document."""
        html = _asset("page.html")
        return html.replace("/*css*/", _asset("page.css")).replace("/*js*/", _asset("page.js")).encode()

    @cached_property
    def policy(self) -> str:
        """The content security policy: our own script and style by hash, requests to this server only."""
        return (
            f"default-src 'none'; script-src '{_hash('page.js')}'; style-src '{_hash('page.css')}'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )


def serve(directory: str | Path, port: int = 8765, *, say: Callable[[str], None] = print) -> None:
    """Serve the voting page of ``directory`` until interrupted, then say how people and judges agree."""
    with VotingServer(Path(directory), port) as server:
        say(f"vote at {server.url} (Ctrl-C ends it; votes are kept in {Path(directory) / VOTES})")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        for line in server.booth.agreement():
            say(line)
        if (Path(directory) / CONTESTS).exists():
            say(f"pytest-elo report {directory} rates the run with these votes")


class _Handler(BaseHTTPRequestHandler):
    server: VotingServer
    server_version = "pytest-elo"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60
    _actions: ClassVar[Mapping[str, Callable[[Booth, Mapping[str, Any]], None]]] = {
        "/api/vote": lambda booth, body: booth.cast(_text(body, "voter"), _text(body, "ballot"), _text(body, "choice")),
        "/api/undo": lambda booth, body: booth.undo(_text(body, "voter")),
    }

    def do_GET(self) -> None:
        if not self._from_here():
            return self._fail(HTTPStatus.FORBIDDEN, "this page answers on loopback only")
        path, _, query = self.path.partition("?")
        if path == "/":
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        if path == "/api/ballot":
            voter = parse_qs(query).get("voter", [""])[0]
            return self._answer(lambda: self._state(voter))
        return self._fail(HTTPStatus.NOT_FOUND, "no such page")

    def do_POST(self) -> None:
        action = self._actions.get(self.path.partition("?")[0])
        body = self._body()
        if not self._from_here() or not self._same_origin() or body is None:
            self.close_connection = True
            return self._fail(HTTPStatus.FORBIDDEN, "votes come from this page only")
        if action is None:
            return self._fail(HTTPStatus.NOT_FOUND, "no such page")
        return self._answer(lambda: self._act(action, body))

    def _act(self, action: Callable[[Booth, Mapping[str, Any]], None], body: Mapping[str, Any]) -> dict[str, Any]:
        action(self.server.booth, body)
        return self._state(_text(body, "voter"))

    def _state(self, voter: str) -> dict[str, Any]:
        """What the page shows: the next ballot without names, how far the voter is, and the end's summary."""
        booth = self.server.booth
        shown, progress = booth.next(voter), booth.progress(voter)
        ballot = shown and {
            "id": shown.ballot_id,
            "prompt": render(shown.prompt),
            "left": render(shown.left),
            "right": render(shown.right),
        }
        return {
            "ballot": ballot,
            "done": progress.done,
            "total": progress.total,
            "canUndo": progress.can_undo,
            "agreement": [] if shown else list(booth.agreement(voter)),
        }

    def _answer(self, work: Callable[[], Mapping[str, Any]]) -> None:
        try:
            answer = work()
        except DataError as error:
            return self._fail(HTTPStatus.BAD_REQUEST, str(error))
        except OSError as error:
            return self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"the vote could not be written ({error.strerror})")
        return self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _from_here(self) -> bool:
        """The Host names loopback: a name that was rebound to 127.0.0.1 elsewhere is not ours."""
        host = self.headers.get("Host", "")
        return host.rpartition(":")[0] in _LOOPBACK_NAMES or host in _LOOPBACK_NAMES

    def _same_origin(self) -> bool:
        origin = self.headers.get("Origin")
        return origin is None or origin == f"http://{self.headers.get('Host')}"

    def _body(self) -> Mapping[str, Any] | None:
        """The request's JSON object; ``None`` for anything else (a form of another site sends no JSON)."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _LARGEST_BODY:
            return None
        content = self.rfile.read(int(length))
        if self.headers.get_content_type() != "application/json":
            return None
        try:
            body = parse_json(content)
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _fail(self, status: HTTPStatus, message: str) -> None:
        self._send(status, "application/json", json.dumps({"error": message}).encode())

    def _send(self, status: HTTPStatus, content_type: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", content_type),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", self.server.policy),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: a terminal full of requests hides what the command has to say."""


def _text(body: Mapping[str, Any], field: str) -> str:
    value = body.get(field)
    if not isinstance(value, str):
        raise DataError(f"field {field!r} is missing")
    return value


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(name: str) -> str:
    digest = text_hash(_asset(name)).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
