"""The form of ``run.json``: what a report, a join or a resumed run relies on. Everything else may stand there too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_elo._forms import Form, each, known, listed, mapping, maybe, number, text, whole, with_all
from pytest_elo.errors import DataError

__all__ = ["check_header"]


def check_header(facts: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """``facts`` themselves. Raises ``DataError`` naming the file and the first key that holds something else."""
    try:
        json.dumps(facts, allow_nan=False)
    except ValueError:
        raise DataError(f"{path}: holds NaN or an infinite number; correct it or remove its key") from None
    for key, form in HEADER.items():
        if key in facts and not form(facts[key]):
            raise DataError(
                f"{path}: {key!r} is not what a run writes there; take the file as it was, or remove the key"
            )
    return facts


_TIERS = each(each(whole))
_SHARD = maybe(with_all(index=whole, of=whole))

HEADER: Mapping[str, Form] = {
    **dict.fromkeys(("answers", "anchor", "config", "host", "identity", "mode", "model"), maybe(text)),
    **dict.fromkeys(("run_id", "started"), text),
    **dict.fromkeys(("expected", "whole"), _TIERS),
    **dict.fromkeys(("notes", "resumed"), listed(text)),
    "gates": maybe(
        known(rules=listed(text), allow=listed(text), baselines=maybe(text), selection=maybe(text))
    ),
    "ladders": listed(listed(text)),
    "lost": each(text),
    "partial": listed(with_all(task=text, strategy=text, outcomes=whole, expected=whole)),
    "parts": listed(with_all(run_id=text, started=text, shard=_SHARD, expected=_TIERS)),
    "prices": maybe(mapping),
    "rating": known(
        **dict.fromkeys(("ties", "route", "interval", "missing_anchor"), text),
        anchor=maybe(text), level=number, rounds=whole, seed=whole, worth_elo_per_1k=number,
        online_k=maybe(number),
    ),
    "seed": maybe(whole),
    "shard": _SHARD,
    "strategies": mapping,
}  # fmt: skip
