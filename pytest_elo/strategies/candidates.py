"""Samples as candidates: those that give the same answer are one candidate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pytest_elo.records import Draft, Problem
from pytest_elo.tasks.parsing import visible

__all__ = ["Candidate", "candidates_of"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A distinct answer: the first sample that gave it, and how many did."""

    draft: Draft
    votes: int

    @property
    def text(self) -> str:
        """What a judge is shown: the reply without its reasoning block."""
        return visible(self.draft.reply.text).strip()


def candidates_of(problem: Problem, drafts: Sequence[Draft]) -> list[Candidate]:
    """Distinct answers in the order seen. Samples without an answer stand only if no sample has one."""
    groups: dict[Hashable, list[Draft]] = {}
    for draft in drafts:
        groups.setdefault(problem.answer_key(draft.reply), []).append(draft)
    if len(groups) > 1:
        groups.pop(None, None)
    return [Candidate(group[0], len(group)) for group in groups.values()]
