"""What estimators are given: samples or pairs of samples, as they are or through a preprocessor.

This is the estimators' edge: the code here looks at types and dimensions, and below it there are
Blocks and index pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_array,
    column_or_1d,
    validate_data,
)

from ._array import foreign_kind
from ._checks import check_magnitude, hint_at_raw_covariances
from ._warnings import warn_user
from .blocks import Blocks, as_blocks, as_host_array, as_real_array
from .pairs import as_index

__all__ = [
    "class_labels",
    "forget_samples",
    "given_distances",
    "group_labels",
    "index_pairs",
    "pair_labels",
    "pair_samples",
    "samples_of",
    "shared_samples",
    "unchanged_on_error",
]


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Leave the estimator as it was if fitting fails: nothing half-set."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def samples_of(estimator: BaseEstimator, X: Any, *, reset: bool, min_samples: int = 1) -> Blocks:
    """The samples that a user gave as a table, as matrices, as Blocks or as indicators.

    With `reset` the estimator learns what it was given (n_features_in_, feature_names_in_,
    block_shapes_), otherwise X must be of the same kind.
    """
    preprocessor = estimator.preprocessor
    if foreign_kind(X) is not None:  # estimators compute on NumPy arrays
        X = as_host_array(X, "X")
    if preprocessor is not None and _n_dims(X) == 1:
        X = _looked_up(preprocessor, np.asarray(X))
    if isinstance(X, Blocks) or _n_dims(X) > 2:
        blocks = as_blocks(X)
    else:
        table = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_min_samples=min_samples,
        )
        return _checked(estimator, Blocks(table), reset, "X")
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = blocks.shape[1]
    return _checked(estimator, blocks, reset, "X")


def pair_samples(
    estimator: BaseEstimator, pairs: Any, *, reset: bool
) -> tuple[Blocks, NDArray[np.intp]]:
    """The samples of pairs that a user gave, and the pairs as indices (n_pairs, 2) into them."""
    array = _pair_array(pairs)
    if estimator.preprocessor is not None and array.ndim == 2:
        _check_pair_shape(array)
        found, index = np.unique(array, return_inverse=True)
        blocks = as_blocks(_looked_up(estimator.preprocessor, found), "preprocessor")
        index = index.reshape(-1, 2)
    else:
        if array.ndim not in (3, 4):
            raise ValueError(_wrong_pairs(array, estimator.preprocessor))
        _check_pair_shape(array)
        flat = as_real_array(array, "pairs").reshape(2 * len(array), *array.shape[2:])
        blocks, index = _finite_pairs(flat), np.arange(len(flat)).reshape(-1, 2)
    if reset:
        estimator.n_features_in_ = blocks.shape[1]
    return _checked(estimator, blocks, reset, "pairs"), index


def index_pairs(pairs: Any, n_samples: int) -> NDArray[np.intp]:
    """Index pairs into X; a sample may be compared with itself."""
    return as_index(pairs, n_samples, allow_self=True)


def shared_samples(estimator: BaseEstimator, pairs: Any, X: Any) -> NDArray[np.intp] | None:
    """Which samples index pairs share, as numbers (n_pairs, 2); None for pairs given as arrays."""
    if X is not None:
        return index_pairs(pairs, _num_samples(X))
    array = _pair_array(pairs)
    if estimator.preprocessor is None or array.ndim != 2:
        return None
    return np.unique(array, return_inverse=True)[1].reshape(-1, 2)


def forget_samples(estimator: BaseEstimator) -> None:
    """Forget the shape of samples that an earlier fit has seen."""
    for name in ("n_features_in_", "block_shapes_", "feature_names_in_"):
        vars(estimator).pop(name, None)


def given_distances(distances: Any, name: str = "pairs") -> NDArray[np.float64]:
    """Precomputed distances, one a pair."""
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


def class_labels(estimator: BaseEstimator, y: Any, n_samples: int) -> tuple[Any, NDArray[np.intp]]:
    """The classes and, for each sample, the number of its class."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    y = column_or_1d(y, warn=True)
    _check_length(y, n_samples, "y")
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y: expected two classes or more, got 1 class only, {classes[0]!r}")
    return classes, labels


def group_labels(groups: Any, n_samples: int) -> NDArray[np.intp] | None:
    """For each sample the number of its group."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.ndim != 1:
        raise ValueError(f"groups: expected shape (n_samples,), got shape {groups.shape}")
    _check_length(groups, n_samples, "groups")
    return np.unique(groups, return_inverse=True)[1]


def pair_labels(y: Any, n_pairs: int, *, both: bool = True) -> NDArray[np.bool_]:
    """Whether each pair is similar, from labels +1 and −1."""
    if y is None:
        raise ValueError(
            "y: expected a label of +1 or -1 for each pair: fit requires y to be passed, but the "
            "target y is None"
        )
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
    _check_length(y, n_pairs, "y")
    found = np.unique(y)
    if not set(found.tolist()) <= {-1, 1}:
        raise ValueError(
            "y: expected +1 for similar and -1 for dissimilar pairs, got labels "
            f"{found.tolist()[:5]}; from booleans write np.where(similar, 1, -1)"
        )
    if both and len(found) < 2:
        raise ValueError(
            f"y: expected similar (+1) and dissimilar (-1) pairs, got 1 class only, {found[0]}"
        )
    return y > 0


def _check_length(values: NDArray, n_samples: int, name: str) -> None:
    if len(values) != n_samples:
        raise ValueError(
            f"{name}: expected one value for each of the {n_samples} samples, got {len(values)} "
            "(inconsistent numbers of samples)"
        )


def _checked(estimator: BaseEstimator, blocks: Blocks, reset: bool, name: str) -> Blocks:
    if reset:
        check_magnitude(blocks, name)
        hint = hint_at_raw_covariances(blocks)
        if hint:
            warn_user(hint)
        estimator.block_shapes_ = blocks.block_shapes
    elif blocks.block_shapes != estimator.block_shapes_:
        given, expected = blocks.shape[1], estimator.n_features_in_
        shapes = f"{_listed(estimator.block_shapes_)} as in fit, got {_listed(blocks.block_shapes)}"
        if given == expected:
            raise ValueError(f"{name}: expected blocks of shapes {shapes}")
        raise ValueError(
            f"{name} has {given} features, but {type(estimator).__name__} is expecting {expected} "
            f"features as input: blocks of shapes {shapes}"
        )
    return blocks


def _listed(shapes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in shapes)


def _looked_up(preprocessor: Any, indicators: NDArray) -> Any:
    """The samples that indicators stand for."""
    if callable(preprocessor):
        samples = preprocessor(indicators)
        if samples is None or _num_samples(samples) != len(indicators):
            found = "None" if samples is None else _num_samples(samples)
            raise ValueError(
                f"preprocessor: expected {len(indicators)} samples, one for each indicator, got "
                f"{found}"
            )
        return samples
    samples = preprocessor if isinstance(preprocessor, Blocks) else np.asarray(preprocessor)
    if samples.ndim not in (2, 3):
        raise TypeError(
            "preprocessor: expected an array of samples, Blocks or a function, got "
            f"{preprocessor!r}"
        )
    if indicators.dtype.kind not in "iu":
        raise TypeError(
            "preprocessor: an array is indexed by integers, got indicators of dtype "
            f"{indicators.dtype}; give a function that finds the samples instead"
        )
    wrong = (indicators < 0) | (indicators >= len(samples))
    if wrong.any():
        raise IndexError(
            f"preprocessor: expected indices from 0 to {len(samples) - 1}, got "
            f"{indicators[wrong][0]}"
        )
    return samples[indicators]


def _n_dims(X: Any) -> int:
    if hasattr(X, "ndim"):
        return X.ndim
    if hasattr(X, "shape"):
        return len(X.shape)
    try:
        return np.asarray(X).ndim
    except ValueError:  # ragged: the table's own check says it better
        return 2


def _pair_array(pairs: Any) -> NDArray:
    if scipy.sparse.issparse(pairs) or isinstance(pairs, Blocks):
        kind = "Blocks" if isinstance(pairs, Blocks) else f"sparse {type(pairs).__name__}"
        raise TypeError(
            f"pairs: expected a dense array of shape (n_pairs, 2, …), got {kind}; for pairs of "
            "Blocks give index pairs, and the Blocks as preprocessor"
        )
    if foreign_kind(pairs) is not None:
        return as_host_array(pairs, "pairs")
    try:
        return np.asarray(pairs)
    except ValueError as error:
        raise ValueError(
            "pairs: expected an array of shape (n_pairs, 2, …), got parts of different shapes"
        ) from error


def _check_pair_shape(array: NDArray) -> None:
    if len(array) == 0:
        raise ValueError(f"pairs: expected at least one pair, got shape {array.shape}")
    if array.shape[1] != 2:
        raise ValueError(
            f"pairs: expected two samples a pair, shape (n_pairs, 2, …), got shape {array.shape}"
        )
    if array.size == 0:
        raise ValueError(f"pairs: expected at least one feature, got shape {array.shape}")


def _wrong_pairs(array: NDArray, preprocessor: Any) -> str:
    expected = "(n_pairs, 2, n) or (n_pairs, 2, n, n')"
    if preprocessor is not None:
        expected = "(n_pairs, 2) of indicators for the preprocessor, or " + expected
    hint = ""
    if array.ndim == 2 and preprocessor is None:
        hint = "; index pairs need a preprocessor, or the samples as second argument"
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
