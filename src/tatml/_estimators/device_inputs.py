"""Samples that are arrays of another package, such as PyTorch tensors on a GPU.

A fit checks them on the host. It computes priors and thresholds, and solves its problems, on the
device of the samples. `transform` and `pair_distance` compute there and return an array there.
This module is part of the edge of the estimators: it inspects types.
"""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from .._array import Array, asarray, foreign_kind, namespace, on_gpu, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .span import is_wide


def place_of_samples(*values: Any) -> Array | None:
    """Return an array of float64 on the device of samples, if results belong there; else None.

    The first of the values that is an array of another package counts. Without scikit-learn's
    array API dispatch, tensors on the host are read like NumPy arrays.
    """
    for value in values:
        array = value.arrays[0] if isinstance(value, Blocks) else value
        if foreign_kind(array) is not None:
            if not on_gpu(array) and not get_config()["array_api_dispatch"]:
                return None
            xp = namespace(array)
            return xp.zeros((1,), dtype=xp.float64, device=array.device)
    return None


def remember_place(estimator: Any, *values: Any) -> None:
    """Let a fit know the device of its samples; it forgets it when it ends."""
    place = place_of_samples(*values)
    if place is not None:
        estimator._place = place


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
