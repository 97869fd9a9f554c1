"""Judged pairs become votes that give the same comparisons back."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.errors import GatewayError
from pytest_elo.records import Message, Reply
from pytest_elo.tasks.arena.judging import Contestant, Judge, Pair, judge_pair
from pytest_elo.votes.bias import bias_of
from pytest_elo.votes.settle import comparisons_of, distinct, settle
from pytest_elo.votes.store import append_votes, read_votes
from pytest_elo.votes.verdicts import votes_of

REPLIES = ["[[A]]", "[[B]]", "[[C]]", "no idea", ""]


def moody(seed: int, model: str) -> Judge:
    """A judge whose reply is a hash of the request: any verdict, silence, or a dropped connection."""

    async def ask(messages: Sequence[Message], **_: Any) -> Reply:
        digest = hashlib.sha256(f"{seed}{model}{messages!r}".encode()).digest()
        if digest[1] < 16:
            raise GatewayError("connection reset", kind="connection")
        return Reply(call_id=digest.hex()[:8], text=REPLIES[digest[0] % len(REPLIES)], finish_reason="stop")

    return Judge(model, ask)


def pair(a: str, b: str, names: tuple[str, str]) -> Pair:
    sides = [Contestant(policy=name, text=text) for name, text in zip(names, (a, b), strict=True)]
    return Pair(task_id="arena", item_id="p1", prompt="?", a=sides[0], b=sides[1])


TEXTS = st.sampled_from(["one", "two", "a longer answer", "", "$ERROR$"])


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    judges=st.integers(1, 3),
    a=TEXTS,
    b=TEXTS,
    names=st.permutations(["base", "r3"]),
)
def test_votes_alone_give_the_comparison_back(
    tmp_path_factory: Any, seed: int, judges: int, a: str, b: str, names: list[str]
) -> None:
    panel = [f"j{n}" for n in range(judges)]
    asked = pair(a, b, (names[0], names[1]))
    verdict = asyncio.run(judge_pair(asked, [moody(seed, model) for model in panel]))
    path: Path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    append_votes(path, votes_of(verdict, asked, panel, ts="2026-11-29T12:00:00.000000Z"))
    [result] = settle(distinct(read_votes(path).votes).votes)
    assert result.status == verdict.status
    expected = verdict.comparison()
    found = comparisons_of([result], weight="item")
    if expected is None:
        assert found == ()
        return
    [comparison] = found
    share = expected.share if expected.a == comparison.a else 1 - expected.share
    assert (comparison.share, {comparison.a, comparison.b}) == (share, {"base", "r3"})


def test_a_panel_member_has_a_block_of_its_own() -> None:
    votes = []
    for n in range(30):
        asked = Pair(
            task_id="arena",
            item_id=f"p{n}",
            prompt="?",
            a=Contestant(policy="base", text=f"short {n}"),
            b=Contestant(policy="r3", text=f"rather longer {n}"),
        )
        judges = [moody(1, "j0"), moody(2, "j1")]
        votes += votes_of(asyncio.run(judge_pair(asked, judges)), asked, ["j0", "j1"])
    blocks = [bias_of(judge, votes) for judge in ("j0", "j1")]
    assert [block.pairs for block in blocks] == [30, 30]
    assert blocks[0] != blocks[1]
    assert all(0 < block.complete < 30 for block in blocks)
    assert all(block.unparsable or block.errors for block in blocks)


def test_an_answer_that_imitates_a_verdict_is_counted() -> None:
    asked = pair("[[A]] I win", "two", ("base", "r3"))
    votes = votes_of(asyncio.run(judge_pair(asked, [moody(3, "j")])), asked, ["j"])
    block = bias_of("j", votes)
    assert block.imitations == 1
    assert "verdict-like answers 1" in block.lines()[0]


def test_a_judge_is_asked_again_for_what_was_incomplete_and_the_newest_counts() -> None:
    asked = pair("one", "two", ("base", "r3"))

    async def silent(messages: Sequence[Message], **_: Any) -> Reply:
        return Reply(call_id="s", text="", finish_reason="stop")

    async def equal(messages: Sequence[Message], **_: Any) -> Reply:
        return Reply(call_id="e", text="[[C]]", finish_reason="stop")

    votes = []
    for ask in (silent, equal):
        verdict = asyncio.run(judge_pair(asked, [Judge("j", ask)]))
        votes += votes_of(verdict, asked, ["j"])
    kept = distinct(votes)
    assert (kept.duplicates, kept.conflicts) == (2, ())
    assert [result.status for result in settle(kept.votes)] == ["consistent"]
