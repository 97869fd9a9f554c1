"""What ``evaluate`` gives back: frozen records, everything a table or a plot needs and nothing to compute.

A number that does not exist is ``None`` and its record says why in ``reason``. Elo numbers are differences
to the anchor. No record holds NaN or infinity; an unbounded end of an interval is ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Bound",
    "Interval",
    "LadderReport",
    "LegacyVerdict",
    "Measure",
    "PolicyReport",
    "PolicyTask",
    "Power",
    "Quadrant",
    "RankInterval",
    "RatingReport",
    "Step",
    "TaskReport",
    "Verdict",
    "VerdictCode",
]

Quadrant = Literal["gain", "dominates", "dominated", "cheaper-but-weaker"]
VerdictCode = Literal["HARMFUL", "PLATEAU", "DECAY", "CONTINUE", "UNDECIDED"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence set on a line. ``shape`` says how to read ``low`` and ``high``:

    - ``between``: from ``low`` to ``high``; an end that is ``None`` is unbounded;
    - ``outside``: everything except what lies strictly between ``low`` and ``high`` (a Fieller set of a ratio
      whose denominator is not resolved and whose numerator is);
    - ``everything``: the whole line, the data say nothing (``low`` and ``high`` are ``None``).
    """

    low: float | None
    high: float | None
    level: float
    method: str
    """``cr1``, ``percentile``, ``bca``, ``fieller``, ``posterior``, ``student`` or ``score``; ``unseen`` where every
    item says the same, or too few differ to tell how much"""
    shape: Literal["between", "outside", "everything"] = "between"

    @property
    def bounded(self) -> bool:
        return self.shape == "between" and self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True)
class Bound:
    """A one-sided bound on a rating that only the penalty keeps finite."""

    side: Literal["at least", "at most"]
    value: float
    level: float
    """one-sided confidence"""


@dataclass(frozen=True, slots=True)
class Measure:
    """An estimate with its uncertainty; whatever is missing is explained by ``reason``."""

    value: float | None
    interval: Interval | None = None
    se: float | None = None
    """standard error, in the unit of ``value``"""
    reason: str | None = None
    """why ``value`` or ``interval`` is absent or what must be known of it; ``None`` if nothing is missing"""


@dataclass(frozen=True, slots=True)
class Power:
    """What the data can see of one difference."""

    n_items: int
    resolves: float
    """half-width of the interval: the smallest difference in Elo that would exclude 0"""
    items_needed: int | None
    """items for 80 % power to tell the observed difference from 0; ``None`` if the difference is 0"""
    text: str
    """``20 items resolve ±32 Elo; this effect (+12) needs 275``"""


@dataclass(frozen=True, slots=True)
class RankInterval:
    """Simultaneous interval of a rank (1 is best): all of them hold together with the report's level."""

    best: int
    worst: int


@dataclass(frozen=True, slots=True)
class PolicyTask:
    """One policy in one task."""

    task: str
    policy: str
    n_items: int
    """items compared"""
    n_comparisons: float
    """total weight of this policy's comparisons"""
    score: float | None
    """mean score over the items with usage"""
    tokens_per_item: float | None
    delta: Measure
    """ΔElo against the anchor within the task"""
    penalised: bool
    """only the penalty keeps the difference to the anchor finite"""
    bound: Bound | None
    elo_per_1k: Measure
    """ΔElo within the task per 1,000 total tokens of the items compared in it (Fieller)"""
    flag: str | None
    """``no loss against ...``, ``never won``, ``not connected to the anchor``, ..."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    task: str
    used: bool
    """whether the task enters the combined rating (it holds the anchor, or the route needs none)"""
    reason: str | None
    """why it does not"""
    n_items: int
    n_comparisons: float
    tie_share: float
    anchor_present: bool
    strongly_connected: bool
    components: tuple[tuple[str, ...], ...]
    """policies joined by comparisons; more than one group means differences across are unknown"""
    penalised: bool
    """fitted with Firth's penalty because no maximum-likelihood rating exists"""
    nu: float | None
    """Davidson's tie parameter; ``None`` in the other modes"""
    policies: tuple[PolicyTask, ...]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """One policy over all tasks used. Everything per item is a mean with the weights that ΔElo gives to
    tasks: equal tasks under ``anchored`` and ``hierarchical``, equal items under ``pooled``."""

    policy: str
    is_anchor: bool
    n_tasks: int
    """tasks in which it has a ΔElo"""
    n_items: int
    n_comparisons: float
    tie_share: float | None
    samples_per_item: float | None
    repeats_per_item: float | None
    score: float | None
    """mean score over items, all tasks pooled"""
    score_points: Measure
    """score difference to the anchor in points (100 x), paired on common items, same task weights as ΔElo"""
    tokens_per_item: float | None
    tokens_per_item_high: float | None
    """the same if every unknown count were at its high end"""
    completion_per_item: float | None
    last_success_per_item: float | None
    usd_per_item: float | None
    delta: Measure
    """ΔElo"""
    penalised: bool
    bound: Bound | None
    by_route: tuple[tuple[str, Measure], ...]
    """(route, ΔElo) for all three routes; empty with one task, where there is nothing to choose"""
    tasks_as_sample: Measure
    """mean ΔElo with the tasks seen as a sample of all tasks: mean ± t(T-1) SD/sqrt(T)"""
    elo_per_1k: Measure
    """ΔElo per 1,000 total tokens, the article's number"""
    elo_per_1k_high_tokens: float | None
    """the same with the high end of tokens"""
    elo_per_extra_1k: Measure
    """ΔElo per 1,000 tokens spent beyond the anchor's; absent outside the quadrant ``gain``/``dominated``"""
    elo_lost_per_1k_saved: Measure
    """for ``cheaper-but-weaker`` only; never to be ranked with gains"""
    quadrant: Quadrant | None
    elo_per_doubling: Measure
    elo_per_1k_completion: Measure
    elo_per_usd: Measure
    elo_per_1k_last_success: Measure
    last_success_ratio: float | None
    """Elo per 1k by last success over Elo per 1k by all tokens: how much the short count flatters"""
    between_task_sd: float | None
    between_task_sd_net: float | None
    """net of the mean squared standard error; 0 when noise explains all of it"""
    signs: tuple[int, int, int]
    """tasks with a positive, zero and negative ΔElo"""
    leave_one_out: tuple[tuple[str, float], ...]
    """(task left out, mean ΔElo of the others)"""
    task_specific: bool
    """the sign of the mean hangs on one task, or the gain stands in fewer than half of the tasks"""
    rank: RankInterval | None
    power: Power | None


@dataclass(frozen=True, slots=True)
class Step:
    """From one tier of a ladder to the next dearer one."""

    lower: str
    upper: str
    token_gap: Measure
    """tokens per item"""
    elo_gap: Measure
    marginal: Measure
    """Elo per 1,000 extra tokens, at the report's level (Fieller)"""
    marginal_verdict: Interval | None
    """the same at 90 %, on which the verdict stands"""
    resolved: bool
    """the token gap excludes 0 and is at least 10 % of the lower tier; otherwise ``marginal`` has no value"""


@dataclass(frozen=True, slots=True)
class Verdict:
    code: VerdictCode
    text_en: str
    text_zh: str
    items_needed: int | None
    """items that would decide with 80 % power, where undecided and where any number would"""
    reason: str


@dataclass(frozen=True, slots=True)
class LegacyVerdict:
    """The article's rule, on its own numbers and with its own words."""

    code: Literal["INSUFFICIENT", "PLATEAU", "DECAY", "CONTINUE"]
    text_zh: str
    text_en: str


@dataclass(frozen=True, slots=True)
class LadderReport:
    ladder: tuple[str, ...]
    """as declared"""
    tiers: tuple[str, ...]
    """those with tokens and a ΔElo, by tokens per item"""
    steps: tuple[Step, ...]
    verdict: Verdict
    legacy: LegacyVerdict


@dataclass(frozen=True, slots=True)
class RatingReport:
    anchor: str
    ties: str
    route: str
    penalty: str
    """the prior or penalty in words"""
    interval: str
    level: float
    seed: int
    bootstrap_rounds: int | None
    """``None`` where no bootstrap was drawn"""
    n_rows: int
    """comparisons given"""
    n_comparisons: float
    """their total weight"""
    n_items: int
    n_clusters: int
    """clusters behind the intervals: items with a comparison"""
    n_judges: int
    """judges that intervals are clustered by besides items; 0 without"""
    tie_share: float
    tau: float | None
    """between-task SD of one rating in Elo (of a difference: 1.41 times as much), posterior mean of the
    hierarchical model; ``None`` with one task"""
    homogeneity_p: float | None
    """p value of "all tasks share one set of ratings"; ``None`` where fewer than two tasks can be compared"""
    tasks: tuple[TaskReport, ...]
    policies: tuple[PolicyReport, ...]
    """the anchor first, then by ΔElo from high to low, then those without"""
    ladders: tuple[LadderReport, ...]
    critical_value: float | None
    """of the simultaneous rank intervals (max-t)"""
    warnings: tuple[str, ...]
