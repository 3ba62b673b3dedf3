"""ProbabilityMixin: the probability that a pair is the same, calibrated on held-out pairs.

The log-likelihood ratio of a pair at distance d is a − b d, with b ≥ 0. It does not depend on how
many pairs are the same; the probability adds the prior odds of `same_rate_`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from .._array import Doubles
from .._data.blocks import Blocks
from .._data.pairs import as_sample_weight
from .._messages import shown
from .._validation import check_between
from .._verification.calibration import check_both_count
from .._warnings import warn_user
from .given_labels import pair_labels
from .pair_units import count_rows


class ProbabilityMixin(ABC):
    """Mixin with the probability that a pair is the same, for estimators with a pair distance.

    `calibrate_probability` sets two attributes, and a new fit deletes them:

    likelihood_ratio_ : array([a, b])
        The log-likelihood ratio of a pair at distance d is a − b d, with b ≥ 0.
    same_rate_ : float
        The assumed share of pairs that are the same.
    """

    @abstractmethod
    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the distance of each pair, shape (n_pairs,)."""

    def calibrate_probability(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        same_rate: float | None = None,
        sample_weight: ArrayLike | None = None,
        X: Blocks | ArrayLike | None = None,
    ) -> Self:
        """Learn how the probability that a pair is the same depends on its distance.

        This is the sigmoid calibration of scikit-learn: a logistic regression on the distances,
        with Platt's targets. Both kinds of pairs have the same total weight in it, so the
        log-likelihood ratio does not depend on how many pairs are the same.

        Parameters
        ----------
        pairs, X
            Held-out pairs, as for `pair_distance`. On the training pairs the probabilities would
            be too extreme.
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different; both must occur.
        same_rate : float, optional
            The share of pairs that are the same where the estimator is used, between 0 and 1;
            `set_same_rate` changes it afterwards. Default: the share among the given pairs.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if same_rate is not None:
            same_rate = check_between("same_rate", same_rate)  # before the distances
        if count_rows(pairs) == count_rows(y) > 0:
            pair_labels(y, count_rows(pairs))
        distances = self.pair_distance(pairs, X)
        similar = pair_labels(y, len(distances))
        weights = np.ones(len(distances))
        if sample_weight is not None:
            weights = as_sample_weight(sample_weight, len(distances))
            check_both_count(similar, weights)
        calibration = fit_log_likelihood_ratio(distances, similar, weights)
        if calibration[1] == 0:
            warn_user(
                "pairs: expected similar pairs to be nearer than dissimilar pairs, got the "
                "opposite: the log-likelihood ratio of all pairs is set to 0"
            )
        if same_rate is None:
            same_rate = float(weights[similar].sum() / weights.sum())
        self.likelihood_ratio_, self.same_rate_ = calibration, same_rate
        return self

    def set_same_rate(self, same_rate: float) -> Self:
        """Set `same_rate_`, the share of pairs that are the same: it shifts the log odds.

        Parameters
        ----------
        same_rate : float
            A number between 0 and 1, both excluded.

        Returns
        -------
        self
        """
        check_calibrated(self)
        self.same_rate_ = check_between("same_rate", same_rate)
        return self

    def pair_log_likelihood_ratio(
        self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None
    ) -> NDArray:
        """Return how much more likely the distance of each pair is if the pair is the same.

        Parameters
        ----------
        pairs, X
            As for `pair_distance`.

        Returns
        -------
        array of shape (n_pairs,)
            log p(distance | same) − log p(distance | different), natural logarithms. It does not
            depend on `same_rate_`.
        """
        check_calibrated(self)
        intercept, slope = self.likelihood_ratio_
        return intercept - slope * self.pair_distance(pairs, X)

    def pair_probability(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the probability that each pair is the same.

        Parameters
        ----------
        pairs, X
            As for `pair_distance`.

        Returns
        -------
        array of shape (n_pairs,)
            Its log odds are the log-likelihood ratio plus the log odds of `same_rate_`.
        """
        return expit(self._log_odds(pairs, X))

    def _log_odds(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        return self.pair_log_likelihood_ratio(pairs, X) + logit(self.same_rate_)


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
    targets, shares = np.empty(len(similar)), np.empty(len(similar))
    for kind in (similar, ~similar):
        shares[kind] = weights[kind] / weights[kind].sum() / 2
        targets[kind] = 1 / (0.25 / np.sum(shares[kind] ** 2) + 2)
    targets[similar] = 1 - targets[similar]
    counted = distances[shares > 0]
    if not np.ptp(counted):
        return np.zeros(2)
    unit = float(counted.max())
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


def check_likelihood_ratio(name: str, value: NDArray) -> None:
    """Raise an error unless the value is an array of a finite number and one of at least 0."""
    if value.shape != (2,) or not np.isfinite(value).all() or value[1] < 0:
        raise ValueError(
            f"{name}: expected an intercept and a slope of at least 0, got {shown(value)}"
        )


def check_calibrated(estimator: Any) -> bool:
    """Return True if the estimator has calibrated probabilities, and raise an error otherwise."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "likelihood_ratio_"):
        raise NotFittedError(
            f"{type(estimator).__name__} has no probabilities: call calibrate_probability with "
            "held-out pairs"
        )
    return True
