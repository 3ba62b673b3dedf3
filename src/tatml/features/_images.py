"""Covariance descriptors: images as covariance matrices of the features of their pixels.

An image of n pixels becomes one of n' pixels that covers the same area, so that the centre of pixel
i lies at (i + ½) n/n' − ½ in units of the old pixels. Its value is a weighted mean of the old
pixels around it. The weights are Keys's cubic kernel, stretched by n/n' to prevent aliasing,
sampled at the old pixels inside the image, and divided by their sum. Constant images do not change.
Rows and columns are filtered one after the other.

Planes are arrays (n_images, height, width). Pixels outside the image are equal to the nearest pixel
inside, so that the first difference across the border is zero. With D the first differences,
including those zeros, and D′ the same shifted by one, Ix = (D + D′)/2 and Ixx = D′ − D.

Images are processed in chunks, and large images in strips of rows, so that the features in memory
fit into the cache of a processor. Only sums over the pixels are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import ceil, cos, floor, nan, pi, prod, sin
from typing import Any, Literal

import numpy as np
import scipy.ndimage
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import gen_batches

from .._array import Floats, symmetrised
from .._data.blocks import Blocks
from .._validation import (
    check_count,
    check_finite,
    check_flag,
    check_jobs,
    check_not_negative,
    check_number,
    check_two,
)
from ._inputs import ImageGroup, StatelessTransformer, as_tuple, read_images
from ._shrinkage import (
    Moments,
    Shrinkage,
    add_diagonal,
    centre,
    check_shrinkage,
    estimate,
    sum_products,
    sum_quartics,
)

SINGULAR = 1e-14  # eigenvalues of a correlation matrix up to this one count as zero


@dataclass(eq=False, repr=False)
class CovarianceDescriptor(StatelessTransformer):
    """Covariance matrix of the features of the pixels of an image.

    The features of a pixel are its intensity and derivatives, for example. The d × d covariance
    matrix of these features over all pixels is the descriptor of the image. It does not change
    when a constant is added to the image, and images of different sizes can be compared. Several
    scales or regions give several matrices per sample: `Blocks`.

    Nothing is learnt: `fit` only checks its arguments, and `transform` works without it. The
    matrices are positive definite, so that their logarithm exists.

    Parameters
    ----------
    features : sequence of str, default=("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
        The names of the features:

        - ``"intensity"``: the grey value; for colour images the luma
          0.299 red + 0.587 green + 0.114 blue;
        - ``"red"``, ``"green"``, ``"blue"``: the channels, all three as ``"color"``;
        - ``"|Ix|"``, ``"|Iy|"``: absolute first derivatives of the intensity in x and in y
          direction, central differences with the filter (−1, 0, 1)/2;
        - ``"|Ixx|"``, ``"|Iyy|"``: absolute second derivatives, filter (1, −2, 1);
        - ``"magnitude"``: √(Ix² + Iy²); ``"orientation"``: the angle arctan(|Iy| / |Ix|) from 0
          to π/2, and 0 where there is no gradient;
        - ``"x"``, ``"y"``: column / (width − 1) and row / (height − 1), from 0 to 1 over the
          whole image;
        - ``"gabor"``: the moduli of 4 Gabor responses, at 0.25 cycles per pixel and angles of
          0°, 45°, 90° and 135°; ``"gabor:0.1:6"``: of 6 responses at 0.1 cycles per pixel. The
          Gaussian is isotropic with σ = 0.56 / frequency, cut at 3σ; the wave has mean zero.

        Pixels outside the image have the value of the nearest pixel inside.
    scales : sequence of float, default=(1.0, 0.5)
        The scales at which the features are computed, above 0 and up to 1, one block per scale.
        The sides of a smaller image are rounded to the nearest integer. Its pixels are weighted
        means with Keys's cubic kernel, stretched to the new pixel distance, which is the
        anti-aliasing filter; at the border the weights inside the image are divided by their sum.
    regions : tuple of int, default=(1, 1)
        The rows and columns of the grid that divides the image, one block per region.
        Derivatives near an edge of the grid use the pixels on both sides. Row k of r begins at
        pixel ⌊k · height / r⌋.
    diagonal : float, default=1e-3
        The number to add to the diagonal of each covariance, at least 0.
    diagonal_relative : bool, default=False
        Whether `diagonal` is in units of the mean variance tr C / d of each covariance C.
    shrinkage : None, "ledoit_wolf", "oas" or float, default=None
        The estimator of the covariance. None divides by n_pixels − 1, as `numpy.cov`. The others
        are scikit-learn's `ledoit_wolf`, `oas` and `ShrunkCovariance` with this number from 0 to
        1 as its shrinkage; these divide by n_pixels. The diagonal is added afterwards.
    pixel_range : tuple of float, default=None
        The pixel values (low, high) that are mapped to 0 and 1. None means (0, 255) for uint8,
        (0, 65535) for uint16, and no scaling for bool and floating-point pixels.
    n_jobs : int, default=None
        The number of threads. None means 1 unless a `joblib.parallel_config` says otherwise, −1
        means one per processor.
    verbose : int, default=0
        If above 0, print from time to time how many images are done.

    Attributes
    ----------
    pixel_feature_names_ : tuple of str
        The features in the order of the rows and columns of each matrix, of length d.
    block_names_ : tuple of str
        The scale of each block, and its region if there are several, in the order of the blocks: by
        scale, then by the row, then by the column of the region.

    Notes
    -----
    Images are processed in chunks, and large images in strips of rows. Besides the images and the
    result, each thread holds a few megabytes, or some dozens of rows of a large image, whatever
    the number and the height of the images. All computations are in float64.

    An error names the first sample with a NaN, with fewer than 3 × 3 pixels at some scale, or
    with no more pixels in a region than features. A singular matrix is an error too; it can occur
    only if `diagonal` is 0, or relative and the image constant.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import CovarianceDescriptor
    >>> images = np.random.default_rng(0).integers(256, size=(10, 32, 32), dtype=np.uint8)
    >>> CovarianceDescriptor().fit_transform(images)
    Blocks(n_samples=10, blocks=[5×5, 5×5], dtype=float64)
    >>> one_scale = CovarianceDescriptor(("intensity", "x", "y"), scales=(1.0,))
    >>> one_scale.fit_transform(images).shape
    (10, 3, 3)
    """

    features: Sequence[str] = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
    _: KW_ONLY
    scales: Sequence[float] = (1.0, 0.5)
    regions: tuple[int, int] = (1, 1)
    diagonal: float = 1e-3
    diagonal_relative: bool = False
    shrinkage: Shrinkage = None
    pixel_range: tuple[float, float] | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: Any = None) -> CovarianceDescriptor:
        """Check the parameters and the images, and set the names of features and blocks.

        Parameters
        ----------
        X : array-like of shape (n_images, height, width[, channels]), or list of images
        y : ignored

        Returns
        -------
        CovarianceDescriptor
            The estimator itself.
        """
        recipe = self._recipe()
        for group in read_images(X, None, _check_pixel_range(self.pixel_range)):
            make_plan(group, recipe)
        self.pixel_feature_names_ = tuple(feature.name for feature in recipe.features)
        self.block_names_ = _block_names(recipe)
        return self

    def transform(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        masks: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> Floats | Blocks:
        """Compute the covariance matrices of the images.

        Parameters
        ----------
        X : array-like of shape (n_images, height, width[, channels]), or list of images
            Images of 1 channel or 3 (red, green, blue). The images of a list may differ in size.
        masks : array-like of bool of shape (n_images, height, width), or list, default=None
            The covariance uses only the pixels at which the mask is true. At a smaller scale, a
            mask is resampled like the images, and is true where the result exceeds one half. The
            features are computed on the whole image, so that derivatives use pixels outside the
            mask.

        Returns
        -------
        array of shape (n_images, d, d), or Blocks
            Blocks of such arrays if there are several scales or regions; they have the names of
            the features, scales and regions, which an array cannot have.
        """
        recipe, n_threads = self._recipe(), effective_n_jobs(check_jobs("n_jobs", self.n_jobs))
        groups = read_images(X, masks, _check_pixel_range(self.pixel_range))
        plans = [make_plan(group, recipe, n_threads) for group in groups]
        blocks = compute_descriptors(plans, n_threads, verbose=bool(self.verbose))
        if recipe.diagonal == 0 or recipe.diagonal_relative:
            for name, block in zip(_block_names(recipe), blocks, strict=True):
                _check_definite(block, name)
        if len(blocks) == 1:
            return blocks[0]
        names = tuple(feature.name for feature in recipe.features)
        return Blocks(*blocks, names=_block_names(recipe), row_names=[names] * len(blocks))

    def fit_transform(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        y: Any = None,
        masks: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> Floats | Blocks:
        """Fit to the images and return their covariance matrices; see `transform`."""
        return self.fit(X, y).transform(X, masks)

    def _recipe(self) -> Recipe:
        return Recipe(
            features=check_features(self.features),
            scales=_check_scales(self.scales),
            regions=_check_regions(self.regions),
            shrinkage=check_shrinkage(self.shrinkage),
            diagonal=check_not_negative("diagonal", self.diagonal),
            diagonal_relative=check_flag("diagonal_relative", self.diagonal_relative),
        )


def _block_names(recipe: Recipe) -> tuple[str, ...]:
    regions = [f", region {place}" for place in np.ndindex(recipe.regions)]
    places = regions if len(regions) > 1 else [""]
    return tuple(f"scale {scale:g}{place}" for scale in recipe.scales for place in places)


def _check_definite(block: Floats, name: str) -> None:
    """Raise an error if a matrix is singular; the units of the features do not matter."""
    variances = np.einsum("nii->ni", block)
    units = np.sqrt(np.where(variances > 0, variances, 1.0))
    smallest = np.linalg.eigvalsh(block / units[:, :, None] / units[:, None, :])[:, 0]
    singular = np.flatnonzero(smallest <= SINGULAR)
    if len(singular):
        raise ValueError(
            f"X: expected a positive definite covariance, got a singular one in sample "
            f"{singular[0]}, {name} ({len(singular)} of {len(block)} samples): a feature is "
            "constant there or depends linearly on others; give a positive diagonal"
        )


def _check_scales(scales: Any) -> tuple[float, ...]:
    what = "numbers above 0 and up to 1"
    given = as_tuple("scales", scales, f"a sequence of {what}")
    return tuple(check_number("scales", scale, what, lambda x: 0 < x <= 1) for scale in given)


def _check_regions(regions: Any) -> tuple[int, int]:
    n_rows, n_columns = check_two("regions", regions, "two integers (rows, columns)")
    return check_count("regions", n_rows), check_count("regions", n_columns)


def _check_pixel_range(pixel_range: Any) -> tuple[float, float] | None:
    if pixel_range is None:
        return None
    low, high = check_two("pixel_range", pixel_range, "None or two numbers (low, high)")
    if not check_finite("pixel_range", low) < check_finite("pixel_range", high):
        raise ValueError(f"pixel_range: expected low < high, got {pixel_range!r}")
    return float(low), float(high)


# ---- Planes of pixels: buffers that are reused, downsampling, and features by name ----

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
        The matrices that map the old rows and columns to the new ones.
    """

    rows: tuple[Band, ...]
    columns: tuple[Band, ...]

    @classmethod
    def between(cls, old: tuple[int, int], new: tuple[int, int]) -> Resampler:
        """Return the resampler from the shape `old` to the shape `new`, both (height, width)."""
        return cls(_bands(old[0], new[0]), _bands(old[1], new[1], order="F"))

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
            np.matmul(old, band.weights.T, out=out[..., band.start : band.stop])
        return out


def scaled_size(size: int, scale: float) -> int:
    """Return the number of pixels at a scale, rounded to the nearest integer, halves up."""
    return floor(size * scale + 0.5)


def _bands(old: int, new: int, order: Literal["C", "F"] = "C") -> tuple[Band, ...]:
    """Return the matrix (new, old) that resamples a row of pixels, as bands."""
    stretch, bands = old / new, []
    for start in range(0, new, BAND_ROWS):
        stop = min(start + BAND_ROWS, new)
        centres = (np.arange(start, stop) + 0.5) * stretch - 0.5
        low = max(0, ceil(centres[0] - SUPPORT * stretch))
        high = min(old, floor(centres[-1] + SUPPORT * stretch) + 1)
        weights = _keys_cubic((np.arange(low, high) - centres[:, None]) / stretch)
        weights /= weights.sum(axis=1, keepdims=True)
        bands.append(Band(start, stop, low, high, np.asarray(weights, order=order)))
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
    def gradient(self) -> Floats:
        """Twice the absolute first derivatives, 2 |Iy| and 2 |Ix|."""
        values = self.workspace.empty("gradient", (2, *self.intensity.shape))
        for name, out in zip(("|Iy|", "|Ix|"), values, strict=True):
            FEATURES[name].write(self, out)
        return values


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


def _colour(channel: int) -> Writer:
    return lambda strip, out: np.copyto(out, strip.planes[channel])


def _of_gradient(function: np.ufunc) -> Writer:
    return lambda strip, out: function(*strip.gradient, out=out)


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
        Feature("magnitude", _of_gradient(np.hypot), reach=1, factor=0.5),
        Feature("orientation", _of_gradient(np.arctan2), reach=1, degree=0),
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


# ---- From the pixels to covariance matrices, with little memory besides the images ----

SMALLEST_SIDE = 3  # smallest side of an image in pixels: a second difference needs three
TASKS_PER_THREAD = 4  # so that no thread waits long for another at the end
LONGEST_TASK = 1000  # images per task, which limits the sums held in memory


@dataclass(frozen=True)
class MemoryLimits:
    """Limits of what one thread processes at a time.

    Attributes
    ----------
    bytes_at_once : int
        Size of the features in memory. Larger values mean fewer calls, smaller ones fewer cache
        misses.
    fewest_rows : int
        Smallest height of a strip, so that computing the rows around it again costs little.
    """

    bytes_at_once: int
    fewest_rows: int = 8


ONE_THREAD = MemoryLimits(2_000_000)
SEVERAL_THREADS = MemoryLimits(4_000_000)  # larger, so that the threads wait less often


@dataclass(frozen=True)
class Recipe:
    """The validated parameters of a descriptor."""

    features: tuple[Feature, ...]
    scales: tuple[float, ...]
    regions: tuple[int, int]
    shrinkage: Shrinkage
    diagonal: float
    diagonal_relative: bool


@dataclass(frozen=True)
class Level:
    """The images of a group at one scale.

    Attributes
    ----------
    scale : float
    height, width : int
        Size in pixels at this scale.
    row_edges, column_edges : sequences of int
        Where the regions begin and end.
    resampler : Resampler or None
        Resamples from the original size; None if the size does not change.
    """

    scale: float
    height: int
    width: int
    row_edges: Sequence[int]
    column_edges: Sequence[int]
    resampler: Resampler | None


@dataclass(frozen=True)
class Plan:
    """The steps that process the images of one group.

    Attributes
    ----------
    group : ImageGroup
    recipe : Recipe
    levels : sequence of Level
    limits : MemoryLimits
    """

    group: ImageGroup
    recipe: Recipe
    levels: Sequence[Level]
    limits: MemoryLimits

    @property
    def images_at_once(self) -> int:
        """The number of images per chunk; 0 if a single image exceeds the limit."""
        height, width, _ = self.group.shape
        return self.limits.bytes_at_once // (8 * len(self.recipe.features) * height * width)

    def rows_at_once(self, level: Level) -> int:
        """Return the number of rows per strip; all rows if an image fits the limit."""
        n_rows = self.limits.bytes_at_once // (8 * len(self.recipe.features) * level.width)
        return min(level.height, max(self.limits.fewest_rows, n_rows))


def make_plan(
    group: ImageGroup, recipe: Recipe, n_threads: int = 1, limits: MemoryLimits | None = None
) -> Plan:
    """Return the plan for a group; raise an error if its images are too small or lack colour."""
    asked = [feature.name for feature in recipe.features if feature.name in COLOURS]
    if asked and group.shape[-1] == 1:
        raise ValueError(
            f"features: expected images of 3 channels for {asked[0]!r}, got 1 channel in sample "
            f"{group.samples[0]}"
        )
    levels = [_make_level(group, recipe, scale) for scale in recipe.scales]
    if limits is None:
        limits = ONE_THREAD if n_threads == 1 else SEVERAL_THREADS
    return Plan(group, recipe, levels, limits)


def _make_level(group: ImageGroup, recipe: Recipe, scale: float) -> Level:
    """Return the images at a scale; raise an error if they or their regions are too small."""
    shape = group.shape[:2]
    height, width = (scaled_size(size, scale) for size in shape)
    where = f"at scale {scale:g} in sample {group.samples[0]}, whose size is {shape[0]}×{shape[1]}"
    if min(height, width) < SMALLEST_SIDE:
        raise ValueError(
            f"X: expected images of at least {SMALLEST_SIDE}×{SMALLEST_SIDE} pixels at every "
            f"scale, got {height}×{width} {where}"
        )
    d, (n_rows, n_columns) = len(recipe.features), recipe.regions
    rows, columns = height // n_rows, width // n_columns  # of the smallest region
    if rows * columns <= d:
        raise ValueError(
            f"regions: expected more than {d} pixels per region, the number of features, got "
            f"{rows}×{columns} {where}"
        )
    row_edges = [height * k // n_rows for k in range(n_rows + 1)]
    column_edges = [width * k // n_columns for k in range(n_columns + 1)]
    same = (height, width) == shape
    resampler = None if same else Resampler.between(shape, (height, width))
    return Level(scale, height, width, row_edges, column_edges, resampler)


def compute_descriptors(
    plans: Sequence[Plan], n_threads: int = 1, verbose: bool = False
) -> list[Floats]:
    """Return the covariance matrices of all images, one array (n_images, d, d) per block.

    If `verbose`, the number of images done is printed after each task.
    """
    recipe, n_images = plans[0].recipe, sum(len(plan.group.samples) for plan in plans)
    d, n_blocks = len(recipe.features), len(recipe.scales) * prod(recipe.regions)
    blocks: list[Floats] = [np.empty((n_images, d, d)) for _ in range(n_blocks)]
    spare: list[Workspace] = []  # at the end, one workspace per thread
    tasks = (
        delayed(_write_covariances)(plan, images, blocks, spare)
        for plan in plans
        for images in _split_images(plan, n_threads)
    )
    n_done = 0
    for count in Parallel(n_threads, require="sharedmem", return_as="generator")(tasks):
        n_done += count
        if verbose:
            print(f"[CovarianceDescriptor] {n_done} of {n_images} images")
    return blocks


def _split_images(plan: Plan, n_threads: int) -> Iterator[range]:
    """Yield ranges of images for the threads, in whole multiples of a chunk."""
    n_images, step = len(plan.group.samples), max(1, plan.images_at_once)
    length = min(-(-n_images // (n_threads * TASKS_PER_THREAD)), LONGEST_TASK)
    length = step * -(-length // step)
    for start in range(0, n_images, length):
        yield range(start, min(start + length, n_images))


def _write_covariances(plan: Plan, images: range, out: list[Floats], spare: list[Workspace]) -> int:
    """Write the covariances of some images of a group into the rows of their samples.

    The blocks are ordered by scale, then by the row, then by the column of the region. A spare
    workspace is used if there is one, and put back afterwards. Returns the number of images.
    """
    recipe, samples = plan.recipe, plan.group.samples[images.start : images.stop]
    workspace = spare.pop() if spare else Workspace()
    moments = _moments(plan, images, workspace)
    spare.append(workspace)
    _check_pixel_counts(plan, moments.count, samples)
    covariance = estimate(moments, recipe.shrinkage)
    add_diagonal(covariance, recipe.diagonal, recipe.diagonal_relative)
    for block, matrices in zip(out, covariance, strict=True):
        block[samples] = matrices
    return len(images)


def _moments(plan: Plan, images: range, workspace: Workspace) -> Moments:
    """Return the moments of the features, per block and image.

    Where the mean is so large that digits cancel, they are computed again without the mean.
    """
    recipe, d = plan.recipe, len(plan.recipe.features)
    shape = (len(recipe.scales) * prod(recipe.regions), len(images))
    sums, count = np.zeros((*shape, d, d + 1)), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace):
        sums[block, rows] += sum_products(points)
        count[block, rows] += points[:, -1].sum(axis=-1)
    moments = Moments.from_sums(sums, count)
    units = np.array([f.factor * plan.group.unit**f.degree for f in recipe.features])
    scatter = units[:, None] * units * moments.scatter
    again = np.any(moments.cancelled, axis=0) | (recipe.shrinkage == "ledoit_wolf")
    if not np.any(again):
        return replace(moments, scatter=scatter)
    sums, quartic = np.zeros_like(sums), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace, again):
        centre(points, moments.mean[block, rows])
        points[:, :-1] *= units[:, None]
        sums[block, rows] += sum_products(points)
        quartic[block, rows] += sum_quartics(points)
    scatter = np.where(again[:, None, None], symmetrised(sums[..., :-1]), scatter)
    return Moments(count, moments.mean, scatter, quartic)


def _points(
    plan: Plan, images: range, workspace: Workspace, wanted: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, slice, Floats]]:
    """Yield the block, the rows of the images and their pixels as extended points.

    The points have the shape (n_images, d + 1, n_points), and may be changed in place. Chunks
    without a wanted image are skipped.
    """
    for rows in gen_batches(len(images), max(1, plan.images_at_once)):
        if wanted is None or np.any(wanted[rows]):
            some = images[rows]
            chunk = _Chunk(plan, some.start, some.stop, workspace)
            for k, level in enumerate(plan.levels):
                for region, points in chunk.cells(level):
                    yield k * prod(plan.recipe.regions) + region, rows, points


class _Chunk:
    """Some images of a group, or one large image of which only strips are in memory."""

    def __init__(self, plan: Plan, start: int, stop: int, workspace: Workspace) -> None:
        self.plan, self.start, self.stop, self.workspace = plan, start, stop, workspace
        self._whole: Floats | None = None  # the planes, once they have been read

    def cells(self, level: Level) -> Iterator[tuple[int, Floats]]:
        """Yield the number of each region and its points, strip by strip.

        The last row of the points is 1 at each pixel; outside a mask, all rows are 0.
        """
        reach = max(feature.reach for feature in self.plan.recipe.features)
        step = self.plan.rows_at_once(level)
        for top in range(0, level.height, step):
            bottom = min(top + step, level.height)
            first, last = max(0, top - reach), min(level.height, bottom + reach)
            values = self._features(level, first, last)
            rows = [min(max(edge, top), bottom) - first for edge in level.row_edges]
            cells = product(pairwise(rows), pairwise(level.column_edges))
            for region, ((upper, lower), (left, right)) in enumerate(cells):
                if upper < lower:
                    cell = values[:, :, upper:lower, left:right]
                    yield region, cell.reshape(*values.shape[:2], -1).swapaxes(0, 1)

    def _features(self, level: Level, top: int, bottom: int) -> Floats:
        group, features = self.plan.group, self.plan.recipe.features
        planes = self._planes(level, top, bottom)
        values = self.workspace.empty("values", (len(features) + 1, *planes.shape[1:]))
        strip = Strip(planes[: group.shape[2]], top, level.height, self.workspace)
        for feature, out in zip(features, values[:-1], strict=True):
            feature.write(strip, out)
        values[-1] = 1.0
        if group.masks is not None:
            values *= planes[-1] > 0.5
        return values

    def _planes(self, level: Level, top: int, bottom: int) -> Floats:
        """Return rows of the planes at the scale of the level."""
        if level.resampler is None:
            return self._read(top, bottom)
        old = self._read(*level.resampler.rows_needed(top, bottom))
        shape = (*old.shape[:2], bottom - top, level.width)
        new = self.workspace.empty("resampled", shape)
        return level.resampler(old, top, bottom, new, self.workspace)

    def _read(self, top: int, bottom: int) -> Floats:
        """Return rows of the planes in the original size, which are all rows of small images."""
        if self._whole is not None:
            return self._whole
        group = self.plan.group
        shape = (group.n_planes, self.stop - self.start, bottom - top, group.shape[1])
        planes = self.workspace.empty("planes", shape)
        group.read_planes(self.start, self.stop, top, planes)
        if self.plan.images_at_once > 0:
            self._whole = planes
        return planes


def _check_pixel_counts(plan: Plan, count: Floats, samples: NDArray[np.intp]) -> None:
    """Raise an error if a mask leaves too few pixels in a region."""
    d = len(plan.recipe.features)
    if np.min(count) > d:
        return
    image, block = np.argwhere((count <= d).T)[0]
    level = plan.levels[block // prod(plan.recipe.regions)]
    raise ValueError(
        f"masks: expected more than {d} pixels per region, the number of features, got "
        f"{count[block, image]:.0f} at scale {level.scale:g} in sample {samples[image]}"
    )
