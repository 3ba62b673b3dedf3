"""The deviations from the class means, whose scatter the priors "within" and "discriminant" use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._array import Array, Doubles, asarray, namespace
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sparse import SparseBlock
from .scatters import minus_class_means, rows_of
from .span import is_wide

Units = Literal["columns", "common", "affine"]
UNITS = get_args(Units)
Deviations = Callable[[Array], Array]


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
