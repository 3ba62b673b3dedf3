"""Labelled samples, and the folds of a cross-validation of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, check_cv

from .._array import Indices
from .._data.arrays import read_array
from .._data.blocks import Blocks
from .._messages import shown
from .._validation import check_count, check_two
from .._warnings import warn_user

__all__ = ["Fold", "LabelledSamples", "check_fits_folds", "make_folds"]

Fold = tuple[Indices, Indices]  # the rows of the training samples, and of the test samples


@dataclass(frozen=True)
class LabelledSamples:
    """Samples with their class numbers and, if any, their group numbers."""

    blocks: Blocks
    labels: Indices
    groups: Indices | None

    def __getitem__(self, rows: Indices) -> LabelledSamples:
        groups = None if self.groups is None else self.groups[rows]
        return LabelledSamples(self.blocks[rows], self.labels[rows], groups)


def make_folds(cv: Any, samples: LabelledSamples) -> list[Fold]:
    """Return the folds that `cv` asks for; no group is both in training and in test samples."""
    labels, groups = samples.labels, samples.groups
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
    except Exception as error:  # raised by scikit-learn or by the user's own splitter
        raise ValueError(
            "cv: expected a number of folds, or a splitter, that these samples allow, got "
            f"{shown(cv)}: {error}"
        ) from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        warn_user(f"cv: {message}")
    if not folds:
        raise ValueError(f"cv: expected at least one fold, got {shown(cv)}")
    return [_check_fold(k, fold, len(labels)) for k, fold in enumerate(folds)]


def _check_fold(number: int, fold: Any, n_samples: int) -> Fold:
    """Return the rows of both parts of a fold; the user's own splitter may return anything."""
    train, test = check_two("cv", fold, "folds of two index arrays")
    return _check_fold_part(number, train, n_samples), _check_fold_part(number, test, n_samples)


def _check_fold_part(number: int, rows: Any, n_samples: int) -> Indices:
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
    """Raise an error unless every fold has at least k training samples."""
    fewest = min(len(train) for train, _ in folds)
    if check_count(name, k) > fewest:
        raise ValueError(
            f"{name}: expected at most the {fewest} training samples of the smallest fold, got {k}"
        )
