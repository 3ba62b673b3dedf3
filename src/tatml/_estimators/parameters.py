"""The parameters of the estimators: one table of checks, for `fit` and for loaded models.

A check takes the name and the value of a parameter. It raises a TypeError or ValueError that names
the parameter, what was expected and what was given, or returns the value in the form that the code
below the estimators takes: a float, an int, a solver, a kernel map. It needs no data: whether a
prior has the shape of the samples is checked where the samples are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from inspect import signature
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, Literal, get_args

from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRED_DISTANCES

from .._data.pairs import check_comparison_margin
from .._data.sampling import STRATEGIES
from .._learning.priors import PRIORS
from .._learning.samples import fetched
from .._learning.task import LossName
from .._messages import quoted, shown, suggestion
from .._optim.custom_loss import check_loss
from .._optim.solvers import Newton, as_solver
from .._validation import (
    as_list,
    check_between,
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_jobs,
    check_margin,
    check_metric,
    check_not_negative,
    check_number,
    check_number_or,
    check_positive,
    check_random,
    check_share,
    check_two,
    is_flag,
)
from ..features._kernel_map import KERNELS, KernelMap
from .posteriors import check_classifier

Check = Callable[[str, Any], Any]

Scoring = Literal["both", "auc", "accuracy"]
DEFAULT_MARGIN = (0.5, 2.0)
LARGEST_THRESHOLD = 1e100  # the square of a threshold neither overflows nor vanishes


def checked(estimator: BaseEstimator) -> SimpleNamespace:
    """Return all constructor parameters of an estimator, checked in the order of the constructor.

    The estimator does not change.

    Examples
    --------
    >>> from tatml import TATML
    >>> settings = checked(TATML(C=10, solver="newton"))
    >>> settings.C, settings.solver, settings.threshold_prior
    (10.0, Newton(), None)
    >>> checked(TATML(tol=0))
    Traceback (most recent call last):
        ...
    ValueError: tol: expected a positive number, got 0
    """
    checks = checks_of(type(estimator))  # type: ignore[arg-type]  # classes are hashable
    if "midpoint" in checks and is_flag(estimator.midpoint) and estimator.midpoint:
        checks = checks | OF_ANY_SIGN
    settings = {name: check(name, getattr(estimator, name)) for name, check in checks.items()}
    if "param_grid" in settings:
        _check_grid_is_free(settings)
    if "near" in settings and settings["near"] > settings["far"]:
        raise ValueError(
            f"near: expected at most far={settings['far']:g}, got {settings['near']:g}"
        )
    if "loss" in settings:
        check_together(SimpleNamespace(**{"midpoint": False} | settings))
    if "greater_is_same" in settings:
        check_score(SimpleNamespace(**settings))
    return SimpleNamespace(**settings)


def check_together(settings: Any) -> None:
    """Raise for parameters of TATML that have no meaning with its midpoint or with its loss."""
    kind = "midpoint=True" if settings.midpoint else f"loss={shown(settings.loss)}"
    if not settings.midpoint and settings.loss in ("auto", "squared_hinge"):
        return
    if settings.margin != DEFAULT_MARGIN:
        raise ValueError(
            f"margin: expected {DEFAULT_MARGIN} with {kind}, which has no margins that multiply "
            f"the threshold, got {settings.margin}"
        )
    if not isinstance(settings.solver, Newton):
        raise ValueError(
            f"solver: expected 'newton' or Newton(…) with {kind}, got {shown(settings.solver)}"
        )
    if settings.midpoint:
        _check_for_midpoint(settings)


def _check_for_midpoint(settings: Any) -> None:
    """Raise for parameters that a distance needs."""
    if settings.n_components is not None:
        raise ValueError(
            "n_components: expected None with midpoint=True, which has no components, got "
            f"{shown(settings.n_components)}"
        )
    if isinstance(settings.prior, str) and settings.prior != "discriminant":
        raise ValueError(
            "prior: expected 'discriminant' or a matrix of differences and one of sums per block "
            f"with midpoint=True, got {shown(settings.prior)}"
        )
    if getattr(settings, "pairs", "random") == "neighbors":
        raise ValueError(
            "pairs: expected 'random' or 'all' with midpoint=True, because neighbours are those of "
            "a distance, got 'neighbors'"
        )


def check_score(settings: Any) -> None:
    """Raise for a direction or a classifier of PairThreshold that its metric does not have."""
    is_named = isinstance(settings.metric, str)
    if settings.classifier is not None and not (is_named and settings.metric == "posteriors"):
        raise ValueError(
            "classifier: expected None unless metric='posteriors', got "
            f"{shown(settings.classifier)}"
        )
    if settings.greater_is_same and is_named and settings.metric in PAIRED_DISTANCES:
        raise ValueError(
            f"greater_is_same: expected False with metric={settings.metric!r}, which is a "
            "distance, got True"
        )


@lru_cache
def checks_of(kind: type[BaseEstimator]) -> dict[str, Check]:
    """Return the check of each parameter of a class of estimators, in their order."""
    table, names = CHECKS, set(kind._get_param_names())
    for base in reversed(kind.__mro__):
        table = table | DIFFERENT.get(base.__name__, {})
    in_order = [name for name in signature(kind.__init__).parameters if name in names]
    # A subclass by a user may have parameters of its own.
    return {name: table.get(name, _as_given) for name in in_order}


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Put the name of a parameter before errors about its parts."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


# Checks of single parameters


def _as_given(name: str, value: Any) -> Any:
    return value


def or_none(check: Check) -> Check:
    """Return a check that accepts None too."""

    def check_unless_none(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return check_unless_none


def _check_distance(name: str, value: Any) -> float:
    """Return a positive distance whose square neither overflows nor vanishes."""
    check_positive(name, value)
    least, most = 1 / LARGEST_THRESHOLD, LARGEST_THRESHOLD
    expected = f"a distance from {least:g} to {most:g}, whose square a float can hold"
    return check_number(name, value, expected, lambda x: least <= x <= most)


def _check_threshold(name: str, value: Any, words: tuple[str, ...]) -> float | str:
    return value if check_number_or(name, value, *words) is None else _check_distance(name, value)


def _check_any_threshold(name: str, value: Any) -> float | str:
    """Return "auto", "joint" or any finite number."""
    if not isinstance(value, str):
        return check_finite(name, value)
    check_number_or(name, value, "auto", "joint")
    return value


def _check_bounds(name: str, value: Any) -> tuple[float, float]:
    """Return the two bounds of ITML on squared distances, 0 < u ≤ l."""
    numbers = check_two(name, value, "two numbers (upper of similar, lower of dissimilar)")
    low, high = (check_positive(name, number) for number in numbers)
    if low > high:
        raise ValueError(f"{name}: expected the first to be at most the second, got {shown(value)}")
    return low, high


def _check_percentiles(name: str, value: Any) -> tuple[float, float]:
    numbers = check_two(name, value, "two numbers from 0 to 100")
    low, high = (check_not_negative(name, number) for number in numbers)
    if not low < high <= 100:
        raise ValueError(f"{name}: expected 0 ≤ low < high ≤ 100, got {shown(value)}")
    return low, high


def _check_prior(name: str, value: Any, more: tuple[str, ...] = ()) -> Any:
    """Return the name of a prior, or matrices as they are, whose shapes depend on the samples."""
    if isinstance(value, str):
        return check_choice(name, value, (*PRIORS, *more))
    as_list(name, fetched(value), "a list of matrices")
    return value


def _check_components(name: str, value: Any) -> int | list[int]:
    if isinstance(value, Real):
        return check_count(name, value)
    counts = as_list(name, value, "a number or one for each block")
    return [check_count(name, count) for count in counts]


def _check_kernel(name: str, value: Any) -> KernelMap | None:
    """Return the kernel map that the parameter stands for; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        return KernelMap(check_choice(name, value, KERNELS))
    if not isinstance(value, KernelMap):
        raise TypeError(
            f"{name}: expected None, the name of a kernel or a KernelMap, got {shown(value)}"
        )
    with inside(name):
        value.check_settings()
    return value


def _check_kernel_of_pairs(name: str, value: Any) -> KernelMap | None:
    kernel = _check_kernel(name, value)
    if kernel is not None and kernel.kernel == "precomputed":
        raise ValueError(
            f"{name}: expected a kernel of the samples, as pairs come without a kernel matrix, "
            "got 'precomputed'"
        )
    return kernel


def _check_newton(name: str, value: Any, rows: str) -> Newton:
    solver = as_solver(value)
    if not isinstance(solver, Newton):
        raise ValueError(f"{name}: expected 'newton' or Newton(…) with {rows}, got {shown(value)}")
    return solver


def _check_class_weight(name: str, value: Any) -> Any:
    if isinstance(value, str) and value == "balanced":
        return value
    if not isinstance(value, dict) or not set(value) <= {-1, 1}:
        raise ValueError(
            f"{name}: expected 'balanced', None or a dict of weights for -1 and 1, got "
            f"{shown(value)}"
        )
    try:
        return {label: check_not_negative(name, weight) for label, weight in value.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected finite, non-negative numbers, got {shown(value)}"
        ) from error


def _check_outliers(name: str, value: Any) -> Any:
    words = ("auto", "replace")
    if isinstance(value, str):
        return check_choice(name, value, words)
    try:
        return check_flag(name, value)
    except TypeError as error:
        raise TypeError(
            f"{name}: expected True, False or one of {quoted(words)}, got {shown(value)}"
        ) from error


def _check_random_state(name: str, value: Any) -> Any:
    check_random(value)
    return value  # each use of a seed starts from the seed


def _check_folds(name: str, value: Any) -> Any:
    """Return a number of folds; a splitter or folds as they are, until the samples are known."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return check_count(name, value, least=2)
    return value


def _check_thresholds(name: str, value: Any) -> list[float]:
    members = as_list(name, value, "a sequence of positive numbers")
    if not members:
        raise ValueError(f"{name}: expected at least one number, got none")
    try:
        return [_check_distance(name, member) for member in members]
    except TypeError as error:
        raise TypeError(f"{name}: expected positive numbers, got {shown(value)}") from error


# Checks of a search


def _check_param_grid(name: str, value: Any) -> list[dict[str, list[Any]]]:
    """Return one or several grids: checked values of parameters of TATML."""
    what = "None, a dict of lists of values, or a list of such dicts"
    grids = [value] if isinstance(value, Mapping) else as_list(name, value, what)
    if not grids or not all(isinstance(grid, Mapping) for grid in grids):
        raise TypeError(f"{name}: expected {what}, got {shown(value)}")
    return [
        {key: _check_values(name, key, values) for key, values in grid.items()} for grid in grids
    ]


def _check_values(name: str, key: Any, values: Any) -> list[Any]:
    """Return the checked values of one parameter of a grid."""
    known = [each for each in OF_TATML if each not in NOT_SEARCHED]
    if key not in known:
        raise ValueError(
            f"{name}: expected names of parameters of TATML that change its scores "
            f"({quoted(known)}), got {shown(key)}{suggestion(str(key), known)}"
        )
    with inside(name):
        members = as_list(key, values, "a list of values")
        if not members:
            raise ValueError(f"{key}: expected at least one value, got none")
        check = check_positive if key == "C" else OF_TATML[key]
        return [check(key, member) for member in members]


def _check_grid_is_free(settings: dict[str, Any]) -> None:
    """Raise unless each parameter of a grid has an effect, given the others."""
    defaults = SimpleNamespace(c0=None, threshold="auto", kernel=None)
    given = vars(settings["estimator"] or defaults)
    for grid in settings["param_grid"] or ():
        c0s = grid.get("c0", [given["c0"]])
        thresholds = grid.get("threshold", [given["threshold"]])
        free = None in c0s and any(isinstance(threshold, str) for threshold in thresholds)
        if "threshold_strength" in grid and not free:
            raise ValueError(
                "param_grid: expected no threshold_strength with a given c0 or threshold, got "
                f"{shown(grid['threshold_strength'])}"
            )
        kernels = [given["kernel"], *grid.get("kernel", ())]
        if len({kernel is not None and kernel.kernel == "precomputed" for kernel in kernels}) > 1:
            raise ValueError(
                "param_grid: expected kernel='precomputed' in the estimator only, because X holds "
                f"either kernel values or samples, got {shown(kernels)}"
            )


# The table


OF_TATML: dict[str, Check] = {
    "C": or_none(check_positive),
    "threshold": partial(_check_threshold, words=("auto", "joint")),
    "threshold_prior": or_none(_check_distance),
    "threshold_strength": check_positive,
    "c0": or_none(partial(check_positive, or_infinite=True)),
    "margin": lambda name, value: check_margin(value),
    "loss": partial(check_loss, words=get_args(LossName)),
    "midpoint": check_flag,
    "new_classes": check_flag,
    "prior": _check_prior,
    "pairs": partial(check_choice, choices=STRATEGIES),
    "n_pairs_per_class": or_none(partial(check_count, least=2)),
    "n_neighbors": check_count,
    "reduction": partial(check_choice, choices=("mean", "sum")),
    "kernel": _check_kernel,
    "clip_outliers": _check_outliers,
    "n_components": or_none(_check_components),
    "preprocessor": _as_given,  # it is checked with the indicators that it is given
    "solver": lambda name, value: as_solver(value),
    "tol": check_positive,
    "warm_start": check_flag,
    "random_state": _check_random_state,
    "verbose": check_flag,
}
# A search reads and clips its samples once, draws the same pairs for all, and starts cold.
NOT_SEARCHED = ("clip_outliers", "preprocessor", "random_state", "verbose", "warm_start")
# With midpoints, thresholds have any sign.
OF_ANY_SIGN = {"threshold": _check_any_threshold, "threshold_prior": or_none(check_finite)}
CHECKS: dict[str, Check] = OF_TATML | {
    "bounds": or_none(_check_bounds),
    "class_weight": or_none(_check_class_weight),
    "classifier": or_none(check_classifier),
    "far": check_between,
    "cv": or_none(_check_folds),
    "gamma": check_positive,
    "greater_is_same": check_flag,
    "k": check_count,
    "max_rounds": check_count,
    "metric": check_metric,
    "n_impostors": check_count,
    "n_jobs": check_jobs,
    "n_pairs": partial(check_count, least=2),
    "near": check_between,
    "pair_C": check_positive,
    "param_grid": or_none(_check_param_grid),
    "percentiles": _check_percentiles,
    "regularization": check_positive,
    "scoring": partial(check_choice, choices=get_args(Scoring)),
    "t": check_share,
    "thresholds": _check_thresholds,
}
# The parameters that mean something else in an estimator, and in the classes derived from it.
DIFFERENT: dict[str, dict[str, Check]] = {
    "ComparisonLearner": {
        "C": check_positive,
        "kernel": _check_kernel_of_pairs,
        "margin": check_comparison_margin,
    },
    "GMML": {"prior": partial(check_choice, choices=PRIORS)},
    "Maz": {"C": check_positive, "threshold": partial(_check_threshold, words=("search",))},
    "TATMLNeighbors": {
        "C": check_positive,
        "margin": check_comparison_margin,
        "prior": partial(_check_prior, more=("best",)),
        "solver": partial(_check_newton, rows="comparisons"),
    },
    "TATMLPairs": {"kernel": _check_kernel_of_pairs},
    "TATMLQuadruplets": {"solver": partial(_check_newton, rows="quadruplets")},
    "TATMLRegression": {"C": check_positive, "kernel": _check_kernel_of_pairs},
    "TATMLTriplets": {"solver": partial(_check_newton, rows="triplets")},
}
