"""The sufficient statistics of a ledger: everything a report takes from attempts, as sums that add up.

One row of whole numbers for each (task, item, strategy, repeat, role, model); a latency histogram for each
(task, strategy); the models that judged each task. Sums of two ledgers are the sum of their sums, in any
order, so a ledger of any size is read in one pass, in parts, by several processes or on several machines.
Memory grows with the keys, never with the rows.
"""

from __future__ import annotations

import operator
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat as again
from sys import intern
from typing import TYPE_CHECKING, Any, Literal

from pytest_elo.records import POLICY_ROLES, Attempt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[Any]

__all__ = ["COLUMNS", "KEY", "MEASURES", "Columns", "Latencies", "Sums", "columns_of"]

KEY = ("task_id", "item_id", "strategy", "repeat", "role", "model")
Key = tuple[str, str, str, int, str, str]

MEASURES = (
    "attempts",
    "calls",
    "failed_attempts",
    "unanswered",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "total_tokens",
    "total_tokens_high",
    "estimated_tokens",
    "discarded_tokens",
    "failed_tokens",
    "unused_tokens",
    "sampled",
)
"""``calls`` counts attempts numbered 0; ``discarded`` is what was not kept, of it ``failed`` the attempts that
ended in an error and ``unused`` the good replies that no strategy used. ``sampled`` counts attempts that did not
ask for temperature 0."""

COLUMNS = (
    *KEY, "prompt_tokens", "completion_tokens", "cached_tokens", "total_tokens", "total_tokens_high",
    "latency_s", "status", "kept", "estimated", "attempt", "ts", "sample", "response_model", "temperature",
)  # fmt: skip
"""Fields of an attempt that the sums need; ``temperature`` is one of its parameters."""

Columns = Sequence[Sequence[Any]]
_values_of = operator.attrgetter(*COLUMNS[:-1])


def columns_of(rows: Sequence[Attempt]) -> Columns:
    """Rows in memory as columns in the order of ``COLUMNS``."""
    if not rows:
        return ()
    return (*zip(*map(_values_of, rows), strict=True), [row.parameters.get("temperature") for row in rows])


class Latencies:
    """How many attempts took how long: to the millisecond below ``EXACT_MS``, to the second above."""

    EXACT_MS = 1 << 19
    __slots__ = ("counts", "long")

    def __init__(self) -> None:
        import numpy as np

        self.counts: Integers = np.zeros(0, dtype=np.uint32)
        self.long: Counter[int] = Counter()

    def add(self, milliseconds: Integers) -> None:
        import numpy as np

        exact = milliseconds[milliseconds < self.EXACT_MS]
        if len(exact):
            self._reach(int(exact.max()) + 1)
            np.add.at(self.counts, exact, np.uint32(1))
        if len(exact) < len(milliseconds):
            self.long.update((milliseconds[milliseconds >= self.EXACT_MS] // 1000).tolist())

    def merge(self, other: Latencies) -> None:
        self._reach(len(other.counts))
        self.counts[: len(other.counts)] += other.counts
        self.long.update(other.long)

    def _reach(self, length: int) -> None:
        import numpy as np

        if length > len(self.counts):
            grown = np.zeros(1 << (length - 1).bit_length(), dtype=np.uint32)
            grown[: len(self.counts)] = self.counts
            self.counts = grown

    def percentile(self, share: float) -> float:
        """The nearest-rank percentile in seconds."""
        import math

        import numpy as np

        below = np.cumsum(self.counts, dtype=np.int64)
        n_exact = int(below[-1]) if len(below) else 0
        rank = math.ceil(share * (n_exact + self.long.total()))
        if rank <= n_exact:
            return int(np.searchsorted(below, rank)) / 1000
        rank -= n_exact
        for second, count in sorted(self.long.items()):
            rank -= count
            if rank <= 0:
                return float(second)
        raise ValueError("no latency was added")


class _Slots(dict[Key, int]):
    """key -> number of its slot; a key that is new gets the next one."""

    def __init__(self) -> None:
        self.keys_in_order: list[Key] = []

    def __missing__(self, key: Key) -> int:
        task, item, strategy, repeat, role, model = key
        key = (intern(task), item, intern(strategy), repeat, intern(role), intern(model))
        self.keys_in_order.append(key)
        slot = len(self)
        self[key] = slot
        return slot

    def __reduce__(self) -> Any:
        return _slots_from, (self.keys_in_order,)


def _slots_from(keys: Sequence[Key]) -> _Slots:
    slots = _Slots()
    for key in keys:
        slots[key]
    return slots


@dataclass(slots=True)
class Sums:
    """The statistics so far. ``add`` takes rows of one file in its order; ``merge`` takes other sums."""

    slots: _Slots = field(default_factory=lambda: _Slots())
    latest: dict[int, tuple[int, str, int]] = field(default_factory=dict)
    """slot -> (sample, ts, total tokens) of its last successful attempt.

    Samples come first: which of several in flight together was sent last differs from run to run, in a replay too.
    """
    latencies: dict[tuple[str, str], Latencies] = field(default_factory=dict)
    judges: dict[str, set[str]] = field(default_factory=dict)
    _values: Any = None

    def add(self, columns: Columns) -> Integers:
        """Add attempts, as columns in the order of ``COLUMNS``. Returns the slot of each."""
        import numpy as np

        if not columns:
            return np.zeros(0, dtype=np.int64)
        keys = zip(*columns[: len(KEY)], strict=True)
        slot = np.fromiter(map(self.slots.__getitem__, keys), dtype=np.int64, count=len(columns[0]))
        order = None if (slot[1:] >= slot[:-1]).all() else np.argsort(slot, kind="stable")
        ordered = slot if order is None else slot[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        touched = ordered[starts]
        measures = _measures(columns)
        sums = np.add.reduceat(measures if order is None else measures[:, order], starts, axis=1)
        self._room()[:, touched] += sums
        touched_keys = list(map(self.keys.__getitem__, touched.tolist()))
        self._add_latencies(slot, touched, touched_keys, columns[11])
        self._add_latest(ordered, order, columns)
        if any(key[4] == "judge" for key in touched_keys):
            for task, role, *names in zip(columns[0], columns[4], columns[5], columns[18], strict=True):
                if role == "judge":
                    self.judges.setdefault(task, set()).update(filter(None, names))
        return slot

    def merge(self, other: Sums) -> None:
        import numpy as np

        places = [self.slots[key] for key in other.keys]
        self._room()[:, np.array(places, dtype=np.int64)] += other.values
        for there, latest in other.latest.items():
            here = places[there]
            if here not in self.latest or latest[:2] >= self.latest[here][:2]:
                self.latest[here] = latest
        for tier, latencies in other.latencies.items():
            self.latencies.setdefault(tier, Latencies()).merge(latencies)
        for task, models in other.judges.items():
            self.judges.setdefault(task, set()).update(models)

    @property
    def keys(self) -> Sequence[Key]:
        """The key of each slot."""
        return self.slots.keys_in_order

    @property
    def values(self) -> Integers:
        """(measures, slots) whole numbers, the measures in the order of ``MEASURES``."""
        values: Integers = self._room()[:, : len(self.slots)]
        return values

    def records(self) -> Iterator[tuple[Key, dict[str, int], int]]:
        """(key, measures, slot) in the order of the keys."""
        table = self.values.T
        for key in sorted(self.slots):
            place = self.slots[key]
            yield key, dict(zip(MEASURES, table[place].tolist(), strict=True)), place

    def _room(self) -> Any:
        import numpy as np

        width = 0 if self._values is None else self._values.shape[1]
        if len(self.slots) > width or self._values is None:
            grown = np.zeros((len(MEASURES), max(64, 2 * len(self.slots))), dtype=np.int64)
            if self._values is not None:
                grown[:, :width] = self._values
            self._values = grown
        return self._values

    def _add_latencies(self, slot: Integers, touched: Integers, keys: Sequence[Key], seconds: Sequence[float]) -> None:
        import numpy as np

        milliseconds = np.rint(_numbers(seconds, "d") * 1000).astype(np.int64)
        tiers: dict[tuple[str, str], int] = {}
        tier_of = np.full(int(touched[-1]) + 1, -1, dtype=np.int64)
        for i, (task, _, strategy, _, role, _) in zip(touched.tolist(), keys, strict=True):
            if role in POLICY_ROLES:
                tier_of[i] = tiers.setdefault((task, strategy), len(tiers))
        tier = tier_of[slot]
        for name, code in tiers.items():
            known = self.latencies.get(name)
            if known is None:
                known = self.latencies[name] = Latencies()
            known.add(milliseconds[tier == code])

    def _add_latest(self, slot: Integers, order: Integers | None, columns: Columns) -> None:
        import numpy as np

        found = columns[12], columns[16], columns[17], columns[9]
        if order is not None:
            picked = operator.itemgetter(*order.tolist())  # two slots or more, so always a tuple
            found = picked(found[0]), picked(found[1]), picked(found[2]), picked(found[3])
        status, ts, sample, tokens = found
        n = len(status)
        all_good = status.count("ok") == n
        good = np.arange(n) if all_good else np.flatnonzero(_flags(map(operator.eq, status, again("ok")), n))
        if _ascends(slot, ts, sample):
            good = good[np.r_[np.diff(slot[good]) != 0, True][: len(good)]]
        for place, i in zip(slot[good].tolist(), good.tolist(), strict=True):
            known = self.latest.get(place)
            if known is None or (sample[i], ts[i]) >= known[:2]:
                self.latest[place] = (sample[i], ts[i], tokens[i])


def _measures(columns: Columns) -> Integers:
    """(measures, rows) from the columns of rows.

    Where a column says the same of every row, which ``count`` finds in no time, its measures are left at zero.
    """
    import numpy as np

    n = len(columns[0])
    out = np.zeros((len(MEASURES), n), dtype=np.int64)
    prompt, completion, cached, total, high, _, status, kept, estimated, attempt = columns[6:16]
    out[0] = 1
    out[1] = 1 if attempt.count(0) == n else _numbers(attempt) == 0
    out[4], out[5], out[7], out[8] = map(_numbers, (prompt, completion, total, high))
    np.maximum(out[7], out[8], out=out[8])
    if cached.count(None) < n:
        out[6] = [count or 0 for count in cached]
    if estimated.count(None) < n:
        out[9] = out[7] * _flags(map(operator.is_not, estimated, again(None)), n)
    if kept.count(False):
        out[10] = out[12] = out[7] * _flags(map(operator.is_, kept, again(False)), n)
    if status.count("ok") < n:
        failed = _flags(map(operator.ne, status, again("ok")), n)
        out[2] = failed
        out[3] = _flags(map(operator.eq, status, again("open")), n)
        out[11] = out[7] * failed
        out[12] = out[10] * ~failed
    temperature = columns[19]
    out[13] = 1 if temperature.count(None) == n else _flags(map(operator.ne, temperature, again(0)), n)
    return out


def _numbers(values: Sequence[float], kind: Literal["q", "d"] = "q") -> Integers:
    """Whole numbers (``q``) or others (``d``) as an array; measured, half the time of ``numpy.fromiter``."""
    import numpy as np

    return np.frombuffer(struct.pack(f"{len(values)}{kind}", *values), dtype=f"={kind}")


def _flags(values: Iterator[bool], n: int) -> Integers:
    import numpy as np

    return np.fromiter(values, dtype=np.bool_, count=n)


def _ascends(slot: Integers, ts: Sequence[str], sample: Sequence[int]) -> bool:
    """Whether (sample, ts) never falls within a slot: then the last row of a slot is its latest."""
    import numpy as np

    rose = _flags(map(operator.gt, sample[1:], sample), len(ts) - 1)
    doubtful = np.flatnonzero(~rose & (slot[1:] == slot[:-1])).tolist()
    return all((sample[i + 1], ts[i + 1]) >= (sample[i], ts[i]) for i in doubtful)
