"""A small eval suite in a folder of its own, run as its user would: a real pytest process over real HTTP.

suite = Suite(pytester)
suite.items(8).strategies(r3={"kind": "vote", "n": 3})
run = suite.live(gateway, "-n", "2")
assert run.exit_code == 0
assert len(run.rows) == 32
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.loopback import LoopbackGateway

__all__ = ["KEY", "Run", "Suite"]

KEY = "sk-test-5d3b1f90a7c24e68"

PYC = {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), f"pytest-elo-pycache-{sys.version_info[1]}"))}
"""Sessions share their compiled modules: rewriting the plugins' assertions anew costs each process seconds."""

TEST_FILE = """
import pytest

@pytest.mark.elo("sums", kind="own", data="tasks.yaml")
def test_sums(trial):
    trial.grade()
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What a session left behind."""

    exit_code: int
    output: str
    run_dir: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        return _lines(self.run_dir / "runs.jsonl")

    @property
    def charged(self) -> list[dict[str, Any]]:
        """Rows of items, without preflight's pings."""
        return [row for row in self.rows if row["role"] != "ping"]

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        return _lines(self.run_dir / "outcomes.jsonl")

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def text(self, name: str) -> str:
        return (self.run_dir / name).read_text(encoding="utf-8")


class Suite:
    """Builds the files of a suite and runs it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.path = pytester.path
        self.evals = self.path / "evals"
        self.evals.mkdir()
        (self.path / "pytest.ini").write_text("[pytest]\nelo_html = false\n")
        self.settings: dict[str, Any] = {"model": "test-model", "recordings": "recordings"}
        self.within: list[str] = []
        """Command that runs the session's command."""
        self.file("evals/test_sums.py", TEST_FILE)
        self.items(4)

    def file(self, name: str, text: str) -> Self:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text), encoding="utf-8")
        return self

    def items(self, n: int) -> Self:
        """``n`` additions; the answer to item i is 2 i."""
        items = [
            {"id": f"sum{i:03d}", "prompt": f"What is {i} + {i}? End with ANSWER: <number>", "numeric": 2 * i}
            for i in range(n)
        ]
        return self.file("evals/tasks.yaml", json.dumps(items))

    def strategies(self, **strategies: dict[str, Any]) -> Self:
        self.settings["strategies"] = strategies
        return self

    def set(self, **settings: Any) -> Self:
        self.settings.update(settings)
        return self

    def live(self, gateway: LoopbackGateway, *arguments: str, env: dict[str, str] | None = None) -> Run:
        """Run against a gateway on loopback with the test key."""
        self.settings["gateway"] = {"max_retries": 4} | self.settings.get("gateway", {})
        self.settings["gateway"]["base_url"] = gateway.base_url
        return self.run(*arguments, env={"TAOTOKEN_API_KEY": KEY} | (env or {}))

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Run:
        process = self.start(*arguments, env=env)
        output, _ = process.communicate(timeout=300)
        return self.last_run(output, process.returncode)

    def last_run(self, output: str = "", exit_code: int = 0) -> Run:
        """What the newest run left behind."""
        latest = self.path / ".elo" / "latest"
        return Run(exit_code, output, latest.resolve() if latest.exists() else self.path / "no-run")

    def start(
        self, *arguments: str, env: dict[str, str] | None = None, start_new_session: bool = False
    ) -> subprocess.Popen[str]:
        (self.evals / "elo.yaml").write_text(json.dumps(self.settings), encoding="utf-8")
        names = ("PYTHONDONTWRITEBYTECODE", "PYTEST_", "TAOTOKEN", "OPENAI", "AGENT_MODEL", "COV_", "ELO_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        return subprocess.Popen(
            [*self.within, sys.executable, "-m", "pytest", "evals", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env=clean | PYC | (env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=start_new_session,
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
