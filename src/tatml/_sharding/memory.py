"""Division of `max_memory`: pairs per chunk, pairs per sample, samples per tile.

The solver gets a workspace: a fixed number of bytes, or more for metrics whose matrices need more.
A stored chunk of samples that is read and decoded as a whole gets memory of its own. The rest is
for one chunk of pairs, or one tile of all pairs, with the copies that a pass over it makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._data.storage import READ_BYTES, parse_bytes

if TYPE_CHECKING:
    from .samples import SharedSamples

DEFAULT_MEMORY = 2**28  # Bytes, if max_memory is not given.
WORKSPACE = 2**24  # Bytes of max_memory that are kept for the solver.
SOLVER_COPIES = 28  # Matrices of the size of the metric in the solver; 26 were measured.
STORED_COPIES = 3  # Copies of a stored chunk while it is decoded, as measured.
LEAST_PAIRS = 256  # Pairs of the smallest chunk; less memory than it needs is refused.
VECTORS = 300  # Bytes per pair for the indices, flags and vectors of a pass.
COPIES = 9  # Copies of a difference while a chunk is read and summed, as measured.
SAMPLE_COPIES = 6  # Copies of a difference while a sample of the pairs is solved.
LARGEST_SIDE = 512  # Samples per side of a tile; larger tiles are not faster.
TILE_BYTES = 400  # Bytes per pair of a tile: twice what was measured.
TILE_COPIES = 16  # Copies of the samples of a tile.


def memory_for_shards(max_memory: int | str | None) -> int:
    """Return the bytes of `max_memory` that the workspace leaves; negative if it is too small."""
    total = DEFAULT_MEMORY if max_memory is None else parse_bytes("max_memory", max_memory)
    return total - WORKSPACE


def extra_workspace(block_shapes: Iterable[tuple[int, int]], stored: int) -> int:
    """Return the bytes that are needed beyond WORKSPACE, and not for shards.

    `stored` is the size of a stored chunk of the samples, if they are read from such chunks.
    """
    matrices = 8 * SOLVER_COPIES * sum(n**2 for n, _ in block_shapes)
    return max(0, matrices - WORKSPACE) + max(0, STORED_COPIES * stored - READ_BYTES)


def pairs_per_chunk(samples: SharedSamples, memory: int) -> int:
    """Return how many index pairs a chunk may have; raise ValueError if they are too few."""
    memory -= samples.extra_workspace
    if samples.in_memory:
        # A chunk of many pairs needs no differences, but a pass makes a copy of all samples, and
        # their images where sums are products over samples. Those that were read from disk need
        # memory themselves.
        copies = 3 if samples.counted else 2
        n_pairs = (memory - copies * samples.n_bytes) // VECTORS
        if n_pairs > samples.n_samples:
            return n_pairs
    per_pair = 8 * COPIES * samples.numbers + VECTORS
    _check_enough(memory, LEAST_PAIRS * per_pair, samples.extra_workspace)
    return memory // per_pair


def pairs_per_sample(numbers: int, memory: int) -> int:
    """Return how many differences of so many numbers a sample in memory may have."""
    return max(1, memory // (8 * SAMPLE_COPIES * numbers + VECTORS))


def samples_per_tile(numbers: int, memory: int, extra: int = 0) -> int:
    """Return the largest side of a tile; raise ValueError if it has not even two samples.

    `extra` are the bytes of the memory that are needed for something else.
    """
    per_sample = 8 * TILE_COPIES * numbers
    memory -= extra
    _check_enough(memory, max(2**2 * TILE_BYTES, 2 * per_sample), extra)
    return min(LARGEST_SIDE, int((memory / TILE_BYTES) ** 0.5), memory // per_sample)


def _check_enough(memory: int, least: int, extra: int) -> None:
    if memory < least:
        needed = WORKSPACE + extra
        raise ValueError(
            f"max_memory: expected at least {needed + least:,} bytes, got {needed + memory:,}"
        )
