"""Fetching against a real server on loopback that resumes, breaks off, lies or refuses."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.gateway import models
from pytest_elo.gateway.embed_command import embed
from pytest_elo.gateway.fetch import FetchError, fetch
from pytest_elo.gateway.models import CatalogueModel, locate

CONTENT = b"GGUF" + hashlib.sha512(b"seed").digest() * 20_000


class FileServer(ThreadingHTTPServer):
    """Serves ``content``; breaks off after ``cuts`` bytes of each response, then no more."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = CONTENT
        self.cuts: list[int] = []
        self.status = 0
        self.resumes = True
        self.redirect = ""
        self.gate: threading.Event | None = None
        self.asked = threading.Event()
        self.ranges: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/model.gguf"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        self.server.asked.set()
        if self.server.gate is not None:
            self.server.gate.wait(10)
        if self.server.redirect:
            self.send_response(302)
            self.send_header("Location", self.server.redirect)
            self.end_headers()
        elif self.server.status:
            self.send_error(self.server.status)
        else:
            self._send(int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.resumes else 0)

    def _send(self, start: int) -> None:
        content = self.server.content
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = start + self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    with FileServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def model(server: FileServer) -> CatalogueModel:
    return CatalogueModel(
        name="test",
        model_name="test-1b",
        page="http://127.0.0.1",
        source=server.address,
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="MIT",
        quantized_by="nobody",
        context_tokens=512,
    )


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"test-1b.lock"}


def test_fetches_whole_and_then_only_verifies(server, model, tmp_path):
    seen: list[tuple[int, int]] = []
    found = fetch(model, tmp_path / "new" / "place", lambda done, total: seen.append((done, total)))
    assert found.path.read_bytes() == CONTENT
    assert (found.model_name, found.sha256) == ("test-1b", model.sha256)
    assert names_in(found.path.parent) == {"test-1b.gguf"}
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    assert fetch(model, found.path.parent) == found
    assert server.ranges == [None]


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server, model, tmp_path):
    server.cuts = [500_000, 1_000]
    assert fetch(model, tmp_path, pause_s=0).path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=500000-", "bytes=501000-"]


def test_the_part_of_an_earlier_run_is_used(server, model, tmp_path):
    (tmp_path / "test-1b.gguf.part").write_bytes(CONTENT[:777_777])
    assert fetch(model, tmp_path).path.read_bytes() == CONTENT
    assert server.ranges == ["bytes=777777-"]


def test_a_source_that_cannot_resume_is_read_from_the_start(server, model, tmp_path):
    server.resumes = False
    (tmp_path / "test-1b.gguf.part").write_bytes(CONTENT[:777_777])
    assert fetch(model, tmp_path).path.read_bytes() == CONTENT


@pytest.mark.parametrize("left", [b"", b"\0" * 1000], ids=["from the start", "resumed on a wrong part"])
def test_wrong_bytes_are_deleted_and_said(server, model, tmp_path, left):
    if left:
        (tmp_path / "test-1b.gguf.part").write_bytes(left)
    else:
        server.content = CONTENT[:-1] + b"\0"
    with pytest.raises(DataError, match="were deleted") as caught:
        fetch(model, tmp_path)
    assert model.sha256 in str(caught.value)
    assert names_in(tmp_path) == set()


def test_another_file_at_the_source_is_refused_before_it_is_read(server, model, tmp_path):
    server.content = CONTENT + b"more"
    with pytest.raises(DataError, match=f"{len(CONTENT) + 4:,} bytes"):
        fetch(model, tmp_path)
    assert names_in(tmp_path) == set()


def test_a_source_that_stays_broken_is_given_up_and_the_part_kept(server, model, tmp_path):
    server.cuts = [250_000, 0, 0, 0]
    with pytest.raises(FetchError, match=r"0\.2 MB of 1\.3 MB are kept") as caught:
        fetch(model, tmp_path, pause_s=0)
    assert server.address in str(caught.value)
    assert (tmp_path / "test-1b.gguf.part").read_bytes() == CONTENT[:250_000]


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, 3), (429, 3)])
def test_refusals_end_at_once_and_overload_is_tried_again(server, model, tmp_path, status, requests):
    server.status = status
    with pytest.raises(FetchError, match=str(status)):
        fetch(model, tmp_path, pause_s=0)
    assert len(server.ranges) == requests


def test_plain_http_to_another_host_is_refused(server, model, tmp_path):
    elsewhere = dataclasses.replace(model, source="http://192.0.2.1/model.gguf")
    with pytest.raises(ConfigError, match="https only"):
        fetch(elsewhere, tmp_path)


def test_two_fetches_at_once_exclude_each_other(server, model, tmp_path):
    server.gate = threading.Event()
    first = threading.Thread(target=fetch, args=(model, tmp_path))
    first.start()
    try:
        assert server.asked.wait(10)
        with pytest.raises(ConfigError, match="another process is fetching"):
            fetch(model, tmp_path)
    finally:
        server.gate.set()
        first.join()
    assert fetch(model, tmp_path).path.read_bytes() == CONTENT


def test_another_file_in_the_way_is_left_alone(server, model, tmp_path):
    mine = tmp_path / "test-1b.gguf"
    mine.write_bytes(b"GGUF of my own")
    with pytest.raises(DataError, match="move it away"):
        fetch(model, tmp_path)
    assert mine.read_bytes() == b"GGUF of my own"


def test_embed_fetches_from_the_mirror_and_remembers(server, model, tmp_path, monkeypatch):
    """The command a user types, with the hub's own variable for a mirror pointing at the server."""
    catalogued = dataclasses.replace(model, source="https://huggingface.co/org/name/resolve/main/model.gguf")
    monkeypatch.setattr(models, "CATALOGUE", (catalogued,))
    monkeypatch.setenv("PYTEST_ELO_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    out = io.StringIO()
    assert embed("test", out=out) == 0
    assert locate().path == tmp_path / "test-1b.gguf"
    assert locate("test").model_name == "test-1b"
    assert f"from http://127.0.0.1:{server.server_port}/org/name/resolve/main/model.gguf" in out.getvalue()
    assert model.sha256 in out.getvalue()
