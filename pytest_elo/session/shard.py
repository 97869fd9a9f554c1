"""``--elo-shard i/n``: the part of a suite that one of n machines runs.

An item belongs to the shard that a hash of its task and its name says: with all its strategies and repeats,
on every machine the same, and whatever other items there are. ``-k``, limits and ``--lf`` choose first; the
shards share out what they leave. Tests that are no items are shared out by their node id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from pytest_elo._text import text_hash
from pytest_elo.errors import ConfigError
from pytest_elo.session.contest import trials_of
from pytest_elo.session.trial import TrialKey

__all__ = ["Shard", "Share", "by_task", "shard_of"]


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``index``-th of ``of`` parts, counted from 1."""

    index: int
    of: int

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def holds(self, item: pytest.Item, key: TrialKey | None) -> bool:
        name = item.nodeid if key is None else f"{key.task_id}\0{key.item_id}"
        digest = text_hash(name).digest()
        return int.from_bytes(digest[:8]) % self.of == self.index - 1


class Share:
    """What one process takes of a suite that is shared out, and what there is in all."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.whole: dict[str, dict[str, int]] = {}
        """outcomes of all shards together, by task and strategy"""

    def take_others(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Take the items of other shards out of ``items`` and return them."""
        keyed = [(item, trials_of(item)) for item in items]
        self.whole = by_task(Counter((key.task_id, key.strategy) for _, keys in keyed for key in keys))
        mine = [self._shard.holds(item, keys[0] if keys else None) for item, keys in keyed]
        others = [item for item, is_mine in zip(items, mine, strict=True) if not is_mine]
        items[:] = [item for item, is_mine in zip(items, mine, strict=True) if is_mine]
        return others


def by_task(tiers: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Counts by (task, strategy) as ``{task: {strategy: n}}``, sorted."""
    counts: dict[str, dict[str, int]] = {}
    for (task, strategy), n in sorted(tiers.items()):
        counts.setdefault(task, {})[strategy] = n
    return counts


def shard_of(config: pytest.Config) -> Shard | None:
    """What ``--elo-shard`` asks for; ``None`` for the whole suite. Raises ``ConfigError``."""
    text = config.getoption("--elo-shard")
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    shard = Shard(int(match[1]), int(match[2])) if match else None
    if shard is None or not 1 <= shard.index <= shard.of:
        raise ConfigError(f"--elo-shard is {text!r}; write i/n with i from 1 to n, such as 1/4")
    return shard
