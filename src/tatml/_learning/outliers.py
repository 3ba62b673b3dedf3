"""Outliers among the samples of a fit: columns are clipped, or wild cells replaced by the median.

Samples that dominate all others are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.utils import gen_batches

from .._array import Array, Doubles, Indices, as_double, asarray, namespace, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .._warnings import warn_user

TAIL = 0.05  # share of the entries of a column on either side that may be arbitrary
REACH = 0.5  # how far bounds lie outside the two quantiles, relative to their distance
FAR = 3.0  # only columns with entries farther outside, in the same units, are clipped
WILD_TAIL = 0.1  # the quantiles of cells that are replaced; FAR says how far outside these lie
LEAST_SAMPLES = 10  # with fewer samples, nothing is clipped; with fewer entries, no quantiles
DOMINANT_SHARE = 0.5  # of the squared distances from the medians
FEW = 0.01  # share of the samples that counts as few
MOST_NAMED = 5  # samples that a warning names
CHUNK_NUMBERS = 2**22  # numbers of the columns that are sorted at a time: 32 MB of float64

# ---- Clipped columns ----


def clip_outliers(blocks: Blocks, counted: Indices, name: str = "X") -> Blocks:
    """Return the samples with the entries of each column clipped; warn of samples that dominate.

    The bounds are q05 − w/2 and q95 + w/2, with the 5 % and 95 % quantiles of the column over the
    rows `counted`, and w = q95 − q05. Only columns with entries below q05 − 3w or above q95 + 3w
    are clipped. If most entries of a column are equal, as in counts with many zeros, the quantiles
    are those of the other entries; of fewer than ten, the farthest is compared with the second.
    """
    if len(counted) < LEAST_SAMPLES:
        return blocks
    blocks_and_squares = [_clip_block(array, counted) for array in blocks.arrays]
    squares = np.sum([part for _, part in blocks_and_squares], axis=0)
    _warn_of_dominant(squares, counted, name)
    return Blocks(*(clipped for clipped, _ in blocks_and_squares))


def _clip_block(array: Any, counted: Indices) -> tuple[Any, Doubles]:
    """Return a block with clipped columns, and what each counted sample is away from the medians.

    This is its squared distance in units of the bounds.
    """
    if not isinstance(array, SparseBlock):
        return _clip_dense(array, counted)
    parts = [_clip_columns(columns, counted) for _, columns in array.chunks()]
    table = hstack([csr_array(clipped) for clipped, _ in parts], format="csr")
    return SparseBlock(table), np.sum([squares for _, squares in parts], axis=0)


def _clip_dense(
    array: Array, counted: Indices, chunk_numbers: int = CHUNK_NUMBERS
) -> tuple[Array, Doubles]:
    """Clip a dense block, some columns at a time: their sorted copies need memory."""
    xp, n_samples = namespace(array), array.shape[0]
    table = xp.reshape(array, (n_samples, -1))
    clipped, squares = xp.empty_like(table), np.zeros(len(counted))
    for part in gen_batches(table.shape[1], max(1, chunk_numbers // n_samples)):
        columns, more = _clip_columns(as_double(table[:, part]), counted)
        clipped[:, part] = xp.astype(columns, array.dtype, copy=False)
        squares += more
    return xp.reshape(clipped, array.shape), squares


def _clip_columns(columns: Array, counted: Indices) -> tuple[Array, Doubles]:
    xp = namespace(columns)
    some = xp.take(columns, asarray(counted, columns), axis=0)
    ordered = xp.sort(some, axis=0)
    low, high = _find_bounds(some, ordered, TAIL, REACH)
    # Only columns with an entry far outside are clipped.
    extra = (FAR - REACH) / (1 + 2 * REACH)  # in units of the distance of the bounds
    with np.errstate(invalid="ignore"):
        margin = np.where(np.isfinite(low), extra * (high - low), 0.0)
    smallest, largest = to_numpy(ordered[0, :]), to_numpy(ordered[-1, :])
    far = (smallest < low - margin) | (largest > high + margin)
    least, most = np.where(far, low, -np.inf), np.where(far, high, np.inf)
    clipped = xp.clip(columns, asarray(least, columns), asarray(most, columns))
    # The squared distance of each sample from the medians, in units of the bounds.
    width = high - low
    middle = _medians(ordered)
    used = np.isfinite(width) & (width > 0)
    unit = asarray(np.where(used, width, np.inf), columns)  # other columns count 0
    deviations = (some - middle) / unit
    return clipped, to_numpy(xp.linalg.vecdot(deviations, deviations))


def _medians(ordered: Array) -> Array:
    n_rows = ordered.shape[0]
    return (ordered[(n_rows - 1) // 2, :] + ordered[n_rows // 2, :]) / 2


def _find_bounds(
    columns: Array, ordered: Array, tail: float, reach: float
) -> tuple[Doubles, Doubles]:
    """Return the bounds of each column, `reach` times the distance of two quantiles outside."""
    places = np.quantile(np.arange(ordered.shape[0]), (tail, 0.5, 1 - tail), method="nearest")
    low, middle, high = (np.array(to_numpy(ordered[int(place), :])) for place in places)
    xp = namespace(columns)
    usual = columns == asarray(middle, columns)
    count = to_numpy(xp.sum(xp.astype(usual, xp.int64), axis=0))
    for column in np.flatnonzero(2 * count > columns.shape[0]):
        entries = to_numpy(columns[:, int(column)])
        others = entries[entries != middle[column]]
        if len(others) < 2:
            low[column], high[column] = -np.inf, np.inf
        elif len(others) < LEAST_SAMPLES:  # up to the second farthest
            second = np.sort(np.abs(others - middle[column]))[-2]
            low[column], high[column] = middle[column] - second, middle[column] + second
        else:
            ends = np.quantile(others, (tail, 1 - tail), method="nearest")
            low[column] = min(ends[0], middle[column])
            high[column] = max(ends[1], middle[column])
    with np.errstate(invalid="ignore"):
        margin = np.where(np.isfinite(low), reach * (high - low), 0.0)
    return low - margin, high + margin


def _warn_of_dominant(squares: Doubles, numbers: Indices, name: str) -> None:
    """Warn if a few samples make up most of the squared distances from the medians."""
    order = np.argsort(squares)[::-1][: max(1, int(FEW * len(squares)))]
    shares = np.cumsum(squares[order]) / max(float(np.sum(squares)), np.finfo(float).tiny)
    if shares[-1] <= DOMINANT_SHARE:
        return
    needed = 1 + int(np.searchsorted(shares, DOMINANT_SHARE))
    named = ", ".join(map(str, np.sort(numbers[order[:needed]])[:MOST_NAMED]))
    more = "" if needed <= MOST_NAMED else f" and {needed - MOST_NAMED} more"
    warn_user(
        f"{name}: samples {named}{more} are so far from all others that they make up "
        f"{100 * shares[needed - 1]:.0f} % of the squared distances; check them, or remove them"
    )


# ---- Replaced cells ----


def find_cell_bounds(blocks: Blocks, counted: Indices) -> list[Doubles] | None:
    """Return the bounds of cells and the medians that replace those outside, or None.

    The bounds are q10 − 3w and q90 + 3w, with w = q90 − q10, the quantiles being those of
    `clip_outliers` otherwise. Each array, of shape (3, n, n'), holds the lower bounds, the medians
    and the upper bounds of a block. None: no cell is outside, or samples are few or sparse.
    """
    arrays: tuple[Any, ...] = blocks.arrays
    if len(counted) < LEAST_SAMPLES or any(isinstance(array, SparseBlock) for array in arrays):
        return None
    found = [_bounds_of_block(array, counted) for array in arrays]
    return [bounds for bounds, _ in found] if any(wild for _, wild in found) else None


def _bounds_of_block(array: Array, counted: Indices) -> tuple[Doubles, bool]:
    """Return the bounds of a block, and whether a counted sample has a cell outside."""
    xp, n_samples = namespace(array), array.shape[0]
    table = xp.reshape(array, (n_samples, -1))
    bounds, is_wild = np.empty((3, table.shape[1])), False
    for part in gen_batches(table.shape[1], max(1, CHUNK_NUMBERS // n_samples)):
        some = xp.take(as_double(table[:, part]), asarray(counted, array), axis=0)
        ordered = xp.sort(some, axis=0)
        low, high = _find_bounds(some, ordered, WILD_TAIL, FAR)
        bounds[:, part] = low, to_numpy(_medians(ordered)), high
        smallest, largest = to_numpy(ordered[0, :]), to_numpy(ordered[-1, :])
        is_wild |= bool(np.any((smallest < low) | (largest > high)))
    return bounds.reshape(3, *array.shape[1:]), is_wild


def replace_cells(blocks: Blocks, bounds: Sequence[Doubles]) -> Blocks:
    """Return samples with the median of their column in place of each cell outside the bounds."""
    parts = zip(blocks.arrays, bounds, strict=True)
    return blocks._with_arrays([_replace_in_block(array, of_block) for array, of_block in parts])


def _replace_in_block(array: Array, bounds: Doubles) -> Array:
    xp = namespace(array)
    low, middle, high = (xp.astype(asarray(part, array), array.dtype) for part in bounds)
    outside = (array < low) | (array > high)
    return xp.where(outside, middle, array) if bool(xp.any(outside)) else array
