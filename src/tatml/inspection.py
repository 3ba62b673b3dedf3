"""How sure is the threshold? Bootstrap intervals for it, and for the error rates at it.

Pairs that share a sample are not independent: resampling pairs would promise too much. Here the
*samples* are resampled (n of n with replacement), and a pair counts as often as the product of its
two samples' counts. Pairs given as arrays share nothing that can be seen: they are resampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ._checks import check_count, check_random, check_share
from ._inputs import index_pairs, pair_labels

__all__ = ["error_rates", "threshold_interval"]

Numbers = NDArray[np.float64]


def threshold_interval(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    random_state: Any = None,
) -> Bunch:
    """A bootstrap interval for the learnt `threshold_`.

    The estimator is fitted anew, metric and all, to every resample of its training data.

    Parameters
    ----------
    estimator : fitted label estimator or pair estimator with a learnt threshold
        It is cloned, not changed.
    X : samples or pairs, as they were given to fit
        For a label estimator the samples; for a pair estimator the pairs.
    y : array-like of shape (n_samples,) or (n_pairs,)
        Labels, as they were given to fit.
    n_resamples : int, default=200
        How many resamples.
    confidence_level : float, default=0.95
        Of the interval between two percentiles.
    random_state : int, RandomState, Generator or None
        For the resamples.

    Returns
    -------
    Bunch
        ``value`` (`threshold_`), ``low``, ``high``, and ``distribution``, the threshold of each
        resample.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATML
    >>> from tatml.inspection import threshold_interval
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = TATML(random_state=0).fit(X, y)
    >>> interval = threshold_interval(metric, X, y, n_resamples=20, random_state=0)
    >>> bool(interval.low < interval.high)
    True
    """
    check_is_fitted(estimator, "threshold_")
    rng = check_random(random_state)
    model = clone(estimator)
    if "warm_start" in model.get_params():
        model.set_params(warm_start=True)
    refit = _refit_pairs if hasattr(estimator, "classes_") else _refit_samples
    thresholds = [
        refit(model, X, y, rng) for _ in range(check_count("n_resamples", n_resamples, least=2))
    ]
    return _interval(estimator.threshold_, np.array(thresholds), confidence_level)


def error_rates(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = None,
) -> Bunch:
    """The error rates at `threshold_` on given pairs, with bootstrap intervals.

    Parameters
    ----------
    estimator : fitted estimator
        With `threshold_`.
    pairs, X
        As for `pair_distance`; pairs that were held out. For index pairs with `X`, samples are
        resampled; otherwise pairs are.
    y : array-like of shape (n_pairs,)
        +1 for the same, −1 for different; both must occur.
    n_resamples, confidence_level, random_state
        As for `threshold_interval`.

    Returns
    -------
    Bunch
        ``false_non_match`` (similar pairs judged different), ``false_match`` (dissimilar pairs
        judged the same) and ``balanced_accuracy``, each a Bunch of ``value``, ``low``, ``high``
        and ``distribution``.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.inspection import error_rates
    >>> distances, y = np.linspace(0, 2, 100), np.repeat([1, -1], 50)
    >>> judge = PairThreshold("precomputed").fit(distances, y)
    >>> rates = error_rates(judge, distances, y, random_state=0)
    >>> bool(rates.false_match.low <= rates.false_match.value <= rates.false_match.high)
    True
    """
    check_is_fitted(estimator, "threshold_")
    wrong_same = estimator.predict_pairs(pairs, X) > 0
    similar = pair_labels(y, len(wrong_same))
    index = None if X is None else index_pairs(pairs, len(X))
    rng = check_random(random_state)
    count = check_count("n_resamples", n_resamples, least=2)
    rows = [
        _rates(wrong_same, similar, weights)
        for weights in _resampled(index, len(similar), similar, count, rng)
    ]
    values = _rates(wrong_same, similar, np.ones(len(similar)))
    columns = zip(values, np.transpose(rows), strict=True)
    parts = [_interval(value, column, confidence_level) for value, column in columns]
    return Bunch(false_non_match=parts[0], false_match=parts[1], balanced_accuracy=parts[2])


def _rates(same: NDArray, similar: NDArray, weights: Numbers) -> tuple[float, float, float]:
    missed = float(np.average(~same[similar], weights=weights[similar]))
    passed = float(np.average(same[~similar], weights=weights[~similar]))
    return missed, passed, 1 - (missed + passed) / 2


def _resampled(
    index: NDArray | None, n_pairs: int, similar: NDArray, n_resamples: int, rng: Any
) -> Iterator[Numbers]:
    """Weights of the pairs in each resample; one that lost all pairs of a kind is drawn anew."""
    n_units = n_pairs if index is None else int(index.max()) + 1
    while n_resamples > 0:
        counts = _counts(n_units, rng)
        weights = counts if index is None else counts[index[:, 0]] * counts[index[:, 1]]
        if weights[similar].any() and weights[~similar].any():
            n_resamples -= 1
            yield weights


def _counts(n: int, rng: Any) -> Numbers:
    return np.bincount(rng.choice(n, n), minlength=n).astype(float)


def _refit_samples(model: Any, X: Any, y: Any, rng: Any) -> float:
    """The threshold for samples drawn with replacement; copies of one sample make no pair."""
    rows = rng.choice(len(X), len(X))
    labels = np.asarray(y)[rows]
    chosen = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    return float(model.fit(chosen, labels, groups=rows).threshold_)


def _refit_pairs(model: Any, pairs: Any, y: Any, rng: Any) -> float:
    """The threshold for pairs weighed by how often they, or their samples, are drawn."""
    array, y = np.asarray(pairs), np.asarray(y)
    index = None
    if model.preprocessor is not None and len(array.shape) == 2:
        index = np.unique(array, return_inverse=True)[1].reshape(array.shape)
    weights = next(_resampled(index, len(array), y > 0, 1, rng))
    return float(model.fit(pairs, y, sample_weight=weights).threshold_)


def _interval(value: float, distribution: Numbers, confidence_level: float) -> Bunch:
    tail = 50 * (1 - check_share("confidence_level", confidence_level))
    low, high = np.percentile(distribution, [tail, 100 - tail])
    return Bunch(value=float(value), low=float(low), high=float(high), distribution=distribution)
