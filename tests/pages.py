"""Pages of the documentation as one shell session: their files are written, their commands typed, in their order.

Fences carry what they are behind the language: ```` ```python products/conftest.py ```` is a file to save, ``bash`` is
typed, and ``text`` right behind it is what it prints. ``...`` stands for any lines in between.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import PYC

__all__ = ["Block", "blocks", "missing", "run", "script"]

END = "-- end of block"
JQ = """#!{python}
import json, sys
import jq
words = sys.argv[1:]
flags = [word for word in words if word.startswith("-")]
program, *files = [word for word in words if not word.startswith("-")]
lines = [json.loads(line) for name in files for line in open(name)]
inputs = [lines] if "-s" in flags else lines
for value in inputs:
    for found in jq.compile(program).input_value(value):
        print(json.dumps(found, separators=(",", ":")) if "-c" in flags else json.dumps(found, indent=2))
"""
"""The real jq by its library, where the program may not be installed."""


@dataclass(slots=True)
class Block:
    """A fence of a page. ``name`` is the file it is saved as, or what else stands behind the language."""

    language: str
    name: str
    line: int
    text: str = ""
    printed: list[str] = field(default_factory=list)
    """Of ``bash``: the lines that the page says it prints."""


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    inside: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.startswith("```"):
            if inside is not None:
                inside.text += line + "\n"
        elif inside is None:
            language, _, name = line[3:].strip().partition(" ")
            inside = Block(language, name.strip(), number)
        else:
            if inside.language == "text" and found and found[-1].language == "bash":
                found[-1].printed = inside.text.splitlines()
            found.append(inside)
            inside = None
    return found


def script(page: list[Block]) -> str:
    """A shell script of all that a reader does; each bash block ends with a line of its own."""
    lines: list[str] = []
    for block in page:
        if block.language == "bash" and block.name != "install":
            lines += [block.text.rstrip(), f"echo '{END} {block.line}'"]
        elif block.language in ("python", "yaml", "json") and "." in block.name:
            lines += [f"mkdir -p {Path(block.name).parent}", f"cat > {block.name} <<'END-OF-FILE'"]
            lines += [block.text.rstrip(), "END-OF-FILE"]
    return "\n".join(lines) + "\n"


def run(page: list[Block], folder: Path, port: int | None = None, **env: str) -> dict[int, list[str]]:
    """Line of each bash block to the lines that it printed. ``port`` takes the place of 8377."""
    tools = folder / ".tools"
    tools.mkdir()
    (tools / "jq").write_text(JQ.format(python=sys.executable))
    (tools / "jq").chmod(0o755)
    names = ("PYTEST_", "PYTHONDONTWRITEBYTECODE", "TAOTOKEN", "OPENAI", "ELO_", "AGENT_MODEL", "CI", "GITHUB_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    text = script(page) if port is None else script(page).replace("8377", str(port))
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=clean | PYC | {"HOME": str(folder), "PATH": path, "COLUMNS": "100"} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=280,
    )
    printed: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.splitlines():
        if line.startswith(END):
            printed[int(line.removeprefix(END))] = lines
            lines = []
        else:
            lines.append(line)
    assert not lines, "\n".join(lines)
    return printed


def missing(block: Block, printed: list[str]) -> list[str]:
    """Lines that the page shows and the block did not print in this order, told apart from ids, times and ports."""
    rest = iter([_plain(line) for line in printed])
    return [line for line in block.printed if line.strip() != "..." and _plain(line) not in rest]


def _plain(line: str) -> str:
    for pattern, word in (
        (r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"in \d+\.\d+s", "in N s"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"={3,}", "==="),
    ):
        line = re.sub(pattern, word, line)
    return line.rstrip()
