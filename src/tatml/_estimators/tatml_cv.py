"""TATMLCV: TATML with C, and what else is asked for, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from numbers import Integral
from typing import Any, Literal, Self, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances

from .._data.blocks import Blocks
from .._data.sampling import STRATEGIES, Strategy, balanced
from .._learn_metric import warn_unless_converged
from .._messages import shown
from .._optim.solvers import SolverLike, as_solver, seeded
from .._validation import (
    check_choice,
    check_count,
    check_grid,
    check_jobs,
    check_margin,
    check_positive,
    check_random,
    check_words,
)
from .folds import check_fits_folds, folds_of
from .inner_model import held_model, take_fitted
from .inputs import class_labels, group_labels, samples_of, unchanged_on_error
from .label_mixins import LabelsMixin, Prior, within_classes
from .metric import MetricMixin, components_of, one_or_list, row_distances
from .priors import PRIORS
from .tatml import TATML

__all__ = ["TATMLCV"]

PATH_TOL = 1e-2  # relative to the objective: enough to compare scores
ENOUGH, LARGEST_STEP = 1000, 4  # pairs of a path: one in four, where so many are left
ROWS = 1000  # samples whose neighbours are found at a time
Scoring = Literal["accuracy", "auc"]
SCORINGS = get_args(Scoring)
SIZES = ("Cs", "c0", "threshold", "threshold_prior", "threshold_strength")  # scale the objective


class TATMLCV(LabelsMixin, MetricMixin, BaseEstimator):
    """TATML with its weight C chosen by cross-validation along warm-started paths.

    In each fold the pairs are drawn once, down to a quarter of those of the final fit (but not
    below 1,000; neighbours are all taken), and the solutions for all C are found one from the
    other, to a gap of 1 % of the objective: C weighs the mean over the pairs, so that the best one
    holds for all of them. The best setting is then fitted to all samples.

    Parameters
    ----------
    Cs : int or sequence of float, default=9
        The values of C; a number stands for so many from 1 to 10⁴ on a logarithmic scale.
    threshold_strengths : sequence of float or None, default=None
        Values of ρ to choose from; None: `threshold_strength` alone.
    priors : sequence of str or None, default=None
        Priors to choose from; None: `prior` alone. ``["discriminant", "within"]`` with both
        `pair_strategies` is a thorough search.
    pair_strategies : sequence of str or None, default=None
        Ways to draw the pairs to choose from, such as ``["random", "neighbors"]``; None: `pairs`
        alone.
    scoring : {"accuracy", "auc"}, default="accuracy"
        Accuracy of a k-NN classifier, or the area under the ROC curve of random pairs of the
        samples left out.
    k : int, default=3
        Neighbours of the k-NN classifier.
    cv : int or splitter, default=5
        Folds; with groups, no group is on both sides of a split.
    n_jobs : int or None, default=None
        How many folds (times priors, strengths, strategies) at the same time, as in joblib.
    threshold, threshold_prior, threshold_strength, c0, margin, prior, pairs, n_pairs_per_class
        See `TATML`.
    n_neighbors, reduction, n_components, preprocessor, solver, tol, random_state, verbose
        See `TATML`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_params_ : dict
        The chosen C, threshold_strength, prior and pairs.
    best_score_ : float
        Its mean score.
    cv_results_ : dict
        ``params`` (list of dict), ``mean_test_score``, ``std_test_score``, ``split_test_score``
        of shape (n_settings, n_splits).
    components_, threshold_, b0_, result_, pairs_, similar_, prior_, block_shapes_, n_iter_
        Those of the final fit; see `TATML`.

    See Also
    --------
    TATML : with one C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATMLCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TATMLCV(Cs=[10.0, 1000.0], cv=3, random_state=0).fit(X, y)
    >>> model.C_ in (10.0, 1000.0), model.transform(X).shape
    (True, (150, 4))
    """

    def __init__(
        self,
        Cs: int | Sequence[float] = 9,
        *,
        threshold_strengths: Sequence[float] | None = None,
        priors: Sequence[str] | None = None,
        pair_strategies: Sequence[str] | None = None,
        scoring: Scoring = "accuracy",
        k: int = 3,
        cv: Any = 5,
        n_jobs: int | None = None,
        threshold: Literal["auto"] | float = "auto",
        threshold_prior: float | None = None,
        threshold_strength: float = 1.0,
        c0: float | None = None,
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
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.Cs = Cs
        self.threshold_strengths = threshold_strengths
        self.priors = priors
        self.pair_strategies = pair_strategies
        self.scoring = scoring
        self.k = k
        self.cv = cv
        self.n_jobs = n_jobs
        self.threshold = threshold
        self.threshold_prior = threshold_prior
        self.threshold_strength = threshold_strength
        self.c0 = c0
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
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose the parameters by cross-validation, then learn from all samples.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their classes, two or more.
        groups : array-like of shape (n_samples,), optional
            No pair is made of two samples of the same group, and no group is on both sides of a
            split.
        """
        with unchanged_on_error(self):
            self._check_grids()
            blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
            _, labels = class_labels(self, y, len(blocks))
            group_numbers = group_labels(groups, len(blocks))
            self._search(blocks, labels, group_numbers)
            model = self._model(**self.best_params_)
            result = model._fit_blocks(blocks, labels, group_numbers, model._given_threshold())
            take_fitted(self, model)
        warn_unless_converged(result)
        return self

    def _search(self, blocks: Blocks, labels: NDArray, groups: NDArray | None) -> None:
        """Score every setting on every fold."""
        Cs, settings = self._grid(), list(self._settings())
        folds = folds_of(self.cv, labels, groups)
        check_count("k", self.k)
        if self.scoring == "accuracy":  # which looks for neighbours
            check_fits_folds("k", self.k, folds)
        seed = self.random_state  # the same pairs for all settings of a fold
        if not isinstance(seed, Integral):
            seed = int(check_random(seed).choice(2**31 - 1))
        jobs = (
            delayed(_score_path)(
                self._model(C=float(Cs[0]), random_state=seed, **setting),
                *(blocks, labels, groups, *fold, Cs),
                *(self.scoring, self.k),
            )
            for setting, fold in product(settings, folds)
        )
        scores = np.asarray(Parallel(n_jobs=self.n_jobs)(jobs))
        scores = scores.reshape(len(settings), len(folds), len(Cs)).transpose(0, 2, 1)
        split = scores.reshape(-1, len(folds))
        params = [{"C": float(C), **setting} for setting, C in product(settings, Cs)]
        mean = split.mean(axis=1)
        self.cv_results_ = {
            "params": params,
            "mean_test_score": mean,
            "std_test_score": split.std(axis=1),
            "split_test_score": split,
        }
        best = int(np.argmax(mean))
        self.best_params_, self.best_score_ = params[best], float(mean[best])
        self.C_ = self.best_params_["C"]

    def _check_grids(self) -> None:
        check_choice("scoring", self.scoring, SCORINGS)
        plain = self._model()
        plain._check_words()
        check_jobs("n_jobs", self.n_jobs)
        if self.threshold_strengths is not None:
            check_grid("threshold_strengths", self.threshold_strengths)
            if self.c0 is not None or plain._given_threshold() is not None:
                raise ValueError(
                    "threshold_strengths: expected None with a given c0 or threshold, got "
                    f"{shown(self.threshold_strengths)}"
                )
        if self.priors is not None:
            check_words("priors", self.priors, PRIORS)
        if self.pair_strategies is not None:
            check_words("pair_strategies", self.pair_strategies, STRATEGIES)

    def _grid(self) -> list[float]:
        if isinstance(self.Cs, Integral):
            return np.logspace(0, 4, check_count("Cs", self.Cs)).tolist()
        return check_grid("Cs", self.Cs)

    def _settings(self) -> Iterator[dict[str, Any]]:
        strengths = self.threshold_strengths
        strengths = [self.threshold_strength] if strengths is None else strengths
        priors = [self.prior] if self.priors is None else self.priors
        pairs = [self.pairs] if self.pair_strategies is None else self.pair_strategies
        for strength, prior, strategy in product(strengths, priors, pairs):
            yield {"threshold_strength": strength, "prior": prior, "pairs": strategy}

    def _model(self, **changes: Any) -> TATML:
        return held_model(self, SIZES, **changes)


def _score_path(
    model: TATML,
    blocks: Blocks,
    labels: NDArray,
    groups: NDArray | None,
    train: NDArray,
    test: NDArray,
    Cs: Sequence[float],
    scoring: str,
    k: int,
) -> list[float]:
    """The scores of all C on one fold, each solution started from the one before."""
    known, margin = blocks[train], check_margin(model.margin)
    known_groups = None if groups is None else groups[train]
    pairs, numbers = model._draw(known, labels[train], known_groups, prior=model.prior)
    if model.reduction == "mean":
        longest = 1 if model.pairs == "neighbors" else LARGEST_STEP
        step = max(1, min(longest, len(pairs) // ENOUGH))
        kinds = [np.flatnonzero(pairs.similar == kind)[::step] for kind in (True, False)]
        pairs = balanced(pairs.take(np.concatenate(kinds)))
    model._check_words()
    within = within_classes(known, numbers)
    problem, _ = model._problem(known, pairs, within, margin, model._given_threshold())
    score = _scorer(model, scoring, k, blocks, labels, groups, train, test)
    solver = replace(seeded(as_solver(model.solver), 0), on_interrupt="raise")  # ends the search
    tol = max(PATH_TOL, check_positive("tol", model.tol))
    result, scores = None, {}
    for C in sorted(Cs):
        weighted = model._weighted(problem, pairs, margin, float(C))
        result = solver.solve(weighted, tol=tol, init=result, sizes=", ".join(SIZES))
        model.block_shapes_ = known.block_shapes
        model.components_ = one_or_list(components_of(result.L, known, model.n_components))
        scores[C] = score()
    return [scores[C] for C in Cs]


def _scorer(
    model: TATML,
    scoring: str,
    k: int,
    blocks: Blocks,
    labels: NDArray[np.intp],
    groups: NDArray[np.intp] | None,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
) -> Callable[[], float]:
    """A function without arguments that scores the model's components on the fold left out."""
    held_out = blocks[test]
    if scoring == "accuracy":

        def accuracy() -> float:
            known, wanted = model._embedded(blocks[train]), model._embedded(held_out)
            found = _nearest_class(known, labels[train], wanted, k)
            return float(np.mean(found == labels[test]))

        return accuracy
    held_out_groups = None if groups is None else groups[test]
    pairs = model._random_pairs(held_out, labels[test], held_out_groups)

    def area() -> float:
        distances = row_distances(model._embedded(held_out), pairs.index)
        return float(roc_auc_score(pairs.similar, -distances))

    return area


def _nearest_class(known: NDArray, labels: NDArray, wanted: NDArray, k: int) -> NDArray:
    """What k-NN says: KNeighborsClassifier, without what it costs to set one up for each C."""
    found = np.empty(len(wanted), dtype=labels.dtype)
    centre = known.mean(axis=0)  # far from the origin, squares would lose all digits
    known, wanted = known - centre, wanted - centre
    for start in range(0, len(wanted), ROWS):
        distances = euclidean_distances(wanted[start : start + ROWS], known, squared=True)
        nearest = labels[np.argpartition(distances, k - 1, axis=1)[:, :k]]
        votes = np.stack([np.sum(nearest == label, axis=1) for label in range(labels.max() + 1)])
        found[start : start + ROWS] = np.argmax(votes, axis=0)
    return found
