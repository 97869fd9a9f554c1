"""The records that travel between rooms and onto disk: attempts, outcomes and comparisons.

Every record is a frozen dataclass with a JSON form (one object a line). Field names that the ledger
shares with the source articles (``ts, task_id, strategy, model, prompt_tokens, completion_tokens,
total_tokens, latency_s, finish_reason``) come first and never change.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, Protocol, Self, get_args

__all__ = [
    "MODEL_STATUSES",
    "POLICY_ROLES",
    "SCHEMA_VERSION",
    "UNSCORED",
    "Answer",
    "Ask",
    "Attempt",
    "CheckResult",
    "Comparison",
    "Draft",
    "Grade",
    "Message",
    "Outcome",
    "Problem",
    "Reply",
    "Role",
    "Sink",
    "Status",
    "Tag",
    "Task",
    "is_scored",
]

SCHEMA_VERSION = 1

Role = Literal["generate", "reflect", "vote", "select", "tool", "agent", "overhead", "judge", "ping"]
POLICY_ROLES: frozenset[str] = frozenset(get_args(Role)) - {"judge", "ping"}
"""Roles whose tokens are charged to a policy; ``judge`` and ``ping`` are shown apart."""

Status = Literal[
    "correct",
    "wrong",
    "partial",
    "answered",
    "no_answer",
    "truncated",
    "empty",
    "refused",
    "filtered",
    "context_exceeded",
    "limit_exceeded",
    "infra_error",
    "config_error",
    "unfaithful",
]
MODEL_STATUSES: frozenset[str] = frozenset(get_args(Status)) - {"infra_error", "config_error", "unfaithful"}
"""Statuses that are the model's own doing: they are scored and make comparisons.

``answered`` is the one without a score: an arena answer that is there, and only votes say what it is worth.
"""

GOOD_STATUSES = ("correct", "answered")
"""Statuses of answers that nobody need look at: neither failures nor what ``--elo-strict`` refuses."""

UNSCORED = "unscored"
"""Mark of every outcome of a task that is judged in pairs, answered or not: its score of 0 means nothing."""

Message = Mapping[str, Any]
"""One chat message: ``{"role": ..., "content": ...}``."""


_encode = json.JSONEncoder(separators=(", ", ": ")).encode


class _JsonRecord:
    """``to_json``/``from_json`` for frozen dataclasses: one line, ASCII, fields in declared order."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        names, values = _fields_of(type(self))
        return dict(zip(names, values(self), strict=True))

    def to_json(self) -> str:
        return _encode(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a record; unknown keys (a newer schema's) are ignored, missing ones raise ``TypeError``."""
        known, _ = _fields_of(cls)
        if values.keys() <= known.keys():
            return cls(**values)
        return cls(**{key: value for key, value in values.items() if key in known})


_Fields = tuple[dict[str, None], Callable[[Any], tuple[Any, ...]]]
_fields: dict[type, _Fields] = {}


def _fields_of(record: type) -> _Fields:
    """Names in declared order, and what reads all their values at once; looked up once a class, used per row."""
    if record not in _fields:
        names = dict.fromkeys(field.name for field in dataclasses.fields(record))
        _fields[record] = (names, attrgetter(*names))
    return _fields[record]


@dataclass(frozen=True, slots=True)
class Tag:
    """Who pays for a call: the item under its strategy, and what the call is for."""

    task_id: str
    item_id: str
    strategy: str
    repeat: int = 0
    role: str = "generate"
    sample: int = 0
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(_JsonRecord):
    """One HTTP attempt: one row of the ledger (``runs.jsonl``), unique by (``call_id``, ``attempt``).

    Token fields always hold numbers. Where the gateway did not say, they hold the low end of what is
    known, ``estimated`` names the method and ``total_tokens_high`` the high end; ``estimated is None``
    means the gateway reported usage and ``total_tokens_high == total_tokens``.
    ``completion_tokens`` includes ``reasoning_tokens``; ``prompt_tokens`` includes ``cached_tokens``.
    ``latency_s`` is seconds from sending the request to the last byte, to the millisecond.
    """

    ts: str
    task_id: str
    strategy: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    latency_s: float = 0.0
    finish_reason: str | None = None
    v: int = SCHEMA_VERSION
    run_id: str = ""
    call_id: str
    attempt: int = 0
    item_id: str
    repeat: int = 0
    sample: int = 0
    role: str = "generate"
    kept: bool | None = None
    status: str = "open"
    """``open`` (never closed: the process died), ``ok`` or ``error``."""
    error_kind: str | None = None
    http_status: int | None = None
    estimated: str | None = None
    total_tokens_high: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    response_model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Effective request parameters besides the messages (temperature, max_tokens, seed, ...)."""
    source: str = "live"
    """``live``, ``embedded`` or ``replay``."""
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(_JsonRecord):
    """What a policy achieved on an item in one repeat (one line of ``outcomes.jsonl``).

    ``scores`` holds further gradings of the same reply (``{"strict": 0.0, "lenient": 1.0}``); ``score``
    is the one that counts, in [0, 1]. ``infra_error`` and ``unfaithful`` make no comparison.
    """

    task_id: str
    item_id: str
    strategy: str
    model: str
    repeat: int = 0
    status: str
    score: float = 0.0
    answer: str | None = None
    expected: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    detail: str | None = None
    output: str | None = None
    """The raw reply of an outcome that is not correct (cut at 20,000 characters): what a reader must see."""
    finish_reason: str | None = None
    call_ids: Sequence[str] = ()
    prompt_sha256: str | None = None
    grading_sha256: str | None = None
    """What decides the score besides the reply: two runs of an item compare only under equal grading."""
    response_sha256: str | None = None
    marks: Sequence[str] = ()
    """What a reader must know of this row: ``oracle``, ``vote_tie``, ``repaired``, ..."""
    v: int = SCHEMA_VERSION
    condition: str = ""


def is_scored(outcome: Outcome) -> bool:
    """Whether the outcome's score says what the policy achieved."""
    return outcome.status in MODEL_STATUSES and UNSCORED not in outcome.marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(_JsonRecord):
    """Share of a pairing won by ``a`` against ``b`` on one item: 1 win, 0 loss, 0.5 tie.

    The weights of one (task, item, a, b) sum to 1 whatever the repeats.
    """

    task_id: str
    item_id: str
    a: str
    b: str
    share: float
    weight: float = 1.0
    judge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one call brought back, as a strategy sees it."""

    call_id: str
    text: str
    """``message.content`` as sent, never the reasoning; empty when the model said nothing."""
    finish_reason: str | None = None
    refusal: str | None = None
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    mean_logprob: float | None = None
    """Mean log-probability per completion token where the gateway gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The grading of one reply: the model-attributable status, the score in [0, 1], the parsed answer."""

    status: str
    score: float
    answer: str | None = None
    expected: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a strategy settles on: the reply to grade, and the calls it used (all others are discards)."""

    reply: Reply
    kept: Sequence[str]
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One sample of an answer: the reply to grade, the calls it rests on, the conversation that led to it."""

    reply: Reply
    kept: tuple[str, ...]
    messages: tuple[Message, ...]
    """What the reply answers, without the reply itself: a strategy can go on from here."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a task's public check says of a reply. It knows no more than the model may know."""

    passed: bool
    feedback: str = ""
    """May be shown to the model: the failing visible tests, the schema's complaint."""
    score: float | None = None
    """Share of the check that passed, in [0, 1]; ``None`` where there is only passed or not."""


class Sink(Protocol):
    """Where attempts go the moment they start and end (the ledger's journal)."""

    def open(self, attempt: Attempt) -> None: ...

    def close(self, attempt: Attempt) -> None: ...


class Ask(Protocol):
    """A metered way to ask the model; every attempt is charged to the item under its strategy.

    ``sample`` numbers the independent completions of one item: the same index gets the same seed under
    every strategy. Raises ``GatewayError`` when no usable reply came back after all attempts.
    """

    async def __call__(
        self,
        messages: Sequence[Message],
        *,
        role: Role = "generate",
        sample: int = 0,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
        **parameters: Any,
    ) -> Reply: ...


class Problem(Protocol):
    """An item as posed in one repeat: what a strategy is given and what a reply is graded against.

    A problem may have more members. Each is optional: strategies that need one refuse a problem without it
    (or with ``None`` in its place) before anything is bought.

    ``free_text: bool``
        True when ``answer_key`` is no equivalence of answers, only of texts: nothing to vote on.
    ``check(reply) -> CheckResult``
        The public check (visible tests, a schema). Called in a thread, so it may run processes.
    ``async generate(ask, *, sample, role, temperature, previous=None, feedback="") -> Draft``
        One sample, where that takes more than sending ``messages`` once; with ``previous`` (a ``Draft``) and
        ``feedback`` it revises that draft. Model and further parameters come bound to ``ask``.
    ``prompt_identity: str``
        What stands for ``messages`` in the outcome's ``prompt_sha256``, where making them is dear.
    ``preflight() -> Grade | None``
        Why nothing can be judged here, found out before a model is asked. Called in a thread.
    ``leave(reply, run_dir, strategy, model) -> None``
        Writes what the grade of a reply rests on into the run directory, just before the outcome is recorded.
    ``explain(reply) -> str``
        What a person wants to see of a reply that was just graded as a loss, where that is more than the answer.
    ``statement: str``
        What a program is told that works on the problem by itself; without it, the text of ``messages``.
    ``workplace(furnish, command_s) -> context manager of a shell``
        The prepared tree for a program, in a sandbox (``tasks.swebench.session.ShellSession``); ``furnish`` adds to
        the sandbox's cell what the program needs.
    ``async grade_with(ask, reply) -> Grade``
        Grades with the help of a model, in place of ``grade``. ``ask`` charges to the role ``judge``.
    """

    @property
    def task_id(self) -> str: ...
    @property
    def item_id(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def max_tokens(self) -> int: ...

    def answer_key(self, reply: Reply) -> Hashable | None:
        """The equivalence class of the reply's answer for voting; ``None`` when it holds no answer."""
        ...

    def grade(self, reply: Reply) -> Grade: ...


class Task(Protocol):
    """A family of items, loaded once per process; everything it does is a pure function of its data.

    A task with ``judged_in_pairs = True`` is an arena: one test holds the answers of all strategies to an item,
    and votes on their pairs make the comparisons (``tasks/arena``).
    A task may have ``distinct_ids``: one item of each sort that differs in the optional members of its problems.
    Strategies are then checked against these alone when items are collected, else against every item.
    """

    @property
    def task_id(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """SHA-256 over the data, the prompt template and the grading rules: part of the condition."""
        ...

    @property
    def item_ids(self) -> Sequence[str]:
        """ASCII, unique, in file order."""
        ...

    @property
    def warnings(self) -> Sequence[str]: ...

    def pose(self, item_id: str, repeat: int) -> Problem: ...
