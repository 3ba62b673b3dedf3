"""How often pairs are the same, by their predicted probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from .._array import Doubles
from .dependence import Units
from .rates import RankedPairs

N_BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Predicted and observed shares of same pairs, one of each per bin of probability.

    Parameters
    ----------
    predicted, observed, low, high : arrays of shape (n_bins,)
        The mean probability of each bin, the share of its pairs that are the same, and the limits
        of that share.
    counts : int array of shape (n_bins,)
        The number of pairs in each bin.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import report
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, 1, -1, 1, -1, -1], 34)[:200]
    >>> judge = PairThreshold("precomputed").fit(distances, y).calibrate_probability(distances, y)
    >>> report(judge, distances, y, same_rate=0.5).reliability.counts.sum() == 200
    np.True_
    """

    predicted: Doubles
    observed: Doubles
    low: Doubles
    high: Doubles
    counts: NDArray[np.intp]


def measure_reliability(
    probability: Doubles,
    similar: NDArray[np.bool_],
    same_rate: float,
    n_bins: int = N_BINS,
    confidence: float = 0.95,
    units: Units | None = None,
) -> Reliability:
    """Return the reliability of probabilities that hold for a share of same pairs.

    All bins have the same sum of the share of similar pairs and the share of dissimilar pairs;
    there are fewer if many pairs have equal probabilities. If the share of same pairs is not that
    of the given pairs, similar and dissimilar pairs are weighted accordingly. With `units`, the
    limits account for pairs that share them.
    """
    share = np.mean(similar)
    order = np.argsort(probability)
    part = np.cumsum(np.where(similar, 0.5 / share, 0.5 / (1 - share))[order])
    ends = np.searchsorted(part, part[-1] * np.arange(1, n_bins) / n_bins)
    edges = np.unique(probability[order[ends]])
    number = np.searchsorted(edges, probability)
    number = np.unique(number, return_inverse=True)[1]  # bins without pairs are left out
    total = np.bincount(number)
    same = np.bincount(number, similar)
    limits = []
    for k, n_same in enumerate(same):
        rows = number == k
        pairs = RankedPairs(similar[rows].astype(float), None if units is None else units[rows])
        rate = pairs.measure(int(n_same), confidence)
        limits.append((rate.low, rate.high))
    low, high = np.transpose(limits)
    shift = logit(same_rate) - logit(share)  # of the log odds
    weights = np.where(similar, np.exp(shift), 1.0)
    means = np.bincount(number, weights * probability) / np.bincount(number, weights)
    observed, low, high = (
        expit(logit(each) + shift) if shift else each for each in (same / total, low, high)
    )
    return Reliability(means, observed, low, high, total)
