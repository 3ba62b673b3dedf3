"""An error rate with limits that cover the true rate, for pairs that may share units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles
from .dependence import Sharing, Units, are_independent, find_disjoint_pairs
from .limits import exact_limits

__all__ = ["FEW_ERRORS", "ErrorRate", "measure_rate"]

FEW_ERRORS = 30  # Doddington's rule: with fewer errors, a rate is known only roughly
LEAST_ERRORS = 10  # the design effect is judged from at least so many errors
SEED = 0


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
        "exact": Clopper and Pearson, for independent pairs. "dyadic": Clopper and Pearson with the
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


def measure_rate(
    errors: NDArray[np.bool_],
    units: Units | None = None,
    confidence: float = 0.95,
    excess: Doubles | None = None,
) -> ErrorRate:
    """Return the rate of errors of pairs, with two-sided limits.

    Parameters
    ----------
    errors : bool array of shape (n_pairs,)
        Which pairs are errors; at least one pair.
    units : int array of shape (n_pairs, 2), optional
        The numbers of the samples or groups of each pair; None if all pairs are independent.
    confidence : float
        Confidence level of the limits.
    excess : array of shape (n_pairs,), optional
        How far each pair is from being right, larger for errors than for other pairs: it tells
        which pairs would be the next errors. Without it, a rate of 0 has a wide upper limit if
        pairs share units.

    Examples
    --------
    >>> import numpy as np
    >>> measure_rate(np.zeros(100, dtype=bool)).high  # doctest: +ELLIPSIS
    0.0362...
    """
    n_pairs, n_errors = len(errors), int(errors.sum())
    value = n_errors / n_pairs
    if units is None or are_independent(units):
        low, high = exact_limits(n_errors, n_pairs, confidence)
        return ErrorRate(value, low, high, n_errors, n_pairs, float(n_pairs), "exact")
    low, high, n_effective = _dyadic_limits(errors, units, confidence, excess)
    return ErrorRate(value, min(low, value), high, n_errors, n_pairs, n_effective, "dyadic")


def _dyadic_limits(
    errors: NDArray[np.bool_], units: Units, confidence: float, excess: Doubles | None
) -> tuple[float, float, float]:
    """Return both limits, and the effective number of pairs.

    Few errors do not tell the design effect: then it is that of the pairs nearest to an error.
    """
    n_pairs, n_errors, each = len(errors), int(errors.sum()), (1 + confidence) / 2
    if excess is None:
        n_effective = _worth_of_errors(errors, units, each)
    else:
        count = min(max(LEAST_ERRORS, n_errors), max(1, n_pairs - LEAST_ERRORS))
        n_effective = Sharing(units).worth(np.argsort(-excess, kind="stable")[:count], each)
    low, high = exact_limits(n_errors * n_effective / n_pairs, n_effective, confidence)
    return low, high, n_effective


def _worth_of_errors(errors: NDArray[np.bool_], units: Units, confidence: float) -> float:
    """Return the effective number of pairs; without errors, that of pairs of disjoint units."""
    if errors.all() or not errors.any():
        return float(len(find_disjoint_pairs(units, np.random.RandomState(SEED))))
    return Sharing(units).worth(np.flatnonzero(errors), confidence)
