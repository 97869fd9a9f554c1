"""Names in gates against the names of a run: strategy, task or task/strategy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pytest_elo._text import did_you_mean

__all__ = ["Names", "NotRunError", "Scope", "UnknownNameError"]


@dataclass(frozen=True, slots=True)
class Scope:
    """``None``: every task, every strategy."""

    task: str | None = None
    strategy: str | None = None

    def __str__(self) -> str:
        return "/".join(name for name in (self.task, self.strategy) if name) or "the run"


class UnknownNameError(LookupError):
    """A name that stands for nothing; the message suggests one that does."""


class NotRunError(LookupError):
    """A name that is known but has no outcome here."""


@dataclass(frozen=True, slots=True)
class Names:
    """``declared`` strategies stand in elo.yaml; ``tasks`` and ``strategies`` have outcomes."""

    tasks: Collection[str]
    strategies: Collection[str]
    declared: Collection[str]

    def resolve(self, text: str) -> Scope:
        """Raises ``UnknownNameError`` or ``NotRunError``."""
        if not text:
            return Scope()
        if text in self.strategies:
            return Scope(strategy=text)
        if text in self.tasks:
            return Scope(task=text)
        task, slash, strategy = text.rpartition("/")
        if slash and task in self.tasks and strategy in self.strategies:
            return Scope(task, strategy)
        if text in self.declared:
            raise NotRunError(f"the strategy {text!r} did not run")
        if slash:
            self._explain(task, strategy)
        known = {*self.tasks, *self.strategies, *self.declared}
        raise UnknownNameError(f"no strategy or task {text!r} has outcomes{did_you_mean(text, known)}")

    def _explain(self, task: str, strategy: str) -> None:
        if task not in self.tasks:
            raise UnknownNameError(f"no task {task!r} has outcomes{did_you_mean(task, self.tasks)}")
        if strategy in self.declared:
            raise NotRunError(f"the strategy {strategy!r} did not run")
        raise UnknownNameError(f"no strategy {strategy!r} has outcomes{did_you_mean(strategy, self.declared)}")
