"""Moments of samples, computed where the samples are: on the host, or on a GPU.

Samples and their deviations stay there. What has the size of a metric, n or n × n numbers, is
returned as a NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import gen_batches

from .._array import (
    Array,
    Doubles,
    Indices,
    as_double,
    asarray,
    inverse_factor,
    namespace,
    symmetrised,
    to_numpy,
)
from .._csr import sparse_product

__all__ = [
    "around_mean",
    "columns_of",
    "eigh_relative",
    "in_units",
    "is_constant",
    "mean_gram_square",
    "mean_square",
    "mean_squares",
    "minus_class_means",
    "rows_of",
]

BATCH = 1000  # matrices whose squares are computed at a time


def rows_of(array: Array) -> Array:
    """Return the columns of all matrices of a block as rows, shape (n_samples · n'_m, n_m)."""
    xp = namespace(array)
    return as_double(xp.reshape(xp.permute_dims(array, (0, 2, 1)), (-1, array.shape[1])))


def around_mean(array: Array) -> Array:
    """Return the rows of the samples minus their mean."""
    return rows_of(array - namespace(array).mean(array, axis=0))


def minus_class_means(array: Array, labels: Indices) -> Array:
    """Return the rows of the samples minus the mean of their class."""
    xp, size = namespace(array), (-1, *array.shape[1:])
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    flat = as_double(xp.reshape(array, (array.shape[0], -1)))
    starts, columns, ones = (asarray(part, array) for part in _parts(members))
    sums = sparse_product(starts, columns, ones, flat)
    means = xp.reshape(sums / asarray(np.bincount(labels).astype(float)[:, None], array), size)
    return rows_of(array - xp.take(means, asarray(labels, array), axis=0))


def _parts(matrix: csr_array) -> tuple[Indices, Indices, Doubles]:
    return matrix.indptr, matrix.indices, matrix.data


def columns_of(rows: Array, chosen: NDArray[np.bool_]) -> Array:
    """Return the chosen columns."""
    if chosen.all():
        return rows
    return namespace(rows).take(rows, asarray(np.flatnonzero(chosen), rows), axis=1)


def in_units(rows: Array, unit: Doubles) -> Array:
    """Divide each column by its unit."""
    return rows / asarray(unit, rows)


def is_constant(array: Array) -> NDArray[np.bool_]:
    """Return for each row of a block whether all its entries are equal."""
    xp, rows = namespace(array), rows_of(array)
    return to_numpy(xp.max(rows, axis=0) == xp.min(rows, axis=0))


def mean_squares(rows: Array) -> Doubles:
    """Return the mean square of each column, without an array of squares."""
    if type(rows) is np.ndarray:
        return np.einsum("ij,ij->j", rows, rows) / len(rows)
    return to_numpy(namespace(rows).linalg.vecdot(rows, rows, axis=-2)) / rows.shape[0]


def mean_square(rows: Array) -> Doubles:
    """Return the mean of x xᵀ over the rows x, which is a scatter."""
    return to_numpy(rows.T @ rows) / rows.shape[0]


def mean_gram_square(rows: Array, width: int) -> float:
    """Return the mean squared norm of ZᵀZ, where `width` rows each are a matrix Z."""
    xp, n_matrices = namespace(rows), rows.shape[0] // width
    matrices = xp.reshape(rows, (n_matrices, width, -1))
    return sum(float(xp.sum(gram**2)) for gram in _grams(matrices)) / n_matrices


def _grams(matrices: Array) -> Iterator[Array]:
    """Yield the smaller of ZZᵀ and ZᵀZ, whose norms are equal, in batches."""
    xp = namespace(matrices)
    for batch in gen_batches(matrices.shape[0], BATCH):
        Z = matrices[batch, ...]
        transposed = xp.matrix_transpose(Z)
        yield Z @ transposed if Z.shape[1] < Z.shape[2] else transposed @ Z


def eigh_relative(matrix: Doubles, metric: Doubles, like: Array) -> tuple[Doubles, Doubles]:
    """Return λ and V with `matrix` V = `metric` V λ and Vᵀ `metric` V = I, computed as `like` is.

    Both matrices are symmetric, and `metric` is positive definite.
    """
    if type(like) is np.ndarray:
        return scipy.linalg.eigh(matrix, metric)
    C = inverse_factor(asarray(metric, like))  # C Cᵀ is the inverse of the metric
    values, vectors = namespace(C).linalg.eigh(symmetrised(C.T @ asarray(matrix, C) @ C))
    return to_numpy(values), to_numpy(C @ vectors)
