"""The log-likelihood ratio a − b d of a pair at distance d, learnt from labelled pairs.

In place of distances there may be values of any sign, such as minus the scores of a metric with
midpoints.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from .._array import Doubles
from .._messages import shown


def fit_log_likelihood_ratio(
    distances: Doubles, similar: NDArray[np.bool_], weights: Doubles
) -> NDArray[np.float64]:
    """Return a and b ≥ 0 such that a − b d is the log-likelihood ratio of a pair at distance d.

    Platt's targets, (n + 1)/(n + 2) and 1/(n + 2), keep the numbers finite for distances that
    separate the two kinds. Here n is the effective number of pairs of one kind, (Σw)²/Σw².

    Examples
    --------
    >>> import numpy as np
    >>> similar = np.repeat([True, False], 3)
    >>> a, b = fit_log_likelihood_ratio(np.arange(6.0), similar, np.ones(6))
    >>> round(float(a / b), 6)  # both kinds are equally likely half-way
    2.5
    """
    targets, shares = soften_labels(similar, weights)
    counted = distances[shares > 0]
    if not np.ptp(counted):
        return np.zeros(2)
    unit = float(np.abs(counted).max())
    centre = float(np.average(distances / unit, weights=shares))
    spread = float(np.sqrt(np.average((distances / unit - centre) ** 2, weights=shares)))
    scores = (centre - distances / unit) / spread
    # A pair with target t is two rows: the same with weight t, different with weight 1 − t.
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(
        np.concatenate([scores, scores])[:, None],
        np.repeat([1, 0], len(scores)),
        np.concatenate([targets * shares, (1 - targets) * shares]) * len(scores),
    )
    slope = float(model.coef_[0, 0]) / spread
    if slope <= 0:
        return np.zeros(2)
    intercept, slope = float(model.intercept_[0]) + slope * centre, slope / unit
    if not (isfinite(slope) and isfinite(intercept)):
        raise ValueError(
            "pairs: expected distances whose inverse a float can hold, got distances of at most "
            f"{unit:g}"
        )
    return np.array([intercept, slope])


def soften_labels(similar: NDArray[np.bool_], weights: Doubles) -> tuple[Doubles, Doubles]:
    """Return Platt's target of each pair, and its share of the weight, half for each kind."""
    targets, shares = np.empty(len(similar)), np.empty(len(similar))
    for kind in (similar, ~similar):
        shares[kind] = weights[kind] / weights[kind].sum() / 2
        targets[kind] = 1 / (0.25 / np.sum(shares[kind] ** 2) + 2)
    targets[similar] = 1 - targets[similar]
    return targets, shares


def check_likelihood_ratio(name: str, value: NDArray) -> None:
    """Raise an error unless the value is an array of a finite number and one of at least 0."""
    if value.shape != (2,) or not np.isfinite(value).all() or value[1] < 0:
        raise ValueError(
            f"{name}: expected an intercept and a slope of at least 0, got {shown(value)}"
        )
