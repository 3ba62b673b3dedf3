"""Checks of the whole state of a fitted estimator, for estimators that are saved or loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._data.blocks import Blocks
from .._data.checks import check_prior
from .._data.names import check_block_names, check_row_names
from .._learning.metric import check_components
from .._learning.span import Span, SpanFactor, SpanResult, SparseRows
from .._learning.within import UNITS
from .._messages import shown
from .._optim.result import Result, Status
from .._validation import (
    as_list,
    check_between,
    check_bounds,
    check_choice,
    check_count,
    check_finite,
    check_not_negative,
    check_positive,
    check_share,
)
from .._verification.probabilities import check_likelihood_ratio
from .._verification.targets import CALIBRATION_METHODS, CALIBRATION_STRATEGIES, Calibration
from ..features._kernel_map import BlockMap, KernelMap
from .fitted_parameters import StateCheck, check_equal, check_parameter, ignore_name
from .seen_samples import CENTER, N_SAMPLES, center_of, check_center

# The types of the objects among fitted attributes.
HELD = (Calibration, Result, SpanResult, SpanFactor, Span, SparseRows, KernelMap, BlockMap)

# Attributes besides parameters and fitted attributes: the container chosen by set_output.
HIDDEN = {"_sklearn_output_config", "_fitted_to_sparse"}
# Attributes of calibrated probabilities: both or none.
CALIBRATED = ("likelihood_ratio_", "same_rate_")
OUTPUT_WORDS = {"transform", "default", "pandas", "polars"}


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
    required = [*parameters, *_required(parameters, state)]
    if not getattr(estimator, "_learns_threshold", True):
        required = [name for name in required if name not in ("threshold_", "b0_")]
    required += [name for name in CALIBRATED if set(CALIBRATED) & set(state)]
    missing = [name for name in required if name not in state]
    if missing:
        raise ValueError(f"{missing[0]}: expected a value, got none")
    unknown = sorted(set(state) - {*parameters, *ATTRIBUTES, *HIDDEN})
    if unknown:
        raise ValueError(
            f"{unknown[0]}: expected no such attribute, got {shown(state[unknown[0]])}"
        )
    for name, value in state.items():
        if name in parameters:
            check_parameter(name, value)
        elif name not in HIDDEN:
            ATTRIBUTES[name](name, value)
    output = state.get("_sklearn_output_config", {})
    if type(output) is not dict or not set(output) | set(output.values()) <= OUTPUT_WORDS:
        raise ValueError(f"set_output: expected the name of a container, got {shown(output)}")
    if "block_shapes_" in state:
        _check_shapes(estimator)
    if "cv_results_" in state:
        _check_search(estimator)


def _required(parameters: Sequence[str], state: dict[str, Any]) -> list[str]:
    """Return the fitted attributes that a fitted estimator of this type and state has."""
    names = []
    if "class_weight" in parameters:  # an estimator that learns from pairs
        names += ["classes_", "threshold_", "b0_"]
    if "metric" not in parameters:
        names += ["n_features_in_", "block_shapes_"]
        names.append("factors_" if "factors_" in state else "components_")
    if "solver" in parameters:
        names += ["result_", "n_iter_", "threshold_", "b0_"]
        if type(state.get("result_")) is not SpanResult:  # its matrices are too large
            names.append("prior_")
    if "Cs" in parameters:
        names += ["cv_results_", "best_params_", "best_score_", "C_"]
    return names


# Fitted attributes


def _check_array(name: str, value: Any, kinds: str, n_dims: int) -> None:
    if type(value) is not np.ndarray or value.dtype.kind not in kinds or len(value.shape) != n_dims:
        found = (
            f"{value.dtype} of shape {value.shape}" if type(value) is np.ndarray else shown(value)
        )
        raise TypeError(f"{name}: expected an array with {n_dims} dimensions, got {found}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")


def _check_matrices(name: str, value: Any) -> None:
    for matrix in value if type(value) is list else [value]:
        _check_array(name, matrix, "f", 2)


def _check_factors(name: str, value: Any) -> None:
    """Check the linear maps of all blocks: matrices, or maps of wide blocks in factored form."""
    for factor in as_list(name, value, "a list of linear maps"):
        if type(factor) is np.ndarray:
            _check_array(name, factor, "f", 2)
            continue
        for part, kind in ((factor, SpanFactor), (getattr(factor, "span", None), Span)):
            if type(part) is not kind or set(vars(part)) != {field.name for field in fields(kind)}:
                raise TypeError(f"{name}: expected a {kind.__name__}, got {shown(part)}")
        span = factor.span
        _check_array(f"{name}.inner", factor.inner, "f", 2)
        _check_rows(f"{name}.span.rows", span.rows)
        _check_array(f"{name}.span.unit", span.unit, "f", 1)
        check_equal(f"{name}.span.unit", len(span.unit), span.size)
        check_positive(f"{name}.outside", factor.outside)
        check_positive(f"{name}.span.outside", span.outside)
        size = _mixed_size(name, span)
        check_equal(f"{name}.inner", factor.inner.shape, (size, size))
        if span.whitening is not None:
            _check_array(f"{name}.span.whitening", span.whitening, "f", 2)
            check_equal(f"{name}.span.whitening", span.whitening.shape, factor.shape)


def _check_rows(name: str, rows: Any) -> None:
    """Check the samples of a span, dense or sparse."""
    if type(rows) is not SparseRows:
        _check_array(name, rows, "f", 2)
        return
    for part, kinds in (("data", "f"), ("indices", "i"), ("indptr", "i"), ("mean", "f")):
        _check_array(f"{name}.{part}", getattr(rows, part, None), kinds, 1)
    try:
        rows.table.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name}: expected a sparse array, got another: {error}") from error


def _mixed_size(name: str, span: Span) -> int:
    """Return the dimension of a span."""
    if span.mix is None:
        return len(span.rows)
    _check_array(f"{name}.span.mix", span.mix, "f", 2)
    check_equal(f"{name}.span.mix", len(span.mix), len(span.rows))
    return span.mix.shape[1]


def _check_pair_array(name: str, value: Any, kinds: str, n_dims: int = 1) -> None:
    if value is not None:
        _check_array(name, value, kinds, n_dims)


def _check_block_shapes(name: str, value: Any) -> None:
    for shape in as_list(name, value, "the shapes of the blocks"):
        if len(as_list(name, shape, "two numbers")) != 2:
            raise ValueError(f"{name}: expected two numbers per block, got {shown(shape)}")
        for size in shape:
            check_count(name, size)


def _check_classes(name: str, value: Any) -> None:
    _check_array(name, value, "i", 1)
    if value.tolist() != [-1, 1]:
        raise ValueError(f"{name}: expected -1 and 1, got {shown(value)}")


def _check_likelihood_ratio(name: str, value: Any) -> None:
    _check_array(name, value, "f", 1)
    check_likelihood_ratio(name, value)


def _check_names(name: str, value: Any) -> None:
    _check_array(name, value, "OU", 1)
    check_block_names(value.tolist(), len(value), name)


def _check_tuple(name: str, value: Any) -> None:
    if type(value) is not tuple:  # `_check_shapes` looks at its members
        raise TypeError(f"{name}: expected a tuple, got {shown(value)}")


def _check_search_scores(name: str, value: Any) -> None:
    if type(value) is not dict or not value:
        raise TypeError(f"{name}: expected scores of thresholds, got {shown(value)}")
    for threshold, score in value.items():
        check_positive(name, threshold)
        check_share(name, score)


def _check_dict(name: str, value: Any) -> None:
    if type(value) is not dict:
        raise TypeError(f"{name}: expected a dict, got {shown(value)}")


def _check_result(name: str, value: Any) -> None:
    names = {part.name for part in fields(Result)}
    if type(value) not in (Result, SpanResult) or set(vars(value)) != names:
        raise TypeError(f"{name}: expected a Result, got {shown(value)}")
    if type(value.status) is not Status:
        raise TypeError(f"{name}.status: expected a Status, got {shown(value.status)}")
    if value.b0 is not None:
        check_finite(f"{name}.b0", value.b0)
    check_finite(f"{name}.primal", value.primal)
    if (value.dual, value.gap) != (-inf, inf):  # no lower bound is known
        check_finite(f"{name}.dual", value.dual)
        check_not_negative(f"{name}.gap", value.gap)
    check_positive(f"{name}.tol", value.tol)
    check_count(f"{name}.n_iter", value.n_iter, least=0)
    for factor in as_list(f"{name}.L", value.L, "a list of matrices"):
        _check_array(f"{name}.L", factor, "f", 2)
        if np.any(np.triu(factor, 1)) or not np.all(np.diagonal(factor) > 0):
            raise ValueError(
                f"{name}.L: expected lower triangular matrices with a positive diagonal, got others"
            )
    _check_pair_array(f"{name}.active", value.active, "i")
    _check_pair_array(f"{name}.multipliers", value.multipliers, "f")
    _check_dict(f"{name}.history", value.history)
    lengths = {len(as_list(f"{name}.history", part, "arrays")) for part in value.history.values()}
    if len(lengths) > 1:
        raise ValueError(f"{name}.history: expected arrays of one length, got {sorted(lengths)}")


def _check_calibration(name: str, value: Any) -> None:
    if type(value) is not Calibration or set(vars(value)) != {
        part.name for part in fields(Calibration)
    }:
        raise TypeError(f"{name}: expected a Calibration, got {shown(value)}")
    check_choice(f"{name}.strategy", value.strategy, CALIBRATION_STRATEGIES)
    check_choice(f"{name}.method", value.method, CALIBRATION_METHODS)
    check_count(f"{name}.n_pairs", value.n_pairs)
    for part, check in (
        ("max_rate", check_share),
        ("confidence", check_share),
        ("n_errors", partial(check_count, least=0)),
        ("n_effective", check_not_negative),
    ):
        if getattr(value, part) is not None:
            check(f"{name}.{part}", getattr(value, part))


def _check_kernel_map(name: str, value: Any) -> None:
    """Raise an error unless the value is None or a fitted KernelMap of consistent arrays."""
    if value is None:
        return
    if type(value) is not KernelMap or not hasattr(value, "maps_"):
        raise TypeError(f"{name}: expected a fitted KernelMap, got {shown(value)}")
    for m, block_map in enumerate(as_list(f"{name}.maps_", value.maps_, "one map per block")):
        _check_block_map(f"{name}.maps_[{m}]", block_map, value.kernel == "precomputed")
    check_parameter("kernel", value)


def _check_block_map(name: str, value: Any, precomputed: bool) -> None:
    if type(value) is not BlockMap or set(vars(value)) != {part.name for part in fields(BlockMap)}:
        raise TypeError(f"{name}: expected a BlockMap, got {shown(value)}")
    _check_array(f"{name}.landmarks", value.landmarks, *("i", 1) if precomputed else ("f", 2))
    for part in ("center", "scale", "means"):
        _check_array(f"{name}.{part}", getattr(value, part), "f", 1)
    _check_array(f"{name}.projection", value.projection, "f", 2)
    check_positive(f"{name}.gamma", value.gamma)
    sizes = [len(value.landmarks), len(value.means), len(value.projection)]
    check_equal(f"{name}.means", sizes, sizes[:1] * 3)
    if not precomputed:
        check_equal(f"{name}.scale", len(value.scale), value.landmarks.shape[1])


ATTRIBUTES: dict[str, StateCheck] = {
    "C_": check_positive,
    "b0_": check_finite,
    "block_names_in_": _check_tuple,
    "best_params_": _check_dict,
    "best_score_": check_share,
    "block_shapes_": _check_block_shapes,
    "calibration_": _check_calibration,
    "bounds_": ignore_name(check_bounds),
    "classes_": _check_classes,
    "comparisons_": partial(_check_pair_array, kinds="i", n_dims=2),
    "components_": _check_matrices,
    "cv_results_": _check_dict,
    "factors_": _check_factors,
    "feature_names_in_": _check_names,
    "kernel_map_": _check_kernel_map,
    "likelihood_ratio_": _check_likelihood_ratio,
    "n_features_in_": check_count,
    "n_iter_": check_count,
    "n_missed_": partial(check_count, least=0),
    "n_rounds_": check_count,
    "pair_weights_": partial(_check_pair_array, kinds="f"),
    "pairs_": partial(_check_pair_array, kinds="i", n_dims=2),
    "prior_": _check_matrices,
    "prior_units_": partial(check_choice, choices=UNITS),
    "result_": _check_result,
    "row_names_in_": _check_tuple,
    "same_rate_": check_between,
    "search_scores_": _check_search_scores,
    "similar_": partial(_check_pair_array, kinds="b"),
    "threshold_": check_not_negative,
    "threshold_factor_": check_positive,
    CENTER: check_center,
    N_SAMPLES: check_count,
}


# Consistency


def _check_shapes(estimator: Any) -> None:
    """Raise an error unless all matrices have the sizes of the samples."""
    shapes = [tuple(shape) for shape in estimator.block_shapes_]
    _check_kernel_shapes(estimator, shapes)
    n_features = sum(prod(shape) for shape in shapes)
    check_equal("n_features_in_", estimator.n_features_in_, n_features)
    if CENTER in vars(estimator):
        check_equal(CENTER, _shapes_of(center_of(estimator)), shapes)
    if hasattr(estimator, "feature_names_in_"):
        check_equal("feature_names_in_", len(estimator.feature_names_in_), n_features)
    check_block_names(getattr(estimator, "block_names_in_", None), len(shapes), "block_names_in_")
    check_row_names(getattr(estimator, "row_names_in_", None), shapes, "row_names_in_")
    inner = shapes
    if getattr(estimator, "kernel_map_", None) is not None:
        inner = [tuple(shape) for shape in estimator.kernel_map_.block_shapes_out_]
    sizes = [n for n, _ in inner]
    square = [(n, n) for n in sizes]
    if hasattr(estimator, "components_"):
        counts = check_components(estimator.n_components, sizes)
        rows = [(n if k is None else k, n) for n, k in zip(sizes, counts, strict=True)]
        check_equal("components_", _shapes_of(estimator.components_), rows)
    if hasattr(estimator, "factors_"):
        found = [factor.shape[1] for factor in estimator.factors_]
        check_equal("factors_", found, sizes)
    if hasattr(estimator, "prior_"):
        check_equal("prior_", _shapes_of(estimator.prior_), square)
    if hasattr(estimator, "result_"):
        found = _shapes_of(list(estimator.result_.L))
        if type(estimator.result_) is SpanResult:  # the factors of wide blocks are smaller
            square = [
                (min(n, len(L)),) * 2 for n, L in zip(sizes, estimator.result_.L, strict=False)
            ]
        check_equal("result_.L", found, square)
        check_equal("n_iter_", estimator.n_iter_, max(1, estimator.result_.n_iter))
    prior = getattr(estimator, "prior", None)
    if prior is not None and not isinstance(prior, str):
        check_prior(prior, Blocks(*(np.zeros((1, *shape)) for shape in inner)))


def _check_kernel_shapes(estimator: Any, shapes: list[tuple[int, int]]) -> None:
    """Raise an error unless the kernel map belongs to samples of the given shapes."""
    kernel_map = getattr(estimator, "kernel_map_", None)
    if kernel_map is None:
        return
    maps, kept = kernel_map.maps_, []
    if kernel_map.kernel != "precomputed":
        expected = [prod(shape) for shape in shapes]
        check_equal("kernel_map_.maps_", [len(m.center) for m in maps], expected)
        kept = shapes if kernel_map.keep_features else []
    images = [(m.projection.shape[1], 1) for m in maps]
    check_equal("kernel_map_", list(map(tuple, kernel_map.block_shapes_out_)), [*kept, *images])


def _shapes_of(matrices: Any) -> list[tuple[int, ...]]:
    return [matrix.shape for matrix in (matrices if type(matrices) is list else [matrices])]


def _check_search(estimator: Any) -> None:
    """Raise an error unless the chosen parameters are among those of the search."""
    results = estimator.cv_results_
    tried = as_list("cv_results_", results.get("params"), "the parameters of the search")
    for name in ("mean_test_score", "std_test_score", "split_test_score"):
        _check_array(f"cv_results_[{name!r}]", results.get(name), "f", 2 if "split" in name else 1)
        check_equal(f"cv_results_[{name!r}]", len(results[name]), len(tried))
    check_equal("C_", estimator.C_, estimator.best_params_.get("C"))
    best = int(np.argmax(results["mean_test_score"]))
    check_equal("best_score_", estimator.best_score_, float(results["mean_test_score"][best]))
    check_equal("best_params_", repr(estimator.best_params_), repr(tried[best]))
