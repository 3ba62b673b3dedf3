"""Vectors of the same length after whitening."""

from __future__ import annotations

from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.covariance import ledoit_wolf
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._array import Floats

EPS = float(np.finfo(np.float64).eps)


class LengthNormalizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Whiten vectors, and divide each one by its length.

    What a vector says is then its direction alone. This helps distances where the size of the noise
    differs from sample to sample or has heavy tails, as in embeddings of faces or speakers, and
    costs where the length tells classes apart. The covariance is shrunk by the rule of Ledoit and
    Wolf, in units of the standard deviations of the columns.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        The mean of the training samples, which is subtracted.
    whitening_ : array of shape (n_features, n_features)
        The matrix that centred samples are multiplied by.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : array of str
        The names of the columns, if `fit` saw a data frame.

    See Also
    --------
    sklearn.preprocessing.Normalizer : Divides by the norm, without whitening.

    Notes
    -----
    All vectors get the length √n_features, except those at the mean, which become zero. The root
    of the covariance is symmetric, so each column of the result belongs to a column of X.

    Whether it pays is a question for held-out pairs: fit with and without it to some of the
    classes, and compare the areas under the ROC curve for pairs of the other classes.

    References
    ----------
    D. Garcia-Romero and C. Y. Espy-Wilson, "Analysis of i-vector length normalization in speaker
    recognition systems", Interspeech 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from tatml import TATML
    >>> from tatml.features import LengthNormalizer

    The noise of each sample has its own size. Half of the classes are learnt from, and pairs of the
    others are judged, without and with the same length:

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(100), 6)
    >>> noise = rng.normal(size=(600, 20)) * rng.lognormal(0.0, 0.7, size=(600, 1))
    >>> X = rng.normal(size=(100, 20))[y] + noise
    >>> rows = LengthNormalizer().fit(X[:300]).transform(X)
    >>> bool(np.allclose(np.linalg.norm(rows, axis=1), np.sqrt(20)))
    True
    >>> pairs = rng.integers(300, 600, size=(5000, 2))
    >>> same = y[pairs[:, 0]] == y[pairs[:, 1]]
    >>> areas = []
    >>> for samples in (X, rows):
    ...     metric = TATML(random_state=0).fit(samples[:300], y[:300])
    ...     areas.append(roc_auc_score(same, metric.pair_score(pairs, samples)))
    >>> bool(areas[1] > areas[0] + 0.02)
    True
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Compute the mean and the whitening matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples.
        y : ignored

        Returns
        -------
        self
        """
        table = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self.mean_ = np.mean(table, axis=0, dtype=np.float64)
        centred = table - self.mean_
        is_constant = np.ptp(table, axis=0) == 0
        largest = np.where(is_constant, 1.0, np.max(np.abs(centred), axis=0))
        scale = largest * np.sqrt(np.mean((centred / largest) ** 2, axis=0))  # without overflow
        scale[is_constant] = 1.0
        self.whitening_ = _inverse_root(centred / scale) / scale[:, None]
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Whiten samples, and divide each by its length.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_features)
            Rows of length √n_features, or zero.
        """
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        rows = (table - self.mean_) @ self.whitening_
        size = np.linalg.norm(rows, axis=1, keepdims=True)
        # A vector at the mean differs from it by rounding.
        rounding = EPS * (np.abs(table) + np.abs(self.mean_)) @ np.abs(self.whitening_)
        is_zero = size <= np.linalg.norm(rounding, axis=1, keepdims=True)
        rows *= np.where(is_zero, 0.0, sqrt(rows.shape[1]) / np.where(is_zero, 1.0, size))
        return rows.astype(table.dtype, copy=False)

    def __sklearn_tags__(self) -> Tags:
        """Return tags that say that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _inverse_root(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric root of the inverse of the shrunk covariance of centred samples.

    It is zero along axes without variance.
    """
    covariance, _ = ledoit_wolf(deviations, assume_centered=True)
    values, axes = np.linalg.eigh(covariance)
    kept = values > max(len(values) * EPS * values[-1], np.finfo(np.float64).tiny)
    return (axes[:, kept] / np.sqrt(values[kept])) @ axes[:, kept].T
