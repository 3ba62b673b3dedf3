"""Thresholds for given distances by TATML's criterion."""

from __future__ import annotations

from math import sqrt

import numpy as np

from .._array import Doubles
from .._data.pairs import Pairs
from .._optim.problem import best_threshold, squared_hinge

__all__ = ["b0_of", "learn_b0", "threshold_of"]


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
