"""Pairs that share samples or identities: what they are worth, and which are independent.

A pair belongs to two *units*, its samples or the identities of these; pairs that share a unit are
dependent, others are not. `units` are arrays (n_pairs, 2) of unit numbers from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student

from .._array import Doubles

__all__ = [
    "Units",
    "Worth",
    "are_independent",
    "dyadic_variance",
    "find_disjoint_pairs",
    "find_largest_share",
    "judge_worth",
    "link_units",
]

Units = NDArray[np.intp]


@dataclass(frozen=True)
class Worth:
    """What dependent pairs are worth.

    Parameters
    ----------
    n_effective : float
        The number of independent pairs that would tell as much.
    design_effect : float
        How many times the variance of the rate exceeds that of independent pairs, at least 1.
    n_units : float
        The effective number of units that are in several pairs.
    """

    n_effective: float
    design_effect: float
    n_units: float


def are_independent(units: Units | None) -> bool:
    """Return whether no two pairs share a unit."""
    return units is None or int(_degrees(units).max(initial=0)) <= 1


def find_largest_share(units: Units) -> float:
    """Return the share of the pairs that the most frequent unit is in."""
    return float(_degrees(units).max(initial=0) / max(1, len(units)))


def dyadic_variance(errors: NDArray[np.bool_], units: Units) -> float:
    """Return the variance of the error rate of pairs that share units.

    This is Σ over all k, l that share a unit of (e_k − p)(e_l − p) / n², computed from sums per
    unit and per couple of units. The sum of a unit is divided by 1 − its share of the pairs: the
    mean p contains its errors.
    """
    n_pairs, degree = len(errors), _degrees(units)
    excess = errors - errors.mean()
    per_unit = _sum_by_unit(excess, units) / np.maximum(1 - degree / n_pairs, 1 / n_pairs)
    return float((per_unit @ per_unit - _sum_by_couple(excess, units)) / n_pairs**2)


def judge_worth(errors: NDArray[np.bool_], units: Units, confidence: float) -> Worth:
    """Return what the pairs are worth for a limit at the one-sided `confidence`.

    The design effect is the variance relative to that of independent pairs. Few units estimate
    it badly: as with Student's t, the number is reduced by the squared ratio of the quantiles.
    """
    n_pairs, degree = len(errors), _degrees(units)
    shared = degree * (degree - 1.0)
    n_units = float(shared.sum() ** 2 / (shared @ shared)) if shared.any() else float(n_pairs)
    rate = float(errors.mean())
    independent = rate * (1 - rate) / n_pairs
    effect = max(1.0, dyadic_variance(errors, units) / independent) if independent > 0 else 1.0
    if n_units <= 1 + 1e-9:
        return Worth(0.0, effect, n_units)
    quantiles = student.ppf(confidence, [n_pairs - 1, n_units - 1])
    return Worth(n_pairs / effect * (quantiles[0] / quantiles[1]) ** 2, effect, n_units)


def find_disjoint_pairs(units: Units, rng: Any) -> NDArray[np.intp]:
    """Return the numbers of pairs no two of which share a unit, drawn at random.

    The pairs are taken in random order, each unless it shares a unit with one taken before. The
    rounds below find all pairs that come first in both of their units at once.
    """
    rank = np.empty(len(units), dtype=np.intp)
    rank[rng.permutation(len(units))] = np.arange(len(units))
    left, taken = np.arange(len(units)), []
    first = np.empty(int(units.max(initial=-1)) + 1, dtype=np.intp)
    while len(left):
        first[:] = len(units)
        np.minimum.at(first, units[left].ravel(), np.repeat(rank[left], 2))
        chosen = np.all(first[units[left]] == rank[left, None], axis=1)
        taken.append(left[chosen])
        is_used = np.zeros(len(first), dtype=bool)
        is_used[units[left[chosen]]] = True
        left = left[~is_used[units[left]].any(axis=1)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *taken]))


def link_units(units: Units) -> Units:
    """Return the number of the cluster of each member: units linked by pairs are in one cluster.

    Examples
    --------
    >>> link_units(np.array([[0, 1], [1, 2], [3, 4]])).tolist()
    [[0, 0], [0, 0], [1, 1]]
    """
    n_units = int(units.max(initial=-1)) + 1
    links = coo_array((np.ones(len(units)), (units[:, 0], units[:, 1])), (n_units, n_units))
    return connected_components(links, directed=False)[1].astype(np.intp)[units]


def _degrees(units: Units) -> Doubles:
    """Return the number of pairs of each unit; a pair within one unit counts once."""
    return _sum_by_unit(np.ones(len(units)), units)


def _sum_by_unit(values: Doubles, units: Units) -> Doubles:
    n_units = int(units.max(initial=-1)) + 1
    second = np.where(units[:, 0] == units[:, 1], 0.0, values)
    first = np.bincount(units[:, 0], values, n_units)
    return (first + np.bincount(units[:, 1], second, n_units)).astype(np.float64)


def _sum_by_couple(values: Doubles, units: Units) -> float:
    """Return Σ r_gh² over couples of two different units g, h, with r_gh the sum of their pairs."""
    low, high = units.min(axis=1), units.max(axis=1)
    code = low * (int(units.max(initial=0)) + 1) + high
    number = np.unique(code[low < high], return_inverse=True)[1]
    sums = np.bincount(number, values[low < high])
    return float(sums @ sums)
