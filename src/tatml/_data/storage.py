"""Samples and pairs that are not all in memory: arrays on disk, read a part at a time.

This is an edge: the code here looks at types and shapes. Anything with ``shape``, ``dtype`` and
slices is an array here: `numpy.memmap`, zarr arrays, HDF5 datasets.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .._messages import shown
from .._validation import check_count
from .blocks import Blocks

__all__ = [
    "MappedFile",
    "is_mapped",
    "is_stored",
    "length_of",
    "parse_bytes",
    "read_rows",
    "sendable",
]

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


def is_mapped(array: Any) -> bool:
    """Whether an array is a `numpy.memmap`, or a view of one."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def read_rows(array: Any, rows: NDArray[np.intp]) -> NDArray:
    """Rows in ascending order, of an array that may know slices only."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return np.asarray(array[int(rows[0]) : int(rows[-1]) + 1])
    try:
        return np.asarray(array[rows])
    except (TypeError, IndexError, NotImplementedError):
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        return np.concatenate([np.asarray(array[int(run[0]) : int(run[-1]) + 1]) for run in runs])
