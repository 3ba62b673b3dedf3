"""Bootstrap intervals for the learnt threshold.

Pairs that share a sample are not independent, so intervals from resampled pairs would be too
narrow. The intervals resample the *samples* (n of n with replacement); the weight of a pair is
the product of the counts of its two samples. This is conservative: for pairs that share no samples
the intervals are up to √3 times too wide. In pairs given as arrays, equal rows are one sample; if
no row repeats, or rows may repeat by chance, the pairs are resampled.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.validation import _num_samples

from .._data.arrays import group_labels
from .._data.pairs import as_weights
from .._estimators.inputs import check_has, pair_labels, pair_units
from .._learning.labelled import gives_pairs
from .._learning.metric import threshold_of
from .._progress import with_progress
from .._validation import check_count, check_jobs, check_random, check_share
from .._warnings import warn_user


def threshold_interval(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Bunch:
    """Compute a bootstrap interval for the learnt `threshold_`.

    A clone of the estimator is fitted to every resample of the training data, so the interval
    includes the uncertainty of the metric. Resamples without similar or without dissimilar pairs
    are drawn again.

    Parameters
    ----------
    estimator : fitted estimator with a learnt threshold
        It is not changed.
    X : samples or pairs
        The training data, as given to fit: samples for estimators that learn from labels, pairs for
        estimators that learn from pairs.
    y : array-like of shape (n_samples,) or (n_pairs,)
        The labels, as given to fit.
    groups : array-like of shape (n_samples,), optional
        The groups, as given to fit. Whole groups are resampled.
    sample_weight : array-like of shape (n_pairs,), optional
        The weights, as given to the fit of an estimator that learns from pairs.
    n_resamples : int, default=200
        Number of resamples.
    confidence_level : float, default=0.95
        Confidence level of the percentile interval.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the resamples, and the fits if the estimator has ``random_state=None``.
    n_jobs : int or None, default=None
        Number of fits at the same time, by joblib; -1 for one per core. The interval does not
        depend on it. With tqdm (the extra ``progress``), a terminal shows the progress.

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
    _check_learnt(estimator)
    rng, model = check_random(random_state), _copied(estimator)
    check_share("confidence_level", confidence_level)
    count = check_count("n_resamples", n_resamples, least=2)
    parameters = model.get_params(deep=False)
    check_jobs("n_jobs", n_jobs)
    if "warm_start" in parameters:
        model.set_params(warm_start=True)
    if parameters.get("random_state", 0) is None:  # then our random_state determines the fits too
        model.set_params(random_state=int(rng.choice(2**31 - 1)))
    if hasattr(estimator, "decision_function"):
        resamples = _resample_pairs(estimator, X, y, sample_weight, rng)
    else:
        resamples = _resample_samples(X, y, groups, rng)
    # Every fit starts from the solution of all data, so that their order is irrelevant.
    jobs = (delayed(_fit_threshold)(_copied(model), next(resamples)) for _ in range(count))
    shown_jobs = with_progress(jobs, count, "Bootstrap", "fit")
    thresholds = Parallel(n_jobs=n_jobs)(shown_jobs)
    tail = 50 * (1 - confidence_level)
    low, high = np.percentile(thresholds, [tail, 100 - tail])
    return Bunch(
        value=float(estimator.threshold_),
        low=float(low),
        high=float(high),
        distribution=np.array(thresholds),
    )


def _copied(model: Any) -> Any:
    """Return a fitted estimator with parameters of its own, from which a warm start continues."""
    return copy(model).set_params(**clone(model).get_params(deep=False))


def _fit_threshold(model: Any, data: tuple) -> float:
    """Fit a model to a resample, and return its threshold."""
    with warnings.catch_warnings():  # the fit to all data gave these warnings, if they hold for it
        warnings.filterwarnings("ignore", message="y: .* different numbers")
        warnings.filterwarnings("ignore", message="threshold_: ")
        return model.fit(*data).threshold_


def _check_learnt(estimator: Any) -> None:
    """Raise an error unless the threshold is the one that fit learnt."""
    check_has(estimator, "margin")
    b0 = getattr(estimator, "b0_", np.nan)
    if getattr(estimator, "_signed_scores", False):
        learnt = b0 + getattr(estimator, "threshold_shift_", 0.0)
    else:
        learnt = threshold_of(b0, estimator.margin)
        learnt *= getattr(estimator, "threshold_factor_", 1.0)
    words = ("auto", "joint")
    fixed = getattr(estimator, "threshold", "auto") not in words
    if fixed or getattr(estimator, "threshold_", None) != learnt:
        raise ValueError(
            f"estimator: expected a {type(estimator).__name__} whose threshold was learnt in fit, "
            "got one whose threshold is fixed, calibrated or missing"
        )


def _resample_samples(X: Any, y: Any, groups: Any, rng: Any) -> Iterator[tuple]:
    """Yield samples, or whole groups, drawn with replacement, as arguments of fit.

    Copies of a sample form a group, so that no pair is drawn from them.
    """
    n_samples = _num_samples(X)
    y = np.asarray(y)
    units = group_labels(groups, n_samples)
    if units is None:  # the units are the samples
        units = np.arange(n_samples)
    if not gives_pairs(y, units):
        raise ValueError("y: expected labels that give similar and dissimilar pairs, got one kind")
    members = np.argsort(units, kind="stable")
    start = np.searchsorted(units[members], np.arange(units.max() + 2))
    while True:
        chosen = rng.choice(units.max() + 1, units.max() + 1)
        rows = np.concatenate([members[start[u] : start[u + 1]] for u in chosen])
        if gives_pairs(y[rows], units[rows]):
            yield _safe_indexing(X, rows), y[rows], units[rows]


def _resample_pairs(
    estimator: Any, pairs: Any, y: Any, sample_weight: Any, rng: Any
) -> Iterator[tuple]:
    """Yield the pairs with the weights of a resample, as arguments of fit.

    Samples are resampled, and the weight of a pair is the product of the counts of its two
    samples; if it is not known which pairs share samples, the pairs are resampled.
    """
    similar = pair_labels(y, _num_samples(pairs))
    base = np.ones(len(similar))
    if sample_weight is not None:
        base = as_weights(sample_weight, len(similar), "sample_weight")
    index, warning = pair_units(estimator, pairs, None, None)
    if warning:
        warn_user(warning)
    n_units = len(similar) if index is None else int(index.max()) + 1
    while True:
        counts = np.bincount(rng.choice(n_units, n_units), minlength=n_units)
        drawn = counts if index is None else counts[index[:, 0]] * counts[index[:, 1]]
        weights = drawn * base
        if weights[similar].any() and weights[~similar].any():
            yield pairs, y, weights
