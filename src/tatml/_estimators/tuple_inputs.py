"""Read triplets and quadruplets of samples, given as arrays or as indicators for a preprocessor.

Like `inputs`, this is an edge of the estimators: it inspects types and dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._data.arrays import as_real_array, read_array
from .._data.blocks import Blocks, as_blocks
from .device_inputs import fetched, remember_place
from .inputs import _with_checked_shapes
from .preprocessors import look_up


def tuple_samples(
    estimator: BaseEstimator, tuples: Any, name: str, size: int, *, reset: bool
) -> tuple[Blocks, NDArray[np.intp]]:
    """Return the samples of tuples, and the tuples as indices (n_tuples, size) into them.

    `name` is that of the argument in messages. With `reset` the estimator stores the shape of the
    samples; without it they must have the stored shape.
    """
    array, preprocessor = _read(tuples, name, size), estimator.preprocessor
    if reset:
        remember_place(estimator, preprocessor, tuples)
    if preprocessor is not None and array.ndim == 2:
        _check_shape(array, name, size)
        found, index = _numbered(array, name)
        blocks = as_blocks(look_up(preprocessor, found, estimator), "preprocessor")
        index = index.reshape(-1, size)
    else:
        if array.ndim not in (3, 4):
            raise ValueError(_wrong_shape(array, name, size, preprocessor))
        _check_shape(array, name, size)
        flat = as_real_array(array, name).reshape(size * len(array), *array.shape[2:])
        _check_finite(flat, name, size)
        blocks, index = Blocks(flat), np.arange(len(flat)).reshape(-1, size)
    if reset:
        estimator.n_features_in_ = blocks.shape[1]
    return _with_checked_shapes(estimator, blocks, reset, name), index


def _read(tuples: Any, name: str, size: int) -> NDArray:
    """Convert tuples of any form to a NumPy array; sparse arrays and Blocks are refused."""
    if scipy.sparse.issparse(tuples) or isinstance(tuples, Blocks):
        kind = "Blocks" if isinstance(tuples, Blocks) else f"sparse {type(tuples).__name__}"
        raise TypeError(
            f"{name}: expected a dense array of shape (n_{name}, {size}, …), got {kind}; for "
            f"{name} of Blocks give indices, and the Blocks as preprocessor"
        )
    return read_array(fetched(tuples), name)


def _check_shape(array: NDArray, name: str, size: int) -> None:
    if array.shape[1] != size or array.size == 0:
        raise ValueError(
            f"{name}: expected at least one row of {size} samples, shape (n_{name}, {size}, …), "
            f"got shape {array.shape}"
        )


def _numbered(indicators: NDArray, name: str) -> tuple[NDArray, NDArray]:
    """Return the sorted distinct indicators, and for each given one its position among them."""
    try:
        return np.unique(indicators, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            f"{name}: expected indicators of one type, such as integers or words, got objects that "
            "cannot be sorted"
        ) from error


def _wrong_shape(array: NDArray, name: str, size: int, preprocessor: Any) -> str:
    """Return the message for tuples of a wrong number of dimensions."""
    expected = f"(n_{name}, {size}, n) or (n_{name}, {size}, n, n')"
    if preprocessor is not None:
        expected = f"(n_{name}, {size}) of indicators for the preprocessor, or {expected}"
    hint = ""
    if array.ndim == 2 and preprocessor is None:
        hint = "; indices need a preprocessor"
    return f"{name}: expected an array of shape {expected}, got shape {array.shape}{hint}"


def _check_finite(flat: NDArray, name: str, size: int) -> None:
    finite = np.isfinite(flat).reshape(len(flat), -1).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f"{name}: expected finite numbers, got NaN or infinity in row {row // size}, "
            f"member {row % size}"
        )
