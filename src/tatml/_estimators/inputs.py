"""Read the samples and pairs that estimators are given, directly or through a preprocessor.

This module and `given_labels` are the edge of the estimators: they inspect types and dimensions.
All code below them works on Blocks and index pairs.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from .._array import Array, foreign_kind, namespace, on_gpu
from .._data.arrays import as_real_array, check_given, check_no_dates, check_not_masked, read_array
from .._data.blocks import Blocks, as_blocks, check_magnitude, check_spread, hint_at_raw_covariances
from .._data.pairs import as_index
from .._data.sparse import SparseBlock
from .._data.storage import warn_of_missing_chunks
from .._learning.places import fetched
from .._messages import named_error, shown
from .._warnings import warn_user
from .given_labels import check_no_index_pairs, check_no_pairs, number_distinct

TUPLE_SIZES = {"pairs": 2, "triplets": 3, "quadruplets": 4}
NUMBERS = {2: "two", 3: "three", 4: "four"}


def samples_of(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_samples: int = 1, y: Any = None
) -> Blocks:
    """Return samples as Blocks, from a table, matrices, Blocks or indicators.

    Without `reset`, X must have the shape of the samples of fit. With it, scikit-learn stores the
    number and the names of the columns of a table. With the labels `y` of a fit, pairs and index
    pairs that belong to `TATMLPairs` are refused.
    """
    preprocessor = estimator.preprocessor
    X = fetched(X)
    check_given(X=X)
    has_indicators = preprocessor is not None and _n_dims(X) == 1
    if has_indicators:
        X = look_up(preprocessor, read_array(X, "X"), estimator)
        check_not_masked(X, "preprocessor")
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


def _table(estimator: BaseEstimator, X: Any, reset: bool, min_samples: int) -> Blocks:
    """Return a table of one sample per row, read and checked by scikit-learn."""
    check_no_dates(X, "X")  # which scikit-learn would convert
    try:
        sparse = accepts_sparse(estimator, X, reset)
        kinds: dict[str, Any] = {"dtype": [np.float64, np.float32]}
        if sparse:
            kinds = {"accept_sparse": "csr", "dtype": np.float64}
        with np.errstate(all="ignore"):  # overflow gives infinity, which is refused
            table = validate_data(
                estimator, X, reset=reset, ensure_min_samples=min_samples, **kinds
            )
    except Exception as error:  # raised by scikit-learn, NumPy or the given object
        raise _wrong_table(X, error) from error
    return Blocks(SparseBlock(table) if sparse else table)


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


def tuple_samples(
    estimator: BaseEstimator, tuples: Any, name: str, *, reset: bool
) -> tuple[Blocks, NDArray[np.intp]]:
    """Return the samples of pairs, triplets or quadruplets, and the tuples as indices into them.

    `name` is that of the argument. Without `reset`, the samples must have the shape of those of
    fit.
    """
    size, preprocessor = TUPLE_SIZES[name], estimator.preprocessor
    array = read_tuples(tuples, name)
    has_indicators = preprocessor is not None and array.ndim == 2
    if not has_indicators and array.ndim not in (3, 4):
        raise ValueError(_wrong_tuples(array, name, preprocessor))
    if len(array) == 0 or array.shape[1] != size or array.size == 0:
        raise ValueError(
            f"{name}: expected at least one {name[:-1]}, {NUMBERS[size]} samples per {name[:-1]}, "
            f"and at least one feature, got shape {array.shape}"
        )
    if has_indicators:
        found, index = number_distinct(array, name, "indicators")
        blocks = as_blocks(look_up(preprocessor, found, estimator), "preprocessor")
    else:
        flat = as_real_array(array, name).reshape(size * len(array), *array.shape[2:])
        wrong = ~np.isfinite(flat).reshape(len(flat), -1).all(axis=1)
        if wrong.any():
            row, member = divmod(int(np.flatnonzero(wrong)[0]), size)
            raise ValueError(
                f"{name}: expected finite numbers, got NaN or infinity in {name[:-1]} {row}, "
                f"member {member}"
            )
        blocks, index = Blocks(flat), np.arange(len(flat))
    return _with_checked_shapes(estimator, blocks, reset, name), index.reshape(-1, size)


def index_pairs(pairs: Any, n_samples: int) -> NDArray[np.intp]:
    """Return checked index pairs into X; both members may be the same sample."""
    return as_index(pairs, n_samples, allow_self=True)


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
    """Check the sizes of the entries and, without `reset`, that the shapes are those of fit."""
    ends = dense_extremes(blocks)
    check_magnitude(ends, name)
    if reset:
        check_spread(ends, name)
        hint = hint_at_raw_covariances(blocks)
        if hint:
            warn_user(hint)
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


def read_tuples(tuples: Any, name: str = "pairs") -> NDArray:
    """Convert pairs or other tuples to a NumPy array; sparse arrays and Blocks are refused."""
    if scipy.sparse.issparse(tuples) or isinstance(tuples, Blocks):
        kind = "Blocks" if isinstance(tuples, Blocks) else f"sparse {type(tuples).__name__}"
        raise TypeError(
            f"{name}: expected a dense array of shape (n_{name}, {TUPLE_SIZES[name]}, …), got "
            f"{kind}; for {name} of Blocks give index {name}, and the Blocks as preprocessor"
        )
    return read_array(fetched(tuples), name)


def _wrong_tuples(array: NDArray, name: str, preprocessor: Any) -> str:
    """Return the message for tuples of a wrong number of dimensions."""
    shape = f"(n_{name}, {TUPLE_SIZES[name]}"
    expected = f"{shape}, n) or {shape}, n, n')"
    if preprocessor is not None:
        expected = f"{shape}) of indicators for the preprocessor, or {expected}"
    hint = ""
    if array.ndim == 2 and preprocessor is None:
        hint = f"; index {name} need a preprocessor"
        if name == "pairs":
            hint += ", or X in a method that has it (pair_distance)"
    return f"{name}: expected an array of shape {expected}, got shape {array.shape}{hint}"


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


def place_of_samples(*values: Any) -> Array | None:
    """Return an array of float64 on the device of samples, if results belong there; else None.

    The first of the values that is an array of another package counts. Without scikit-learn's
    array API dispatch, tensors on the host are read like NumPy arrays.
    """
    for value in values:
        array = value.arrays[0] if isinstance(value, Blocks) else value
        if foreign_kind(array) is not None:
            if not on_gpu(array) and not get_config()["array_api_dispatch"]:
                return None
            xp = namespace(array)
            return xp.zeros((1,), dtype=xp.float64, device=array.device)
    return None


def accepts_sparse(estimator: BaseEstimator, X: Any, reset: bool) -> bool:
    """Return whether X is sparse, and the metric is, or will be, learnt in the span of samples."""
    if not scipy.sparse.issparse(X) or len(X.shape) != 2:
        return False
    if not hasattr(estimator, "solver") or getattr(estimator, "kernel", None) is not None:
        return False
    if reset:
        return bool(X.shape[0] < X.shape[1])
    return hasattr(estimator, "factors_") or hasattr(estimator, "_fitted_to_sparse")


def read_sparse_samples(table: Any) -> Blocks:
    """Return a sparse preprocessor; raise an error if an entry is not a finite real number."""
    entries = scipy.sparse.coo_array(table).data
    if entries.dtype.kind not in "biuf" or not np.isfinite(entries).all():
        raise ValueError(
            "preprocessor: expected finite real numbers, got a sparse array with others"
        )
    return Blocks(SparseBlock(table))


def dense_extremes(blocks: Blocks) -> Blocks:
    """Return the smallest and the largest entry of each column of sparse blocks."""
    arrays: tuple[Any, ...] = blocks.arrays
    ends = [array.extremes() for array in arrays if isinstance(array, SparseBlock)]
    return Blocks(*ends) if ends else blocks


def look_up(preprocessor: Any, indicators: NDArray, estimator: BaseEstimator) -> Any:
    """Return the samples that the preprocessor gives for the indicators."""
    if callable(preprocessor):
        samples = _called(preprocessor, indicators)
        found = _count_of(samples)
        if found != len(indicators):
            raise ValueError(
                f"preprocessor: expected {len(indicators)} samples, one for each indicator, got "
                f"{found}"
            )
        return samples
    samples = fetched(preprocessor)
    if accepts_sparse(estimator, preprocessor, reset=True):
        samples = read_sparse_samples(preprocessor)
    elif not isinstance(preprocessor, Blocks):
        warn_of_missing_chunks(preprocessor=preprocessor)
        samples = read_array(fetched(preprocessor), "preprocessor")
    if samples.ndim not in (2, 3):
        raise TypeError(
            "preprocessor: expected an array of samples, Blocks or a function, got "
            f"{shown(preprocessor)}"
        )
    if indicators.dtype.kind not in "iu":
        raise TypeError(
            "preprocessor: expected integer indicators, as an array is indexed, got dtype "
            f"{indicators.dtype}; give a function that finds the samples instead"
        )
    wrong = (indicators < 0) | (indicators >= len(samples))
    if wrong.any():
        raise ValueError(
            f"preprocessor: expected indices from 0 to {len(samples) - 1}, got "
            f"{indicators[wrong][0]}"
        )
    return samples[indicators]


def _called(preprocessor: Any, indicators: NDArray) -> Any:
    """Return what a function gives for the indicators; its errors name the preprocessor."""
    try:
        return preprocessor(indicators)
    except Exception as error:  # a function of the user may raise anything
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"preprocessor: expected a function that returns {len(indicators)} samples, one for "
            f"each indicator, got {type(error).__name__}: {error}"
        ) from error


def _count_of(samples: Any) -> int | str:
    """Return the number of samples; for an object without a length, its repr for a message."""
    try:
        return _num_samples(samples)
    except Exception:  # a preprocessor may return any object
        return shown(samples)
