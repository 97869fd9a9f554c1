"""Settings: one precedence over all sources, and the source articles' files work as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_elo.config import Overrides, Price, load
from pytest_elo.errors import ConfigError

DATA = Path(__file__).parent / "data" / "articles"
JSON, TOML = DATA / "settings.json", DATA / "config.toml"


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_articles_settings_json_works_as_it_is():
    settings = load(JSON)
    assert settings.base_url == "https://taotoken.net/api"
    assert settings.key_variable == "TAOTOKEN_API_KEY"
    assert settings.model == "claude-opus-4-6"
    assert settings.models == {"gpqa": "claude-opus-4-6", "swebench": "claude-opus-4-6", "judge": "gpt-5.4"}
    assert (settings.max_tokens, settings.timeout_s, settings.temperature) == (4096, 120, 0)
    assert settings.tasks["gpqa"] == {"data": "gpqa_diamond", "parser": "strict"}
    assert settings.tasks["swebench"]["test_command"] == "pytest -q"
    assert (settings.rating.online_k, settings.rating.rounds) == (32, 1000)


def test_the_articles_config_toml_works_as_it_is():
    settings = load(TOML)
    assert (settings.base_url, settings.key_variable, settings.timeout_s) == (
        "https://taotoken.net/api",
        "TAOTOKEN_API_KEY",
        180,
    )
    assert settings.model == "claude-opus-4-6"
    assert settings.models["judge"] == "claude-opus-4-6"
    assert settings.tasks["gpqa"] == {
        "data": str(DATA / "data/gpqa_diamond.jsonl"),
        "few_shot": 0,
        "parser": "strict",
    }
    assert settings.tasks["swebench"]["test_timeout"] == 300
    assert settings.tasks["swebench"]["system"].startswith("You are a senior engineer")
    assert settings.output_elo == DATA / "results/elo.json"


@pytest.mark.parametrize("order", [[JSON, TOML], [TOML, JSON]])
def test_toml_stands_above_json_in_whatever_order_they_are_named(order):
    settings = load(order)
    assert settings.timeout_s == 180
    assert settings.max_tokens == 4096
    assert settings.origins["gateway.timeout_s"] == str(TOML)
    assert settings.origins["max_tokens"] == str(JSON)


def test_yaml_stands_above_both_and_options_above_all(write):
    elo = write("elo.yaml", "model: from-yaml\nmax_tokens: 7\nstrategies: {only: {kind: single}}\n")
    settings = load([JSON, TOML, elo])
    assert (settings.model, settings.max_tokens, settings.timeout_s) == ("from-yaml", 7, 180)
    assert [spec.name for spec in settings.strategies] == ["only"]
    settings = load([JSON, elo], Overrides(values={"model": "from-option"}, origins={"model": "--elo-model"}))
    assert settings.model == "from-option"
    assert settings.origins["model"] == "--elo-model"


@pytest.mark.parametrize("reference", ["${env:ELO_TEST_HOST}", "${ELO_TEST_HOST}"])
def test_variables_are_resolved(write, monkeypatch, reference):
    monkeypatch.setenv("ELO_TEST_HOST", "gateway.test")
    settings = load(write("elo.yaml", f"gateway: {{base_url: 'https://{reference}/v1'}}\n"))
    assert settings.base_url == "https://gateway.test/v1"


def test_the_temperature_is_that_of_single_calls(write):
    settings = load(write("settings.json", json.dumps({"llm": {"requestOptions": {"temperature": 0.3}}})))
    assert [spec.parameters["temperature"] for spec in settings.strategies] == [0.3, 0.8, 0.8]


def test_prices_carry_the_date_they_were_read(write):
    elo = write("elo.yaml", "usd_budget: 2\nprices: {date: 2026-01-31, models: {m: {prompt: 5, completion: 25}}}\n")
    settings = load(elo)
    assert settings.prices == {"m": Price(prompt=5, completion=25)}
    assert settings.prices_date == "2026-01-31"


def literal_key(document: dict) -> None:
    document["llm"]["apiKey"] = "sk-in-the-file"


def other_format(document: dict) -> None:
    document["evaluation"]["gpqa"]["answerFormat"] = "(A)"


def misspelt(document: dict) -> None:
    document["llm"]["requestOptions"]["maxToken"] = 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (literal_key, r"llm\.apiKey: write \$\{env:NAME\}"),
        (other_format, r"evaluation\.gpqa\.answerFormat is '\(A\)'"),
        (misspelt, r"llm\.requestOptions: unknown key 'maxToken'; did you mean 'maxTokens'\?"),
    ],
)
def test_what_a_settings_json_cannot_say(write, change, said):
    document = json.loads(JSON.read_text("utf-8"))
    change(document)
    with pytest.raises(ConfigError, match=said) as caught:
        load(write("settings.json", json.dumps(document)))
    assert "sk-in-the-file" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.toml", "[api]\nbase_ulr = 'x'\n", r"api: unknown key 'base_ulr'; did you mean 'base_url'\?"),
        ("config.toml", "[api\n", "is not valid TOML"),
        ("settings.json", "{", "is not valid JSON"),
        ("elo.ini", "", r"read from \.yaml, \.toml and \.json"),
        ("elo.yaml", "model: ${ELO_TEST_UNSET}\n", "the environment has no ELO_TEST_UNSET"),
        ("elo.yaml", "model: ${ELO_TEST_API_KEY}\n", "ELO_TEST_API_KEY holds a secret"),
        ("elo.yaml", "usd_budget: 2\n", "usd_budget needs prices"),
        ("elo.yaml", "prices: {m: 5}\n", "prices must be"),
        ("elo.yaml", "token_budget: 0\n", "token_budget is 0"),
        ("elo.yaml", "temperature: hot\n", "temperature is 'hot'"),
    ],
)
def test_what_no_file_can_say(write, name, text, said):
    path = write(name, text)
    with pytest.raises(ConfigError, match=said) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_the_option_decides_what_becomes_of_a_task_without_the_anchor(write):
    text = "strategies: {a: {kind: single}, b: {kind: single}}\ntasks: {sums: {strategies: [b]}}\n"
    elo = write("elo.yaml", text)
    assert "tasks.sums.strategies lacks the anchor 'a'" in load(elo).why_unanchored("sums")
    assert load(elo).why_unanchored("another") is None
    assert load(elo, Overrides(missing_anchor="drop")).why_unanchored("sums") is None
