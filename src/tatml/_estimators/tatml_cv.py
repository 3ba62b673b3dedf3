"""TATMLCV: TATML with C, and optionally other parameters, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances

from .._data.blocks import Blocks
from .._data.sampling import STRATEGIES, Strategy, balanced, thin_out
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
from .cross_fitting import area_under_roc, choose_units, hold_out_samples
from .folds import Fold, LabelledSamples, check_fits_folds, make_folds, make_pair_folds
from .given_labels import class_labels, group_labels
from .inner_model import copy_fitted, make_inner_model
from .inputs import samples_of, unchanged_on_error
from .label_mixins import LabelsMixin, Prior, within_classes
from .metric import MetricMixin, row_distances
from .priors import PRIORS, Units, has_units
from .tatml import TATML

__all__ = ["TATMLCV"]

DEFAULT_PRIORS = ("discriminant", "auto", "scaled")
CHUNK_ROWS = 1000  # rows of the distance matrix that k-NN computes at a time, to save memory
Scoring = Literal["both", "auc", "accuracy"]
ACCURACY_SHARE = 1 / 3  # weight of the accuracy in the score "both"
SCORINGS = get_args(Scoring)
# The parameters that scale the objective.
SCALE_PARAMETERS = ("Cs", "c0", "threshold", "threshold_prior", "threshold_strength")


@dataclass(frozen=True)
class PathSettings:
    """Accuracy, and number of pairs, with which the path over C is solved in each fold.

    Parameters
    ----------
    tol : float
        Relative tolerance of the duality gap, unless the estimator's `tol` is larger.
    min_pairs : int
        Pairs are left out only if at least this many remain.
    max_step : int
        A path takes every pair, every second one, and so on, up to every `max_step`-th.
    """

    tol: float = 1e-2
    min_pairs: int = 1000
    max_step: int = 4


class TATMLCV(LabelsMixin, MetricMixin, BaseEstimator):
    """TATML with its prior and its weight C chosen by cross-validation.

    Each fold draws its pairs once and solves for all values of C in increasing order, each solution
    starting from the one before. To save time, a path stops at a duality gap of 1 % of the
    objective (or `tol`, if larger) and takes only every second to fourth pair if at least 1,000
    pairs remain; it takes all pairs for ``pairs="neighbors"`` and ``reduction="sum"``. C weights
    the mean loss of the pairs, so the best C does not depend on their number. The best setting is
    then fitted to all samples.

    Parameters
    ----------
    Cs : int or sequence of float, default=(10.0, 100.0, 1000.0)
        The values of C to choose from. An int gives that many values from 1 to 10⁴, evenly spaced
        on a logarithmic scale.
    threshold_strengths : sequence of float or None, default=None
        Values of `threshold_strength` to choose from. None: only `threshold_strength`.
    priors : sequence of str or None, default=None
        Priors to choose from. None: only `prior` if it is given, and otherwise
        ``["discriminant", "auto", "scaled"]``. The last two suit classes with several modes.
    pair_strategies : sequence of str or None, default=None
        Values of `pairs` to choose from, such as ``["random", "neighbors"]``. None: only `pairs`.
    scoring : {"both", "auc", "accuracy"}, default="both"
        The score of a setting on the test samples of a fold. "auc": the area under the ROC curve
        for pairs of test samples (random pairs, or all pairs for ``pairs="all"``). "accuracy": the
        accuracy of a k-NN classifier. "both": (2 AUC + accuracy)/3. The AUC alone does not show
        whether a prior suits classes with several modes; the accuracy alone is noisy, and says
        little about the distances of other pairs.
    k : int, default=3
        Number of neighbours of the k-NN classifier.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. An int gives stratified folds without shuffling. With groups, it also keeps each
        group on one side of every split. If classes are too small for that many folds, there are
        fewer, so that both sides of every split give similar and dissimilar pairs.
    n_jobs : int or None, default=None
        Number of paths solved in parallel by joblib. There is one path per fold and combination of
        prior, threshold strength and pair strategy.
    threshold, threshold_prior, threshold_strength, c0, margin, pairs, n_pairs_per_class
        See `TATML`.
    prior : str, list of M arrays of shape (n_m, n_m), or None, default=None
        The only prior; see `TATML`. None: see `priors`.
    n_neighbors, reduction, clip_outliers, n_components, preprocessor, solver, tol, verbose
        See `TATML`. Only the final fit is verbose.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs, in the folds and in the final fit, and the random draws of the
        solver in the final fit. All settings of a fold are scored on the same pairs. It does not
        seed the folds: `cv` alone determines them.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_params_ : dict
        The chosen C, threshold_strength, prior and pairs.
    best_score_ : float
        The mean score of the chosen setting.
    cv_results_ : dict
        ``params`` (list of dict), ``mean_test_score``, ``std_test_score``, and
        ``split_test_score`` of shape (n_settings, n_splits).
    components_, threshold_, threshold_factor_, b0_, result_, pairs_, similar_, prior_
        Of the final fit; see `TATML`.
    prior_units_, block_shapes_, n_iter_
        Of the final fit; see `TATML`.

    See Also
    --------
    TATML : The estimator with given parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATMLCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TATMLCV(Cs=[10.0, 1000.0], cv=3, random_state=0).fit(X, y)
    >>> model.C_ in (10.0, 1000.0), model.transform(X).shape
    (True, (150, 4))
    """

    _path: ClassVar[PathSettings] = PathSettings()

    def __init__(
        self,
        Cs: int | Sequence[float] = (10.0, 100.0, 1000.0),
        *,
        threshold_strengths: Sequence[float] | None = None,
        priors: Sequence[str] | None = None,
        pair_strategies: Sequence[str] | None = None,
        scoring: Scoring = "both",
        k: int = 3,
        cv: Any = 5,
        n_jobs: int | None = None,
        threshold: Literal["auto", "joint"] | float = "auto",
        threshold_prior: float | None = None,
        threshold_strength: float = 1.0,
        c0: float | None = None,
        margin: tuple[float, float] = (0.5, 2.0),
        prior: Prior | None = None,
        pairs: Strategy = "random",
        n_pairs_per_class: int | None = None,
        n_neighbors: int = 3,
        reduction: Literal["mean", "sum"] = "mean",
        clip_outliers: bool = True,
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
        self.clip_outliers = clip_outliers
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose the parameters by cross-validation, and fit them to all samples.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group, and no group is on both sides of a
            split.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self._check_grids()
            blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
            _, labels = class_labels(self, y, len(blocks))
            group_numbers = group_labels(groups, len(blocks))
            clipped = self._model()._without_outliers(blocks, np.arange(len(blocks)))
            self._search(LabelledSamples(clipped, labels, group_numbers))
            model = self._model(**self.best_params_)
            result = model._fit_blocks(clipped, labels, group_numbers, model._given_threshold())
            copy_fitted(self, model)
        warn_unless_converged(result)
        return self

    def _search(self, samples: LabelledSamples) -> None:
        """Score every setting on every fold, and set what the search found."""
        Cs, settings = self._grid(), list(self._settings())
        folds = make_folds(self.cv, samples, pairs_in_tests=self.scoring != "accuracy")
        units = _choose_units([setting["prior"] for setting in settings], samples)
        check_count("k", self.k)
        if self.scoring != "auc":
            check_fits_folds("k", self.k, folds)
        seed = self.random_state  # one seed: all settings of a fold draw the same pairs
        if not isinstance(seed, Integral):
            seed = int(check_random(seed).choice(2**31 - 1))
        jobs = (
            delayed(_score_path)(
                self._model(C=float(Cs[0]), random_state=seed, **setting),
                units[setting["prior"]] if has_units(setting["prior"]) else "columns",
                *(samples, fold, Cs, self.scoring, self.k, self._path),
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
        priors: Sequence[Any] = DEFAULT_PRIORS if self.prior is None else [self.prior]
        if self.priors is not None:
            priors = self.priors
        pairs = [self.pairs] if self.pair_strategies is None else self.pair_strategies
        for strength, prior, strategy in product(strengths, priors, pairs):
            yield {"threshold_strength": strength, "prior": prior, "pairs": strategy}

    def _model(self, **changes: Any) -> TATML:
        if self.prior is None:
            changes = {"prior": DEFAULT_PRIORS[0]} | changes
        return make_inner_model(self, SCALE_PARAMETERS, **changes)


def _choose_units(priors: Sequence[Any], samples: LabelledSamples) -> dict[str, Units]:
    """Return the units of the priors that have some, chosen once for all folds."""
    shrunk = {prior for prior in priors if has_units(prior)}
    if not shrunk:
        return {}
    parts = hold_out_samples(samples, make_pair_folds(samples.labels, samples.groups))
    return {prior: choose_units(prior, parts) for prior in shrunk}


def _score_path(
    model: TATML,
    units: Units,
    samples: LabelledSamples,
    fold: Fold,
    Cs: Sequence[float],
    scoring: str,
    k: int,
    path: PathSettings,
) -> list[float]:
    """Return the score of every C on one fold; each solution starts from that of the last C."""
    known, held_out = (samples[rows] for rows in fold)
    numbered = known.renumbered()
    pairs = model._draw_pairs(numbered, prior=model.prior, units=units)
    if model.reduction == "mean":
        step = 1 if model.pairs == "neighbors" else path.max_step
        pairs = balanced(thin_out(pairs, step, path.min_pairs))
    within, margin = (
        within_classes(known.blocks, numbered.labels, units),
        check_margin(model.margin),
    )
    model._keeps_spans, threshold = True, model._given_threshold()
    problem, prior = model._build_problem(known.blocks, pairs, within, margin, threshold)
    score = _make_scorer(model, known, held_out, scoring, k)
    solver = seeded(as_solver(model.solver), 0)
    solver = replace(solver, on_interrupt="raise")  # Ctrl-C ends the search
    tol = max(path.tol, check_positive("tol", model.tol))
    result, scores = None, {}
    for C in sorted(Cs):
        weighted = model._reweight(problem, pairs, margin, float(C))
        result = solver.solve(weighted, tol=tol, init=result, sizes=", ".join(SCALE_PARAMETERS))
        model.block_shapes_ = known.blocks.block_shapes
        model._set_components(result.L, prior, known.blocks)
        scores[C] = score()
    return [scores[C] for C in Cs]


def _make_scorer(
    model: TATML, known: LabelledSamples, held_out: LabelledSamples, scoring: str, k: int
) -> Callable[[], float]:
    """Return a function without arguments that scores the model's current components."""
    shares = {"both": ACCURACY_SHARE, "auc": 0.0, "accuracy": 1.0}
    share = shares[scoring]
    pairs = None
    if share < 1:
        pairs = model._draw_random_pairs(held_out.renumbered())

    def score() -> float:
        wanted, total = model._embed(held_out.blocks), 0.0
        if share > 0:
            found = _predict_knn(model._embed(known.blocks), known.labels, wanted, k)
            total += share * float(np.mean(found == held_out.labels))
        if pairs is not None:
            area = area_under_roc(row_distances(wanted, pairs.index), pairs.similar)
            total += (1 - share) * area
        return total

    return score


def _predict_knn(
    known: NDArray, labels: NDArray, wanted: NDArray, k: int, chunk_rows: int = CHUNK_ROWS
) -> NDArray:
    """Predict like KNeighborsClassifier, without the cost of setting one up for every C."""
    found = np.empty(len(wanted), dtype=labels.dtype)
    centre = known.mean(axis=0)  # squares lose all digits far from the origin
    known, wanted = known - centre, wanted - centre
    for start in range(0, len(wanted), chunk_rows):
        chunk = wanted[start : start + chunk_rows]
        distances = euclidean_distances(chunk, known, squared=True)
        nearest = labels[np.argpartition(distances, k - 1, axis=1)[:, :k]]
        votes = np.stack([np.sum(nearest == label, axis=1) for label in range(labels.max() + 1)])
        found[start : start + chunk_rows] = np.argmax(votes, axis=0)
    return found
