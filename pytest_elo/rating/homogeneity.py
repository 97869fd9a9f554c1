"""Do the tasks share one set of ratings? What pooling silently assumes."""

from __future__ import annotations

import numpy as np

from pytest_elo.rating.combine import TaskFits
from pytest_elo.rating.quantiles import chi_square_survival

__all__ = ["homogeneity_p"]


def homogeneity_p(tasks: TaskFits) -> float | None:
    """P value of "every ΔElo is the same in all tasks"; ``None`` where fewer than two tasks can be compared.

    Cochran's Q of each policy's per-task differences with their cluster-robust variances, chi-square with
    T - 1 degrees of freedom, the smallest of the policies' p values times their number (Bonferroni).
    """
    variances = np.stack([estimate.variance for estimate in tasks.estimates]) if tasks.estimates else None
    if variances is None:
        return None
    usable = tasks.valid & ~tasks.penalised & (np.nan_to_num(variances) > 1e-12)
    p_values = []
    for policy in range(usable.shape[1]):
        rows = usable[:, policy]
        if policy == tasks.anchor or rows.sum() < 2:
            continue
        weight, value = 1.0 / variances[rows, policy], tasks.delta[rows, policy]
        centre = float((weight * value).sum() / weight.sum())
        statistic = float((weight * (value - centre) ** 2).sum())
        p_values.append(chi_square_survival(statistic, int(rows.sum()) - 1))
    return min(1.0, len(p_values) * min(p_values)) if p_values else None
