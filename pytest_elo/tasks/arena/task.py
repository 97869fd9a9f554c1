"""The arena as a task: its items are prompts, and its results come from pairs, not from grades."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pytest_elo._text import did_you_mean, text_hash
from pytest_elo.errors import ConfigError
from pytest_elo.records import Grade, Message, Outcome, Reply
from pytest_elo.tasks.arena.judging import ANSWERED, Contestant, Pair
from pytest_elo.tasks.arena.plans import Pairing, all_pairs, anchor_pairs
from pytest_elo.tasks.arena.prompts import ArenaPrompt, read_prompts
from pytest_elo.tasks.arena.template import DEFAULT_TEMPLATE, JudgeTemplate
from pytest_elo.tasks.parsing import unanswered, visible

__all__ = ["ANSWERED", "ArenaProblem", "ArenaTask", "PlanKind", "load"]

JUDGING_VERSION: Final = 1
"""Part of the fingerprint: raise it with any change of what a verdict is taken to say."""

PEOPLE: Final = "people"
"""In place of a judge's name: no model is asked, people vote."""

PlanKind = Literal["all", "anchor", "adaptive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaProblem:
    """A prompt as posed to every contestant (a ``Problem``)."""

    task_id: str
    item_id: str
    repeat: int
    messages: tuple[Message, ...]
    max_tokens: int

    def answer_key(self, reply: Reply) -> Hashable | None:
        """The visible text itself: only identical answers vote together."""
        return visible(reply.text).strip() or None

    def grade(self, reply: Reply) -> Grade:
        """``answered`` with a score of 0 that means nothing, or why there is no answer to judge."""
        text = visible(reply.text).strip()
        if reply.refusal or not text:
            return Grade(status=unanswered(reply), score=0.0)
        cut = "cut by the token cap" if reply.finish_reason == "length" else None
        return Grade(status=ANSWERED, score=0.0, answer=text_hash(text).hexdigest(), detail=cut)


@dataclass(frozen=True, kw_only=True)
class ArenaTask:
    """Prompts and how their answers are judged (a ``Task``)."""

    task_id: str
    prompts: Sequence[ArenaPrompt]
    warnings: Sequence[str]
    max_tokens: int
    path: Path
    judges: Sequence[str]
    """Models of the panel; empty: the run's own model, which then judges itself and says so."""
    by_people: bool
    """No model judges: the answers wait for ``pytest-elo vote``."""
    template: JudgeTemplate
    plan: PlanKind
    budget: int | None
    judge_max_tokens: int

    @property
    def judged_in_pairs(self) -> bool:
        """Makes one test of all strategies' answers to an item (see ``Task``)."""
        return True

    @cached_property
    def item_ids(self) -> Sequence[str]:
        return tuple(prompt.item_id for prompt in self.prompts)

    @property
    def distinct_ids(self) -> Sequence[str]:
        """Strategies tell no prompt from another, so the first stands for all."""
        return self.item_ids[:1]

    @cached_property
    def fingerprint(self) -> str:
        rules = {
            "version": JUDGING_VERSION,
            "prompts": [asdict(prompt) for prompt in self.prompts],
            "max_tokens": self.max_tokens,
            "judges": [PEOPLE] if self.by_people else list(self.judges),
            "template": self.template.fingerprint,
            "judge_max_tokens": self.judge_max_tokens,
        }
        return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _by_id(self) -> Mapping[str, ArenaPrompt]:
        return {prompt.item_id: prompt for prompt in self.prompts}

    def pose(self, item_id: str, repeat: int) -> ArenaProblem:
        prompt = self._by_id[item_id]
        messages: list[dict[str, Any]] = []
        if prompt.system:
            messages.append({"role": "system", "content": prompt.system})
        messages.append({"role": "user", "content": prompt.prompt})
        return ArenaProblem(
            task_id=self.task_id,
            item_id=item_id,
            repeat=repeat,
            messages=tuple(messages),
            max_tokens=prompt.max_tokens or self.max_tokens,
        )

    def shown(self, item_id: str) -> str:
        """The prompt as judges and voters see it."""
        prompt = self._by_id[item_id]
        return prompt.prompt if not prompt.system else f"{prompt.system}\n\n{prompt.prompt}"

    def contestant(self, outcome: Outcome, text: str) -> Contestant:
        """The answer behind an outcome as a judge sees it: without reasoning blocks."""
        return Contestant.of(outcome, visible(text).strip())

    def pairings(self, item_id: str, policies: Sequence[str], anchor: str) -> Sequence[Pairing]:
        """The pairs of one item under plan ``all`` or ``anchor``; ``adaptive`` needs the whole run."""
        if self.plan == "anchor":
            return anchor_pairs(item_id, policies, anchor)
        return all_pairs(item_id, policies)

    def pair(self, pairing: Pairing, contestants: Mapping[str, Contestant], repeat: int = 0) -> Pair:
        """What the judge gets: both answers, and the reference and rubric of the prompt."""
        prompt = self._by_id[pairing.item_id]
        return Pair(
            task_id=self.task_id,
            item_id=pairing.item_id,
            prompt=self.shown(pairing.item_id),
            a=contestants[pairing.a],
            b=contestants[pairing.b],
            repeat=repeat,
            reference=prompt.reference,
            rubric=prompt.rubric,
        )


def load(
    path: str | Path,
    *,
    task_id: str = "arena",
    max_tokens: int = 1024,
    judge: str | Sequence[str] = (),
    template: str | None = None,
    plan: str = "all",
    budget: int | None = None,
    judge_max_tokens: int = 1024,
) -> ArenaTask:
    """Load prompts and the way of judging.

    ``judge`` is a model, a panel of models, or ``people`` for none; ``template`` a file beside the
    prompts; ``plan`` one of ``all``, ``anchor``, ``adaptive`` (which needs a ``budget`` in pairs). Raises
    :class:`ConfigError` for settings and :class:`DataError` for the file.
    """
    path = Path(path)
    if plan not in get_args(PlanKind):
        raise ConfigError(f"tasks.{task_id}.plan: {plan!r} is unknown{did_you_mean(plan, get_args(PlanKind))}")
    if (plan == "adaptive") != (budget is not None):
        raise ConfigError(f"tasks.{task_id}: 'plan: adaptive' and 'budget: <pairs>' belong together")
    for name, number in (("budget", budget), ("judge_max_tokens", judge_max_tokens), ("max_tokens", max_tokens)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise ConfigError(f"tasks.{task_id}.{name}: {number!r}; use a whole number of at least 1")
    judges = (judge,) if isinstance(judge, str) else tuple(judge)
    if len(set(judges)) != len(judges) or not all(isinstance(name, str) and name for name in judges):
        raise ConfigError(f"tasks.{task_id}.judge: give a model or a list of different models")
    if PEOPLE in judges and (len(judges) > 1 or plan == "adaptive"):
        raise ConfigError(
            f"tasks.{task_id}.judge: {PEOPLE} stand alone, under plan all or anchor; they vote afterwards"
        )
    file = read_prompts(path)
    return ArenaTask(
        task_id=task_id,
        prompts=file.prompts,
        warnings=file.warnings,
        max_tokens=max_tokens,
        path=path,
        judges=() if judges == (PEOPLE,) else judges,
        by_people=judges == (PEOPLE,),
        template=JudgeTemplate.read(path.parent / template) if template else DEFAULT_TEMPLATE,
        plan=plan,  # type: ignore[arg-type]  # checked above
        budget=budget,
        judge_max_tokens=judge_max_tokens,
    )
