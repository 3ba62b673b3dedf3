"""Triplets from labels: each sample with near ones of its class and near ones of other classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHUNK_NUMBERS = 2**22  # distances in memory at a time: 32 MB of float64


def neighbor_triplets(
    space: NDArray[np.float64], labels: NDArray[np.intp], n_targets: int, n_impostors: int
) -> NDArray[np.intp]:
    """Return (sample, target, impostor) for all targets and impostors of each sample.

    Targets are the nearest samples of the same class, impostors the nearest of other classes, both
    by the Euclidean distance of the rows of `space`. A class of one sample has no targets, and
    gives no triplets. The rows are sorted.
    """
    space = space - space.mean(axis=0)
    drawn = [np.empty((0, 3), dtype=np.intp)]
    for label in np.unique(labels):
        own, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        if len(own) < 2 or len(others) == 0:
            continue
        targets = own[nearest_rows(space[own], None, n_targets)]
        impostors = others[nearest_rows(space[others], space[own], n_impostors)]
        rows = np.empty((*targets.shape, impostors.shape[1], 3), dtype=np.intp)
        rows[..., 0] = own[:, None, None]
        rows[..., 1] = targets[:, :, None]
        rows[..., 2] = impostors[:, None, :]
        drawn.append(rows.reshape(-1, 3))
    triplets = np.concatenate(drawn)
    return triplets[np.lexsort(triplets.T[::-1])]


def nearest_rows(
    rows: NDArray[np.float64], queries: NDArray[np.float64] | None, count: int
) -> NDArray[np.intp]:
    """Return the nearest rows of each query; without queries, of each row but itself."""
    own, count = queries is None, min(count, len(rows) - (queries is None))
    queries = rows if queries is None else queries
    squares, found = np.einsum("ij,ij->i", rows, rows), []
    step = max(1, CHUNK_NUMBERS // len(rows))
    for start in range(0, len(queries), step):
        D = squares - 2 * queries[start : start + step] @ rows.T  # up to a number per query
        if own:
            D[np.arange(len(D)), start + np.arange(len(D))] = np.inf
        nearest = np.argpartition(D, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(D, nearest, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(nearest, order, axis=1))
    return np.concatenate(found)


def count_violated(
    space: NDArray[np.float64], labels: NDArray[np.intp], triplets: NDArray[np.intp], margin: float
) -> int:
    """Count the violated triplets of the drawn targets with impostors that were not drawn.

    A triplet (a, b, c) is violated if D_ac < D_ab + margin, in squared distances. No triplet may
    occur twice.
    """
    pairs = np.unique(triplets[:, :2], axis=0)
    n_drawn = int(np.sum(_violated(space, triplets, margin)))
    space = space - space.mean(axis=0)
    squares = np.einsum("ij,ij->i", space, space)
    total, step = 0, max(1, CHUNK_NUMBERS // len(space))
    for start in range(0, len(pairs), step):
        a, b = pairs[start : start + step].T
        limit = np.sum((space[a] - space[b]) ** 2, axis=1) + margin
        D = squares[a][:, None] + squares - 2 * space[a] @ space.T
        total += int(np.sum((limit[:, None] > D) & (labels[a][:, None] != labels)))
    return max(0, total - n_drawn)


def _violated(
    space: NDArray[np.float64], triplets: NDArray[np.intp], margin: float
) -> NDArray[np.bool_]:
    a, b, c = triplets.T
    near = np.sum((space[a] - space[b]) ** 2, axis=1)
    return np.sum((space[a] - space[c]) ** 2, axis=1) < near + margin
