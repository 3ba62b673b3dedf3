"""`Blocks`: samples, each a tuple of M matrices."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from types import ModuleType
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Array, asarray, contiguous, foreign_kind, namespace, to_numpy
from .arrays import (
    BLOCKS_HINT,
    as_floating_array,
    as_host_array,
    check_same_place,
    type_and_length,
)
from .names import BlockNames, RowNames, check_block_names, check_row_names
from .sparse import SparseBlock


class Blocks:
    """Samples that are tuples of M matrices, held as M arrays.

    Block m holds the m-th matrix of every sample. The samples can be counted, indexed and
    iterated over like the rows of one array, so that scikit-learn splits and cross-validates
    them as it does arrays.

    Parameters
    ----------
    *arrays : array-like of shape (n_samples, n_m, n'_m) or (n_samples, n_m)
        One array for each of the M ≥ 1 blocks. A 2-D array holds vectors and counts as
        (n_samples, n_m, 1). The arrays are stored as C-contiguous float64, or as float32 if
        all of them are float32. An array that already has this form is not copied: do not change
        it afterwards. PyTorch and CuPy arrays keep their kind and device.
    names : sequence of M str, optional
        The names of the blocks.
    row_names : sequence of M sequences of n_m str, optional
        The names of the rows of each block; None for a block whose rows have none. Estimators
        keep both kinds of names for tables and displays. Nothing is computed from them.

    Raises
    ------
    TypeError
        If an array does not hold real numbers, is sparse or has masked entries, the arrays
        are of different kinds (NumPy, PyTorch, CuPy), or a name is no str.
    ValueError
        If there is no array, one is not 2-D or 3-D, their numbers of samples differ, they are
        on different devices, or the number of names differs.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Blocks
    >>> X = Blocks(np.zeros((100, 9, 9)), np.ones((100, 4)))
    >>> X
    Blocks(n_samples=100, blocks=[9×9, 4×1], dtype=float64)
    >>> len(X), X.shape
    (100, (100, 85))
    >>> X[:10]
    Blocks(n_samples=10, blocks=[9×9, 4×1], dtype=float64)
    >>> [matrix.shape for matrix in X[0]]
    [(9, 9), (4, 1)]
    >>> Blocks(np.ones((100, 2)), names=["size"], row_names=[["height", "width"]])[:10].row_names
    (('height', 'width'),)
    """

    _names: BlockNames = None  # for objects that were pickled before there were names
    _row_names: RowNames = None

    def __init__(
        self,
        *arrays: ArrayLike,
        names: Sequence[str] | None = None,
        row_names: Sequence[Sequence[str] | None] | None = None,
    ) -> None:
        if not arrays:
            raise ValueError("Blocks: expected at least one array, got none")
        blocks = [_as_block(array, f"block {m}") for m, array in enumerate(arrays)]
        for m, block in enumerate(blocks):
            if block.shape[0] != blocks[0].shape[0]:
                raise ValueError(
                    "Blocks: expected the same number of samples in each block, got block 0 has "
                    f"{blocks[0].shape[0]}, block {m} has {block.shape[0]}"
                )
        for m, block in enumerate(blocks):
            check_same_place(f"block {m}", block, "block 0", blocks[0])
        if len({block.dtype for block in blocks}) > 1:
            xp = namespace(blocks[0])
            blocks = [xp.astype(block, xp.float64, copy=False) for block in blocks]
        self._arrays = tuple(blocks)
        self._names = check_block_names(names, len(blocks))
        self._row_names = check_row_names(row_names, self.block_shapes)

    @property
    def arrays(self) -> tuple[NDArray[np.floating], ...]:
        """The M arrays, each of shape (n_samples, n_m, n'_m)."""
        return self._arrays

    @property
    def n_blocks(self) -> int:
        """The number M of matrices per sample."""
        return len(self._arrays)

    @property
    def names(self) -> BlockNames:
        """The names of the M blocks, or None."""
        return self._names

    @property
    def row_names(self) -> RowNames:
        """The names of the rows of each block, or None; None for a block whose rows have none."""
        return self._row_names

    @property
    def block_shapes(self) -> tuple[tuple[int, int], ...]:
        """The shapes ((n_1, n'_1), …, (n_M, n'_M)) of the matrices of one sample."""
        return tuple(array.shape[1:] for array in self._arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """The pair (n_samples, n_features) with n_features = Σ n_m·n'_m."""
        n_features = sum(n_rows * n_columns for n_rows, n_columns in self.block_shapes)
        return self._arrays[0].shape[0], n_features

    @property
    def ndim(self) -> int:
        """Always 2: samples and features, as in `shape`."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """The data type that all blocks share."""
        return self._arrays[0].dtype

    @property
    def xp(self) -> ModuleType:
        """The array namespace of the blocks, such as `numpy`."""
        return namespace(self._arrays[0])

    def __len__(self) -> int:
        return self._arrays[0].shape[0]

    def __iter__(self) -> Iterator[tuple[NDArray[np.floating], ...]]:
        return zip(*self._arrays, strict=True)

    @overload
    def __getitem__(self, key: int | np.integer) -> tuple[NDArray[np.floating], ...]: ...
    @overload
    def __getitem__(self, key: Any) -> Blocks: ...
    def __getitem__(self, key: Any) -> Any:
        """Select one sample (an integer) or several (a slice, a mask or indices)."""
        if isinstance(key, tuple):  # [rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(
                    f"Blocks: expected one index, for the samples, got the {len(key)} of {key!r}; "
                    "index the arrays in X.arrays to reach inside a block"
                )
            key = key[0]
        if isinstance(key, numbers.Integral) and not isinstance(key, bool):
            return tuple(array[key] for array in self._arrays)
        rows = _as_rows(key, len(self))
        return self._with_arrays(_take_rows(array, rows) for array in self._arrays)

    def _with_arrays(self, arrays: Iterable[Array]) -> Blocks:
        """Return blocks of other arrays with the same rows and names; they are not checked."""
        other = copy(self)
        other._arrays = tuple(arrays)
        return other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Raise TypeError: the blocks may differ in shape, so that one array cannot hold them."""
        raise TypeError(
            "Blocks cannot be converted to one array: take X.arrays[m] for block m, or "
            "np.hstack([a.reshape(len(a), -1) for a in X.arrays]) for all entries side by side"
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in self.block_shapes)
        return f"Blocks(n_samples={len(self)}, blocks=[{shapes}], dtype={self.dtype})"


def as_blocks(
    X: Blocks | ArrayLike, name: str = "X", any_kind: bool = False, alternative: str = ""
) -> Blocks:
    """Convert samples to Blocks, and check that they are finite and not empty.

    Parameters
    ----------
    X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
        Blocks are passed through. A 2-D array or data frame becomes one block of vectors, a
        3-D array or a list of equally shaped matrices one block of matrices.
    name : str, default="X"
        The name of `X` in error messages.
    any_kind : bool, default=False
        Whether to keep PyTorch and CuPy arrays; they are converted to NumPy arrays otherwise.
    alternative : str, default=""
        What the caller offers for samples on a GPU in place of a copy, for the error message.

    Returns
    -------
    Blocks
        At least one sample, no empty matrix, and every entry finite.

    Raises
    ------
    TypeError
        If `X` does not hold real numbers.
    ValueError
        If `X` has another number of dimensions, is empty, or has a NaN or infinite entry.

    Examples
    --------
    >>> from tatml._data.blocks import as_blocks
    >>> as_blocks([[1, 2, 3], [4, 5, 6]])
    Blocks(n_samples=2, blocks=[3×1], dtype=float64)
    """
    blocks = X if isinstance(X, Blocks) else Blocks(_as_block(X, name))
    if not any_kind and foreign_kind(blocks.arrays[0]) is not None:
        blocks = blocks._with_arrays(
            as_host_array(array, name, alternative) for array in blocks.arrays
        )
    _check_not_empty(blocks, name)
    check_finite_entries(blocks, name)
    return blocks


def _as_block(values: Any, name: str) -> NDArray[np.floating]:
    if isinstance(values, SparseBlock):  # made by the estimators, which read sparse tables
        return values  # type: ignore[return-value]
    array = as_floating_array(values, name)
    if array.ndim == 2:
        return namespace(array).reshape(array, (*array.shape, 1))
    if array.ndim == 3:
        return array
    raise ValueError(
        f"{name}: expected a 2-D array of vectors (n_samples, n) or a 3-D array of matrices "
        f"(n_samples, n, n'), got {type_and_length(values)} of shape {array.shape}; {BLOCKS_HINT}"
    )


def _check_not_empty(blocks: Blocks, name: str) -> None:
    if len(blocks) == 0:
        raise ValueError(f"{name}: expected at least one sample, got {blocks!r}")
    for m, shape in enumerate(blocks.block_shapes):
        if 0 in shape:
            raise ValueError(
                f"{name}: expected matrices of at least one row and one column, "
                f"got {shape[0]}×{shape[1]} in block {m}"
            )


def check_finite_entries(blocks: Blocks, name: str, samples: NDArray | None = None) -> None:
    """Raise where an entry is NaN or infinite; `samples` are the indices that a message names."""
    xp = blocks.xp
    for m, array in enumerate(blocks.arrays):
        if isinstance(array, SparseBlock):  # checked when it was made
            continue
        finite = xp.isfinite(array)
        if not xp.all(finite):
            sample, *entry = (int(index[0]) for index in xp.nonzero(~finite))
            place = sample if samples is None else samples[sample]
            raise ValueError(
                f"{name}: expected finite numbers, got {float(array[sample, *entry])} "
                f"in block {m}, sample {place}, entry {tuple(entry)}"
            )


def _as_rows(key: Any, n_samples: int) -> slice | NDArray[np.intp]:
    """Convert a slice, a mask or indices to a slice or indices of rows."""
    if isinstance(key, slice):
        return key
    rows = to_numpy(key)
    if rows.ndim != 1 or (rows.dtype.kind not in "biu" and rows.size > 0):
        raise IndexError(
            "Blocks: expected an integer, a slice, a mask or a 1-D array of integers as index, "
            f"got {key!r}"
        )
    if rows.dtype.kind != "b":
        return rows.astype(np.intp)
    if rows.shape[0] != n_samples:
        raise IndexError(
            f"Blocks: expected a mask of length n_samples = {n_samples}, got length {len(rows)}"
        )
    return np.flatnonzero(rows)


def _take_rows(array: Array, rows: slice | NDArray[np.intp]) -> Array:
    """Select rows; negative indices count from the end, which PyTorch's `take` does not allow."""
    if foreign_kind(array) is None or isinstance(rows, slice):
        return contiguous(array[rows, ...])  # the standard has no shorter form
    n_samples = array.shape[0]
    if rows.size and not -n_samples <= rows.min() <= rows.max() < n_samples:
        raise IndexError(
            f"Blocks: expected indices below n_samples = {n_samples}, got {rows.min()} to "
            f"{rows.max()}"
        )
    return namespace(array).take(array, asarray(rows % max(n_samples, 1), like=array), axis=0)
