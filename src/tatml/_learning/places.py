"""Where samples are: on the host, or on the device of an array of another package.

Priors and thresholds are computed, and problems are solved, on the device of the samples.
"""

from __future__ import annotations

from typing import Any

from .._array import Array, asarray, foreign_kind, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .span import is_wide


def fetched(values: Any) -> Any:
    """Return arrays of other packages, and Blocks or lists of them, as NumPy arrays."""
    if isinstance(values, list | tuple) and any(foreign_kind(part) for part in values):
        return [fetched(part) for part in values]
    if isinstance(values, Blocks):
        if foreign_kind(values.arrays[0]) is None:
            return values
        return values._with_arrays([to_numpy(array) for array in values.arrays])
    return values if foreign_kind(values) is None else to_numpy(values)


def place_blocks(blocks: Blocks, like: Array | None) -> Blocks:
    """Copy samples to the device of `like`; sparse samples, and those for None, stay."""
    if like is None or any(isinstance(array, SparseBlock) for array in blocks.arrays):
        return blocks
    return blocks._with_arrays([asarray(array, like) for array in blocks.arrays])


def host_if_wide(blocks: Blocks, *more: Blocks) -> list[Blocks]:
    """Return samples on the host if a block of the first is wide, because its span is NumPy's."""
    given = [blocks, *more]
    return [fetched(b) for b in given] if any(map(is_wide, blocks.arrays)) else given
