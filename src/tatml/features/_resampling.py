"""Downsampling of images: low-pass filter and decimation, as products with banded matrices.

An image of n pixels becomes one of n' pixels that covers the same area, so that the centre of pixel
i lies at (i + ½) n/n' − ½ in units of the old pixels. Its value is a weighted mean of the old
pixels around it. The weights are Keys's cubic kernel, stretched by n/n' to prevent aliasing,
sampled at the old pixels inside the image, and divided by their sum. Constant images do not change.
Rows and columns are filtered one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from .._array import Floats
from ._workspace import Workspace

SUPPORT = 2.0  # half width of the cubic kernel, in pixels of the coarse grid
BAND_ROWS = 16  # rows of a banded matrix that are stored as one dense block


@dataclass(frozen=True)
class Band:
    """The weights of the old pixels from low to high for the new pixels from start to stop."""

    start: int
    stop: int
    low: int
    high: int
    weights: Floats


@dataclass(frozen=True)
class Resampler:
    """Map from images of one size to images of a smaller size.

    Attributes
    ----------
    rows, columns : tuple of Band
        The weights of `rows` have the shape (new, old), those of `columns` (old, new).
    """

    rows: tuple[Band, ...]
    columns: tuple[Band, ...]

    @classmethod
    def between(cls, old: tuple[int, int], new: tuple[int, int]) -> Resampler:
        """Return the resampler from the shape `old` to the shape `new`, both (height, width)."""
        columns = (
            replace(band, weights=np.ascontiguousarray(band.weights.T))
            for band in _bands(old[1], new[1])
        )
        return cls(_bands(old[0], new[0]), tuple(columns))

    def rows_needed(self, top: int, bottom: int) -> tuple[int, int]:
        """Return the first and last row of the old image that the new rows depend on."""
        needed = [band for band in self.rows if band.start < bottom and top < band.stop]
        return needed[0].low, needed[-1].high

    def __call__(
        self, planes: Floats, top: int, bottom: int, out: Floats, workspace: Workspace
    ) -> Floats:
        """Write the new rows from top to bottom into `out`.

        `planes`, of shape (…, rows, width), are the old rows that `rows_needed` returns. The loops
        run over the dense blocks of the banded matrices and skip the zeros.
        """
        first, _ = self.rows_needed(top, bottom)
        tall = workspace.empty("tall", (*planes.shape[:-2], bottom - top, planes.shape[-1]))
        for band in self.rows:
            start, stop = max(band.start, top), min(band.stop, bottom)
            if start < stop:
                weights = band.weights[start - band.start : stop - band.start]
                old = planes[..., band.low - first : band.high - first, :]
                np.matmul(weights, old, out=tall[..., start - top : stop - top, :])
        for band in self.columns:
            old = tall[..., band.low : band.high]
            np.matmul(old, band.weights, out=out[..., band.start : band.stop])
        return out


def scaled_size(size: int, scale: float) -> int:
    """Return the number of pixels at a scale, rounded to the nearest integer, halves up."""
    return floor(size * scale + 0.5)


def _bands(old: int, new: int) -> tuple[Band, ...]:
    starts = range(0, new, BAND_ROWS)
    return tuple(_band(old, new, start, min(start + BAND_ROWS, new)) for start in starts)


def _band(old: int, new: int, start: int, stop: int) -> Band:
    stretch = old / new
    centres = (np.arange(start, stop) + 0.5) * stretch - 0.5
    low = max(0, ceil(centres[0] - SUPPORT * stretch))
    high = min(old, floor(centres[-1] + SUPPORT * stretch) + 1)
    weights = _keys_cubic((np.arange(low, high) - centres[:, None]) / stretch)
    return Band(start, stop, low, high, weights / weights.sum(axis=1, keepdims=True))


def _keys_cubic(x: Floats) -> Floats:
    """Return the interpolation kernel of Keys (1981) with a = −1/2, which is zero from 2 on."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < SUPPORT, far, 0.0))
