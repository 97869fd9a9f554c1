"""Large suites: collecting asks for no more than it must, and still refuses what cannot work."""

from __future__ import annotations

import json

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway

COUNTED = """
    from pytest_elo.tasks.own import OwnTask

    posed = []
    pose = OwnTask.pose

    def counted(self, item_id, repeat):
        posed.append(item_id)
        return pose(self, item_id, repeat)

    OwnTask.pose = counted

    def pytest_sessionfinish():
        print("POSED", posed)
"""
LINES_TEST = """
    import pytest

    @pytest.mark.elo("sums", kind="own", data="tasks.jsonl")
    def test_sums(trial):
        trial.grade()
"""


@pytest.fixture
def suite(pytester):
    suite = Suite(pytester).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    return suite.file("evals/conftest.py", COUNTED).file("evals/test_sums.py", LINES_TEST)


def lines(n: int, **last: object) -> str:
    items: list[dict[str, object]] = [
        {"id": f"sum{i:03d}", "prompt": f"{i} + {i}?", "numeric": 2 * i} for i in range(n)
    ]
    return "\n".join(json.dumps(item) for item in [*items, *([last] if last else [])])


def test_one_item_of_each_sort_is_posed_and_the_others_are_only_listed(suite):
    suite.file("evals/tasks.jsonl", lines(40, id="text", prompt="Say it.", exact="it"))
    run = suite.run("--collect-only", "-q", "-s")
    assert run.exit_code == 0, run.output
    assert "POSED ['sum000', 'text']" in run.output
    assert run.output.count("test_sums.py::test_sums[") == 82


def test_an_item_that_its_strategy_cannot_serve_is_refused_wherever_it_stands(suite):
    suite.file("evals/tasks.jsonl", lines(40, id="poem", prompt="A poem.", rubric="It rhymes."))
    run = suite.run("--collect-only", "-q")
    assert run.exit_code != 0, run.output
    assert "strategies.r3 on sums[poem]" in run.output
    assert suite.run("--collect-only", "-q", "--elo-limit", "40").exit_code == 0


HELD = """
    import gc

    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(session):
        from pytest_elo.session.trial import Posed

        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        reports = [report for found in terminal.stats.values() for report in found]
        posed = sum(isinstance(held, Posed) for held in gc.get_objects())
        print("HELD", posed, sum(hasattr(report, "elo_events") for report in reports), len(reports) >= 80)
"""


def test_what_an_ended_item_said_is_not_held_to_the_end(pytester, answer):
    suite = Suite(pytester).items(40).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    suite.file("evals/conftest.py", HELD)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-s")
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 80
    assert "HELD 0 0 True" in run.output
