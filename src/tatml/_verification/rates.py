"""An error rate with limits that cover the true rate, for pairs that may share units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .dependence import Units, are_independent, find_disjoint_pairs, judge_worth
from .limits import exact_limits

__all__ = ["FEW_ERRORS", "ErrorRate", "measure_rate"]

FEW_ERRORS = 30  # Doddington's rule: with fewer errors, a rate is known only roughly
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
    errors: NDArray[np.bool_], units: Units | None = None, confidence: float = 0.95
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

    Examples
    --------
    >>> import numpy as np
    >>> measure_rate(np.zeros(100, dtype=bool)).high  # doctest: +ELLIPSIS
    0.0362...
    """
    n_pairs, n_errors = len(errors), int(errors.sum())
    n_effective: float = n_pairs
    method: Literal["exact", "dyadic"] = "exact"
    if units is not None and not are_independent(units):
        method = "dyadic"
        n_effective = _worth_of(errors, units, confidence)
    low, high = exact_limits(n_errors * n_effective / n_pairs, n_effective, confidence)
    value = n_errors / n_pairs
    return ErrorRate(value, min(low, value), high, n_errors, n_pairs, float(n_effective), method)


def _worth_of(errors: NDArray[np.bool_], units: Units, confidence: float) -> float:
    """Return the effective number of pairs; without errors, that of pairs of disjoint units."""
    if errors.all() or not errors.any():
        return len(find_disjoint_pairs(units, np.random.RandomState(SEED)))
    return judge_worth(errors, units, (1 + confidence) / 2).n_effective
