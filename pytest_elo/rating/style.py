r"""Ratings with the look of the answers held equal: Bradley-Terry with covariates.

For comparison r between policies a and b with covariates z_r (first answer less second, see
:func:`log_ratio` and :func:`relative_difference`)

.. math:: \operatorname{logit} P(a \text{ wins}) = \theta_a - \theta_b + \beta^T z_r / \mathrm{sd}(z).

Covariates are scaled and never centred: a mean taken off would credit whoever stands first. A column that
never varies is dropped by name. Both fits, with and without covariates, carry Jeffreys' prior (Firth 1993),
because a judge that follows length without exception separates the data and no maximum likelihood exists;
the two columns then differ by the covariates alone. Half a win for a tie.

Intervals are sandwiches over clusters, two-way where two kinds are given:
V = V_item + V_judge - V_item∩judge, each with K/(K-1), and Student's t with the smaller K - 1 (Cameron,
Gelbach and Miller 2011).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.rating.linalg import inverse_spd
from pytest_elo.rating.quantiles import student_quantile
from pytest_elo.rating.scale import ELO_PER_LOGIT

__all__ = [
    "FEWEST_JUDGES",
    "Coefficient",
    "StyleControl",
    "StyledRating",
    "control_style",
    "log_ratio",
    "relative_difference",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEWEST_JUDGES = 6
"""Clusters below which the second kind is taken as fixed: two or three judges are the panel itself, not a
sample of judges, and t with one or two degrees of freedom would say nothing (12.7 standard errors)."""

_MAX_STEPS = 200
_TOLERANCE = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledRating:
    """One policy in Elo against the anchor, raw and controlled; half-widths at the report's level."""

    policy: str
    raw: float
    raw_half_width: float | None
    controlled: float
    controlled_half_width: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """What one standard deviation of a covariate is worth in Elo."""

    name: str
    elo_per_sd: float
    half_width: float | None
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StyleControl:
    """Raw and controlled ratings side by side. ``ratings`` keep the order of the policies given."""

    anchor: str
    n_rows: int
    level: float
    clusters: Mapping[str, int]
    """Number of clusters of each kind that entered the intervals."""
    ratings: Sequence[StyledRating]
    coefficients: Sequence[Coefficient]
    dropped: Mapping[str, str]
    """Covariates that were left out, with the reason."""


def log_ratio(first: ArrayLike, second: ArrayLike) -> Floats:
    """ln((first + 1) / (second + 1)): for lengths; 0 for two empty answers."""
    ratio: Floats = np.log1p(np.asarray(first, np.float64)) - np.log1p(np.asarray(second, np.float64))
    return ratio


def relative_difference(first: ArrayLike, second: ArrayLike) -> Floats:
    """(first - second) / (first + second + 1): for counts; never 0/0."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    difference: Floats = (one - other) / (one + other + 1.0)
    return difference


def control_style(
    *,
    policies: Sequence[str],
    a: ArrayLike,
    b: ArrayLike,
    share: ArrayLike,
    covariates: Mapping[str, ArrayLike],
    clusters: Mapping[str, ArrayLike],
    anchor: str,
    weight: ArrayLike | None = None,
    level: float = 0.95,
) -> StyleControl:
    """Fit R comparisons twice, without and with ``covariates``.

    ``a``, ``b`` (R,) are codes into ``policies``, ``share`` (R,) is won by a, each covariate is (R,), each
    kind of cluster (one or two, say ``item`` and ``judge``) is (R,) codes. Raises :class:`ConfigError` for
    an anchor that does not compete and :class:`DataError` for columns that do not fit together or policies
    that are not joined by comparisons.
    """
    if anchor not in policies:
        raise ConfigError(f"style control: anchor {anchor!r} is not among the policies")
    design, dropped = _design(policies, a, b, share, weight, covariates, anchor)
    used = _clusters(clusters, len(design.y))
    plain = design.only([])
    raw, controlled = _fit(plain), _fit(design)
    raw_se, se = _standard_errors(plain, raw, used), _standard_errors(design, controlled, used)
    sizes = {kind: int(codes.max(initial=-1)) + 1 for kind, codes in used.items()}
    t = student_quantile(0.5 + level / 2, min(sizes.values()) - 1) if min(sizes.values()) > 1 else None
    return StyleControl(
        anchor=anchor,
        n_rows=len(design.y),
        level=level,
        clusters=sizes,
        ratings=[
            StyledRating(
                policy=policy,
                raw=ELO_PER_LOGIT * float(raw.theta[i]),
                raw_half_width=_half_width(t, raw_se[i]),
                controlled=ELO_PER_LOGIT * float(controlled.theta[i]),
                controlled_half_width=_half_width(t, se[i]),
            )
            for i, policy in enumerate(policies)
        ],
        coefficients=[
            Coefficient(
                name=name,
                elo_per_sd=ELO_PER_LOGIT * float(controlled.beta[k]),
                half_width=_half_width(t, se[len(policies) + k]),
                sd=float(design.sd[k]),
            )
            for k, name in enumerate(design.names)
        ],
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """R rows of n policies and k scaled covariates; the anchor's strength is fixed at 0."""

    n: int
    anchor: int
    a: Integers
    b: Integers
    y: Floats
    weight: Floats
    z: Floats
    """(R, k)"""
    sd: Floats
    names: tuple[str, ...]

    def only(self, names: Sequence[str]) -> _Design:
        """The same rows with some of the covariates."""
        columns = [self.names.index(name) for name in names]
        return replace(self, z=self.z[:, columns], sd=self.sd[columns], names=tuple(names))

    def score(self, residual: Floats) -> Floats:
        """X^T residual: (n + k,), the anchor's entry included."""
        strengths = np.bincount(self.a, residual, self.n) - np.bincount(self.b, residual, self.n)
        return np.concatenate([strengths, np.einsum("rk,r->k", self.z, residual)])

    def information(self, weight: Floats) -> Floats:
        """X^T diag(weight) X with the anchor's row and column replaced by the identity's."""
        n, k = self.n, self.z.shape[1]
        full = np.zeros((n + k, n + k))
        met = np.bincount(self.a * n + self.b, weight, n * n).reshape(n, n)
        met = met + met.T
        full[:n, :n] = np.diag(met.sum(axis=1)) - met
        for j in range(k):
            weighted = weight * self.z[:, j]
            cross = np.bincount(self.a, weighted, n) - np.bincount(self.b, weighted, n)
            full[:n, n + j] = full[n + j, :n] = cross
        full[n:, n:] = np.einsum("r,rj,rl->jl", weight, self.z, self.z)
        full[self.anchor, :] = full[:, self.anchor] = 0.0
        full[self.anchor, self.anchor] = 1.0
        return full

    def quadratic(self, inverse: Floats) -> Floats:
        """x_r^T inverse x_r for every row: (R,)."""
        n = self.n
        a, b = self.a, self.b
        strengths = inverse[a, a] + inverse[b, b] - 2.0 * inverse[a, b]
        cross = np.einsum("rk,rk->r", self.z, inverse[a, n:] - inverse[b, n:])
        styles = np.einsum("rk,kl,rl->r", self.z, inverse[n:, n:], self.z)
        total: Floats = strengths + 2.0 * cross + styles
        return total

    def linear(self, theta: Floats, beta: Floats) -> Floats:
        total: Floats = theta[self.a] - theta[self.b] + np.einsum("rk,k->r", self.z, beta)
        return total


@dataclass(frozen=True, slots=True)
class _Fit:
    theta: Floats
    beta: Floats
    inverse: Floats
    """(n + k, n + k): inverse information, zero in the anchor's row and column"""


def _design(
    policies: Sequence[str],
    a: ArrayLike,
    b: ArrayLike,
    share: ArrayLike,
    weight: ArrayLike | None,
    covariates: Mapping[str, ArrayLike],
    anchor: str,
) -> tuple[_Design, dict[str, str]]:
    first, second = np.asarray(a, np.int64), np.asarray(b, np.int64)
    y = np.asarray(share, np.float64)
    weights = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    columns = {name: np.asarray(column, np.float64) for name, column in covariates.items()}
    lengths = {len(column) for column in (first, second, y, weights, *columns.values())}
    if lengths != {len(y)} or not len(y):
        raise DataError(f"style control: columns of {sorted(lengths)} rows; all need the same, at least 1")
    if not all(np.isfinite(column).all() for column in columns.values()):
        raise DataError("style control: a covariate is not a number on every row")
    _check_joined(len(policies), first, second)
    dropped = {name: "never varies" for name, column in columns.items() if float(np.ptp(column)) <= 1e-12}
    kept = [name for name in columns if name not in dropped]
    # The spread about zero: an antisymmetric covariate has mean zero once the slots are swapped.
    sd = np.array([float(np.sqrt(np.mean(columns[name] ** 2))) for name in kept])
    z = np.stack([columns[name] for name in kept], axis=1) / sd if kept else np.empty((len(y), 0))
    index = list(policies).index(anchor)
    design = _Design(len(policies), index, first, second, y, weights, z, sd, tuple(kept))
    for name in _confounded(design):
        dropped[name] = "cannot be told from the policies and the other covariates"
    return design.only([name for name in kept if name not in dropped]), dropped


def _confounded(design: _Design) -> list[str]:
    """Covariates that are sums of the columns before them, by elimination on the information at p = 1/2."""
    work = design.information(0.25 * design.weight)
    before = np.diag(work).copy()
    confounded = []
    for k in range(len(work)):
        if work[k, k] <= 1e-9 * before[k]:
            confounded.append(design.names[k - design.n])
            continue
        work[k + 1 :, k + 1 :] -= work[k + 1 :, k, None] * (work[k, k + 1 :] / work[k, k])
    return confounded


def _check_joined(n: int, a: Integers, b: Integers) -> None:
    group = np.arange(n)
    while True:
        lower = group.copy()
        np.minimum.at(lower, a, group[b])
        np.minimum.at(lower, b, group[a])
        if (lower == group).all():
            break
        group = lower
    if n and (group != group[0]).any():
        raise DataError("style control: the policies fall into groups that never met; rate each group alone")


def _clusters(clusters: Mapping[str, ArrayLike], rows: int) -> dict[str, Integers]:
    if not 1 <= len(clusters) <= 2:
        raise ConfigError("style control: one or two kinds of clusters are needed")
    dense: dict[str, Integers] = {}
    for kind, codes in clusters.items():
        column = np.unique(np.asarray(codes), return_inverse=True)[1].astype(np.int64)
        if len(column) != rows:
            raise DataError(f"style control: clusters {kind!r} have {len(column)} rows, not {rows}")
        if not dense or column.max(initial=0) + 1 >= FEWEST_JUDGES:
            dense[kind] = column
    return dense


def _fit(design: _Design) -> _Fit:
    """Firth's estimate by Newton steps on the data with h/2 added to wins and losses of each row.

    h_r = w_r p(1-p) x_r^T I^-1 x_r is the row's leverage. The step uses the information of w + h: with w
    alone it oscillates where w is near h.
    """
    n = design.n
    parameters = np.zeros(n + design.z.shape[1])
    inverse = np.zeros((len(parameters), len(parameters)))
    for _ in range(_MAX_STEPS):
        p = 1.0 / (1.0 + np.exp(-design.linear(parameters[:n], parameters[n:])))
        unit = p * (1.0 - p)
        inverse = _inverse(design, design.weight * unit)
        leverage = design.weight * unit * design.quadratic(inverse)
        residual = design.weight * (design.y - p) + leverage * (0.5 - p)
        score = design.score(residual)
        score[design.anchor] = 0.0
        if float(np.abs(score).max(initial=0.0)) <= _TOLERANCE * max(1.0, float(design.weight.sum())):
            break
        step = np.einsum("ij,j->i", _inverse(design, (design.weight + leverage) * unit), score)
        parameters = parameters + step / max(1.0, float(np.abs(step).max()))
    return _Fit(parameters[:n], parameters[n:], inverse)


def _inverse(design: _Design, weight: Floats) -> Floats:
    inverse, _ = inverse_spd(design.information(weight))
    inverse[design.anchor, design.anchor] = 0.0
    return inverse


def _standard_errors(design: _Design, fit: _Fit, clusters: Mapping[str, Integers]) -> Floats:
    """(n + k,) in Elo; NaN where a kind has one cluster only."""
    p = 1.0 / (1.0 + np.exp(-design.linear(fit.theta, fit.beta)))
    residual = design.weight * (design.y - p)
    columns = list(clusters.values())
    meat = _meat(design, residual, columns[0])
    if len(columns) == 2:
        both = np.unique(columns[0] * (columns[1].max() + 1) + columns[1], return_inverse=True)[1]
        meat = meat + _meat(design, residual, columns[1])
        two_way = meat - _meat(design, residual, both.astype(np.int64))
        # Few judges can make the difference indefinite; without its last part it is wider, never narrower.
        meat = two_way if bool((np.linalg.eigvalsh(two_way) >= -1e-9 * np.abs(two_way).max()).all()) else meat
    variance = np.einsum("ij,jk,ik->i", fit.inverse, meat, fit.inverse)
    errors: Floats = ELO_PER_LOGIT * np.sqrt(np.maximum(variance, 0.0))
    return errors


def _meat(design: _Design, residual: Floats, cluster: Integers) -> Floats:
    """Sum over clusters of the outer product of their scores, times K/(K-1)."""
    n, count = design.n, int(cluster.max(initial=0)) + 1
    strengths = np.bincount(cluster * n + design.a, residual, count * n)
    strengths = strengths - np.bincount(cluster * n + design.b, residual, count * n)
    styles = [np.bincount(cluster, residual * design.z[:, j], count) for j in range(design.z.shape[1])]
    scores = np.column_stack([strengths.reshape(count, n), *styles])
    outer: Floats = np.einsum("ki,kj->ij", scores, scores) * (count / max(count - 1, 1))
    return outer


def _half_width(t: float | None, standard_error: float) -> float | None:
    return None if t is None else t * float(standard_error)
