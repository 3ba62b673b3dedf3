"""The samples: n of them, each a tuple of M matrices."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from .._array import Array, asarray, contiguous, foreign_kind, namespace, place_of, to_numpy
from .._messages import named_error, shown
from .storage import check_files

__all__ = [
    "Blocks",
    "as_array_like",
    "as_blocks",
    "as_host_array",
    "as_real_array",
    "check_finite",
    "check_not_masked",
    "read_array",
]

_BLOCKS_HINT = "for several matrices per sample write Blocks(a, b), one array for each"


class Blocks:
    """Samples that are tuples of M matrices, held as M arrays.

    Block m holds the m-th matrix of every sample. The samples can be counted, indexed and
    iterated over like the rows of one array, so that scikit-learn splits and cross-validates
    them without knowing what they are.

    Parameters
    ----------
    *arrays : array-like of shape (n_samples, n_m, n'_m) or (n_samples, n_m)
        One array for each of the M ≥ 1 blocks. A 2-D array holds vectors and counts as
        (n_samples, n_m, 1). The arrays are stored as C-contiguous float64, or as float32 if
        all of them are float32. An array that already is so is not copied: do not change it
        afterwards. PyTorch and CuPy arrays stay what and where they are.

    Raises
    ------
    TypeError
        If an array does not hold real numbers, is sparse or has masked entries, or the arrays
        are of two kinds.
    ValueError
        If there is no array, one is not 2-D or 3-D, their numbers of samples differ, or they are
        on two devices.

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
    """

    def __init__(self, *arrays: ArrayLike) -> None:
        if not arrays:
            raise ValueError("Blocks: expected at least one array, got none")
        blocks = [_as_block(array, f"block {m}") for m, array in enumerate(arrays)]
        _check_same_n_samples(blocks)
        for m, block in enumerate(blocks):
            check_same_place(f"block {m}", block, "block 0", blocks[0])
        self._arrays = _with_common_dtype(blocks)

    @property
    def arrays(self) -> tuple[NDArray[np.floating], ...]:
        """The M arrays, each of shape (n_samples, n_m, n'_m)."""
        return self._arrays

    @property
    def n_blocks(self) -> int:
        """The number M of matrices per sample."""
        return len(self._arrays)

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
        key = _without_ellipsis(key)
        if _is_integer(key):
            return tuple(array[key] for array in self._arrays)
        rows = _as_rows(key, len(self))
        return Blocks(*(_picked(array, rows) for array in self._arrays))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refuse to become one array: the blocks may differ in shape."""
        raise TypeError(
            "Blocks cannot be converted to one array: take X.arrays[m] for block m, or "
            "np.hstack([a.reshape(len(a), -1) for a in X.arrays]) for all entries side by side"
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in self.block_shapes)
        return f"Blocks(n_samples={len(self)}, blocks=[{shapes}], dtype={self.dtype})"


def as_blocks(X: Blocks | ArrayLike, name: str = "X", any_kind: bool = False) -> Blocks:
    """Turn what a user gives as samples into Blocks that are safe to compute with.

    Parameters
    ----------
    X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
        Blocks are passed through. A 2-D array or data frame becomes one block of vectors, a
        3-D array or a list of equally shaped matrices one block of matrices.
    name : str, default="X"
        What to call `X` in an error message.
    any_kind : bool, default=False
        Whether PyTorch and CuPy arrays stay what they are; they become NumPy's otherwise.

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
        blocks = Blocks(*(as_host_array(array, name) for array in blocks.arrays))
    _check_not_empty(blocks, name)
    check_finite(blocks, name)
    return blocks


def _as_block(values: ArrayLike, name: str) -> NDArray[np.floating]:
    array = as_real_array(values, name) if foreign_kind(values) is None else _kept(values, name)
    if array.ndim == 2:
        return namespace(array).reshape(array, (*array.shape, 1))
    if array.ndim == 3:
        return array
    raise ValueError(
        f"{name}: expected a 2-D array of vectors (n_samples, n) or a 3-D array of matrices "
        f"(n_samples, n, n'), got {_describe(values)} of shape {array.shape}; {_BLOCKS_HINT}"
    )


def as_real_array(values: ArrayLike, name: str) -> NDArray[np.floating]:
    """Convert to a C-contiguous float32 or float64 array; the one step that is NumPy's own."""
    array = read_array(values, name)
    _check_real(array, name)
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    try:
        with np.errstate(over="ignore"):  # to infinity, which is then refused as such
            return np.asarray(array, dtype=dtype, order="C")
    except Exception as error:  # Python's own numbers: too large, or fail in their own way
        raise named_error(name, error) from error


def read_array(values: Any, name: str) -> np.ndarray:
    """What NumPy makes of what a user gave; dense, without masked entries."""
    if scipy.sparse.issparse(values):
        raise TypeError(
            f"{name}: expected a dense array, got {_describe(values)}; convert with .toarray()"
        )
    check_not_masked(values, name)
    check_files(**{name: values})
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected an array with rows of equal length, got {_describe(values)} "
            f"with parts of different shapes; {_BLOCKS_HINT}"
        ) from error
    except Exception as error:  # what an object does when it is asked for an array
        raise TypeError(
            f"{name}: expected an array, got {_describe(values)}, which cannot be read as one: "
            f"{error}"
        ) from error
    check_not_masked(array, name)
    return array


def check_not_masked(values: Any, name: str) -> None:
    """No masked entry, also in lists of masked arrays: NumPy would read what is under the mask."""
    if _is_masked(values):
        raise TypeError(
            f"{name}: expected an array without masked entries, got a masked array; fill it, or "
            "remove the samples"
        )


def _is_masked(values: Any) -> bool:
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    if isinstance(values, list | tuple):
        return any(_is_masked(part) for part in values)
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # a data frame
        return any(_is_masked(values[column].to_numpy()) for column in _object_columns(values))
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return any(value is np.ma.masked for value in values.flat)
    return False


def _object_columns(frame: Any) -> list[Any]:
    """The columns of a data frame that may hold anything; pandas alone has such."""
    dtypes = getattr(frame, "dtypes", None)
    if dtypes is None or not hasattr(dtypes, "items") or not frame.columns.is_unique:
        return []
    return [name for name, dtype in dtypes.items() if str(dtype) == "object"]


def _kept(array: Array, name: str) -> Array:
    """A PyTorch or CuPy array as float32 or float64, where it is."""
    xp = namespace(array)
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise TypeError(f"{name}: expected real numbers, got an array of dtype {array.dtype}")
    dtype = xp.float32 if array.dtype == xp.float32 else xp.float64
    return contiguous(xp.astype(array, dtype, copy=False))


def as_host_array(values: Any, name: str) -> np.ndarray:
    """What NumPy makes of the values; those of a GPU are not fetched unasked."""
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"{name}: expected values in the memory of the host, got {place_of(values)}; fetch "
            "them first, or call learn_metric, which computes where they are"
        ) from error


def as_array_like(
    values: ArrayLike, name: str, owner: str, like: Array, from_host: bool = False
) -> Array:
    """Real numbers as float64 of the kind and device of another array, which owns the say.

    Lists of numbers are taken there; with `from_host`, whatever is in the memory of the host.
    """
    if from_host and foreign_kind(like) is None and foreign_kind(values) is not None:
        values = as_host_array(values, name)
    if foreign_kind(values) is None and (from_host or not hasattr(values, "__array__")):
        return asarray(as_real_array(values, name), like, namespace(like).float64)
    if foreign_kind(like) is None and foreign_kind(values) is None:
        return as_real_array(values, name).astype(np.float64)
    check_same_place(name, values, owner, like)
    return namespace(like).astype(_kept(values, name), namespace(like).float64, copy=False)


def check_same_place(name: str, array: Array, owner: str, like: Array) -> None:
    """One kind of array, on one device."""
    if foreign_kind(array) is None and foreign_kind(like) is None:
        return
    if foreign_kind(array) != foreign_kind(like) or array.device != like.device:
        raise (TypeError if foreign_kind(array) != foreign_kind(like) else ValueError)(
            f"{name}: expected an array of the kind and device of {owner}, {place_of(like)}, got "
            f"{place_of(array)}"
        )


def _check_real(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "O":
        for index, value in np.ndenumerate(array):
            if not isinstance(value, numbers.Real | np.bool_):
                raise TypeError(
                    f"{name}: expected real numbers, got {shown(value)} of type "
                    f"{type(value).__name__} at {_as_ints(index)}"
                )
    elif array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: expected real numbers, got an array of dtype {array.dtype}")


def _check_same_n_samples(arrays: list[NDArray[np.floating]]) -> None:
    counts = [array.shape[0] for array in arrays]
    if len(set(counts)) > 1:
        listed = ", ".join(f"block {m} has {count}" for m, count in enumerate(counts))
        raise ValueError(f"Blocks: expected the same number of samples in each block, got {listed}")


def _with_common_dtype(arrays: list[NDArray[np.floating]]) -> tuple[NDArray[np.floating], ...]:
    if len({array.dtype for array in arrays}) == 1:
        return tuple(arrays)
    xp = namespace(arrays[0])
    return tuple(xp.astype(array, xp.float64, copy=False) for array in arrays)


def _check_not_empty(blocks: Blocks, name: str) -> None:
    if len(blocks) == 0:
        raise ValueError(f"{name}: expected at least one sample, got {blocks!r}")
    for m, shape in enumerate(blocks.block_shapes):
        if 0 in shape:
            raise ValueError(
                f"{name}: expected matrices of at least one row and one column, "
                f"got {shape[0]}×{shape[1]} in block {m}"
            )


def check_finite(blocks: Blocks, name: str, samples: NDArray | None = None) -> None:
    """No NaN, no infinity; `samples` are the numbers of the samples where they are some of all."""
    xp = blocks.xp
    for m, array in enumerate(blocks.arrays):
        finite = xp.isfinite(array)
        if not xp.all(finite):
            sample, *entry = (int(index[0]) for index in xp.nonzero(~finite))
            number = sample if samples is None else samples[sample]
            raise ValueError(
                f"{name}: expected finite numbers, got {float(array[sample, *entry])} "
                f"in block {m}, sample {number}, entry {tuple(entry)}"
            )


def _without_ellipsis(key: Any) -> Any:
    """Read X[key, ...] as X[key]: so scikit-learn indexes whatever has a shape."""
    if not isinstance(key, tuple):
        return key
    if len(key) == 2 and key[1] is Ellipsis:
        return key[0]
    raise IndexError(
        f"Blocks: expected one index, for the samples, got the {len(key)} of {key!r}; "
        "index the arrays in X.arrays to reach inside a block"
    )


def _is_integer(key: Any) -> bool:
    return isinstance(key, numbers.Integral) and not isinstance(key, bool)


def _as_rows(key: Any, n_samples: int) -> slice | NDArray[np.intp]:
    """Turn a slice, a mask or indices into what selects the same rows of every block."""
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


def _picked(array: Array, rows: slice | NDArray[np.intp]) -> Array:
    if foreign_kind(array) is None or isinstance(rows, slice):
        return array[rows]
    n_samples = array.shape[0]
    if rows.size and not -n_samples <= rows.min() <= rows.max() < n_samples:
        raise IndexError(f"Blocks: expected indices below n_samples = {n_samples}")
    return namespace(array).take(array, asarray(rows % max(n_samples, 1), like=array), axis=0)


def _describe(values: Any) -> str:
    kind = type(values).__name__
    return f"{kind} of length {len(values)}" if isinstance(values, list | tuple) else kind


def _as_ints(index: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in index)
