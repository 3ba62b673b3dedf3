"""TATMLCV: TATML with C and other parameters chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks
from .._learning.labelled import (
    Fold,
    LabelledSamples,
    check_fits_folds,
    counted,
    folds_of,
    make_folds,
)
from .._learning.learn import (
    in_given_rows,
    learn_from_labels,
    without_outliers,
)
from .._learning.path import PathSettings, choose_spaces, score_path
from .._learning.task import Settings
from .._messages import shown
from .._optim.result import warn_unless_converged
from .._progress import with_progress
from .._validation import generator_of
from .._warnings import warn_user
from .metric import LabelEstimator
from .parameters import CHECKS, Scoring, check_together, checked, inside, or_none
from .tatml import TATML

DEFAULT_CS = (10.0, 100.0, 1000.0)
DEFAULT_PRIORS = ("discriminant", "auto", "scaled")
DEFAULT = TATML()  # what estimator=None stands for; it is only read
# The attributes of a search that the TATML it finds does not have.
FOUND = ("C_", "best_index_", "best_params_", "best_score_", "cv_results_", "n_splits_")
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One combination of the parameters besides C, with the values of C that are tried with it."""

    given: dict[str, Any]
    settings: Settings
    Cs: tuple[float, ...]


def _combinations(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield all combinations of the values of a grid; the last name varies fastest."""
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _check_estimator(name: str, value: Any) -> SimpleNamespace:
    """Return the checked parameters of the TATML that a search is over."""
    kind = type(value)
    if kind is not TATML:
        raise TypeError(
            f"{name}: expected None or a TATML, got {shown(value)} of the class "
            f"{kind.__module__}.{kind.__qualname__}; the search would not call its fit"
        )
    with inside(name):
        return checked(value)


CHECKS["estimator"] = or_none(_check_estimator)  # here, because the table cannot import TATML


def results_of(tried: list[dict[str, Any]], scores: NDArray[np.float64]) -> dict[str, Any]:
    """Return the scores of all settings, shape (n_settings, n_splits), as scikit-learn does."""
    mean = scores.mean(axis=1)
    return {
        **columns_of(tried),
        "params": tried,
        **{f"split{number}_test_score": column for number, column in enumerate(scores.T)},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": ranks_of(mean),
    }


def ranks_of(mean: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the rank of each score: 1 for the highest, the least rank for ties, NaN last."""
    return rankdata(np.where(np.isnan(mean), np.inf, -mean), "min").astype(np.int32)


def columns_of(tried: list[dict[str, Any]]) -> dict[str, np.ma.MaskedArray]:
    """Return ``param_<name>`` for each parameter: its values in all settings."""
    names = dict.fromkeys(name for params in tried for name in params)
    return {f"param_{name}": _values_of(tried, name) for name in names}


def _values_of(tried: list[dict[str, Any]], name: str) -> np.ma.MaskedArray:
    """Return the value of a parameter in every setting, masked where the setting has none."""
    known = {row: params[name] for row, params in enumerate(tried) if name in params}
    of_numbers = all(isinstance(value, Real) for value in known.values())
    dtype = np.array([*known.values()]).dtype if of_numbers else object
    values, masked = np.zeros(len(tried), dtype=dtype), np.ones(len(tried), dtype=bool)
    for row, value in known.items():
        values[row], masked[row] = value, False
    return np.ma.MaskedArray(values, masked)


def _try_path(*given: Any) -> tuple[list[float], Exception | None]:
    """Return the scores of `score_path`; if a parameter does not suit the samples, NaN and why."""
    try:
        return score_path(*given), None
    except (TypeError, ValueError) as error:
        Cs = given[4]
        return [np.nan] * len(Cs), error


def _of_estimator(name: str) -> Any:
    """Return a property: a parameter of the TATML that the search is over."""

    def parameter(self: TATMLCV) -> Any:
        return getattr(self._inner(), name)

    return property(parameter, doc=f"The parameter `{name}` of the estimator.")


def _of_best(name: str) -> Any:
    """Return a property: a parameter of the final fit; before it, that of the estimator."""

    def parameter(self: TATMLCV) -> Any:
        chosen = vars(self).get("best_params_", {})
        return chosen[name] if name in chosen else getattr(self._inner(), name)

    return property(parameter, doc=f"The parameter `{name}`, chosen or given.")


@dataclass(eq=False, repr=False)
class TATMLCV(LabelEstimator):
    """TATML with its prior, its weight C, or other parameters, chosen by cross-validation.

    Each fold draws its pairs once per setting and solves for all values of C in increasing order,
    each solution starting from the one before: a path. To save time, a path stops at a duality gap
    of 1 % of the objective (or `tol`, if larger) and takes only every second to fourth pair if at
    least 1,000 pairs remain; it takes all pairs for ``pairs="neighbors"`` and ``reduction="sum"``.
    C weights the mean loss of the pairs, so the best C does not depend on their number. The best
    setting is then fitted to all samples. See Notes for the differences from
    `sklearn.model_selection.GridSearchCV`.

    Parameters
    ----------
    estimator : TATML or None, default=None
        The estimator whose parameters are chosen. Subclasses are refused. None: `TATML` with its
        defaults; only a given ``TATML()`` has parameters for ``set_params(estimator__tol=1e-4)``.
        It does not change. Its parameters hold where the grid gives no values; `warm_start` has no
        effect. Only the final fit is verbose.
    param_grid : dict of str to list, list of such dicts, or None, default=None
        The values to choose from for parameters of `TATML`: all combinations of each dict are
        tried, those of the last name one after another, and C innermost. The first of the best is
        chosen. A given grid replaces the default grid: without "C" in it, C is that of the
        estimator. To try kernels, give for example ``{"C": [10, 100], "kernel": [None, "rbf"]}``;
        to compare distances with scores, ``{"midpoint": [False, True]}``. None: the weights
        ``C=[10, 100, 1000]`` and, unless the estimator has a kernel, a midpoint or another prior
        than "discriminant", the priors ``["discriminant", "auto", "scaled"]``; the last two suit
        classes with several modes.
    scoring : {"both", "auc", "accuracy"}, default="both"
        The score of a setting on the test samples of a fold. "auc": the area under the ROC curve
        for pairs of test samples (random pairs, or all pairs for ``pairs="all"``). "accuracy": the
        accuracy of a k-NN classifier; with a midpoint its neighbours are those of the highest
        score. "both": (2 AUC + accuracy)/3. The AUC alone does not show
        whether a prior suits classes with several modes; the accuracy alone is noisy, and says
        little about the distances of other pairs.
    k : int, default=3
        Number of neighbours of the k-NN classifier.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. An int gives stratified folds without shuffling. With groups, it also keeps each
        group on one side of every split. If classes are too small for that many folds, there are
        fewer, so that both sides of every split give similar and dissimilar pairs. These folds have
        samples of all classes. If new classes will come (`new_classes` of `TATML`), hold out
        classes, with ``cv=list(GroupKFold(3).split(X, y, groups=y))`` and ``scoring="auc"``.
    n_jobs : int or None, default=None
        Number of paths solved in parallel by joblib. There is one path per fold and combination of
        the parameters besides C.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs, in the folds and in the final fit, and the random draws of the
        solver in the final fit. All settings of a fold are scored on the same pairs. None: the
        `random_state` of the estimator. It does not seed the folds: `cv` alone determines them.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_params_ : dict
        The chosen parameters: C, and those of the grid.
    best_score_ : float
        The mean score of the chosen setting.
    best_index_ : int
        Its row in `cv_results_`.
    best_estimator_ : TATML
        A TATML with the chosen parameters and the fitted attributes of the final fit, whose arrays
        it shares. Each access builds a new object, so keep it to change it.
    n_splits_ : int
        Number of folds.
    cv_results_ : dict
        The scores, as in `sklearn.model_selection.GridSearchCV`: ``params``, ``param_<name>``,
        ``split<number>_test_score``, ``mean_test_score``, ``std_test_score`` and
        ``rank_test_score``. ``pandas.DataFrame(cv_results_)`` has one row per setting.
    components_, threshold_, threshold_factor_, b0_, result_, pairs_, similar_, prior_
        Of the final fit; see `TATML`.
    prior_units_, kernel_map_, cell_bounds_, block_shapes_, n_iter_
        Of the final fit; see `TATML`.
    factors_, sum_factors_, midpoint_, threshold_shift_, likelihood_ratio_, same_rate_
        Of the final fit, if it has a midpoint; see `TATML`. Then `components_` is not set.

    See Also
    --------
    TATML : The estimator with given parameters.

    Notes
    -----
    The differences from `sklearn.model_selection.GridSearchCV` over a pipeline with `TATML`:

    - Scores are of metrics from the path, which are less accurate than those of the final fit. One
      setting alone can score slightly differently than among others.
    - Outliers are clipped, and the units of priors and kernels chosen, once for all samples.
    - `scoring` is one of three words, and `estimator` a `TATML`: names in the grid have no prefix.
    - The default folds become fewer if classes are too small for them.
    - C varies fastest in `cv_results_`, and the names of the grid keep their order; scikit-learn
      sorts them. `best_params_` always contains C. No times are recorded.
    - The search itself is the metric that it finds, and is always fitted to all samples (`refit`).
      It has no `predict` or `score`, because `TATML` has none.

    As there, a setting that cannot be fitted in a fold, such as a prior of another size than the
    samples, scores NaN with a `FitFailedWarning`, together with the other values of C on its path.
    If no setting can be fitted in all folds, the first error is raised.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATMLCV
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"C": [10.0, 1000.0], "prior": ["discriminant", "auto"]}
    >>> model = TATMLCV(param_grid=grid, cv=3, random_state=0).fit(X, y)
    >>> model.C_ in (10.0, 1000.0), model.transform(X).shape
    (True, (150, 4))
    """

    _accuracy: ClassVar[PathSettings] = PathSettings()

    estimator: TATML | None = None
    param_grid: Grid | Sequence[Grid] | None = None
    _: KW_ONLY
    scoring: Scoring = "both"
    k: int = 3
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = None

    kernel = _of_estimator("kernel")
    preprocessor = _of_estimator("preprocessor")
    solver = _of_estimator("solver")
    margin = _of_best("margin")
    midpoint = _of_best("midpoint")
    new_classes = _of_best("new_classes")
    threshold = _of_best("threshold")

    def _inner(self) -> TATML:
        """Return the estimator whose parameters are chosen."""
        return DEFAULT if self.estimator is None else self.estimator

    @property
    def best_estimator_(self) -> TATML:
        """A TATML with the chosen parameters, fitted to all samples."""
        check_is_fitted(self)
        parameters = self._inner().get_params(deep=False) | self.best_params_
        if self.random_state is not None:
            parameters["random_state"] = self.random_state
        own = {*self._get_param_names(), *FOUND}
        fitted = {name: value for name, value in vars(self).items() if name not in own}
        return TATML(**parameters)._with_fitted(fitted)

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
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
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. Only their ratios matter, and a
            weight of 2 is the same as a second copy of the sample: see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            settings = self._settings(parameters.estimator or checked(DEFAULT), X)
            settings = replace(settings, init=None)
            if self.random_state is not None:
                settings = replace(settings, random_state=self.random_state)
            samples = self._read_labelled(X, y, groups, sample_weight)
            candidates = self._candidates(settings, parameters)
            samples, rows = counted(samples, parameters.cv)
            samples, cells = without_outliers(samples, folds_of(samples, settings), settings)
            best = self._search(samples, candidates, parameters)
            metric = learn_from_labels(samples, replace(best, clip_outliers=False))
            self._publish(in_given_rows(replace(metric, cells=cells), rows))
        warn_unless_converged(self.result_)
        return self

    def _candidates(self, settings: Settings, parameters: SimpleNamespace) -> list[Candidate]:
        """Return the combinations of the grids, each with the checked settings."""
        given, checked_grids = self.param_grid, parameters.param_grid
        if given is None:
            given = {"C": list(DEFAULT_CS)}
            default = isinstance(settings.prior, str) and settings.prior == DEFAULT_PRIORS[0]
            if settings.kernel is None and default and not settings.midpoint:
                given["prior"] = list(DEFAULT_PRIORS)
            checked_grids = [given]
        found = []
        grids = [given] if hasattr(given, "items") else given  # a dict, or some
        for grid, values in zip(grids, checked_grids, strict=True):
            Cs = tuple(float(C) for C in values.get("C", [settings.C]))
            others = {name: list(of) for name, of in grid.items() if name != "C"}
            checks = {name: of for name, of in values.items() if name != "C"}
            both = zip(_combinations(others), _combinations(checks), strict=True)
            found += [Candidate(raw, replace(settings, **known), Cs) for raw, known in both]
        for candidate in found:
            with inside("param_grid"):
                check_together(candidate.settings)
        return found

    def _search(
        self,
        samples: LabelledSamples,
        candidates: Sequence[Candidate],
        parameters: SimpleNamespace,
    ) -> Settings:
        """Score every setting on every fold; set what the search found, and return the best."""
        scoring, k = parameters.scoring, parameters.k
        folds = make_folds(parameters.cv, samples, pairs_in_tests=scoring != "accuracy")
        if scoring != "auc":
            check_fits_folds("k", k, folds)
        scores = self._scores(samples, candidates, folds, parameters)
        params = [{"C": C, **candidate.given} for candidate in candidates for C in candidate.Cs]
        self.cv_results_, self.n_splits_ = results_of(params, scores), len(folds)
        self.best_index_ = best = int(np.argmin(self.cv_results_["rank_test_score"]))
        self.best_params_ = params[best]
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.C_ = self.best_params_["C"]
        owners = [candidate for candidate in candidates for _ in candidate.Cs]
        return replace(owners[best].settings, C=self.C_)

    def _scores(
        self,
        samples: LabelledSamples,
        candidates: Sequence[Candidate],
        folds: Sequence[Fold],
        parameters: SimpleNamespace,
    ) -> NDArray[np.float64]:
        """Return the score of every setting on every fold, shape (n_settings, n_folds)."""
        seed = candidates[0].settings.random_state
        if not isinstance(seed, Integral):  # all settings of a fold draw the same pairs
            seed = int(generator_of(seed).choice(2**31 - 1))
        settings = [replace(candidate.settings, random_state=seed) for candidate in candidates]
        spaces = choose_spaces(settings, samples)
        scoring = parameters.scoring, parameters.k
        each = zip(settings, spaces, candidates, strict=True)
        jobs = (
            delayed(_try_path)(one, space, samples, fold, of.Cs, scoring, self._accuracy)
            for (one, space, of), fold in product(each, folds)
        )
        n_jobs = len(candidates) * len(folds)
        shown_jobs = with_progress(jobs, n_jobs, "TATMLCV", "path")
        found = Parallel(n_jobs=parameters.n_jobs)(shown_jobs)
        paths = [found[start : start + len(folds)] for start in range(0, n_jobs, len(folds))]
        scores = np.concatenate([np.transpose([one for one, _ in path]) for path in paths])
        _report([error for _, error in found if error is not None], scores)
        return scores


def _report(errors: Sequence[Exception], scores: NDArray[np.float64]) -> None:
    """Warn if some settings could not be fitted; raise the first error if none could."""
    if not errors:
        return
    n_failed = int(np.isnan(scores).any(axis=1).sum())
    if n_failed == len(scores):
        raise errors[0]
    warn_user(
        f"param_grid: {n_failed} of {len(scores)} settings score NaN, because they could not be "
        f"fitted in all folds; the first error is: {errors[0]}",
        FitFailedWarning,
    )
