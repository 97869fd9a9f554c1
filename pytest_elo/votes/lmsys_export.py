"""Export to the format of the Chatbot Arena releases (one JSON object a line)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pytest_elo.votes.records import Vote, Winner

__all__ = ["to_lmsys"]

_LABELS: dict[Winner, str] = {"a": "model_a", "b": "model_b", "tie": "tie", "both_bad": "tie (bothbad)"}


def to_lmsys(votes: Iterable[Vote]) -> str:
    """All votes with a winner, as JSON lines; a graded vote becomes the winner it leans to.

    Votes without a winner have no word in that format; the importer counts them, nobody exports them.
    """
    return "".join(json.dumps(_record(vote)) + "\n" for vote in votes if vote.winner is not None)


def _record(vote: Vote) -> dict[str, Any]:
    record: dict[str, Any] = {
        "question_id": vote.item_id,
        "model_a": vote.a,
        "model_b": vote.b,
        "winner": _label(vote),
        "judge": vote.judge if vote.kind == "person" else [vote.judge],
        "turn": vote.turn,
    }
    if vote.ts:
        record["tstamp"] = datetime.fromisoformat(vote.ts).timestamp()
    metadata = {
        name.format(side): style[feature]
        for side, style in (("a", vote.style_a), ("b", vote.style_b))
        for feature, name in (
            ("tokens", "sum_assistant_{}_tokens"),
            ("headers", "header_count_{}"),
            ("lists", "list_count_{}"),
            ("bold", "bold_count_{}"),
        )
        if feature in style
    }
    return {**record, "conv_metadata": metadata} if metadata else record


def _label(vote: Vote) -> str:
    if vote.winner == "graded":
        share = vote.graded_share or 0.0
        return _LABELS["tie" if share == 0.5 else "a" if share > 0.5 else "b"]
    assert vote.winner is not None
    return _LABELS[vote.winner]
