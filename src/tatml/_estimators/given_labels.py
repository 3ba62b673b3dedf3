"""Read the labels that estimators are given: classes, groups, and the labels ±1 of pairs."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._data.arrays import check_given, check_length, check_not_missing, kind_of
from .._data.blocks import Blocks
from .._messages import named_error, shown
from .._warnings import warn_user

FEW_CLASSES = 10  # with at most this many classes, labels are never taken for a numeric target


def class_labels(estimator: BaseEstimator, y: Any, n_samples: int) -> tuple[Any, NDArray[np.intp]]:
    """Return the classes, and for each sample the number of its class."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    y = _as_labels(y)
    check_length(y, n_samples, "y")
    check_not_missing(y, "y")
    wrong = f"y: expected classes that are integers, words or booleans, got {kind_of(y)}"
    if y.dtype.kind == "S" or (y.dtype.kind == "O" and isinstance(y[0], bytes)):
        raise ValueError(wrong)
    try:
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            # Many classes: `_warn_of_numbers` says more, and lets identities pass.
            warnings.filterwarnings("ignore", message="The number of unique classes")
            check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
    except Exception as error:  # continuous values, or objects that cannot be compared
        reason = str(error).partition(". ")[0]  # the checks of scikit-learn look for its words
        raise ValueError(f"{wrong} ({reason})") from error
    if len(classes) < 2:
        raise ValueError(f"y: expected two classes or more, got 1 class only, {shown(classes[0])}")
    _warn_of_numbers(classes, labels)
    return classes, labels


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
            "a regression, divide it into a few classes, for example with np.digitize; if the "
            "numbers are identities, y.astype(str) avoids this warning"
        )


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
    labels = _as_labels(y)
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
        distinct, numbers = np.unique(labels, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            f"{name}: expected {kind} of one type, such as integers or words, got objects that "
            "cannot be sorted"
        ) from error
    return distinct, numbers.reshape(labels.shape)
