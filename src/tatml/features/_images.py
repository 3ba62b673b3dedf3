"""Covariance descriptors: images as covariance matrices of the features of their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike

from .._array import Floats
from .._data.blocks import Blocks
from .._validation import (
    check_count,
    check_finite,
    check_flag,
    check_jobs,
    check_not_negative,
    check_two,
)
from ._image_covariances import Recipe, compute_descriptors, make_plan
from ._inputs import StatelessTransformer, as_tuple, read_images
from ._pixels import check_features
from ._shrinkage import Shrinkage, check_shrinkage

SINGULAR = 1e-14  # eigenvalues of a correlation matrix up to this one count as zero


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

    def __sklearn_is_fitted__(self) -> bool:
        return True

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
    n_rows, n_columns = recipe.regions
    if n_rows == n_columns == 1:
        return tuple(f"scale {scale:g}" for scale in recipe.scales)
    return tuple(
        f"scale {scale:g}, region ({row}, {column})"
        for scale, row, column in product(recipe.scales, range(n_rows), range(n_columns))
    )


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
    numbers = as_tuple("scales", scales, "a sequence of numbers above 0 and up to 1")
    for scale in numbers:
        if not 0 < check_finite("scales", scale) <= 1:
            raise ValueError(f"scales: expected numbers above 0 and up to 1, got {scale!r}")
    return tuple(float(scale) for scale in numbers)


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
