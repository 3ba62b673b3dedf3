"""Read a compact file; the headers of its arrays are checked before any data is read."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ._folder import DatasetLayout, FoundDataset, check_complete, match_keys, naming_file

LONGEST_ITEM = 256  # largest size of an item in bytes: a number or a short word
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

ArrayKind = Literal["uint8", "integer", "text"]


@dataclass(frozen=True)
class ExpectedArray:
    """The type and shape that an array in the file must have.

    Attributes
    ----------
    dtype : {"uint8", "integer", "text"}
        "integer" means integers of any size, "text" short strings.
    shape : tuple of int or None
        None stands for the number of samples.
    """

    dtype: ArrayKind
    shape: tuple[int | None, ...]


def read_archive(
    layout: DatasetLayout,
    found: FoundDataset,
    arrays: dict[str, ExpectedArray],
    allow_incomplete: bool,
) -> tuple[NDArray[np.intp], dict[str, NDArray]]:
    """Return which samples of the layout the file contains, and its arrays.

    The file must also contain the keys of the layout: the first column as "labels", and the other
    columns, if there are any, as "groups".
    """
    n_numbers = layout.keys.shape[1] - 1
    key_arrays = {"labels": ExpectedArray("integer", (None,))}
    if n_numbers:
        key_arrays["groups"] = ExpectedArray("integer", (None, n_numbers))
    with naming_file(found.where, layout):
        read = _read_expected(found.where, key_arrays | arrays, len(layout.keys))
        keys = np.column_stack([read[name] for name in key_arrays])
        rows = match_keys(layout, keys)
    check_complete(layout, rows, found.where, allow_incomplete)
    return rows, read


def _read_expected(
    path: str, arrays: dict[str, ExpectedArray], largest_n: int
) -> dict[str, NDArray]:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        absent = [name for name in arrays if f"{name}.npy" not in names]
        if absent:
            raise ValueError(f"expected the arrays {', '.join(arrays)}, got no {absent[0]}")
        headers = {name: _read_header(archive, name) for name in arrays}
        n_samples = _n_samples(headers["labels"][0], largest_n)
        for name, expected in arrays.items():
            _check_array_header(archive, name, expected, headers[name], n_samples)
        return {name: _read_data(archive, name) for name in arrays}


def _read_header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype, int]:
    with archive.open(f"{name}.npy") as stream:
        version = npy.read_magic(stream)
        if version not in HEADER_READERS:
            raise ValueError(f"{name}: expected npy format 1.0 or 2.0, got {version}")
        shape, _, dtype = HEADER_READERS[version](stream)
        return shape, dtype, stream.tell()


def _n_samples(shape: tuple[int, ...], largest_n: int) -> int:
    if len(shape) != 1 or shape[0] > largest_n:
        raise ValueError(f"labels: expected at most {largest_n} numbers, got shape {shape}")
    return shape[0]


def _check_array_header(
    archive: zipfile.ZipFile,
    name: str,
    expected: ExpectedArray,
    header: tuple[tuple[int, ...], np.dtype, int],
    n_samples: int,
) -> None:
    shape, dtype, start = header
    if not _is_of_type(dtype, expected.dtype):
        raise ValueError(f"{name}: expected an array of {expected.dtype}, got {dtype}")
    wanted = tuple(n_samples if n is None else n for n in expected.shape)
    if shape != wanted:
        raise ValueError(f"{name}: expected shape {wanted}, got {shape}")
    n_bytes = archive.getinfo(f"{name}.npy").file_size - start
    if n_bytes != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: expected {prod(shape) * dtype.itemsize} bytes, got {n_bytes}")


def _is_of_type(dtype: np.dtype, expected: ArrayKind) -> bool:
    if dtype.itemsize > LONGEST_ITEM:
        return False
    if expected in ("integer", "text"):
        return dtype.kind in {"integer": "iu", "text": "U"}[expected]
    return dtype == np.dtype(expected)


def _read_data(archive: zipfile.ZipFile, name: str) -> NDArray:
    with archive.open(f"{name}.npy") as stream:
        array = npy.read_array(stream, allow_pickle=False)  # zipfile verifies the checksum
    return np.ascontiguousarray(array)
