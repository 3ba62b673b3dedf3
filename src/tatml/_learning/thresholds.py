"""Thresholds for given distances by TATML's criterion."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles
from .._data.pairs import Pairs
from .._optim.problem import best_threshold, squared_hinge
from .._warnings import warn_user

ONE_SIDED = 0.95  # share of both kinds of pairs on one side of a threshold that is of no use
LEAST_CHECKED, MOST_CHECKED = 10, 1000  # pairs of each kind that a threshold is checked on
LEAST_ACCURACY = 0.6  # balanced accuracy of a threshold that is worth naming


def threshold_of(b0: float, margin: tuple[float, float]) -> float:
    """Return the geometric mean of the margins √(γ_s b0) and √(γ_d b0)."""
    return sqrt(max(b0, 0.0) * sqrt(margin[0] * margin[1]))  # theory (T)


def b0_of(threshold: float, margin: tuple[float, float]) -> float:
    """Return the b0 that belongs to a threshold, the inverse of `threshold_of`."""
    return threshold * threshold / sqrt(margin[0] * margin[1])  # theory (T)


def learn_b0(
    squared: Doubles,
    pairs: Pairs,
    margin: tuple[float, float],
    strength: float,
    mu0: float | None = None,
) -> float:
    """Return the b0 that minimises TATML's criterion for fixed squared distances.

    The criterion is Σ_k w_k [y_k (D_k − γ_k b0)]_+² / Σ_k w_k + ρ (b0 − μ0)², where ρ is
    `strength`. The default of μ0 is the b0 of the root mean squared distance.
    """
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    unit = float(np.average(squared, weights=weights))  # makes the result independent of units
    if unit == 0:
        if mu0 is None:
            return 0.0
        unit = mu0
    share = Pairs(pairs.index, pairs.similar, weights / weights.sum())  # theory (B0)
    centre = b0_of(1.0, margin) if mu0 is None else mu0 / unit
    loss = squared_hinge(share, 1.0, margin)
    return unit * best_threshold(squared / unit, loss, strength, centre)


def some_of_each_kind(pairs: Pairs, most: int = MOST_CHECKED) -> Pairs:
    """Return at most `most` pairs of each kind, evenly spaced among those of positive weight."""
    counts = np.ones(len(pairs), dtype=bool) if pairs.weights is None else pairs.weights > 0
    rows = [np.flatnonzero(counts & (pairs.similar == kind)) for kind in (True, False)]
    return pairs.take(np.concatenate([some[:: -(-len(some) // most) or 1] for some in rows]))


def is_one_sided(distances: Doubles, similar: NDArray[np.bool_], threshold: float) -> bool:
    """Return whether nearly all pairs of both kinds are on one side of a threshold.

    Fewer than ten pairs of a kind do not count.
    """
    if min(np.sum(similar), np.sum(~similar)) < LEAST_CHECKED:
        return False
    below = _shares_below(distances, similar, threshold)
    return min(below) >= ONE_SIDED or max(below) <= 1 - ONE_SIDED


def warn_if_one_sided(distances: Doubles, similar: NDArray[np.bool_], threshold: float) -> None:
    """Warn if nearly all training pairs of both kinds are on one side of a threshold."""
    if not is_one_sided(distances, similar, threshold):
        return
    near, far = _shares_below(distances, similar, threshold)
    better, accuracy = _most_accurate(distances, similar)
    advice = (
        f"The threshold {better:.3g} has a balanced accuracy of {accuracy:.2f} on these pairs: "
        "call calibrate_threshold with held-out pairs, or set_threshold"
    )
    if accuracy < LEAST_ACCURACY:
        advice = f"No threshold has a balanced accuracy above {accuracy:.2f} on these pairs"
    warn_user(
        f"threshold_: {threshold:.3g} separates hardly any training pairs: {100 * near:.0f} % of "
        f"the similar and {100 * far:.0f} % of the dissimilar ones are closer. {advice}"
    )


def _shares_below(
    distances: Doubles, similar: NDArray[np.bool_], threshold: float
) -> tuple[float, float]:
    """Return which shares of the similar and of the dissimilar pairs are closer."""
    below = distances < threshold
    return float(np.mean(below[similar])), float(np.mean(below[~similar]))


def _most_accurate(distances: Doubles, similar: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold with the largest balanced accuracy, and this accuracy."""
    near, far = (np.sort(distances[kind]) for kind in (similar, ~similar))
    ends = np.unique(distances)  # beyond all of them, the accuracy is that below the first
    correct = np.searchsorted(near, ends) / len(near) + 1 - np.searchsorted(far, ends) / len(far)
    best = int(np.argmax(correct))
    return float((ends[max(best - 1, 0)] + ends[best]) / 2), float(correct[best] / 2)
