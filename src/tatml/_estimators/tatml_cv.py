"""TATMLCV: TATML with C, and optionally other parameters, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._data.blocks import Blocks
from .._data.labels import group_labels
from .._data.sampling import STRATEGIES, Strategy
from .._learn_metric import warn_unless_converged
from .._messages import shown
from .._optim.solvers import SolverLike
from .._progress import with_progress
from .._validation import (
    as_list,
    check_choice,
    check_count,
    check_flag,
    check_grid,
    check_jobs,
    check_random,
    check_words,
)
from ..features._kernel_map import KernelMap
from .folds import LabelledSamples, check_fits_folds, make_folds
from .given_labels import class_labels
from .inner_model import copy_fitted, make_inner_model
from .inputs import samples_of, unchanged_on_error
from .kernel_space import (
    KernelLike,
    KernelMixin,
    as_kernel_map,
)
from .label_mixins import LabelsMixin, Prior
from .metric import MetricMixin, check_components
from .priors import PRIORS
from .search_path import PathSettings, choose_spaces, score_path
from .tatml import TATML

# The kernels of kernels="auto": none, and three widths of "rbf".
AUTO_KERNELS = (None, *(KernelMap(gamma_factor=factor) for factor in (0.3, 1.0, 3.0)))
DEFAULT_PRIORS = ("discriminant", "auto", "scaled")
Scoring = Literal["both", "auc", "accuracy"]
SCORINGS = get_args(Scoring)
# The parameters that scale the objective.
SCALE_PARAMETERS = ("Cs", "c0", "threshold", "threshold_prior", "threshold_strength")


class TATMLCV(KernelMixin, LabelsMixin, MetricMixin, BaseEstimator):
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
        ``["discriminant", "auto", "scaled"]``. The last two suit classes with several modes, and
        are not tried with a kernel.
    pair_strategies : sequence of str or None, default=None
        Values of `pairs` to choose from, such as ``["random", "neighbors"]``. None: only `pairs`.
    kernels : sequence of str, KernelMap or None; "auto" or None, default=None
        Kernels to choose from; None in the sequence stands for no kernel. "auto": no kernel, or
        "rbf" of three widths (``gamma_factor`` 0.3, 1 and 3). None: only `kernel`.
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
    n_neighbors, reduction, kernel, clip_outliers, n_components, preprocessor, solver, tol, verbose
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
        The chosen C, threshold_strength, prior, pairs and kernel.
    best_score_ : float
        The mean score of the chosen setting.
    cv_results_ : dict
        ``params`` (list of dict), ``mean_test_score``, ``std_test_score``, and
        ``split_test_score`` of shape (n_settings, n_splits).
    components_, threshold_, threshold_factor_, b0_, result_, pairs_, similar_, prior_
        Of the final fit; see `TATML`.
    prior_units_, kernel_map_, block_shapes_, n_iter_
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
        kernels: Sequence[KernelLike] | Literal["auto"] | None = None,
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
        kernel: KernelLike = None,
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
        self.kernels = kernels
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
        self.kernel = kernel
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
            if None in self._kernels():  # else their images may have more dimensions
                check_components(self.n_components, [n for n, _ in blocks.block_shapes])
            clipped = self._model()._without_outliers(blocks, np.arange(len(blocks)))
            samples = LabelledSamples(clipped, labels, group_numbers)
            self._search(samples)
            model = self._model(**self.best_params_)
            result = model._fit_samples(samples, model._given_threshold())
            copy_fitted(self, model)
        warn_unless_converged(result)
        return self

    def _search(self, samples: LabelledSamples) -> None:
        """Score every setting on every fold, and set what the search found."""
        Cs, settings = self._grid(), list(self._settings())
        folds = make_folds(self.cv, samples, pairs_in_tests=self.scoring != "accuracy")
        spaces = choose_spaces(settings, samples)
        check_count("k", self.k)
        if self.scoring != "auc":
            check_fits_folds("k", self.k, folds)
        seed = self.random_state  # one seed: all settings of a fold draw the same pairs
        if not isinstance(seed, Integral):
            seed = int(check_random(seed).choice(2**31 - 1))
        jobs = (
            delayed(score_path)(
                self._model(C=float(Cs[0]), random_state=seed, **setting),
                space,
                *(samples, fold, Cs, self.scoring, self.k, self._path),
            )
            for (setting, space), fold in product(zip(settings, spaces, strict=True), folds)
        )
        shown_jobs = with_progress(jobs, len(settings) * len(folds), "TATMLCV", "path")
        scores = np.asarray(Parallel(n_jobs=self.n_jobs)(shown_jobs))
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
        check_flag("verbose", self.verbose)
        if self.threshold_strengths is not None:
            check_grid("threshold_strengths", self.threshold_strengths)
            if self.c0 is not None or plain._given_threshold() is not None:
                raise ValueError(
                    "threshold_strengths: expected None with a given c0 or threshold, got "
                    f"{shown(self.threshold_strengths)}"
                )
        if self.priors is not None:
            check_words("priors", self.priors, PRIORS)
        for kernel in self._kernels():
            as_kernel_map(kernel)
        if self.pair_strategies is not None:
            check_words("pair_strategies", self.pair_strategies, STRATEGIES)

    def _grid(self) -> list[float]:
        if isinstance(self.Cs, Integral):
            return np.logspace(0, 4, check_count("Cs", self.Cs)).tolist()
        return check_grid("Cs", self.Cs)

    def _settings(self) -> Iterator[dict[str, Any]]:
        strengths = self.threshold_strengths
        strengths = [self.threshold_strength] if strengths is None else strengths
        pairs = [self.pairs] if self.pair_strategies is None else self.pair_strategies
        for kernel in self._kernels():
            for strength, prior, strategy in product(strengths, self._priors(kernel), pairs):
                given = {"threshold_strength": strength, "prior": prior, "pairs": strategy}
                yield given | {"kernel": kernel}

    def _priors(self, kernel: KernelLike) -> Sequence[Any]:
        if self.priors is not None:
            return self.priors
        if self.prior is not None:
            return [self.prior]
        # A kernel separates classes with several modes, which the other priors are for.
        return DEFAULT_PRIORS if kernel is None else DEFAULT_PRIORS[:1]

    def _kernels(self) -> Sequence[KernelLike]:
        if self.kernels is None:
            return [self.kernel]
        if isinstance(self.kernels, str):
            check_choice("kernels", self.kernels, ("auto",))
            return AUTO_KERNELS
        kernels = as_list("kernels", self.kernels, "'auto', or a list of kernels")
        if not kernels:
            raise TypeError("kernels: expected 'auto', or a list of kernels, got an empty list")
        return kernels

    def _model(self, **changes: Any) -> TATML:
        if self.prior is None:
            changes = {"prior": DEFAULT_PRIORS[0]} | changes
        return make_inner_model(self, SCALE_PARAMETERS, **changes)
