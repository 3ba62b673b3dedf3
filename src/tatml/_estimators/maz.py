"""Maz: TATML's metric with a fixed threshold, given or found by an exhaustive search."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .._array import to_numpy
from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learning.labelled import Fold, LabelledSamples, check_fits_folds, counted, make_folds
from .._learning.learn import in_given_rows, learn_from_labels
from .._learning.path import predict_knn
from .._learning.samples import KernelLike
from .._learning.task import Prior, Settings
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike, raising
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class Maz(LabelEstimator):
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

    C: float = 100.0
    _: KW_ONLY
    threshold: float | Literal["search"] = 1.0
    thresholds: Sequence[float] = (0.5, 0.5**0.5, 1.0, 2**0.5)
    cv: Any = 3
    k: int = 3
    margin: tuple[float, float] = (0.5, 2.0)
    prior: Prior = "discriminant"
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
    reduction: Literal["mean", "sum"] = "mean"
    kernel: KernelLike = None
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    solver: SolverLike = "newton"
    tol: float = 1e-6
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose the threshold if it is to be searched, and learn the metric.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. Only their ratios matter, and a
            weight of 2 is the same as a second copy of the sample: see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            self._forget("search_scores_")
            parameters = checked(self)
            settings = self._settings(parameters, X, clip_outliers=False, names=("C", "threshold"))
            samples = self._read_labelled(X, y, groups, sample_weight)
            samples, rows = counted(samples, parameters.cv)
            if settings.threshold == "search":
                self.search_scores_ = self._search(samples, settings, parameters)
                settings = replace(settings, threshold=best_of(self.search_scores_))
            self._publish(in_given_rows(learn_from_labels(samples, settings), rows))
        warn_unless_converged(self.result_)
        return self

    def _search(
        self, samples: LabelledSamples, settings: Settings, parameters: SimpleNamespace
    ) -> dict[float, float]:
        """Return the mean accuracy of each candidate over the folds."""
        k, folds = parameters.k, make_folds(parameters.cv, samples, pairs_in_tests=False)
        check_fits_folds("k", k, folds)
        scores = {}
        for threshold in parameters.thresholds:
            candidate = replace(
                settings,
                threshold=threshold,
                random_state=deepcopy(settings.random_state),  # all draw the same pairs
                solver=raising(settings.solver),
                init=None,
            )
            scores[threshold] = float(
                np.mean([_score_fold(candidate, k, samples, fold) for fold in folds])
            )
        return scores


def best_of(scores: dict[float, float]) -> float:
    """Return the candidate with the highest score, the first of several.

    Examples
    --------
    >>> from tatml._estimators.maz import best_of
    >>> best_of({0.5: 0.7, 1.0: 0.9, 2.0: 0.9})
    1.0
    """
    return max(scores, key=lambda candidate: scores[candidate])


def _score_fold(settings: Settings, k: int, samples: LabelledSamples, fold: Fold) -> float:
    """Learn from the training samples, and return the accuracy of k-NN on the others."""
    known, held_out = (samples[rows] for rows in fold)
    if settings.has_kernel_values:  # the columns are those of the training samples
        known, held_out = (
            replace(part, blocks=Blocks(part.blocks.arrays[0][:, fold[0]]))
            for part in (known, held_out)
        )
    with warnings.catch_warnings():  # only the final fit warns
        warnings.simplefilter("ignore")
        metric = learn_from_labels(known.renumbered(), settings)
        rows, queries = (metric.embed(part.blocks) for part in (known, held_out))
    found = predict_knn(to_numpy(rows), known.labels, to_numpy(queries), k)
    return float(np.average(found == held_out.labels, weights=held_out.weights))
