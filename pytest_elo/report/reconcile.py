"""The ledger against the bill: by model, day and strategy, as far as the bill tells them apart.

A bill inside the ledger's interval is no deviation: what the ledger could not know, it said. Outside, the deviation is
what separates the bill from the nearer end, as a share of the bill. Days are compared but do not decide, because
providers end their day where they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.errors import DataError
from pytest_elo.ledger.read import read_attempts
from pytest_elo.records import Attempt
from pytest_elo.report.typeset import typeset
from pytest_elo.report.usage_export import BilledUsage, read_billed

__all__ = ["DEFAULT_TOLERANCE", "Difference", "Reconciliation", "reconcile", "render"]

DEFAULT_TOLERANCE = 0.03
_CLEARLY_LESS = 0.25
"""Prompt or completion below this part of its usual share: then the gap is not whole calls."""
_NEAR = 0.25
"""How far a kind's tokens may be from a gap, as a share of it, to be called its cause."""

Sums = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One group's bill and the ledger's interval, in tokens."""

    by: str
    name: str
    billed: int
    low: int
    high: int

    @property
    def gap(self) -> int:
        """Billed beyond the ledger's high end (positive) or short of its low end (negative)."""
        return max(self.billed - self.high, 0) + min(self.billed - self.low, 0)

    @property
    def share(self) -> float:
        if self.gap == 0:
            return 0.0
        return abs(self.gap) / self.billed if self.billed else float("inf")


@dataclass(frozen=True, slots=True)
class Reconciliation:
    differences: Sequence[Difference]
    tolerance: float
    causes: Sequence[str]
    notes: Sequence[str]

    @property
    def is_met(self) -> bool:
        """Whether the total and every model and strategy are within the tolerance."""
        return not any(difference.share > self.tolerance for difference in self.differences if difference.by != "day")


def reconcile(run_dirs: Sequence[Path], billed: str, tolerance: float = DEFAULT_TOLERANCE) -> Reconciliation:
    """Compare the ledgers of runs with a bill. Raises ``DataError`` for what cannot be read or compared."""
    if not 0 <= tolerance < 1:
        raise DataError(f"--tolerance is {tolerance:g}; give a share such as 0.03 for 3 %")
    notes: list[str] = []
    rows = [row for path in run_dirs for row in read_attempts(path / "runs.jsonl", notes.append)]
    paid = [row for row in rows if row.source == "live"]
    if len(paid) < len(rows):
        notes.append(f"{len(rows) - len(paid)} attempts were replayed or answered by a local model: on nobody's bill")
    bill = read_billed(billed)
    differences = list(_differences(paid, bill))
    wrong = [one for one in differences if one.share > tolerance and one.by != "day"]
    causes = list(_causes(paid, bill, differences)) if wrong else []
    days = [one for one in differences if one.by == "day" and one.share > tolerance]
    if days and not wrong:
        notes.append("only days differ: the provider's day does not end at midnight UTC")
    return Reconciliation(differences, tolerance, causes, notes)


def render(result: Reconciliation) -> str:
    """The comparison as text, the verdict last."""
    rows = [
        [
            one.by,
            one.name,
            f"{one.billed:,}",
            f"{one.low:,}" if one.low == one.high else f"{one.low:,} to {one.high:,}",
            f"{one.gap:+,}",
            "-" if one.share == float("inf") else f"{one.share:.1%}",
        ]
        for one in result.differences
    ]
    headers = ["by", "", "billed", "ledger", "unexplained", "share"]
    align = ("left", "left", "right", "right", "right", "right")
    lines = [typeset(rows, headers, align)]
    lines += [f"note: {note}" for note in result.notes]
    lines += [f"likely missing: {cause}" for cause in result.causes]
    limit = f"{result.tolerance:.1%}"
    lines.append(
        f"the bill is the ledger, within {limit}" if result.is_met else f"bill and ledger differ by more than {limit}"
    )
    return "\n".join(lines) + "\n"


def _differences(rows: Sequence[Attempt], bill: Sequence[BilledUsage]) -> Iterator[Difference]:
    readers: Mapping[str, tuple[Callable[[Attempt], str], Callable[[BilledUsage], str]]] = {
        "total": (lambda row: "", lambda line: ""),
        "model": (lambda row: row.response_model or row.model, lambda line: line.model),
        "day": (lambda row: row.ts[:10], lambda line: line.day),
        "strategy": (lambda row: row.strategy, lambda line: line.strategy),
    }
    for by, (of_row, of_line) in readers.items():
        if by != "total" and not any(of_line(line) for line in bill):
            continue
        told: dict[str, int] = {}
        for line in bill:
            told[of_line(line)] = told.get(of_line(line), 0) + line.total
        kept = _sums(rows, of_row)
        if by == "model":
            kept = _renamed(kept, told)
        for name in sorted({*told, *(key for key, (_, high) in kept.items() if high)}):
            low, high = kept.get(name, (0, 0))
            yield Difference(by, name, told.get(name, 0), low, high)


def _sums(rows: Iterable[Attempt], name: Callable[[Attempt], str]) -> Sums:
    sums: Sums = {}
    for row in rows:
        low, high = sums.get(name(row), (0, 0))
        sums[name(row)] = (low + row.total_tokens, high + max(row.total_tokens, row.total_tokens_high))
    return sums


def _renamed(kept: Sums, told: Mapping[str, int]) -> Sums:
    """The ledger's models under the bill's names, where the two differ by a release's date or a vendor's prefix."""
    from pytest_elo.gateway.exchange import same_model

    renamed: Sums = {}
    for name, (low, high) in kept.items():
        known = (
            name if name in told else next((other for other in told if other and _same(same_model, name, other)), name)
        )
        before = renamed.get(known, (0, 0))
        renamed[known] = (before[0] + low, before[1] + high)
    return renamed


def _same(same_model: Callable[[str, str, frozenset[str]], bool], a: str, b: str) -> bool:
    return same_model(a, b, frozenset()) or same_model(b, a, frozenset())


def _kinds(rows: Sequence[Attempt]) -> dict[str, int]:
    """Tokens on the ledger by what is easily left out of a count; the kinds overlap."""
    chosen: Mapping[str, Callable[[Attempt], bool]] = {
        "retries": lambda row: row.attempt > 0 or row.status != "ok",
        "tool results": lambda row: row.role == "tool",
        "discarded branches": lambda row: row.kept is False and row.status == "ok",
        "judge": lambda row: row.role == "judge",
        "overhead": lambda row: row.role == "overhead",
        "preflight": lambda row: row.role == "ping",
    }
    return {kind: sum(row.total_tokens for row in rows if is_kind(row)) for kind, is_kind in chosen.items()}


def _causes(rows: Sequence[Attempt], bill: Sequence[BilledUsage], differences: Sequence[Difference]) -> Iterator[str]:
    total = differences[0]
    unknown = [one for one in differences if one.by == "model" and one.name and one.billed and not one.high]
    for one in unknown:
        yield (
            f"overhead or judge: {one.billed:,} tokens of {one.name}, which no attempt asked for; "
            "a program's background calls or a judge went past the proxy"
        )
    gap = total.gap - sum(one.billed for one in unknown)
    if gap > 0:
        yield from _unrecorded(rows, bill, gap, total.high)
    elif total.gap < 0:
        yield from _unbilled(rows, -total.gap)
    elif not unknown:
        yield "nothing in sum: calls stand under another model or strategy than they were billed for"


def _unrecorded(rows: Sequence[Attempt], bill: Sequence[BilledUsage], gap: int, recorded: int) -> Iterator[str]:
    requests = [line.requests for line in bill if line.requests is not None]
    paid = sum(row.total_tokens_high > 0 for row in rows)  # providers do not count what they turned away
    extra = sum(requests) - paid if len(requests) == len(bill) else 0
    if extra > 0:
        yield f"retries: {extra} more requests were billed than the ledger has paid attempts; a client retries past it"
        return
    side = _one_sided(rows, bill, gap)
    if side is not None:
        yield side
        return
    absent = [kind for kind, tokens in _kinds(rows).items() if not tokens and kind != "preflight"]
    what = " or ".join(absent) or "calls of another program"
    yield f"{what}: the ledger has none of it, and the bill {gap:,} tokens more"


def _one_sided(rows: Sequence[Attempt], bill: Sequence[BilledUsage], gap: int) -> str | None:
    """The cause where the gap is prompt or completion alone; whole calls have both, in the ledger's proportion."""
    prompts = [line.prompt for line in bill if line.prompt is not None]
    total = sum(row.total_tokens for row in rows)
    if len(prompts) < len(bill) or not total:
        return None
    beyond = sum(prompts) - sum(row.prompt_tokens for row in rows)
    usual = sum(row.prompt_tokens for row in rows) / total
    if (gap - beyond) / gap < (1 - usual) * _CLEARLY_LESS:
        return f"tool results: {beyond:,} of the tokens are prompt; what tools returned was not counted"
    if beyond / gap < usual * _CLEARLY_LESS:
        return f"discarded branches: {gap - beyond:,} of the tokens are completions; samples or thoughts nobody counted"
    return None


def _unbilled(rows: Sequence[Attempt], gap: int) -> Iterator[str]:
    cached = sum(row.cached_tokens or 0 for row in rows)
    kinds = {**_kinds(rows), "cached prompt tokens": cached}
    near = sorted((abs(tokens - gap), kind) for kind, tokens in kinds.items() if tokens)
    if near and near[0][0] <= _NEAR * gap:
        kind = near[0][1]
        yield f"{kind}: {kinds[kind]:,} tokens on the ledger, and the bill is {gap:,} short of it"
    else:
        yield f"lines of the bill: the ledger holds {gap:,} tokens more than was billed; is the export complete?"
