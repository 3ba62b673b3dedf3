"""Moments of samples, and of their deviations from the class means.

They are computed where the samples are: on the host, or on a GPU. Samples and their deviations stay
there. What has the size of a metric, n or n × n numbers, is returned as a NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import gen_batches

from .._array import (
    ROUNDING,
    Array,
    Doubles,
    Indices,
    agree,
    as_double,
    asarray,
    inverse_factor,
    linalg_errors,
    namespace,
    sparse_product,
    symmetrised,
    to_numpy,
)
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sparse import SparseBlock

ROWS_PER_SPAN = 1.0  # a block with more rows than this times its samples' columns is wide
BATCH = 1000  # matrices whose squares are computed at a time
# The least scatter within classes, relative to that of all samples, along every axis. Without it,
# a column that no similar pair moves would outweigh all others.
LEAST_WITHIN = 0.01
PER_SAMPLE = 1 / 3  # this least share times the number of samples that the scatter comes from
Units = Literal["columns", "common", "affine"]
UNITS = get_args(Units)
Deviations = Callable[[Array], Array]


def is_wide(array: NDArray[np.floating]) -> bool:
    """Return whether a block has more rows than the columns of its samples can span."""
    n_samples, n, width = array.shape
    return n > ROWS_PER_SPAN * n_samples * width


def rows_of(array: Array) -> Array:
    """Return the columns of all matrices of a block as rows, shape (n_samples · n'_m, n_m)."""
    xp = namespace(array)
    return as_double(xp.reshape(xp.permute_dims(array, (0, 2, 1)), (-1, array.shape[1])))


def around_mean(array: Array) -> Array:
    """Return the rows of the samples minus their mean."""
    return rows_of(array - namespace(array).mean(array, axis=0))


def with_variances(array: Array) -> tuple[Array, Doubles]:
    """Return the rows of the samples minus their mean, and the variance of each row of the block.

    The variance of a constant row is zero, although its mean is rounded.
    """
    xp = namespace(array)
    mean = xp.mean(array, axis=0)
    rows = rows_of(array - mean)
    variances, size = mean_squares(rows), to_numpy(xp.max(xp.abs(mean), axis=1))
    return rows, np.where(variances <= (ROUNDING * size) ** 2, 0.0, variances)


def minus_class_means(array: Array, labels: Indices) -> Array:
    """Return the rows of the samples minus the mean of their class."""
    xp, size = namespace(array), (-1, *array.shape[1:])
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    flat = as_double(xp.reshape(array, (array.shape[0], -1)))
    parts = (members.indptr, members.indices, members.data)
    starts, columns, ones = (asarray(part, array) for part in parts)
    sums = sparse_product(starts, columns, ones, flat)
    means = xp.reshape(sums / asarray(np.bincount(labels).astype(float)[:, None], array), size)
    return rows_of(array - xp.take(means, asarray(labels, array), axis=0))


def is_constant(array: Array) -> NDArray[np.bool_]:
    """Return for each row of a block whether all its entries are equal up to rounding."""
    xp, rows = namespace(array), rows_of(array)
    return agree(to_numpy(xp.min(rows, axis=0)), to_numpy(xp.max(rows, axis=0)))


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
    matrices, total = xp.reshape(rows, (n_matrices, width, -1)), 0.0
    for batch in gen_batches(n_matrices, BATCH):
        Z = matrices[batch, ...]
        transposed = xp.matrix_transpose(Z)
        # ZZᵀ and ZᵀZ have the same norm.
        gram = Z @ transposed if Z.shape[1] < Z.shape[2] else transposed @ Z
        total += float(xp.sum(gram**2))
    return total / n_matrices


def eigh_relative(matrix: Doubles, metric: Doubles, like: Array) -> tuple[Doubles, Doubles]:
    """Return λ and V with `matrix` V = `metric` V λ and Vᵀ `metric` V = I, computed as `like` is.

    Both matrices are symmetric, and `metric` is positive definite.
    """
    if type(like) is np.ndarray:
        return scipy.linalg.eigh(matrix, metric)
    C = inverse_factor(asarray(metric, like))  # C Cᵀ is the inverse of the metric
    values, vectors = namespace(C).linalg.eigh(symmetrised(C.T @ asarray(matrix, C) @ C))
    return to_numpy(values), to_numpy(C @ vectors)


def with_least_within(within: Doubles, deviations: Array, centred: Array, width: int) -> Doubles:
    """Return the scatter within classes, with at least `least_shares` of the total on every axis.

    If the total has no inverse, the scatter within classes has none either, and stays as it is.
    """
    total = within + mean_square(centred) - mean_square(deviations)
    try:
        share, axes = eigh_relative(within, total, deviations)
    except linalg_errors():
        return within
    low = share < PER_SAMPLE
    missing = least_shares(axes[:, low], centred, width) - share[low]
    directions = total @ axes[:, low][:, missing > 0]
    return within + (directions * missing[missing > 0]) @ directions.T  # theory (Floor)


def least_shares(axes: Doubles, centred: Array, width: int) -> Doubles:
    """Return the least shares of the scatter within classes in the total, along given axes.

    They are 0.01, or 1/(3 n) if that is more. Here n = (Σ q)²/Σ q², with the squares q of the
    samples along the axis, is the number of samples that the scatter comes from: 1 if one sample
    differs from all others.
    """
    squares = to_numpy(centred @ asarray(axes, centred)) ** 2
    if width > 1:
        squares = squares.reshape(len(squares) // width, width, axes.shape[1]).sum(axis=1)
    total = np.maximum(squares.sum(axis=0), np.finfo(float).tiny)
    squares /= total
    return np.maximum(LEAST_WITHIN, PER_SAMPLE * np.einsum("ij,ij->j", squares, squares))


@dataclass(frozen=True)
class WithinClasses:
    """The deviations from the class means, and the units in which their scatter is shrunk.

    Parameters
    ----------
    deviations : list of M arrays of shape (n_rows, n_m)
        The columns of the deviations of all samples, where these are. None for a block that is
        solved in the span of its samples.
    units : {"columns", "common", "affine"}
        "columns": the spread of each column within classes, so that the units of the columns do
        not matter. "common": one unit for all columns. "affine": the scatter is not shrunk, so that
        no linear map of the columns matters.
    n_observations : int
        The number of samples, or of similar pairs.
    of : function, optional
        Computes the deviations of an array with the same samples, such as their coordinates in
        another basis.
    variances_of : function, optional
        Computes the variance within classes of each column of a sparse table of the samples.
    n_images : int
        The number of blocks, at the end, that are images of a kernel, with one common unit.
    """

    deviations: Sequence[Array | None]
    units: Units = "columns"
    n_observations: int = 0
    of: Callable[[Array], Array] | None = None
    variances_of: Callable[[SparseBlock], Doubles] | None = None
    n_images: int = 0

    def is_image(self, m: int) -> bool:
        """Return whether block m is the image of a kernel."""
        return m >= len(self.deviations) - self.n_images

    def of_block(self, m: int, array: Array) -> Array:
        """Return the deviations of block m, or compute them from its array."""
        known = self.deviations[m]
        if known is not None:
            return known
        if self.of is None:
            raise TypeError("within: expected deviations, or a function that computes them")
        return self.of(array)


def pair_weights(pairs: Pairs) -> NDArray[np.float64]:
    """Return the weights w_k of the pairs, ones by default."""
    return np.ones(len(pairs)) if pairs.weights is None else pairs.weights


def within_classes(
    blocks: Blocks, labels: NDArray[np.intp], units: Units = "columns", n_images: int = 0
) -> WithinClasses:
    """Return the samples minus the mean of their class; the last blocks may be kernel images."""

    def deviations_of(array: Array) -> Array:
        return minus_class_means(array, labels)

    narrow = _of_narrow(blocks, deviations_of)
    variances_of = partial(SparseBlock.variances_within, labels=labels)
    return WithinClasses(narrow, units, len(labels), deviations_of, variances_of, n_images)


def within_pairs(blocks: Blocks, pairs: Pairs, n_images: int = 0) -> WithinClasses:
    """Return the differences of similar pairs over √2, whose scatter is that within classes.

    A pair that is given several times counts once.
    """
    index = np.sort(pairs.index[pairs.similar & (pair_weights(pairs) > 0)], axis=1)
    first, second = np.divmod(np.unique(index[:, 0] * len(blocks) + index[:, 1]), len(blocks))

    def deviations_of(array: Array) -> Array:
        one, other = (
            namespace(array).take(array, asarray(n, array), axis=0) for n in (first, second)
        )
        return rows_of((one - other) / sqrt(2))

    def variances_of(block: SparseBlock) -> NDArray[np.float64]:
        return block.mean_squared_differences(first, second, np.full(len(first), 0.5 / len(first)))

    narrow = _of_narrow(blocks, deviations_of)
    return WithinClasses(narrow, "columns", len(first), deviations_of, variances_of, n_images)


def _of_narrow(blocks: Blocks, deviations_of: Deviations) -> list[Array | None]:
    """Return the deviations of each block; None for wide blocks, which are reduced first."""
    return [None if is_wide(array) else deviations_of(array) for array in blocks.arrays]
