"""A model whose scores of pairs have any sign, as those of a metric with a midpoint."""

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator

from tatml._estimators.pair_judge import PairJudge


class SignedJudge(PairJudge, BaseEstimator):
    """Judge pairs of numbers (u, v) by q = factor · u + offset, which is no distance."""

    preprocessor = None
    _signed_scores = True

    def __init__(self, factor: float = 1.0, offset: float = 0.0):
        self.factor = factor
        self.offset = offset

    def fit(self) -> Self:
        self.threshold_ = self.offset
        return self

    def pair_distance(self, pairs, X=None):
        raise AttributeError("there is no distance")

    def _dissimilarity(self, pairs, X=None):
        return self.factor * np.asarray(pairs, dtype=float)[:, 0, 0] + self.offset


def pairs_of(values):
    """Return pairs whose q is `values`; no row occurs in two pairs."""
    values = np.asarray(values, dtype=float)
    other = 1e6 + np.arange(len(values))
    return np.stack([values, other], axis=1)[:, :, None]


def known_pairs(seed, n_similar=300, n_dissimilar=700):
    """Return values q of random pairs, those of similar pairs smaller, and labels ±1."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, -1], [n_similar, n_dissimilar])
    return rng.normal(np.where(y > 0, -1.0, 1.0), 0.8), y
