"""Where to put the threshold for given distances: by TATML's own criterion, or by a target.

A pair counts as the same where its distance is below the threshold.
"""

from __future__ import annotations

from math import nextafter, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from .._data.pairs import Pairs
from .._messages import shown
from .._optim.problem import best_threshold, squared_hinge
from .._validation import check_choice, check_finite, check_rate

__all__ = [
    "STRATEGIES",
    "Strategy",
    "b0_of",
    "calibrated_threshold",
    "check_both_count",
    "check_target",
    "equal_error_rate",
    "learnt_b0",
    "threshold_of",
]

Numbers = NDArray[np.float64]
Strategy = Literal["accuracy", "f_beta", "max_tpr", "max_tnr", "false_match_rate"]

LARGEST_BETA = 1e100  # its square is a number
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


def threshold_of(b0: float, margin: tuple[float, float]) -> float:
    """The distance in the middle (on a logarithmic scale) of the two margins γ_s b0 and γ_d b0."""
    return sqrt(max(b0, 0.0) * sqrt(margin[0] * margin[1]))  # theory (T)


def b0_of(threshold: float, margin: tuple[float, float]) -> float:
    """The b0 whose threshold this is."""
    return threshold * threshold / sqrt(margin[0] * margin[1])  # theory (T)


def learnt_b0(
    squared: Numbers,
    pairs: Pairs,
    margin: tuple[float, float],
    strength: float,
    mu0: float | None = None,
) -> float:
    """The b0 that TATML's criterion gives to squared distances that stay as they are.

    Minimises Σ_k w_k [y_k (D_k − γ_k b0)]_+² / Σ_k w_k + ρ (b0 − μ0)², with ρ the strength; where
    μ0 is not given, it is the b0 of the root mean squared distance.
    """
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    unit = float(np.average(squared, weights=weights))  # so that nothing depends on units
    if unit == 0:
        if mu0 is None:
            return 0.0
        unit = mu0
    share = Pairs(pairs.index, pairs.similar, weights / weights.sum())  # theory (B0)
    centre = b0_of(1.0, margin) if mu0 is None else mu0 / unit
    loss = squared_hinge(share, 1.0, margin)
    return unit * best_threshold(squared / unit, loss, strength, centre)


def calibrated_threshold(
    distances: Numbers,
    similar: NDArray[np.bool_],
    strategy: Strategy = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
    max_rate: float | None = None,
    sample_weight: Numbers | None = None,
) -> float:
    """The threshold that serves a target best on given pairs.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        Of pairs that were not used to learn the metric.
    similar : bool array of shape (n_pairs,)
        Which of them are similar; both kinds must occur.
    strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr", "false_match_rate"}
        The best accuracy; the best F-score with `beta`; the most similar pairs found while at least
        `min_rate` of the dissimilar ones are told apart, or the other way round; the most similar
        pairs found while at most `max_rate` of the dissimilar pairs pass for the same.
    min_rate, beta, max_rate : float
        See `strategy`; a rate belongs to its strategies only.
    sample_weight : array of shape (n_pairs,), optional
        How much each pair counts.

    Returns
    -------
    float
        Half-way between two of the distances.
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
    # Of equals, that with more similar pairs found; for the others, that with fewer false matches.
    return _between(-scores, int(best[-1] if strategy == "max_tnr" else best[0]))


def equal_error_rate(distances: Numbers, similar: NDArray[np.bool_]) -> float:
    """The share of dissimilar pairs that pass where as many similar ones are refused.

    Between two steps of the curve it is on the line that joins them.

    Examples
    --------
    >>> import numpy as np
    >>> equal_error_rate(np.array([1.0, 3.0, 2.0, 4.0]), np.array([True, True, False, False]))
    0.5
    """
    passed, found, _ = roc_curve(similar, -distances, drop_intermediate=False)
    excess = passed - (1 - found)  # rises from −1 to 1
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(passed[after - 1] + share * (passed[after] - passed[after - 1]))


_ROUNDING = 1e-12


def _between(distances: Numbers, last: int) -> float:
    """A threshold that takes the pairs up to the distance number `last` (0: none of them)."""
    if last == len(distances) - 1:
        return nextafter(float(distances[-1]), np.inf)
    lower = max(0.0, float(distances[last]))  # of number 0 it is −∞
    upper = float(distances[last + 1])
    middle = lower + (upper - lower) / 2
    return middle if middle > lower else upper


def check_both_count(similar: NDArray[np.bool_], weights: Numbers | None) -> None:
    """Weights that leave pairs of both kinds."""
    if weights is not None and not (weights[similar].any() and weights[~similar].any()):
        raise ValueError(
            "sample_weight: expected weights that leave similar and dissimilar pairs, got zero "
            "for all of one kind"
        )


def check_target(
    strategy: Strategy, min_rate: float | None, beta: float, max_rate: float | None
) -> float:
    """One strategy, with the numbers that belong to it; its rate is returned, 0 if it has none."""
    check_choice("strategy", strategy, STRATEGIES)
    needs_min = strategy in ("max_tpr", "max_tnr")
    check_rate("min_rate", min_rate, needs_min, strategy)
    check_rate("max_rate", max_rate, strategy == "false_match_rate", strategy)
    if abs(check_finite("beta", beta)) > LARGEST_BETA:  # only its square counts
        raise ValueError(f"beta: expected a number of at most {LARGEST_BETA:g}, got {shown(beta)}")
    return next((rate for rate in (min_rate, max_rate) if rate is not None), 0.0)
