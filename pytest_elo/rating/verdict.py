"""Does the next tier still pay? The rule on intervals, and the article's rule beside it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_elo.rating.power import items_needed, items_needed_alike
from pytest_elo.rating.results import LegacyVerdict, Step, Verdict, VerdictCode

__all__ = ["LEGACY_TEXTS", "TEXTS", "VERDICT_LEVEL", "legacy_verdict", "verdict"]

VERDICT_LEVEL = 0.90

TEXTS: dict[VerdictCode, tuple[str, str]] = {
    "HARMFUL": ("more compute makes it worse, stop", "继续加码有害,停止"),
    "PLATEAU": ("plateau, stop adding compute", "进入平坦区,建议停止加码"),
    "DECAY": ("clear decay of the margin, look task by task", "边际明显衰减,按任务分桶复核"),
    "CONTINUE": ("room left, continue", "仍有扩展空间,继续采样"),
    "UNDECIDED": ("the data do not decide", "证据不足以判定"),
}

LEGACY_TEXTS: dict[str, tuple[str, str]] = {
    "INSUFFICIENT": ("数据不足", "not enough data"),
    "PLATEAU": ("进入平坦区,建议停止加码", "plateau, stop adding compute"),
    "DECAY": ("边际明显衰减,按任务分桶复核", "clear decay of the margin, look task by task"),
    "CONTINUE": ("仍有扩展空间,继续采样", "room left, continue"),
}


def verdict(steps: Sequence[Step], *, worth: float, n_items: int) -> Verdict:
    """Judge a ladder by the 90 % interval of its last resolved marginal.

    ``worth`` is what a gain must be worth in Elo per 1,000 tokens. ``HARMFUL`` if the interval lies below 0,
    ``PLATEAU`` if below ``worth``, ``CONTINUE`` if above it; ``DECAY`` if the first marginal is above 0 and
    the last below half of it; otherwise ``UNDECIDED`` with the items that would decide.
    """
    resolved = [step for step in steps if step.resolved and step.marginal_verdict is not None]
    if not resolved:
        return _say("UNDECIDED", None, "no step of the ladder has a resolved marginal")
    first, last = resolved[0], resolved[-1]
    interval, value, se = last.marginal_verdict, last.marginal.value, last.marginal.se
    where = f"{last.lower} to {last.upper}"
    if interval is None or value is None or not interval.bounded:
        return _say("UNDECIDED", None, f"the marginal from {where} is unbounded")
    low, high = interval.low, interval.high
    assert low is not None
    assert high is not None
    shown = f"marginal {where}: {value:+.2f} [{low:+.2f}, {high:+.2f}] Elo/1k at 90 %"
    if se is None:
        shown += f" (all {n_items} items say the same)"
    if high < 0.0:
        return _say("HARMFUL", None, f"{shown}, below 0")
    if high < worth:
        return _say("PLATEAU", None, f"{shown}, below {worth:g}")
    if low > worth:
        return _say("CONTINUE", None, f"{shown}, above {worth:g}")
    head = first.marginal_verdict
    if first is not last and head is not None and head.shape == "between" and first.marginal.value is not None:
        positive = head.low is not None and head.low > 0.0
        if positive and high < 0.5 * first.marginal.value:
            return _say("DECAY", None, f"{shown}, below half of the first marginal {first.marginal.value:+.2f}")
    if se is None:
        needed = items_needed_alike(n_items, max(high - value, value - low), value - worth)
    else:
        needed = items_needed(n_items, se, value - worth, level=VERDICT_LEVEL)
    return _say("UNDECIDED", needed, f"{shown} holds {worth:g}")


def legacy_verdict(elo_per_1k: Sequence[float], marginals: Sequence[float]) -> LegacyVerdict:
    """The article's rule on point estimates by tier, the anchor's own row left out."""
    if len(elo_per_1k) < 2:
        return _say_legacy("INSUFFICIENT")
    first, last = elo_per_1k[0], elo_per_1k[-1]
    if last < first / 3.0 and all(marginal < 0.0 for marginal in marginals[1:]):
        return _say_legacy("PLATEAU")
    return _say_legacy("DECAY" if last < first / 2.0 else "CONTINUE")


def _say(code: VerdictCode, needed: int | None, reason: str) -> Verdict:
    english, chinese = TEXTS[code]
    return Verdict(code, english, chinese, needed, reason)


def _say_legacy(code: str) -> LegacyVerdict:
    chinese, english = LEGACY_TEXTS[code]
    return LegacyVerdict(code, chinese, english)  # type: ignore[arg-type]
