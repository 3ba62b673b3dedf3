"""The samples that all shards share, in memory or on disk, and the division of `max_memory`.

The solver gets a workspace: a fixed number of bytes, or more for metrics whose matrices need more.
A stored chunk of samples that is read and decoded as a whole gets memory of its own. The rest is
for one chunk of pairs, or one tile of all pairs, with the copies that a pass over it makes.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import Array, to_numpy
from .._data.blocks import Blocks, as_blocks, as_center, check_finite_entries, check_magnitude
from .._data.storage import (
    READ_BYTES,
    is_mapped,
    is_stored,
    parse_bytes,
    read_rows,
    sendable,
    stored_bytes,
)
from .._optim.layout import lay_out, signs_of, slices
from .._optim.sums import PairSums
from .base import SHARD_LIMITS

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
# The other choice for samples on a GPU, in the words of an error message.
IN_MEMORY = (
    ", or give pairs and similar as arrays in memory, without max_memory, client and device: "
    "these are computed where X is"
)
SMALL_SHARE = 0.2  # Samples on disk are read once if they need at most this share of the memory.


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
    """Return the largest number of pairs of a sample in memory."""
    return max(1, memory // (8 * SAMPLE_COPIES * numbers + VECTORS))


def samples_per_tile(numbers: int, memory: int, extra: int = 0) -> int:
    """Return the largest side of a tile; raise ValueError if it has not even two samples.

    `extra` are the bytes that are needed for something else, which the error counts too.
    """
    per_sample = 8 * TILE_COPIES * numbers
    _check_enough(memory, max(2**2 * TILE_BYTES, 2 * per_sample), extra)
    return min(LARGEST_SIDE, int((memory / TILE_BYTES) ** 0.5), memory // per_sample)


def _check_enough(memory: int, least: int, extra: int) -> None:
    if memory < least:
        needed = WORKSPACE + extra
        raise ValueError(
            f"max_memory: expected at least {needed + least:,} bytes, got {needed + memory:,}"
        )


@dataclass(frozen=True)
class SharedSamples:
    """The samples that index pairs refer to.

    Parameters
    ----------
    arrays : tuple of M arrays, in memory or not
        In memory: checked features of shape (n_samples, n'_m, n_m), as `lay_out` returns them. On
        disk: the arrays as they were given.
    block_shapes : tuple of M pairs
        (n_m, n'_m).
    n_samples : int
        The number of samples.
    in_memory : bool
        Whether `arrays` are in memory.
    counted : bool
        Whether they were read from disk, so that they are part of `max_memory`.
    stored : int
        The bytes of a stored chunk of them, which is read and decoded as a whole.
    center : list of M arrays of shape (n_m, n'_m), or None
        The centre of a midpoint. With it, there are 2M features and block shapes.
    """

    arrays: tuple[Any, ...]
    block_shapes: tuple[tuple[int, int], ...]
    n_samples: int
    in_memory: bool
    counted: bool = False
    stored: int = 0
    center: Sequence[Array] | None = None

    @property
    def signs(self) -> tuple[int, ...]:
        """The signs of the blocks of their features."""
        return signs_of(len(self.block_shapes) // (1 if self.center is None else 2), self.center)

    @property
    def extra_workspace(self) -> int:
        """The bytes of `max_memory` that the solver and the reading of samples need besides."""
        return extra_workspace(self.block_shapes, self.stored)

    @property
    def n_bytes(self) -> int:
        """The size of all samples in float64."""
        return 8 * self.n_samples * self.numbers

    @property
    def numbers(self) -> int:
        """Σ n_m n'_m, the number of features of a sample."""
        return sum(n * width for n, width in self.block_shapes)

    def sums(self, index: NDArray[np.intp]) -> PairSums:
        """Return the sums over pairs, of shape (K, 2) and stored column by column.

        No other samples are read from disk.
        """
        if self.in_memory:
            return self._sums(self.arrays, index.T)
        rows, position = np.unique(index, return_inverse=True)
        position = position.reshape(index.shape)
        features = self._checked_features([read_rows(array, rows) for array in self.arrays], rows)
        return self._sums(features, position.T)

    def _sums(self, features: Sequence[Array], sides: NDArray[np.intp]) -> PairSums:
        return PairSums.of(features, *sides, limits=SHARD_LIMITS, signs=self.signs).compact()

    def runs(self, *parts: slice) -> list[Array]:
        """Return the features of some slices of the samples, one after the other."""
        arrays = [np.concatenate([array[part] for part in parts]) for array in self.arrays]
        if self.in_memory:
            return arrays
        rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        return self._checked_features(arrays, rows)

    def _checked_features(self, arrays: Sequence[Any], rows: NDArray[np.intp]) -> list[Array]:
        """Return the features of samples that were read, which are given with their indices."""
        blocks = Blocks(*arrays)
        check_finite_entries(blocks, "X", rows)
        check_magnitude(blocks, "X")
        return lay_out(blocks.arrays, centre=True, midpoint=self.center)


def as_shared_samples(
    X: Any, *, read_in_parts: bool, memory: int, midpoint: Any = False
) -> SharedSamples:
    """Return the samples that a user gave as X, with the centre that `midpoint` asks for.

    With `read_in_parts`, a `numpy.memmap` is on disk like a zarr array; otherwise it is read like
    any array. Samples on disk are read into memory if they need a small share of it.
    """
    arrays = X.arrays if isinstance(X, Blocks) else (X,)
    on_disk = is_stored(X) or (read_in_parts and all(map(is_mapped, arrays)))
    if not on_disk:
        blocks = as_blocks(X, alternative=IN_MEMORY)
        check_magnitude(blocks, "X")
        center = as_center(midpoint, blocks.block_shapes, lambda: sample_means(blocks.arrays))
        features = tuple(lay_out(blocks.arrays, centre=True, midpoint=center))
        shapes = blocks.block_shapes * (1 if center is None else 2)
        return SharedSamples(features, shapes, len(blocks), in_memory=True, center=center)
    for array in arrays:
        shape = tuple(int(size) for size in array.shape)
        if len(shape) not in (2, 3) or 0 in shape:
            raise ValueError(
                "X: expected an array of vectors (n_samples, n) or of matrices (n_samples, n, n'), "
                f"got shape {shape}"
            )
    block_shapes = tuple((*array.shape[1:], 1)[:2] for array in arrays)
    center = as_center(midpoint, block_shapes, lambda: sample_means(arrays))
    block_shapes *= 1 if center is None else 2
    n_samples = int(arrays[0].shape[0])
    chunk = sum(map(stored_bytes, arrays))
    given = tuple(map(sendable, arrays))
    stored = SharedSamples(
        given, block_shapes, n_samples, in_memory=False, stored=chunk, center=center
    )
    if read_in_parts:  # a limit that the user has set
        memory -= extra_workspace(block_shapes, 0)
    if stored.n_bytes > SMALL_SHARE * memory:
        return stored
    read = tuple(stored.runs(slice(0, n_samples)))
    return SharedSamples(read, block_shapes, n_samples, in_memory=True, counted=True, center=center)


def sample_means(arrays: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return the mean of the samples of each array, in memory or not, of shape (n_m, n'_m)."""
    means = []
    for array in arrays:
        n_samples, *shape = array.shape
        step = max(1, READ_BYTES // (8 * int(np.prod(shape))))
        total = np.zeros(shape)
        for part in slices(n_samples, step):
            total += np.sum(to_numpy(array[part]), axis=0, dtype=np.float64)
        means.append((total / n_samples).reshape(shape[0], -1))
    return means
