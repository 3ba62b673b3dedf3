"""Exact limits of an error rate from independent pairs, and how many pairs a promise takes.

All functions accept fractional numbers of errors and pairs: an effective number is one.
"""

from __future__ import annotations

from math import ceil, log, log1p

from scipy.optimize import brentq
from scipy.special import betainc, betaincinv  # faster than scipy.stats.beta


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

    def is_kept(k: int) -> bool:
        # The tail of the binomial, written as that of the Beta law, which takes fractions.
        return k < n_pairs and betainc(k * share + 1, total - k * share, max_rate) >= confidence

    low, high = -1, int(n_pairs)  # kept up to low (−1: no number is), not from high on
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_kept(middle) else (low, middle)
    return low


def pairs_needed(max_rate: float, confidence: float) -> int:
    """Return the number of independent pairs without error that a rate takes.

    Examples
    --------
    >>> [pairs_needed(rate, 0.95) for rate in (0.01, 0.001, 0.0001)]
    [299, 2995, 29956]
    """
    n_pairs = ceil(log(1 - confidence) / log1p(-max_rate))
    return max(1, n_pairs)
