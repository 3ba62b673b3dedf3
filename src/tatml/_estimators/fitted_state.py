"""The state of a fitted estimator: checks of what is saved or loaded, and what it reveals.

Parameters are checked by the table of `parameters`, fitted attributes by `ATTRIBUTES`, both one by
one; then the parts must agree with each other. SECURITY.md says what a loaded file must not do, and
what a file tells about the training samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from math import inf, prod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._data.blocks import as_blocks, check_block_names, check_prior, check_row_names
from .._learning.prepare import components_per_block
from .._learning.priors import UNITS
from .._learning.span import Span, SpanFactor, SpanResult, SparseRows
from .._messages import shown
from .._optim.result import Result, Status
from .._optim.solvers import Dykstra, Newton
from .._validation import (
    as_list,
    check_between,
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_not_negative,
    check_positive,
    check_share,
    check_two,
)
from .._verification.curves import check_table
from .._verification.probabilities import check_likelihood_ratio
from .._verification.targets import CALIBRATION_METHODS, CALIBRATION_STRATEGIES, Calibration
from ..features._kernel_map import BlockMap, KernelMap
from .metric import CENTER, N_SAMPLES, center_of
from .parameters import CHECKS, Check, checked, or_none
from .tatml_cv import FOUND, ranks_of, results_of

# The types of the objects among fitted attributes.
HELD = (Calibration, Result, SpanResult, SpanFactor, Span, SparseRows, KernelMap, BlockMap)

# Attributes besides parameters and fitted attributes: the container chosen by set_output.
HIDDEN = {"_sklearn_output_config", "_fitted_to_sparse"}
OUTPUT_WORDS = {"transform", "default", "pandas", "polars"}

# The fitted attributes of estimators that have a parameter of this name.
METRIC = ("n_features_in_", "block_shapes_")
SOLVED = ("result_", "n_iter_", "threshold_", "b0_")
REQUIRED = {
    "class_weight": ("classes_", "threshold_", "b0_"),
    "n_components": METRIC,
    "solver": SOLVED,
    "param_grid": (*METRIC, *SOLVED, *FOUND),
}
# One of the two forms of a calibration with `same_rate_`, or none.
LIKELIHOODS = ("likelihood_ratio_", "likelihood_table_")


def check_fitted_state(estimator: BaseEstimator) -> None:
    """Raise an error unless all parameters and fitted attributes are valid and consistent.

    Examples
    --------
    >>> from tatml import Euclidean
    >>> metric = Euclidean().fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> metric.threshold_ = float("nan")
    >>> check_fitted_state(metric)
    Traceback (most recent call last):
        ...
    ValueError: threshold_: expected a finite number, got nan
    """
    state, parameters = vars(estimator), type(estimator)._get_param_names()
    for name in (*parameters, *sorted(_required(estimator, parameters))):
        if name not in state:
            raise ValueError(f"{name}: expected a value, got none")
    for name in sorted(set(state) - {*parameters, *ATTRIBUTES, *HIDDEN}):
        raise ValueError(f"{name}: expected no such attribute, got {shown(state[name])}")
    for name, check in IN_FILES.items():
        if name in parameters:
            check(name, state[name])
    checked(estimator)
    for name, value in state.items():
        if name in ATTRIBUTES:
            ATTRIBUTES[name](name, value)
    if "threshold_" in state and not estimator._signed_scores:
        check_not_negative("threshold_", state["threshold_"])
    output = state.get("_sklearn_output_config", {})
    if type(output) is not dict or not set(output) | set(output.values()) <= OUTPUT_WORDS:
        raise ValueError(f"set_output: expected the name of a container, got {shown(output)}")
    if all(name in state for name in LIKELIHOODS):
        raise ValueError("likelihood_table_: expected no likelihood_ratio_ beside it, got both")
    if "block_shapes_" in state:
        _check_shapes(estimator)
    if "cv_results_" in state:
        _check_search(estimator)


def _required(estimator: Any, parameters: Sequence[str]) -> set[str]:
    """Return the fitted attributes that a fitted estimator of this type and state has."""
    state = vars(estimator)
    names = {name for one in parameters for name in REQUIRED.get(one, ())}
    if "n_features_in_" in names:
        names.add("factors_" if "factors_" in state else "components_")
    if "result_" in names and type(state.get("result_")) is not SpanResult:  # else it is too large
        names.add("prior_")
    if not getattr(estimator, "_learns_threshold", True):
        names -= {"threshold_", "b0_"}
    if state.get("metric") == "precomputed" and "any_sign_" not in state:  # it needs no fit
        names -= {"classes_", "b0_"}
    known = [name for name in LIKELIHOODS if name in state]
    if known or "same_rate_" in state:
        names |= {"same_rate_", *(known or LIKELIHOODS[:1])}
    return names


# Kinds of checks


def check_array(kinds: str, n_dims: int, name: str, value: Any, finite: bool = True) -> None:
    """Raise unless the value is an array of one of these kinds of dtypes, usually a finite one."""
    if type(value) is not np.ndarray:
        raise TypeError(f"{name}: expected an array, got {shown(value)}")
    if value.dtype.kind not in kinds or len(value.shape) != n_dims:
        raise TypeError(
            f"{name}: expected an array with {n_dims} dimensions, got {value.dtype} of shape "
            f"{value.shape}"
        )
    if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")


def check_list(check: Check, name: str, value: Any) -> None:
    """Raise unless the value is a list whose members pass another check."""
    check_type(list, name, value)
    for member in value:
        check(name, member)


def check_type(kind: type, name: str, value: Any) -> None:
    """Raise unless the value is of this type, and of no type derived from it."""
    if type(value) is not kind:
        raise TypeError(f"{name}: expected a {kind.__name__}, got {shown(value)}")


def parts_of(kind: type, *more: type, **checks: Check) -> Check:
    """Return a check for an object of a dataclass that has exactly its fields, and for these.

    `more` are classes derived from it, whose objects pass as well.
    """
    names = {part.name for part in fields(kind)}

    def check(name: str, value: Any) -> None:
        if type(value) not in more:
            check_type(kind, name, value)
        if set(vars(value)) != names:
            found = type(value).__name__
            raise TypeError(f"{name}: expected the fields of a {found}, got {shown(value)}")
        for part, check_part in checks.items():
            check_part(f"{name}.{part}", getattr(value, part))

    return check


def check_equal(name: str, found: Any, expected: Any) -> None:
    """Raise an error unless a part of a fitted estimator is what the other parts imply."""
    if found != expected:
        raise ValueError(
            f"{name}: expected {shown(expected)} as in the other attributes, got {shown(found)}"
        )


def all_of(*checks: Check) -> Check:
    """Return a check that makes several checks."""

    def check(name: str, value: Any) -> None:
        for one in checks:
            one(name, value)

    return check


VECTOR, MATRIX = partial(check_array, "f", 1), partial(check_array, "f", 2)
INTEGERS = partial(check_array, "i", 1)


# Parameters, for which files are stricter than constructors


def _check_metric(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(
            f"{name}: expected the name of a distance or score, got {shown(value)}; functions are "
            "not saved: fit PairThreshold('precomputed') to the values of the function, and save it"
        )


def _check_settings(name: str, value: Any) -> None:
    """Raise an error if a solver has other attributes than its settings, or wrong ones."""
    if isinstance(value, Newton | Dykstra):
        parts_of(type(value))(name, value)
        value.__post_init__()  # it has not been through its constructor


def _check_unfitted(name: str, value: Any) -> None:
    """Raise an error if an estimator has attributes besides its parameters, or holds samples."""
    if set(vars(value)) != set(type(value)._get_param_names()):
        raise ValueError(f"{name}: expected an estimator that is not fitted, got {shown(value)}")
    for part, check in IN_FILES.items():
        if part in vars(value):
            check(part, getattr(value, part))


def _check_splits(name: str, value: Any) -> None:
    is_splitter = hasattr(value, "split") and not isinstance(value, str)
    if not isinstance(value, Integral) and not is_splitter:
        as_list(name, value, "a number of folds, a splitter or a list of folds")


def _check_loss(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(
            f"{name}: expected the name of a loss in a saved model, got {shown(value)}; "
            "tatml.io.export writes the metric without it"
        )


def _check_no_classifier(name: str, value: Any) -> None:
    if value is not None:
        raise TypeError(f"{name}: expected None in a saved model, got {shown(value)}")


IN_FILES: dict[str, Check] = {
    "classifier": _check_no_classifier,
    "cv": or_none(_check_splits),
    "estimator": or_none(_check_unfitted),
    "loss": _check_loss,
    "metric": _check_metric,
    "preprocessor": or_none(lambda name, value: as_blocks(value, name)),
    "solver": _check_settings,
}


# Fitted attributes


def _check_matrices(name: str, value: Any) -> None:
    for matrix in value if type(value) is list else [value]:
        MATRIX(name, matrix)


def _check_factor(name: str, value: Any) -> None:
    """Check the linear map of a block: a matrix, or that of a wide block in factored form."""
    if type(value) is np.ndarray:
        return MATRIX(name, value)
    FACTOR(name, value)
    span, size = value.span, len(value.span.rows)
    if span.mix is not None:
        check_equal(f"{name}.span.mix", len(span.mix), size)
        size = span.mix.shape[1]
    check_equal(f"{name}.span.unit", len(span.unit), span.size)
    check_equal(f"{name}.inner", value.inner.shape, (size, size))
    if span.whitening is not None:
        check_equal(f"{name}.span.whitening", span.whitening.shape, value.shape)


def _check_rows(name: str, value: Any) -> None:
    """Check the samples of a span, dense or sparse."""
    if type(value) is not SparseRows:
        return MATRIX(name, value)
    SPARSE_ROWS(name, value)
    try:
        value.table.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name}: expected a sparse array, got another: {error}") from error


def _check_cell_bounds(name: str, value: Any) -> None:
    """Raise an error unless the value is an array of lower bounds, medians and upper bounds."""
    check_array("f", 3, name, value, finite=False)
    check_equal(f"{name}.shape[0]", len(value), 3)
    low, middle, high = value
    if not (np.isfinite(middle).all() and np.all(low <= middle) and np.all(middle <= high)):
        raise ValueError(f"{name}: expected medians between the bounds of cells, got others")


def _check_block_shapes(name: str, value: Any) -> None:
    for shape in as_list(name, value, "the shapes of the blocks"):
        for size in check_two(name, shape, "two numbers per block"):
            check_count(name, size)


def _check_search_scores(name: str, value: Any) -> None:
    if not value:
        raise ValueError(f"{name}: expected scores of thresholds, got none")
    for threshold, score in value.items():
        check_positive(name, threshold)
        check_share(name, score)


def _check_best_params(name: str, value: Any) -> None:
    """Raise an error unless the value could be one setting of a grid."""
    CHECKS["param_grid"](name, {part: [chosen] for part, chosen in value.items()})


def _check_lower(name: str, value: Any) -> None:
    if np.any(np.triu(value, 1)) or not np.all(np.diagonal(value) > 0):
        raise ValueError(
            f"{name}: expected lower triangular matrices with a positive diagonal, got others"
        )


def _check_history(name: str, value: Any) -> None:
    lengths = {len(as_list(name, part, "arrays")) for part in value.values()}
    if len(lengths) > 1:
        raise ValueError(f"{name}: expected arrays of one length, got {sorted(lengths)}")


def _check_result(name: str, value: Any) -> None:
    RESULT(name, value)
    if (value.dual, value.gap) != (-inf, inf):  # no lower bound is known
        check_finite(f"{name}.dual", value.dual)
        check_not_negative(f"{name}.gap", value.gap)


def _check_kernel_map(name: str, value: Any) -> None:
    """Raise an error unless the value is a fitted KernelMap of consistent arrays."""
    if type(value) is not KernelMap or not hasattr(value, "maps_"):
        raise TypeError(f"{name}: expected a fitted KernelMap, got {shown(value)}")
    value.check_settings()
    maps, precomputed = value.maps_, value.kernel == "precomputed"
    check_list(BLOCK_MAP, f"{name}.maps_", maps)
    for m, block_map in enumerate(maps):
        part = f"{name}.maps_[{m}]"
        (INTEGERS if precomputed else MATRIX)(f"{part}.landmarks", block_map.landmarks)
        sizes = [len(block_map.landmarks), len(block_map.means), len(block_map.projection)]
        check_equal(f"{part}.means", sizes, sizes[:1] * 3)
        if not precomputed:
            check_equal(f"{part}.scale", len(block_map.scale), block_map.landmarks.shape[1])
    VECTOR(f"{name}.gamma_", value.gamma_)
    check_equal(f"{name}.maps_", [block_map.gamma for block_map in maps], value.gamma_.tolist())


SPARSE_ROWS = parts_of(SparseRows, data=VECTOR, indices=INTEGERS, indptr=INTEGERS, mean=VECTOR)
SPAN = parts_of(
    Span,
    rows=_check_rows,
    unit=VECTOR,
    mix=or_none(MATRIX),
    whitening=or_none(MATRIX),
    outside=check_positive,
)
FACTOR = parts_of(SpanFactor, inner=MATRIX, outside=check_positive, span=SPAN)
RESULT = parts_of(
    Result,
    SpanResult,
    status=partial(check_type, Status),
    b0=or_none(check_finite),
    primal=check_finite,
    tol=check_positive,
    n_iter=partial(check_count, least=0),
    L=partial(check_list, all_of(MATRIX, _check_lower)),
    R=or_none(partial(check_list, all_of(MATRIX, _check_lower))),
    center=or_none(partial(check_list, MATRIX)),
    active=or_none(INTEGERS),
    multipliers=or_none(VECTOR),
    history=all_of(partial(check_type, dict), _check_history),
)
BLOCK_MAP = parts_of(
    BlockMap, center=VECTOR, scale=VECTOR, means=VECTOR, projection=MATRIX, gamma=check_positive
)
ATTRIBUTES: dict[str, Check] = {
    "any_sign_": check_flag,
    "C_": check_positive,
    "b0_": check_finite,
    "block_names_in_": partial(check_type, tuple),
    "best_index_": partial(check_count, least=0),
    "best_params_": all_of(partial(check_type, dict), _check_best_params),
    "best_score_": check_share,
    "block_shapes_": _check_block_shapes,
    "calibration_": parts_of(
        Calibration,
        strategy=partial(check_choice, choices=CALIBRATION_STRATEGIES),
        method=partial(check_choice, choices=CALIBRATION_METHODS),
        max_rate=or_none(check_share),
        confidence=or_none(check_share),
        n_errors=or_none(partial(check_count, least=0)),
        n_pairs=check_count,
        n_effective=or_none(check_not_negative),
        vouched_share=or_none(check_share),
        min_rate=or_none(check_share),
        same_rate=or_none(check_share),
    ),
    "bounds_": CHECKS["bounds"],
    "cell_bounds_": partial(check_list, _check_cell_bounds),
    "classes_": all_of(INTEGERS, lambda name, value: check_equal(name, value.tolist(), [-1, 1])),
    "comparisons_": or_none(partial(check_array, "i", 2)),
    "components_": _check_matrices,
    "cv_results_": partial(check_type, dict),
    "factors_": partial(check_list, _check_factor),
    "feature_names_in_": all_of(
        partial(check_array, "OU", 1),
        lambda name, value: check_block_names(value.tolist(), len(value), name),
    ),
    "kernel_map_": or_none(_check_kernel_map),
    "likelihood_ratio_": all_of(VECTOR, check_likelihood_ratio),
    "likelihood_table_": all_of(MATRIX, check_table),
    "midpoint_": partial(check_list, MATRIX),
    "n_features_in_": check_count,
    "n_iter_": check_count,
    "n_missed_": partial(check_count, least=0),
    "n_rounds_": check_count,
    "n_splits_": check_count,
    "pair_weights_": or_none(VECTOR),
    "pairs_": or_none(partial(check_array, "i", 2)),
    "prior_": _check_matrices,
    "prior_units_": partial(check_choice, choices=UNITS),
    "result_": _check_result,
    "row_names_in_": partial(check_type, tuple),
    "same_rate_": check_between,
    "search_scores_": all_of(partial(check_type, dict), _check_search_scores),
    "similar_": or_none(partial(check_array, "b", 1)),
    "sum_factors_": partial(check_list, _check_factor),
    "threshold_": check_finite,
    "threshold_factor_": check_positive,
    "threshold_shift_": check_finite,
    CENTER: partial(check_list, MATRIX),
    N_SAMPLES: check_count,
}


# Consistency


def _check_shapes(estimator: Any) -> None:
    """Raise an error unless all matrices have the sizes of the samples."""
    state, shapes = vars(estimator), [tuple(shape) for shape in estimator.block_shapes_]
    n_features = sum(prod(shape) for shape in shapes)
    inner = _shapes_in_kernel(state.get("kernel_map_"), shapes)
    sizes = [n for n, _ in inner]
    square: list[tuple[int, ...]] = [(n, n) for n in sizes]
    check_equal("n_features_in_", state.get("n_features_in_"), n_features)
    if CENTER in state:
        check_equal(CENTER, _shapes_of(state[CENTER]), shapes)
    if "cell_bounds_" in state:
        check_equal("cell_bounds_", _shapes_of(state["cell_bounds_"]), [(3, *s) for s in shapes])
    if "feature_names_in_" in state:
        check_equal("feature_names_in_", len(state["feature_names_in_"]), n_features)
    check_block_names(state.get("block_names_in_"), len(shapes), "block_names_in_")
    check_row_names(state.get("row_names_in_"), shapes, "row_names_in_")
    counts = components_per_block(_chosen(estimator, "n_components"), inner)
    for name in {"components_", "factors_"} & state.keys():
        found = _shapes_of(state[name])
        check_equal(name, [n for _, n in found], sizes)
        if name == "components_":  # factors of a narrow span have fewer rows
            rows = [n if k is None else k for n, k in zip(sizes, counts, strict=True)]
            check_equal(name, [k for k, _ in found], rows)
    with_sums = square * (2 if _check_sums(estimator, inner) else 1)
    if "prior_" in state:
        check_equal("prior_", _shapes_of(state["prior_"]), with_sums)
    if "result_" in state:
        L = state["result_"].L
        check_equal("result_.L", len(L), len(sizes))
        if type(state["result_"]) is SpanResult:  # the factors of wide blocks are smaller
            square = [(min(n, len(part)),) * 2 for n, part in zip(sizes, L, strict=True)]
        check_equal("result_.L", _shapes_of(L), square)
        check_equal("n_iter_", state["n_iter_"], max(1, state["result_"].n_iter))
    prior = _chosen(estimator, "prior")
    if prior is not None and not isinstance(prior, str):
        check_prior(prior, [n for n, _ in with_sums], np.empty(0))


def _check_sums(estimator: Any, inner: Sequence[tuple[int, ...]]) -> bool:
    """Raise an error unless the parts of midpoints fit; return whether there are midpoints."""
    state, result = vars(estimator), vars(estimator).get("result_")
    check_equal("midpoint_", "midpoint_" in state, "sum_factors_" in state)
    if "sum_factors_" not in state:
        return False
    square = [(shape[0], shape[0]) for shape in inner]
    check_equal("sum_factors_", _shapes_of(state["sum_factors_"]), square)
    check_equal("midpoint_", _shapes_of(state["midpoint_"]), list(inner))
    if result is not None:
        check_equal("result_.R", _shapes_of(result.R or []), _shapes_of(result.L))
        check_equal("result_.center", _shapes_of(result.center or []), list(inner))
    return True


def _chosen(estimator: Any, name: str) -> Any:
    """Return the value of a parameter in the final fit: of a search, the best one."""
    searched = getattr(estimator, "estimator", None)
    given = getattr(estimator if searched is None else searched, name, None)
    return getattr(estimator, "best_params_", {}).get(name, given)


def _shapes_in_kernel(kernel_map: Any, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the shapes of what a kernel map returns, if it belongs to samples of given shapes."""
    if kernel_map is None:
        return shapes
    maps, kept = kernel_map.maps_, []
    if kernel_map.kernel != "precomputed":
        expected = [prod(shape) for shape in shapes]
        check_equal("kernel_map_.maps_", [len(m.center) for m in maps], expected)
        kept = shapes if kernel_map.keep_features else []
    found = [*kept, *((m.projection.shape[1], 1) for m in maps)]
    check_equal("kernel_map_", list(map(tuple, kernel_map.block_shapes_out_)), found)
    return found


def _shapes_of(matrices: Any) -> list[tuple[int, ...]]:
    return [matrix.shape for matrix in (matrices if type(matrices) is list else [matrices])]


def _check_search(estimator: Any) -> None:
    """Raise an error unless what was found follows from the parameters and scores of the splits."""
    results, params = estimator.cv_results_, estimator.best_params_
    tried = results.get("params")
    check_list(partial(check_type, dict), "cv_results_['params']", tried)
    n_splits = sum(str(name).startswith("split") for name in results)
    check_equal("n_splits_", estimator.n_splits_, n_splits)
    splits = [f"split{number}_test_score" for number in range(n_splits)]
    for name in (*splits, "mean_test_score", "std_test_score"):
        check_array("f", 1, f"cv_results_[{name!r}]", results.get(name), finite=False)
        check_equal(f"cv_results_[{name!r}]", len(results[name]), len(tried))
    expected = results_of(tried, np.stack([results[name] for name in splits], axis=1))
    for name in ("mean_test_score", "std_test_score"):  # processors round sums differently
        if np.allclose(results[name], expected[name], rtol=1e-9, atol=1e-12, equal_nan=True):
            expected[name] = results[name]
    expected["rank_test_score"] = ranks_of(results["mean_test_score"])
    check_equal("cv_results_", sorted(results), sorted(expected))
    for name, values in expected.items():
        check_type(type(values), f"cv_results_[{name!r}]", results[name])
        check_equal(f"cv_results_[{name!r}]", repr([*results[name]]), repr([*values]))
    best = int(np.argmin(expected["rank_test_score"]))
    check_equal("best_index_", estimator.best_index_, best)
    check_equal("best_score_", estimator.best_score_, float(results["mean_test_score"][best]))
    check_equal("best_params_", repr(params), repr(tried[best]))
    check_equal("C_", estimator.C_, params.get("C"))


MEAN = "the mean of the training samples"
MEDIANS = "the medians of the columns, and bounds of their cells"
TELLS = "which tells training samples from others"


def revealed_samples(estimator: Any) -> list[str]:
    """Return what a fitted model holds of its training samples, besides matrices of statistics.

    An empty list stands for nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATML
    >>> X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    >>> revealed_samples(TATML(random_state=0).fit(X, y))
    ['the mean of the training samples']
    >>> revealed_samples(TATML(kernel="rbf", random_state=0).fit(X, y))[0]
    '30 of 30 training samples (landmarks of the kernel)'
    """
    state, found = vars(estimator), []
    kernel_map, n_samples = getattr(estimator, "kernel_map_", None), state.get(N_SAMPLES)
    if kernel_map is not None:
        found.append(_landmarks(kernel_map, n_samples))
    for m, factor in enumerate(state.get("factors_", ())):  # those of sums have the same spans
        if isinstance(factor, SpanFactor):
            found.append(_span(factor.span, m))
    if "components_" in state or "sum_factors_" in state:
        found += _wide_matrices(estimator, n_samples)
    if "cell_bounds_" in state:
        found.append(MEDIANS)
    return [*found, MEAN] if center_of(estimator) or "midpoint_" in state else found


def _landmarks(kernel_map: KernelMap, n_samples: int | None) -> str:
    count = len(kernel_map.maps_[0].landmarks)
    of_all = "" if n_samples is None else f"of {n_samples} "
    share = f"{count} {of_all}training samples"
    if kernel_map.kernel == "precomputed":
        return f"the positions of {share} in the kernel matrix (landmarks of the kernel)"
    return f"{share} (landmarks of the kernel)"


def _span(span: Span, m: int) -> str:
    """Return what the span of a wide block holds: its samples, or a basis."""
    if isinstance(span.rows, SparseRows) or span.mix is not None:
        return f"{len(span.rows)} training samples (the span of block {m})"
    return (
        f"a basis of the span of the training samples in block {m} ({len(span.rows)} of "
        f"{span.size} dimensions), {TELLS}"
    )


def _wide_matrices(estimator: Any, n_samples: int | None) -> list[str]:
    """Return which matrices reveal the span of samples that are fewer than the rows of a block."""
    if n_samples is None:
        return []
    found, result = [], vars(estimator).get("result_")
    # Whether the model holds its prior or its solution, besides some components.
    holds_square = "prior_" in vars(estimator) or type(result) not in (type(None), SpanResult)
    parts = zip(estimator._component_list(), estimator._inner_shapes(), strict=True)
    for m, (A, (n, width)) in enumerate(parts):
        most = n_samples * width
        if n <= most or np.count_nonzero(A) <= len(A):  # a diagonal matrix has no span
            continue
        if len(A) < n and not holds_square:
            found.append(
                f"{len(A)} directions in the span of the training samples in block {m}, which has "
                f"at most {most} of {n} dimensions"
            )
        else:
            found.append(
                f"a matrix from which the span of the training samples in block {m} can be "
                f"computed (at most {most} of {n} dimensions), {TELLS}"
            )
    return found
