"""Validation of the arguments of transformers. Only this module of the features looks at types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from .._data.arrays import as_real_array, check_no_dates
from .._data.blocks import Blocks, as_blocks, check_row_names
from .._validation import as_list
from ._symmetric import check_square

SampleForm = Literal["vectors", "matrices", "blocks"]

# ---- Samples that are vectors, matrices or Blocks ----


class SampleReader(TransformerMixin, BaseEstimator):
    """Base class of transformers that read vectors, matrices or Blocks, and keep their shapes."""

    block_shapes_in_: tuple[tuple[int, int], ...]
    n_features_in_: int

    def _read(self, X: Any, *, reset: bool) -> tuple[Blocks, SampleForm]:
        """Convert X to Blocks, and return them with the form of X.

        The forms are "vectors" (a 2-D array or data frame), "matrices" (a 3-D array) and "blocks".
        If `reset`, the shapes are stored; otherwise they are compared with the stored ones.
        """
        form: SampleForm = "blocks"
        if not isinstance(X, Blocks):
            if not (hasattr(X, "shape") and hasattr(X, "ndim")):  # data frames keep their names
                X = as_real_array(X, "X")
            form = "vectors" if X.ndim < 3 else "matrices"
        if form == "vectors":  # scikit-learn checks column names and the number of features
            check_no_dates(X, "X")  # which it would convert
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        blocks = as_blocks(X)
        if reset:
            self.block_shapes_in_, self.n_features_in_ = blocks.block_shapes, blocks.shape[1]
            if form != "vectors":  # an earlier fit may have seen named columns
                self.__dict__.pop("feature_names_in_", None)
            return blocks, form
        expected = getattr(self, "block_shapes_in_", blocks.block_shapes)
        if blocks.block_shapes != expected:
            raise ValueError(
                f"X: expected blocks of shapes {_format_shapes(expected)} as in fit, "
                f"got {_format_shapes(blocks.block_shapes)}"
            )
        return blocks, form

    def _read_square(self, X: Any, *, reset: bool) -> tuple[Blocks, SampleForm]:
        """Read samples; raise an error unless all matrices are square."""
        blocks, form = self._read(X, reset=reset)
        for m, shape in enumerate(blocks.block_shapes):
            check_square(shape, m)
        return blocks, form

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class MatrixTransformer(SampleReader):
    """Base class of transformers that return matrices or Blocks, which are no data frames."""

    def set_output(self, *, transform: str | None = None) -> MatrixTransformer:
        """Do nothing: matrices and Blocks stay as they are when a pipeline returns data frames."""
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class StatelessTransformer(MatrixTransformer):
    """Base class of transformers to matrices that work without `fit`."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def write_samples(
    arrays: Sequence[NDArray[np.floating]], form: SampleForm, like: Blocks | None = None
) -> Blocks | NDArray:
    """Return the arrays of the blocks as samples of the given form.

    Blocks have the names of `like`.
    """
    if form == "blocks":
        if like is None:
            return Blocks(*arrays)
        return Blocks(*arrays, names=like.names, row_names=like.row_names)
    (array,) = arrays
    return array.reshape(len(array), -1) if form == "vectors" else array


def _format_shapes(shapes: Sequence[tuple[int, int]]) -> str:
    return "[" + ", ".join(f"{n_rows}×{n_columns}" for n_rows, n_columns in shapes) + "]"


# ---- Tensors and signals ----


def as_tensors(X: Any) -> NDArray[np.floating]:
    """Return X as an array of finite numbers of shape (n_samples, d_0, …, d_{k−1}) with k ≥ 2."""
    array = as_real_array(X, "X")
    if array.ndim < 3:
        raise ValueError(
            "X: expected tensors of at least two modes, an array of shape (n_samples, d_0, d_1, "
            f"...), got shape {array.shape}"
        )
    _check_entries(array, ("sample",))
    return array


def as_trials(X: Any) -> tuple[NDArray[np.floating], float | None]:
    """Return signals (n_trials, n_channels, n_times), and the sampling frequency or None.

    MNE's Epochs have `get_data` and `info`, and are read without importing MNE.
    """
    sfreq = None
    if hasattr(X, "get_data"):
        info = getattr(X, "info", None)
        sfreq = None if info is None else float(info["sfreq"])
        X = X.get_data()
    array = as_real_array(X, "X")
    if array.ndim != 3:
        raise ValueError(
            "X: expected signals of shape (n_trials, n_channels, n_times), got shape "
            f"{array.shape}" + ("; for one trial write X[None]" if array.ndim == 2 else "")
        )
    _check_entries(array, ("trial", "channel", "time"))
    return array, sfreq


def channel_names(X: Any, given: Any, n_channels: int) -> tuple[str, ...] | None:
    """Return the names of channels: those that were given, those of MNE's Epochs, or None."""
    names = given if given is not None else getattr(X, "ch_names", None)
    found = check_row_names([names], [(n_channels,)], "channel_names")
    return None if found is None else found[0]


def _check_entries(array: NDArray[np.floating], axes: Sequence[str]) -> None:
    """Raise an error if an array is empty or not finite; `axes` names its first axes."""
    if array.size == 0:
        raise ValueError(f"X: expected at least one entry, got an array of shape {array.shape}")
    finite = np.isfinite(array)
    if not np.all(finite):
        index = tuple(int(i) for i in np.unravel_index(np.argmin(finite), array.shape))
        named = [f"{axis} {i}" for axis, i in zip(axes, index, strict=False)]
        rest = index[len(axes) :]
        where = ", ".join([*named, f"entry {rest}"] if rest else named)
        raise ValueError(f"X: expected finite numbers, got {array[index]} in {where}")


# ---- Several values of one parameter ----


def as_tuple(name: str, values: Any, expected: str) -> tuple[Any, ...]:
    """Return the members of a sequence; raise an error if there are none."""
    members = as_list(name, values, expected)
    if not members:
        raise TypeError(f"{name}: expected {expected}, got {values!r}")
    return tuple(members)


# ---- Images and masks ----

LARGEST_PIXEL = 1e60  # largest magnitude of a pixel whose fourth power does not overflow
LARGEST_VALUES = {"uint8": 255, "uint16": 65535, "bool": 1}


@dataclass(frozen=True)
class ImageGroup:
    """The images of one size and one type of pixels.

    Attributes
    ----------
    samples : array of shape (n_images,)
        The index of each image in X.
    images : list of arrays of shape (height, width, n_channels)
    masks : list of bool arrays of shape (height, width), or None
    unit : float
        The factor that scales the pixels.
    """

    samples: NDArray[np.intp]
    images: list[NDArray[Any]]
    masks: list[NDArray[np.bool_]] | None
    unit: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """The height, width and number of channels of each image."""
        return self.images[0].shape

    @property
    def n_planes(self) -> int:
        """The number of channels, and one more if there are masks."""
        return self.shape[2] + (self.masks is not None)

    def read_planes(self, start: int, stop: int, top: int, out: NDArray[np.floating]) -> None:
        """Write rows of some images, starting at row `top`, into the array `out`.

        Its shape is (n_planes, n_images, n_rows, width); the last plane is the mask, if there is
        one. The first pixel of each image is subtracted from all others: covariances do not change,
        and constant images become exactly zero.
        """
        rows, pixels = slice(top, top + out.shape[2]), out[: self.shape[2]]
        for index, image in enumerate(self.images[start:stop]):
            pixels[:, index] = image[rows].transpose(2, 0, 1)
        for index, mask in enumerate([] if self.masks is None else self.masks[start:stop]):
            out[-1, index] = mask[rows]
        if self.images[0].dtype.kind == "f":
            self._check_finite(pixels, start, top)
        first = np.array([image[0, 0] for image in self.images[start:stop]], dtype=float)
        pixels -= first.T[:, :, None, None]

    def _check_finite(self, planes: NDArray[np.floating], start: int, top: int) -> None:
        largest = LARGEST_PIXEL * min(1.0, 1 / self.unit)
        if planes.min() >= -largest and planes.max() <= largest:  # False if a pixel is NaN
            return
        place = np.unravel_index(np.argmin(np.abs(planes) <= largest), planes.shape)
        channel, image, row, column = (int(index) for index in place)
        raise ValueError(
            f"X: expected finite numbers of at most {largest:g}, got {planes[place]:g} in "
            f"sample {self.samples[start + image]}, row {top + row}, column {column}, "
            f"channel {channel}"
        )


def read_images(
    X: Any, masks: Any = None, pixel_range: tuple[float, float] | None = None
) -> list[ImageGroup]:
    """Group the images by size and type.

    Only the length of the pixel range is used: covariances do not depend on its position.
    """
    images = _as_images(X)
    masks = _as_masks(masks, images)
    alike: dict[Any, list[int]] = {}
    for sample, image in enumerate(images):
        alike.setdefault((image.shape, image.dtype), []).append(sample)
    return [
        ImageGroup(
            np.array(samples),
            [images[sample] for sample in samples],
            None if masks is None else [masks[sample] for sample in samples],
            _pixel_unit(images[samples[0]], samples[0], pixel_range),
        )
        for samples in alike.values()
    ]


def _as_images(X: Any) -> list[NDArray[Any]]:
    """Return a list of images (height, width, n_channels)."""
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object):
        images = [_as_image(image, sample) for sample, image in enumerate(X)]
    else:
        array = _as_plain_array(X, "X")
        if array.ndim not in (3, 4):
            hint = "; for one image write X[None]" if array.ndim == 2 else ""
            raise ValueError(
                "X: expected images of shape (n_images, height, width) or (n_images, height, "
                f"width, channels), or a list of images, got {type(X).__name__} of shape "
                f"{array.shape}{hint}"
            )
        images = [_with_channels(image, "each sample") for image in array]
    if len(images) == 0:
        raise ValueError(f"X: expected at least one image, got {type(X).__name__} of length 0")
    return images


def _as_image(image: Any, sample: int) -> NDArray[Any]:
    array = _as_plain_array(image, f"X, sample {sample}")
    if array.ndim not in (2, 3):
        raise ValueError(
            "X: expected images of shape (height, width) or (height, width, channels), got "
            f"shape {array.shape} in sample {sample}"
        )
    return _with_channels(array, f"sample {sample}")


def _as_plain_array(values: Any, name: str) -> NDArray[Any]:
    if np.ma.is_masked(values):
        raise TypeError(f"{name}: expected no masked array, got one; pass masks instead")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected rows of equal length, got rows of different lengths"
        ) from error
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name}: expected real numbers, got {type(values).__name__} of dtype {array.dtype}"
        )
    return array


def _with_channels(image: NDArray[Any], where: str) -> NDArray[Any]:
    """Return an image of shape (height, width, channels) after checking its size."""
    image = image[..., None] if image.ndim == 2 else image
    height, width, n_channels = image.shape
    if height == 0 or width == 0:
        raise ValueError(f"X: expected images with pixels, got {height}×{width} in {where}")
    if n_channels not in (1, 3):
        hint = "; remove the alpha channel with X[..., :3]" if n_channels == 4 else ""
        raise ValueError(
            "X: expected 1 channel (grey) or 3 (red, green, blue), got "
            f"{n_channels} in {where}{hint}"
        )
    return image


def _pixel_unit(image: NDArray[Any], sample: int, pixel_range: tuple[float, float] | None) -> float:
    """Return 1 / (high − low); without a given range, the type of the pixels determines it."""
    if pixel_range is not None:
        return 1 / (pixel_range[1] - pixel_range[0])
    if image.dtype.kind == "f":
        return 1.0
    if image.dtype.name in LARGEST_VALUES:
        return 1 / LARGEST_VALUES[image.dtype.name]
    raise TypeError(
        "X: expected pixels of type uint8, uint16, bool or float, got "
        f"{image.dtype} in sample {sample}; set pixel_range, for example to (0, 255)"
    )


def _as_masks(masks: Any, images: list[NDArray[Any]]) -> list[NDArray[np.bool_]] | None:
    """Check that there is one mask per image, of the same size."""
    if masks is None:
        return None
    if not isinstance(masks, list | tuple | np.ndarray):
        raise TypeError(f"masks: expected an array or a list of arrays, got {type(masks).__name__}")
    if len(masks) != len(images):
        raise ValueError(f"masks: expected one per image, {len(images)} in all, got {len(masks)}")
    masks = [np.asarray(mask) for mask in masks]
    for sample, (mask, image) in enumerate(zip(masks, images, strict=True)):
        if mask.shape != image.shape[:2] or mask.dtype != bool:
            raise ValueError(
                f"masks: expected booleans of shape {image.shape[:2]}, the size of the image, got "
                f"{mask.dtype} of shape {mask.shape} in sample {sample}"
            )
    return masks
