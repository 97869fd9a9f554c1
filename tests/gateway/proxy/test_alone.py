"""``pytest-elo proxy`` as its user runs it: a process of its own and a ledger directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import openai

from tests.gateway.conftest import CANARY
from tests.loopback import Billed, LoopbackGateway, Response


def start(folder: Path, server: LoopbackGateway, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest_elo", "proxy", "--base-url", server.base_url, "--dir", "ledger"]
    environment = {**os.environ, "TAOTOKEN_API_KEY": CANARY}
    environment.pop("OPENAI_BASE_URL", None)
    return subprocess.Popen([*command, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger" / "runs.jsonl").read_text("utf-8").splitlines()]


def ask(base_url: str, token: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key=token)
    client.chat.completions.create(model="test-model", messages=[{"role": "user", "content": "hello"}])


def test_it_serves_until_interrupted_and_charges_what_the_path_says(tmp_path: Path) -> None:
    with LoopbackGateway() as server:
        for _ in range(2):  # the second adds to the first one's ledger
            process = start(tmp_path, server, "--task", "mine")
            assert process.stdout is not None
            env = dict(process.stdout.readline().strip().removeprefix("export ").split("=", 1) for _ in range(4))
            base, token = env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"]
            ask(base, token)
            ask(base.removesuffix("/v1") + "/for/gpqa/rec%2001/vote5/v1", token)
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=20)
            assert process.returncode == 0
            assert "2 attempts" in rest
        charged = [(row["task_id"], row["item_id"], row["strategy"]) for row in rows(tmp_path)]
        assert sorted(charged) == [("gpqa", "rec 01", "vote5")] * 2 + [("mine", "(proxy)", "(proxy)")] * 2
        assert sum(row["total_tokens"] for row in rows(tmp_path)) == server.bill.total_tokens
    everything = "".join(path.read_text() for path in (tmp_path / "ledger").rglob("*") if path.is_file())
    assert CANARY not in everything + rest + json.dumps(env)


def test_it_runs_one_program_without_the_key_and_returns_its_exit_code(tmp_path: Path) -> None:
    code = (
        "import os, sys, openai; assert 'sk-canary' not in str(dict(os.environ)); "
        "openai.OpenAI().chat.completions.create(model='test-model', messages=[{'role': 'user', 'content': 'x'}]); "
        "sys.exit(7)"
    )
    with LoopbackGateway() as server:
        process = start(tmp_path, server, "--strategy", "mine", "--", sys.executable, "-c", code)
        process.communicate(timeout=60)
        assert process.returncode == 7
        assert [(row["strategy"], row["role"]) for row in rows(tmp_path)] == [("mine", "agent")]
        assert rows(tmp_path)[0]["total_tokens"] == server.bill.total_tokens


def test_a_killed_proxy_leaves_what_was_on_the_wire_as_unknown(tmp_path: Path) -> None:
    with LoopbackGateway([Response(fault="hang", billed=Billed(9, 40))]) as server:
        process = start(tmp_path, server, "--task", "mine")
        assert process.stdout is not None
        env = dict(process.stdout.readline().strip().removeprefix("export ").split("=", 1) for _ in range(4))
        client = subprocess.Popen(
            [sys.executable, "-c", ASK], env={**os.environ, **env}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        while not server.requests:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        client.wait(20)
        following = start(tmp_path, server, "--", "true")
        out, _ = following.communicate(timeout=20)
    assert "recovered 1 attempts of the killed run ledger, 1 of them never answered" in out
    (row,) = rows(tmp_path)
    assert (row["task_id"], row["status"], row["estimated"]) == ("mine", "open", "interval")
    assert row["total_tokens"] <= 49 <= row["total_tokens_high"]


ASK = (
    "import openai; openai.OpenAI(max_retries=0).chat.completions.create("
    "model='test-model', max_tokens=64, messages=[{'role': 'user', 'content': 'hello'}])"
)
