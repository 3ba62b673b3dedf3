"""An error rate with limits that cover the true rate, for pairs that may share units.

All functions accept fractional numbers of errors and pairs: an effective number is one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, log, log1p
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, ndtri, stdtrit  # faster than scipy.stats

from .._array import Doubles
from .dependence import LEAST_ERRORS, Sharing, Units, are_independent, sum_by_unit
from .reweighting import Reweighting

FEW_ERRORS = 30  # Doddington's rule: with fewer errors, a rate is known only roughly
N_STEPS = 3  # of the iteration for the upper limit
# From `LEAST_ERRORS` and up to this rate, the upper limit is at least that of reweighted units.
REWEIGHTED = 0.2


def upper_limit(n_errors: float, n_pairs: float, confidence: float) -> float:
    """Return the one-sided upper limit of Clopper and Pearson for an error rate.

    Examples
    --------
    >>> round(upper_limit(0, 299, 0.95), 4)  # no error in 299 pairs
    0.01
    """
    if n_errors >= n_pairs:
        return 1.0
    return float(betaincinv(n_errors + 1, n_pairs - n_errors, confidence))


def exact_limits(n_errors: float, n_pairs: float, confidence: float) -> tuple[float, float]:
    """Return the two-sided limits of Clopper and Pearson for an error rate.

    Examples
    --------
    >>> low, high = exact_limits(0, 100, 0.95)
    >>> low, round(high, 3)
    (0.0, 0.036)
    """
    each = (1 + confidence) / 2
    low = 1 - upper_limit(n_pairs - n_errors, n_pairs, each) if n_errors > 0 else 0.0
    return low, upper_limit(n_errors, n_pairs, each)


def mid_limits(n_errors: float, n_pairs: float, confidence: float) -> tuple[float, float]:
    """Return the two-sided mid-p limits of an error rate.

    At the upper limit, the chance of fewer errors plus half the chance of as many is
    (1 − confidence)/2. Clopper and Pearson count all of the latter: for whole numbers they cover
    the rate more often than they say. An effective number of pairs is an estimate anyway.

    Examples
    --------
    >>> low, high = mid_limits(0, 100, 0.95)
    >>> low, round(high, 3)
    (0.0, 0.03)
    """
    risk = (1 - confidence) / 2
    low = 1 - _mid_upper(n_pairs - n_errors, n_pairs, risk) if n_errors > 0 else 0.0
    return low, _mid_upper(n_errors, n_pairs, risk)


def _mid_upper(n_errors: float, n_pairs: float, risk: float) -> float:
    rest = n_pairs - n_errors
    if rest <= 0:
        return 1.0

    def excess(rate: float) -> float:  # the mid-p tail of the binomial, as those of Beta laws
        more = betainc(n_errors, rest + 1, rate) if n_errors > 0 else 1.0
        return float(1 - (betainc(n_errors + 1, rest, rate) + more) / 2) - risk

    most = float(betaincinv(n_errors + 1, rest, 1 - risk))
    least = float(betaincinv(n_errors, rest + 1, 1 - risk)) if n_errors > 0 else 0.0
    if not excess(least) > 0 > excess(most):  # both are the limit, but for rounding
        return most
    return float(brentq(excess, least, most, xtol=1e-15, rtol=1e-10))


def most_errors(
    n_pairs: int, max_rate: float, confidence: float, n_effective: float | None = None
) -> int:
    """Return the most errors that leave the upper limit of the rate at `max_rate`; −1 if none do.

    With n independent distances, the threshold at the (k + 1)-th smallest has a true rate with the
    law Beta(k + 1, n − k). It is at most α with the wanted confidence if and only if
    P(Bin(n, α) ≤ k) ≤ 1 − confidence; k is the largest such number. With `n_effective`, the limit
    is that of k n_effective / n errors in `n_effective` pairs.

    Examples
    --------
    >>> most_errors(298, 0.01, 0.95), most_errors(299, 0.01, 0.95), most_errors(1000, 0.01, 0.95)
    (-1, 0, 4)
    """
    if n_effective is not None and n_effective <= 0:
        return -1
    share = 1.0 if n_effective is None else n_effective / n_pairs
    total = n_pairs * share

    def is_too_many(k: int) -> bool:
        # The tail of the binomial, written as that of the Beta law, which takes fractions.
        return betainc(k * share + 1, total - k * share, max_rate) < confidence

    return bisect_left(range(n_pairs), True, key=is_too_many) - 1


def pairs_needed(max_rate: float, confidence: float) -> int:
    """Return the number of independent pairs without error that a rate takes.

    Examples
    --------
    >>> [pairs_needed(rate, 0.95) for rate in (0.01, 0.001, 0.0001)]
    [299, 2995, 29956]
    """
    n_pairs = ceil(log(1 - confidence) / log1p(-max_rate))
    return max(1, n_pairs)


@dataclass(frozen=True)
class ErrorRate:
    """The rate of one kind of error, with two-sided limits.

    Parameters
    ----------
    value : float
        The observed rate, `n_errors` / `n_pairs`.
    low, high : float
        The limits of the true rate. `high` is above 0 also if no error was observed.
    n_errors : int
        The number of errors.
    n_pairs : int
        The number of pairs that can have this error.
    n_effective : float
        The number of independent pairs that these are worth.
    method : {"exact", "dyadic"}
        "exact": Clopper and Pearson, for independent pairs. "dyadic": mid-p limits with the
        effective number of pairs that share samples or groups.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import error_rates
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> rates = error_rates(PairThreshold("precomputed").fit(distances, y), distances, y)
    >>> rates.false_match.method, rates.false_match.n_pairs
    ('exact', 100)
    """

    value: float
    low: float
    high: float
    n_errors: int
    n_pairs: int
    n_effective: float
    method: Literal["exact", "dyadic"]


class RankedPairs:
    """Pairs of one kind, in the order in which they become errors.

    Parameters
    ----------
    excess : array of shape (n_pairs,)
        How far each pair is from being right: at any threshold, the errors are the pairs with the
        largest numbers.
    units : int array of shape (n_pairs, 2), optional
        The numbers of the samples or groups of each pair; None if all pairs are independent.
    resembles : bool, default=False
        Whether an error means that the units resemble each other, see `Reweighting`.

    Attributes
    ----------
    sharing : Sharing or None
        Which pairs share units; None if all pairs are independent. Its pairs are in the order in
        which they become errors.

    Examples
    --------
    >>> import numpy as np
    >>> RankedPairs(np.zeros(100)).measure(0).high  # doctest: +ELLIPSIS
    0.0362...
    """

    def __init__(self, excess: Doubles, units: Units | None = None, resembles: bool = False):
        self.n_pairs, self._resembles = len(excess), resembles
        self._units, self.sharing = units, None
        if units is not None and not are_independent(units):
            self._order = np.argsort(-excess, kind="stable")
            self.sharing = Sharing(units[self._order])
            self._rows = np.arange(self.n_pairs)

    @property
    def are_independent(self) -> bool:
        """Whether no two pairs share a unit."""
        return self.sharing is None

    def worth(self, n_errors: float, confidence: float) -> float:
        """Return the effective number of pairs at a number of errors, see `Sharing.worth`."""
        if self.sharing is None:
            return float(self.n_pairs)
        return self.sharing.worth(self._rows, n_errors, confidence)

    def worth_of_mean(self, values: Doubles, confidence: float) -> float:
        """Return the effective number of pairs for a mean, see `Sharing.worth_of_mean`."""
        if self.sharing is not None:
            return self.sharing.worth_of_mean(values[self._order], confidence)
        if self.n_pairs < 2 or np.ptp(values) == 0:
            return float(self.n_pairs)
        mean, variance = float(values.mean()), float(values.var(ddof=1))
        ratio = ndtri(confidence) / stdtrit(self.n_pairs - 1, confidence)
        return float(self.n_pairs * mean * (1 - mean) / variance * ratio**2)

    def spread(self, values: Doubles, n_units: int) -> tuple[Doubles, float]:
        """Return sums per unit, of which there are `n_units`, and a variance: `Sharing.spread`."""
        if self.sharing is None:
            assert self._units is not None
            sums = sum_by_unit(self._units, values - values.mean(), n_units)
            return sums, float(values.var()) / self.n_pairs
        sums, variance = self.sharing.spread(values[self._order])
        return np.pad(sums, (0, n_units - len(sums))), variance

    def measure(self, n_errors: int, confidence: float = 0.95) -> ErrorRate:
        """Return the rate of the first `n_errors` pairs, with two-sided limits."""
        n_pairs, value = self.n_pairs, n_errors / self.n_pairs
        if self.sharing is None:
            low, high = exact_limits(n_errors, n_pairs, confidence)
            return ErrorRate(value, low, high, n_errors, n_pairs, float(n_pairs), "exact")
        if 2 * n_errors <= n_pairs:
            low, high, worth = _dyadic_limits(self.sharing, self._rows, n_errors, confidence)
            if n_errors >= LEAST_ERRORS and value <= REWEIGHTED:
                reweighting = Reweighting(self.sharing, n_errors, resembles=self._resembles)
                high = max(high, reweighting.upper_rate(n_errors, (1 + confidence) / 2))
                high = min(high, 1.0)
        else:  # the limits of the pairs that are right
            others = self._rows[::-1], n_pairs - n_errors
            least, most, worth = _dyadic_limits(self.sharing, *others, confidence)
            low, high = 1 - most, 1 - least
        return ErrorRate(value, low, high, n_errors, n_pairs, worth, "dyadic")


def _dyadic_limits(
    sharing: Sharing, order: NDArray[np.intp], n_errors: int, confidence: float
) -> tuple[float, float, float]:
    """Return both limits of a rate of at most 1/2, and the effective number of pairs.

    The design effect increases with the rate. For the lower limit and for the number that is
    returned it is that of the observed rate. For the upper limit it is that of the geometric mean
    of the observed rate and the limit: pairs that happen to have few errors tell too little of it.
    """
    n_pairs, each = len(order), (1 + confidence) / 2
    value, known = n_errors / n_pairs, max(1, n_errors)
    worth = sharing.worth(order, known, each)
    low, high = mid_limits(value * worth, worth, confidence)
    for _ in range(N_STEPS):
        less = sharing.worth(order, (known * high * n_pairs) ** 0.5, each)
        high = mid_limits(value * less, less, confidence)[1]
    return min(low, value), max(high, value), worth
