"""The source articles' two jq commands run on our ledger as they are, and our own tables agree with them."""

from __future__ import annotations

import jq
import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, reply

BY_STRATEGY = (
    "group_by(.strategy) | map({strategy: .[0].strategy, calls: length, prompt_tokens: (map(.prompt_tokens) | add), "
    "completion_tokens: (map(.completion_tokens) | add), p95_latency: (map(.latency_s) | sort | "
    ".[(length * 0.95 | floor)])}) | map(. + {total_tokens: (.prompt_tokens + .completion_tokens)}) | "
    "sort_by(-.total_tokens)"
)
BY_TASK = (
    "group_by([.task_id, .strategy]) | map({task: .[0].task_id, strategy: .[0].strategy, "
    "tokens: (map(.total_tokens) | add)})"
)


@pytest.fixture
def run(pytester):
    suite = Suite(pytester).items(5)
    with LoopbackGateway([reply("ANSWER: 4")]) as gateway:
        yield suite.live(gateway)


def test_the_articles_commands_agree_with_our_tables(run):
    rows = run.charged
    ours = {record["strategy"]: record for record in run.json("tokens_by_strategy.json")}
    theirs = jq.compile(BY_STRATEGY).input_value(rows).first()
    assert [record["strategy"] for record in theirs] == ["r5", "r3", "baseline"]
    for record in theirs:
        mine = ours[record["strategy"]]
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert mine[name] == record[name]
        assert mine["tasks"] == 5
    by_task = jq.compile(BY_TASK).input_value(rows).first()
    assert {(record["task"], record["strategy"], record["tokens"]) for record in by_task} == {
        (record["task"], record["strategy"], record["tokens"]) for record in run.json("tokens_by_task_strategy.json")
    }
