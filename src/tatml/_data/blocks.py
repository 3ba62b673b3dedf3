"""`Blocks`, samples of M matrices each: their names, and checks of samples, priors and starts."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from math import isfinite, prod
from types import ModuleType
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Array, asarray, contiguous, foreign_kind, namespace, place_of, to_numpy
from .._messages import shown
from .._validation import as_list
from .arrays import (
    BLOCKS_HINT,
    as_array_like,
    as_floating_array,
    as_host_array,
    check_same_place,
    type_and_length,
)
from .sparse import SparseBlock

# ---- Names of blocks and of their rows, which tables and displays show ----

BlockNames = tuple[str, ...] | None  # the name of each block
RowNames = tuple[tuple[str, ...] | None, ...] | None  # per block, the names of its rows


LARGEST_ENTRY = 1e60  # largest entry of a sample: its fourth power is finite
LARGEST_PRIOR = {"float64": 1e150, "float32": 1e18}  # largest entry whose square is finite
LEAST_SPREAD = 1e-60  # smallest range of samples that differ: its square does not underflow
# Smallest median condition number at which positive definite samples are taken for covariances;
# logarithms of covariances that happen to be positive definite have smaller ones.
LEAST_CONDITION = 5


def check_block_names(
    names: Any, n_blocks: int, name: str = "names", what: str = "one word per block"
) -> BlockNames:
    """Return the names of blocks as a tuple; None if there are none."""
    return None if names is None else _words(name, names, n_blocks, what)


def check_row_names(
    names: Any, shapes: Sequence[tuple[int, ...]], name: str = "row_names"
) -> RowNames:
    """Return the names of the rows of each block; None if no block has any."""
    if names is None:
        return None
    listed = as_list(name, names, "one list of words, or None, per block")
    if len(listed) != len(shapes):
        raise ValueError(
            f"{name}: expected one list of words, or None, for each of {len(shapes)} blocks, got "
            f"{len(listed)}"
        )
    found = tuple(
        None if words is None else _words(f"{name}[{m}]", words, shape[0], "one word per row")
        for m, (words, shape) in enumerate(zip(listed, shapes, strict=True))
    )
    return found if any(words is not None for words in found) else None


def _words(name: str, values: Any, count: int, what: str) -> tuple[str, ...]:
    words = as_list(name, values, what)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{name}: expected {what}, got {shown(word)}")
    if len(words) != count:
        raise ValueError(f"{name}: expected {what}, which is {count}, got {len(words)}")
    return tuple(str(word) for word in words)


def make_frame(columns: Any, names: Sequence[str], what: str) -> Any:
    """Return a data frame with named rows; `what` names the column of their names."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(columns, index=pd.Index(list(names), name=what))


# ---- Samples ----


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

    Attributes
    ----------
    arrays : tuple of M arrays
        Of shapes (n_samples, n_m, n'_m).
    names : tuple of M str, or None
        The names of the blocks.
    row_names : tuple, or None
        The names of the rows of each block; None for a block whose rows have none.
    n_blocks : int
        The number M of matrices per sample.
    block_shapes : tuple of M pairs
        The shapes ((n_1, n'_1), …, (n_M, n'_M)) of the matrices of one sample.
    ndim : int
        Always 2: samples and features, as in `shape`.

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

    ndim = 2

    def __init__(
        self,
        *arrays: ArrayLike,
        names: Sequence[str] | None = None,
        row_names: Sequence[Sequence[str] | None] | None = None,
    ) -> None:
        if not arrays:
            raise ValueError("Blocks: expected at least one array, got none")
        blocks = [_as_block(array, f"block {m}") for m, array in enumerate(arrays)]
        for m, block in enumerate(blocks[1:], start=1):
            if block.shape[0] != blocks[0].shape[0]:
                raise ValueError(
                    "Blocks: expected the same number of samples in each block, got block 0 has "
                    f"{blocks[0].shape[0]}, block {m} has {block.shape[0]}"
                )
            check_same_place(f"block {m}", block, "block 0", blocks[0])
        if len({block.dtype for block in blocks}) > 1:
            xp = namespace(blocks[0])
            blocks = [xp.astype(block, xp.float64, copy=False) for block in blocks]
        self.arrays: tuple[NDArray[np.floating], ...] = tuple(blocks)
        self.n_blocks = len(blocks)
        self.block_shapes: tuple[tuple[int, int], ...] = tuple(b.shape[1:] for b in blocks)
        self.names = check_block_names(names, len(blocks))
        self.row_names = check_row_names(row_names, self.block_shapes)

    @property
    def shape(self) -> tuple[int, int]:
        """The pair (n_samples, n_features) with n_features = Σ n_m·n'_m."""
        n_features = sum(n_rows * n_columns for n_rows, n_columns in self.block_shapes)
        return len(self), n_features

    @property
    def dtype(self) -> np.dtype:
        """The data type that all blocks share."""
        return self.arrays[0].dtype

    @property
    def xp(self) -> ModuleType:
        """The array namespace of the blocks, such as `numpy`."""
        return namespace(self.arrays[0])

    def __len__(self) -> int:
        return self.arrays[0].shape[0]

    def __iter__(self) -> Iterator[tuple[NDArray[np.floating], ...]]:
        return zip(*self.arrays, strict=True)

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
            return tuple(array[key] for array in self.arrays)
        rows = _as_rows(key, len(self))
        return self._with_arrays(_take_rows(array, rows) for array in self.arrays)

    def _with_arrays(self, arrays: Iterable[Array]) -> Blocks:
        """Return blocks of other arrays with the same rows and names; they are not checked."""
        other = copy(self)
        other.arrays = tuple(arrays)
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
    if len(blocks) == 0:
        raise ValueError(f"{name}: expected at least one sample, got {blocks!r}")
    for m, (n, width) in enumerate(blocks.block_shapes):
        if 0 in (n, width):
            raise ValueError(
                f"{name}: expected matrices of at least one row and one column, got {n}×{width} in "
                f"block {m}"
            )
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


# ---- Checks of the values of samples, priors and starts ----


def check_magnitude(blocks: Blocks, name: str) -> None:
    """Raise if the fourth power of an entry might overflow."""
    xp = blocks.xp
    largest = max(float(xp.max(xp.abs(array))) for array in blocks.arrays)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"{name}: expected entries of at most {LARGEST_ENTRY:g}, whose fourth powers are "
            f"finite, got {largest:g}; rescale {name}"
        )


def check_spread(blocks: Blocks, name: str) -> None:
    """Raise if the samples of a block differ by so little that squared differences underflow."""
    for m, array in enumerate(blocks.arrays):
        spread = float(np.max(np.ptp(array, axis=0)))
        if 0 < spread < LEAST_SPREAD:
            raise ValueError(
                f"{name}: expected samples that differ by at least {LEAST_SPREAD:g}, so that "
                f"squared differences do not underflow, got at most {spread:g} in block {m}; "
                f"rescale {name}"
            )


def hint_at_raw_covariances(blocks: Blocks) -> str | None:
    """Return a hint if a block looks like covariance matrices without their logarithm."""
    for m, (array, (n, width)) in enumerate(zip(blocks.arrays, blocks.block_shapes, strict=True)):
        if n != width or n == 1:
            continue
        some = array[:: max(1, len(array) // 100)]
        scale = np.max(np.abs(some))
        if scale == 0 or np.max(np.abs(some - np.swapaxes(some, 1, 2))) > 1e-6 * scale:
            continue
        values = np.linalg.eigvalsh(some)
        if np.min(values) > 0 and np.median(values[:, -1] / values[:, 0]) > LEAST_CONDITION:
            return (
                f"X: block {m} holds symmetric positive definite matrices, as covariances are. "
                "Their logarithm is usually what a linear metric needs: put "
                "tatml.features.LogEuclidean() before this estimator"
            )
    return None


def check_prior(
    prior: Any, sizes: Sequence[int], like: Array, from_host: bool = False, dtype: str = "float64"
) -> list[Array]:
    """Convert to M positive definite matrices; for one block, the matrix itself is accepted.

    They have the kind and device of `like`, a block of X. With `from_host`, arrays of any kind in
    the memory of the host are accepted. `dtype` is the precision of the computation, which limits
    the entries.
    """
    shape = _shape_of(prior)
    if shape is not None and len(shape) == 2 and shape[0] == shape[1]:
        prior = [prior]
    matrices = _as_square(prior, sizes, "prior", like, from_host)
    largest = LARGEST_PRIOR[dtype]
    for m, matrix in enumerate(matrices):
        _check_posdef(matrix, f"prior: block {m}")
        xp = namespace(matrix)
        diagonal = xp.linalg.diagonal(matrix)
        if float(xp.max(diagonal)) > largest or float(xp.min(diagonal)) < 1 / largest:
            raise ValueError(
                f"prior: block {m}: expected a diagonal from {1 / largest:g} to {largest:g} with "
                f"dtype={dtype!r}, got {float(xp.min(diagonal)):g} to {float(xp.max(diagonal)):g}"
            )
    return matrices


def as_center(
    midpoint: Any,
    block_shapes: Sequence[tuple[int, int]],
    means: Callable[[], list[Array]] = list,
    like: Any = None,
) -> list[Array] | None:
    """Return what is subtracted from the samples of each block; None for False, without a midpoint.

    `means` returns the means of the samples, for True; others are copied to the device of `like`.
    """
    if isinstance(midpoint, bool | np.bool_):
        return means() if midpoint else None
    center, n_blocks = given_center(midpoint), len(block_shapes)
    if len(center) != n_blocks:
        raise ValueError(
            f"midpoint: expected True, False or {n_blocks} arrays, one per block, got "
            f"{shown(midpoint)}"
        )
    for m, (array, shape) in enumerate(zip(center, block_shapes, strict=True)):
        if array.size != prod(shape) or array.shape[:1] != shape[:1]:
            raise ValueError(f"midpoint: block {m}: expected shape {shape}, got {array.shape}")
    arrays = [array.reshape(shape) for array, shape in zip(center, block_shapes, strict=True)]
    return arrays if like is None else [asarray(array, like) for array in arrays]


def given_center(midpoint: Any) -> list[NDArray[np.float64]]:
    """Return the arrays that were given as the centre of midpoints, one per block."""
    blocks, center = midpoint if isinstance(midpoint, list | tuple) else [midpoint], []
    for m, given in enumerate(blocks):
        array = to_numpy(as_floating_array(given, f"midpoint: block {m}"))
        if array.ndim == 0:
            raise ValueError(
                f"midpoint: block {m}: expected True, False or an array, got {shown(given)}"
            )
        if not np.all(np.isfinite(array)):
            raise ValueError(f"midpoint: block {m}: expected finite numbers, got NaN or infinity")
        center.append(np.asarray(array, dtype=np.float64))
    return center


def check_init(init: Any, sizes: Sequence[int], like: Array) -> Any:
    """Raise unless `init` has an L and a b0 that fit the problem; return it."""
    try:
        L, b0 = init.L, 0.0 if init.b0 is None else float(init.b0)
    except Exception as error:  # Any object may be given, and its attributes may raise anything.
        raise TypeError(
            f"init: expected an earlier result, with L and b0, got {type(init).__name__}"
        ) from error
    if not isfinite(b0):
        raise ValueError(f"init: expected a finite b0, got {b0}")
    for m, factor in enumerate(_as_square(L, sizes, "init", like, from_host=True)):
        xp = namespace(factor)
        if not isfinite(float(xp.linalg.slogdet(factor)[1])):
            raise ValueError(f"init: block {m}: expected an invertible L, got a singular one")
    return init


def _shape_of(values: Any) -> tuple[int, ...] | None:
    try:
        return tuple(values.shape) if hasattr(values, "shape") else np.shape(values)
    except Exception:  # ragged, on a GPU, or not an array
        return None


def _as_square(
    matrices: Any, sizes: Sequence[int], name: str, like: Array, from_host: bool
) -> list[Array]:
    """Convert to one array of finite numbers, of shape (n_m, n_m), per block."""
    matrices = as_list(name, matrices, "a list of matrices")
    arrays = [as_array_like(matrix, name, "X", like, from_host) for matrix in matrices]
    shapes, expected = [tuple(array.shape) for array in arrays], [(n, n) for n in sizes]
    if shapes != expected:
        raise ValueError(f"{name}: expected matrices of shapes {expected}, got {shapes}")
    for m, array in enumerate(arrays):
        if not bool(namespace(array).all(namespace(array).isfinite(array))):
            raise ValueError(f"{name}: block {m}: expected finite numbers, got NaN or infinity")
    return arrays


def _check_posdef(matrix: Array, name: str) -> None:
    xp = namespace(matrix)
    difference = float(xp.max(xp.abs(matrix - matrix.T)))
    if difference > 1e-8 * float(xp.max(xp.abs(matrix))):
        raise ValueError(
            f"{name}: expected a symmetric matrix, got entries that differ by {difference:.3g}"
        )
    diagonal = xp.linalg.diagonal(matrix)
    scale = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))  # makes the check independent of units
    lowest = xp.min(xp.linalg.eigvalsh(matrix / scale / scale[:, None]))
    if xp.min(diagonal) <= 0 or lowest <= 1e-14:
        values = xp.linalg.eigvalsh(matrix)
        raise ValueError(
            f"{name}: expected a positive definite matrix, got eigenvalues from "
            f"{float(values[0]):.3g} to {float(values[-1]):.3g}"
        )


def check_index_kind(blocks: Blocks, **given: Any) -> None:
    """Raise unless each array is a NumPy array, a list, or of the kind of the samples."""
    like = blocks.arrays[0]
    for name, values in given.items():
        if foreign_kind(values) not in (None, foreign_kind(like)):
            raise TypeError(
                f"{name}: expected a NumPy array or one of the kind of X, {place_of(like)}, got "
                f"{place_of(values)}"
            )
