"""Maz: the same metric with a threshold that is given, or searched for exhaustively."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier

from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learn_metric import warn_unless_converged
from .._optim.solvers import SolverLike, as_solver
from .._validation import check_grid, check_number_or, check_random
from .folds import Fold, check_fits_folds, folds_of
from .inner_model import held_model, take_fitted
from .inputs import class_labels, group_labels, samples_of, unchanged_on_error
from .label_mixins import LabelsMixin, Prior
from .metric import MetricMixin
from .tatml import TATML

__all__ = ["Maz"]

Index = NDArray[np.intp]
SIZES = ("C", "threshold")  # the parameters that scale the objective


class Maz(LabelsMixin, MetricMixin, BaseEstimator):
    """Metric learning with a fixed threshold, the method that TATML tunes automatically.

    TATML's problem with b0 fixed. The paper gives this method its best threshold of four by an
    exhaustive search, which ``threshold="search"`` repeats: each candidate is scored by the
    accuracy of a k-NN classifier in cross-validation.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the pairs; see `TATML`.
    threshold : float or "search", default=1.0
        The threshold, in the units of `pair_distance`; with a scale-free prior the root mean
        squared distance of the pairs is 1 before learning.
    thresholds : sequence of float, default=(0.5, 0.7071067811865476, 1.0, 1.4142135623730951)
        The candidates of the search; as default those of the paper, b0 = 1/4, 1/2, 1, 2.
    cv : int or splitter, default=3
        Folds of the search.
    k : int, default=3
        Neighbours of the k-NN classifier that scores a candidate.
    margin, prior, pairs, n_pairs_per_class, n_neighbors, reduction, n_components, preprocessor
        See `TATML`.
    solver, tol, warm_start, random_state, verbose
        See `TATML`.

    Attributes
    ----------
    threshold_, b0_ : float
        The threshold, and its square over √(γ_s γ_d).
    search_scores_ : dict of float to float
        After a search, the mean accuracy of each candidate.
    components_, result_, pairs_, similar_, prior_, block_shapes_, n_iter_, n_features_in_
        See `TATML`.

    See Also
    --------
    TATML : learns the threshold with the metric.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import Maz
    >>> X, y = load_iris(return_X_y=True)
    >>> Maz(threshold=0.8, random_state=0).fit(X, y).threshold_
    0.8
    >>> best = Maz(threshold="search", thresholds=(0.5, 1.0), random_state=0).fit(X, y)
    >>> list(best.search_scores_)
    [0.5, 1.0]
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        threshold: float | Literal["search"] = 1.0,
        thresholds: Sequence[float] = (0.5, 0.5**0.5, 1.0, 2**0.5),
        cv: Any = 3,
        k: int = 3,
        margin: tuple[float, float] = (0.5, 2.0),
        prior: Prior = "discriminant",
        pairs: Strategy = "random",
        n_pairs_per_class: int | None = None,
        n_neighbors: int = 3,
        reduction: Literal["mean", "sum"] = "mean",
        n_components: int | Sequence[int] | None = None,
        preprocessor: Any = None,
        solver: SolverLike = "newton",
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.threshold = threshold
        self.thresholds = thresholds
        self.cv = cv
        self.k = k
        self.margin = margin
        self.prior = prior
        self.pairs = pairs
        self.n_pairs_per_class = n_pairs_per_class
        self.n_neighbors = n_neighbors
        self.reduction = reduction
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn the metric, with each candidate threshold if they are searched."""
        with unchanged_on_error(self):
            self.__dict__.pop("search_scores_", None)
            threshold = check_number_or("threshold", self.threshold, "search")
            blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
            _, labels = class_labels(self, y, len(blocks))
            group_numbers = group_labels(groups, len(blocks))
            if threshold is None:
                scores = self._search(blocks, labels, group_numbers)
                self.search_scores_, threshold = scores, max(scores, key=lambda t: scores[t])
            model = held_model(self, SIZES, threshold=threshold)
            if hasattr(self, "result_"):
                model.result_ = self.result_  # where a warm start begins
            model._fit_blocks(blocks, labels, group_numbers, threshold)
            take_fitted(self, model)
        warn_unless_converged(self.result_)
        return self

    def _search(self, blocks: Blocks, labels: Index, groups: Index | None) -> dict[float, float]:
        """The mean accuracy of each candidate, on the same folds."""
        folds = folds_of(self.cv, labels, groups)
        check_fits_folds("k", self.k, folds)
        check_random(self.random_state)
        solver = replace(as_solver(self.solver), on_interrupt="raise")  # Ctrl-C ends the search
        scores = {}
        for candidate in check_grid("thresholds", self.thresholds):
            seed = deepcopy(self.random_state)  # all candidates draw the same pairs
            changes = {"threshold": candidate, "random_state": seed, "solver": solver}
            model = held_model(self, SIZES, **changes)
            parts = [_score(model, self.k, blocks, labels, groups, fold) for fold in folds]
            scores[candidate] = float(np.mean(parts))
        return scores


def _score(
    model: TATML, k: int, blocks: Blocks, labels: Index, groups: Index | None, fold: Fold
) -> float:
    """Fit on one part of a fold, and return the accuracy of k-NN on the other."""
    train, test = fold
    known_groups = None if groups is None else groups[train]
    with warnings.catch_warnings():  # what there is to say is said once, of all samples
        warnings.simplefilter("ignore")
        model.fit(blocks[train], labels[train], known_groups)
    classifier = KNeighborsClassifier(k)
    classifier.fit(model.transform(blocks[train]), labels[train])
    return float(classifier.score(model.transform(blocks[test]), labels[test]))
