"""Pairs that share samples or identities: what they are worth, and which are independent.

A pair belongs to two *units*, its samples or the identities of these; pairs that share a unit are
dependent, others are not. `units` are arrays (n_pairs, 2) of unit numbers from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student

__all__ = [
    "Sharing",
    "Units",
    "are_independent",
    "find_disjoint_pairs",
    "find_largest_share",
    "link_units",
]

Units = NDArray[np.intp]


def are_independent(units: Units | None) -> bool:
    """Return whether no two pairs share a unit."""
    return units is None or int(_count_pairs(units).max(initial=0)) <= 1


def find_largest_share(units: Units) -> float:
    """Return the share of the pairs that the most frequent unit is in."""
    return float(_count_pairs(units).max(initial=0) / max(1, len(units)))


class Sharing:
    """Which pairs share units: answers what the pairs are worth for any set of errors.

    Parameters
    ----------
    units : int array of shape (n_pairs, 2)
        The numbers of the two units of each pair.

    Attributes
    ----------
    degree : array of shape (n_units,)
        The number of pairs of each unit; a pair within one unit counts once.
    n_shared : float
        The effective number of units that are in several pairs: (Σv)²/Σv², v = degree (degree − 1).

    Examples
    --------
    >>> sharing = Sharing(np.array([[0, 1], [0, 2], [0, 3], [4, 5], [4, 6], [4, 7]]))
    >>> sharing.degree.tolist(), sharing.n_shared
    ([3, 1, 1, 1, 3, 1, 1, 1], 2.0)
    """

    def __init__(self, units: Units):
        self.units = units
        self.degree = _count_pairs(units)
        shared = self.degree * (self.degree - 1.0)
        square = float(shared @ shared)
        self.n_shared = float(shared.sum()) ** 2 / square if square else float(len(units))
        low, high = units.min(axis=1), units.max(axis=1)
        code = low * np.intp(len(self.degree)) + high
        _, self._couple, self._size = np.unique(code, return_inverse=True, return_counts=True)
        self._is_loop = np.zeros(len(self._size), dtype=bool)
        self._is_loop[self._couple[low == high]] = True

    def variance(self, rows: NDArray[np.intp]) -> float:
        """Return the variance of the error rate if the pairs in `rows` are the errors.

        This is Σ over all k, l that share a unit of (e_k − p)(e_l − p) / n², from sums per unit
        and per couple of units. The sum of a unit is divided by 1 − its share of the pairs,
        because the mean p contains its errors.
        """
        n_pairs = len(self.units)
        rate = len(rows) / n_pairs
        found = _count_pairs(self.units[rows], len(self.degree)) - rate * self.degree
        found = found / np.maximum(1 - self.degree / n_pairs, 1 / n_pairs)
        errors = np.bincount(self._couple[rows], minlength=len(self._size))
        couples = (errors - rate * self._size)[~self._is_loop]  # counted for both of their units
        return float(found @ found - couples @ couples) / n_pairs**2

    def design_effect(self, rows: NDArray[np.intp]) -> float:
        """Return how many times the variance exceeds that of independent pairs, at least 1."""
        rate = len(rows) / len(self.units)
        if not 0 < rate < 1:
            return 1.0
        return max(1.0, self.variance(rows) * len(self.units) / (rate * (1 - rate)))

    def worth(self, rows: NDArray[np.intp], confidence: float) -> float:
        """Return the effective number of pairs, for a limit at the one-sided `confidence`.

        It is the number divided by the design effect. Few units estimate that effect badly: as
        with Student's t, the number is reduced by the squared ratio of the quantiles.
        """
        if self.n_shared <= 1 + 1e-9:
            return 0.0
        n_pairs = len(self.units)
        normal, few = student.ppf(confidence, [n_pairs - 1, self.degrees_of_freedom(rows)])
        return float(n_pairs / self.design_effect(rows) * (normal / few) ** 2)

    def degrees_of_freedom(self, rows: NDArray[np.intp]) -> float:
        """Return the degrees of freedom of the variance, by Satterthwaite's rule.

        With r_g the excess of errors of unit g, these are 2/(Σr⁴/(Σr²)² − 1/`n_shared`), at most
        `n_shared` − 1: fewer if few units have most of the errors.
        """
        rate = len(rows) / len(self.units)
        excess = _count_pairs(self.units[rows], len(self.degree)) - rate * self.degree
        squares = excess[self.degree > 1] ** 2
        most = self.n_shared - 1
        if not squares.any():
            return most
        uneven = float(squares @ squares) / float(squares.sum()) ** 2 - 1 / self.n_shared
        return min(most, max(1.0, 2 / max(uneven, 1e-9)))


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


def _count_pairs(units: Units, n_units: int = 0) -> NDArray[np.intp]:
    """Return the number of pairs of each unit; a pair within one unit counts once."""
    n_units = max(n_units, int(units.max(initial=-1)) + 1)
    different = units[:, 0] != units[:, 1]
    first = np.bincount(units[:, 0], minlength=n_units)
    return first + np.bincount(units[different, 1], minlength=n_units)
