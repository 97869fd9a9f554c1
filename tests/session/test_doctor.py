"""``pytest-elo doctor`` runs every check before a run, tells each result, and asks nothing but the preflight."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_elo.session.client_files import check_clients
from tests.harness import KEY
from tests.loopback import LoopbackGateway


@pytest.fixture
def doctor(suite, tmp_path):
    def doctor(*arguments: str, env: dict[str, str]) -> tuple[int, str]:
        (suite.evals / "elo.yaml").write_text(json.dumps(suite.settings), encoding="utf-8")
        command = [sys.executable, "-m", "pytest_elo", "doctor", "evals", *arguments]
        home = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        process = subprocess.run(command, cwd=suite.path, env=home | env, capture_output=True, text=True, check=False)
        return process.returncode, process.stdout + process.stderr

    return doctor


def test_a_healthy_setup(suite, doctor, answer):
    suite.file("pytest.ini", "[pytest]\nelo_concurrency = 7\n")
    with LoopbackGateway(answer) as gateway:
        suite.set(gateway={"base_url": gateway.base_url})
        code, output = doctor("--elo-model", "test-model", env={"TAOTOKEN_API_KEY": KEY})
        assert len(gateway.requests) == 1
    assert code == 0, output
    for line in ("ok    settings:", "ok    ledger:", "ok    key:", "ok    address:", "ok    model test-model:"):
        assert line in output
    assert "model from --elo-model" in output
    assert "concurrency from elo_concurrency in" in output
    assert f"gateway.base_url from {suite.evals / 'elo.yaml'}" in output
    assert "option > environment > pyproject/ini > elo.yaml > config.toml > settings.json > default" in output
    assert KEY not in output
    assert not (suite.path / ".elo").exists()


def test_what_is_wrong_is_told_and_counted(suite, doctor):
    subprocess.run(["git", "init", "-q"], cwd=suite.path, check=True)
    suite.file(".env", "TAOTOKEN_API_KEY=sk-canary\n").file(".env.example", "TAOTOKEN_API_KEY=\n")
    subprocess.run(["git", "add", "-f", ".env", ".env.example"], cwd=suite.path, check=True)
    suite.set(gateway={"base_url": "http://127.0.0.1:9/v1"})
    code, output = doctor(env={"TAOTOKEN_API_KEY": KEY})
    assert code == 4
    assert "FAIL  model test-model" in output
    assert "FAIL  secrets: .env is tracked by git" in output
    assert ".env.example" not in output
    assert "sk-canary" not in output
    assert "2 to mend before a run can begin" in output
    code, output = doctor(env={})
    assert code == 4
    assert "FAIL  settings: TAOTOKEN_API_KEY is not set" in output


HOST = "gateway.test"


@pytest.fixture
def complaints(tmp_path):
    def complaints(name: str, text: str, environment: dict[str, str] | None = None) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return "\n".join(check_clients(tmp_path, tmp_path / "project", HOST, environment or {}))

    return complaints


CLAUDE = {"ANTHROPIC_BASE_URL": "https://gateway.test/api", "ANTHROPIC_AUTH_TOKEN": "sk-canary"}
CODEX = """
model_provider = "own"
[model_providers.own]
base_url = "{url}"
env_key = "{key}"
wire_api = "{wire}"
"""


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, ""),
        ({"ANTHROPIC_BASE_URL": "https://gateway.test/api/v1"}, "leave that part out"),
        ({"ANTHROPIC_BASE_URL": "https://gateway.test/api?utm_source=x&k=sk-canary"}, "tracking parameters (utm_...)"),
        ({"ANTHROPIC_API_KEY": "sk-canary"}, "both set"),
        ({"OPENAI_API_KEY": "sk-canary"}, "env.OPENAI_API_KEY is read by nothing there"),
        ({"ANTHROPIC_BASE_URL": "https://other.test/api"}, "points to other.test, the evals to gateway.test"),
        ({"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": 1}, "is no text"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_AUTH_TOKEN": "PROXY_MANAGED"}, "nothing listens"),
    ],
)
def test_claude_code(complaints, env, said):
    found = complaints(".claude/settings.json", json.dumps({"env": CLAUDE | env}))
    assert said in found
    assert bool(found) == bool(said)
    assert "sk-canary" not in found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ""),
        ({"wire": "chat"}, 'wire_api = "chat" is gone from Codex'),
        ({"url": "https://gateway.test/api"}, "does not end in /v1"),
        ({"url": "https://gateway.test/api/v1/v1"}, "doubles /v1"),
        ({"url": "https://gateway.test/v1?utm_medium=mail"}, "cut it off at the question mark"),
        ({"url": "https://other.test/v1"}, "points to other.test"),
        ({"key": "sk-canary"}, "holds something like a key"),
        ({"key": "ANTHROPIC_AUTH_TOKEN"}, "is Claude Code's variable"),
        ({"key": "NOT_SET"}, "NOT_SET, which is not set here"),
    ],
)
def test_codex(complaints, values, said):
    good = {"url": "https://gateway.test/api/v1", "key": "OWN_KEY", "wire": "responses"}
    found = complaints(".codex/config.toml", CODEX.format(**good | values), {"OWN_KEY": "sk-canary"})
    assert said in found
    assert bool(found) == bool(said)
    assert "sk-canary" not in found


def test_cline_and_cc_switch(complaints):
    assert "goes too far" in complaints(
        ".cline/data/globalState.json", json.dumps({"openAiBaseUrl": "https://gateway.test/api/v1/chat/completions"})
    )
    providers = [{"name": "a", "baseUrl": "https://other.test/api"}]
    switch = ".cc-switch/config.json"
    assert "is none of the providers (a)" in complaints(
        switch, json.dumps({"providers": providers, "activeProvider": "b"})
    )
    assert "provider a points to other.test" in complaints(
        switch, json.dumps({"providers": providers, "activeProvider": "a"})
    )


def test_a_machine_without_a_sandbox_is_warned_of_what_it_will_skip(suite, doctor, answer, tmp_path):
    with LoopbackGateway(answer) as gateway:
        suite.set(gateway={"base_url": gateway.base_url}, tasks={"swebench": {"max_tokens": 64}})
        key = {"TAOTOKEN_API_KEY": KEY}
        code, output = doctor("--elo-model", "test-model", env={**key, "PATH": str(tmp_path)})
        unprotected = doctor("--elo-model", "test-model", "--elo-swe-sandbox", "none", env=key)
    assert code == 0, output
    assert "warn  sandbox: swebench: no sandbox works here" in output
    assert "warn  sandbox: none: model-written code runs unprotected" in unprotected[1]
