"""Of items that are over, no process of a run holds what was asked, said or bought: memory does not grow with them."""

from __future__ import annotations

import json

import pytest

from tests.loopback import LoopbackGateway

LOOKS = """
    import collections
    import gc
    import json
    import os
    import pathlib

    import pytest

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(session):
        yield
        gc.unfreeze()
        gc.collect()
        things = gc.get_objects()
        names = [f"{type(thing).__module__}.{type(thing).__name__}" for thing in things]
        held = collections.Counter(name.rpartition(".")[2] for name in names if name.startswith("pytest_elo."))
        reports = [thing for thing in things if type(thing) is pytest.TestReport]
        held["events"] = sum("elo_events" in vars(report) for report in reports)
        process = os.environ.get("PYTEST_XDIST_WORKER", "main")
        pathlib.Path(f"held-{process}.json").write_text(json.dumps(held))
        return True
"""

GOES = (
    *("Attempt", "Outcome", "CallRecord", "Reply", "Answer", "Grade", "Recorded", "Tag"),
    *("Trial", "TrialResult", "Recorder", "OwnProblem", "BoundAsk", "Call", "Reading", "events"),
)
FEW = 4
"""Constants, and what the last item and the last contact with a gateway leave; of 48 trials all others are gone."""


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("mode", ["record", "replay"])
def test_what_an_item_leaves_goes_with_it(suite, answer, mode, workers):
    suite.items(24).file("evals/conftest.py", LOOKS)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers, "--elo-record")
    if mode == "replay":
        run = suite.run("--elo-replay", "-n", workers)
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 48
    processes = ["main"] if workers == "0" else ["main", "gw0", "gw1"]
    for process in processes:
        held = json.loads((suite.path / f"held-{process}.json").read_text())
        assert {name: held[name] for name in GOES if held.get(name, 0) > FEW} == {}, (process, held)
        assert held.get("ItemState", 0) <= FEW, (process, held)
