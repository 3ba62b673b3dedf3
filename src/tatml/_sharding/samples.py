"""The samples that pairs point at, in memory or on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import Array, contiguous
from .._data.blocks import Blocks, as_blocks, check_finite
from .._data.checks import check_magnitude
from .._data.storage import is_mapped, is_stored, read_rows, sendable
from .._optim.pair_sums import PairSums

__all__ = ["Samples", "as_samples", "laid_out"]

SMALL_SHARE = 0.2  # of the memory: samples on disk that take less are read once


@dataclass(frozen=True)
class Samples:
    """The samples that pairs point at.

    Parameters
    ----------
    arrays : tuple of M arrays, in memory or not
        Samples as they were given; transposed and centred when they are in memory.
    block_shapes : tuple of M pairs
        (n_m, n'_m).
    n_samples : int
        How many.
    in_memory : bool
        Whether the arrays are checked and laid out for sums.
    counted : bool
        Whether they are there because they were read, so that their memory counts.
    """

    arrays: tuple[Any, ...]
    block_shapes: tuple[tuple[int, int], ...]
    n_samples: int
    in_memory: bool
    counted: bool = False

    @property
    def n_bytes(self) -> int:
        """What they take in memory."""
        return 8 * self.n_samples * self.numbers

    @property
    def numbers(self) -> int:
        """Σ n_m n'_m."""
        return sum(n * width for n, width in self.block_shapes)

    def sums(self, index: NDArray[np.intp]) -> PairSums:
        """The differences of index pairs (K, 2)."""
        if self.in_memory:
            first, second = (np.ascontiguousarray(column) for column in index.T)
            return PairSums.from_samples(self.arrays, first, second)
        rows, position = np.unique(index, return_inverse=True)
        position = position.reshape(index.shape)
        features = self._features([read_rows(array, rows) for array in self.arrays], rows)
        return PairSums.from_samples(features, position[:, 0], position[:, 1])

    def runs(self, *parts: slice) -> list[Array]:
        """Runs of samples one after the other, laid out for sums."""
        arrays = [np.concatenate([array[part] for part in parts]) for array in self.arrays]
        if self.in_memory:
            return arrays
        numbers = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        return self._features(arrays, numbers)

    def _features(self, arrays: Sequence[Any], numbers: NDArray[np.intp]) -> list[Array]:
        blocks = Blocks(*arrays)
        check_finite(blocks, "X", numbers)
        check_magnitude(blocks, "X")
        return laid_out(blocks)


def laid_out(blocks: Blocks) -> list[Array]:
    """Transposed and centred features, as `PairSums` has them."""
    centred = [array - array.mean(axis=0, dtype=np.float64) for array in blocks.arrays]
    return [contiguous(np.matrix_transpose(block)) for block in centred]


def as_samples(X: Any, *, read_in_parts: bool, memory: int) -> Samples:
    """What a user gives as X; with `read_in_parts`, a `numpy.memmap` counts as on disk.

    What is on disk is brought into memory where it takes a small part of that.
    """
    arrays = X.arrays if isinstance(X, Blocks) else (X,)
    on_disk = is_stored(X) or (read_in_parts and all(map(is_mapped, arrays)))
    if not on_disk:
        blocks = as_blocks(X)
        check_magnitude(blocks, "X")
        return Samples(tuple(laid_out(blocks)), blocks.block_shapes, len(blocks), True)
    shapes = {tuple(int(size) for size in array.shape) for array in arrays}
    for shape in shapes:
        if len(shape) not in (2, 3) or 0 in shape:
            raise ValueError(
                "X: expected an array of vectors (n_samples, n) or of matrices (n_samples, n, n'), "
                f"got shape {shape}"
            )
    block_shapes = tuple((*array.shape[1:], 1)[:2] for array in arrays)
    n_samples = int(arrays[0].shape[0])
    stored = Samples(tuple(map(sendable, arrays)), block_shapes, n_samples, False)
    if stored.n_bytes > SMALL_SHARE * memory:
        return stored
    features = stored.runs(slice(0, n_samples))
    return Samples(tuple(features), block_shapes, n_samples, True, counted=True)
