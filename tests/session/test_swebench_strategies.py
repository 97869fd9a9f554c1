"""Every way of spending compute on a patch, live over HTTP: the model is scripted, repository and tests are real."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from pytest_elo.tasks.swebench import read_predictions
from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply
from tests.walls import needs_walls

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "swebench"
SHARES = "    share, left = divmod(cents, people)\n    return [share + 1] * left + [share] * (people - left)"
SHOW = '    sign, cents = "-" if cents < 0 else "", abs(cents)\n    return f"{sign}{cents // 100}.{cents % 100:02d}"'


def edit(path: str, search: str, replace: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


GOOD = edit("money/split.py", "    return [cents // people] * people", SHARES)
GOOD += edit("money/text.py", '    return f"{cents // 100}.{cents % 100:02d}"', SHOW)
SAME = f"Shares first.\n\n{GOOD.replace('money/text.py', '### `money/text.py`')}\nDone."
BROKEN = GOOD.replace("[share + 1]", "[shares + 1]")


def engineer(request: Request) -> Response:
    """At temperature 0 it errs until it is shown what the tests say; warmer, seeds decide."""
    messages = request.body["messages"]
    last = messages[-1]["content"]
    if "Linux sandbox" in messages[0]["content"]:
        return reply(worker(sum(message["role"] == "assistant" for message in messages)))
    if "between <files> and </files>" in last:
        return reply("<files>\nmoney/split.py\nmoney/text.py\n</files>")
    if "<issue>" not in messages[0]["content"]:
        return reply("OK")
    if "existing tests no longer pass" in last:
        return reply(GOOD)
    warmth, odd = request.body.get("temperature", 0), request.body["seed"] % 2
    return reply({0: BROKEN, 0.8: (GOOD, SAME)[odd], 0.5: (BROKEN, GOOD)[odd]}[warmth])


def worker(turn: int) -> str:
    patch = read_predictions(SHIPPED / "predictions" / "gold.jsonl")["mini__money-1"].patch
    script = (f"git apply - <<'EOF'\n{patch}EOF", "python -m unittest tests.test_money", "echo ELO_SUBMIT")
    return f"```bash\n{script[turn]}\n```"


@pytest.fixture
def money(pytester):
    suite = Suite(pytester)
    (suite.evals / "test_sums.py").unlink()
    shutil.copytree(SHIPPED, suite.evals / "swebench")
    suite.file(
        "evals/test_swebench.py",
        """
        import pytest

        @pytest.mark.elo("swebench", data="swebench/instances.jsonl")
        def test_swebench(trial):
            trial.grade()
        """,
    )
    return suite.set(tasks={"swebench": {"cache": "cache", "only": ["mini__money-1"]}})


@needs_walls
def test_every_strategy_is_run_graded_and_charged(money):
    money.strategies(
        baseline={"kind": "single", "temperature": 0},
        r3={"kind": "vote", "n": 3, "temperature": 0.8},
        verified={"kind": "best_of", "n": 3, "temperature": 0.5, "selector": "verifier"},
        tested={"kind": "reflect", "rounds": 2, "temperature": 0, "critic": "check"},
        acting={"kind": "agent"},
    )
    with LoopbackGateway(engineer) as gateway:
        run = money.live(gateway, "-n", "2")
        pings = sum(row["role"] == "ping" for row in run.rows)
        assert len(run.charged) == len(gateway.requests) - pings
        assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    assert run.exit_code == 0, run.output
    statuses = {outcome["strategy"]: outcome["status"] for outcome in run.outcomes}
    assert statuses.pop("baseline") == "wrong"
    assert statuses == dict.fromkeys(statuses, "correct"), run.text("failures.jsonl")
    calls = Counter((row["strategy"], row["role"], row["kept"]) for row in run.charged)
    assert calls == {
        ("baseline", "generate", True): 2,
        ("r3", "vote", True): 6,  # the same change, quoted in two ways: one candidate
        ("verified", "generate", True): 2,
        ("verified", "generate", False): 4,
        ("tested", "generate", True): 2,
        ("tested", "tool", True): 1,
        ("acting", "agent", True): 3,
    }
