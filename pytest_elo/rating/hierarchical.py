r"""Random-effects Bradley-Terry over tasks, integrated on a grid (Laplace for each tau).

theta_t = mu + d_t with d_t ~ N(0, tau^2 I) and a weak prior mu ~ N(0, 400 Elo) that only matters where the
data say little. For fixed tau the mode of (mu, d) is found by Newton with the tasks' d_t eliminated: with
r_t the likelihood's gradient, H_t its information and A_t = (I + tau^2 H_t)^{-1},

.. math:: (P + \sum_t A_t H_t)\, \delta\mu = \sum_t A_t (r_t + H_t d_t) - P \mu, \qquad
          d_t \leftarrow \tau^2 A_t (r_t + H_t d_t - H_t \delta\mu),

where P is the prior's precision. The evidence is

.. math:: l - \sum_t \frac{|d_t|^2}{2\tau^2} - \tfrac12 \mu' P \mu - \tfrac12 \sum_t \log|I + \tau^2 H_t|
          - \tfrac12 \log|P + \sum_t A_t H_t|,

weighted with a prior on tau: 0.05 on tau = 0 (which is pooling), the rest half-normal with scale 150
Elo. A task needs no anchor.

The likelihood counts comparisons as independent, which they are not when items repeat or tie: each task's
tables are divided by its dispersion, the ratio of the cluster-robust to the model variance
(quasi-likelihood; Wedderburn 1974).

A handful of tasks says little about tau, and a normal interval at a tau that came out too small is too
short. So the whole of the model's variance holds only up to a factor: an inverse chi-square with
``SCALE_DF`` degrees of freedom around 1. It integrates out exactly. With Q the squared distance of the
tasks' own fits from mu in the metric of the model, on nu degrees of freedom, exp(-Q/2) in the evidence
becomes (1 + Q/SCALE_DF)^(-(SCALE_DF + nu)/2), covariances are multiplied by (SCALE_DF + Q)/(SCALE_DF + nu),
and mu has Student's t with SCALE_DF + nu degrees of freedom (the multivariate t model of Pinheiro, Liu and
Wu 2001; with SCALE_DF = 0 the factor is Hartung and Knapp's 2001).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Frame
from pytest_elo.rating.combine import Combined, TaskFits
from pytest_elo.rating.connectivity import reachability
from pytest_elo.rating.fit import Fit
from pytest_elo.rating.likelihood import expected_score, information, log_likelihood
from pytest_elo.rating.linalg import inverse_spd, multiply
from pytest_elo.rating.quantiles import empirical_quantile
from pytest_elo.rating.scale import ELO_PER_LOGIT, settled

__all__ = ["EQUAL_TASKS", "PRIOR_SD", "SCALE_DF", "TAU_GRID", "TAU_SCALE", "hierarchical"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

PRIOR_SD = 400.0
"""Elo; standard deviation of the prior on mu"""

TAU_SCALE = 150.0
"""Elo; scale of the half-normal prior on tau"""

EQUAL_TASKS = 0.05
"""Prior probability that all tasks share one set of ratings."""

SCALE_DF = 4.0
"""Prior degrees of freedom of the factor on the model's variance. Simulated on 5 to 8 balanced tasks of four
policies with between-task SDs of 0 to 4 standard errors, 95 % intervals cover 94.9 to 96.8 %; with a factor
of exactly 1, 94.1 to 97.3 %, and 93.6 to 96.8 % if 0.12 of the prior stands on equal tasks."""

COARSE_SE = 20.0
"""Elo; where tasks are known better than this the prior and its grid shrink with them. On nearly saturated
pass/fail items everything happens within a few Elo, which a grid in steps of 10 does not see."""

TAU_GRID = np.array([0, 10, 20, 30, 40, 55, 70, 90, 110, 135, 160, 200, 250, 310, 380], dtype=np.float64)
"""Elo"""

_NEWTON_STEPS = 40
_LEAST_DISPERSION = 1e-3


@dataclass(frozen=True, slots=True)
class _Mode:
    mu: Floats
    """(G, n)"""
    inverse: Floats
    """(G, n, n) covariance of mu given tau"""
    maps: Floats
    """(G, T, n, n): covariance of mu times A_t H_t, what an error of task t's own fit does to mu"""
    evidence: Floats
    """(G,) log, with the factor on the variance integrated out"""
    scale: Floats
    """(G,) expected factor on the model's variance"""


def hierarchical(tasks: TaskFits, axes: Frame) -> tuple[Combined, float | None]:
    """ΔElo to a population of tasks, and the posterior mean of tau in Elo (``None`` with one task)."""
    anchor = tasks.anchor
    live = tasks.groups.present.any(axis=1)
    phi = _dispersion(tasks, axes)
    scores = (tasks.wins + 0.5 * tasks.ties) / phi[:, None, None]
    several = int(live.sum()) > 1
    unit = _unit(tasks)
    grid = unit * (TAU_GRID if several else TAU_GRID[:1]) / ELO_PER_LOGIT
    freedom = _freedom(tasks) if several else 0
    mode = _fit(
        scores,
        tasks.groups.fit,
        (tasks.wins / phi[:, None, None], tasks.ties / phi[:, None, None]),
        grid,
        freedom,
    )
    weight = _posterior(mode.evidence, grid, unit)
    mu = np.einsum("g,gn->n", weight, mode.mu)
    off = mode.mu - mu
    spread = mode.scale[:, None, None] * mode.inverse + off[:, :, None] * off[:, None, :]
    covariance = np.einsum("g,gij->ij", weight, spread)
    contrast = covariance - covariance[:, anchor, None] - covariance[None, anchor, :] + covariance[anchor, anchor]
    edges: Booleans = np.any((tasks.wins > 0.0) | (tasks.ties > 0.0), axis=0)
    reach = reachability(edges)
    present: Booleans = np.any(tasks.groups.present, axis=0)
    valid = reachability(edges | edges.T)[:, anchor] & present & present[anchor]
    value = np.where(valid, settled(mu - mu[anchor]), np.nan)
    maps = np.einsum("g,gtij->tij", weight, mode.maps)
    raw = np.zeros_like(tasks.influence)
    for task in range(len(axes.tasks)):
        rows = axes.unit_task == task
        raw[rows] = np.einsum("ij,uj->ui", maps[task], tasks.raw[rows])
    contrasts = np.where(valid, raw - raw[:, anchor, None], 0.0)
    informative = np.any(tasks.active, axis=1)[:, None] & np.ones_like(tasks.active)
    linear = axes.strata.estimates(value, contrasts, informative)
    weights = tasks.groups.present / np.maximum(tasks.groups.present.sum(axis=0), 1)
    penalised = valid & ~(reach[:, anchor] & reach[anchor])
    df = np.where(valid, SCALE_DF + freedom if several else np.inf, np.nan)
    tau = float((weight * grid).sum() * ELO_PER_LOGIT) if several else None
    return Combined(linear, contrast, weights, penalised, df, method="posterior"), tau


def _freedom(tasks: TaskFits) -> int:
    """Contrasts that tasks estimate beyond those of mu: the degrees of freedom that speak of the variance."""
    present = tasks.groups.present
    joined = tasks.groups.together & present[:, :, None]
    everywhere = reachability(np.any(joined, axis=0))
    members = np.any(present, axis=0)
    estimated = sum(_rank(joined[task], present[task]) for task in range(len(present)))
    return estimated - _rank(everywhere, members)


def _rank(joined: Booleans, present: Booleans) -> int:
    """Policies less components."""
    firsts = joined.argmax(axis=1)[present]
    return int(present.sum()) - len(set(firsts.tolist()))


def _dispersion(tasks: TaskFits, axes: Frame) -> Floats:
    """(T,) cluster-robust over model variance; 1 where it cannot be told."""
    phi = np.ones(len(axes.tasks))
    for task in range(len(axes.tasks)):
        rows = np.flatnonzero(axes.unit_task == task)
        touched = rows[tasks.active[rows].any(axis=1)]
        present = tasks.groups.present[task]
        if len(touched) < 2 or not present.any():
            continue
        spread = tasks.raw[touched] - tasks.raw[touched].mean(axis=0)
        together = tasks.groups.together[task]
        gauge = together / together.sum(axis=1, keepdims=True)
        model = tasks.groups.fit.inverse[task]
        model = model - gauge @ model
        robust = (spread**2).sum() * len(touched) / (len(touched) - 1.0)
        trace = float(np.einsum("ii->i", model)[present].sum())
        if trace > 0.0:
            phi[task] = max(float(robust) / trace, 1.0 if tasks.groups.penalised[task] else _LEAST_DISPERSION)
    return phi


def _unit(tasks: TaskFits) -> float:
    """Shrinks the prior on tau where ties compress the scale: 1, or less in proportion to the median standard
    error of a task's difference where that is below ``COARSE_SE``."""
    variances = np.stack([estimate.variance for estimate in tasks.estimates])
    told = tasks.valid & ~tasks.penalised & (np.nan_to_num(variances) > 1e-12)
    if not told.any():
        return 1.0
    return min(1.0, math.sqrt(empirical_quantile(variances[told], 0.5)) * ELO_PER_LOGIT / COARSE_SE)


def _posterior(evidence: Floats, grid: Floats, unit: float) -> Floats:
    """(G,) posterior weights: trapezoids under the half-normal prior, and the mass on tau = 0."""
    if len(grid) == 1:
        return np.ones(1)
    scale = unit * TAU_SCALE / ELO_PER_LOGIT
    gaps = np.diff(grid)
    width = 0.5 * (np.append(gaps, 0.0) + np.insert(gaps, 0, 0.0))
    prior = np.exp(-0.5 * (grid / scale) ** 2) * width
    prior *= (1.0 - EQUAL_TASKS) / prior.sum()
    prior[0] += EQUAL_TASKS
    weight = np.exp(evidence - evidence.max()) * prior
    return np.asarray(weight / weight.sum())


def _fit(scores: Floats, own: Fit, outcomes: tuple[Floats, Floats], grid: Floats, freedom: int) -> _Mode:
    """Modes of (mu, d) on the grid. ``own`` holds the tasks' own fits, ``freedom`` the degrees of freedom of
    the factor on the variance (0: the factor is 1)."""
    n_tasks, n, _ = scores.shape
    nu = own.nu
    counts = scores + np.swapaxes(scores, -1, -2)
    tau2 = (grid**2)[:, None, None, None]
    precision = (ELO_PER_LOGIT / PRIOR_SD) ** 2
    index = np.arange(n)
    eye = np.eye(n)
    mu = np.zeros((len(grid), n))
    shift = np.zeros((len(grid), n_tasks, n))
    for step in range(_NEWTON_STEPS + 1):
        theta = mu[:, None, :] + shift
        d = theta[..., :, None] - theta[..., None, :]
        gradient = (scores - counts * expected_score(d, nu[:, None, None])).sum(axis=-1)
        hessian = -counts * information(d, nu[:, None, None])
        hessian[..., index, index] -= hessian.sum(axis=-1)
        damped, log_damped = inverse_spd(eye + tau2 * hessian)
        shrunk = np.einsum("gtij,gtjk->gtik", damped, hessian)
        shrunk = 0.5 * (shrunk + np.swapaxes(shrunk, -1, -2))
        inverse, log_information = inverse_spd(precision * eye + shrunk.sum(axis=1))
        pull = gradient + multiply(hessian, shift)
        right = multiply(damped, pull).sum(axis=1) - precision * mu
        move = multiply(inverse, right)
        target = tau2[..., 0] * multiply(damped, pull - multiply(hessian, move[:, None, :]))
        change = target - shift
        longest = np.maximum(np.abs(move).max(axis=-1), np.abs(change).max(axis=(-1, -2), initial=0.0))
        if step == _NEWTON_STEPS or (longest < 1e-9).all():
            break
        damping = 2.0 / np.maximum(longest, 2.0)
        mu = mu + damping[:, None] * move
        shift = shift + damping[:, None, None] * change
    likelihood = _log_likelihood(d, nu, outcomes)
    own_d = own.theta[:, :, None] - own.theta[:, None, :]
    deviance = 2.0 * np.maximum(_log_likelihood(own_d, nu, outcomes) - likelihood, 0.0)
    safe = np.where(grid > 0.0, grid, 1.0) ** 2
    distance = deviance.sum(axis=-1) + (shift**2).sum(axis=(-1, -2)) / safe
    scale, gain = np.ones(len(grid)), np.zeros(len(grid))
    if freedom:
        scale = (SCALE_DF + distance) / (SCALE_DF + freedom)
        gain = 0.5 * distance - 0.5 * (SCALE_DF + freedom) * np.log1p(distance / SCALE_DF)
    evidence = (
        likelihood.sum(axis=-1)
        - 0.5 * (shift**2).sum(axis=(-1, -2)) / safe
        - 0.5 * precision * (mu**2).sum(axis=-1)
        - 0.5 * log_damped.sum(axis=-1)
        - 0.5 * log_information
        + gain
    )
    maps = np.einsum("gij,gtjk->gtik", inverse, shrunk)
    return _Mode(mu, inverse, maps, evidence, scale)


def _log_likelihood(d: Floats, nu: Floats, outcomes: tuple[Floats, Floats]) -> Floats:
    """(..., T) by task."""
    wins, ties = outcomes
    halves = (nu == 0.0)[:, None, None]
    won = np.where(halves, wins + 0.5 * ties, wins)
    tied = np.where(halves, 0.0, 0.5 * ties)
    heights = log_likelihood(d, nu[:, None, None], won, np.zeros(1))
    tie_heights = log_likelihood(d, nu[:, None, None], np.zeros(1), tied)
    return np.asarray((heights + tie_heights).sum(axis=(-1, -2)))
