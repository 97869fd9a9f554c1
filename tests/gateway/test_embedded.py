"""The embedded server for real: on a tiny model of random weights, and on a fetched one if there is one."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.gateway import embedded
from pytest_elo.gateway.embedded import EmbeddedModel, EmbeddedServerError
from pytest_elo.gateway.models import ModelFile, locate, verify

ROOT = Path(__file__).parents[2]
GREETING = [{"role": "user", "content": "Hello there"}]


def write_tiny_gguf(path: Path, *, width: int = 64, context: int = 512) -> None:
    """A one-layer llama of random weights over bytes: what it says is nonsense, but it says it for real."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def array(kind: int, items: list[bytes]) -> bytes:
        return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)

    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    sizes = {"context_length": context, "embedding_length": width, "feed_forward_length": width}
    counts = {"block_count": 1, "attention.head_count": 2}
    facts = {f"llama.{key}": struct.pack("<II", 4, value) for key, value in (sizes | counts).items()}
    facts |= {
        "general.architecture": struct.pack("<I", 8) + text("llama"),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", 6, 1e-5),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text("llama"),
        "tokenizer.ggml.tokens": array(8, [text(token) for token in tokens]),
        "tokenizer.ggml.scores": array(6, [struct.pack("<f", 0.0)] * len(tokens)),
        "tokenizer.ggml.token_type": array(5, [struct.pack("<i", kind) for kind in [2, 3, 3] + [6] * 256]),
    }
    square = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    shapes = {"token_embd": (width, len(tokens)), "output_norm": (width, 1)}
    shapes |= {f"blk.0.{name}": (width, 1) for name in ("attn_norm", "ffn_norm")}
    shapes |= {f"blk.0.{name}": (width, width) for name in square}
    chance, heads, data = random.Random(7), b"", b""
    for name, (columns, rows) in shapes.items():
        dimensions = (columns, rows) if rows > 1 else (columns,)
        heads += text(f"{name}.weight") + struct.pack("<I", len(dimensions))
        heads += struct.pack(f"<{len(dimensions)}QIQ", *dimensions, 0, len(data))
        data += struct.pack(f"<{columns * rows}f", *(chance.gauss(0, 0.3) for _ in range(columns * rows)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(facts))
    head += b"".join(text(key) + value for key, value in facts.items()) + heads
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    pytest.importorskip("xllamacpp", reason="pip install 'pytest-elo[embedded]' to start the real server")
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_gguf(path)
    return verify(path)


@pytest.fixture(scope="module")
def server(tiny: ModelFile) -> Iterator[EmbeddedModel]:
    with EmbeddedModel(tiny, context_tokens=512) as server:
        yield server


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def client_of(server: EmbeddedModel) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=0, timeout=30)


def texts(server: EmbeddedModel, prompts: list[str]) -> dict[str, str]:
    """Text of each prompt, asked in the order given, with some temperature and a fixed seed."""
    replies = {}
    with client_of(server) as client:
        for prompt in prompts:
            reply = client.chat.completions.create(
                model=server.model_name,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=48,
                temperature=0.8,
                seed=11,
            )
            replies[prompt] = reply.choices[0].message.content or ""
    return replies


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended: only its parent (init, here) has not read so yet.
    status = Path(f"/proc/{process_id}/status")
    return not (status.exists() and re.search(r"^State:\s+Z", status.read_text(), re.MULTILINE))


def test_answers_an_openai_client_with_usage_and_its_name(server, tiny):
    with client_of(server) as client:
        reply = client.chat.completions.create(
            model=server.model_name, messages=GREETING, max_tokens=20, seed=1, logprobs=True
        )
    assert reply.model == server.model_name == tiny.model_name == f"unknown-{tiny.sha256[:12]}"
    assert reply.usage.completion_tokens == 20
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 20
    # Bytes that together make one character share an entry.
    assert 0 < len(reply.choices[0].logprobs.content) <= 20
    assert all(token.logprob <= 0 for token in reply.choices[0].logprobs.content)
    assert reply.choices[0].finish_reason == "length"
    assert re.fullmatch(r"xllamacpp \d{4}\.\d+\.\d+", server.runtime_version)
    assert server.failure() is None


def test_same_request_same_text_whatever_was_asked_before_and_in_which_process(server, tiny):
    """Common beginnings of different length are what a prompt cache would carry from one to the next."""
    prompts = ["The quick brown fox " * n + end for n in (1, 4, 9) for end in ("jumps", "jumped over", "")]
    forward = texts(server, prompts)
    with EmbeddedModel(tiny, context_tokens=512) as other:
        assert texts(other, prompts[::-1]) == forward
    assert texts(server, prompts) == forward
    assert len(set(forward.values())) == len(prompts)


def test_listens_on_loopback_and_refuses_a_wrong_key(server):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", server.base_url)
    with (
        openai.OpenAI(base_url=server.base_url, api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.chat.completions.create(model="any", messages=GREETING)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"messages": [{"role": "user", "content": "word " * 200}]}, "exceeds the available context size"),
        ({"messages": GREETING, "n": 2}, "'n'"),
    ],
    ids=["prompt longer than the context", "n above the slots"],
)
def test_what_a_slot_cannot_do_is_refused_not_cut(server, request_, message):
    with client_of(server) as client, pytest.raises(openai.BadRequestError, match=message):
        client.chat.completions.create(model=server.model_name, **request_)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_key_is_neither_on_the_command_line_nor_in_the_environment(server):
    process = Path(f"/proc/{server.process_id}")
    assert server.api_key.encode() not in (process / "cmdline").read_bytes()
    assert server.api_key.encode() not in (process / "environ").read_bytes()


def test_close_ends_the_process_and_start_begins_anew(tiny):
    server = EmbeddedModel(tiny, context_tokens=512)
    with server:
        first = server.process_id
        with pytest.raises(EmbeddedServerError, match="started already"):
            server.start()
    assert server.base_url == ""
    assert not is_alive(first)
    with server:
        assert texts(server, ["again"])["again"]
    server.close()


def test_a_killed_server_is_named_with_the_end_of_its_log(tiny):
    with EmbeddedModel(tiny, context_tokens=512) as server:
        os.kill(server.process_id, signal.SIGKILL)
        deadline_s = time.monotonic() + 10
        while server.failure() is None and time.monotonic() < deadline_s:
            time.sleep(0.01)
        # what the killed process had not flushed yet is gone with it
        assert re.search(r"ended \(exit -9\): (.*listening on http://127|it left no log)", server.failure())


def test_the_server_dies_with_a_killed_parent(tiny):
    """Even when a process forked from the parent lives on and holds the pipe open."""
    script = f"""
import os, time
from pathlib import Path
from pytest_elo.gateway.embedded import EmbeddedModel
from pytest_elo.gateway.models import verify
server = EmbeddedModel(verify(Path({str(tiny.path)!r})), context_tokens=512)
server.start()
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print(server.process_id, os.getpgid(0), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        server_id = int(parent.stdout.readline().split()[0])
        assert is_alive(server_id)
        parent.kill()
        parent.wait()
        deadline_s = time.monotonic() + 10
        while is_alive(server_id) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not is_alive(server_id)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.stdout.close()


def test_a_model_that_does_not_load_says_why_in_one_line(tmp_path, tiny):
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny.path.read_bytes()[:100_000])
    with pytest.raises(EmbeddedServerError, match="corrupted or incomplete") as caught:
        EmbeddedModel(verify(path)).start()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_loads_too_slowly_is_given_up(tiny):
    server = EmbeddedModel(tiny, startup_timeout_s=0.001)
    with pytest.raises(EmbeddedServerError, match=r"not loaded after 0\.001 s"):
        server.start()
    assert server.process_id is None


def test_without_the_runtime_the_error_names_the_extra(tiny, monkeypatch):
    monkeypatch.setattr(embedded, "_RUNTIME", "a_runtime_that_is_not_installed")
    with pytest.raises(ConfigError, match=re.escape("pip install 'pytest-elo[embedded]'")):
        EmbeddedModel(tiny).start()


@pytest.fixture(scope="module")
def fetched() -> Iterator[EmbeddedModel]:
    pytest.importorskip("xllamacpp", reason="pip install 'pytest-elo[embedded]' to start the real server")
    try:
        model = locate()
    except (ConfigError, DataError) as error:
        pytest.skip(f"no fetched model to ask: {error}")
    with EmbeddedModel(model) as server:
        yield server


def test_a_fetched_model_answers_and_another_process_repeats_it(fetched):
    question = "What is the capital of France? Answer with one word."
    answer = texts(fetched, [question])[question]
    assert "Paris" in answer
    with EmbeddedModel(fetched.model) as other:
        assert texts(other, ["Say hello.", question])[question] == answer


def test_a_fetched_model_keeps_a_json_schema(fetched):
    schema = {"type": "object", "properties": {"vote": {"enum": ["A", "B"]}}, "required": ["vote"]}
    with client_of(fetched) as client:
        reply = client.chat.completions.create(
            model=fetched.model_name,
            messages=GREETING,
            max_tokens=60,
            temperature=0,
            response_format={"type": "json_schema", "json_schema": {"name": "vote", "schema": schema}},
        )
    assert json.loads(reply.choices[0].message.content)["vote"] in ("A", "B")
