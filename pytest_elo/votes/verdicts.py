"""Votes of model judges: one for each order of each judge, from a judged pair."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_elo.tasks.arena.judging import OrderVerdict, Pair, PairVerdict
from pytest_elo.tasks.arena.verdict import Slot
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.style import style_of

__all__ = ["votes_of"]

_WINNERS: dict[Slot, Winner] = {"A": "a", "B": "b", "C": "tie"}


def votes_of(verdict: PairVerdict, pair: Pair, judges: Sequence[str], *, ts: str = "") -> tuple[Vote, ...]:
    """Everything that was said about ``pair``, so that the votes alone give the comparison back.

    A pair that no judge saw (identical or failed answers) leaves one vote in the name of all judges.
    """
    if verdict.status == "identical":
        return (_unseen(pair, judges, "tie", "identical", ts),)
    if verdict.status == "excluded":
        return (_unseen(pair, judges, None, f"excluded {verdict.reason}", ts),)
    return tuple(_vote(order, pair, judges, ts, verdict.marks) for order in verdict.orders)


def _vote(order: OrderVerdict, pair: Pair, judges: Sequence[str], ts: str, marks: Sequence[str]) -> Vote:
    texts = {side.policy: side.text for side in (pair.a, pair.b)}
    return Vote(
        task_id=pair.task_id,
        item_id=pair.item_id,
        a=order.first,
        b=order.second,
        winner=None if order.slot is None else _WINNERS[order.slot],
        judge=order.judge,
        kind="model",
        reason=order.reason if order.slot is None else None,
        both_orders=True,
        panel=tuple(judges) if len(judges) > 1 else (),
        repeat=pair.repeat,
        ts=ts,
        style_a=style_of(texts[order.first]),
        style_b=style_of(texts[order.second]),
        marks=tuple(marks),
    )


def _unseen(pair: Pair, judges: Sequence[str], winner: Winner | None, reason: str, ts: str) -> Vote:
    return Vote(
        task_id=pair.task_id,
        item_id=pair.item_id,
        a=pair.a.policy,
        b=pair.b.policy,
        winner=winner,
        judge="+".join(judges),
        kind="model",
        reason=reason,
        placed=False,
        repeat=pair.repeat,
        ts=ts,
        style_a=style_of(pair.a.text),
        style_b=style_of(pair.b.text),
    )
