"""The loaders of image datasets on disk: ETH-80, Virus and Brodatz."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._validation import check_count
from ._files import (
    COLOUR_PNG,
    GREY_GIF,
    GREY_PNG,
    MASK_PNG,
    DatasetLayout,
    ExpectedArray,
    FoundDataset,
    check_complete,
    find_dataset,
    load_grey_images,
    make_common_members,
    naming_file,
    pillow_image,
    read_archive,
    read_image,
)

VIRUS_DESCR = """Virus textures (Kylberg, Uppström and Sintorn, 2011).

1,500 grey images of 41×41 pixels, cut from electron micrographs: 15 classes of virus particles,
5 sets of 20 images per class. Four pairs of images are exact duplicates, one of them across two
classes. No licence is stated: research data, read from the user's folder and not distributed with
this library.

G. Kylberg, M. Uppström and I.-M. Sintorn. Virus texture analysis using local binary patterns and
radial density profiles. Progress in Pattern Recognition, Image Analysis, Computer Vision, and
Applications (CIARP), 573-580, 2011.
"""


def make_virus_layout(
    n_classes: int = 15, n_sets: int = 5, n_images: int = 20, side: int = 41
) -> DatasetLayout:
    """Return the layout of the dataset; the keys are class, set and image."""
    keys = np.add(list(np.ndindex(n_classes, n_sets, n_images)), (0, 1, 1))
    return DatasetLayout(
        name="virus",
        archive="virus.npz",
        tree=f"<class 1-{n_classes}>/<set 1-{n_sets}>/<image 1-{n_images}>.png",
        class_names=tuple(str(c + 1) for c in range(n_classes)),
        keys=keys,
        files=tuple((f"{c + 1}/{s}/{i}.png",) for c, s, i in keys.tolist()),
        image_shape=(side, side),
        compact_shape=(side, side),
    )


VIRUS = make_virus_layout()


def load_virus(
    folder: str | PathLike[str] | None = None,
    *,
    allow_incomplete: bool = False,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Load the Virus textures, 15 classes of 100 grey images of 41×41 pixels.

    Parameters
    ----------
    folder : path, default=None
        The folder; None means the environment variable TATML_DATA. The first of these that
        exists is read: `virus.npz`, `virus/virus.npz`, `virus/<class>/<set>/<image>.png`,
        `<class>/<set>/<image>.png` (the png files need Pillow, the extra `images`).
    allow_incomplete : bool, default=False
        Load the images that are there, instead of raising an error if some are missing.
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of uint8 and of shape (n_samples, 41, 41)
            The grey images.
        target : array of int and of shape (n_samples,)
            The class, from 0 to 14.
        target_names : array of str and of shape (15,)
            The names of the folders, "1" to "15".
        groups : array of int and of shape (n_samples,)
            The set, from 1 to 5. Each set has 20 images of every class.
        numbers : array of int and of shape (n_samples,)
            The image within its set, from 1 to 20.
        duplicates : array of int and of shape (n_duplicates, 2)
            Pairs i < j of samples whose images are equal pixel by pixel.
        DESCR, form, source : str
            A description, "compact" or "as distributed", and the file or folder that was read.

    Raises
    ------
    FileNotFoundError
        If the folder or the dataset in it does not exist.
    ValueError
        If the dataset is incomplete, a file is damaged or not as expected, or a link points
        outside the folder.
    ImportError
        If Pillow is needed and missing.

    Examples
    --------
    >>> from sklearn.model_selection import LeaveOneGroupOut
    >>> from tatml.datasets import load_virus
    >>> virus = load_virus("my_data")  # doctest: +SKIP
    >>> virus.images.shape  # doctest: +SKIP
    (1500, 41, 41)
    >>> folds = LeaveOneGroupOut().split(virus.images, groups=virus.groups)  # doctest: +SKIP
    """
    return read_virus(VIRUS, folder, allow_incomplete, return_X_y)


def read_virus(layout: DatasetLayout, folder: Any, allow_incomplete: bool, return_X_y: bool) -> Any:
    """Return the dataset with this layout; see `load_virus`."""
    found, rows, images = load_grey_images(layout, folder, GREY_PNG, allow_incomplete)
    target, groups, numbers = layout.keys[rows].T.copy()
    if return_X_y:
        return images, target
    return Bunch(
        images=images,
        target=target,
        groups=groups,
        numbers=numbers,
        duplicates=find_duplicates(images),
        **make_common_members(layout, VIRUS_DESCR, found),
    )


def find_duplicates(images: NDArray) -> NDArray[np.intp]:
    """Return all pairs i < j of equal images, in ascending order."""
    numbers = np.unique(images.reshape(len(images), -1), axis=0, return_inverse=True)[1]
    numbers = numbers.ravel()  # NumPy 2.0.0 returns a column
    return np.argwhere(np.triu(numbers[:, None] == numbers, k=1))


BRODATZ_DESCR = """Brodatz textures.

112 grey images of 640×640 pixels, D1 to D112, scanned from an album of photographs; each is a
class of its own, so the samples are the square tiles of an image. Tiles of one image do not
overlap, but neighbours resemble each other. No licence is stated: research data, read from the
user's folder and not distributed with this library.

P. Brodatz. Textures: A Photographic Album for Artists and Designers. Dover, 1966.
"""


def make_brodatz_layout(n_classes: int = 112, side: int = 640) -> DatasetLayout:
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


BRODATZ = make_brodatz_layout()


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
    return read_brodatz(BRODATZ, folder, tile, allow_incomplete, return_X_y)


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
        **make_common_members(layout, BRODATZ_DESCR, found),
    )


def cut_tiles(images: NDArray, tile: int) -> tuple[NDArray, NDArray[np.intp]]:
    """Return the tiles of each image row by row, and the positions of the tiles of one image."""
    n_images, side, _ = images.shape
    n_across = side // tile
    grid = images.reshape(n_images, n_across, tile, n_across, tile).swapaxes(2, 3)
    positions = np.array(list(np.ndindex(n_across, n_across)), dtype=np.intp) * tile
    return grid.reshape(-1, tile, tile), positions


ETH80_DESCR = """ETH-80 views of objects (Leibe and Schiele, 2003).

3,280 colour images: 8 categories, 10 objects per category, 41 views per object, taken from points
spread over the upper half of a sphere. Each image is cropped around the object. Views of one
object resemble each other. A random split of the images therefore measures how well known objects
are recognised; a split by object measures it for new objects. No licence is stated: research data,
read from the user's folder and not distributed with this library.

B. Leibe and B. Schiele. Analyzing appearance and contour based methods for object categorization.
IEEE Conference on Computer Vision and Pattern Recognition (CVPR), 409-415, 2003.
"""

CATEGORIES = ("apple", "car", "cow", "cup", "dog", "horse", "pear", "tomato")
# Folders whose files have another object number.
RENUMBERED = {("car", 4): 11, ("car", 8): 12, ("car", 10): 14}
AZIMUTHS = {
    0: (0,),
    22: (0, 90, 180, 270),
    35: (45, 135, 225, 315),
    45: (0, 90, 180, 270),
    66: (27, 63, 117, 153, 207, 243, 297, 333),
    68: (0, 90, 180, 270),
    90: (0, 22, 45, 68, 90, 112, 135, 158, 180, 202, 225, 248, 270, 292, 315, 338),
}
VIEWS = tuple((polar, azimuth) for polar, around in AZIMUTHS.items() for azimuth in around)
MARGIN = 1.2  # side of the crop, relative to the bounding square of the object


def make_eth80_layout(
    categories: tuple[str, ...] = CATEGORIES,
    n_objects: int = 10,
    views: tuple[tuple[int, int], ...] = VIEWS,
    side: int = 256,
    compact_side: int = 128,
) -> DatasetLayout:
    """Return the layout of the dataset.

    The keys are class, folder, object number and two angles.
    """
    keys, files = [], []
    for c, category in enumerate(categories):
        for folder in range(1, n_objects + 1):
            number = RENUMBERED.get((category, folder), folder)
            for polar, azimuth in views:
                name = f"{category}{number}-{polar:03d}-{azimuth:03d}"
                keys.append((c, folder, number, polar, azimuth))
                files.append(
                    (f"{c + 1}/{folder}/{name}.png", f"{c + 1}/{folder}/maps/{name}-map.png")
                )
    return DatasetLayout(
        name="eth80",
        archive="eth80_close128.npz",
        tree=(
            f"<class 1-{len(categories)}>/<object 1-{n_objects}>/<name><number>-<angle>-<angle>.png"
            " with maps/<name><number>-<angle>-<angle>-map.png beside"
        ),
        class_names=categories,
        keys=np.array(keys),
        files=tuple(files),
        image_shape=(side, side),
        compact_shape=(compact_side, compact_side),
    )


ETH80 = make_eth80_layout()


def load_eth80(
    folder: str | PathLike[str] | None = None,
    *,
    size: int = 128,
    masks: bool = False,
    allow_incomplete: bool = False,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Load the ETH-80 images, 8 categories × 10 objects × 41 views in colour.

    The images as distributed are cropped to a square around the object, whose side is 1.2 times
    the longer side of the bounding box of the mask. Outside the image, the pixels at the edge are
    repeated. The crops are resized with Lanczos' filter; masks are averaged and compared with one
    half. The compact file holds the same pixels.

    Parameters
    ----------
    folder : path, default=None
        The folder; None means the environment variable TATML_DATA. The first of these that
        exists is read: `eth80_close128.npz`, `eth80/eth80_close128.npz`,
        `eth80/<class>/<object>/<view>.png` with `maps/<view>-map.png` beside, the same without
        `eth80/` (the png files need Pillow, the extra `images`).
    size : int, default=128
        The side of the images. The compact file holds images of side 128 only.
    masks : bool, default=False
        Whether to return the masks as well.
    allow_incomplete : bool, default=False
        Load the images that are there, instead of raising an error if images or maps are missing.
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of uint8 and of shape (n_samples, size, size, 3)
            Red, green and blue.
        target : array of int and of shape (n_samples,)
            The category, from 0 to 7.
        target_names : array of str and of shape (8,)
            The names of the categories.
        groups : array of int and of shape (n_samples,)
            The object, from 0 to 79: ten per category.
        object_numbers : array of int and of shape (n_samples,)
            The number of the object in its file names. It equals the number of its folder,
            except for the cars 11, 12 and 14 in the folders 4, 8 and 10.
        angles : array of int and of shape (n_samples, 2)
            Polar angle from the top (0 to 90) and azimuth (0 to 338), in degrees.
        crop_box : array of int and of shape (n_samples, 4)
            Left, top, right and bottom of the crop in the image as distributed.
        masks : array of bool and of shape (n_samples, size, size)
            Which pixels belong to the object; only if `masks` is True.
        DESCR, form, source : str
            A description, "compact" or "as distributed", and the file or folder that was read.

    Raises
    ------
    FileNotFoundError
        If the folder or the dataset in it does not exist.
    ValueError
        If `size` is not that of the compact file, the dataset is incomplete, a file is damaged
        or not as expected, or a link points outside the folder.
    ImportError
        If Pillow is needed and missing.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold
    >>> from tatml.datasets import load_eth80
    >>> eth80 = load_eth80("my_data")  # doctest: +SKIP
    >>> eth80.images.shape  # doctest: +SKIP
    (3280, 128, 128, 3)
    >>> by_object = GroupKFold(5).split(eth80.images, groups=eth80.groups)  # doctest: +SKIP
    """
    return read_eth80(ETH80, folder, size, masks, allow_incomplete, return_X_y)


def read_eth80(
    layout: DatasetLayout,
    folder: Any,
    size: int,
    masks: bool,
    allow_incomplete: bool,
    return_X_y: bool,
) -> Any:
    """Return the dataset with this layout; see `load_eth80`."""
    size = check_count("size", size)
    found = find_dataset(layout, folder)
    if found.rows is None:
        rows, members = _read_compact(layout, found, size, masks, allow_incomplete)
    else:
        rows = found.rows
        check_complete(layout, rows, found.where, allow_incomplete)
        members = _read_distributed(layout, found, size, masks)
    target, folders, numbers, *angles = layout.keys[rows].T.copy()
    if return_X_y:
        return members["images"], target
    n_objects = layout.keys[:, 1].max()
    return Bunch(
        **members,
        target=target,
        groups=target * n_objects + folders - 1,
        object_numbers=numbers,
        angles=np.column_stack(angles),
        **make_common_members(layout, ETH80_DESCR, found),
    )


def _read_compact(
    layout: DatasetLayout, found: FoundDataset, size: int, masks: bool, allow_incomplete: bool
) -> tuple[NDArray[np.intp], dict[str, NDArray]]:
    side = layout.compact_shape[0]
    if size != side:
        raise ValueError(
            f"size: expected {side}, as in {found.where}, got {size}; only images as distributed "
            "can be cropped to another size"
        )
    arrays: dict[str, ExpectedArray] = {
        "images": ("uint8", (None, side, side, 3)),
        "crop_box": ("integer", (None, 4)),
        "class_names": ("text", (len(layout.class_names),)),
    }
    if masks:
        arrays["masks_packed"] = ("uint8", (None, side, -(-side // 8)))
    rows, read = read_archive(layout, found, arrays, allow_incomplete)
    names = read.pop("class_names").tolist()
    with naming_file(found.where, layout):
        if names != list(layout.class_names):
            raise ValueError(f"class_names: expected {layout.class_names}, got {names}")
    members = {"images": read["images"], "crop_box": read["crop_box"].astype(np.intp)}
    if masks:
        members["masks"] = np.unpackbits(read["masks_packed"], axis=-1, count=side).view(bool)
    return rows, members


def _read_distributed(
    layout: DatasetLayout, found: FoundDataset, size: int, masks: bool
) -> dict[str, NDArray]:
    image_module = pillow_image()
    n_samples = len(found.files)
    images = np.empty((n_samples, size, size, 3), dtype=np.uint8)
    kept_masks = np.empty((n_samples if masks else 0, size, size), dtype=bool)
    boxes = np.empty((n_samples, 4), dtype=np.intp)
    for i, (image_path, map_path) in enumerate(found.files):
        with naming_file(map_path, layout):
            grey = read_image(map_path, MASK_PNG, layout.image_shape, "L")
            boxes[i] = find_crop(grey > 127)
        with naming_file(image_path, layout):
            image = read_image(image_path, COLOUR_PNG, layout.image_shape, "RGB")
        images[i] = resize(crop(image, boxes[i]), size, image_module.Resampling.LANCZOS)
        if masks:
            kept_masks[i] = resize(crop(grey, boxes[i]), size, image_module.Resampling.BOX) > 127
    members: dict[str, NDArray] = {"images": images, "crop_box": boxes}
    return members | ({"masks": kept_masks} if masks else {})


def find_crop(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a square around the mask, with a margin."""
    columns, rows = (np.flatnonzero(mask.any(axis=axis)) for axis in (0, 1))
    if not len(rows):
        raise ValueError("expected a mask with pixels above 127, got none")
    (left, right), (top, bottom) = ((int(line[0]), int(line[-1]) + 1) for line in (columns, rows))
    side = round(MARGIN * max(right - left, bottom - top))
    left, top = round((left + right - side) / 2), round((top + bottom - side) / 2)
    return left, top, left + side, top + side


def crop(image: NDArray, box: Any) -> NDArray:
    """Return the part of the image in the box, with pixels at the edge repeated outside."""
    left, top, right, bottom = box
    rows = np.clip(np.arange(top, bottom), 0, image.shape[0] - 1)
    columns = np.clip(np.arange(left, right), 0, image.shape[1] - 1)
    return image[rows[:, None], columns]


def resize(image: NDArray[np.uint8], size: int, resampling: int) -> NDArray[np.uint8]:
    """Return the image resized to size × size pixels."""
    return np.asarray(pillow_image().fromarray(image).resize((size, size), resampling))
