"""``pytest-elo clients``: what it writes is what the doctor accepts, and what was there is kept."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_elo.session.client_files import check_clients

URLS = ["https://gateway.test/api", "https://gateway.test/api/v1", "https://gateway.test/api/"]


def clients(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_elo", "clients", "--model", "big-1", *arguments]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TAOTOKEN_API_KEY": "sk-canary-77"}
    return subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def everything(home: Path) -> str:
    return "".join(path.read_text() for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("url", URLS)
def test_what_is_written_is_what_the_doctor_accepts(tmp_path, url):
    done = clients(tmp_path, "--base-url", url, "--write", "--yes")
    assert done.returncode == 0, done.stderr
    environment = {"TAOTOKEN_API_KEY": "sk-canary-77"}
    assert list(check_clients(tmp_path, tmp_path / "project", "gateway.test", environment)) == []
    claude = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    codex = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())
    assert claude["env"]["ANTHROPIC_BASE_URL"] == "https://gateway.test/api"
    assert all(isinstance(value, str) for value in claude["env"].values())
    assert codex["model_providers"]["taotoken"] == {
        "name": "taotoken",
        "base_url": "https://gateway.test/api/v1",
        "env_key": "TAOTOKEN_API_KEY",
        "wire_api": "responses",
    }
    assert "sk-canary" not in everything(tmp_path) + done.stdout
    again = clients(tmp_path, "--base-url", url, "--write", "--yes")
    assert again.stdout.count("holds it already") == 3
    assert list(tmp_path.rglob("*.bak")) == []


def test_what_was_there_is_kept_beside_and_inside(tmp_path):
    claude, codex = tmp_path / ".claude" / "settings.json", tmp_path / ".codex" / "config.toml"
    for path in (claude, codex):
        path.parent.mkdir()
    old = {"env": {"EDITOR": "vi", "ANTHROPIC_BASE_URL": "x"}, "permissions": {"allow": ["Read"]}, "theme": "dark"}
    claude.write_text(json.dumps(old))
    codex.write_text(
        '# mine\nmodel = "old"\napproval_policy = "never" # keep\n\n[model_providers.taotoken]\nwire_api = "chat"\n'
        '\n[model_providers.other]\nname = "other"\n\n[[things]]\nmodel = "stays"\n'
    )
    codex.chmod(0o600)
    before = {path: path.read_text() for path in (claude, codex)}
    done = clients(tmp_path, "--base-url", URLS[0], "--write", "--yes", "claude-code", "codex")
    assert done.returncode == 0, done.stderr
    settings = json.loads(claude.read_text())
    assert (settings["env"]["EDITOR"], settings["permissions"], settings["theme"]) == (
        "vi",
        {"allow": ["Read"]},
        "dark",
    )
    text = codex.read_text()
    values = tomllib.loads(text)
    assert (values["model"], values["model_provider"], values["approval_policy"]) == ("big-1", "taotoken", "never")
    assert values["model_providers"]["taotoken"]["wire_api"] == "responses"
    assert values["model_providers"]["other"] == {"name": "other"}
    assert values["things"] == [{"model": "stays"}]
    assert "# mine" in text
    assert "# keep" in text
    assert codex.stat().st_mode & 0o777 == 0o600
    for path in (claude, codex):
        (backup,) = path.parent.glob("*.bak")
        assert backup.read_text() == before[path]


def test_nothing_is_written_without_consent(tmp_path):
    printed = clients(tmp_path, "--base-url", URLS[0])
    assert printed.returncode == 0
    assert 'wire_api = "responses"' in printed.stdout
    assert '"Base URL": "https://gateway.test/api"' in printed.stdout
    refused = clients(tmp_path, "--base-url", URLS[0], "--write")
    assert (refused.returncode, "add --yes" in refused.stderr) == (4, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base-url", "https://gateway.test/api?utm_source=x"], "write https://gateway.test/api"),
        (["--base-url", URLS[0], "vim"], "no client 'vim'"),
        (["--base-url", URLS[0], "--name", "a b"], "is no plain word"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, arguments, said):
    done = clients(tmp_path, *arguments)
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr


def test_a_file_that_is_broken_is_not_written_over(tmp_path):
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{ broken")
    done = clients(tmp_path, "--base-url", URLS[0], "--write", "--yes")
    assert done.returncode == 4
    assert "mend it first" in done.stderr
    assert path.read_text() == "{ broken"
