"""Planes of pixels: buffers that are reused, downsampling, and the features of pixels by name.

An image of n pixels becomes one of n' pixels that covers the same area, so that the centre of pixel
i lies at (i + ½) n/n' − ½ in units of the old pixels. Its value is a weighted mean of the old
pixels around it. The weights are Keys's cubic kernel, stretched by n/n' to prevent aliasing,
sampled at the old pixels inside the image, and divided by their sum. Constant images do not change.
Rows and columns are filtered one after the other.

Planes are arrays (n_images, height, width). Pixels outside the image are equal to the nearest pixel
inside, so that the first difference across the border is zero. With D the first differences,
including those zeros, and D′ the same shifted by one, Ix = (D + D′)/2 and Ixx = D′ − D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, cos, floor, nan, pi, prod, sin
from typing import Any

import numpy as np
import scipy.ndimage
from numpy.typing import NDArray

from .._array import Floats
from ._inputs import as_tuple

SUPPORT = 2.0  # half width of the cubic kernel, in pixels of the coarse grid
BAND_ROWS = 16  # rows of a banded matrix that are stored as one dense block
LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in ITU-R BT.601
COLOURS = ("red", "green", "blue")
GABOR_FREQUENCY, GABOR_ORIENTATIONS = 0.25, 4
GABOR_SPREAD = 0.56  # σ times the frequency, which gives a bandwidth of one octave
MIN_FREQUENCY = 0.01  # lowest frequency: below it, the kernel is larger than most images
GABOR_CUT = 3.0  # radius of the kernel in units of σ


class Workspace:
    """Named buffers that are reused for the next array of the same name.

    Allocating each large array anew would cost more than the arithmetic on it. Each thread needs
    its own workspace.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.float64]] = {}

    def empty(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an uninitialised array, which overwrites the previous one of this name."""
        size = prod(shape)
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name][:size].reshape(shape)


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
    """Return the matrix (new, old) that resamples a row of pixels, as bands."""
    stretch, bands = old / new, []
    for start in range(0, new, BAND_ROWS):
        stop = min(start + BAND_ROWS, new)
        centres = (np.arange(start, stop) + 0.5) * stretch - 0.5
        low = max(0, ceil(centres[0] - SUPPORT * stretch))
        high = min(old, floor(centres[-1] + SUPPORT * stretch) + 1)
        weights = _keys_cubic((np.arange(low, high) - centres[:, None]) / stretch)
        bands.append(Band(start, stop, low, high, weights / weights.sum(axis=1, keepdims=True)))
    return tuple(bands)


def _keys_cubic(x: Floats) -> Floats:
    """Return the interpolation kernel of Keys (1981) with a = −1/2, which is zero from 2 on."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < SUPPORT, far, 0.0))


@dataclass(frozen=True)
class Strip:
    """Some rows of a stack of images of one size, from which features are computed.

    Attributes
    ----------
    planes : array of shape (n_channels, n_images, n_rows, width)
        The pixels of 1 or 3 channels.
    top, height : int
        The position of the first row in the image, and the height of the image.
    workspace : Workspace
        Memory for intermediate results that several features share.
    """

    planes: Floats
    top: int
    height: int
    workspace: Workspace

    @cached_property
    def intensity(self) -> Floats:
        """The only channel, or the luma of three channels."""
        if len(self.planes) == 1:
            return self.planes[0]
        intensity = self.workspace.empty("intensity", self.planes.shape[1:])
        flat = self.planes.reshape(len(LUMA), -1)
        np.matmul(np.array(LUMA), flat, out=intensity.reshape(-1))
        return intensity

    @cached_property
    def across(self) -> tuple[Floats, Floats]:
        """First differences along x to the left and to the right of each pixel, flattened."""
        flat = self.intensity.reshape(-1)
        steps = self.workspace.empty("across", (len(flat) + 1,))
        np.subtract(flat[1:], flat[:-1], out=steps[1:-1])
        steps[:: self.planes.shape[-1]] = 0.0  # from the end of a row to the start of the next one
        return steps[:-1], steps[1:]

    @cached_property
    def down(self) -> tuple[Floats, Floats]:
        """First differences along y above and below each pixel."""
        n_images, n_rows, width = self.intensity.shape
        steps = self.workspace.empty("down", (n_images, n_rows + 1, width))
        np.subtract(self.intensity[:, 1:], self.intensity[:, :-1], out=steps[:, 1:-1])
        steps[:, 0] = steps[:, -1] = 0.0
        return steps[:, :-1], steps[:, 1:]

    @cached_property
    def gradient(self) -> tuple[Floats, Floats]:
        """Twice the absolute first derivatives, 2 |Ix| and 2 |Iy|."""
        values = self.workspace.empty("gradient", (2, *self.intensity.shape))
        FEATURES["|Ix|"].write(self, values[0])
        FEATURES["|Iy|"].write(self, values[1])
        return values[0], values[1]


Writer = Callable[[Strip, Floats], object]


def _difference(steps: str, combine: np.ufunc) -> Writer:
    """Return what writes |combine(after, before)| of the steps "across" or "down" at each pixel."""

    def write(strip: Strip, out: Floats) -> None:
        before, after = getattr(strip, steps)
        out = out.reshape(before.shape)
        combine(after, before, out=out)
        np.abs(out, out=out)

    return write


def _write_x(strip: Strip, out: Floats) -> None:
    width = out.shape[-1]
    out[...] = np.arange(width) / (width - 1)


def _write_y(strip: Strip, out: Floats) -> None:
    rows = strip.top + np.arange(out.shape[-2])
    out[...] = rows[:, None] / (strip.height - 1)


@dataclass(frozen=True)
class Feature:
    """A feature: one number per pixel.

    Attributes
    ----------
    name : str
    write : callable
        Computes the feature of a strip, and writes it into an array (n_images, n_rows, width).
    reach : int
        The number of rows above and below a pixel that its value depends on.
    factor : float
        The factor that turns the written numbers into the feature.
    degree : int
        1 if the feature has the unit of the pixels, 0 if it has no unit.
    """

    name: str
    write: Writer
    reach: int = 0
    factor: float = 1.0
    degree: int = 1

    def unit(self, pixel: float) -> float:
        """Return the unit of the written numbers, given the unit of the pixels."""
        return self.factor * pixel**self.degree


def _colour(channel: int) -> Writer:
    return lambda strip, out: np.copyto(out, strip.planes[channel])


def _gabor(frequency: float, angle: float) -> Feature:
    """Return the feature |Gabor response|: an isotropic Gaussian times a wave, with mean zero."""
    radius = ceil(GABOR_CUT * GABOR_SPREAD / frequency)
    steps = np.arange(-radius, radius + 1)
    gauss = np.exp(-0.5 * (steps * frequency / GABOR_SPREAD) ** 2)
    gauss /= gauss.sum()
    along_x = gauss * np.exp(2j * pi * frequency * cos(angle) * steps)
    along_y = gauss * np.exp(2j * pi * frequency * sin(angle) * steps)
    constant = along_x.sum() * along_y.sum()  # response to a constant image

    def write(strip: Strip, out: Floats) -> None:
        wave = _convolve(strip.intensity, along_y, along_x)
        np.abs(wave - constant * _convolve(strip.intensity, gauss, gauss), out=out)

    return Feature(f"gabor:{frequency:g}:{angle * 180 / pi:g}°", write, radius)


def _convolve(planes: Floats, along_y: Floats, along_x: Floats) -> Floats:
    planes = scipy.ndimage.convolve1d(planes, along_y, axis=1, mode="nearest")
    return scipy.ndimage.convolve1d(planes, along_x, axis=2, mode="nearest")


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("intensity", lambda strip, out: np.copyto(out, strip.intensity)),
        *(Feature(name, _colour(channel)) for channel, name in enumerate(COLOURS)),
        # The sum of two steps is twice the derivative, see `Feature.factor`.
        Feature("|Ix|", _difference("across", np.add), factor=0.5),
        Feature("|Iy|", _difference("down", np.add), reach=1, factor=0.5),
        Feature("|Ixx|", _difference("across", np.subtract)),
        Feature("|Iyy|", _difference("down", np.subtract), reach=1),
        Feature(
            "magnitude",
            lambda strip, out: np.hypot(*strip.gradient, out=out),
            reach=1,
            factor=0.5,
        ),
        Feature(
            "orientation",
            lambda strip, out: np.arctan2(*strip.gradient[::-1], out=out),
            reach=1,
            degree=0,
        ),
        Feature("x", _write_x, degree=0),
        Feature("y", _write_y, degree=0),
    )
}


def check_features(names: Any) -> tuple[Feature, ...]:
    """Return the features with these names; "color" and "gabor" stand for several features."""
    listed = as_tuple("features", names, "a sequence of at least one name")
    features = tuple(feature for name in listed for feature in _features_of(name))
    found = [feature.name for feature in features]
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"features: expected different names, got {name!r} twice in {names!r}")
    return features


def _features_of(name: Any) -> tuple[Feature, ...]:
    if isinstance(name, str):
        if name in FEATURES:
            return (FEATURES[name],)
        if name == "color":
            return tuple(FEATURES[colour] for colour in COLOURS)
        if name.partition(":")[0] == "gabor":
            return _gabor_bank(name)
    listed = ", ".join(repr(known) for known in (*FEATURES, "color", "gabor"))
    raise ValueError(f"features: expected names from {listed}, got {name!r}")


def _gabor_bank(name: str) -> tuple[Feature, ...]:
    """Return the features of a name "gabor" or "gabor:frequency:orientations"."""
    frequency, orientations = GABOR_FREQUENCY, GABOR_ORIENTATIONS
    if name != "gabor":
        try:
            _, first, second = name.split(":")
            frequency, orientations = float(first), int(second)
        except ValueError:
            frequency = nan
    if not (MIN_FREQUENCY <= frequency <= 0.5 and orientations >= 1):
        raise ValueError(
            "features: expected 'gabor' or 'gabor:frequency:orientations' with a frequency from "
            f"{MIN_FREQUENCY} to 0.5 cycles per pixel and at least one orientation, got {name!r}"
        )
    return tuple(_gabor(frequency, pi * k / orientations) for k in range(orientations))
