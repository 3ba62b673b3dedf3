"""Samples that are copies of each other: equal in all blocks, and in their classes and groups."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from .._array import Doubles, Indices, to_numpy
from .blocks import Blocks
from .sparse import SparseBlock


def first_copies(blocks: Blocks, codes: Sequence[Indices] = ()) -> Indices:
    """Return for each sample the number of the first sample that is a copy of it.

    Copies have the same `codes`, too. Samples that have no copy are their own first copy.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Blocks
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0]])
    >>> first_copies(Blocks(X), [np.array([0, 0, 0, 1])])
    array([0, 1, 0, 3])
    """
    first, sums = np.arange(len(blocks)), np.sum([_sums(array) for array in blocks.arrays], axis=0)
    order = np.argsort(sums)
    equal = np.flatnonzero(np.diff(sums[order]) == 0)  # copies have equal sums
    candidates = np.unique(order[np.concatenate([equal, equal + 1])])
    if len(candidates) == 0:
        return first
    keys = [_contents(blocks, candidates), *(code[candidates].tolist() for code in codes)]
    found: dict[Any, np.intp] = {}
    for row, *key in zip(candidates, *keys, strict=True):
        first[row] = found.setdefault(tuple(key), row)
    return first


def order_of_content(blocks: Blocks, labels: Indices) -> Indices:
    """Return an order of samples that depends on what they are, not on how they come.

    It is that of their labels and extreme entries; of samples that agree in these, that of a hash.
    Dense and sparse tables of the same numbers have the same order.
    """
    keys = np.stack([labels, *(end for array in blocks.arrays for end in _extremes(array))])
    order, rank = np.lexsort(keys), np.zeros(len(labels))
    tied = np.flatnonzero(np.all(np.diff(keys[:, order]) == 0, axis=0))
    rows = np.unique(order[np.concatenate([tied, tied + 1])]).tolist()
    rank[sorted(rows, key=lambda row: _digest(blocks, row))] = np.arange(len(rows))
    return np.lexsort([rank, *keys])


def _extremes(array: Any) -> list[Doubles]:
    """Return the smallest and the largest entry of each sample."""
    if isinstance(array, SparseBlock):
        return [end.toarray().ravel() for end in (array.table.min(axis=1), array.table.max(axis=1))]
    table = to_numpy(array).reshape(len(array), -1)
    return [table.min(axis=1), table.max(axis=1)]


def _digest(blocks: Blocks, row: int) -> bytes:
    """Return a hash of the entries of a sample that are not zero."""
    found = blake2b()
    for array in blocks.arrays:
        values = to_numpy(array[row]).ravel()
        places = np.flatnonzero(values)
        found.update(places.tobytes() + values[places].tobytes())
    return found.digest()


def _sums(array: Any) -> Doubles:
    """Return the sum of the entries of each sample, which is the same for copies."""
    if isinstance(array, SparseBlock):
        return np.asarray(array.table.sum(axis=1)).ravel()
    return to_numpy(array).reshape(len(array), -1).sum(axis=1, dtype=np.float64)


def _contents(blocks: Blocks, rows: Indices) -> list[bytes]:
    """Return the entries of some samples, as bytes; zeros have no sign."""
    parts = [_as_bytes(array, rows) for array in blocks.arrays]
    return parts[0] if len(parts) == 1 else [b"".join(of) for of in zip(*parts, strict=True)]


def _as_bytes(array: Any, rows: Indices) -> list[bytes]:
    if isinstance(array, SparseBlock):
        table = array.table[rows]
        ends, values = table.indptr, table.data + 0.0
        slices = [slice(*of) for of in pairwise(ends.tolist())]
        return [table.indices[of].tobytes() + values[of].tobytes() for of in slices]
    taken = np.ascontiguousarray(to_numpy(array)[rows] + 0.0)
    size = array.shape[1] * array.shape[2] * taken.itemsize
    return taken.reshape(len(rows), -1).view((np.void, size)).ravel().tolist()
