"""Shards that are chunks of pairs or of comparisons, and the division of arrays into chunks.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._array import to_numpy
from .._data.arrays import check_not_masked
from .._data.blocks import Blocks, as_blocks
from .._data.checks import check_magnitude
from .._data.comparisons import Comparisons, as_quadruplets, link_pairs, weights_of
from .._data.pairs import _to_array, as_index, as_similar, as_some_weights
from .._data.storage import length_of, sendable, warn_of_missing_chunks
from .._optim.comparison_sums import ComparisonSums, Links
from .._optim.layout import lay_out
from .._optim.pair_sums import PairSums
from .base import SHARD_LIMITS, Piece, Shard, is_dask
from .memory import pairs_per_chunk
from .samples import SharedSamples

LEAST_SENT, MOST_SENT = 10_000, 200_000  # Limits of the pairs of a chunk that a worker holds.
PAIRS_PER_COMPARISON = 3  # A comparison needs the memory of so many pairs: two, and its own numbers


def pair_shard(chunk: Any, name: str = "", offset: int = 0) -> Shard:
    """Return the shard of one chunk of pairs.

    Parameters
    ----------
    chunk : tuple, callable or Delayed
        A chunk of `PairChunks`, or one without X whose pairs refer to the shared samples.
    name : str
        The name of the chunk in errors; empty for a part of one array of pairs.
    offset : int
        The row of the array of pairs where the chunk begins.
    """
    return Shard(chunk, partial(_pair_piece, offset), name)


def _pair_piece(offset: int, values: Any, shared: SharedSamples | None) -> Piece:
    """Check the tuple of a chunk of pairs, and prepare it for sums."""
    X, pairs, similar, weights = _with_weights(values)
    if X is None and shared is not None:
        sums = shared.sums(as_index(pairs, shared.n_samples, offset=offset))
    else:
        blocks = as_blocks(X)
        check_magnitude(blocks, "X")
        sums = _sums_of(blocks, pairs)
    similar = as_similar(similar, sums.n_pairs)
    if weights is not None:
        weights = as_some_weights(weights, sums.n_pairs, offset=offset)
    return Piece(sums, similar, weights)


def _with_weights(values: Any) -> tuple:
    """Return (X, pairs, similar, weights), with None for weights that are not given."""
    if not isinstance(values, tuple | list) or len(values) not in (3, 4):
        raise TypeError(
            "expected a tuple (X, pairs, similar) or (X, pairs, similar, weights), got "
            f"{type(values).__name__}"
        )
    return (*values, None)[:4]


def _sums_of(blocks: Blocks, pairs: Any) -> PairSums:
    """Return the sums over index pairs into the blocks; None: the blocks are differences."""
    if pairs is None:
        return PairSums.of(lay_out(blocks.arrays, centre=False), limits=SHARD_LIMITS)
    first, second = (np.ascontiguousarray(column) for column in as_index(pairs, len(blocks)).T)
    features = lay_out(blocks.arrays, centre=True)
    return PairSums.from_samples(features, first, second, limits=SHARD_LIMITS)


def _comparison_shard(chunk: Any, name: str = "", offset: int = 0) -> Shard:
    """Return the shard of one chunk of comparisons: a tuple (index,) or (index, weights)."""
    return Shard(chunk, partial(_compared_piece, offset), name)


def _compared_piece(offset: int, values: Any, shared: SharedSamples | None) -> Piece:
    """Check the tuple of a chunk of comparisons, and prepare it for sums."""
    if shared is None:
        raise TypeError("comparisons: expected samples that all shards share, got none")
    index = as_quadruplets(values[0], shared.n_samples, offset=offset)
    weights = weights_of(values[1] if len(values) > 1 else None, index, offset)
    linked = link_pairs(None, index)
    pairs = shared.sums(np.column_stack([linked.first, linked.second]))
    return Piece(ComparisonSums(pairs, Links(*linked.links)), None, weights)


def pair_shards(
    shared: SharedSamples, arrays: dict[str, Any], memory: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide pairs of shared samples, given with `similar` and weights, into shards."""
    step = pairs_per_chunk(shared, memory)
    return _shards(pair_shard, arrays, _without_samples, step, on_cluster=on_cluster)


def comparison_shards(
    shared: SharedSamples, comparisons: Comparisons, memory: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide comparisons of shared samples into shards that fit into the memory."""
    arrays = {"comparisons: index": comparisons.index, "comparisons: weights": comparisons.weights}
    for name, values in arrays.items():
        check_not_masked(values, name)
    warn_of_missing_chunks(**arrays)
    step = max(1, pairs_per_chunk(shared, memory) // PAIRS_PER_COMPARISON)
    return _shards(_comparison_shard, arrays, _as_tuple, step, on_cluster=on_cluster)


def _shards(
    shard: Callable[..., Shard],
    arrays: dict[str, Any],
    combine: Callable,
    step: int,
    *,
    on_cluster: bool,
) -> list[Shard]:
    """Divide aligned arrays into shards of `step` rows; dask arrays keep their chunks."""
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if any(is_dask(array) for array in arrays.values()):
        from .dask import aligned_chunks

        chunks = aligned_chunks(arrays, combine)
        return [shard(chunk, f"chunk {k}") for k, chunk in enumerate(chunks)]
    arrays = {
        name: array if hasattr(array, "shape") else _to_array(array, name)
        for name, array in arrays.items()
    }
    n_rows = common_length(arrays)
    if on_cluster:  # enough chunks for several workers, whose number may change
        step = min(step, max(LEAST_SENT, -(-n_rows // 16)), MOST_SENT)
    parts = divided(list(arrays.values()), step, n_rows)
    return [
        shard(partial(read_chunk, combine, part), offset=k * step) for k, part in enumerate(parts)
    ]


def _without_samples(*arrays: Any) -> tuple:
    """Return a chunk without X: its pairs refer to the shared samples."""
    return None, *arrays


def _as_tuple(*arrays: Any) -> tuple:
    return arrays


def divided(arrays: Sequence[Any], step: int, n_pairs: int) -> Iterator[list]:
    """Yield a list of (array, slice) per chunk; of arrays in memory, only the rows of the chunk."""
    arrays = [sendable(array) for array in arrays]
    for start in range(0, n_pairs, step):
        part = slice(start, min(start + step, n_pairs))
        yield [
            (array[part], slice(None)) if isinstance(array, np.ndarray) else (array, part)
            for array in arrays
        ]


def read_chunk(combine: Callable, parts: Sequence[tuple[Any, slice]]) -> tuple:
    """Read the parts of a chunk, and combine them to its tuple."""
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
