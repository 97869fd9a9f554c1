"""Judging one pair: both orders, every judge of the panel, retries, and what came of it.

Nothing here decides by exception: a pair ends as consistent, inconsistent, identical, incomplete or
excluded, and each of the last two carries its reason, so that a report can list it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pytest_elo._text import text_hash
from pytest_elo.errors import GatewayError
from pytest_elo.records import Ask, Comparison, Message, Outcome, Reply
from pytest_elo.tasks.arena.template import DEFAULT_TEMPLATE, JudgeTemplate, Quoted
from pytest_elo.tasks.arena.verdict import Slot, mask_verdicts, panel_majority, read_verdict, settle_orders

__all__ = [
    "ANSWERED",
    "Contestant",
    "Judge",
    "OrderVerdict",
    "Pair",
    "PairStatus",
    "PairVerdict",
    "failure_of",
    "judge_pair",
    "together",
]

T = TypeVar("T")
PairStatus = Literal["consistent", "inconsistent", "identical", "incomplete", "excluded"]

_REMINDER = "Your reply holds no verdict. Reply with one label and nothing else: [[A]], [[B]] or [[C]]."
_ERROR_TEXT = re.compile(r"\$?ERROR\$?|\*\*NETWORK ERROR.*\*\*|API REQUEST ERROR.*", re.DOTALL)
"""What harnesses store in place of an answer once their retries are used up."""
ANSWERED: Final = "answered"
"""The status of an arena answer: it is there, and only pairs say what it is worth."""

_UNANSWERED = {
    "infra_error",
    "config_error",
    "unfaithful",
    "empty",
    "context_exceeded",
    "limit_exceeded",
    "filtered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One policy's answer to the prompt. ``failed`` says why there is none to judge."""

    policy: str
    text: str
    model: str = ""
    failed: str | None = None

    @classmethod
    def of(cls, outcome: Outcome, text: str) -> Contestant:
        """The answer behind an outcome; statuses without an answer keep their name as the reason."""
        missing = outcome.status in _UNANSWERED or (outcome.status != ANSWERED and not text.strip())
        failed = outcome.status if missing else None
        return cls(policy=outcome.strategy, text=text, model=outcome.model, failed=failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to one prompt, with what the judge may know of it."""

    task_id: str
    item_id: str
    prompt: str
    a: Contestant
    b: Contestant
    repeat: int = 0
    reference: str | None = None
    rubric: str | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that is asked for verdicts through a metered ``ask`` (always with ``role="judge"``).

    ``max_tokens`` bounds one verdict; ``retries`` is how often a reply without a verdict is asked again.
    """

    model: str
    ask: Ask
    temperature: float | None = 0.0
    max_tokens: int = 1024
    retries: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderVerdict:
    """What one judge said of one order. ``first`` is the policy in slot A.

    ``reason`` is that of the reading, or ``error`` followed by the kind when no reply came at all.
    """

    judge: str
    first: str
    second: str
    slot: Slot | None
    reason: str
    replies: int = 0
    """Replies it took, the last one included."""
    call_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """What a pair came to. ``share`` is a's share, ``None`` for ``incomplete`` and ``excluded``.

    ``marks`` names what a reader must know: ``verdict_like_text:<policy>`` for an answer that imitates a
    verdict. ``reason`` explains a missing share.
    """

    task_id: str
    item_id: str
    a: str
    b: str
    repeat: int
    status: PairStatus
    share: float | None
    reason: str | None = None
    orders: Sequence[OrderVerdict] = ()
    marks: Sequence[str] = ()

    @property
    def used_calls(self) -> dict[str, bool]:
        """Every judge's call: used, or paid for and without a verdict."""
        return {
            call_id: order.slot is not None and call_id == order.call_ids[-1]
            for order in self.orders
            for call_id in order.call_ids
        }

    def comparison(self) -> Comparison | None:
        """The comparison that enters the rating, or ``None`` when the pair does not count."""
        if self.share is None:
            return None
        judges = sorted({order.judge for order in self.orders})
        return Comparison(
            task_id=self.task_id,
            item_id=self.item_id,
            a=self.a,
            b=self.b,
            share=self.share,
            judge="+".join(judges) or None,
        )


def failure_of(contestant: Contestant) -> str | None:
    """Why this answer is not shown to a judge, or ``None`` when it is."""
    if contestant.failed:
        return contestant.failed
    if not contestant.text.strip():
        return "empty"
    if _ERROR_TEXT.fullmatch(contestant.text.strip()):
        return "error_text"
    return None


async def judge_pair(pair: Pair, judges: Sequence[Judge], *, template: JudgeTemplate = DEFAULT_TEMPLATE) -> PairVerdict:
    """Judge ``pair`` in both orders by every judge, all at once.

    A failed answer excludes the pair and identical answers tie, both without a call. The order whose
    requests go out first is a function of the prompt and the pair, so neither policy is favoured by it.
    Raises :class:`GatewayError` only where its status is ``config_error``: judging on would only pay for
    the same mistake again.
    """
    failures = [f"{side.policy}: {why}" for side in (pair.a, pair.b) if (why := failure_of(side))]
    if failures:
        return _verdict(pair, "excluded", None, reason="; ".join(failures))
    if pair.a.text.strip() == pair.b.text.strip():
        return _verdict(pair, "identical", 0.5)
    orders = [(pair.a, pair.b), (pair.b, pair.a)]
    if _starts_swapped(pair):
        orders.reverse()
    spoken = await together(
        [_judge_order(pair, first, second, judge, template) for first, second in orders for judge in judges]
    )
    return _settle(pair, spoken)


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order. When one raises, the rest is cancelled first: nothing goes on being bought."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _settle(pair: Pair, spoken: Sequence[OrderVerdict]) -> PairVerdict:
    by_order = {
        policy: panel_majority([order.slot for order in spoken if order.first == policy])
        for policy in (pair.a.policy, pair.b.policy)
    }
    settled = settle_orders(by_order[pair.a.policy], by_order[pair.b.policy])
    missing = sorted({f"{order.judge}: {order.reason}" for order in spoken if order.slot is None})
    reason = "; ".join(missing) if settled.share is None else None
    return _verdict(pair, settled.status, settled.share, reason=reason, orders=tuple(spoken))


def _verdict(
    pair: Pair,
    status: PairStatus,
    share: float | None,
    *,
    reason: str | None = None,
    orders: Sequence[OrderVerdict] = (),
) -> PairVerdict:
    marks = [f"verdict_like_text:{side.policy}" for side in (pair.a, pair.b) if mask_verdicts(side.text) != side.text]
    return PairVerdict(
        task_id=pair.task_id,
        item_id=pair.item_id,
        a=pair.a.policy,
        b=pair.b.policy,
        repeat=pair.repeat,
        status=status,
        share=share,
        reason=reason,
        orders=tuple(orders),
        marks=tuple(marks),
    )


def _starts_swapped(pair: Pair) -> bool:
    names = "\0".join([pair.item_id, *sorted([pair.a.policy, pair.b.policy])])
    starts_with_lesser = text_hash(names).digest()[0] % 2 == 0
    return (pair.a.policy < pair.b.policy) != starts_with_lesser


async def _judge_order(
    pair: Pair, first: Contestant, second: Contestant, judge: Judge, template: JudgeTemplate
) -> OrderVerdict:
    quoted = Quoted(
        prompt=pair.prompt,
        answer_a=first.text,
        answer_b=second.text,
        reference=pair.reference,
        rubric=pair.rubric,
    )
    messages: list[Message] = list(template.messages(quoted))
    call_ids: list[str] = []
    slot: Slot | None = None
    reason = "unparsable"
    for attempt in range(judge.retries + 1):
        try:
            reply = await _ask(judge, messages, sample=attempt)
        except GatewayError as error:
            if error.status == "config_error":
                raise
            reason = f"error {error.kind}"
            break
        call_ids.append(reply.call_id)
        reading = read_verdict(reply)
        slot, reason = reading.slot, reading.reason
        if slot is not None:
            break
        messages = [*messages, *_reminder(reply)]
    return OrderVerdict(
        judge=judge.model,
        first=first.policy,
        second=second.policy,
        slot=slot,
        reason=reason,
        replies=len(call_ids),
        call_ids=tuple(call_ids),
    )


async def _ask(judge: Judge, messages: Sequence[Message], *, sample: int) -> Reply:
    settings: dict[str, Any] = {"temperature": judge.temperature, "max_tokens": judge.max_tokens}
    return await judge.ask(messages, role="judge", sample=sample, model=judge.model, **settings)


def _reminder(reply: Reply) -> list[Message]:
    """The turns added after a reply without a verdict.

    At temperature 0 the same request brings the same reply; only another request can bring a verdict.
    """
    said: list[Message] = [{"role": "assistant", "content": reply.text}] if reply.text.strip() else []
    return [*said, {"role": "user", "content": _REMINDER}]
