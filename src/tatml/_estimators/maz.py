"""Maz: TATML's metric with a fixed threshold, given or found by an exhaustive search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier

from .._array import Indices
from .._data.blocks import Blocks
from .._data.labels import group_labels
from .._data.sampling import Strategy
from .._learn_metric import warn_unless_converged
from .._optim.solvers import SolverLike, as_solver
from .._validation import check_grid, check_number_or
from .folds import Fold, LabelledSamples, check_fits_folds, make_folds
from .given_labels import class_labels
from .inner_model import copy_fitted, make_inner_model
from .inputs import samples_of, unchanged_on_error
from .kernel_space import KernelLike, KernelMixin
from .label_mixins import LabelsMixin, Prior
from .metric import MetricMixin
from .tatml import TATML

SCALE_PARAMETERS = ("C", "threshold")  # the parameters that scale the objective


class Maz(KernelMixin, LabelsMixin, MetricMixin, BaseEstimator):
    """Metric learning with a fixed threshold: the earlier method that TATML extends.

    It solves the problem of `TATML` with b0 fixed. The paper gives this method the best of four
    thresholds, found by exhaustive search. ``threshold="search"`` does the same: it scores each
    candidate by the accuracy of a k-NN classifier in cross-validation.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the pairs relative to the prior; see `TATML`.
    threshold : float or "search", default=1.0
        The threshold, in the units of `pair_distance`, or "search" to choose one of `thresholds`.
        Every named prior except "identity" scales the data so that the root mean squared distance
        of the pairs is 1 before learning.
    thresholds : sequence of float, default=(0.5, 0.7071067811865476, 1.0, 1.4142135623730951)
        The candidates of the search. The default is that of the paper, b0 = 1/4, 1/2, 1, 2.
    cv : int, splitter or iterable of (train, test), default=3
        The folds of the search. An int gives stratified folds without shuffling. With groups, it
        also keeps each group on one side of every split.
    k : int, default=3
        Number of neighbours of the k-NN classifier that scores the candidates.
    margin, prior, pairs, n_pairs_per_class, n_neighbors, reduction, kernel, n_components
        See `TATML`.
    preprocessor, solver, tol, warm_start, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs and the random draws of the solver, in the search and in the final
        fit. All candidates are scored on the same pairs if it is not None. It does not seed the
        folds: `cv` alone determines them.

    Attributes
    ----------
    threshold_, b0_ : float
        The threshold in the units of `pair_distance`, and in squared units: b0 = threshold² /
        √(γ_s γ_d).
    search_scores_ : dict of float to float
        The mean accuracy of each candidate. Only after a search.
    components_, result_, pairs_, similar_, prior_, kernel_map_, block_shapes_, n_iter_
        See `TATML`.
    n_features_in_
        See `TATML`.

    See Also
    --------
    TATML : Learns the threshold together with the metric.

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
        kernel: KernelLike = None,
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
        self.kernel = kernel
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose the threshold if it is to be searched, and learn the metric.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self.__dict__.pop("search_scores_", None)
            threshold = check_number_or("threshold", self.threshold, "search")
            blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
            _, labels = class_labels(self, y, len(blocks))
            samples = LabelledSamples(blocks, labels, group_labels(groups, len(blocks)))
            if threshold is None:
                threshold, self.search_scores_ = self._search(samples)
            model = make_inner_model(
                self, SCALE_PARAMETERS, threshold=threshold, clip_outliers=False
            )
            if hasattr(self, "result_"):
                model.result_ = self.result_  # the starting point of a warm start
            model._fit_samples(samples, threshold)
            copy_fitted(self, model)
        warn_unless_converged(self.result_)
        return self

    def _search(self, samples: LabelledSamples) -> tuple[float, dict[float, float]]:
        """Return the threshold with the best mean accuracy over the folds, and all accuracies."""
        folds = make_folds(self.cv, samples, pairs_in_tests=False)
        check_fits_folds("k", self.k, folds)
        solver = replace(as_solver(self.solver), on_interrupt="raise")  # Ctrl-C ends the search

        def score(threshold: float) -> float:
            seed = deepcopy(self.random_state)  # all candidates draw the same pairs
            changes = {"threshold": threshold, "random_state": seed, "solver": solver}
            model = make_inner_model(self, SCALE_PARAMETERS, clip_outliers=False, **changes)
            return float(np.mean([_score_fold(model, self.k, samples, fold) for fold in folds]))

        return search_threshold(check_grid("thresholds", self.thresholds), score)


def search_threshold(
    candidates: Sequence[float], score: Callable[[float], float]
) -> tuple[float, dict[float, float]]:
    """Return the candidate with the highest score, the first of several, and all scores.

    Examples
    --------
    >>> from tatml._estimators.maz import search_threshold
    >>> search_threshold([0.5, 1.0, 2.0], lambda threshold: -abs(threshold - 1.1))[0]
    1.0
    """
    scores = {candidate: score(candidate) for candidate in candidates}
    return max(scores, key=lambda candidate: scores[candidate]), scores


def _score_fold(model: TATML, k: int, samples: LabelledSamples, fold: Fold) -> float:
    """Fit the model to the training samples, and return the accuracy of k-NN on the others."""
    known, held_out = (samples[rows] for rows in fold)
    if model._has_kernel_values():  # the columns are those of the training samples
        known, held_out = (_take_columns(part, fold[0]) for part in (known, held_out))
    with warnings.catch_warnings():  # only the final fit warns
        warnings.simplefilter("ignore")
        model.fit(known.blocks, known.labels, known.groups)
        classifier = KNeighborsClassifier(k).fit(model.transform(known.blocks), known.labels)
    return float(classifier.score(model.transform(held_out.blocks), held_out.labels))


def _take_columns(samples: LabelledSamples, columns: Indices) -> LabelledSamples:
    """Return samples that are rows of a kernel matrix, with some of its columns."""
    return replace(samples, blocks=Blocks(samples.blocks.arrays[0][:, columns]))
