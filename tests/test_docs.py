"""What the documentation names exists, and what exists is named."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from pytest_elo.config import _GATEWAY, _TOP, RatingSettings
from pytest_elo.tasks.swebench import load as load_swebench
from pytest_elo.tasks.swebench.sandbox import Limits

ROOT = Path(__file__).parents[1]
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")


def named_in_code_style(text: str) -> set[str]:
    return {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w.-]+", span)}


def test_every_key_of_the_settings_is_documented() -> None:
    keys = {key for key in _TOP if key not in ("gateway", "rating", "tasks")}
    keys |= {f"gateway.{key}" for key in _GATEWAY} | {f"rating.{field.name}" for field in fields(RatingSettings)}
    assert sorted(keys - named_in_code_style(SETTINGS)) == []


def test_every_option_is_documented_and_every_documented_option_exists() -> None:
    shown = subprocess.run([sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True)
    options = set(re.findall(r"--elo-[a-z-]+", shown.stdout))
    ini = set(re.findall(r"^  (elo_\w+)", shown.stdout, flags=re.MULTILINE))
    assert len(options) > 15
    assert len(ini) > 5
    assert sorted((options | ini) - named_in_code_style(SETTINGS)) == []
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    in_docs = {name for page in pages for name in re.findall(r"--elo-[a-z-]+", page.read_text(encoding="utf-8"))}
    assert sorted(in_docs - options) == []


def test_every_option_of_swebench_is_documented() -> None:
    known = set(inspect.signature(load_swebench).parameters) - {"path", "task_id", "base"}
    page = (ROOT / "docs/swebench.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert sorted(known - documented) == []
    limits = {field.name for field in fields(Limits)} - {"wall_s", "apply_s"}
    assert [name for name in sorted(limits) if f"`{name}`" not in page] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        (page.name, target)
        for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_fault_in_the_table_is_held_by_a_test() -> None:
    page = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    table = page.partition("## Faults")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    held_by = [row[-1].strip("`") for row in rows[2:]]
    written = {
        name
        for path in (ROOT / "tests/session").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert len(held_by) >= 13
    assert [name for name in held_by if name not in written] == []
    faults = set(re.findall(r"^def (test_\w+)", (ROOT / "tests/session/test_faults.py").read_text(), re.MULTILINE))
    assert sorted(faults - set(held_by)) == []
