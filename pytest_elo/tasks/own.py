"""A user's own tasks: one YAML file of prompts, each with one check of the answer.

The file is a list of items, or a mapping with ``items`` and what all of them share::

    system: Think briefly, then finish with a last line "ANSWER: ...".
    max_tokens: 200
    examples:
      - prompt: A box holds 4 rows of 6 eggs. How many eggs are in it?
        reply: |
          4 * 6 = 24.
          ANSWER: 24
    items:
      - id: apples
        prompt: Ann has 3 bags of 12 apples and eats 5. How many are left?
        numeric: 31
      - id: reverse
        prompt: Write the word "stressed" backwards.
        exact: desserts

Large files are JSON lines instead (``tasks.jsonl``): one item a line, with what all share in a first line.

Prompts are sent as written, after the examples as earlier turns of the chat. ``answers`` tells how an
answer is found in a reply, ``checks`` how it is judged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_elo._text import did_you_mean, shorten
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Ask, CheckResult, Grade, Message, Reply
from pytest_elo.tasks.answers import ANSWERS_VERSION, Found, find_answer
from pytest_elo.tasks.checks import Check
from pytest_elo.tasks.function_check import CheckError, Function
from pytest_elo.tasks.own_item import OwnItem, Shared, build_item, examples_of
from pytest_elo.tasks.parsing import PARSING_VERSION, unanswered
from pytest_elo.tasks.rubric import Rubric
from pytest_elo.tasks.schema_check import Schema
from pytest_elo.tasks.yaml_file import Entry, compose, read

__all__ = ["OwnProblem", "OwnTask", "from_items", "load"]

FILE_KEYS: Final = ("system", "max_tokens", "examples", "items")
LINES_SUFFIXES: Final = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProblem:
    """One item as posed in one repeat (a ``Problem``)."""

    task_id: str
    item_id: str
    repeat: int
    messages: tuple[Message, ...]
    max_tokens: int
    grading: Check
    verify: Function | None = None
    judge: str | None = None
    """The model that judges rubrics; ``None``: the run's own."""

    @property
    def free_text(self) -> bool:
        return isinstance(self.grading, Rubric)

    @property
    def check(self) -> Callable[[Reply], CheckResult] | None:
        """The item's public check, where it has one (``verify``)."""
        return None if self.verify is None else self._verified

    @property
    def grade_with(self) -> Callable[[Ask, Reply], Awaitable[Grade]] | None:
        return self._judged if isinstance(self.grading, Rubric) else None

    @property
    def grading_rules(self) -> list[Any]:
        """What decides the score besides the reply, as JSON."""
        return _rules(self, self.judge)

    def answer_key(self, reply: Reply) -> Hashable | None:
        """A number for ``numeric`` checks, JSON for ``schema``, else the normalised text."""
        found = self._found(reply)
        return None if found is None else self.grading.key(found)

    def grade(self, reply: Reply) -> Grade:
        """The check's verdict. A check that fails by itself gives ``infra_error``, never an exception."""
        found = self._found(reply)
        key = None if found is None else self.grading.key(found)
        if found is None or key is None:
            return Grade(status=unanswered(reply), score=0.0, expected=self.grading.expected)
        answer = shorten(found.text)
        try:
            score = self.grading.score(found)
        except CheckError as error:
            return _not_graded(answer, error)
        detail = self.grading.complaint(found) if isinstance(self.grading, Schema) and score < 1 else None
        return Grade(
            status=_status(score, found, reply),
            score=score,
            answer=answer,
            expected=self.grading.expected,
            detail=detail,
        )

    async def _judged(self, ask: Ask, reply: Reply) -> Grade:
        assert isinstance(self.grading, Rubric)
        found = self._found(reply)
        if found is None:
            return Grade(status=unanswered(reply), score=0.0)
        answer = shorten(found.text)
        question = str(self.messages[-1]["content"])
        try:
            verdict = await self.grading.judged(ask, question, found, self.judge)
        except CheckError as error:
            return _not_graded(answer, error)
        status = _status(verdict.score, found, reply)
        return Grade(status=status, score=verdict.score, answer=answer, detail=verdict.detail)

    def _verified(self, reply: Reply) -> CheckResult:
        assert self.verify is not None
        found = find_answer(reply.text, whole=True)
        score = 0.0 if found is None else self.verify.score(found)
        return CheckResult(score >= 1, "" if score >= 1 else f"The check {self.verify.name} does not pass.", score)

    def _found(self, reply: Reply) -> Found | None:
        found = find_answer(reply.text, whole=self.grading.whole)
        cut_short = reply.finish_reason == "length" and not self.grading.whole
        return None if found is not None and not found.stated and cut_short else found


def _not_graded(answer: str, error: CheckError) -> Grade:
    return Grade(status="infra_error", score=0.0, answer=answer, detail=shorten(str(error), 300))


def _status(score: float, found: Found, reply: Reply) -> str:
    if score >= 1:
        return "correct"
    if score > 0:
        return "partial"
    # A reply read whole always holds some text: cut or refused, it is no wrong answer.
    why = "no_answer" if found.stated else unanswered(reply)
    return "wrong" if why == "no_answer" else why


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTask:
    """The items of one file (a ``Task``)."""

    task_id: str
    fingerprint: str
    item_ids: Sequence[str] = field(repr=False)
    distinct_ids: Sequence[str] = field(repr=False)
    """The first item of each sort that strategies tell apart."""
    warnings: Sequence[str] = ()
    judge: str | None = None
    _path: Path = field(repr=False)
    _items: Mapping[str, OwnItem] = field(repr=False)

    def pose(self, item_id: str, repeat: int) -> OwnProblem:
        """The item in one repeat (all repeats pose the same). Raises ``DataError`` for an unknown id."""
        item = self._items.get(item_id)
        if item is None:
            raise DataError(f"{self._path}: no item {item_id!r}{did_you_mean(item_id, self.item_ids)}")
        return OwnProblem(
            task_id=self.task_id,
            item_id=item_id,
            repeat=repeat,
            messages=item.messages,
            max_tokens=item.max_tokens,
            grading=item.grading,
            verify=item.verify,
            judge=self.judge,
        )


def load(path: str | Path, *, task_id: str = "own", max_tokens: int = 1024, judge: str | None = None) -> OwnTask:
    """The own tasks of a YAML file, or of JSON lines (``.jsonl``), which are read from the file when they are posed.

    ``max_tokens`` caps one completion where neither the file nor the item says it; ``judge`` names the model
    that grades rubrics, by default the run's own.

    Raises ``ConfigError`` for a cap below 1 and ``DataError`` (one line with file, line, item and key) for
    a file that is missing, empty or not readable, an item without id, prompt or exactly one check, an unknown
    key, an id given twice, or a check that cannot be built.
    """
    if max_tokens < 1:
        raise ConfigError(f"task {task_id!r}: max_tokens is {max_tokens}; use at least 1")
    path = Path(path)
    if path.suffix in LINES_SUFFIXES:
        return _task_of_lines(path, task_id, max_tokens, judge)
    return _task(read(path), task_id, max_tokens, judge)


def from_items(
    items: Sequence[Mapping[str, Any]],
    *,
    task_id: str = "own",
    system: str = "",
    max_tokens: int = 1024,
    judge: str | None = None,
) -> OwnTask:
    """The same from Python: ``items`` are mappings as in the YAML file; ``function`` may be the function itself.

    The task goes into the mark: ``@pytest.mark.elo(from_items([...], task_id="emails"))``. Raises as ``load``.
    """
    document: dict[str, Any] = {"items": [_written(item) for item in items]}
    if system:
        document["system"] = system
    return _task(compose(document, Path(f"items of task {task_id!r}")), task_id, max_tokens, judge)


def _written(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: f"{value.__module__}:{value.__name__}" if callable(value) else value for key, value in item.items()}


def _task(root: Entry, task_id: str, max_tokens: int, judge: str | None) -> OwnTask:
    fields = root.known_fields(FILE_KEYS) if root.is_mapping else {}
    listed = fields.get("items", root)
    if not listed.is_list or not listed.entries():
        raise listed.error("must be a list of items, or a mapping with 'items'; write at least one item")
    examples = examples_of(fields["examples"]) if "examples" in fields else ()
    shared = Shared(max_tokens=max_tokens, examples=examples).overridden_by(fields)
    items = _items(listed.entries(), shared)
    return OwnTask(
        task_id=task_id,
        fingerprint=_fingerprint(items, judge),
        item_ids=tuple(items),
        distinct_ids=tuple(_first_of_sort(items.values()).values()),
        warnings=tuple(_warnings(_self_judged(items.values()), task_id, judge)),
        judge=judge,
        _path=root.path,
        _items=items,
    )


def _task_of_lines(path: Path, task_id: str, max_tokens: int, judge: str | None) -> OwnTask:
    from pytest_elo.tasks.own_lines import read_lines

    survey = read_lines(path, Shared(max_tokens=max_tokens))
    survey.digest.update(json.dumps([ANSWERS_VERSION, PARSING_VERSION, judge]).encode())
    return OwnTask(
        task_id=task_id,
        fingerprint=survey.digest.hexdigest(),
        item_ids=tuple(survey.items),
        distinct_ids=tuple(survey.first_of_sort.values()),
        warnings=tuple(_warnings(survey.self_judged, task_id, judge)),
        judge=judge,
        _path=path,
        _items=survey.items,
    )


def _items(entries: Sequence[Entry], shared: Shared) -> dict[str, OwnItem]:
    items: dict[str, OwnItem] = {}
    line_of: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        item = build_item(entry, number, shared)
        if item.item_id in items:
            first = line_of[item.item_id]
            clash = f"id {item.item_id!r} stands on line {first} already; give every item its own"
            raise entry.owned_by(f"item {number}").error(clash)
        items[item.item_id] = item
        line_of[item.item_id] = entry.line
    return items


def _first_of_sort(items: Iterable[OwnItem]) -> dict[tuple[str, bool], str]:
    first: dict[tuple[str, bool], str] = {}
    for item in items:
        first.setdefault(item.sort, item.item_id)
    return first


def _self_judged(items: Iterable[OwnItem]) -> int:
    return sum(isinstance(item.grading, Rubric) and not item.grading.judge for item in items)


def _warnings(self_judged: int, task_id: str, judge: str | None) -> Iterator[str]:
    if self_judged and not judge:
        yield (
            f"{self_judged} items have a rubric and no judge of their own, so the model that is rated judges itself; "
            f"name another with tasks: {{{task_id}: {{judge: <model>}}}}"
        )


def _fingerprint(items: Mapping[str, OwnItem], judge: str | None) -> str:
    rules = [
        [item.item_id, item.messages, item.max_tokens, *_rules(item, judge), *_extra(item)] for item in items.values()
    ]
    return hashlib.sha256(json.dumps(rules).encode()).hexdigest()


def _extra(item: OwnItem) -> list[Any]:
    return [] if item.verify is None else [item.verify.rule]


def _rules(item: OwnItem | OwnProblem, judge: str | None) -> list[Any]:
    """What decides an item's score besides the reply, as JSON."""
    judged = [judge] if isinstance(item.grading, Rubric) else []
    return [ANSWERS_VERSION, PARSING_VERSION, type(item.grading).__name__, item.grading.rule, *judged]
