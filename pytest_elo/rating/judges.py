r"""Two-way clustering: votes of one judge lean together as well as votes on one item.

.. math:: C = C_{item} + C_{judge} - C_{item \cap judge}

(Cameron, Gelbach and Miller 2011), each part with its own CR1 factor. Where the difference is not positive
semi-definite, which few judges can cause, the last part is left out: wider, never narrower than the truth.
A cell without a judge is its own item's judge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells
from pytest_elo.rating.groups import Groups, Ties, influence

__all__ = ["two_way_covariance"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def two_way_covariance(
    item_covariance: Floats,
    cells: Cells,
    groups: Groups,
    cell_group: Integers,
    weights: Floats,
    anchor: int,
    mode: Ties,
) -> tuple[Floats, int]:
    """(n, n) covariance of contrasts ``sum_g weights[g] (theta_g - theta_g[anchor])`` and the judge count."""
    lone = cells.n_judges + cells.unit
    judge = np.where(cells.judge >= 0, cells.judge, lone)
    width = int(judge.max(initial=0)) + 1
    by_judge = _cross(cells, groups, cell_group, judge, weights, anchor, mode)
    by_both = _cross(cells, groups, cell_group, cells.unit * width + judge, weights, anchor, mode)
    covariance = item_covariance + by_judge - by_both
    n_judges = len(np.unique(cells.judge[cells.judge >= 0]))
    return (covariance if _is_semidefinite(covariance) else item_covariance + by_judge), n_judges


def _cross(
    cells: Cells,
    groups: Groups,
    cell_group: Integers,
    cluster: Integers,
    weights: Floats,
    anchor: int,
    mode: Ties,
) -> Floats:
    width = len(weights)
    keys, position = np.unique(cluster * width + cell_group, return_inverse=True)
    group = keys % width
    raw = influence(cells, groups, cell_group, position, group, mode)
    contrast = weights[group] * (raw - raw[:, anchor, None])
    owners, owner = np.unique(keys // width, return_inverse=True)
    total = np.zeros((len(owners), raw.shape[1]))
    np.add.at(total, owner, contrast)
    count = len(owners)
    return np.asarray(np.einsum("ki,kj->ij", total, total)) * count / max(count - 1, 1)


def _is_semidefinite(matrix: Floats) -> bool:
    rest = matrix.copy()
    floor = 1e-10 * max(float(np.abs(matrix).max(initial=0.0)), 1e-300)
    for k in range(len(rest)):
        pivot = rest[k, k]
        if pivot < -floor:
            return False
        if pivot <= floor:
            if (np.abs(rest[k, k:]) > 1e4 * floor).any():
                return False
            continue
        rest[k + 1 :, k:] -= rest[k + 1 :, k, None] * (rest[k, k:] / pivot)
    return True
