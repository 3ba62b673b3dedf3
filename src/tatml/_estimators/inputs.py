"""What estimators are given: samples or pairs of samples, as they are or through a preprocessor.

This is the estimators' edge: the code here looks at types and dimensions, and below it there are
Blocks and index pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, validate_data

from .._array import foreign_kind
from .._data.arrays import as_host_array, as_real_array, check_not_masked, read_array
from .._data.blocks import Blocks, as_blocks
from .._data.checks import check_magnitude, check_spread, hint_at_raw_covariances
from .._data.pairs import as_index
from .._messages import named_error, shown
from .._warnings import warn_user

__all__ = [
    "as_labels",
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


def samples_of(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_samples: int = 1, y: Any = None
) -> Blocks:
    """The samples that a user gave as a table, as matrices, as Blocks or as indicators.

    With `reset` the estimator learns what it was given (n_features_in_, feature_names_in_,
    block_shapes_), otherwise X must be of the same kind. With the labels `y` of a fit, pairs that
    were meant for another estimator are refused.
    """
    preprocessor = estimator.preprocessor
    if foreign_kind(X) is not None:  # estimators compute on NumPy arrays
        X = as_host_array(X, "X")
    check_not_masked(X, "X")
    if preprocessor is not None and _n_dims(X) == 1:
        X = _looked_up(preprocessor, read_array(X, "X"))
        check_not_masked(X, "preprocessor")
    if isinstance(X, Blocks) or _n_dims(X) > 2:
        blocks = as_blocks(X)
        if not isinstance(X, Blocks):
            _check_no_pairs(blocks, y)
    else:
        return _checked(estimator, _table(estimator, X, reset, min_samples), reset, "X")
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = blocks.shape[1]
    return _checked(estimator, blocks, reset, "X")


def _table(estimator: BaseEstimator, X: Any, reset: bool, min_samples: int) -> Blocks:
    """One sample a row, as scikit-learn reads tables."""
    try:
        with np.errstate(all="ignore"):  # what overflows to infinity is refused
            table = validate_data(
                estimator,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_min_samples=min_samples,
            )
    except Exception as error:  # of scikit-learn, NumPy, or of what was given
        raise named_error("X", error) from error
    return Blocks(table)


def _check_no_pairs(blocks: Blocks, y: Any) -> None:
    """No array (n, 2, d) with labels −1 and +1: metric-learn's pairs, not matrices of two rows."""
    if y is None or blocks.block_shapes[0][0] != 2:
        return
    labels = as_labels(y, "y")
    if len(labels) and np.all(_are_signs(labels)) and len(np.unique(labels)) == 2:
        n_samples, n, width = blocks.arrays[0].shape
        raise ValueError(
            f"X: expected samples, got shape ({n_samples}, {n}, {width}) with labels -1 and +1, "
            "which are pairs: fit TATMLPairs, or PairThreshold, on them; if they are matrices of "
            "two rows, give Blocks(X)"
        )


def pair_samples(
    estimator: BaseEstimator, pairs: Any, *, reset: bool
) -> tuple[Blocks, NDArray[np.intp]]:
    """The samples of pairs that a user gave, and the pairs as indices (n_pairs, 2) into them."""
    array = _pair_array(pairs)
    if estimator.preprocessor is not None and array.ndim == 2:
        _check_pair_shape(array)
        found, index = _numbered(array)
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
    return _numbered(array)[1].reshape(-1, 2)


def _numbered(indicators: NDArray) -> tuple[NDArray, NDArray]:
    """The distinct indicators in order, and the number of each that was given."""
    try:
        return np.unique(indicators, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            "pairs: expected indicators of one type, such as integers or words, got objects that "
            "cannot be sorted"
        ) from error


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
    y = as_labels(y, "y")
    _check_length(y, n_samples, "y")
    _check_not_missing(y, "y")
    if y.dtype.kind == "S" or (y.dtype.kind == "O" and isinstance(y[0], bytes)):
        raise ValueError(
            f"y: expected classes that are integers, words or booleans, got {_described(y)}"
        )
    try:
        with np.errstate(invalid="ignore"):  # numbers that no integer can hold
            check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
    except Exception as error:
        raise ValueError(
            f"y: expected classes that are integers, words or booleans, got {_described(y)} "
            f"({error})"
        ) from error
    if len(classes) < 2:
        raise ValueError(f"y: expected two classes or more, got 1 class only, {shown(classes[0])}")
    return classes, labels


def as_labels(y: Any, name: str) -> NDArray:
    """One label a sample; a column is taken with scikit-learn's warning."""
    if scipy.sparse.issparse(y):
        raise TypeError(f"{name}: expected a dense array of labels, got sparse {type(y).__name__}")
    check_not_masked(y, name)
    try:
        return column_or_1d(y, warn=True)
    except Exception as error:
        raise named_error(name, error) from error


def _described(labels: NDArray) -> str:
    kind = "objects" if labels.dtype.kind == "O" else f"dtype {labels.dtype}"
    return f"{kind} such as {shown(labels[0])}" if len(labels) else kind


def _check_not_missing(labels: NDArray, name: str) -> None:
    """A label for each sample: not NaN, None or the like, and no infinity."""
    if labels.dtype.kind == "f":
        wrong = ~np.isfinite(labels)
    elif labels.dtype.kind in "mM":
        wrong = np.isnat(labels)
    elif labels.dtype.kind == "O":
        wrong = np.array([_is_missing(label) for label in labels], dtype=bool)
    else:
        return
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "infinity" if labels.dtype.kind == "f" and np.isinf(labels[row]) else "NaN"
        raise ValueError(
            f"{name}: expected a label for each sample, got {shown(labels[row])} for sample {row} "
            f"(Input {name} contains {what})"
        )


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, Real) and label != label


def group_labels(groups: Any, n_samples: int) -> NDArray[np.intp] | None:
    """For each sample the number of its group."""
    if groups is None:
        return None
    groups = read_array(groups, "groups")
    if groups.ndim != 1:
        raise ValueError(f"groups: expected shape (n_samples,), got shape {groups.shape}")
    _check_length(groups, n_samples, "groups")
    _check_not_missing(groups, "groups")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            "groups: expected values of one type, such as integers or words, got "
            f"{_described(groups)}"
        ) from error


def pair_labels(y: Any, n_pairs: int, *, both: bool = True) -> NDArray[np.bool_]:
    """Whether each pair is similar, from labels +1 and −1."""
    if y is None:
        raise ValueError(
            "y: expected a label of +1 or -1 for each pair: fit requires y to be passed, but the "
            "target y is None"
        )
    y = as_labels(y, "y")
    _check_length(y, n_pairs, "y")
    _check_not_missing(y, "y")
    signs = _are_signs(y)
    if not np.all(signs):
        raise ValueError(
            "y: expected +1 for similar and -1 for dissimilar pairs, got labels "
            f"{shown(_some_of(y))}; from booleans write np.where(similar, 1, -1)"
        )
    similar = np.array(y > 0, dtype=bool)
    if both and (similar.all() or not similar.any()):
        raise ValueError(
            f"y: expected similar (+1) and dissimilar (-1) pairs, got 1 class only, {y[0]}"
        )
    return similar


def _are_signs(labels: NDArray) -> NDArray[np.bool_]:
    """Which of the labels are the numbers +1 and −1."""
    if labels.dtype.kind in "iuf":
        return np.abs(labels) == 1
    if labels.dtype.kind == "O":
        return np.array([isinstance(x, Real) and x in (-1, 1) for x in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _some_of(labels: NDArray) -> list[Any]:
    """Up to five distinct labels, for a message."""
    try:
        return np.unique(labels).tolist()[:5]
    except Exception:  # objects that cannot be compared
        return labels[:5].tolist()


def _check_length(values: NDArray, n_samples: int, name: str) -> None:
    if len(values) != n_samples:
        raise ValueError(
            f"{name}: expected one value for each of the {n_samples} samples, got {len(values)} "
            "(inconsistent numbers of samples)"
        )


def _checked(estimator: BaseEstimator, blocks: Blocks, reset: bool, name: str) -> Blocks:
    check_magnitude(blocks, name)
    if reset:
        check_spread(blocks, name)
        hint = hint_at_raw_covariances(blocks)
        if hint:
            warn_user(hint)
        estimator.block_shapes_ = blocks.block_shapes
    elif blocks.block_shapes != estimator.block_shapes_:
        given, expected = blocks.shape[1], estimator.n_features_in_
        shapes = f"{_listed(estimator.block_shapes_)} as in fit, got {_listed(blocks.block_shapes)}"
        if given == expected:
            raise ValueError(f"{name}: expected blocks of shapes {shapes}")
        named = "X has" if name == "X" else f"{name}: {name} has"  # scikit-learn's words for X
        raise ValueError(
            f"{named} {given} features, but {type(estimator).__name__} is expecting {expected} "
            f"features as input: blocks of shapes {shapes}"
        )
    return blocks


def _listed(shapes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in shapes)


def _looked_up(preprocessor: Any, indicators: NDArray) -> Any:
    """The samples that indicators stand for."""
    if callable(preprocessor):
        samples = preprocessor(indicators)
        found = _count_of(samples)
        if found != len(indicators):
            raise ValueError(
                f"preprocessor: expected {len(indicators)} samples, one for each indicator, got "
                f"{found}"
            )
        return samples
    samples = preprocessor
    if not isinstance(preprocessor, Blocks):
        samples = read_array(preprocessor, "preprocessor")
    if samples.ndim not in (2, 3):
        raise TypeError(
            "preprocessor: expected an array of samples, Blocks or a function, got "
            f"{shown(preprocessor)}"
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


def _count_of(samples: Any) -> int | str:
    """How many samples there are; what was given instead, where it is no sequence."""
    try:
        return _num_samples(samples)
    except Exception:  # any object may come back from a function
        return shown(samples)


def _n_dims(X: Any) -> int:
    n_dims = getattr(X, "ndim", None)
    if isinstance(n_dims, int):
        return n_dims
    try:
        return len(X.shape) if hasattr(X, "shape") else np.asarray(X).ndim
    except Exception:  # ragged, or no array: the table's own check says it better
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
    return read_array(pairs, "pairs")


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


def check_has(estimator: Any, *names: str) -> None:
    """A fitted estimator with these attributes; the error names its class and what is missing."""
    check_is_fitted(estimator)
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        raise AttributeError(
            f"estimator: expected one with {', '.join(names)}, got {type(estimator).__name__} "
            f"without {', '.join(missing)}"
        )
