"""The tutorial and the notes for those who come from other tools, typed from their first line to their last."""

from __future__ import annotations

import ast
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from tests.loopback import LoopbackGateway, Request, Response, reply
from tests.pages import blocks, missing, run

DOCS = Path(__file__).parents[1] / "docs"


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    page = blocks(DOCS / "tutorial.md")
    assert {block.language for block in page} <= {"bash", "text", "python", "yaml"}
    assert all(block.name for block in page if block.language in ("python", "yaml")), "each is a file to save"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    printed = run(page, tmp_path, port)
    typed = [block for block in page if block.language == "bash" and block.name != "install"]
    assert len(typed) > 12
    wrong = {block.line: missing(block, printed[block.line]) for block in typed}
    said = "\n".join(line for lines in printed.values() for line in lines)
    assert {line: (lines, printed[line]) for line, lines in wrong.items() if lines} == {}
    text = re.sub(r"```.*?```", "", (DOCS / "tutorial.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    intervals = re.findall(r"`(\[[+-][^`]*\])`", text)
    assert intervals
    assert [shown for shown in intervals if shown not in said] == []


def test_the_tutorials_installation_is_pips() -> None:
    (block,) = (block for block in blocks(DOCS / "tutorial.md") if block.name == "install")
    words = [shlex.split(part) for line in block.text.splitlines() for part in line.split("&&")]
    assert [line[0] for line in words] == ["python", ".", "pip"]
    helped = subprocess.run([sys.executable, "-m", "venv", "--help"], capture_output=True, text=True, check=True)
    assert "usage: venv" in helped.stdout
    assert words[2] == ["pip", "install", "/path/to/pytest-elo"]


def answers(request: Request) -> Response:
    said = str(request.body["messages"][-1]["content"])
    text = "OK"
    if said.startswith("Grade"):
        text = "1: YES\n2: YES"
    elif "laptop" in said or "soup" in said:
        text = f"ANSWER: {'yes' if 'laptop' in said else 'no'}"
    elif "shoes" in said:
        text = "We refund all of it within 30 days."
    elif "capital of" in str(request.body["messages"]):
        text = f"ANSWER: {'Paris' if 'France' in str(request.body['messages']) else 'Lima'}"
    return reply(text, model=request.body["model"])


def test_what_replaces_other_tools_runs(tmp_path: Path) -> None:
    page = blocks(DOCS / "comparison.md")
    before = [block for block in page if block.name == "before"]
    assert len(before) == 3
    for block in before:
        ast.parse(block.text)
    with LoopbackGateway(answers) as gateway:
        (printed,) = run(
            page, tmp_path, OPENAI_BASE_URL=gateway.base_url, TAOTOKEN_API_KEY="sk-test-5d3b1f90a7c24e68"
        ).values()
    output = "\n".join(printed)
    assert re.findall(r"(\d+) passed in", output) == ["6", "2", "16"], output
    assert output.count("PASS ") == 2
