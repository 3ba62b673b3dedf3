"""Arrays on disk that are read in parts: `numpy.memmap`, zarr arrays, HDF5 datasets.

Anything with ``shape``, ``dtype`` and slices is an array here. This is an edge: the code here looks
at types and shapes.
"""

from __future__ import annotations

import mmap
import os
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
from .._warnings import warn_user

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
READ_BYTES = 2**20  # bytes read at a time from arrays in stored chunks; at least one chunk is read
BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(name: str, value: int | str) -> int:
    """Return a number of bytes from an integer or words like "500MB" and "2 GiB"."""
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
    """Return whether this is an array on disk other than a `numpy.memmap`."""
    if isinstance(values, np.ndarray) or hasattr(values, "__dlpack__"):
        return False
    if scipy.sparse.issparse(values):  # in memory; refused by name where it is read
        return False
    sliceable = all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__"))
    return sliceable and (hasattr(values, "chunks") or not hasattr(values, "__array__"))


def check_files(**arrays: Any) -> None:
    """Raise ValueError if the file of a `numpy.memmap` is shorter than the array.

    The operating system would end the process with SIGBUS where such a file is read.
    """
    for name, values in arrays.items():
        parts = getattr(values, "arrays", None)  # of `Blocks`, whose module imports this one
        for array in parts if isinstance(parts, tuple) else (values,):
            mapped = _root_map(array)
            if mapped is not None and mapped.filename is not None:
                start = np.lib.array_utils.byte_bounds(mapped)[0]
                stop = np.lib.array_utils.byte_bounds(array)[1]
                _check_file_length(name, mapped.filename, mapped.offset + stop - start)


def _check_file_length(name: str, filename: Any, needed: int) -> None:
    if not os.path.exists(filename):  # a mapped file can be read after it was deleted
        return
    length = os.path.getsize(filename)
    if length < needed:
        raise ValueError(
            f"{name}: expected a file of at least {needed:,} bytes, got {length:,} bytes: "
            f"{filename} was truncated"
        )


def warn_of_missing_chunks(**arrays: Any) -> None:
    """Warn once if zarr arrays have fewer chunks in their store than their shapes need.

    zarr reads a chunk that is not stored as the fill value, be it lost or never written.
    """
    missing = []
    for name, array in arrays.items():
        try:
            stored, declared = int(array.nchunks_initialized), int(array.nchunks)
        except Exception:  # not a zarr array, or a store that cannot list its keys
            continue
        if stored < declared:
            missing.append(f"{name}: expected {declared} stored chunks, got {stored}")
    if missing:
        warn_user(
            f"{'; '.join(missing)}. zarr reads the missing chunks as the fill value. If they were "
            "not lost, write the array with write_empty_chunks=True."
        )


@dataclass(frozen=True)
class MappedFile:
    """A `numpy.memmap` that is pickled as the name of its file, without its content."""

    filename: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @cached_property
    def _array(self) -> np.memmap:
        return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)

    def __getitem__(self, key: Any) -> NDArray:
        # Other processes may shorten the file while it is in use.
        _check_file_length("numpy.memmap", self.filename, self.offset + self._array.nbytes)
        return self._array[key]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_array"}


def sendable(values: Any) -> Any:
    """Return the array in a form that is small when pickled, if it has one."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap) and values.filename:
        order: Literal["C", "F"] = "C" if values.flags.c_contiguous else "F"
        return MappedFile(str(values.filename), values.dtype, values.offset, values.shape, order)
    return values


def is_mapped(array: Any) -> bool:
    """Return whether an array is a `numpy.memmap` or a view of one."""
    return _root_map(array) is not None


def _root_map(array: Any) -> np.memmap | None:
    """Return the `numpy.memmap` that an array is or is a view of, or None.

    The one that was made from the file is returned, because views keep its offset.
    """
    found = None
    while isinstance(array, np.ndarray):
        found = array if isinstance(array, np.memmap) else found
        array = array.base
    return found


def read_rows(array: Any, rows: NDArray[np.intp]) -> NDArray:
    """Return some rows, given in ascending order, of an array that may support slices only.

    Arrays in stored chunks are read a few chunks at a time: a store decodes all chunks of one
    request in memory.
    """
    chunk = _chunk_rows(array)
    if chunk is None:
        return _read_at_once(array, rows)
    step = chunk * max(1, READ_BYTES // (chunk * _row_bytes(array)))
    parts = np.split(rows, np.flatnonzero(np.diff(rows // step)) + 1)
    if len(parts) == 1:
        return _read_at_once(array, rows)
    found, start = np.empty((len(rows), *array.shape[1:]), array.dtype), 0
    for part in parts:
        found[start : start + len(part)] = _read_at_once(array, part)
        start += len(part)
    return found


def _read_at_once(array: Any, rows: NDArray[np.intp]) -> NDArray:
    if rows[-1] - rows[0] + 1 == len(rows):
        return np.asarray(array[int(rows[0]) : int(rows[-1]) + 1])
    try:
        return np.asarray(array[rows])
    except (TypeError, IndexError, NotImplementedError):
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        return np.concatenate([np.asarray(array[int(run[0]) : int(run[-1]) + 1]) for run in runs])


def stored_bytes(array: Any) -> int:
    """Return the bytes of the rows of one stored chunk of a zarr array or HDF5 dataset, else 0."""
    chunk = _chunk_rows(array)
    return 0 if chunk is None else chunk * _row_bytes(array)


def _chunk_rows(array: Any) -> int | None:
    """Return the number of rows of a stored chunk; None for arrays without stored chunks."""
    chunks = getattr(array, "chunks", None)
    if not isinstance(chunks, tuple) or not chunks or not isinstance(chunks[0], int):
        return None  # the chunks of dask arrays are tuples
    return min(chunks[0], int(array.shape[0]))


def _row_bytes(array: Any) -> int:
    return int(np.dtype(array.dtype).itemsize * np.prod(array.shape[1:], dtype=np.int64))
