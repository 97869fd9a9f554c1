"""pytest hooks and fixtures; each delegates in a few lines. Imports the standard library and pytest only.

Without an ``elo.yaml`` beside the collected paths nothing is registered and nothing is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openai import OpenAI

    from pytest_elo.session.hooks import RunnerPlugin
    from pytest_elo.session.live import LiveLedger
    from pytest_elo.session.trial import Posed, Trial, TrialKey


def pytest_addoption(parser: pytest.Parser) -> None:
    from pytest_elo.session.options import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "elo(task, *, data, kind=task): rate the items of a task under every strategy")
    from pytest_elo.session.start import register

    register(config)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not config.option.elo_doctor:
        return None
    from pytest_elo.session.doctor import doctor

    return doctor(config, print)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "elo_key" in metafunc.fixturenames:
        _runner(metafunc.config).parametrize(metafunc)


@pytest.fixture
def elo_key(request: pytest.FixtureRequest) -> TrialKey:
    """The item, strategy and repeat that this test stands for (internal)."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def trial(request: pytest.FixtureRequest, elo_key: TrialKey) -> Iterator[Trial]:
    """This test's item after its strategy has run: ``trial.text``, ``trial.grade()``, ``trial.score(x)``.

    A failure that is not the model's (network, address, recording) is an error of the setup.
    """
    yield from _runner(request.config).run_trial(request, elo_key)


@pytest.fixture
def problem(request: pytest.FixtureRequest, elo_key: TrialKey) -> Iterator[Posed]:
    """This test's item for a test that asks the model itself: ``problem.messages``, ``problem.score(x)``."""
    yield from _runner(request.config).pose(request, elo_key)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    """The metered client: a real ``openai.OpenAI`` whose every HTTP attempt lands on the ledger.

    Attempts are charged to this test's item and strategy, or to the test itself where it has none.
    """
    yield from _runner(request.config).client(request)


@pytest.fixture
def async_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Like ``client``, as ``openai.AsyncOpenAI`` for tests that run their own event loop."""
    yield from _runner(request.config).client(request, asynchronous=True)


@pytest.fixture
def gateway_env(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The environment for any subprocess that asks a model: ``subprocess.run(my_agent, env=gateway_env)``.

    OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN lead to the metering proxy, which
    charges every call to this test's item; the token in them dies with the test, and the real key is not there.
    """
    yield from _runner(request.config).gateway_env(request)


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> LiveLedger:
    """The attempts this process has made so far: ``ledger.attempts()``, ``ledger.total_tokens()``."""
    return _runner(request.config).live_ledger()


def _runner(config: pytest.Config) -> RunnerPlugin:
    plugin = config.pluginmanager.get_plugin("elo-runner")
    if plugin is None:
        raise pytest.UsageError(
            "pytest-elo is asleep: no elo.yaml at or above the collected paths; "
            "create one (an empty file takes the defaults) or name it with --elo-config"
        )
    return plugin  # type: ignore[no-any-return]
