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
from scipy.special import stdtrit  # the quantiles of Student's t

from .._array import Doubles

Units = NDArray[np.intp]

# The design effect is judged from at least so many errors.
LEAST_ERRORS = 20
# The degrees of freedom of its estimate are at least these, if there are so many units.
LEAST_FREEDOM = 8.0


def are_independent(units: Units | None) -> bool:
    """Return whether no two pairs share a unit."""
    return units is None or int(_count_pairs(units).max(initial=0)) <= 1


def find_largest_share(units: Units) -> float:
    """Return the share of the pairs that the most frequent unit is in."""
    return float(_count_pairs(units).max(initial=0) / max(1, len(units)))


def count_shared_units(units: Units) -> float:
    """Return the effective number of units that are in several pairs; without any, of pairs.

    Examples
    --------
    >>> count_shared_units(np.array([[0, 1], [0, 2], [0, 3], [4, 5], [4, 6], [4, 7]]))
    2.0
    """
    degree = _count_pairs(units)
    return _effective_number(degree) if degree.max(initial=0) > 1 else float(len(units))


def _effective_number(degree: NDArray[np.intp]) -> float:
    """Return (Σv)²/Σv², v = degree (degree − 1): the number of units if these are equally many."""
    shared = degree * (degree - 1.0)
    return float(shared.sum()) ** 2 / float(shared @ shared)


def count_vouching_units(units: Units) -> float:
    """Return the effective number of units that tell how units differ.

    If no unit is first in some pairs and second in others, the two sides, such as probes and
    references, are two samples: the smaller number counts.

    Examples
    --------
    >>> count_vouching_units(np.stack(np.indices((20, 100)), axis=2).reshape(-1, 2) + [0, 20])
    20.0
    """
    counts = [np.bincount(side, minlength=int(units.max()) + 1) for side in units.T]
    if np.any(counts[0] * counts[1]):
        return count_shared_units(units)
    sides = [_effective_number(degree) for degree in counts if degree.max() > 1]
    return min(sides) if sides else float(len(units))


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
    largest_effect : float
        The design effect if all pairs that share a unit are errors together or not at all.
    couple : int array of shape (n_pairs,)
        The number of the couple of units of each pair.
    low, high : int arrays of shape (n_couples,)
        The units of each couple of units that are in a pair together, low ≤ high, in increasing
        order of (low, high).
    size : int array of shape (n_couples,)
        The number of pairs of each couple.
    is_loop : bool array of shape (n_couples,)
        Which couples are twice the same unit.

    Examples
    --------
    >>> sharing = Sharing(np.array([[0, 1], [0, 2], [0, 3], [4, 5], [4, 6], [4, 7]]))
    >>> sharing.degree.tolist(), sharing.n_shared
    ([3, 1, 1, 1, 3, 1, 1, 1], 2.0)
    """

    def __init__(self, units: Units):
        self.units = units
        self.degree = _count_pairs(units)
        self.n_shared = count_shared_units(units)
        n_linked = float(self.degree @ (self.degree - 1.0))
        self.couple, self._codes, self.size = _number_couples(units, len(self.degree))
        self.low, self.high = np.divmod(self._codes, len(self.degree))
        self.is_loop = self.low == self.high
        self._inflation = self._find_inflation()
        size = self.size[~self.is_loop]
        n_linked -= float(size @ (size - 1.0))  # pairs of one couple share two units
        self.largest_effect = 1 + n_linked / len(units)

    def variance(self, rows: NDArray[np.intp]) -> float:
        """Return the variance of the error rate if the pairs in `rows` are the errors.

        This is Σ over all k, l that share a unit of (e_k − p)(e_l − p) / n², from sums per unit
        and per couple of units. The squared sum of a unit is enlarged, because p contains its own
        errors, see `_find_inflation`.
        """
        return self.variance_of(self.excess(rows), self.count_errors(rows))

    def variance_of(self, excess: Doubles, errors: NDArray[np.intp]) -> float:
        """Return the variance of the error rate, from the sums of each unit and of each couple."""
        n_pairs = len(self.units)
        squares = self._inflation * excess**2
        # Those of two units are counted for both.
        couples = (errors - errors.sum() / n_pairs * self.size)[~self.is_loop]
        return float(squares.sum() - couples @ couples) / n_pairs**2

    def count_errors(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the number of the pairs in `rows` of each couple of units."""
        return np.bincount(self.couple[rows], minlength=len(self.size))

    def find_couples(
        self, first: NDArray[np.intp], second: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the numbers of couples of units, and which of these are in a pair together."""
        code = np.minimum(first, second) * len(self.degree) + np.maximum(first, second)
        number = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        return number, self._codes[number] == code

    def _find_inflation(self) -> Doubles:
        """Return by how much the observed mean reduces the squared sum of each unit.

        If each pair is the sum of an effect of either unit, the square is about 1 − 2s + Σs² − 2m
        times what it would be around the true mean: s is the share of the pairs that the unit is
        in, m the mean of these shares over its partners. This is 1 − 1/G for G units with pairs
        of their own, where the result is the usual unbiased variance of a mean, and about
        (1 − 2/G)² for all pairs of G units.
        """
        n_pairs = len(self.units)
        share = self.degree / n_pairs
        partners = np.zeros(len(share))
        different = self.units[self.units[:, 0] != self.units[:, 1]]
        for side in (0, 1):
            np.add.at(partners, different[:, side], share[different[:, 1 - side]])
        partners /= np.maximum(self.degree, 1)
        kept = np.clip(1 - 2 * share + share @ share - 2 * partners, (1 - share) ** 2, 1.0)
        return np.where(self.degree > 1, 1 / np.maximum(kept, n_pairs**-2.0), 1.0)

    def design_effect(self, rows: NDArray[np.intp]) -> float:
        """Return how many times the variance exceeds that of independent pairs, at least 1.

        `rows` are some of the pairs, neither none nor all of them.
        """
        return self._effect_of(self.excess(rows), self.count_errors(rows))

    def _effect_of(self, excess: Doubles, errors: NDArray[np.intp]) -> float:
        rate = float(errors.sum()) / len(self.units)
        variance = self.variance_of(excess, errors)
        return max(1.0, variance * len(self.units) / (rate * (1 - rate)))

    def degrees_of_freedom(self, excess: Doubles, least: float = LEAST_FREEDOM) -> float:
        """Return the degrees of freedom of the variance, by Satterthwaite's rule.

        With r_g the excess of errors of unit g, these are 2/(Σr⁴/(Σr²)² − 1/`n_shared`): fewer if
        few units have most of the errors. They are at most `n_shared` − 1, and at least `least` if
        there are so many, because the fourth powers are a rough estimate.
        """
        squares = excess[self.degree > 1] ** 2
        most = self.n_shared - 1
        if not squares.any():
            return most
        uneven = float(squares @ squares) / float(squares.sum()) ** 2 - 1 / self.n_shared
        return min(most, max(least, 2 / max(uneven, 1e-9)))

    def spread(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the sum of value − mean of each unit, and the variance of the mean.

        Both are those of `variance`, for one number per pair instead of 0 or 1.
        """
        deviations = values - values.mean()
        sums = np.sqrt(self._inflation) * sum_by_unit(self.units, deviations, len(self.degree))
        couples = np.bincount(self.couple, deviations, len(self.size))[~self.is_loop]
        return sums, float(sums @ sums - couples @ couples) / len(values) ** 2

    def worth_of_mean(self, values: NDArray[np.float64], confidence: float) -> float:
        """Return the effective number of pairs for the mean of numbers from 0 to 1, see `worth`.

        It may exceed the number of pairs, because such numbers vary less than 0 and 1. If their
        variance is unknown or 0, it is the number divided by the largest possible effect.
        """
        sums, variance = self.spread(values)
        if self.n_shared <= 1 + 1e-9 or self.degree.max() == len(values) or variance <= 0:
            return len(values) / self.largest_effect
        freedom = self.degrees_of_freedom(sums / np.sqrt(self._inflation))
        normal, wide = stdtrit([len(values) - 1, freedom], confidence)
        mean = float(values.mean())
        return float(mean * (1 - mean) / variance * (normal / wide) ** 2)

    def worth(self, order: NDArray[np.intp], n_errors: float, confidence: float) -> float:
        """Return the effective number of pairs, for a limit at the one-sided `confidence`.

        It is the number divided by the design effect. Few units estimate that effect badly: as
        with Student's t, the number is reduced by the squared ratio of the quantiles. It is at
        least the number divided by the largest possible effect.

        Parameters
        ----------
        order : int array of shape (n_pairs,)
            The pairs, in the order in which they become errors.
        n_errors : float
            For how many errors the number is wanted: the first in `order`. Few errors do not tell
            the design effect. It is judged from at least `LEAST_ERRORS`, and what exceeds 1 is
            reduced by the square root of the ratio of the numbers.
        confidence : float
            The confidence of the limit.
        """
        n_pairs = len(self.units)
        surely = n_pairs / self.largest_effect
        if self.n_shared <= 1 + 1e-9 or self.degree.max() == n_pairs:
            return surely  # nothing tells how much units differ
        least = min(LEAST_ERRORS, n_pairs // 2)
        judged = min(max(round(n_errors), least), n_pairs - least)
        few = max(1.0, min(n_errors, n_pairs - n_errors)) / max(1, min(judged, n_pairs - judged))
        rows = order[:judged]
        effect = 1 + (self.design_effect(rows) - 1) * min(1.0, few) ** 0.5
        normal, wide = stdtrit(
            [n_pairs - 1, self.degrees_of_freedom(self.excess(rows))], confidence
        )
        return max(surely, float(n_pairs / effect * (normal / wide) ** 2))

    def excess(self, rows: NDArray[np.intp]) -> Doubles:
        """Return the errors of each unit, less those at the mean rate."""
        return self.excess_of(self.units[rows])

    def excess_of(self, units: Units) -> Doubles:
        """Return the excess of each unit if pairs of these units are the errors."""
        rate = len(units) / len(self.units)
        return _count_pairs(units, len(self.degree)) - rate * self.degree


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


def sum_by_unit(units: Units, values: NDArray[np.float64], n_units: int) -> NDArray[np.float64]:
    """Return the sum of the values of the pairs of each unit; a pair within one counts once.

    Examples
    --------
    >>> sum_by_unit(np.array([[0, 1], [0, 0]]), np.array([2.0, 3.0]), 2).tolist()
    [5.0, 2.0]
    """
    different = units[:, 0] != units[:, 1]
    first = np.bincount(units[:, 0], values, n_units)
    second = np.bincount(units[different, 1], values[different], n_units)
    return np.asarray(first + second, dtype=float)


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


def _number_couples(
    units: Units, n_units: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of the couple of each pair, and the codes and sizes of the couples."""
    code = np.minimum(units[:, 0], units[:, 1]) * np.intp(n_units)
    code += np.maximum(units[:, 0], units[:, 1])
    if n_units**2 > 4 * len(code):
        codes, couple, size = np.unique(code, return_inverse=True, return_counts=True)
        return couple, codes, size
    size = np.bincount(code, minlength=n_units**2)  # without a sort
    codes = np.flatnonzero(size)
    number = np.empty(len(size), dtype=np.intp)
    number[codes] = np.arange(len(codes))
    return number[code], codes, size[codes]


def _count_pairs(units: Units, n_units: int = 0) -> NDArray[np.intp]:
    """Return the number of pairs of each unit; a pair within one unit counts once."""
    n_units = max(n_units, int(units.max(initial=-1)) + 1)
    different = units[:, 0] != units[:, 1]
    first = np.bincount(units[:, 0], minlength=n_units)
    return first + np.bincount(units[different, 1], minlength=n_units)
