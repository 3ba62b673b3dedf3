"""Pairs of samples that methods are judged by: drawn from labels, measured, and cut in two kinds.

A client of the library draws pairs by fitting `Euclidean` to labels, and finds the best threshold
of given distances with `PairThreshold`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve
from sklearn.utils import gen_batches

from tatml import Euclidean, PairThreshold

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
CHUNK_NUMBERS = 2**20  # numbers in a temporary array of differences: 8 MB of float64


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs as indices of samples, shape (n_pairs, 2), and which of them are of one class."""

    index: Integers
    similar: NDArray[np.bool_]

    @property
    def labels(self) -> Integers:
        """+1 for the same class, −1 for different ones."""
        return np.where(self.similar, 1, -1)

    @property
    def weights(self) -> Floats:
        """Weights with which both kinds have the same total weight."""
        n_pairs, n_similar = len(self.similar), int(self.similar.sum())
        if 2 * n_similar == n_pairs:
            return np.ones(n_pairs)
        return np.where(self.similar, 0.5 / n_similar, 0.5 / (n_pairs - n_similar)) * n_pairs


def draw_pairs(
    y: Integers, groups: Integers | None = None, *, n_pairs_per_class: int, seed: int
) -> Pairs:
    """Draw the pairs that `Euclidean`, `TATML` and the others draw from these labels.

    For each class as many similar as dissimilar pairs; none joins two samples of one group.

    Examples
    --------
    >>> pairs = draw_pairs(np.repeat([0, 1], 50), n_pairs_per_class=10, seed=0)
    >>> len(pairs.index), int(pairs.similar.sum())
    (20, 10)
    """
    classes = (y[:, np.newaxis] == np.unique(y)).astype(float)  # samples with a clear threshold
    classes += 1e-3 * np.linspace(0, 1, len(y))[:, np.newaxis]  # which all differ
    drawn: Any = Euclidean(n_pairs_per_class=n_pairs_per_class, random_state=seed)
    drawn.fit(classes, y, groups)
    return Pairs(drawn.pairs_, drawn.similar_)


def row_distances(rows: Floats, index: Integers, chunk_numbers: int = CHUNK_NUMBERS) -> Floats:
    """Return the Euclidean distances of pairs of rows.

    Examples
    --------
    >>> row_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0, 1], [1, 1]]))
    array([5., 0.])
    """
    distances = np.empty(len(index))
    for part in gen_batches(len(index), max(1, chunk_numbers // max(1, rows.shape[1]))):
        differences = rows[index[part, 0]] - rows[index[part, 1]]
        distances[part] = np.sqrt(np.linalg.vecdot(differences, differences))
    return distances


def best_threshold(distances: Floats, pairs: Pairs) -> float:
    """Return the threshold with the highest balanced accuracy on the given pairs.

    Examples
    --------
    >>> pairs = Pairs(np.zeros((4, 2), int), np.array([True, True, False, False]))
    >>> best_threshold(np.array([1.0, 2.0, 4.0, 3.0]), pairs)
    2.5
    """
    judge = PairThreshold(metric="precomputed")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="threshold_: ")  # of the one that is replaced
        judge.fit(distances, pairs.labels)
    judge.calibrate_threshold(distances, pairs.labels, sample_weight=pairs.weights)
    return judge.threshold_


def equal_error_rate(distances: Floats, similar: NDArray[np.bool_]) -> float:
    """Return the error rate at which false matches are as frequent as false non-matches.

    Between two points of the ROC curve the rates are interpolated linearly.

    Examples
    --------
    >>> equal_error_rate(np.array([1.0, 3.0, 2.0, 4.0]), np.array([True, True, False, False]))
    0.5
    """
    passed, found, _ = roc_curve(similar, -distances, drop_intermediate=False)
    excess = passed - (1 - found)  # increases from −1 to 1
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(passed[after - 1] + share * (passed[after] - passed[after - 1]))
