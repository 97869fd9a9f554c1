"""The documentation speaks the language of gates, and its workflows are YAML."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from pytest_elo.config_gates import gates_of
from pytest_elo.gates.language import parse
from pytest_elo.gates.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_gate_in_the_documentation_is_one():
    rules = []
    for name in ("gates.md", "ci.md"):
        for block in blocks(name, "yaml"):
            rules += [text for text, _ in gates_of(yaml.safe_load(block).get("gates"), Path(name)).rules]
    assert len(rules) >= 8
    for rule in rules:
        parse(rule, "docs")


def test_every_metric_is_described():
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "gates.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert METRICS.keys() <= described


def test_the_workflows_name_their_jobs_and_steps():
    github, _, sharded, gitlab = (yaml.safe_load(block) for block in blocks("ci.md", "yaml"))
    for workflow in (github, sharded):
        assert all("run" in step or "uses" in step for job in workflow["jobs"].values() for step in job["steps"])
    assert sharded["jobs"]["merge"]["needs"] in sharded["jobs"]
    assert gitlab["evals"]["artifacts"]["reports"]["junit"] == "evals.xml"
