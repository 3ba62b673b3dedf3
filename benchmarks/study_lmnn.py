"""metric-learn's LMNN as a method of the studies: scaled features, and a limit on its seconds.

metric-learn does not run with scikit-learn 1.8 or newer. `make test-metric-learn` sets up an
environment in which the studies run too; start them there with

    PYTHONPATH=build/metric-learn/published/metric-learn-0.7.0 \\
        .venv-metric-learn/bin/python benchmarks/study.py --methods LMNN "TATMLNeighbors()" …
"""

from __future__ import annotations

from time import process_time

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from study_data import as_table


class OneScale(TransformerMixin, BaseEstimator):
    """Subtracts the means, and divides all columns by one number."""

    def fit(self, X, y=None):
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0).mean()
        return self

    def transform(self, X):
        return (X - self.mean_) / self.scale_


SCALINGS = {
    "standard": StandardScaler,
    "one": OneScale,
    "components": lambda: make_pipeline(OneScale(), PCA(0.95, svd_solver="full")),
}


class OutOfTimeError(Exception):
    """A fit has used its seconds."""


class LMNN(TransformerMixin, BaseEstimator):
    """metric-learn's LMNN on scaled features, or on 95 % of their variance.

    A fit that exceeds `max_seconds` of processor time, or that fails after its first step, keeps
    the best map that it has found. Classes smaller than `n_neighbors` + 1 reduce `n_neighbors`.
    `init` is "identity" (that of metric-learn's "pca" gives the same metric) or "lda", whose map
    has one row less than there are classes. metric-learn's default, "auto", is one of the two.
    The first `learn_rate` is 100 times metric-learn's: the line search reduces it where it is too
    large, and the result is the same or better in half of the steps.
    """

    def __init__(
        self,
        scaling="standard",
        n_neighbors=3,
        init="identity",
        learn_rate=1e-5,
        max_seconds=120.0,
        random_state=None,
    ):
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.init = init
        self.learn_rate = learn_rate
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X, y):
        self.scaler_ = SCALINGS[self.scaling]().fit(as_table(X))
        Z, counts = self.scaler_.transform(as_table(X)), np.unique(y, return_counts=True)[1]
        self.model_ = limited_lmnn(
            self.max_seconds,
            n_neighbors=min(self.n_neighbors, counts.min() - 1),
            n_components=min(Z.shape[1], len(counts) - 1) if self.init == "lda" else None,
            init=self.init,
            learn_rate=self.learn_rate,
            random_state=self.random_state,
        )
        self.model_.fit(Z, y)
        return self

    def transform(self, X):
        return self.scaler_.transform(as_table(X)) @ self.model_.components_.T


def limited_lmnn(max_seconds, **options):
    """Return an LMNN of metric-learn that stops after so many seconds; `stopped_` says why."""
    import metric_learn

    class Limited(metric_learn.LMNN):
        def fit(self, X, y):
            self.stopped_, self.n_steps_, self._best = None, 0, (np.inf, None)
            self._end = process_time() + max_seconds
            try:
                return super().fit(X, y)
            except Exception as error:
                if self._best[1] is None:
                    raise
                self.stopped_ = repr(error)[:200]
                self.components_ = self._best[1]
                return self

        def _loss_grad(self, X, L, *rest):
            G, objective, n_active = super()._loss_grad(X, L, *rest)
            self.n_steps_ += 1
            if objective < self._best[0]:
                self._best = objective, L
            if process_time() > self._end:
                raise OutOfTimeError(f"{max_seconds} s")
            return G, objective, n_active

    return Limited(**options)
