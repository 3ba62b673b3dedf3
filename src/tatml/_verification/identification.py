"""The false positive identification rate (FPIR): promised for a gallery, expected for a larger one.

A probe of somebody who is not enrolled is a false positive if its best score over the gallery is
above the threshold. The gallery is given; the units are the identities of the probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf, log, nextafter

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .._array import Doubles, Indices
from .calibration import LARGEST_SHARE, RARE_KIND, SEED, find_allowed, find_vouched_share
from .dependence import count_vouching_units, find_disjoint_pairs, find_largest_share
from .rates import RankedPairs, most_errors, pairs_needed
from .targets import CalibrationMethod, Guarantee


@dataclass(frozen=True)
class IdentificationCalibration:
    """How the threshold of a `Gallery` was calibrated: its attribute `calibration_`.

    Parameters
    ----------
    method : {"exact", "proved", "approximate", "quantile"}
        As in `Calibration`: "exact" for one probe per identity; "proved" for one probe of each,
        drawn at random; "approximate" for all of them; "quantile" if nothing is promised.
    n_enrolled : int
        The number of identities that were enrolled.
    max_fpir : float
        The largest false positive identification rate that is allowed.
    confidence : float or None
        The confidence that the true rate is at most `max_fpir`; None if nothing is promised.
    n_errors, n_probes : int
        The number of probes above the threshold, and of all probes.
    n_effective : float
        The number of independent probes that these are worth.
    vouched_share : float or None
        As in `Calibration`, for kinds of probes' identities.
    match_counts : tuple of int
        How many probes have 0, 1, 2, … enrolled identities above the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import Gallery
    >>> people = np.random.default_rng(0).normal(size=(800, 3))
    >>> judge = PairThreshold(preprocessor=people).fit([[0, 1], [2, 3], [4, 5]], [1, -1, -1])
    >>> gallery = Gallery(judge).enrol(people[::80], np.arange(10))
    >>> gallery.calibrate(people[1::2], 1001 + np.arange(400), max_fpir=0.05).calibration_
    IdentificationCalibration(method='exact', n_enrolled=10, max_fpir=0.05, confidence=0.95, \
n_errors=12, n_probes=400, n_effective=400.0, vouched_share=None)
    """

    method: CalibrationMethod
    n_enrolled: int
    max_fpir: float
    confidence: float | None
    n_errors: int
    n_probes: int
    n_effective: float
    vouched_share: float | None
    match_counts: tuple[int, ...] = field(repr=False)


def find_threshold(
    best: Doubles,
    identity: Indices,
    max_fpir: float,
    confidence: float | None,
    guarantee: Guarantee = "approximate",
) -> tuple[float, CalibrationMethod, float]:
    """Return the smallest threshold whose rate is promised, the method, and what probes are worth.

    Parameters
    ----------
    best : array of shape (n_probes,)
        The best score of each probe over the gallery. A false positive is above the threshold.
    identity : int array of shape (n_probes,)
        The number of the identity of each probe; probes of one identity are dependent.
    max_fpir, confidence, guarantee
        As for `Gallery.calibrate`.
    """
    n_probes = len(best)
    if confidence is None:
        k = floor(max_fpir * n_probes + 1e-9)
        return _cut(best, k), "quantile", float(n_probes)
    units = np.stack([identity, identity], axis=1)
    share, needed = find_largest_share(units), pairs_needed(max_fpir, confidence)
    if share > LARGEST_SHARE:
        raise ValueError(
            f"groups: expected no identity with more than {LARGEST_SHARE:.0%} of the probes to "
            f"promise a rate, got one with {share:.0%}"
        )
    ranked = RankedPairs(best, units)
    method: CalibrationMethod = "exact" if ranked.are_independent else guarantee
    if method == "proved":
        best = best[find_disjoint_pairs(units, np.random.RandomState(SEED))]
        k, worth = most_errors(len(best), max_fpir, confidence), float(len(best))
    else:  # nothing tells that two identities of false positives resemble each other
        k, worth = find_allowed(ranked, max_fpir, confidence, resembles=False)
    if k < 0:
        raise ValueError(
            f"max_fpir: expected at least {needed} independent probes to promise a false positive "
            f"identification rate of {max_fpir:g} with confidence {confidence:g}, got {n_probes} "
            f"probes of {len(np.unique(identity))} identities, worth {worth:.0f}; confidence=None "
            "sets the plain quantile"
        )
    return _cut(best, k), method, worth


def find_share(identity: Indices, method: str, confidence: float | None) -> float | None:
    """Return the share of a kind of identities that an approximate promise vouches for."""
    if method != "approximate" or confidence is None:
        return None
    return find_vouched_share(np.stack([identity, identity], axis=1), confidence)


def find_few_identities(identity: Indices, confidence: float) -> str | None:
    """Return a warning if a kind of one identity in ten may be missing from the probes."""
    count = count_vouching_units(np.stack([identity, identity], axis=1))
    needed = pairs_needed(RARE_KIND, confidence)
    if round(count) >= needed:
        return None
    return (
        f"groups: expected probes of at least {needed} identities to promise a false positive "
        f"identification rate, got about {count:.0f}: a kind of one identity in "
        f"{1 / RARE_KIND:.0f} that has more errors than the others may be missing by chance"
    )


def _cut(best: Doubles, k: int) -> float:
    """Return the smallest threshold that at most k of the best scores are above."""
    if k >= len(best):
        return nextafter(float(best.min()), -inf)
    return float(-np.partition(-best, k)[k])


def expected_rate(match_counts: NDArray, n_enrolled: int, n: int) -> float:
    """Return the rate that is expected if n identities are enrolled.

    For n ≤ `n_enrolled` it is the mean over all subsets of n enrolled identities: a probe with m
    matches has none in a random subset with the chance C(N − m, n)/C(N, n). For more it follows the
    power of n with which the rate increases from N/2 to N. One probe more than observed counts as
    a match: the threshold is its score, so that k errors of n probes stand for a rate of (k + 1)/n.

    Parameters
    ----------
    match_counts : int array of shape (at most n_enrolled + 1,)
        How many probes match 0, 1, 2, … enrolled identities.
    n_enrolled, n : int
        The number N of identities that are enrolled, and another one.

    Examples
    --------
    >>> counts = np.array([91, 9])  # nine of 100 probes match one of four identities
    >>> [round(expected_rate(counts, 4, n), 3) for n in (1, 2, 4, 8)]
    [0.025, 0.05, 0.1, 0.2]
    """
    if n > n_enrolled:
        sizes = n_enrolled, n_enrolled // 2
        found, half = (expected_rate(match_counts, n_enrolled, size) for size in sizes)
        power = 1.0
        if half > 0:
            power = log(found / half) / log(n_enrolled / (n_enrolled // 2))
        return min(1.0, found * (n / n_enrolled) ** power)
    match_counts = np.pad(match_counts, (0, 1))
    match_counts[:2] += np.array([-1, 1]) if match_counts[0] else 0
    matches = np.arange(len(match_counts))
    is_left = n_enrolled - matches >= n
    rest = n_enrolled - np.where(is_left, matches, 0)
    chance = gammaln(rest + 1) - gammaln(rest - n + 1)  # of no match, logarithms
    chance -= gammaln(n_enrolled + 1) - gammaln(n_enrolled - n + 1)
    none = np.where(is_left, np.exp(chance), 0.0)
    return float(match_counts @ (1 - none) / match_counts.sum())
