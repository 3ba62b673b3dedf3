"""Limits of what depends on both kinds of pairs: costs, FNMR at a FMR, equal error rate, AUC.

Each quantity changes with the false match rate (FMR) and with the false non-match rate (FNMR), or
with the similar pairs and with the dissimilar ones. Its distances to the limits are δ = (δ_d² +
δ_s² + 2ρ δ_d δ_s)^½, with those that either kind of pairs causes alone, and the correlation ρ of
both (Zou and Donner's MOVER). The former come from the limits of rates in `rates`, which need no
density and fit few errors; the latter from the units that both kinds share.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from math import atanh, tanh

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from .._array import Doubles
from .dependence import Units, are_independent, count_shared_units
from .rates import N_STEPS, ErrorRate, RankedPairs, mid_limits

Rates = tuple[ErrorRate, ErrorRate]  # the FMR and the FNMR at one threshold
Limits = tuple[float, float]  # lower and upper, or the distances of an estimate from them

# Fewer effective errors than some times this number do not tell the variance of an AUC.
FEW_EVENTS = 2.0
N_SPLITS = 8  # random halves of the pairs, for the optimism of the least cost
SEED = 0


class JointLimits:
    """Two-sided limits of quantities that depend on both kinds of pairs.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        The distances of the pairs.
    similar : bool array of shape (n_pairs,)
        Which pairs are similar; both kinds must occur.
    units : int array of shape (n_pairs, 2) or None
        The numbers of the samples or groups of each pair; None if all pairs are independent.
    ranked : (RankedPairs, RankedPairs)
        The dissimilar pairs and the similar ones.
    confidence : float
        The confidence level of the limits.
    """

    def __init__(
        self,
        distances: Doubles,
        similar: NDArray[np.bool_],
        units: Units | None,
        ranked: tuple[RankedPairs, RankedPairs],
        confidence: float,
    ):
        self.kinds = distances[~similar], distances[similar]
        self.ranked = ranked
        self.confidence = confidence
        self._n_units, self._error = 0, 0.0
        if units is not None and not are_independent(units):
            self._n_units = int(units.max()) + 1
            self._error = 1 / max(1.0, count_shared_units(units)) ** 0.5

    @cached_property
    def _sorted(self) -> tuple[Doubles, Doubles]:
        return np.sort(self.kinds[0]), np.sort(self.kinds[1])

    @cached_property
    def _curve(self) -> tuple[Doubles, Doubles, Doubles]:
        """The thresholds that tell pairs apart, infinity included, with FMR and FNMR."""
        thresholds = np.append(np.unique(np.concatenate(self._sorted)), np.inf)
        fmr, found = (np.searchsorted(x, thresholds) / len(x) for x in self._sorted)
        return thresholds, fmr, 1 - found

    # Costs

    def find_cost(self, threshold: float, rates: Rates, weights: tuple[float, float]) -> Limits:
        """Return the limits of a weighted sum of the FMR and the FNMR at a given threshold."""
        parts = [
            (weight * (rate.value - rate.low), weight * (rate.high - rate.value))
            for weight, rate in zip(weights, rates, strict=True)
        ]
        value = sum(weight * rate.value for weight, rate in zip(weights, rates, strict=True))
        return self._combine(value, parts, self._correlation_at(threshold))

    def find_least_cost(
        self, threshold: float, rates: Rates, weights: tuple[float, float]
    ) -> Limits:
        """Return the limits of the least weighted sum, given the best threshold on these pairs.

        A small change of the best threshold does not change the cost, so that its limits are
        nearly those of a given threshold. But the least of many observed costs is too small: the
        upper limit is raised by the estimated bias. It is at most the cost of accepting all pairs
        or none.
        """
        low, high = self.find_cost(threshold, rates, weights)
        return low, min(high + self._find_optimism(weights), *weights)

    def _find_optimism(self, weights: tuple[float, float]) -> float:
        """Return by how much the least observed cost is too small, from random halves of the pairs.

        The best threshold of one half costs more in the other half. Half of the difference is the
        bias of a half; it decreases with n^(−2/3). Pairs are split whatever their units are: units
        move the costs at near thresholds together, so that they hardly move the best one.
        """
        rng = np.random.RandomState(SEED)
        dissimilar, similar = self._sorted
        distances = np.concatenate([dissimilar, similar])
        steps = np.repeat(
            [weights[0] / len(dissimilar), -weights[1] / len(similar)],
            [len(dissimilar), len(similar)],
        )
        order = np.argsort(distances, kind="stable")
        last = np.append(np.diff(distances[order]) > 0, True)
        excess = []
        for _ in range(N_SPLITS):
            half = rng.permutation(len(order)) % 2 == 0
            costs = [
                np.append(0.0, np.cumsum((2 * steps * rows)[order])[last]) for rows in (half, ~half)
            ]
            best = [int(np.argmin(cost)) for cost in costs]
            excess += [costs[1 - i][best[i]] - costs[i][best[i]] for i in (0, 1)]
        return max(0.0, float(np.mean(excess))) / 2 * 0.5 ** (2 / 3)

    # Rates at chosen thresholds

    def find_fnmr(self, threshold: float, rates: Rates, rate: float) -> Limits:
        """Return the limits of the FNMR at a given FMR, with the observed threshold of that FMR.

        The true threshold lies between two order statistics of the dissimilar distances; the
        observed FNMR at these tells how much it changes the FNMR.

        Parameters
        ----------
        threshold : float
            The threshold that has this FMR on the given pairs.
        rates : (ErrorRate, ErrorRate)
            The FMR and the FNMR at this threshold.
        rate : float
            The FMR.
        """
        dissimilar, similar = self._sorted
        fnmr = rates[1]
        between = [
            -np.inf if k < 0 else np.inf if k == len(dissimilar) else dissimilar[k]
            for k in self._find_range(rate, rates[0].n_effective)
        ]
        earlier, later = 1 - np.searchsorted(similar, between) / len(similar)
        value = fnmr.value
        parts = [
            (max(0.0, value - later), max(0.0, earlier - value)),
            (value - fnmr.low, fnmr.high - value),
        ]
        return _clip(self._combine(value, parts, self._correlation_at(threshold)))

    def _find_range(self, rate: float, worth: float) -> tuple[int, int]:
        """Return the numbers of two dissimilar distances between which the true threshold lies.

        The first is that of the most false matches whose upper limit is at most the FMR, −1 if
        there is none; the second that of the fewest whose lower limit is above it. `worth` is the
        effective number of pairs at this FMR. For the upper limit, that at the geometric mean of
        the FMR and the observed rate is used, as for the limits of a rate; half steps, because the
        number of errors increases with it.
        """
        ranked, risk = self.ranked[0], (1 - self.confidence) / 2
        n_pairs = ranked.n_pairs

        def find(chance: float, worth: float) -> int:
            share = worth / n_pairs

            def is_above(k: int) -> bool:
                return _chance_of_fewer(k * share, worth, rate) > chance

            return bisect_left(range(n_pairs), True, key=is_above)

        most, least = find(1 - risk, worth), find(risk, worth) - 1
        n_errors = max(1.0, rate * n_pairs)
        for _ in range(N_STEPS):
            less = ranked.worth((max(1, least) * n_errors) ** 0.5, 1 - risk)
            found = find(risk, less) - 1
            least = -1 if found < 0 else round((max(1, least) * max(1, found)) ** 0.5)
        return least, most

    def find_equal_error_rate(self) -> Limits:
        """Return the limits of the equal error rate.

        They are combined from the rates at which the curves of FMR and FNMR meet if one of them is
        moved to its limits.
        """
        value, threshold = self._meet(0.0, 0.0)
        parts = []
        for kind, ranked in enumerate(self.ranked):
            rate = ranked.measure(round(value * ranked.n_pairs), self.confidence)
            shifts = rate.low - rate.value, rate.high - rate.value
            low, high = (self._meet(*((0.0, x) if kind else (x, 0.0)))[0] for x in shifts)
            parts.append((max(0.0, value - low), max(0.0, high - value)))
        return _clip(self._combine(value, parts, self._correlation_at(threshold)))

    def _meet(self, more_fmr: float, more_fnmr: float) -> tuple[float, float]:
        """Return the rate and the threshold at which both moved curves meet."""
        thresholds, fmr, fnmr = self._curve
        excess = fmr - fnmr + (more_fmr - more_fnmr)  # from −1 to 1, but for the moves
        after = max(1, int(np.searchsorted(excess, 0.0)))
        share = -excess[after - 1] / (excess[after] - excess[after - 1])
        rate = fmr[after - 1] + share * (fmr[after] - fmr[after - 1]) + more_fmr
        return float(np.clip(rate, 0, 1)), float(thresholds[after])

    # The area under the ROC curve

    def find_auc(self) -> Limits:
        """Return the limits of the AUC.

        With a_k the share of dissimilar pairs that are nearer than the similar pair k, and b_l the
        share of similar pairs that are farther than the dissimilar pair l (ties count half),
        1 − AUC is the mean of either; the deviation of its estimate is the sum of those of both
        means (DeLong). An AUC of 1 has a lower limit below 1, that of pairs without errors.
        """
        nearer = [
            (np.searchsorted(x, y) + np.searchsorted(x, y, side="right")) / (2 * len(x))
            for x, y in zip(self._sorted, self.kinds[::-1], strict=True)
        ]
        values = [1 - nearer[1], nearer[0]]  # of dissimilar, of similar pairs
        mean = float(values[1].mean())
        is_reversed = mean > 0.5
        if is_reversed:
            values, mean = [1 - x for x in values], 1 - mean
        parts = [self._limit_mean(*each) for each in zip(self.ranked, values, strict=True)]
        low, high = _clip(self._combine(mean, parts, self._correlate(values)))
        return (low, high) if is_reversed else (1 - high, 1 - low)

    def _limit_mean(self, ranked: RankedPairs, values: Doubles) -> Limits:
        """Return the distances to the limits of a mean of at most 1/2, as of an error rate.

        Its effective number of errors is m. Where m is small, the variance is hardly known: for
        the upper limit the effective number of pairs is reduced to that of no errors, except for a
        share of m/(m + 2) on a scale of logarithms. Where m is large, the variance increases with
        the mean, about as its square: the number is that at the limit. The cube of the share
        leads from one case to the other.
        """
        mean, each = float(values.mean()), (1 + self.confidence) / 2
        worth, surely = ranked.worth_of_mean(values, each), ranked.worth(1, each)
        low = mid_limits(mean * worth, worth, self.confidence)[0]
        known = mean * worth / (mean * worth + FEW_EVENTS)
        less = min(worth, worth**known * surely ** (1 - known))
        high = mid_limits(mean * less, less, self.confidence)[1]
        less *= (mean / high) ** known**3
        high = mid_limits(mean * less, less, self.confidence)[1]
        return max(0.0, mean - low), max(0.0, high - mean)

    # Both kinds together

    def _correlation_at(self, threshold: float) -> float:
        """Return the correlation of the observed FMR and FNMR at a threshold.

        A negative one makes the limits narrower: it is taken one standard error nearer to 0, that
        of Fisher's transformation with the effective number of units.
        """
        dissimilar, similar = self.kinds
        found = self._correlate(
            [(dissimilar < threshold).astype(float), (similar >= threshold).astype(float)]
        )
        return found if found >= 0 else min(0.0, tanh(atanh(max(found, -0.999)) + self._error))

    def _correlate(self, values: Sequence[NDArray[np.float64]]) -> float:
        """Return the correlation of the means of two numbers, one of each pair of either kind.

        Their covariance is Σ (x_k − x̄)(y_l − ȳ) over the dissimilar pairs k and similar pairs l
        that share a unit, divided by the numbers of pairs.
        """
        if self._n_units == 0:
            return 0.0
        sums, scale = [], 1.0
        for ranked, x in zip(self.ranked, values, strict=True):
            found, variance = ranked.spread(x, self._n_units)
            sums.append(found)
            scale *= max(variance, float(x.var()) / len(x)) * len(x) ** 2
        return float(np.clip(sums[0] @ sums[1] / scale**0.5, -1, 1)) if scale > 0 else 0.0

    @staticmethod
    def _combine(value: float, parts: Sequence[Limits], correlation: float) -> Limits:
        """Return the limits of an estimate from the distances that either kind causes."""
        below, above = (
            max(0.0, a * a + b * b + 2 * correlation * a * b) ** 0.5
            for a, b in zip(*parts, strict=True)
        )
        return value - below, value + above


def _clip(limits: Limits) -> Limits:
    return max(0.0, limits[0]), min(1.0, limits[1])


def _chance_of_fewer(n_errors: float, n_pairs: float, rate: float) -> float:
    """Return the chance of fewer errors plus half the chance of as many, see `mid_limits`."""
    rest = n_pairs - n_errors
    more = betainc(n_errors, rest + 1, rate) if n_errors > 0 else 1.0
    return float(1 - (betainc(n_errors + 1, rest, rate) + more) / 2)
