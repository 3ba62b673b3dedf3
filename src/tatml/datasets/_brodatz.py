"""The Brodatz textures, divided into tiles."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._validation import check_count
from ._files import GREY_GIF, DatasetLayout, load_grey_images, make_common_members

DESCR = """Brodatz textures.

112 grey images of 640×640 pixels, D1 to D112, scanned from an album of photographs; each is a
class of its own, so the samples are the square tiles of an image. Tiles of one image do not
overlap, but neighbours resemble each other. No licence is stated: research data, read from the
user's folder and not distributed with this library.

P. Brodatz. Textures: A Photographic Album for Artists and Designers. Dover, 1966.
"""


def make_layout(n_classes: int = 112, side: int = 640) -> DatasetLayout:
    """Return the layout of the dataset; the only key is the number of the image."""
    numbers = range(1, n_classes + 1)
    return DatasetLayout(
        name="brodatz",
        archive="brodatz_640.npz",
        tree=f"D<1-{n_classes}>.gif",
        class_names=tuple(f"D{number}" for number in numbers),
        keys=np.array(numbers)[:, None],
        files=tuple((f"D{number}.gif",) for number in numbers),
        image_shape=(side, side),
        compact_shape=(side, side),
    )


LAYOUT = make_layout()


def load_brodatz(
    folder: str | PathLike[str] | None = None,
    *,
    tile: int | None = 80,
    allow_incomplete: bool = False,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Load the Brodatz textures, 112 grey images of 640×640 pixels divided into tiles.

    Parameters
    ----------
    folder : path, default=None
        The folder; None means the environment variable TATML_DATA. The first of these that
        exists is read: `brodatz_640.npz`, `brodatz/brodatz_640.npz`, `brodatz/D<number>.gif`,
        `D<number>.gif` (the gif files need Pillow, the extra `images`).
    tile : int or None, default=80
        The side of a tile in pixels, a divisor of 640: 80 gives 64 tiles per class. None
        means whole images.
    allow_incomplete : bool, default=False
        Load the images that are there, instead of raising an error if some are missing.
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of uint8 and of shape (n_samples, tile, tile)
            The tiles of D1 row by row, then those of D2, and so on.
        target : array of int and of shape (n_samples,)
            The class, from 0 to 111.
        target_names : array of str and of shape (112,)
            "D1" to "D112".
        groups : array of int and of shape (n_samples,)
            The position of the tile in its image, counted row by row from 0. Each group has one
            tile of every class.
        positions : array of int and of shape (n_samples, 2)
            Row and column of the first pixel of the tile.
        DESCR, form, source : str
            A description, "compact" or "as distributed", and the file or folder that was read.

    Raises
    ------
    FileNotFoundError
        If the folder or the dataset in it does not exist.
    ValueError
        If `tile` is not a divisor of 640, the dataset is incomplete, a file is damaged or not
        as expected, or a link points outside the folder.
    ImportError
        If Pillow is needed and missing.

    Examples
    --------
    >>> from tatml.datasets import load_brodatz
    >>> brodatz = load_brodatz("my_data", tile=160)  # doctest: +SKIP
    >>> brodatz.images.shape  # doctest: +SKIP
    (1792, 160, 160)
    """
    return read_brodatz(LAYOUT, folder, tile, allow_incomplete, return_X_y)


def read_brodatz(
    layout: DatasetLayout, folder: Any, tile: int | None, allow_incomplete: bool, return_X_y: bool
) -> Any:
    """Return the dataset with this layout; see `load_brodatz`."""
    side = layout.image_shape[0]
    tile = side if tile is None else check_count("tile", tile)
    if side % tile:
        raise ValueError(f"tile: expected a divisor of {side} or None, got {tile}")
    found, rows, images = load_grey_images(layout, folder, GREY_GIF, allow_incomplete)
    tiles, positions = cut_tiles(images, tile)
    n_tiles = len(positions)
    target = np.repeat(layout.keys[rows, 0] - 1, n_tiles)
    if return_X_y:
        return tiles, target
    return Bunch(
        images=tiles,
        target=target,
        groups=np.tile(np.arange(n_tiles), len(rows)),
        positions=np.tile(positions, (len(rows), 1)),
        **make_common_members(layout, DESCR, found),
    )


def cut_tiles(images: NDArray, tile: int) -> tuple[NDArray, NDArray[np.intp]]:
    """Return the tiles of each image row by row, and the positions of the tiles of one image."""
    n_images, side, _ = images.shape
    n_across = side // tile
    grid = images.reshape(n_images, n_across, tile, n_across, tile).swapaxes(2, 3)
    positions = np.array(list(np.ndindex(n_across, n_across)), dtype=np.intp) * tile
    return grid.reshape(-1, tile, tile), positions
