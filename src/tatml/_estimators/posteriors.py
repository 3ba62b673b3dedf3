"""A score of pairs by a classifier of known classes: the inner product of class posteriors."""

from __future__ import annotations

from inspect import isclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._data.pairs import as_index
from .._learning.metric import CHUNK_NUMBERS
from .._messages import named_error, shown
from .inputs import look_up, number_distinct, read_tuples, wrong_tuples


def check_classifier(name: str, value: Any) -> Any:
    """Return a fitted classifier with `predict_proba`."""
    if isclass(value) or not hasattr(value, "predict_proba"):
        raise TypeError(
            f"{name}: expected a fitted classifier with predict_proba, got {shown(value)}"
        )
    try:
        if hasattr(value, "fit"):
            check_is_fitted(value)
    except NotFittedError as error:
        raise ValueError(
            f"{name}: expected a fitted classifier, got {shown(value)}, which is not fitted; fit "
            "it first, and where this estimator is cloned, as in cross-validation, wrap it in "
            "sklearn.frozen.FrozenEstimator"
        ) from error
    return value


def posterior_scores(
    estimator: Any, pairs: Any, X: Any = None, chunk_numbers: int = CHUNK_NUMBERS
) -> NDArray[np.float64]:
    """Return Σ_k p(k | x) p(k | x') for each pair, by `estimator.classifier`.

    It is the probability that both samples are of one class, if their classes are independent given
    the samples and all classes are known. The classifier sees each sample once.
    """
    check_classifier("classifier", estimator.classifier)
    rows, index = _rows_of(estimator, pairs, X)
    posteriors = _posteriors_of(estimator.classifier, rows)
    step = max(1, chunk_numbers // posteriors.shape[1])
    parts = [index[start : start + step].T for start in range(0, len(index), step)]
    return np.concatenate([np.einsum("ij,ij->i", posteriors[i], posteriors[j]) for i, j in parts])


def _rows_of(estimator: Any, pairs: Any, X: Any) -> tuple[Any, NDArray[np.intp]]:
    """Return the distinct samples of pairs in their own type, and the pairs as indices of them."""
    samples = estimator.preprocessor if X is None else X
    array = read_tuples(pairs)
    if X is None and (samples is None or len(array.shape) != 2):
        if len(array.shape) < 3 or array.shape[1] != 2 or array.size == 0:
            raise ValueError(wrong_tuples(array, "pairs", samples))
        return array.reshape(-1, *array.shape[2:]), np.arange(2 * len(array)).reshape(-1, 2)
    if not callable(samples):
        array = as_index(array, _num_samples(samples), allow_self=True)
    found, index = number_distinct(array, "pairs", "indicators")
    if callable(samples):
        return look_up(samples, found, estimator), index
    if hasattr(samples, "block_shapes"):  # Blocks
        return samples[found], index
    return _safe_indexing(samples, found), index


def _posteriors_of(classifier: Any, rows: Any) -> NDArray[np.float64]:
    """Return the class probabilities of samples, (n_samples, n_classes)."""
    try:
        found = np.asarray(classifier.predict_proba(rows), dtype=np.float64)
    except Exception as error:  # any classifier may raise anything
        raise named_error("classifier", error) from error
    n_rows = _num_samples(rows)
    if len(found.shape) != 2 or len(found) != n_rows or found.shape[1] < 2:
        raise ValueError(
            f"classifier: expected probabilities of shape ({n_rows}, n_classes), of two classes "
            f"or more, from predict_proba, got shape {found.shape}"
        )
    if not np.all((found >= 0) & (found <= 1 + 1e-6)):
        raise ValueError("classifier: expected probabilities from 0 to 1, got others")
    return found
