"""Read the samples and pairs that estimators are given, directly or through a preprocessor.

This module and `given_labels` are the edge of the estimators: they inspect types and dimensions.
All code below them works on Blocks and index pairs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.arrays import as_real_array, check_no_dates, check_not_masked, read_array
from .._data.blocks import Blocks, as_blocks
from .._data.checks import check_magnitude, check_spread, hint_at_raw_covariances
from .._data.pairs import as_index
from .._data.storage import warn_of_missing_chunks
from .._messages import named_error
from .._warnings import warn_user
from .device_inputs import fetched, remember_place
from .given_labels import check_no_index_pairs, check_no_pairs
from .preprocessors import look_up
from .seen_samples import keep_facts
from .sparse_inputs import accepts_sparse, dense_extremes, read_sparse_table

# What was calibrated for the metric of an earlier fit: the threshold, and the probabilities.
CALIBRATED = ("calibration_", "likelihood_ratio_", "same_rate_")

# The names of the blocks, and of the rows of each block, if fit saw Blocks that have some.
NAMES = ("block_names_in_", "row_names_in_")


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Forget earlier calibrations for a fit; if it raises, restore the estimator as it was."""
    before = dict(vars(estimator))
    for name in CALIBRATED:
        vars(estimator).pop(name, None)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    finally:
        vars(estimator).pop("_place", None)


def samples_of(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_samples: int = 1, y: Any = None
) -> Blocks:
    """Return samples as Blocks, from a table, matrices, Blocks or indicators.

    With `reset` the estimator stores the shape of the samples (n_features_in_, feature_names_in_,
    block_shapes_); without it X must have the stored shape. With the labels `y` of a fit, pairs
    and index pairs that belong to `TATMLPairs` are refused.
    """
    preprocessor = estimator.preprocessor
    if reset:
        remember_place(estimator, preprocessor, X)
    X = fetched(X)
    check_not_masked(X, "X")
    warn_of_missing_chunks(X=X)
    has_indicators = preprocessor is not None and _n_dims(X) == 1
    if has_indicators:
        X = look_up(preprocessor, read_array(X, "X"), estimator)
        check_not_masked(X, "preprocessor")
    if reset:
        vars(estimator).pop("_fitted_to_sparse", None)
    if isinstance(X, Blocks) or _n_dims(X) > 2:
        blocks = as_blocks(X)
        if not isinstance(X, Blocks):
            check_no_pairs(blocks, y)
    else:
        with warnings.catch_warnings():  # masked entries become NaN, which is refused
            warnings.filterwarnings("ignore", message="Warning: converting a masked element")
            blocks = _table(estimator, X, reset, min_samples)
        if preprocessor is not None and not has_indicators and not scipy.sparse.issparse(X):
            check_no_index_pairs(blocks, y)
        return _with_checked_shapes(estimator, blocks, reset, "X")
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = blocks.shape[1]
    return _with_checked_shapes(estimator, blocks, reset, "X")


def _table(estimator: BaseEstimator, X: Any, reset: bool, min_samples: int) -> Blocks:
    """Return a table of one sample per row, read and checked by scikit-learn."""
    check_no_dates(X, "X")  # which scikit-learn would convert
    try:
        if accepts_sparse(estimator, X, reset):
            return read_sparse_table(estimator, X, reset, min_samples)
        with np.errstate(all="ignore"):  # overflow gives infinity, which is refused
            table = validate_data(
                estimator,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_min_samples=min_samples,
            )
    except Exception as error:  # raised by scikit-learn, NumPy or the given object
        raise _wrong_table(X, error) from error
    return Blocks(table)


def _wrong_table(X: Any, error: Exception) -> TypeError | ValueError:
    """Return scikit-learn's error about a table as one line with the expected and the given.

    Its messages stay part of ours, because its tests of estimators look for them.
    """
    named, message = named_error("X", error), " ".join(str(error).split())
    if message.startswith(("X has ", "The feature names", "Sparse data was passed for X")):
        return named
    missing = message.startswith("Input X contains")
    reason = message.partition(". ")[0] if missing else message
    reason = re.sub(r": array=.*(?=\. Reshape)|(?<=not supported) \[.*", "", reason)  # the entries
    return type(named)(
        "X: expected a table of finite real numbers, one row per sample, got "
        f"{_first_not_finite(X) if missing else _shape_of(X)} ({reason})"
    )


def _first_not_finite(X: Any) -> str:
    """Return the first number of a table that is NaN or infinite, and its sample."""
    try:
        with np.errstate(over="ignore"):
            if hasattr(X, "to_numpy"):  # a table of pandas, whose missing values are no floats
                table = X.to_numpy(np.float64, na_value=np.nan)
            else:
                table = np.asarray(X, dtype=np.float64)
        row, column = np.argwhere(~np.isfinite(table))[0]
    except Exception:  # missing values of another kind
        return "NaN or infinity"
    return f"{table[row, column]} in sample {row}, feature {column}"


def _shape_of(X: Any) -> str:
    """Return the shape of an array-like for a message; without one, its type."""
    try:
        return f"{type(X).__name__} of shape {np.shape(X)}"
    except Exception:  # ragged, or an object that is no array
        return type(X).__name__


def pair_samples(
    estimator: BaseEstimator, pairs: Any, *, reset: bool
) -> tuple[Blocks, NDArray[np.intp]]:
    """Return the samples of given pairs, and the pairs as indices (n_pairs, 2) into them."""
    array = read_pairs(pairs)
    if reset:
        remember_place(estimator, estimator.preprocessor, pairs)
    if estimator.preprocessor is not None and array.ndim == 2:
        _check_pair_shape(array)
        found, index = _number_indicators(array)
        blocks = as_blocks(look_up(estimator.preprocessor, found, estimator), "preprocessor")
        index = index.reshape(-1, 2)
    else:
        if array.ndim not in (3, 4):
            raise ValueError(_wrong_pairs(array, estimator.preprocessor))
        _check_pair_shape(array)
        flat = as_real_array(array, "pairs").reshape(2 * len(array), *array.shape[2:])
        blocks, index = _finite_pairs(flat), np.arange(len(flat)).reshape(-1, 2)
    if reset:
        estimator.n_features_in_ = blocks.shape[1]
    return _with_checked_shapes(estimator, blocks, reset, "pairs"), index


def index_pairs(pairs: Any, n_samples: int) -> NDArray[np.intp]:
    """Return checked index pairs into X; both members may be the same sample."""
    return as_index(pairs, n_samples, allow_self=True)


def _number_indicators(indicators: NDArray) -> tuple[NDArray, NDArray]:
    """Return the sorted distinct indicators, and for each given one its position among them."""
    try:
        return np.unique(indicators, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            "pairs: expected indicators of one type, such as integers or words, got objects that "
            "cannot be sorted"
        ) from error


def forget_samples(estimator: BaseEstimator) -> None:
    """Delete the attributes that describe the samples of an earlier fit."""
    for name in ("n_features_in_", "block_shapes_", "feature_names_in_", *NAMES):
        vars(estimator).pop(name, None)


def given_distances(distances: Any, name: str = "pairs") -> NDArray[np.float64]:
    """Return precomputed distances, one per pair."""
    values = as_real_array(distances, name).astype(np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"{name}: expected precomputed distances of shape (n_pairs,), got shape {values.shape}"
        )
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{name}: expected finite distances of at least 0, got {values[row]} for pair {row}"
        )
    return values


def _with_checked_shapes(
    estimator: BaseEstimator, blocks: Blocks, reset: bool, name: str
) -> Blocks:
    """Check the sizes of the entries, and store (`reset`) or compare the shapes of the blocks."""
    ends = dense_extremes(blocks)
    check_magnitude(ends, name)
    if reset:
        check_spread(ends, name)
        hint = hint_at_raw_covariances(blocks)
        if hint:
            warn_user(hint)
        estimator.block_shapes_ = blocks.block_shapes
        _keep_names(estimator, blocks)
        keep_facts(estimator, blocks)
    elif blocks.block_shapes != estimator.block_shapes_:
        given, expected = blocks.shape[1], estimator.n_features_in_
        in_fit, found = _shapes_text(estimator.block_shapes_), _shapes_text(blocks.block_shapes)
        shapes = f"{in_fit} as in fit, got {found}"
        if given == expected:
            raise ValueError(f"{name}: expected blocks of shapes {shapes}")
        named = "X has" if name == "X" else f"{name}: {name} has"  # scikit-learn's words for X
        raise ValueError(
            f"{named} {given} features, but {type(estimator).__name__} is expecting {expected} "
            f"features as input: blocks of shapes {shapes}"
        )
    return blocks


def _keep_names(estimator: BaseEstimator, blocks: Blocks) -> None:
    """Store the names of blocks and rows that there are, and forget those of an earlier fit."""
    for name, value in zip(NAMES, (blocks.names, blocks.row_names), strict=True):
        vars(estimator).pop(name, None)
        if value is not None:
            setattr(estimator, name, value)


def _shapes_text(shapes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in shapes)


def _n_dims(X: Any) -> int:
    n_dims = getattr(X, "ndim", None)
    if isinstance(n_dims, int):
        return n_dims
    try:
        return len(X.shape) if hasattr(X, "shape") else np.asarray(X).ndim
    except Exception:  # ragged, or no array: the check of tables has the better message
        return 2


def read_pairs(pairs: Any) -> NDArray:
    """Convert pairs of any form to a NumPy array; sparse arrays and Blocks are refused."""
    if scipy.sparse.issparse(pairs) or isinstance(pairs, Blocks):
        kind = "Blocks" if isinstance(pairs, Blocks) else f"sparse {type(pairs).__name__}"
        raise TypeError(
            f"pairs: expected a dense array of shape (n_pairs, 2, …), got {kind}; for pairs of "
            "Blocks give index pairs, and the Blocks as preprocessor"
        )
    return read_array(fetched(pairs), "pairs")


def _check_pair_shape(array: NDArray) -> None:
    if len(array) == 0:
        raise ValueError(f"pairs: expected at least one pair, got shape {array.shape}")
    if array.shape[1] != 2:
        raise ValueError(
            f"pairs: expected two samples per pair, shape (n_pairs, 2, …), got shape {array.shape}"
        )
    if array.size == 0:
        raise ValueError(f"pairs: expected at least one feature, got shape {array.shape}")


def _wrong_pairs(array: NDArray, preprocessor: Any) -> str:
    """Return the message for pairs of a wrong number of dimensions."""
    expected = "(n_pairs, 2, n) or (n_pairs, 2, n, n')"
    if preprocessor is not None:
        expected = "(n_pairs, 2) of indicators for the preprocessor, or " + expected
    hint = ""
    if array.ndim == 2 and preprocessor is None:
        hint = "; index pairs need a preprocessor, or X in a method that has it (pair_distance)"
    return f"pairs: expected an array of shape {expected}, got shape {array.shape}{hint}"


def _finite_pairs(flat: NDArray) -> Blocks:
    finite = np.isfinite(flat).reshape(len(flat), -1).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f"pairs: expected finite numbers, got NaN or infinity in pair {row // 2}, "
            f"member {row % 2}"
        )
    return Blocks(flat)


def check_has(estimator: Any, *names: str) -> None:
    """Raise unless the estimator is fitted and has these attributes."""
    check_is_fitted(estimator)
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        hint = ""
        if hasattr(estimator, "steps"):
            hint = "; of a pipeline, give pipeline[-1], and samples after pipeline[:-1].transform"
        raise TypeError(
            f"estimator: expected one with {', '.join(names)}, got {type(estimator).__name__} "
            f"without {', '.join(missing)}{hint}"
        )
