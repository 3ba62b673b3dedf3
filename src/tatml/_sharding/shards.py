"""Shards that are chunks of pairs or of comparisons, and the division of arrays into chunks.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._array import to_numpy
from .._data.arrays import check_not_masked
from .._data.blocks import as_blocks, check_magnitude
from .._data.pairs import (
    Comparisons,
    _to_array,
    as_index,
    as_quadruplets,
    as_similar,
    as_some_weights,
    link_pairs,
    weights_of,
)
from .._data.storage import length_of, sendable, warn_of_missing_chunks
from .._optim.comparison_sums import ComparisonSums, Links
from .._optim.layout import lay_out, slices
from .._optim.pair_sums import PairSums
from .base import SHARD_LIMITS, Piece, Shard, is_dask
from .memory import pairs_per_chunk
from .samples import SharedSamples

LEAST_SENT, MOST_SENT = 10_000, 200_000  # Limits of the pairs of a chunk that a worker holds.
PAIRS_PER_COMPARISON = 3  # A comparison needs the memory of so many pairs: two, and its own numbers


def chunk_piece(values: Any, shared: Any = None) -> Piece:
    """Check a chunk of `PairChunks`, and prepare it for sums."""
    if not isinstance(values, tuple | list) or len(values) not in (3, 4):
        raise TypeError(
            "expected a tuple (X, pairs, similar) or (X, pairs, similar, weights), got "
            f"{type(values).__name__}"
        )
    X, pairs, similar, weights = (*values, None)[:4]
    blocks = as_blocks(X)
    check_magnitude(blocks, "X")
    if pairs is None:
        sums = PairSums.of(lay_out(blocks.arrays, centre=False), limits=SHARD_LIMITS)
    else:
        first, second = (np.ascontiguousarray(side) for side in as_index(pairs, len(blocks)).T)
        features = lay_out(blocks.arrays, centre=True)
        sums = PairSums.from_samples(features, first, second, limits=SHARD_LIMITS)
    return _piece(sums, similar, weights)


def _piece(sums: PairSums, similar: Any, weights: Any, offset: int = 0) -> Piece:
    similar = as_similar(similar, sums.n_pairs)
    if weights is not None:
        weights = as_some_weights(weights, sums.n_pairs, offset=offset)
    return Piece(sums, similar, weights)


# Pairs and comparisons of shared samples. Of these, `offset` is the row of the arrays where a chunk
# begins.


def pair_shards(
    shared: SharedSamples, arrays: dict[str, Any], memory: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide pairs of shared samples, given with `similar` and weights, into shards."""
    step = pairs_per_chunk(shared, memory)
    return _shards(_pair_piece, arrays, step, on_cluster=on_cluster)


def _pair_piece(offset: int, values: tuple, shared: SharedSamples) -> Piece:
    """Check the tuple (pairs, similar) or (pairs, similar, weights), and prepare it for sums."""
    pairs, similar, weights = (*values, None)[:3]
    sums = shared.sums(as_index(pairs, shared.n_samples, offset=offset))
    return _piece(sums, similar, weights, offset)


def comparison_shards(
    shared: SharedSamples, comparisons: Comparisons, memory: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide comparisons of shared samples into shards that fit into the memory."""
    arrays = {"comparisons: index": comparisons.index, "comparisons: weights": comparisons.weights}
    for name, values in arrays.items():
        check_not_masked(values, name)
    warn_of_missing_chunks(**arrays)
    step = max(1, pairs_per_chunk(shared, memory) // PAIRS_PER_COMPARISON)
    return _shards(_comparison_piece, arrays, step, on_cluster=on_cluster)


def _comparison_piece(offset: int, values: tuple, shared: SharedSamples) -> Piece:
    """Check the tuple (index,) or (index, weights), and prepare it for sums."""
    index = as_quadruplets(values[0], shared.n_samples, offset=offset)
    weights = weights_of(values[1] if len(values) > 1 else None, index, offset)
    linked = link_pairs(None, index)
    pairs = shared.sums(np.column_stack([linked.first, linked.second]))
    return Piece(ComparisonSums(pairs, Links(*linked.links)), None, weights)


def _shards(make: Callable, arrays: dict[str, Any], step: int, *, on_cluster: bool) -> list[Shard]:
    """Divide aligned arrays into shards of `step` rows; dask arrays keep their chunks."""
    arrays = {
        name: array if hasattr(array, "shape") else _to_array(array, name)
        for name, array in arrays.items()
        if array is not None
    }
    if any(map(is_dask, arrays.values())):
        chunks = cut(arrays, step)
        return [Shard(chunk, partial(make, 0), f"chunk {k}") for k, chunk in enumerate(chunks)]
    if on_cluster:  # enough chunks for several workers, whose number may change
        step = min(step, max(LEAST_SENT, -(-common_length(arrays) // 16)), MOST_SENT)
    return [Shard(chunk, partial(make, k * step)) for k, chunk in enumerate(cut(arrays, step))]


def _as_tuple(*arrays: Any) -> tuple:
    return arrays


def cut(arrays: dict[str, Any], step: int, combine: Callable = _as_tuple) -> list:
    """Cut aligned arrays into chunks, functions that return `combine(part of each array)`.

    The parts have `step` rows. If there are dask arrays, a chunk is a Delayed, with the rows of
    their chunks. Of arrays in memory, a function holds only its rows.
    """
    if any(map(is_dask, arrays.values())):
        from .dask import aligned_chunks

        return aligned_chunks(arrays, combine)
    whole = [sendable(array) for array in arrays.values()]
    return [
        partial(
            _read,
            combine,
            [
                (array[part], slice(None)) if isinstance(array, np.ndarray) else (array, part)
                for array in whole
            ],
        )
        for part in slices(common_length(arrays), step)
    ]


def _read(combine: Callable, parts: Sequence[tuple[Any, slice]]) -> Any:
    """Read the parts of a chunk, and combine them."""
    return combine(*(to_numpy(array[part]) for array, part in parts))


def common_length(arrays: dict[str, Any]) -> int:
    """Return the number of rows of all arrays; raise ValueError if it differs."""
    lengths = {name: length_of(array, name) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"pairs: expected the same number of rows in each array, but {listed}")
    n_pairs = next(iter(lengths.values()))
    if n_pairs == 0:
        name = "comparisons: index" if "comparisons: index" in arrays else "pairs"
        raise ValueError(f"{name}: expected at least one row, got none")
    return n_pairs
