"""A repository as its CI sees it: made by ``init``, run in parts, replayed for nothing, and a prompt made worse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.harness import KEY, PYC
from tests.loopback import LoopbackGateway, Request, Response, reply

RIGHT = {
    "How many rolls are left": "19", "How many euros": "242", '"stop" backwards': "pots", "[::2]": "ace",
    "37 in binary": "100101", "gases make up": "nitrogen and oxygen",
}  # fmt: skip
CAREFUL, CARELESS = "Reason in one or two short sentences, then finish", "Answer at once and finish"
GATES = "gates:\n  - r3 score >= 0.9\n  - r3 not_worse_than main\n  - infra_errors <= 0%\n"


def answer(request: Request) -> Response:
    """Right when it may reason; told to answer at once it forgets all but two of the answers."""
    system, prompt = (str(request.body["messages"][place]["content"]) for place in (0, -1))
    known = [right for words, right in RIGHT.items() if words in prompt]
    if not known:
        return reply("OK")
    is_careless = CARELESS in system and known[0] not in ("19", "ace")
    return reply("ANSWER: " + ("none" if is_careless else known[0]))


class Repository:
    def __init__(self, path: Path, address: str) -> None:
        self.path = path
        foreign = ("PYTEST_", "TAOTOKEN", "OPENAI")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self._env = clean | PYC | {"TAOTOKEN_API_KEY": KEY, "OPENAI_BASE_URL": address}
        self._env["GITHUB_STEP_SUMMARY"] = str(path / "summary.md")

    def ci(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=self.path, env=self._env, capture_output=True, text=True, check=False)

    def parts(self, out: str) -> tuple[list[int], subprocess.CompletedProcess[str]]:
        """What the workflow of docs/ci.md does: two parts with the cache, then merge."""
        codes, folders = [], []
        for part in ("1/2", "2/2"):
            run = self.ci("pytest", "evals", "--elo-cache", "--elo-shard", part, "-p", "no:cacheprovider")
            codes.append(run.returncode)
            folders.append(str((self.path / ".elo" / "latest").resolve()))
        return codes, self.ci("pytest_elo", "merge", *folders, "--out", out)

    def change(self, name: str, old: str, new: str) -> None:
        path = self.path / "evals" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def test_unchanged_costs_nothing_and_a_worse_prompt_fails_with_the_items_named(tmp_path):
    with LoopbackGateway(answer) as gateway:
        repository = Repository(tmp_path, gateway.base_url)
        assert repository.ci("pytest_elo", "init").returncode == 0
        config = tmp_path / "evals" / "elo.yaml"
        config.write_text(config.read_text() + GATES)
        repository.change("elo.yaml", "model: claude-opus-4-6", "model: test-model")

        codes, first = repository.parts("merged")
        assert (codes, first.returncode) == ([0, 0], 0), first.stdout + first.stderr
        assert "no baseline 'main' is stored yet" in first.stdout
        baseline = str(tmp_path / "evals" / "baselines" / "main.jsonl")
        assert repository.ci("pytest_elo", "baseline", "save", "merged", "--to", baseline).returncode == 0
        bought = len(gateway.requests)

        codes, unchanged = repository.parts("again")
        assert (codes, unchanged.returncode) == ([0, 0], 0), unchanged.stdout
        assert "gates: 2 passed, 1 inconclusive" in unchanged.stdout  # 6 items alone exclude no small loss
        assert len(gateway.requests) - bought == 2  # the two preflights' pings

        repository.change("tasks.yaml", CAREFUL, CARELESS)
        codes, worse = repository.parts("worse")
        assert (codes, worse.returncode) == ([0, 0], 1), worse.stdout
        assert "gates: 1 passed, 2 failed" in worse.stdout
        assert "4 items worse: own/binary-of-37 (1 -> 0), own/gases-of-air (1 -> 0)" in worse.stdout
        gates = json.loads((tmp_path / "worse" / "gates.json").read_text())["gates"]
        assert [gate["answer"] for gate in gates] == ["fail", "fail", "pass"]
        assert "own/reverse-stop (1 -> 0)" in (tmp_path / "summary.md").read_text()
        assert (tmp_path / "summary.md").read_text().count("## Elo per token") == 3  # of the merges alone
