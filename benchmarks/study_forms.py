"""Stressed forms of a dataset: what users' data have, and what a default must stand.

`apply_form(form, split, seed)` returns the split in that form; the same seed gives the same form.
Forms of `BOTH_HALVES` change the columns of the training and the test half alike. The others change
the training half only, except that "unbalanced" leaves two classes in both halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.decomposition import PCA

from tatml import Blocks

N_NOISE = 50  # columns of noise
N_DUPLICATED = 50  # columns that are duplicated, at most
N_FEW = 10  # samples per class in "few"
SHIFT = 1e6


@dataclass(frozen=True)
class Split:
    """A training and a test half: tables (n_samples, n_features) or matrices, and labels."""

    X_train: np.ndarray | Blocks
    X_test: np.ndarray | Blocks
    y_train: np.ndarray
    y_test: np.ndarray

    def map(self, function):
        """Return the split with the function applied to the samples of both halves."""
        return replace(self, X_train=function(self.X_train), X_test=function(self.X_test))


def plain(split, rng):
    return split


def rotated(split, rng):
    """A full-rank PCA, fitted on the training half."""
    return split.map(PCA().fit(split.X_train).transform)


def bad_row(split, rng):
    """One training sample is 1,000 standard deviations away in every column."""
    X = np.array(split.X_train, dtype=float)
    row = rng.integers(len(X))
    X[row] += 1000 * X.std(axis=0) * rng.choice([-1, 1], X.shape[1])
    return replace(split, X_train=X)


def wild_cells(split, rng):
    """2 % of the training cells get normal noise of 100 standard deviations of their column."""
    X = np.array(split.X_train, dtype=float)
    wild = rng.random(X.shape) < 0.02
    return replace(split, X_train=X + wild * rng.normal(size=X.shape) * 100 * X.std(axis=0))


def noise(split, rng):
    """Fifty more columns of normal noise, as large as the median column."""
    scale = np.median(split.X_train.std(axis=0))
    return split.map(lambda X: np.hstack([X, rng.normal(size=(len(X), N_NOISE)) * scale]))


def few(split, rng):
    """At most ten training samples per class; the order of a split is random."""
    labels = np.unique(split.y_train)
    return _train_on(
        split, np.concatenate([np.flatnonzero(split.y_train == c)[:N_FEW] for c in labels])
    )


def scaled_down(split, rng):
    return split.map(lambda X: X * 1e-6)


def scaled_up(split, rng):
    return split.map(lambda X: X * 1e6)


def shifted(split, rng):
    """1e6 is added to every column."""
    return split.map(lambda X: X + SHIFT)


def duplicated(split, rng):
    """Half of the columns, at most fifty, occur twice."""
    n_features = split.X_train.shape[1]
    columns = rng.permutation(n_features)[: min(N_DUPLICATED, (n_features + 1) // 2)]
    return split.map(lambda X: np.hstack([X, X[:, columns]]))


def constant(split, rng):
    """Three more columns, which are constant: 0, 1 and 1e6."""
    return split.map(lambda X: np.hstack([X, np.tile([0.0, 1.0, 1e6], (len(X), 1))]))


def unbalanced(split, rng):
    """Only the two largest classes, and 95 to 5 training samples of them (at least two)."""
    counts = np.bincount(split.y_train)
    large, small = np.argsort(-counts, kind="stable")[:2]
    in_test = np.isin(split.y_test, (large, small))
    split = replace(split, X_test=split.X_test[in_test], y_test=split.y_test[in_test])
    n_small = max(2, round(counts[large] * 5 / 95))
    keep = np.flatnonzero(split.y_train == small)[:n_small]
    return _train_on(split, np.sort(np.r_[np.flatnonzero(split.y_train == large), keep]))


def wrong_labels(split, rng):
    """20 % of the training labels are changed to another class."""
    y = split.y_train.copy()
    wrong = rng.permutation(len(y))[: round(len(y) / 5)]
    labels, codes = np.unique(y, return_inverse=True)
    y[wrong] = labels[(codes[wrong] + rng.integers(1, len(labels), len(wrong))) % len(labels)]
    return replace(split, y_train=y)


def _train_on(split, rows):
    return replace(split, X_train=split.X_train[rows], y_train=split.y_train[rows])


FORMS = {
    "plain": plain,
    "rotated": rotated,
    "bad row": bad_row,
    "wild cells": wild_cells,
    "noise": noise,
    "few": few,
    "scaled down": scaled_down,
    "scaled up": scaled_up,
    "shifted": shifted,
    "duplicated": duplicated,
    "constant": constant,
    "unbalanced": unbalanced,
    "wrong labels": wrong_labels,
}
BOTH_HALVES = (
    "rotated", "noise", "scaled down", "scaled up", "shifted", "duplicated", "constant",
)  # fmt: skip
TABLES_ONLY = ("rotated", "noise", "duplicated", "constant")  # they do not keep matrices


def apply_form(form: str, split: Split, seed: int) -> Split:
    """Return the split in a form. The cells of matrices are changed one by one, as columns."""
    rng = np.random.default_rng(1000 + seed)
    if isinstance(split.X_train, np.ndarray) and split.X_train.ndim == 2:
        return FORMS[form](split, rng)
    if form in TABLES_ONLY:
        raise ValueError(f"form: expected one that keeps matrices, got {form!r}")
    like = split.X_train
    return FORMS[form](split.map(_flatten), rng).map(lambda table: _restore(table, like))


def _flatten(X):
    """Return all cells of each sample as one row."""
    arrays = X.arrays if isinstance(X, Blocks) else (X,)
    return np.hstack([array.reshape(len(array), -1) for array in arrays])


def _restore(table, like):
    """Return rows of cells as matrices of the shapes of `like`."""
    if not isinstance(like, Blocks):
        return table.reshape(len(table), *like.shape[1:])
    ends = np.cumsum([n * m for n, m in like.block_shapes])[:-1]
    parts = np.split(table, ends, axis=1)
    shapes = like.block_shapes
    return Blocks(
        *(part.reshape(len(table), *shape) for part, shape in zip(parts, shapes, strict=True))
    )
