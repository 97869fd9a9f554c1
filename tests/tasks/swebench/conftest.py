"""The shipped suite and a runner over it: real git, real sandboxes, no network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.environments import known_specs
from pytest_elo.tasks.swebench.local.mirrors import Mirrors
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.rows import load_instances
from pytest_elo.tasks.swebench.sandbox import Limits, choose_sandbox

DATA = Path(__file__).parents[3] / "evals" / "data" / "swebench"


@pytest.fixture(scope="session")
def suite() -> dict[str, Instance]:
    """The shipped instances by short name (``money``)."""
    instances = load_instances(DATA / "instances.jsonl")
    return {instance.repo.split("/")[1]: instance for instance in instances}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swebench-cache")


@pytest.fixture(scope="session")
def make_runner(cache: Path) -> Callable[[str], LocalRunner]:
    """A local runner over the shipped repositories with the named sandbox; skips, saying why, without it."""

    def make(sandbox: str = "auto", **settings: object) -> LocalRunner:
        try:
            chosen = choose_sandbox(sandbox)
        except ConfigError as error:
            pytest.skip(str(error))
        limits = settings.pop("limits", Limits(wall_s=60, cpu_s=60))
        return LocalRunner(
            sandbox=chosen,
            cache=cache,
            mirrors=Mirrors(folder=cache / "mirrors", mirror_dirs=(DATA / "repositories",)),
            specs=known_specs(DATA / "environments.json"),
            limits=limits,  # type: ignore[arg-type]
            **{"disk_mb": 64, **settings},  # type: ignore[arg-type]
        )

    return make


@pytest.fixture(scope="session")
def runner(make_runner: Callable[[str], LocalRunner]) -> LocalRunner:
    """The best sandbox of this machine."""
    return make_runner("auto")
