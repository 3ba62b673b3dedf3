"""Decode image files; format and size are checked before any pixel is decoded."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._messages import missing_extra
from ._archive import ExpectedArray, read_archive
from ._folder import DatasetLayout, FoundDataset, check_complete, find_dataset, naming_file

LARGEST_FILE = 2**24  # largest file in bytes: over ten times the largest image of these datasets


@dataclass(frozen=True)
class ImageKind:
    """The format of a file and its possible pixel modes, as Pillow names them."""

    file_format: str
    modes: tuple[str, ...]


GREY_PNG = ImageKind("PNG", ("L",))
COLOUR_PNG = ImageKind("PNG", ("RGB",))
MASK_PNG = ImageKind("PNG", ("RGB", "L", "1"))
GREY_GIF = ImageKind("GIF", ("L", "P"))  # the palette of a gif file may be the grey values


def pillow_image() -> Any:
    """Return the module PIL.Image, or raise an error that says how to install it."""
    try:
        from PIL import Image
    except ImportError as error:
        needed = "images as they are distributed need Pillow (the compact files do not)"
        raise missing_extra(needed, "images") from error
    return Image


def read_image(path: str, kind: ImageKind, shape: tuple[int, ...], mode: str) -> NDArray[np.uint8]:
    """Return the pixels of one file, after checking its format, size and pixel mode.

    Parameters
    ----------
    path : str
        The file.
    kind : ImageKind
        The expected format and pixel modes.
    shape : (height, width)
        The expected size.
    mode : "L" or "RGB"
        The mode of the result, grey or colour.

    Returns
    -------
    array of uint8 and of shape (height, width) or (height, width, 3)
    """
    content = _read_bytes(path)
    with _open(content, kind) as image:  # reads the header only
        if (image.height, image.width) != shape:
            raise ValueError(
                f"expected an image of {shape[0]}×{shape[1]} pixels, "
                f"got {image.height}×{image.width}"
            )
        if image.mode not in kind.modes:
            raise ValueError(f"expected pixels of mode {' or '.join(kind.modes)}, got {image.mode}")
        image.verify()  # verifies the checksums of a png file; then it must be opened again
    with _open(content, kind) as image:
        return np.array(image.convert(mode), dtype=np.uint8)


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"expected at most {LARGEST_FILE} bytes, got more")
    return content


def _open(content: bytes, kind: ImageKind) -> Any:
    image_module = pillow_image()
    with warnings.catch_warnings():
        warnings.simplefilter("error", image_module.DecompressionBombWarning)
        return image_module.open(BytesIO(content), formats=[kind.file_format])


def load_grey_images(
    layout: DatasetLayout, folder: Any, kind: ImageKind, allow_incomplete: bool
) -> tuple[FoundDataset, NDArray[np.intp], NDArray[np.uint8]]:
    """Return where the images were found, which samples of the layout they are, and the images."""
    found = find_dataset(layout, folder)
    if found.rows is None:
        arrays = {"images": ExpectedArray("uint8", (None, *layout.compact_shape))}
        rows, read = read_archive(layout, found, arrays, allow_incomplete)
        return found, rows, read["images"]
    check_complete(layout, found.rows, found.where, allow_incomplete)
    pillow_image()  # before the loop, whose errors would blame a file for the missing Pillow
    images = np.empty((len(found.files), *layout.image_shape), dtype=np.uint8)
    for image, (path,) in zip(images, found.files, strict=True):
        with naming_file(path, layout):
            image[:] = read_image(path, kind, layout.image_shape, "L")
    return found, found.rows, images
