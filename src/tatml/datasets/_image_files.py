"""Decode images as they are distributed: strict formats, and no pixel before the size is known."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._archive import Array, read_archive
from ._folder import Found, Layout, check_complete, find_dataset, naming

__all__ = [
    "COLOUR_PNG",
    "GREY_GIF",
    "GREY_PNG",
    "MASK_PNG",
    "ImageKind",
    "load_grey_images",
    "pillow_image",
    "read_image",
]


LARGEST_FILE = 2**24  # bytes; no image of these datasets needs a tenth of it


@dataclass(frozen=True)
class ImageKind:
    """What a file may be, in Pillow's words: its format and its kinds of pixels."""

    file_format: str
    modes: tuple[str, ...]


GREY_PNG = ImageKind("PNG", ("L",))
COLOUR_PNG = ImageKind("PNG", ("RGB",))
MASK_PNG = ImageKind("PNG", ("RGB", "L", "1"))
GREY_GIF = ImageKind("GIF", ("L", "P"))  # a gif has a palette, which may be that of the greys


def pillow_image() -> Any:
    """The module PIL.Image, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "Pillow is needed to read images as they are distributed: "
            "pip install 'tatml[images]'; the compact files do not need it"
        ) from error
    return Image


def read_image(path: str, kind: ImageKind, shape: tuple[int, ...], mode: str) -> NDArray[np.uint8]:
    """The pixels of one file, after its format, size and kind of pixels have been checked.

    Parameters
    ----------
    path : str
        The file.
    kind : ImageKind
        What the file may be.
    shape : (height, width)
        What the image must measure.
    mode : "L" or "RGB"
        What to convert the pixels to, grey or colour.

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
            raise ValueError(f"expected pixels of kind {' or '.join(kind.modes)}, got {image.mode}")
        image.verify()  # compares the checksums of a png file, after which it has to be opened anew
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
    layout: Layout, folder: Any, kind: ImageKind, allow_incomplete: bool
) -> tuple[Found, NDArray[np.intp], NDArray[np.uint8]]:
    """Where the images were found, which samples of the layout they are, and the images."""
    found = find_dataset(layout, folder)
    if found.rows is None:
        arrays = {"images": Array("uint8", (None, *layout.compact_shape))}
        rows, read = read_archive(layout, found, arrays, allow_incomplete)
        return found, rows, read["images"]
    check_complete(layout, found.rows, found.where, allow_incomplete)
    pillow_image()  # before the first file, whose name is not at fault when Pillow is missing
    images = np.empty((len(found.files), *layout.image_shape), dtype=np.uint8)
    for image, (path,) in zip(images, found.files, strict=True):
        with naming(path, layout):
            image[:] = read_image(path, kind, layout.image_shape, "L")
    return found, found.rows, images
