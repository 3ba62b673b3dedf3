"""Read the samples, pairs, labels and groups that estimators are given.

This module is the edge of the estimators: it inspects types and dimensions. All code below it works
on Blocks, index pairs and numbers of classes and groups.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, validate_data

from .._array import Array, Doubles, foreign_kind, namespace, on_gpu
from .._data.arrays import (
    as_real_array,
    check_given,
    check_length,
    check_no_dates,
    check_not_masked,
    check_not_missing,
    kind_of,
    read_array,
)
from .._data.blocks import Blocks, as_blocks, check_magnitude, check_spread, hint_at_raw_covariances
from .._data.sparse import SparseBlock
from .._data.storage import warn_of_missing_chunks
from .._learning.outliers import replace_cells
from .._learning.samples import fetched
from .._messages import named_error, shown
from .._verification.dependence import are_independent
from .._warnings import warn_user

FEW_CLASSES = 10  # with at most this many classes, labels are never taken for a numeric target

FOR_CLASSES = "for classes, take TATML"
FOR_NUMBERS = "for the target of a regression, take TATMLRegression"


def class_labels(estimator: BaseEstimator, y: Any, n_samples: int) -> tuple[Any, NDArray[np.intp]]:
    """Return the classes, and for each sample the number of its class."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    y = _as_labels(y)
    check_length(y, n_samples, "y")
    check_not_missing(y, "y")
    if y.dtype.kind == "S" or (y.dtype.kind == "O" and isinstance(y[0], bytes)):
        raise ValueError(_no_classes(y))
    try:
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            # Many classes: `_warn_of_numbers` says more, and lets identities pass.
            warnings.filterwarnings("ignore", message="The number of unique classes")
            check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
    except Exception as error:  # continuous values, or objects that cannot be compared
        reason = str(error).partition(". ")[0]  # the checks of scikit-learn look for its words
        raise ValueError(f"{_no_classes(y)} ({reason})") from error
    if len(classes) < 2:
        raise ValueError(f"y: expected two classes or more, got 1 class only, {shown(classes[0])}")
    _warn_of_numbers(classes, labels)
    return classes, labels


def _no_classes(y: NDArray) -> str:
    """Return the message about labels that are no classes."""
    hint = f"; {FOR_NUMBERS}" if y.dtype.kind == "f" else ""
    return f"y: expected classes that are integers, words or booleans, got {kind_of(y)}{hint}"


def _warn_of_numbers(classes: NDArray, labels: NDArray[np.intp]) -> None:
    """Warn if the classes are numbers that look like the target of a regression.

    These are more than ten, of which more than half have at most two samples, and at least a third
    have a single one. Identities with two or more samples each pass.
    """
    n_classes, sizes = len(classes), np.bincount(labels)
    n_single, n_rare = int(np.sum(sizes == 1)), int(np.sum(sizes <= 2))
    if n_classes <= FEW_CLASSES or 3 * n_single < n_classes or 2 * n_rare <= n_classes:
        return
    if classes.dtype.kind in "iuf":
        warn_user(
            f"y: {len(labels)} samples have {n_classes} different numbers, each of which is taken "
            f"as a class; {n_single} of these classes have a single sample. If y is the target of "
            "a regression, take TATMLRegression, or divide it into a few classes; if the numbers "
            "are identities, y.astype(str) avoids this warning"
        )


def target_ranks(
    estimator: BaseEstimator, y: Any, n_samples: int, weights: Doubles | None = None
) -> NDArray[np.float64]:
    """Return the ranks of the samples by each target, from 1, of shape (n_samples, n_targets).

    Equal targets have the mean of their ranks. Ordered categories of pandas have an order, too. A
    sample of weight 2 moves the ranks as two samples do.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    columns = [y]
    if hasattr(y, "columns") and hasattr(y, "iloc"):
        columns = [y.iloc[:, k] for k in range(y.shape[1])]
    tables = [_numbers_of(column) for column in columns]
    for table in tables:
        check_length(table, n_samples, "y")
    table = np.concatenate(tables, axis=1) if tables else np.empty((n_samples, 0))
    if table.shape[1] == 0:
        raise ValueError("y: expected at least one target, got none")
    wrong = np.argwhere(~np.isfinite(table))
    if len(wrong):
        row, value = wrong[0, 0], table[tuple(wrong[0])]
        what = "NaN" if np.isnan(value) else "infinity"
        raise ValueError(
            f"y: expected finite numbers, got {value} for sample {row} (Input y contains {what})"
        )
    if weights is None:
        return rankdata(table, axis=0)
    return np.column_stack([_weighted_ranks(column, weights) for column in table.T])


def _weighted_ranks(values: NDArray[np.floating], weights: Doubles) -> Doubles:
    """Return the weight below each value, and half of one more than the weight at it."""
    number = np.unique(values, return_inverse=True)[1]
    at = np.bincount(number, weights)
    return (np.cumsum(at) - at + (at + 1) / 2)[number]


def _numbers_of(y: Any) -> NDArray[np.floating]:
    """Return numbers, or the positions of ordered categories, with one column per target."""
    expected = "y: expected numbers or ordered categories"
    is_ordered = getattr(getattr(y, "dtype", None), "ordered", None)
    if is_ordered is not None:  # categories of pandas
        if not is_ordered:
            raise ValueError(f"{expected}, got categories without an order; {FOR_CLASSES}")
        codes = np.asarray(getattr(y, "cat", y).codes, dtype=np.float64)
        return np.where(codes < 0, np.nan, codes)[:, None]  # -1 stands for a missing one
    table = read_array(fetched(y), "y")
    if table.ndim not in (1, 2):
        raise ValueError(
            f"y: expected shape (n_samples,) or (n_samples, n_targets), got shape {table.shape}"
        )
    if table.dtype.kind in "SU" or any(isinstance(value, str | bytes) for value in table.flat[:1]):
        raise ValueError(f"{expected}, got {kind_of(table)}; {FOR_CLASSES}")
    table = as_real_array(table, "y")
    return table[:, None] if table.ndim == 1 else table


def pair_labels(y: Any, n_pairs: int, *, both: bool = True) -> NDArray[np.bool_]:
    """Return whether each pair is similar, from labels +1 and −1.

    With `both`, refuse labels of one kind only.
    """
    if y is None:
        raise ValueError(
            "y: expected a label of +1 or -1 for each pair, got None (the estimator requires y to "
            "be passed, but the target y is None)"
        )
    y = _as_labels(y)
    check_length(y, n_pairs, "y", "pairs")
    check_not_missing(y, "y")
    if not np.all(_are_signs(y)):
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


def check_no_pairs(blocks: Blocks, y: Any) -> None:
    """Refuse an array (n, 2, d) with labels −1 and +1: pairs in the format of metric-learn."""
    if y is None or blocks.block_shapes[0][0] != 2:
        return
    if _are_pair_labels(y):
        n_samples, n, width = blocks.arrays[0].shape
        raise ValueError(
            f"X: expected samples, got shape ({n_samples}, {n}, {width}) with labels -1 and +1, "
            "which are pairs: fit TATMLPairs, or PairThreshold, on them; if they are matrices of "
            "two rows, give Blocks(X)"
        )


def check_no_index_pairs(table: Blocks, y: Any) -> None:
    """Refuse two columns of whole numbers with labels −1 and +1: index pairs of a preprocessor."""
    if y is None or table.block_shapes[0][0] != 2:
        return
    columns = table.arrays[0]
    if np.array_equal(columns, np.rint(columns)) and _are_pair_labels(y):
        raise ValueError(
            "X: expected samples, or their indices of shape (n_samples,), got two columns of whole "
            "numbers with labels -1 and +1 and a preprocessor, which are index pairs: fit "
            "TATMLPairs, or PairThreshold, on them; if they are samples, give Blocks(X)"
        )


def _are_pair_labels(y: Any) -> bool:
    """Return whether the labels of a fit are −1 and +1, and both occur."""
    try:
        labels = _as_labels(y)
    except (TypeError, ValueError):  # several targets; for others, their reader refuses them
        return False
    return bool(len(labels) and np.all(_are_signs(labels)) and len(np.unique(labels)) == 2)


def _as_labels(y: Any) -> NDArray:
    """Return one label per sample; accept a column, with scikit-learn's warning."""
    if scipy.sparse.issparse(y):
        raise TypeError(f"y: expected a dense array of labels, got sparse {type(y).__name__}")
    check_given(y=y)
    try:
        return column_or_1d(y, warn=True)
    except Exception as error:  # raised by scikit-learn or the given object
        kind = type(named_error("y", error))
        raise kind(f"y: expected one label for each sample, got {shown(y)} ({error})") from error


def _are_signs(labels: NDArray) -> NDArray[np.bool_]:
    """Return which of the labels are the numbers +1 and −1."""
    if labels.dtype.kind in "iuf":
        return np.abs(labels) == 1
    if labels.dtype.kind == "O":
        return np.array([isinstance(x, Real) and x in (-1, 1) for x in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _some_of(labels: NDArray) -> list[Any]:
    """Return up to five distinct labels for a message."""
    try:
        return np.unique(labels).tolist()[:5]
    except Exception:  # objects that cannot be compared
        return labels[:5].tolist()


def number_distinct(
    labels: NDArray, name: str, kind: str = "values"
) -> tuple[NDArray, NDArray[np.intp]]:
    """Return the sorted distinct labels, and for each label its position among them."""
    try:
        if labels.dtype.kind in "OUS":  # sorts the distinct ones only: words compare slowly
            found: dict[Any, int] = defaultdict(count().__next__)
            given = map(found.__getitem__, labels.ravel().tolist())
            numbers = np.fromiter(given, np.intp, labels.size)
            distinct, rank = np.unique(
                np.fromiter(found, labels.dtype, len(found)), return_inverse=True
            )
            numbers = rank[numbers]
        else:
            distinct, numbers = np.unique(labels, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            f"{name}: expected {kind} of one type, such as integers or words, got objects that "
            "cannot be sorted"
        ) from error
    return distinct, numbers.reshape(labels.shape)


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
        raise ValueError(wrong_tuples(array, name, preprocessor))
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


def given_distances(
    distances: Any, name: str = "pairs", any_sign: bool = False
) -> NDArray[np.float64]:
    """Return precomputed distances, one per pair; with `any_sign`, other dissimilarities."""
    values = as_real_array(distances, name).astype(np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"{name}: expected precomputed distances of shape (n_pairs,), got shape {values.shape}"
        )
    wrong = ~(np.isfinite(values) & (any_sign | (values >= 0)))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "numbers" if any_sign else "distances of at least 0"
        hint = "; put a finite number beyond all others in its place"
        raise ValueError(
            f"{name}: expected finite {what}, got {values[row]} for pair {row}"
            f"{hint if any_sign and np.isinf(values[row]) else ''}"
        )
    return values


def _with_checked_shapes(
    estimator: BaseEstimator, blocks: Blocks, reset: bool, name: str
) -> Blocks:
    """Check the sizes of the entries and, without `reset`, that the shapes are those of fit.

    Then the wild cells of new samples are replaced, if the fit has found that this pays.
    """
    arrays: tuple[Any, ...] = blocks.arrays
    extremes = [array.extremes() for array in arrays if isinstance(array, SparseBlock)]
    ends = Blocks(*extremes) if extremes else blocks
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
    cells = None if reset else vars(estimator).get("cell_bounds_")
    return blocks if cells is None else replace_cells(blocks, cells)


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


def wrong_tuples(array: NDArray, name: str, preprocessor: Any) -> str:
    """Return the message for tuples of a wrong number of dimensions."""
    shape = f"(n_{name}, {TUPLE_SIZES[name]}"
    expected = f"{shape}, n) or {shape}, n, n')"
    if preprocessor is not None:
        expected = f"{shape}) of indicators for the preprocessor, or {expected}"
    hint = ""
    if array.ndim == 2 and preprocessor is None:
        hint = f"; index {name} need a preprocessor"
        if name == "pairs":
            hint += ", or X in a method that has it (pair_score)"
    return f"{name}: expected an array of shape {expected}, got shape {array.shape}{hint}"


def check_has(estimator: Any, *names: str) -> None:
    """Raise unless the estimator is fitted and has these attributes."""
    check_is_fitted(estimator)
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        hint = ""
        if hasattr(estimator, "steps"):
            hint = "; of a pipeline, give pipeline[-1], and samples after pipeline[:-1].transform"
        elif missing == ["threshold_"]:
            hint = "; call fit with labelled pairs, calibrate_threshold or set_threshold"
        elif getattr(estimator, "midpoint", False) is True:
            hint = ": it has a score of pairs, which is no distance; fit with midpoint=False"
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


# Equal rows are one sample if fewer than this number of equal couples is expected by chance.
FEW_BY_CHANCE = 0.05
NUMBERS_AT_ONCE = 1_000_000  # whose bytes are copied at a time to hash rows


def count_rows(pairs: Any) -> int:
    """Return the number of given pairs, or of other rows, of any form; 0 if not array-like."""
    try:
        return _num_samples(pairs)
    except Exception:  # any object may be given
        return 0


def pair_units(
    estimator: BaseEstimator, pairs: Any, X: Any, groups: Any
) -> tuple[NDArray[np.intp] | None, str | None]:
    """Return the units of pairs that are given to an estimator, and a warning or None.

    The units are numbered from 0, (n_pairs, 2). They are the groups if these are given, or else the
    samples: those of index pairs, or the distinct rows of pairs given as arrays. None if the pairs
    are taken to be independent. The warning says what is assumed of rows that repeat; it is for
    callers to give, once the pairs are accepted.
    """
    array = read_tuples(pairs)
    if array.ndim == 0:
        return None, None  # no pairs: `pair_distance` has the better message
    is_index = array.ndim == 2 and (X is not None or estimator.preprocessor is not None)
    if not is_index:
        if groups is None:
            return _number_rows(array)
        return number_units(None, groups, len(array)), None
    samples = estimator.preprocessor if X is None else X
    n_samples = None if callable(samples) else count_rows(samples)
    is_known = n_samples is not None and array.dtype.kind in "iu" and array.size > 0
    if is_known and not 0 <= array.min() <= array.max() < n_samples:
        return None, None  # `pair_distance` has the better message
    return number_units(array, groups, len(array), n_samples), None


def _number_rows(array: NDArray) -> tuple[NDArray[np.intp] | None, str | None]:
    """Return the numbers of the distinct rows of pairs given as arrays, and a warning.

    There are no numbers if no row is in two pairs, or if rows may repeat by chance, as those of
    few binary columns do; and no warning if no row is in two pairs.
    """
    if array.ndim < 3 or array.shape[1] != 2 or array.size == 0:
        return None, None  # distances, or no pairs: `pair_distance` has the better message
    rows = as_real_array(array, "pairs").reshape(2 * len(array), -1)
    numbers: dict[int, int] = defaultdict(count().__next__)
    units = np.fromiter(map(numbers.__getitem__, _hash_rows(rows)), np.intp, len(rows))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(units), prepend=-1))
    units = units.reshape(-1, 2)
    if are_independent(units):
        return None, None
    found = f"pairs: {len(rows)} rows, of which {len(first)} are distinct"
    advice = "give index pairs, and the samples as X or preprocessor, or give groups"
    expected = _count_by_chance(rows[first], len(rows))
    if expected >= FEW_BY_CHANCE:
        return None, (
            f"{found}; about {expected:.2g} couples of rows would be equal by chance, so that the "
            "pairs are taken to be independent. If equal rows are one sample, the limits and "
            f"promises are wrong: {advice}"
        )
    return units, (
        f"{found}; equal rows are taken as one sample, and pairs that share one as dependent. To "
        f"say which samples the pairs share, {advice}"
    )


def _hash_rows(rows: NDArray) -> Iterator[int]:
    """Yield a hash of the bytes of each row."""
    n_at_once = 1 + NUMBERS_AT_ONCE // rows.shape[1]
    for start in range(0, len(rows), n_at_once):
        part = np.ascontiguousarray(rows[start : start + n_at_once] + 0.0)  # −0.0 is 0.0
        whole = part.view(np.dtype((np.void, part.itemsize * part.shape[1])))
        yield from map(hash, whole.ravel().tolist())


def _count_by_chance(distinct: NDArray, n_rows: int) -> float:
    """Return how many couples of rows are expected to be equal if the columns are independent.

    The chance that two rows agree in a column is that of the distinct rows. Columns are read until
    the number is below `FEW_BY_CHANCE`.
    """
    expected = n_rows * (n_rows - 1) / 2
    n_couples = max(1, len(distinct) * (len(distinct) - 1))
    for column in distinct.T:
        if expected < FEW_BY_CHANCE:
            break
        counts = np.unique(column, return_counts=True)[1]
        expected *= float(counts @ (counts - 1)) / n_couples
    return expected


def read_split_units(pairs: Any, groups: Any) -> NDArray[np.intp]:
    """Return the units of pairs that are to be split; no sample may be in two of them."""
    array = read_tuples(pairs)
    if array.ndim < 2 or array.shape[1] != 2 or len(array) == 0:
        raise ValueError(
            "pairs: expected shape (n_pairs, 2), or (n_pairs, 2, …) with groups, got shape "
            f"{array.shape}"
        )
    index = array if array.ndim == 2 else None
    units = number_units(index, groups, len(array))
    if units is None:
        raise ValueError(
            f"groups: expected one group for each member of a pair, shape ({len(array)}, 2), as "
            "pairs of samples do not tell which samples they share, got None"
        )
    if index is not None and groups is not None:
        _check_one_group_each(index, units)
    return number_distinct(units, "groups")[1]  # without the groups that no pair has


def _check_one_group_each(index: NDArray, units: NDArray[np.intp]) -> None:
    """Raise an error if a sample is in two groups: the sides of a split would share it."""
    samples = number_distinct(index, "pairs")[1].ravel()
    group = np.empty(int(samples.max()) + 1, dtype=np.intp)
    group[samples] = units.ravel()
    wrong = np.flatnonzero(group[samples] != units.ravel())
    if len(wrong):
        raise ValueError(
            f"groups: expected one group for each sample, got two for sample "
            f"{shown(index.ravel()[wrong[0]].item())}"
        )


def check_one_per_pair(name: str, values: Any, n_pairs: int) -> Any:
    """Return values of which there is one for each pair."""
    count = count_rows(values)
    if count != n_pairs:
        raise ValueError(f"{name}: expected one value for each of {n_pairs} pairs, got {count}")
    return values


def number_units(
    index: NDArray | None, groups: Any, n_pairs: int, n_samples: int | None = None
) -> NDArray[np.intp] | None:
    """Return the numbers of the groups of the members of pairs; without groups, of the samples.

    Parameters
    ----------
    index : array of shape (n_pairs, 2) or None
        The indicators of the samples; None if they are unknown.
    groups : array-like of shape (n_pairs, 2) or (n_samples,), or None
        One group for each member of a pair, or one for each sample of integer index pairs.
    n_pairs : int
        The number of pairs.
    n_samples : int, optional
        The number of samples, if it is known.
    """
    if groups is None:
        return None if index is None else number_distinct(index, "pairs")[1]
    groups = read_array(groups, "groups")
    if groups.shape == (n_pairs, 2):
        check_not_missing(groups.ravel(), "groups", "member")
        return number_distinct(groups, "groups")[1]
    expected = f"shape ({n_pairs}, 2), one group for each member of a pair"
    if index is not None and index.dtype.kind in "iu":
        least = int(index.max(initial=-1)) + 1 if n_samples is None else n_samples
        if len(groups.shape) == 1 and len(groups) >= least and n_samples in (None, len(groups)):
            check_not_missing(groups, "groups")
            return number_distinct(groups, "groups")[1][index]
        count = "n_samples" if n_samples is None else str(n_samples)
        expected = f"shape ({count},), one group for each sample, or {expected}"
    raise ValueError(f"groups: expected {expected}, got shape {groups.shape}")


def number_subgroups(by: Any, n_pairs: int) -> dict[Any, NDArray[np.intp]]:
    """Return the rows of the pairs of each subgroup, sorted by the name of the subgroup."""
    labels = read_array(by, "by")
    if labels.shape != (n_pairs,):
        raise ValueError(
            f"by: expected shape ({n_pairs},), one subgroup for each pair, got shape {labels.shape}"
        )
    check_not_missing(labels, "by", "pair")
    numbers = number_distinct(labels, "by")[1]
    names = labels[np.unique(numbers, return_index=True)[1]].tolist()
    return {name: np.flatnonzero(numbers == k) for k, name in enumerate(names)}
