"""Sparse tables with more columns than rows, as blocks of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from .._array import Doubles, Indices, agree

CHUNK_NUMBERS = 2**20  # numbers in a temporary dense array: 8 MB of float64


class SparseBlock:
    """A sparse table that stands for an array of shape (n_samples, n, 1) of vectors.

    It has the shape, the type and the rows of the array. `numpy.asarray` makes it dense. All sums
    are of the entries that are not zero.

    Parameters
    ----------
    table : sparse array of shape (n_samples, n)
        The samples; converted to float64 in compressed rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from tatml._data.sparse import SparseBlock
    >>> block = SparseBlock(csr_array([[0.0, 2.0, 0.0], [0.0, 4.0, 0.0]]))
    >>> block.shape, block.variances()
    ((2, 3, 1), array([0., 1., 0.]))
    """

    dtype = np.dtype(np.float64)

    def __init__(self, table: Any) -> None:
        self.table = csr_array(table, dtype=np.float64)
        if not self.table.has_canonical_format:
            self.table = self.table.copy()  # the given one stays as it is
            self.table.sum_duplicates()

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (n_samples, n, 1) of the array."""
        n_samples, n = self.table.shape
        return n_samples, n, 1

    def __len__(self) -> int:
        return self.table.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows = key[0] if type(key) is tuple else key  # array[rows, ...]
        if np.ndim(rows) == 0 and type(rows) is not slice:
            return self.table[[rows]].toarray()[0, :, None]
        return SparseBlock(self.table[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self.table.toarray()[:, :, None].astype(dtype or np.float64, copy=False)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return np

    @cached_property
    def _by_column(self) -> csc_array:
        return self.table.tocsc()

    @cached_property
    def _columns(self) -> Indices:
        """The column of each entry of `_by_column`."""
        return np.repeat(np.arange(self.shape[1]), np.diff(self._by_column.indptr))

    def chunks(self) -> Iterator[tuple[slice, Doubles]]:
        """Yield slices of the columns, and these columns as dense arrays (n_samples, size)."""
        step = max(1, CHUNK_NUMBERS // max(1, len(self)))
        for start in range(0, self.shape[1], step):
            part = slice(start, start + step)
            yield part, self._by_column[:, part].toarray()

    def with_columns_from(self, order: Indices, chosen: NDArray[np.bool_]) -> SparseBlock:
        """Return the table with the chosen columns of row order[i] in row i."""
        old = self._by_column
        moved = np.where(chosen[self._columns], np.argsort(order)[old.indices], old.indices)
        return SparseBlock(csc_array((old.data, moved, old.indptr), shape=old.shape))

    def extremes(self) -> Doubles:
        """Return the smallest and the largest entry of each column, of shape (2, n, 1)."""
        ends = [self.table.min(axis=0), self.table.max(axis=0)]
        return np.stack([end.toarray().reshape(-1, 1) for end in ends])

    def differ(self) -> NDArray[np.bool_]:
        """Return for each column whether two of its entries differ by more than rounding."""
        return ~agree(*self.extremes()).ravel()

    def means(self) -> Doubles:
        """Return the mean of each column."""
        return np.asarray(self.table.sum(axis=0)).ravel() / len(self)

    def variances(self, weights: Doubles | None = None) -> Doubles:
        """Return the variance of each column, with weights of the samples that have the mean 1."""
        return self.variances_within(np.zeros(len(self), dtype=np.intp), weights)

    def variances_within(self, labels: Indices, weights: Doubles | None = None) -> Doubles:
        """Return the mean squared deviation of each column from the mean of its class."""
        n, table = self.shape[1], self._by_column
        cells, cell = np.unique(labels[table.indices] * n + self._columns, return_inverse=True)
        size, n_cells = np.bincount(labels, weights)[cells // n], len(cells)
        share = np.ones(table.nnz) if weights is None else weights[table.indices]
        mean = np.bincount(cell, share * table.data, minlength=n_cells) / size
        squares = np.bincount(cell, share * (table.data - mean[cell]) ** 2, minlength=n_cells)
        squares += (size - np.bincount(cell, share, minlength=n_cells)) * mean**2  # of the zeros
        return np.bincount(cells % n, squares, minlength=n) / len(self)

    def mean_squared_differences(self, first: Indices, second: Indices, share: Doubles) -> Doubles:
        """Return the mean squared difference of each column over pairs; the shares sum to 1."""
        total = np.zeros(self.shape[1])
        for part, difference in self.differences(first, second):
            total += (difference**2).T @ share[part]
        return total

    def differences(self, first: Indices, second: Indices) -> Iterator[tuple[slice, csr_array]]:
        """Yield slices of the pairs, and their differences as sparse rows."""
        step = max(1, CHUNK_NUMBERS * len(self) // max(1, 2 * self.table.nnz))
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            yield part, self.table[first[part]] - self.table[second[part]]
