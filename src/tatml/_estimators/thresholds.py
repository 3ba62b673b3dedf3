"""Thresholds for given distances: by TATML's criterion, or calibrated to a target.

A pair is predicted to be the same if its distance is below the threshold.
"""

from __future__ import annotations

from math import nextafter, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from .._array import Doubles
from .._data.pairs import Pairs
from .._messages import shown
from .._optim.problem import best_threshold, squared_hinge
from .._validation import check_choice, check_finite, check_rate

__all__ = [
    "CALIBRATION_STRATEGIES",
    "CalibrationStrategy",
    "b0_of",
    "calibrated_threshold",
    "check_both_count",
    "check_target",
    "equal_error_rate",
    "learn_b0",
    "threshold_of",
]

CalibrationStrategy = Literal["accuracy", "f_beta", "max_tpr", "max_tnr", "false_match_rate"]

LARGEST_BETA = 1e100  # the square of a larger beta could overflow
CALIBRATION_STRATEGIES: tuple[CalibrationStrategy, ...] = get_args(CalibrationStrategy)


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


def calibrated_threshold(
    distances: Doubles,
    similar: NDArray[np.bool_],
    strategy: CalibrationStrategy = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
    max_rate: float | None = None,
    sample_weight: Doubles | None = None,
) -> float:
    """Return the threshold that is best for a target on given pairs.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        Distances of pairs that were not used to learn the metric.
    similar : bool array of shape (n_pairs,)
        Which pairs are similar; both kinds must occur.
    strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr", "false_match_rate"}
        What is maximised: the accuracy; the F-score for `beta`; the true positive rate with a true
        negative rate of at least `min_rate`; the true negative rate with a true positive rate of
        at least `min_rate`; the true positive rate with a false match rate of at most `max_rate`.
    min_rate, beta, max_rate : float
        See `strategy`. A rate may be given only for the strategies that use it.
    sample_weight : array of shape (n_pairs,), optional
        Weights of the pairs.

    Returns
    -------
    float
        A number half-way between two neighbouring distances; 0 if no pair should be the same, and
        the next float above the largest distance if all pairs should be.
    """
    rate = check_target(strategy, min_rate, beta, max_rate)
    beta = float(beta)
    check_both_count(similar, sample_weight)
    fpr, tpr, scores = roc_curve(
        similar, -distances, sample_weight=sample_weight, drop_intermediate=False
    )
    weights = np.ones(len(similar)) if sample_weight is None else sample_weight
    positive, negative = weights[similar].sum(), weights[~similar].sum()
    tnr = 1 - fpr
    if strategy == "accuracy":
        quality = tpr * positive + tnr * negative
    elif strategy == "f_beta":  # F = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)
        hits = (1 + beta**2) * tpr * positive
        errors = beta**2 * (1 - tpr) * positive + fpr * negative
        quality = np.divide(hits, hits + errors, out=np.zeros_like(hits), where=hits > 0)
    elif strategy == "max_tnr":
        quality = np.where(tpr >= rate - _ROUNDING, tnr, -1.0)
    else:
        most = 1 - rate if strategy == "max_tpr" else rate
        quality = np.where(fpr <= most + _ROUNDING, tpr, -1.0)
    best = np.flatnonzero(quality == quality.max())
    # Ties: max_tnr takes the largest of the best thresholds, the other strategies the smallest.
    return _between(-scores, int(best[-1] if strategy == "max_tnr" else best[0]))


def equal_error_rate(distances: Doubles, similar: NDArray[np.bool_]) -> float:
    """Return the error rate at which false matches are as frequent as false non-matches.

    Between two points of the ROC curve the rates are interpolated linearly.

    Examples
    --------
    >>> import numpy as np
    >>> equal_error_rate(np.array([1.0, 3.0, 2.0, 4.0]), np.array([True, True, False, False]))
    0.5
    """
    passed, found, _ = roc_curve(similar, -distances, drop_intermediate=False)
    excess = passed - (1 - found)  # increases from −1 to 1
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(passed[after - 1] + share * (passed[after] - passed[after - 1]))


_ROUNDING = 1e-12  # rates that miss their limit by less are taken to reach it


def _between(distances: Doubles, last: int) -> float:
    """Return a threshold above the sorted distances up to number `last`, and below the next."""
    if last == len(distances) - 1:
        return nextafter(float(distances[-1]), np.inf)
    lower = max(0.0, float(distances[last]))  # number 0 is −∞: no pair is below
    upper = float(distances[last + 1])
    middle = lower + (upper - lower) / 2
    return middle if middle > lower else upper


def check_both_count(
    similar: NDArray[np.bool_], weights: Doubles | None, name: str = "sample_weight"
) -> None:
    """Raise an error unless pairs of both kinds have a positive weight."""
    if weights is not None and not (weights[similar].any() and weights[~similar].any()):
        raise ValueError(
            f"{name}: expected weights that leave similar and dissimilar pairs, got zero for all "
            "pairs of one class"
        )


def check_target(
    strategy: CalibrationStrategy, min_rate: float | None, beta: float, max_rate: float | None
) -> float:
    """Check a strategy and its numbers; return the rate that it asks for, 0 if it has none."""
    check_choice("strategy", strategy, CALIBRATION_STRATEGIES)
    needs_min = strategy in ("max_tpr", "max_tnr")
    check_rate("min_rate", min_rate, needs_min, strategy)
    check_rate("max_rate", max_rate, strategy == "false_match_rate", strategy)
    if abs(check_finite("beta", beta)) > LARGEST_BETA:  # the sign does not matter
        raise ValueError(f"beta: expected a number of at most {LARGEST_BETA:g}, got {shown(beta)}")
    return next((rate for rate in (min_rate, max_rate) if rate is not None), 0.0)
