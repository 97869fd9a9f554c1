"""A rerun is a new sample: other seeds, all tokens summed, the last score counts; a replay finds the same again."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.loopback import LoopbackGateway, Request, Response, reply

pytest.importorskip("pytest_rerunfailures")

FLAKY = """
    import pytest

    tries = {}

    @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
    def test_sums(trial):
        outcome = trial.grade()
        tries[trial.item_id] = tries.get(trial.item_id, 0) + 1
        assert trial.item_id != "sum002" or tries["sum002"] == 3, "flaky"
"""


class RightInTheEnd:
    """Answers an item wrongly until it is asked with a third seed."""

    def __init__(self) -> None:
        self.seeds: dict[str, list[int]] = {}

    def __call__(self, request: Request) -> Response:
        prompt = request.body["messages"][-1]["content"]
        if not prompt.startswith("What is"):
            return reply("OK")
        number = prompt.split()[2]
        seeds = self.seeds.setdefault(number, [])
        if request.body["seed"] not in seeds:
            seeds.append(request.body["seed"])
        return reply(f"ANSWER: {2 * int(number) if len(seeds) == 3 else -1}")


def properties(path, item: str) -> dict[str, str]:
    cases = ElementTree.parse(path).getroot().iter("testcase")
    case = [case for case in cases if item in case.get("name", "")][-1]
    return {found.get("name", ""): found.get("value", "") for found in case.iter("property")}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_tokens_are_summed_and_the_last_score_counts(suite, workers):
    suite.items(4).strategies(baseline={"kind": "single"}).file("evals/test_sums.py", FLAKY)
    model = RightInTheEnd()
    junit = ("-p", "no:cacheprovider", "--junitxml", "junit.xml")
    with LoopbackGateway(model) as gateway:
        run = suite.live(gateway, "--reruns", "2", "-n", workers, "--elo-record", *junit)
    assert run.exit_code == 0, run.output
    assert len(model.seeds["2"]) == 3
    rows = [row for row in run.charged if row["item_id"] == "sum002"]
    assert [row["kept"] for row in rows] == [False, False, True]
    assert len(run.rows) == len(gateway.requests)
    (outcome,) = [outcome for outcome in run.outcomes if outcome["item_id"] == "sum002"]
    assert outcome["status"] == "correct"
    found = properties(suite.path / "junit.xml", "sum002")
    assert found == {
        "elo_strategy": "baseline",
        "elo_status": "correct",
        "elo_score": "1.0",
        "elo_tokens": "45",
        "elo_reruns": "2",
    }
    if workers == "0":
        replays_the_same(suite)


def replays_the_same(suite) -> None:
    del suite.settings["gateway"]
    run = suite.run("--reruns", "2")
    assert run.exit_code == 0, run.output
    rows = [row for row in run.rows if row["item_id"] == "sum002"]
    assert [row["source"] for row in rows] == ["replay"] * 3
    assert len({row["call_id"] for row in rows}) == 3
    (outcome,) = [outcome for outcome in run.outcomes if outcome["item_id"] == "sum002"]
    assert outcome["status"] == "wrong"  # the first recorded sample, each time
