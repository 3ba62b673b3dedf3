"""The samples that a metric is learnt from: their device, without outliers, in a kernel's space.

Samples are on the host, or on the device of an array of another package. Priors and thresholds
are computed, and problems are solved, on the device of the samples. Before a fit, entries that are
outliers are clipped, and samples that dominate all others are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.base import clone

from .._array import Array, Doubles, Indices, as_double, asarray, foreign_kind, namespace, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .._validation import generator_of
from .._warnings import warn_user
from ..features._kernel_map import Kernel, KernelMap
from .priors import is_wide
from .task import Settings

KernelLike = Kernel | KernelMap | None
TAIL = 0.05  # share of the entries of a column on either side that may be arbitrary
REACH = 0.5  # how far bounds lie outside the two quantiles, relative to their distance
FAR = 3.0  # only columns with entries farther outside, in the same units, are clipped
LEAST_SAMPLES = 10  # with fewer samples, nothing is clipped; with fewer entries, no quantiles
DOMINANT_SHARE = 0.5  # of the squared distances from the medians
FEW = 0.01  # share of the samples that counts as few
MOST_NAMED = 5  # samples that a warning names
CHUNK_NUMBERS = 2**22  # numbers of the columns that are sorted at a time: 32 MB of float64


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


@dataclass(frozen=True)
class KernelSettings:
    """A kernel map to be fitted to all samples and to parts of them.

    Parameters
    ----------
    template : KernelMap
        Its parameters.
    n_landmarks : int
        The number of landmarks; parts with fewer samples have fewer.
    units : {"columns", "common"} or None
        The units of the kernel; None: by the rule of "auto".
    """

    template: KernelMap
    n_landmarks: int
    units: Literal["columns", "common"] | None = None

    def candidates(self) -> list[KernelSettings]:
        """Return the settings with all units that may be chosen."""
        if self.template.units != "auto" or self.template.kernel == "precomputed":
            return [self]
        return [replace(self, units=units) for units in ("columns", "common")]

    def fit(self, blocks: Blocks, rows: Indices | None = None, seed: Any = 0) -> KernelMap:
        """Return the map fitted to samples; `rows` are their columns of a precomputed kernel."""
        return clone(self.template).fit_blocks(
            blocks,
            n_landmarks=self.n_landmarks,
            units=self.units,
            columns=rows,
            random_state=seed,
        )


def read_kernel(
    template: KernelMap | None, blocks: Blocks, samples_name: str = "X"
) -> KernelSettings | None:
    """Return the settings of a kernel after a check for given samples; None without a kernel."""
    if template is None:
        return None
    with named_samples(samples_name):
        try:
            return KernelSettings(template, template.count_landmarks(blocks))
        except (TypeError, ValueError) as error:
            if str(error).startswith("X: "):
                raise
            raise type(error)(f"kernel: {error}") from error


@contextmanager
def named_samples(name: str) -> Iterator[None]:
    """Replace the name X of samples in errors by the name of the argument that holds them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if name == "X" or not str(error).startswith("X: "):
            raise
        raise type(error)(f"{name}{str(error).removeprefix('X')}") from error


def map_samples(
    kernel: KernelSettings | None, blocks: Blocks, settings: Settings, counted: int | None = None
) -> tuple[Blocks, KernelMap | None, int]:
    """Return the samples in the space that the metric is learnt in, and the map to it.

    Landmarks are chosen among the first `counted` samples. The last value is the number of blocks,
    at the end, that are images of the kernel.
    """
    if kernel is None:
        return blocks, None, 0
    with named_samples(settings.samples_name):
        fitted = kernel.fit(blocks[:counted], seed=generator_of(settings.random_state))
    return fitted.map_blocks(blocks), fitted, len(fitted.maps_)


# Outliers


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
    step = max(1, chunk_numbers // n_samples)
    for start in range(0, table.shape[1], step):
        part = slice(start, min(start + step, table.shape[1]))
        columns, more = _clip_columns(as_double(table[:, part]), counted)
        clipped[:, part] = xp.astype(columns, array.dtype, copy=False)
        squares += more
    return xp.reshape(clipped, array.shape), squares


def _clip_columns(columns: Array, counted: Indices) -> tuple[Array, Doubles]:
    xp = namespace(columns)
    some = xp.take(columns, asarray(counted, columns), axis=0)
    ordered = xp.sort(some, axis=0)
    low, high = _find_bounds(some, ordered)
    # Only columns with an entry far outside are clipped.
    extra = (FAR - REACH) / (1 + 2 * REACH)  # in units of the distance of the bounds
    with np.errstate(invalid="ignore"):
        margin = np.where(np.isfinite(low), extra * (high - low), 0.0)
    smallest, largest = to_numpy(ordered[0, :]), to_numpy(ordered[-1, :])
    far = (smallest < low - margin) | (largest > high + margin)
    least, most = np.where(far, low, -np.inf), np.where(far, high, np.inf)
    clipped = xp.clip(columns, asarray(least, columns), asarray(most, columns))
    # The squared distance of each sample from the medians, in units of the bounds.
    n_rows, width = some.shape[0], high - low
    middle = (ordered[(n_rows - 1) // 2, :] + ordered[n_rows // 2, :]) / 2
    used = np.isfinite(width) & (width > 0)
    unit = asarray(np.where(used, width, np.inf), columns)  # other columns count 0
    deviations = (some - middle) / unit
    return clipped, to_numpy(xp.linalg.vecdot(deviations, deviations))


def _find_bounds(columns: Array, ordered: Array) -> tuple[Doubles, Doubles]:
    """Return the lower and the upper bound of each column."""
    places = np.quantile(np.arange(ordered.shape[0]), (TAIL, 0.5, 1 - TAIL), method="nearest")
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
            ends = np.quantile(others, (TAIL, 1 - TAIL), method="nearest")
            low[column] = min(ends[0], middle[column])
            high[column] = max(ends[1], middle[column])
    with np.errstate(invalid="ignore"):
        reach = np.where(np.isfinite(low), REACH * (high - low), 0.0)
    return low - reach, high + reach


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
