"""What judging a gate gives: its answer and everything that is printed about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pytest_elo._forms import flag, known, listed, mapping, text, with_all

__all__ = ["Answer", "GateResult", "exit_code"]

Answer = Literal["pass", "fail", "inconclusive", "skipped", "refused"]

_NEEDED = with_all(gate=text, answer=lambda value: value in get_args(Answer), found=text)
_MORE = known(
    strict=flag, selection=text, numbers=mapping, **dict.fromkeys(("remarks", "worse", "better"), listed(text))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate's answer.

    ``skipped``: what it names did not run in this selection. ``refused``: it may not decide (a strategy that
    sees the answer key, a judge of its own work, runs of different conditions).
    """

    gate: str
    answer: Answer
    found: str
    """what was measured, or why nothing was"""
    strict: bool = False
    """an inconclusive answer breaks the build"""
    remarks: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    """items whose score fell, as ``task/item (1 -> 0)``"""
    better: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    selection: str = ""
    """how the run was narrowed (``-k r3``); then the answer holds for what ran"""

    @property
    def breaks(self) -> bool:
        return self.answer in ("fail", "refused") or (self.strict and self.answer == "inconclusive")

    def to_dict(self) -> dict[str, Any]:
        return {
            "gate": self.gate,
            "answer": self.answer,
            "found": self.found,
            "strict": self.strict,
            "remarks": list(self.remarks),
            "worse": list(self.worse),
            "better": list(self.better),
            "numbers": dict(self.numbers),
            "selection": self.selection,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GateResult:
        """Raises ``TypeError`` for what :meth:`to_dict` never gives."""
        if not (_NEEDED(values) and _MORE(values)):
            raise TypeError("no answer of a gate")
        names = ("gate", "answer", "found", "strict", "numbers", "selection")
        known = {name: values[name] for name in names if name in values}
        known |= {name: tuple(values.get(name, ())) for name in ("remarks", "worse", "better")}
        return cls(**known)


def exit_code(results: Sequence[GateResult]) -> int:
    """0: nothing stands against the run; 1: a gate failed; 4: a gate may not decide what it is asked to."""
    if any(result.answer == "refused" for result in results):
        return 4
    return int(any(result.breaks for result in results))
