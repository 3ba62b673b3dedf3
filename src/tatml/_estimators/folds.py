"""Folds of a cross-validation, as a user asks for them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, check_cv

from .._data.arrays import read_array
from .._messages import shown
from .._validation import check_count, check_two
from .._warnings import warn_user

__all__ = ["Fold", "check_fits_folds", "folds_of"]

Index = NDArray[np.intp]
Fold = tuple[Index, Index]  # the samples to learn from, and those that are left out


def folds_of(cv: Any, labels: Index, groups: Index | None) -> list[Fold]:
    """Splits for a search; with groups, none of them is on both sides."""
    is_count = isinstance(cv, Integral) and not isinstance(cv, bool)
    if is_count:
        cv = check_count("cv", cv, least=2)
    if groups is not None and is_count:
        cv = StratifiedGroupKFold(cv)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            splitter = check_cv(cv, labels, classifier=True)
            folds = list(splitter.split(np.zeros(len(labels)), labels, groups))
    except Exception as error:  # of scikit-learn, or of a splitter of one's own
        raise ValueError(
            "cv: expected a number of folds, or a splitter, that these samples allow, got "
            f"{shown(cv)}: {error}"
        ) from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        warn_user(f"cv: {message}")
    if not folds:
        raise ValueError(f"cv: expected at least one fold, got {shown(cv)}")
    return [_checked_fold(k, fold, len(labels)) for k, fold in enumerate(folds)]


def _checked_fold(number: int, fold: Any, n_samples: int) -> Fold:
    """The samples to learn from and those left out, as a splitter of one's own may give them."""
    train, test = check_two("cv", fold, "folds of two index arrays")
    return _fold_part(number, train, n_samples), _fold_part(number, test, n_samples)


def _fold_part(number: int, rows: Any, n_samples: int) -> Index:
    rows = read_array(rows, "cv")
    if rows.dtype.kind == "b" and rows.shape == (n_samples,):
        rows = np.flatnonzero(rows)
    within = rows.dtype.kind in "iu" and rows.shape == (rows.size,)
    if not within or rows.size == 0 or rows.min() < -n_samples or rows.max() >= n_samples:
        raise ValueError(
            f"cv: expected folds that are index arrays of some of {n_samples} samples, got "
            f"{shown(rows)} in fold {number}"
        )
    return rows


def check_fits_folds(name: str, k: Any, folds: Sequence[Fold]) -> None:
    """As many samples as k neighbours in the training part of every fold."""
    fewest = min(len(train) for train, _ in folds)
    if check_count(name, k) > fewest:
        raise ValueError(
            f"{name}: expected at most the {fewest} training samples of the smallest fold, got {k}"
        )
