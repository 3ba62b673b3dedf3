"""An error rate with limits that cover the true rate, for pairs that may share units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles
from .dependence import Sharing, Units, are_independent
from .limits import exact_limits, mid_limits

FEW_ERRORS = 30  # Doddington's rule: with fewer errors, a rate is known only roughly
N_STEPS = 3  # of the iteration for the upper limit


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

    Examples
    --------
    >>> import numpy as np
    >>> RankedPairs(np.zeros(100)).measure(0).high  # doctest: +ELLIPSIS
    0.0362...
    """

    def __init__(self, excess: Doubles, units: Units | None = None):
        self.n_pairs = len(excess)
        self._sharing = None
        if units is not None and not are_independent(units):
            self._sharing = Sharing(units)
            self._order = np.argsort(-excess, kind="stable")

    @property
    def are_independent(self) -> bool:
        """Whether no two pairs share a unit."""
        return self._sharing is None

    def worth(self, n_errors: float, confidence: float) -> float:
        """Return the effective number of pairs at a number of errors, see `Sharing.worth`."""
        if self._sharing is None:
            return float(self.n_pairs)
        return self._sharing.worth(self._order, n_errors, confidence)

    def measure(self, n_errors: int, confidence: float = 0.95) -> ErrorRate:
        """Return the rate of the first `n_errors` pairs, with two-sided limits."""
        n_pairs, value = self.n_pairs, n_errors / self.n_pairs
        if self._sharing is None:
            low, high = exact_limits(n_errors, n_pairs, confidence)
            return ErrorRate(value, low, high, n_errors, n_pairs, float(n_pairs), "exact")
        if 2 * n_errors <= n_pairs:
            low, high, worth = _dyadic_limits(self._sharing, self._order, n_errors, confidence)
        else:  # the limits of the pairs that are right
            others = self._order[::-1], n_pairs - n_errors
            least, most, worth = _dyadic_limits(self._sharing, *others, confidence)
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
