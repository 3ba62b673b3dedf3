"""Samples and pairs that are not all in memory: arrays on disk, read a part at a time.

This is an edge: the code here looks at types and shapes. Anything with ``shape``, ``dtype`` and
slices is an array here: `numpy.memmap`, zarr arrays, HDF5 datasets.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ._array import Array, contiguous
from ._checks import check_count, check_magnitude
from ._messages import shown
from .blocks import Blocks, as_blocks, check_finite
from .sums import PairSums

__all__ = ["Samples", "as_samples", "is_stored", "length_of", "parse_bytes", "sendable"]

SMALL_SHARE = 0.2  # of the memory: samples on disk that take less are read once
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(name: str, value: int | str) -> int:
    """A number of bytes, from an integer or words like "500MB" and "2 GiB"."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([kmgt]?)(i?)b?\s*", value.lower())
        if found is None or (found[3] and not found[2]):
            raise ValueError(f'{name}: expected bytes, or words like "500MB", got {shown(value)}')
        size = float(found[1]) * (BINARY_UNITS if found[3] else UNITS)[found[2]]
        if not isfinite(size):
            raise ValueError(f"{name}: expected bytes, got more than a float can hold")
        return int(size)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f'{name}: expected bytes, or words like "500MB", got {shown(value)}')
    return check_count(name, value)


def is_stored(values: Any) -> bool:
    """Whether this is an array that is not in memory, and not a `numpy.memmap`."""
    if isinstance(values, np.ndarray | Blocks) or hasattr(values, "__dlpack__"):
        return False
    if scipy.sparse.issparse(values):  # in memory, and refused there
        return False
    sliceable = all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__"))
    return sliceable and (hasattr(values, "chunks") or not hasattr(values, "__array__"))


def length_of(values: Any, name: str) -> int:
    """How many rows an array has, in memory or not."""
    shape = getattr(values, "shape", None)
    if not shape or not isinstance(shape, tuple):
        raise TypeError(f"{name}: expected an array with a shape, got {type(values).__name__}")
    return int(shape[0])


@dataclass(frozen=True)
class MappedFile:
    """A `numpy.memmap` that travels as the name of its file, not as its content."""

    filename: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @cached_property
    def _array(self) -> np.memmap:
        return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)

    def __getitem__(self, key: Any) -> NDArray:
        return self._array[key]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_array"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def sendable(values: Any) -> Any:
    """The same array in a form that is small when pickled, where there is one."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap) and values.filename:
        order: Literal["C", "F"] = "C" if values.flags.c_contiguous else "F"
        return MappedFile(str(values.filename), values.dtype, values.offset, values.shape, order)
    return values


@dataclass(frozen=True)
class Samples:
    """The samples that pairs point at.

    Parameters
    ----------
    arrays : tuple of M arrays, in memory or not
        Samples as they were given; transposed and centred when they are in memory.
    block_shapes : tuple of M pairs
        (n_m, n'_m).
    n_samples : int
        How many.
    in_memory : bool
        Whether the arrays are checked and laid out for sums.
    counted : bool
        Whether they are there because they were read, so that their memory counts.
    """

    arrays: tuple[Any, ...]
    block_shapes: tuple[tuple[int, int], ...]
    n_samples: int
    in_memory: bool
    counted: bool = False

    @property
    def n_bytes(self) -> int:
        """What they take in memory."""
        return 8 * self.n_samples * self.numbers

    @property
    def numbers(self) -> int:
        """Σ n_m n'_m."""
        return sum(n * width for n, width in self.block_shapes)

    def sums(self, index: NDArray[np.intp]) -> PairSums:
        """The differences of index pairs (K, 2)."""
        if self.in_memory:
            first, second = (np.ascontiguousarray(column) for column in index.T)
            return PairSums.from_samples(self.arrays, first, second)
        rows, position = np.unique(index, return_inverse=True)
        position = position.reshape(index.shape)
        features = self._features([_read_rows(array, rows) for array in self.arrays], rows)
        return PairSums.from_samples(features, position[:, 0], position[:, 1])

    def runs(self, *parts: slice) -> list[Array]:
        """Runs of samples one after the other, laid out for sums."""
        arrays = [np.concatenate([array[part] for part in parts]) for array in self.arrays]
        if self.in_memory:
            return arrays
        numbers = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        return self._features(arrays, numbers)

    def _features(self, arrays: Sequence[Any], numbers: NDArray[np.intp]) -> list[Array]:
        blocks = Blocks(*arrays)
        check_finite(blocks, "X", numbers)
        check_magnitude(blocks, "X")
        return laid_out(blocks)


def laid_out(blocks: Blocks) -> list[Array]:
    """Transposed and centred features, as `PairSums` has them."""
    centred = [array - array.mean(axis=0, dtype=np.float64) for array in blocks.arrays]
    return [contiguous(np.matrix_transpose(block)) for block in centred]


def as_samples(X: Any, *, read_in_parts: bool, memory: int) -> Samples:
    """What a user gives as X; with `read_in_parts`, a `numpy.memmap` counts as on disk.

    What is on disk is brought into memory where it takes a small part of that.
    """
    arrays = X.arrays if isinstance(X, Blocks) else (X,)
    on_disk = is_stored(X) or (read_in_parts and all(map(_is_mapped, arrays)))
    if not on_disk:
        blocks = as_blocks(X)
        check_magnitude(blocks, "X")
        return Samples(tuple(laid_out(blocks)), blocks.block_shapes, len(blocks), True)
    shapes = {tuple(int(size) for size in array.shape) for array in arrays}
    for shape in shapes:
        if len(shape) not in (2, 3) or 0 in shape:
            raise ValueError(
                "X: expected an array of vectors (n_samples, n) or of matrices (n_samples, n, n'), "
                f"got shape {shape}"
            )
    block_shapes = tuple((*array.shape[1:], 1)[:2] for array in arrays)
    n_samples = int(arrays[0].shape[0])
    stored = Samples(tuple(map(sendable, arrays)), block_shapes, n_samples, False)
    if stored.n_bytes > SMALL_SHARE * memory:
        return stored
    features = stored.runs(slice(0, n_samples))
    return Samples(tuple(features), block_shapes, n_samples, True, counted=True)


def _is_mapped(array: Any) -> bool:
    """Whether an array is a `numpy.memmap`, or a view of one."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def _read_rows(array: Any, rows: NDArray[np.intp]) -> NDArray:
    """Rows in ascending order, of an array that may know slices only."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return np.asarray(array[int(rows[0]) : int(rows[-1]) + 1])
    try:
        return np.asarray(array[rows])
    except (TypeError, IndexError, NotImplementedError):
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        return np.concatenate([np.asarray(array[int(run[0]) : int(run[-1]) + 1]) for run in runs])
