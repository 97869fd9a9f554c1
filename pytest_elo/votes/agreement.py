"""How far two judges, or a judge and people, agree, and how much of it is more than chance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_elo.votes.bias import Share
from pytest_elo.votes.settle import Result

__all__ = ["Agreement", "Meeting", "agreement_of", "cohen_kappa", "plurality"]

Meeting = tuple[str, str, str, str]
"""(task, item, a, b): where results of different judges are about the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Over the pairs that both sides gave a result on."""

    one: str
    other: str
    with_ties: Share
    """Same of win, loss, tie."""
    without_ties: Share
    """Same winner, where both name one."""
    kappa: float | None
    """Cohen's kappa over win, loss, tie; ``None`` where one side never varies or nothing is shared."""

    def __str__(self) -> str:
        kappa = "-" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"{self.one} and {self.other} agree on {self.with_ties} of {self.with_ties.n} pairs "
            f"({self.without_ties} of {self.without_ties.n} without ties), Cohen's kappa {kappa}"
        )


def agreement_of(one: Iterable[Result], other: Iterable[Result], *, names: tuple[str, str]) -> Agreement:
    """Agreement of two sides; several results of one side on one pair count by the
    label that most of them give."""
    first, second = plurality(one), plurality(other)
    both = sorted(first.keys() & second.keys())
    labels = [(first[meeting], second[meeting]) for meeting in both]
    decided = [(x, y) for x, y in labels if x and y]
    return Agreement(
        one=names[0],
        other=names[1],
        with_ties=Share(sum(x == y for x, y in labels), len(labels)),
        without_ties=Share(sum(x == y for x, y in decided), len(decided)),
        kappa=cohen_kappa(labels),
    )


def cohen_kappa(labels: list[tuple[int, int]]) -> float | None:
    """(p_o - p_e) / (1 - p_e), with p_e from both sides' own frequencies (Cohen 1960)."""
    n = len(labels)
    if not n:
        return None
    observed = sum(x == y for x, y in labels) / n
    one, other = Counter(x for x, _ in labels), Counter(y for _, y in labels)
    expected = sum(one[label] * other[label] for label in one) / n**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def plurality(results: Iterable[Result]) -> dict[Meeting, int]:
    """By pair and item: 1 where most results are for a, -1 for b, 0 for a tie or a draw between labels."""
    labels: dict[Meeting, Counter[int]] = defaultdict(Counter)
    for result in results:
        if result.share is not None:
            label = (result.share > 0.5) - (result.share < 0.5)
            labels[result.task_id, result.item_id, result.a, result.b][label] += 1
    return {meeting: _most_common(counts) for meeting, counts in labels.items()}


def _most_common(counts: Counter[int]) -> int:
    ranking = counts.most_common(2)
    drawn = len(ranking) > 1 and ranking[0][1] == ranking[1][1]
    return 0 if drawn else ranking[0][0]
