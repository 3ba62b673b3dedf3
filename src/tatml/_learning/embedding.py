"""Embeddings of samples, and distances of pairs of samples, by the factors of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._array import asarray, namespace, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .span import SpanFactor

Factor = NDArray[np.float64] | SpanFactor  # the linear map of one block
Center = Sequence[NDArray[np.float64] | None]  # a mean per block, or nothing
CACHED_NUMBERS = 2**17  # numbers of samples that are centred at a time: 1 MB of float64
CHUNK_NUMBERS = 2**20  # numbers in a temporary array of differences: 8 MB of float64


def embed_blocks(
    components: Sequence[Factor], blocks: Blocks, center: Center = ()
) -> NDArray[np.float64]:
    """Return A_m Φ_m(x) of all blocks, flattened and concatenated, one row per sample.

    The means in `center`, one per block or None, are subtracted from the samples first.
    """
    parts = zip(components, blocks.arrays, center or [None] * len(components), strict=True)
    rows = [apply_factor(A, array, mean) for A, array, mean in parts]
    return namespace(rows[0]).concat(rows, axis=1)


def distances_of(
    components: Sequence[Factor],
    blocks: Blocks,
    index: NDArray[np.intp],
    many: bool = False,
    center: Center = (),
) -> NDArray[np.float64]:
    """Return the distances of index pairs; sparse samples stay sparse.

    With `many` pairs, wide embeddings are turned first. Distances do not depend on the means in
    `center`; samples far from the origin keep their digits if these are subtracted.
    """
    if not any(isinstance(array, SparseBlock) for array in blocks.arrays):
        rows = embed_blocks(components, blocks, center)
        return row_distances(fewer_columns(rows) if many else rows, index)
    parts = zip(components, blocks.arrays, strict=True)
    return np.sqrt(sum(squared_distances(A, array, index) for A, array in parts))


def row_distances(
    rows: NDArray[np.float64], index: NDArray[np.intp], chunk_numbers: int = CHUNK_NUMBERS
) -> NDArray[np.float64]:
    """Return the Euclidean distances of pairs of rows, computed in chunks."""
    xp, distances = namespace(rows), [rows[:0, 0]]
    step = max(1, chunk_numbers // max(1, rows.shape[1]))
    for start in range(0, len(index), step):
        first, second = (asarray(side, rows) for side in index[start : start + step].T)
        difference = xp.take(rows, first, axis=0) - xp.take(rows, second, axis=0)
        distances.append(xp.sqrt(xp.linalg.vecdot(difference, difference)))
    return xp.concat(distances)


def fewer_columns(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn wide rows so that they need only as many columns as there are rows.

    Their distances stay, up to rounding. This saves time where there are more pairs than rows.
    """
    if rows.shape[1] <= 2 * rows.shape[0] or type(rows) is not np.ndarray:
        return rows
    around_mean = rows - rows.mean(axis=0)
    _, upper = scipy.linalg.qr(around_mean.T, mode="raw", overwrite_a=True, check_finite=False)
    return upper.T


def check_distances(
    distances: NDArray[np.float64], blocks: Blocks, name: str
) -> NDArray[np.float64]:
    """Return the distances, and raise an error if one of them is not finite."""
    wrong = np.flatnonzero(~to_numpy(namespace(distances).isfinite(distances)))
    if len(wrong):
        largest = max(float(np.max(np.abs(array))) for array in blocks.arrays)
        raise ValueError(
            f"{name}: expected samples whose squared distance a float can hold, got entries of up "
            f"to {largest:g}, with {distances[wrong[0]]} as the distance of pair {wrong[0]}; "
            f"rescale {name} as in fit"
        )
    return distances


def apply_factor(
    A: Factor, array: NDArray, mean: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return A times every matrix of a block, minus a mean, flattened to one row per sample."""
    if mean is not None and not isinstance(array, SparseBlock):
        return _apply_around(A, array, asarray(mean, array))
    if isinstance(A, SpanFactor):
        return A.embed(array)
    if isinstance(array, SparseBlock):
        return array.table @ A.T
    (n_samples, _, width), xp, A = array.shape, namespace(array), asarray(A, array)
    if width == 1:
        return array[:, :, 0] @ A.T
    return xp.reshape(xp.matmul(A, array), (n_samples, prod((A.shape[0], width))))


def _apply_around(A: Factor, array: NDArray, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A times every matrix minus the mean, on the host in chunks that fit into the cache."""
    step = max(1, CACHED_NUMBERS // max(1, prod(mean.shape)))
    if type(array) is not np.ndarray or len(array) <= step:
        return apply_factor(A, array - mean)
    rows = np.empty((len(array), len(A) * array.shape[2]))
    for part in gen_batches(len(array), step):
        rows[part] = apply_factor(A, array[part] - mean)
    return rows


def squared_distances(
    A: Factor, array: Any, index: NDArray[np.intp], mean: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the part of one block in the squared distances of pairs."""
    if isinstance(A, SpanFactor) and isinstance(array, SparseBlock) and A.span.whitening is None:
        return A.squared_distances(array, index)
    return row_distances(apply_factor(A, array, mean), index) ** 2
