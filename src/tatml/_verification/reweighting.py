"""The worst reweighting of the identities that their number does not contradict.

If a share h of the identities resemble each other, their matches are h² of all pairs. A sample that
holds few of these identities underestimates the rate of false matches and its variance together.
The identities therefore get weights, which say that a kind of them is more frequent than in the
sample, as far as an empirical likelihood allows it; the rate of the reweighted pairs is an upper
limit. docs/verification.md has the formulas.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import stdtrit  # the quantiles of Student's t

from .._array import Doubles
from .dependence import Sharing

# Couples of matched partners that are looked at: all of a unit, or this many divided by the number
# of units, at least `LEAST_WEDGES`, drawn with one seed.
N_WEDGES, LEAST_WEDGES = 200_000, 100
SEED = 0
# The degrees of freedom of the sum of squares are at least these, if there are so many units.
LEAST_FREEDOM = 4.0
# The parameter of the weights is between these, on a logarithmic scale.
STEEPEST, FLATTEST = -60.0, 60.0


@dataclass(frozen=True)
class Wedges:
    """Couples of compared units with a common partner, both of which match it.

    Parameters
    ----------
    unit : int array of shape (n_wedges,)
        The common partner.
    sides : int array of shape (n_wedges, 2)
        The numbers of the couples of the partner and either unit.
    base : int array of shape (n_wedges,)
        The number of the couple of the two units.
    """

    unit: NDArray[np.intp]
    sides: NDArray[np.intp]
    base: NDArray[np.intp]


class Reweighting:
    """Pairs in the order in which they become errors, whose identities may be reweighted.

    Parameters
    ----------
    sharing : Sharing
        Which pairs share units; its pairs are in the order in which they become errors.
    most : int
        The most errors that are considered.
    resembles : bool
        Whether an error means that the units resemble each other: two matches of one unit tell how
        it would match a second unit of its kind, which the sample lacks.

    Examples
    --------
    >>> units = np.stack(np.triu_indices(40, 1), axis=1)
    >>> clan_first = np.argsort(units.max(axis=1) >= 5, kind="stable")
    >>> reweighting = Reweighting(Sharing(units[clan_first]), 10, resembles=True)
    >>> round(10 / len(units), 3), round(reweighting.upper_rate(10, 0.95), 3)
    (0.013, 0.056)
    """

    def __init__(self, sharing: Sharing, most: int, *, resembles: bool):
        self.sharing, self.most = sharing, most
        self._is_free = sharing.degree > 1
        self._wedges = self._find_wedges() if resembles else None

    def most_errors(self, max_rate: float, confidence: float) -> int:
        """Return the largest number of errors, by bisection, whose upper rate is at most this."""

        def is_too_high(k: int) -> bool:
            return self.upper_rate(k, confidence) > max_rate

        if not is_too_high(self.most):
            return self.most
        return bisect_left(range(self.most), True, key=is_too_high) - 1

    def upper_rate(self, n_errors: int, confidence: float) -> float:
        """Return the rate of the first `n_errors` pairs with the worst weights of the units."""
        if n_errors == 0:
            return 0.0
        sharing, errors = self.sharing, self.count_errors(n_errors)
        weights = self.worst_weights(n_errors, confidence)
        product = weights[sharing.low] * np.where(sharing.is_loop, 1.0, weights[sharing.high])
        twins = weights**2 @ self.twin_errors(errors)
        return float((errors @ product + twins) / (sharing.size @ product))

    def count_errors(self, n_errors: int) -> NDArray[np.intp]:
        """Return how many of the first `n_errors` pairs are of each couple of units."""
        return np.bincount(self.sharing.couple[:n_errors], minlength=len(self.sharing.size))

    def worst_weights(self, n_errors: int, confidence: float) -> Doubles:
        """Return the weight of each unit, with mean 1 over those that are in several pairs."""
        sharing, n_pairs = self.sharing, len(self.sharing.units)
        weights = np.ones(len(sharing.degree))
        excess = sharing.excess_of(sharing.units[:n_errors])
        free = excess[self._is_free]
        spread = float(free @ free) / n_pairs**2
        if spread > 0:
            rate = n_errors / n_pairs
            variance = sharing.variance_of(excess, self.count_errors(n_errors))
            ratio = max(variance, rate * (1 - rate) / n_pairs) / spread
            quantile = float(stdtrit(sharing.degrees_of_freedom(excess, LEAST_FREEDOM), confidence))
            weights[self._is_free] = tilt(free, quantile**2 * correct_for_two(ratio))
        return weights

    def twin_errors(self, errors: NDArray[np.intp]) -> Doubles:
        """Return how many errors each unit would have with a second unit of its kind.

        `errors` are those of each couple of units. The second unit matches as two units do that
        match the same one; what it adds to errors at the mean rate counts.
        """
        sharing, wedges = self.sharing, self._wedges
        n_units, n_pairs = len(sharing.degree), len(sharing.units)
        if wedges is None:
            return np.zeros(n_units)
        both = np.flatnonzero((errors[wedges.sides[:, 0]] > 0) & (errors[wedges.sides[:, 1]] > 0))
        unit, base = wedges.unit[both], wedges.base[both]
        matched = np.bincount(unit, errors[base], n_units)
        compared = np.bincount(unit, sharing.size[base], n_units)
        share = np.divide(matched, compared, out=np.zeros(n_units), where=compared > 0)
        rate = errors.sum() / n_pairs
        return sharing.degree**2 / (4 * n_pairs) * np.maximum(0.0, share - rate)

    def _find_wedges(self) -> Wedges:
        """Return couples of matched partners of each unit, all or some, that were compared."""
        sharing = self.sharing
        n_units = len(sharing.degree)
        errors = self.count_errors(self.most)
        couple = np.flatnonzero((errors > 0) & ~sharing.is_loop)
        ends = np.stack([sharing.low[couple], sharing.high[couple]])
        by_unit = np.argsort(ends.ravel(), kind="stable")
        partner, couple = ends[::-1].ravel()[by_unit], np.tile(couple, 2)[by_unit]
        degree = np.bincount(ends.ravel(), minlength=n_units)
        unit, first, second = draw_couples(degree, max(LEAST_WEDGES, N_WEDGES // n_units))
        offset = np.cumsum(degree) - degree
        first, second = first + offset[unit], second + offset[unit]
        base, is_known = sharing.find_couples(partner[first], partner[second])
        sides = np.stack([couple[first], couple[second]], axis=1)
        return Wedges(unit[is_known], sides[is_known], base[is_known])


def draw_couples(
    sizes: NDArray[np.intp], most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return couples i < j of each group of numbers 0, 1, … of given sizes: the group, i and j.

    If a group has more couples than `most`, so many are drawn, with repetition.

    Examples
    --------
    >>> [part.tolist() for part in draw_couples(np.array([3, 1, 2]), 10)]
    [[0, 0, 0, 2], [0, 0, 1, 0], [1, 2, 2, 1]]
    """
    total = sizes * (sizes - 1) // 2
    count = np.minimum(total, most)
    group = np.repeat(np.arange(len(sizes)), count)
    number = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
    drawn = np.flatnonzero((total > most)[group])
    number[drawn] = np.random.RandomState(SEED).randint(total[group[drawn]])
    larger = ((1 + np.sqrt(8.0 * number + 1)) / 2).astype(np.intp)
    return group, number - larger * (larger - 1) // 2, larger


def correct_for_two(ratio: float) -> float:
    """Return what the squared quantile is multiplied by, for a variance of the rate V = ratio S.

    S is the sum of squares of the units. The ratio is 1 if errors come from single units, and 1/2
    if they are independent, as each pair is in the sums of two units. Between these, weights of
    units must be allowed to differ as much as with the former, unless units hardly matter.
    """
    if not 0.5 < ratio < 1:
        return ratio
    return ratio + (1 - ratio) * min(1.0, 4 * (2 - 1 / ratio))


def tilt(excess: Doubles, distance: float) -> Doubles:
    """Return weights with mean 1 and −2 Σ log w = distance, w ∝ 1/(η − excess).

    Of all weights with this empirical likelihood ratio, Σ w excess is the largest.
    """
    gap = excess.max() - excess
    widest = float(gap.max())
    if widest == 0 or distance <= 0:
        return np.ones(len(excess))

    def weigh(z: float) -> Doubles:
        weights = 1 / (np.exp(z) + gap / widest)
        return weights / weights.mean()

    def missing(z: float) -> float:
        return float(-2 * np.log(weigh(z)).sum()) - distance

    if missing(FLATTEST) >= 0:
        return np.ones(len(excess))
    if missing(STEEPEST) <= 0:
        return weigh(STEEPEST)
    return weigh(brentq(missing, STEEPEST, FLATTEST, xtol=1e-10))
