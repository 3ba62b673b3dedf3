"""Parts that methods are built of, and functions that work on every fitted method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.validation import has_fit_parameter

from tatml import Blocks
from tatml.features import Vectorize


def matched_size(row_counts: Sequence[int]) -> int:
    """Return the p whose p(p + 1) is nearest to Σ n_m (n_m + 1).

    A p × p matrix then has about as many free entries as the matrices of TATML together.

    Examples
    --------
    >>> matched_size([7, 7]), matched_size([7]), matched_size([5, 5])
    (10, 7, 7)
    """
    wanted = sum(n * (n + 1) for n in row_counts)
    sizes = np.arange(1, 2 + int(np.sqrt(wanted)))
    return int(sizes[np.argmin(np.abs(sizes * (sizes + 1) - wanted))])


class MatchedPCA(TransformerMixin, BaseEstimator):
    """PCA of the vectors of all blocks to the size that `matched_size` returns."""

    def fit(self, X: Blocks, y: Any = None) -> Self:
        """Find the principal components of the vectors."""
        size = matched_size([n for n, _ in X.block_shapes])
        self.vectorize_ = Vectorize(join=True)
        vectors = self.vectorize_.fit_transform(X)
        self.pca_ = PCA(min(size, *vectors.shape), svd_solver="full").fit(vectors)
        return self

    def transform(self, X: Blocks) -> NDArray[np.float64]:
        """Return the leading principal components, shape (n_samples, p)."""
        return self.pca_.transform(self.vectorize_.transform(X))


class ThresholdSearch(TransformerMixin, BaseEstimator):
    """Search over fixed thresholds, each with its own search over C on the same folds.

    Parameters
    ----------
    estimator : TATMLCV
        The search over C.
    thresholds : sequence of float
        The candidates, in the units of `pair_distance`.
    """

    def __init__(self, estimator: Any, thresholds: Sequence[float]):
        self.estimator = estimator
        self.thresholds = thresholds

    def fit(self, X: Blocks, y: NDArray, groups: NDArray | None = None) -> Self:
        """Search over C for each threshold, and keep the best."""
        searches = [
            clone(self.estimator).set_params(estimator__threshold=threshold).fit(X, y, groups)
            for threshold in self.thresholds
        ]
        best = max(searches, key=lambda search: search.best_score_)
        self.best_estimator_, self.best_score_ = best, best.best_score_
        self.best_params_ = {
            "C": best.best_params_["C"],
            "threshold": float(best.estimator.threshold),
        }
        return self

    def transform(self, X: Blocks) -> NDArray[np.float64]:
        """Embed samples with the best metric."""
        return self.best_estimator_.transform(X)


def _is_grid_search(estimator: Any) -> bool:
    """Tell scikit-learn's search over a pipeline, which knows `refit`, from `TATMLCV`."""
    return hasattr(estimator, "refit")


def fit_in_training_half(
    estimator: Any, X: Blocks, y: NDArray, groups: NDArray | None = None, folds: int = 5
) -> Any:
    """Fit an estimator of `METHODS`.

    With groups, no group is on both sides of a fold, and no pair joins samples of one group.
    """
    if groups is None:
        return estimator.fit(X, y)
    parameters = {}
    if _is_grid_search(estimator):
        estimator.set_params(cv=StratifiedGroupKFold(folds))
        parameters = {"groups": groups}
        steps = estimator.estimator.steps
    else:
        steps = getattr(estimator, "steps", [])
    if not steps:
        parameters = {"groups": groups}
    for name, step in steps:
        if has_fit_parameter(step, "groups"):
            parameters[f"{name}__groups"] = groups
    return estimator.fit(X, y, **parameters)


def embed_samples(fitted: Any, X: Blocks) -> NDArray[np.float64]:
    """Map samples to vectors whose Euclidean distance is the learnt distance."""
    if _is_grid_search(fitted):
        return fitted.best_estimator_[:-1].transform(X)
    return fitted.transform(X)


def learner_of(fitted: Any) -> Any:
    """Return the estimator that learnt the metric, from inside searches and pipelines."""
    if _is_grid_search(fitted):
        steps = fitted.best_estimator_.named_steps
        return steps.get("metric", fitted.best_estimator_[-1])
    if hasattr(fitted, "steps"):
        return learner_of(fitted[-1])
    return getattr(fitted, "best_estimator_", fitted)


def chosen_parameters(fitted: Any) -> dict[str, Any]:
    """Return the parameters that a search chose, without prefixes; empty without a search."""
    source = fitted[-1] if hasattr(fitted, "steps") else fitted
    chosen = getattr(source, "best_params_", {})
    return {name.rpartition("__")[2]: _plain(value) for name, value in chosen.items()}


def _plain(value: Any) -> Any:
    """Return a number, a word or a list of numbers, as a record contains them."""
    if hasattr(value, "get_params"):  # a kernel
        return str(value)
    if hasattr(value, "__len__") and not isinstance(value, str):
        return [float(part) for part in value]
    return value
