"""Checks of the parameters of a fitted estimator, for estimators that are saved or loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from numbers import Integral, Real
from typing import Any

from .._data.blocks import as_blocks
from .._data.comparisons import check_comparison_margin
from .._data.sampling import STRATEGIES
from .._learning.kernel_space import as_kernel_map
from .._learning.priors import PRIORS
from .._messages import shown
from .._optim.solvers import as_solver
from .._validation import (
    as_list,
    check_bounds,
    check_choice,
    check_count,
    check_flag,
    check_grid,
    check_jobs,
    check_margin,
    check_metric,
    check_not_negative,
    check_number_or,
    check_percentiles,
    check_positive,
    check_random,
    check_share,
    check_words,
)

StateCheck = Callable[[str, Any], Any]


def check_parameter(name: str, value: Any) -> None:
    """Raise an error unless the value is valid for the parameter."""
    if value is None and name in OPTIONAL:
        return
    PARAMETERS[name](name, value)


def _check_choices(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise an error unless the value is a word of the choices, or several matrices or words."""
    if isinstance(value, str):
        check_choice(name, value, choices)
    else:
        as_list(name, value, "a word or a list of matrices")


def _check_solver_settings(name: str, value: Any) -> None:
    solver = as_solver(value)
    if set(vars(solver)) != {setting.name for setting in fields(solver)}:
        raise ValueError(f"{name}: expected the settings of a solver, got {shown(vars(solver))}")
    solver.__post_init__()


def _check_counts(name: str, value: Any) -> None:
    for count in [value] if isinstance(value, Real) else as_list(name, value, "counts"):
        check_count(name, count)


def _check_splitter(name: str, value: Any) -> None:
    if isinstance(value, Integral):
        check_count(name, value, least=2)
    elif not hasattr(value, "split"):
        as_list(name, value, "a number of folds, a splitter or a list of folds")


def _check_candidates(name: str, value: Any) -> None:
    if isinstance(value, Integral):
        check_count(name, value)
    else:
        check_grid(name, value)


def _check_class_weight(name: str, value: Any) -> None:
    if value == "balanced":
        return
    if type(value) is not dict or not set(value) <= {-1, 1}:
        raise ValueError(f"{name}: expected 'balanced' or weights of -1 and 1, got {shown(value)}")
    for weight in value.values():
        check_not_negative(name, weight)


def _check_margins(name: str, value: Any) -> None:
    if isinstance(value, Real):
        check_comparison_margin(name, value)
    else:
        check_margin(value)


def _check_known_distance(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(
            f"{name}: expected the name of a distance, got {shown(value)}; functions are not saved"
        )
    check_metric(value)


def ignore_name(check: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: check(value)


def _check_kernel(name: str, value: Any) -> None:
    """Raise an error unless the value is a kernel with valid parameters."""
    template = as_kernel_map(value)
    if template is not None:
        template.check_settings()


def _check_kernels(name: str, value: Any) -> None:
    if value != "auto":
        for kernel in as_list(name, value, "'auto', or a list of kernels"):
            _check_kernel(name, kernel)


PARAMETERS: dict[str, StateCheck] = {
    "C": check_positive,
    "Cs": _check_candidates,
    "bounds": ignore_name(check_bounds),
    "c0": partial(check_positive, or_infinite=True),
    "class_weight": _check_class_weight,
    "clip_outliers": check_flag,
    "cv": _check_splitter,
    "gamma": check_positive,
    "k": check_count,
    "kernel": _check_kernel,
    "kernels": _check_kernels,
    "margin": _check_margins,
    "metric": _check_known_distance,
    "max_rounds": check_count,
    "n_components": _check_counts,
    "n_impostors": check_count,
    "n_jobs": check_jobs,
    "n_neighbors": check_count,
    "n_pairs_per_class": check_count,
    "pair_C": check_positive,
    "pair_strategies": partial(check_words, choices=STRATEGIES),
    "pairs": partial(check_choice, choices=STRATEGIES),
    "percentiles": ignore_name(check_percentiles),
    "preprocessor": lambda name, value: as_blocks(value, name),
    "prior": partial(_check_choices, choices=(*PRIORS, "best")),
    "priors": partial(check_words, choices=PRIORS),
    "random_state": ignore_name(check_random),
    "reduction": partial(check_choice, choices=("mean", "sum")),
    "regularization": check_positive,
    "scoring": partial(check_choice, choices=("both", "auc", "accuracy")),
    "solver": _check_solver_settings,
    "t": check_share,
    "threshold": lambda name, value: check_number_or(name, value, "auto", "joint", "search"),
    "threshold_prior": check_positive,
    "threshold_strength": check_positive,
    "threshold_strengths": check_grid,
    "thresholds": check_grid,
    "tol": check_positive,
    "verbose": check_flag,
    "warm_start": check_flag,
}
# Parameters that may be None.
OPTIONAL = {
    *("bounds", "c0", "class_weight", "cv", "n_components", "n_jobs", "n_pairs_per_class"),
    *(
        "kernel",
        "kernels",
        "pair_strategies",
        "preprocessor",
        "prior",
        "priors",
        "threshold_prior",
        "threshold_strengths",
    ),
}


def check_equal(name: str, found: Any, expected: Any) -> None:
    """Raise an error unless a part of a fitted estimator is what the other parts imply."""
    if found != expected:
        raise ValueError(
            f"{name}: expected {shown(expected)} as in the other attributes, got {shown(found)}"
        )
