"""The features of pixels by name, and how to compute them on a stack of images.

Planes are arrays (n_images, height, width). Pixels outside the image are equal to the nearest pixel
inside, so that the first difference across the border is zero. With D the first differences,
including those zeros, and D′ the same shifted by one, Ix = (D + D′)/2 and Ixx = D′ − D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, cos, nan, pi, sin
from typing import Any

import numpy as np
import scipy.ndimage

from .._array import Floats
from ._inputs import as_tuple
from ._workspace import Workspace

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in ITU-R BT.601
COLOURS = ("red", "green", "blue")
GABOR_FREQUENCY, GABOR_ORIENTATIONS = 0.25, 4
GABOR_SPREAD = 0.56  # σ times the frequency, which gives a bandwidth of one octave
MIN_FREQUENCY = 0.01  # lowest frequency: below it, the kernel is larger than most images
GABOR_CUT = 3.0  # radius of the kernel in units of σ


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


def _write_intensity(strip: Strip, out: Floats) -> None:
    out[...] = strip.intensity


def _write_first_x(strip: Strip, out: Floats) -> None:
    left, right = strip.across
    _write_first(left, right, out.reshape(-1))


def _write_second_x(strip: Strip, out: Floats) -> None:
    left, right = strip.across
    _write_second(left, right, out.reshape(-1))


def _write_first_y(strip: Strip, out: Floats) -> None:
    _write_first(*strip.down, out)


def _write_second_y(strip: Strip, out: Floats) -> None:
    _write_second(*strip.down, out)


def _write_first(before: Floats, after: Floats, out: Floats) -> None:
    np.add(before, after, out=out)  # twice the derivative, see `Feature.factor`
    np.abs(out, out=out)


def _write_second(before: Floats, after: Floats, out: Floats) -> None:
    np.subtract(after, before, out=out)
    np.abs(out, out=out)


def _write_magnitude(strip: Strip, out: Floats) -> None:
    np.hypot(*strip.gradient, out=out)


def _write_orientation(strip: Strip, out: Floats) -> None:
    horizontal, vertical = strip.gradient
    np.arctan2(vertical, horizontal, out=out)


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
    write: Callable[[Strip, Floats], None]
    reach: int = 0
    factor: float = 1.0
    degree: int = 1

    def unit(self, pixel: float) -> float:
        """Return the unit of the written numbers, given the unit of the pixels."""
        return self.factor * pixel**self.degree


def _colour(channel: int) -> Callable[[Strip, Floats], None]:
    def write(strip: Strip, out: Floats) -> None:
        out[...] = strip.planes[channel]

    return write


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
        Feature("intensity", _write_intensity),
        *(Feature(name, _colour(channel)) for channel, name in enumerate(COLOURS)),
        Feature("|Ix|", _write_first_x, factor=0.5),
        Feature("|Iy|", _write_first_y, reach=1, factor=0.5),
        Feature("|Ixx|", _write_second_x),
        Feature("|Iyy|", _write_second_y, reach=1),
        Feature("magnitude", _write_magnitude, reach=1, factor=0.5),
        Feature("orientation", _write_orientation, reach=1, degree=0),
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
