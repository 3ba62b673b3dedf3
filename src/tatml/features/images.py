"""Covariance descriptors: an image as the covariance matrix of what is measured at its pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from .._checks import check_count
from ..blocks import Blocks
from ._image_covariances import Recipe, describe, images_at_once, plan
from ._inputs import ImageGroup, MatrixTransformer, read_images
from ._pixel_features import check_features
from ._shrinkage import Shrinkage, check_shrinkage
from ._workspace import Workspace

__all__ = ["CovarianceDescriptor"]

Floats = NDArray[np.floating]

PIECES_A_WORKER = 4  # so that no worker waits long for another
SINGULAR = 1e-14  # up to here, the smallest eigenvalue of a correlation matrix counts as zero


class CovarianceDescriptor(MatrixTransformer):
    """Describe an image by the covariance matrix of the features of its pixels.

    At each pixel some features are measured, such as the intensity and its derivatives. The
    d × d covariance matrix of these features over all pixels is the descriptor of the image. It
    does not change when a constant is added to the image, and images of different sizes can be
    compared. Several scales and regions give several matrices a sample: `Blocks`.

    The descriptor has nothing to learn: `fit` only checks its arguments, and `transform` works
    without it. The matrices are positive definite, so that their logarithm exists.

    Parameters
    ----------
    features : sequence of str, default=("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
        What is measured at each pixel, by name:

        - ``"intensity"``: the grey value; of a colour image the luma
          0.299 red + 0.587 green + 0.114 blue;
        - ``"red"``, ``"green"``, ``"blue"``: the channels, all three as ``"color"``;
        - ``"|Ix|"``, ``"|Iy|"``: absolute first derivatives of the intensity along the columns
          and down the rows, central differences with the filter (−1, 0, 1)/2;
        - ``"|Ixx|"``, ``"|Iyy|"``: absolute second derivatives, filter (1, −2, 1);
        - ``"magnitude"``: √(Ix² + Iy²); ``"orientation"``: the angle arctan(|Iy| / |Ix|) from 0
          to π/2, and 0 where there is no gradient;
        - ``"x"``, ``"y"``: column / (width − 1) and row / (height − 1), from 0 to 1 over the
          whole image;
        - ``"gabor"``: the moduli of 4 Gabor responses, at 0.25 cycles a pixel and angles of 0°,
          45°, 90° and 135°; ``"gabor:0.1:6"``: of 6 responses at 0.1 cycles a pixel. The
          Gaussian is round with σ = 0.56 / frequency, cut at 3σ; the wave has mean zero.

        Pixels outside the image are taken to be equal to the nearest one inside.
    scales : sequence of float, default=(1.0, 0.5)
        The scales, above 0 and up to 1, at which the features are measured, one block each. The
        sides of a smaller image are rounded to the nearest integer. Its pixels are weighted means
        with Keys's cubic kernel, stretched to the new pixel distance, so that what the coarser
        grid cannot hold is filtered out; at the border the weights inside the image are divided
        by their sum.
    regions : tuple of int, default=(1, 1)
        A grid of rows and columns that the image is cut into, one block each. Derivatives near a
        cut use the pixels on both sides. Row k of r begins at pixel ⌊k · height / r⌋.
    diagonal : float, default=1e-3
        What is added to the diagonal of each covariance, at least 0.
    diagonal_relative : bool, default=False
        Whether `diagonal` is in units of the mean variance tr C / d of each covariance C.
    shrinkage : None, "ledoit_wolf", "oas" or float, default=None
        None divides by n_pixels − 1, as `numpy.cov`. Otherwise the covariance is that of
        scikit-learn's `ledoit_wolf`, `oas` or `ShrunkCovariance`, with the number from 0 to 1 as
        its shrinkage; these divide by n_pixels. The diagonal is added afterwards.
    pixel_range : tuple of float, default=None
        The pixel values (low, high) that become 0 and 1. None: (0, 255) for uint8, (0, 65535)
        for uint16, while bool and floating-point pixels are taken as they are.
    n_jobs : int, default=None
        How many threads share the images. None is 1 unless a `joblib.parallel_config` says
        otherwise, −1 is one for each processor.
    verbose : int, default=0
        How much joblib tells about its progress.

    Attributes
    ----------
    pixel_feature_names_ : tuple of str
        The features in the order of the rows and columns of each matrix, of length d.
    block_names_ : tuple of str
        The scale and the region of each block, in the order of the blocks: scale by scale, in a
        scale by the row and then the column of the region.

    Notes
    -----
    Images are read some at a time and large ones in strips of rows: beside images and result, a
    thread holds a few megabytes, or some dozens of rows of a large image, however many images
    there are and however high they are. The arithmetic is in float64.

    An error names the first sample with a NaN, with fewer than 3 × 3 pixels at some scale, or
    with no more pixels in a region than features. Where `diagonal` does not make every matrix
    positive definite (it is 0, or relative and the image constant), a singular one is an error.

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

    def __init__(
        self,
        features: Sequence[str] = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|"),
        *,
        scales: Sequence[float] = (1.0, 0.5),
        regions: tuple[int, int] = (1, 1),
        diagonal: float = 1e-3,
        diagonal_relative: bool = False,
        shrinkage: Shrinkage = None,
        pixel_range: tuple[float, float] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.scales = scales
        self.regions = regions
        self.diagonal = diagonal
        self.diagonal_relative = diagonal_relative
        self.shrinkage = shrinkage
        self.pixel_range = pixel_range
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: Any = None) -> CovarianceDescriptor:
        """Check the parameters, and the sizes and types of the images.

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
        groups, _ = read_images(X, None, _check_range(self.pixel_range))
        for group in groups:
            plan(group, recipe)
        return self

    def transform(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        masks: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> Floats | Blocks:
        """The covariance matrices of the images.

        Parameters
        ----------
        X : array-like of shape (n_images, height, width[, channels]), or list of images
            1 channel or 3 (red, green, blue). The images of a list may differ in size.
        masks : array-like of bool of shape (n_images, height, width), or list, default=None
            Only the pixels that are true enter the covariance. At a smaller scale, a mask is
            resampled as the images are, and is true where the result exceeds one half. The
            features are those of the whole image, so that derivatives look beyond the mask.

        Returns
        -------
        array of shape (n_images, d, d), or Blocks
            Blocks of such arrays where there are several scales or regions.
        """
        recipe, n_jobs = self._recipe(), _check_jobs(self.n_jobs)
        groups, n_images = read_images(X, masks, _check_range(self.pixel_range))
        d = recipe.n_features
        blocks = [np.empty((n_images, d, d)) for _ in range(recipe.n_blocks)]
        spare: list[Workspace] = []  # one for each thread, in the end
        parallel = Parallel(n_jobs=n_jobs, require="sharedmem", verbose=self.verbose)
        with _blas().limit(limits=1, user_api="blas"):
            parallel(
                delayed(describe)(group, recipe, levels, images, blocks, spare)
                for group in groups
                for levels in [plan(group, recipe)]
                for images in _pieces(group, recipe, effective_n_jobs(n_jobs))
            )
        if recipe.diagonal == 0 or recipe.diagonal_relative:
            for name, block in zip(self.block_names_, blocks, strict=True):
                _check_definite(block, name)
        return blocks[0] if len(blocks) == 1 else Blocks(*blocks)

    def fit_transform(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        y: Any = None,
        masks: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> Floats | Blocks:
        """The same as `transform`, since there is nothing to learn."""
        return self.transform(X, masks)

    @property
    def pixel_feature_names_(self) -> tuple[str, ...]:
        """The features in the order of the rows and columns of each matrix."""
        return tuple(feature.name for feature in check_features(self.features))

    @property
    def block_names_(self) -> tuple[str, ...]:
        """The scale and the region of each block, in the order of the blocks."""
        n_rows, n_columns = _check_regions(self.regions)
        return tuple(
            f"scale {scale:g}, region ({row}, {column})"
            for scale in _check_scales(self.scales)
            for row in range(n_rows)
            for column in range(n_columns)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _recipe(self) -> Recipe:
        return Recipe(
            features=check_features(self.features),
            scales=_check_scales(self.scales),
            regions=_check_regions(self.regions),
            shrinkage=check_shrinkage(self.shrinkage),
            diagonal=_check_diagonal(self.diagonal),
            diagonal_relative=_check_flag("diagonal_relative", self.diagonal_relative),
        )


@cache
def _blas() -> ThreadpoolController:
    """The BLAS: its own threads are of no use for small products, and in the way of ours."""
    return ThreadpoolController()


def _pieces(group: ImageGroup, recipe: Recipe, n_workers: int) -> Iterator[range]:
    """Ranges of images for the workers, in whole multiples of what is taken at once."""
    n_images, step = len(group.samples), images_at_once(group, recipe)
    n_steps = -(-n_images // step)
    length = step * -(-n_steps // (n_workers * PIECES_A_WORKER))
    for start in range(0, n_images, length):
        yield range(start, min(start + length, n_images))


def _check_definite(block: Floats, name: str) -> None:
    """No matrix that is singular whatever the units of the features."""
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
    numbers = _as_tuple("scales", scales, "numbers above 0 and up to 1")
    for scale in numbers:
        if not isinstance(scale, Real) or isinstance(scale, bool):
            raise TypeError(f"scales: expected numbers above 0 and up to 1, got {scale!r}")
        if not 0 < scale <= 1:
            raise ValueError(f"scales: expected numbers above 0 and up to 1, got {scale!r}")
    return tuple(float(scale) for scale in numbers)


def _check_regions(regions: Any) -> tuple[int, int]:
    counts = _as_tuple("regions", regions, "two integers (rows, columns)")
    if len(counts) != 2:
        raise ValueError(f"regions: expected two integers (rows, columns), got {regions!r}")
    return check_count("regions", counts[0]), check_count("regions", counts[1])


def _check_range(pixel_range: Any) -> tuple[float, float] | None:
    if pixel_range is None:
        return None
    ends = _as_tuple("pixel_range", pixel_range, "None or two numbers (low, high)")
    numbers = [end for end in ends if isinstance(end, Real) and isfinite(end)]
    if len(ends) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise ValueError(
            f"pixel_range: expected None or two numbers low < high, got {pixel_range!r}"
        )
    return float(numbers[0]), float(numbers[1])


def _check_diagonal(diagonal: Any) -> float:
    if not isinstance(diagonal, Real) or isinstance(diagonal, bool):
        raise TypeError(f"diagonal: expected a number, got {diagonal!r}")
    if not 0 <= diagonal < np.inf:
        raise ValueError(f"diagonal: expected a number of at least 0, got {diagonal!r}")
    return float(diagonal)


def _check_flag(name: str, value: Any) -> bool:
    if value not in (False, True):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def _check_jobs(n_jobs: Any) -> int | None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool)):
        raise TypeError(f"n_jobs: expected None or an integer, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs: expected a positive or negative integer, got 0")
    return n_jobs


def _as_tuple(name: str, values: Any, expected: str) -> tuple[Any, ...]:
    try:
        found = () if isinstance(values, str) else tuple(values)
    except TypeError:
        found = ()
    if not found:
        raise TypeError(f"{name}: expected {expected}, got {values!r}")
    return found
