"""docs/strategies.md: what it shows can be run, and its figures are computed."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path

import yaml

import pytest_elo
from pytest_elo.strategies.programs import PRESETS
from pytest_elo.strategies.registry import BUILT_IN, check, find

TEXT = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return found


def test_every_declared_strategy_takes_its_parameters() -> None:
    document = yaml.safe_load(block("yaml"))
    for name, body in document["strategies"].items():
        check(name, body["kind"], {key: value for key, value in body.items() if key != "kind"})
    assert {body["kind"] for body in document["strategies"].values()} == set(BUILT_IN)
    assert {name for ladder in document["ladders"] for name in ladder} <= document["strategies"].keys()


def test_the_example_of_ones_own_registers() -> None:
    exec(block("python"), {"pytest_elo": pytest_elo})
    check("mine", "ask_twice", {"temperature": 0.7})
    assert find("ask_twice").__name__ == "ask_twice"


def test_the_mean_number_of_samples_is_what_the_formula_gives() -> None:
    p, m = 0.7, 3
    q = 1 - p
    mean = sum((m + j) * math.comb(m + j - 1, j) * (p**m * q**j + q**m * p**j) for j in range(m))
    assert f"which is {mean:.2f} of {2 * m - 1} for p = {p}" in " ".join(TEXT.split())


AGENTS = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")


def test_programs_are_documented_as_they_are() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", AGENTS, re.DOTALL)
    for name, body in yaml.safe_load(text)["strategies"].items():
        check(name, body["kind"], {key: value for key, value in body.items() if key != "kind"})
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", AGENTS.split("## Reference: `kind: command`")[1], re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"\w+", row)} - {"limits"}
    parameters = inspect.signature(find("command")).parameters.values()
    assert told == {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    assert all(f"`{name}`" in AGENTS for name in PRESETS)
