"""Checks of labels, and the groups of samples."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._messages import shown
from .arrays import read_array


def read_groups(groups: Any, n_samples: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct groups in order, and for each sample the number of its group."""
    groups = read_array(groups, "groups")
    if groups.ndim != 1:
        raise ValueError(f"groups: expected shape (n_samples,), got shape {groups.shape}")
    check_length(groups, n_samples, "groups")
    check_not_missing(groups, "groups")
    try:
        return np.unique(groups, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            f"groups: expected values of one type, such as integers or words, got {kind_of(groups)}"
        ) from error


def group_labels(groups: Any, n_samples: int) -> NDArray[np.intp] | None:
    """Return for each sample the number of its group; None without groups."""
    return None if groups is None else read_groups(groups, n_samples)[1]


def check_length(values: NDArray, expected: int, name: str, what: str = "samples") -> None:
    """Raise an error unless there is one value per sample."""
    if len(values) != expected:
        raise ValueError(
            f"{name}: expected one value for each of the {expected} {what}, got {len(values)} "
            "(inconsistent numbers of samples)"
        )


def kind_of(labels: NDArray) -> str:
    """Describe the type of labels for a message, with one of them as an example."""
    kind = "objects" if labels.dtype.kind == "O" else f"dtype {labels.dtype}"
    return f"{kind} such as {shown(labels[0])}" if len(labels) else kind


def check_not_missing(labels: NDArray, name: str, unit: str = "sample") -> None:
    """Raise where a label is NaN, None, infinite or missing in another way."""
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
            f"{name}: expected a label for each {unit}, got {shown(labels[row])} for {unit} {row} "
            f"(Input {name} contains {what})"
        )


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, Real) and label != label
