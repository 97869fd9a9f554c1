"""Any program as a policy: real processes in a real sandbox, asking the loopback gateway through the proxy."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import ConfigError, GatewayError, LimitExceededError
from pytest_elo.records import Grade, Message, Reply
from pytest_elo.strategies.programs import needed_folders
from tests.loopback import error, model_answer, reply
from tests.strategies.conftest import Start
from tests.walls import needs_walls

pytestmark = needs_walls

PYTHON = str(Path(sys.executable).resolve())
ASK = """
import json, os, sys, urllib.request
def ask(text, model=None):
    body = {"model": model or sys.argv[1], "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


@dataclass(frozen=True)
class Item:
    """A plain problem without a tree of its own."""

    item_id: str = "item-1"
    task_id: str = "own"
    repeat: int = 0
    max_tokens: int = 64

    @property
    def messages(self) -> Sequence[Message]:
        return [{"role": "user", "content": f"find {self.item_id} in {{model}}; $(touch /tmp/pwned) `x`"}]

    def answer_key(self, reply: Reply) -> str:
        return reply.text

    def grade(self, reply: Reply) -> Grade:
        return Grade(status="correct", score=1.0)


def program(code: str, *arguments: str) -> list[str]:
    return [PYTHON, "-c", ASK + code, "{model}", *arguments]


def test_a_program_asks_and_its_output_is_the_answer(bench: Start) -> None:
    spent = bench(model_answer).run(
        "command", Item(), command=program("print(ask(sys.argv[2]), file=sys.stdout)", "{problem}")
    )
    # the problem arrived as it is: nothing of it was taken for a placeholder or by a shell
    assert spent.requests[0].body["messages"][0]["content"] == Item().messages[0]["content"]
    assert spent.text.strip() == "echo `x` 0"
    assert (spent.roles, spent.kept) == (["agent"], [True])
    assert spent.answer.reply.prompt_tokens == spent.rows[0].prompt_tokens > 0


def test_programs_at_once_are_charged_each_to_its_item(bench: Start) -> None:
    code = "[ask(f'{sys.argv[2]} {i}') for i in range(3)]; print(sys.argv[2])"
    items = [Item(f"item-{i}") for i in range(4)]
    spent = bench(model_answer).run_all("command", items, command=program(code, "{problem}"), at_once=4)
    for item, one in zip(items, spent, strict=True):
        assert one.text.strip() == item.messages[0]["content"]
        assert [row.item_id for row in one.rows] == [item.item_id] * 3
        assert len(one.answer.kept) == 3


def test_the_answer_may_be_the_trees_diff_or_a_file(bench: Start) -> None:
    server = bench([reply("42")])
    write = "open('answer.py', 'w').write('x = ' + ask('x') + chr(10))"
    diff = server.run("command", Item(), command=program(write), answer="diff")
    assert "+++ b/answer.py" in diff.text
    assert "+x = 42" in diff.text
    assert server.run("command", Item(), command=program(write), answer="answer.py").text == "x = 42\n"
    named = server.run(
        "command", Item(), command=program("open(sys.argv[2], 'w').write(ask('x'))", "{answer_file}"), answer="file"
    )
    assert named.text == "42"


def test_the_program_sees_a_token_no_key_no_network_and_no_home(bench: Start, monkeypatch: Any) -> None:
    monkeypatch.setenv("TAOTOKEN_API_KEY", "sk-canary-of-this-test")
    code = f"""
import socket
ask("x")
found = dict(os.environ)
for name in os.listdir("/proc"):
    try: found[name] = open(f"/proc/{{name}}/environ").read()
    except OSError: pass
try:
    socket.create_connection(("192.0.2.1", 80), 1); network = "reached"
except OSError: network = "none"
print(json.dumps([found, network, os.path.exists({str(Path(__file__))!r})]))
"""
    spent = bench([reply("42")]).run("command", Item(), command=program(code))
    found, network, sees_host = json.loads(spent.text)
    assert "sk-" not in json.dumps(found)
    assert (network, sees_host) == ("none", False)
    names = {"OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"}
    assert names <= found.keys()


def test_the_answer_stands_when_the_time_is_over_and_nothing_is_left_behind(bench: Start, tmp_path: Path) -> None:
    mark = f"elo-leftover-{os.getpid()}"
    code = f"""
import subprocess, time
ask("x")
print("half an answer", flush=True)
subprocess.Popen(["setsid", sys.executable, "-c", "import time; time.sleep(300)", {mark!r}], start_new_session=True)
time.sleep(300)
"""
    started = time.monotonic()
    spent = bench([reply("42")]).run("command", Item(), command=program(code), seconds=2)
    assert time.monotonic() - started < 30
    assert spent.text.strip() == "half an answer"
    assert spent.answer.reply.finish_reason == "limit_exceeded"
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(mark.encode() in line for line in running)


def test_limits_hold_for_programs(bench: Start) -> None:
    code = "[ask(str(i)) for i in range(9)]"
    server = bench([reply("42")])
    with pytest.raises(LimitExceededError, match="its limit of 3 calls an item"):
        server.run("command", Item(), command=program(code), limits={"calls": 3})
    assert len(server.sink.closed) == len(server.server.requests) == 3
    with pytest.raises(LimitExceededError, match="1 s an item"):
        server.run("command", Item(), command=program("import time; ask('x'); time.sleep(60)"), limits={"seconds": 1})


def test_failures_are_told_apart(bench: Start) -> None:
    good = bench([reply("42")])
    with pytest.raises(ConfigError, match="'no-such-program' is not installed here"):
        good.run("command", Item(), command=["no-such-program"])
    with pytest.raises(ConfigError, match="exit code 3 and asked no model: bad option"):
        good.run(
            "command", Item(), command=[PYTHON, "-c", "import sys; print('bad option', file=sys.stderr); sys.exit(3)"]
        )
    wrong = good.run("command", Item(), command=program("print(ask('x')); sys.exit(7)"))
    assert (wrong.text.strip(), wrong.answer.marks) == ("42", ("exit_7",))
    with pytest.raises(GatewayError, match="key") as caught:
        bench([error(401, "bad key")]).run("command", Item(), command=program("ask('x')"))
    assert caught.value.status == "config_error"
    with pytest.raises(GatewayError) as caught:
        bench([error(500, "down")]).run("command", Item(), command=program("ask('x')"))
    assert caught.value.status == "infra_error"


def test_output_is_capped(bench: Start) -> None:
    spent = bench([reply("42")]).run(
        "command", Item(), command=program("ask('x'); print('x' * 3_000_000)"), output_bytes=1000
    )
    assert spent.text == "x" * 1000


def test_without_walls_it_works_the_same_on_request(bench: Start) -> None:
    code = "open('a.txt', 'w').write(ask(sys.argv[2])); print(os.getcwd())"
    spent = bench([reply("42")]).run(
        "command", Item(), command=program(code, "{problem}"), answer="a.txt", sandbox="none"
    )
    assert spent.text == "42"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "either 'command"),
        ({"command": ["a"], "preset": "codex"}, "either 'command"),
        ({"command": "mini --task x"}, "write a list of words"),
        ({"preset": "claude"}, "did you mean 'claude-code'"),
        ({"command": ["sh"], "answer": "/etc/passwd"}, "a path inside the tree"),
        ({"command": ["no-such-program"]}, "is not installed here"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_spent(parameters: dict[str, Any], words: str) -> None:
    from pytest_elo.strategies.registry import check_problem

    with pytest.raises(ConfigError, match=words):
        check_problem("coder", "command", parameters, Item())  # type: ignore[arg-type]


def test_an_installed_program_brings_its_folders(tmp_path: Path) -> None:
    modules = tmp_path / "app" / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    (modules / "@x" / "cli").mkdir(parents=True)
    script = modules / "@x" / "cli" / "run.js"
    script.write_text("#!/usr/bin/env sh\n")
    script.chmod(0o755)
    (modules / ".bin" / "x").symlink_to(script)
    found, folders = needed_folders([str(modules / ".bin" / "x"), "/no/such/word"])
    assert (found, folders) == (str(modules / ".bin" / "x"), [modules])
    with pytest.raises(ConfigError, match="mounts: /no/such"):
        needed_folders(["sh"], ["/no/such"])
    with pytest.raises(ConfigError, match="would show your files"):
        needed_folders(["sh", os.path.expanduser("~")])


def test_a_script_named_in_the_command_is_seen_and_its_neighbours_are_not(bench: Start, tmp_path: Path) -> None:
    (tmp_path / "solve.py").write_text(ASK + "print(ask('x'), os.path.exists(sys.argv[2]))")
    (tmp_path / "secret.txt").write_text("x")
    words = [PYTHON, str(tmp_path / "solve.py"), "{model}", str(tmp_path) + "/./secret.txt"]
    spent = bench([reply("42")]).run("command", Item(), command=[*words[:3], words[3].replace("/tmp", "{scratch}")])
    assert spent.text.split() == ["42", "False"]


def test_a_program_that_takes_no_for_an_answer_of_the_moment_is_ended(bench: Start, monkeypatch: Any) -> None:
    monkeypatch.setattr("pytest_elo.strategies.command._GRACE_S", 0.5)
    code = """
import time
while True:
    try: print(ask("x"), flush=True)
    except Exception: time.sleep(1)
"""
    server = bench([reply("42")])
    started = time.monotonic()
    spent = server.run("command", Item(), command=program(code), limits={"calls": 2}, seconds=300)
    assert time.monotonic() - started < 30
    assert (spent.text.split(), spent.answer.reply.finish_reason) == (["42", "42"], "limit_exceeded")
