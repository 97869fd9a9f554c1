"""Bad input: one clear line each, exit code 4, before anything is bought."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness import KEY, Suite
from tests.loopback import LoopbackGateway, reply

ADDRESS = "http://127.0.0.1:9/v1"


@pytest.fixture
def suite(pytester):
    return Suite(pytester).items(1).strategies(baseline={"kind": "single"})


def attempts_of(suite: Suite) -> list[dict[str, Any]]:
    """Rows of the only run there is, one that could not begin."""
    (path,) = suite.path.glob(".elo/*/runs.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["run_id"] for row in rows} == {path.parent.name}
    return rows


def refused(suite: Suite, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run, require exit code 4 and no traceback, and return the line that says why."""
    run = suite.run(*arguments, env=env)
    assert run.exit_code == 4, run.output
    assert "Traceback" not in run.output
    assert KEY not in run.output
    assert "interrupted" not in run.output.replace("Interrupted: 1 error during collection", "")
    assert not list(suite.path.glob(".elo/*/runs.jsonl"))
    lines = [line for line in run.output.splitlines() if "pytest-elo:" in line]
    assert lines, run.output
    return lines[0]


@pytest.mark.parametrize(
    ("key", "said"),
    [(None, "TAOTOKEN_API_KEY is not set"), ("", "TAOTOKEN_API_KEY is empty"), (" \n", "TAOTOKEN_API_KEY is empty")],
)
def test_a_gateway_without_a_usable_key(suite, key, said):
    suite.set(gateway={"base_url": ADDRESS})
    assert said in refused(suite, env=None if key is None else {"TAOTOKEN_API_KEY": key})


def test_an_empty_key_is_never_a_silent_replay(suite):
    assert "TAOTOKEN_API_KEY is empty" in refused(suite, env={"TAOTOKEN_API_KEY": ""})


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        ("https://taotoken.net/api?utm_source=x", "https://taotoken.net/api"),
        ("https://taotoken.net/api/v1/v1", "https://taotoken.net/api/v1"),
        ("https://taotoken.net/api/v1/chat/completions", "https://taotoken.net/api/v1"),
        ("", "unset it"),
    ],
)
def test_addresses_that_cannot_work(suite, address, instead):
    line = refused(suite, env={"TAOTOKEN_API_KEY": KEY, "OPENAI_BASE_URL": address})
    assert "OPENAI_BASE_URL" in line
    assert instead in line


def test_the_articles_placeholder_is_no_model(suite):
    suite.set(model="以控制台展示的模型名为准")
    assert "placeholder" in refused(suite, env={"TAOTOKEN_API_KEY": KEY})


def test_no_key_and_no_recordings(suite):
    line = refused(suite)
    assert "TAOTOKEN_API_KEY" in line
    assert "--elo-model embedded" in line


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_an_unreachable_gateway_is_found_before_the_first_item(suite, workers):
    suite.set(gateway={"base_url": ADDRESS, "max_retries": 0})
    run = suite.run(*workers, env={"TAOTOKEN_API_KEY": KEY})
    assert run.exit_code == 4
    assert "127.0.0.1:9" in run.output
    assert "test_sums" not in run.output
    assert "did not run" not in run.output
    (line,) = (line for line in run.output.splitlines() if "preflight" in line)
    assert line.startswith("ERROR: pytest-elo: preflight, model test-model: connect")
    assert not (suite.path / ".elo" / "latest").exists()
    assert {attempt["role"] for attempt in attempts_of(suite)} == {"ping"}


def test_a_path_that_is_not_there_is_said_although_the_gateway_is_being_asked(suite):
    with LoopbackGateway(lambda request: reply("OK", delay_s=1.0)) as gateway:
        run = suite.live(gateway, "evals/test_nothing.py")
        assert run.exit_code == 4
        assert "file or directory not found: evals/test_nothing.py" in run.output
    (attempt,) = attempts_of(suite)
    assert (attempt["role"], attempt["status"]) == ("ping", "ok")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stratgies": {}}, "unknown key 'stratgies'; did you mean 'strategies'?"),
        ({"gateway": {"base_ulr": "x"}}, "did you mean 'base_url'?"),
        ({"rating": {"ties": "some"}}, "rating.ties is 'some'; choose one of half, davidson, drop"),
        ({"anchor": "basline"}, "the anchor 'basline' is no strategy; did you mean 'baseline'?"),
        ({"ladders": [["baseline", "r9"]]}, "ladders: no strategy is named 'r9'"),
        ({"repeats": 0}, "repeats is 0"),
        ({"strategies": {"a-b": {"kind": "single"}}}, "'a-b' is not a usable name"),
    ],
)
def test_settings_that_mean_nothing(suite, settings, said):
    suite.set(**settings)
    line = refused(suite, env={"TAOTOKEN_API_KEY": KEY})
    assert said in line
    assert "elo.yaml" in line


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        ({"baseline": {"kind": "singel"}}, "no strategy kind 'singel'; did you mean 'single'?"),
        ({"baseline": {"kind": "vote"}}, "strategies.baseline: vote needs 'n'"),
        ({"baseline": {"kind": "single", "temprature": 1}}, "did you mean 'temperature'?"),
    ],
)
def test_strategies_that_cannot_run(suite, strategies, said):
    recordings(suite)
    suite.strategies(**strategies)
    assert said in refused(suite)


@pytest.mark.parametrize("arguments", [("-n", "0"), ("-n", "2"), ("--collect-only",), ("--setup-plan",)])
def test_task_data_that_cannot_be_read(suite, arguments):
    recordings(suite)
    suite.file("evals/tasks.yaml", "- {id: a, prompt: x, numeric: 1}\n- {id: a, prompt: y, numeric: 2}\n")
    line = refused(suite, *arguments)
    assert "tasks.yaml" in line
    assert "'a'" in line


def test_a_csv_without_the_columns_of_gpqa(suite):
    recordings(suite)
    suite.file("evals/questions.csv", "Question,Correct Answer\nx,y\n")
    suite.file(
        "evals/test_sums.py",
        """
        import pytest

        @pytest.mark.elo("gpqa", data="questions.csv")
        def test_gpqa(trial):
            trial.grade()
        """,
    )
    line = refused(suite)
    assert "questions.csv" in line
    assert "Incorrect Answer 1" in line


def test_dist_each_would_buy_everything_twice(suite):
    recordings(suite)
    assert "--dist load" in refused(suite, "-n", "2", "--dist", "each")


def test_a_suite_without_settings_says_what_wakes_the_plugin(pytester):
    pytester.makepyfile("def test_it(client): pass")
    result = pytester.runpytest_subprocess()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no elo.yaml at or above the collected paths*"])


def recordings(suite: Suite) -> None:
    """An empty set of recordings, so that no key is needed to come as far as the items."""
    manifest = {"v": 1, "model": "test-model", "host": "test", "date": "2026-01-01", "versions": {}}
    suite.file("evals/recordings/manifest.json", json.dumps(manifest))


@pytest.mark.parametrize("option", ["--elo-dir", "--elo-resume"])
def test_a_run_directory_that_cannot_be(suite, option):
    said = refused(suite, f"{option}={'a' * 5000}")
    assert "is no path (File name too long)" in said
