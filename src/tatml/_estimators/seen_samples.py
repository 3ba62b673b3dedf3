"""What a fit keeps of its samples besides the metric: their mean, and their number.

The mean is subtracted before distances are computed; samples far from the origin, compared to their
differences, would lose digits otherwise. `transform` returns the product of `components_` and the
samples themselves. The number says what a saved model reveals (see `revealed`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.blocks import Blocks
from .._data.sparse import SparseBlock

CENTER = "_center"  # the attribute: one array of shape (n_m, n'_m) per block
N_SAMPLES = "_n_samples"  # the attribute: the number of different samples
MANY = 3  # samples per row of a block that span all rows, unless nearly all of them are repeated


def facts_of(blocks: Blocks, of_kernel: bool) -> dict[str, Any]:
    """Return the number of the samples and their mean, for metrics.

    Sparse samples, and rows of a kernel matrix, have no mean here.
    """
    facts: dict[str, Any] = {N_SAMPLES: _count_distinct(blocks)}
    if not of_kernel and not any(isinstance(array, SparseBlock) for array in blocks.arrays):
        facts[CENTER] = [np.mean(array, axis=0, dtype=np.float64) for array in blocks.arrays]
    return facts


def _count_distinct(blocks: Blocks) -> int:
    """Return the number of different samples, or of all if they are many compared to the rows."""
    sparse = any(isinstance(array, SparseBlock) for array in blocks.arrays)
    few = any(len(blocks) * width < MANY * n for n, width in blocks.block_shapes)
    if sparse or not few:
        return len(blocks)
    rows = range(len(blocks))
    return len({b"".join((array[row] + 0.0).tobytes() for array in blocks.arrays) for row in rows})


def center_of(estimator: Any) -> list[NDArray[np.float64]]:
    """Return the mean of the samples of fit, one array per block; an empty list if unknown."""
    return vars(estimator).get(CENTER, [])
