"""Find a dataset in a folder, and read its compact file or its images.

Files outside the folder are never read. The header of an array, and the format and size of an
image, are checked before its data is read.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .._messages import listed, missing_extra

FOLDER_VARIABLE = "TATML_DATA"
N_NAMES_SHOWN = 3  # how many missing or unexpected files a message lists
LONGEST_ITEM = 256  # largest size of an item in bytes: a number or a short word
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

ArrayKind = Literal["uint8", "integer", "text"]
LARGEST_FILE = 2**24  # largest file in bytes: over ten times the largest image of these datasets


@dataclass(frozen=True, eq=False)
class DatasetLayout:
    """The contents of a complete dataset, and the paths of its files.

    The names of all files are listed here, and other files in a folder are ignored. So no file name
    is ever parsed.

    Attributes
    ----------
    name : str
        The name of the dataset in messages, and the subfolder of the images as distributed.
    archive : str
        The name of the compact file.
    tree : str
        A description of the files as distributed.
    class_names : tuple of str
        The names of the classes.
    keys : array of shape (n_samples, n_columns)
        The class and further numbers that identify each sample, in the order of the dataset.
    files : tuple of tuples of str
        The files of each sample as distributed.
    image_shape, compact_shape : tuple of int
        The shape of an image as distributed, and in the compact file.
    """

    name: str
    archive: str
    tree: str
    class_names: tuple[str, ...]
    keys: NDArray[np.intp]
    files: tuple[tuple[str, ...], ...]
    image_shape: tuple[int, ...]
    compact_shape: tuple[int, ...]

    @property
    def advice(self) -> str:
        """A sentence that says where to put the data."""
        return (
            f"Put the data into <folder>/{self.archive}, or as distributed into "
            f"<folder>/{self.name}/{self.tree}; and pass <folder> as argument or in the "
            f"environment variable {FOLDER_VARIABLE}"
        )


@dataclass(frozen=True)
class FoundDataset:
    """The place where a dataset was found: a compact file, or the files of some samples.

    Attributes
    ----------
    where : str
        The compact file, or the folder of the images as distributed.
    rows : array of int, or None
        The samples of the layout that were found; None for a compact file.
    files : tuple of tuples of str
        The files of each of these samples.
    """

    where: str
    rows: NDArray[np.intp] | None = None
    files: tuple[tuple[str, ...], ...] = ()


def find_dataset(layout: DatasetLayout, folder: Any) -> FoundDataset:
    """Return the compact file if there is one, otherwise the images as distributed."""
    root = _data_folder(layout, folder)
    for relative in (layout.archive, os.path.join(layout.name, layout.archive)):
        path = _locate(layout, root, relative)
        if os.path.isfile(path):
            return FoundDataset(path)
    for prefix in (layout.name, ""):
        found = _find_images(layout, root, prefix)
        if found.files:
            return found
    content = listed(sorted(os.listdir(root)), N_NAMES_SHOWN) or "nothing"
    raise FileNotFoundError(
        f"{layout.name}: expected {layout.archive}, {layout.name}/{layout.archive}, "
        f"{layout.name}/{layout.files[0][0]} and so on, or {layout.files[0][0]} and so on in "
        f"{root}, which contains {content}. {layout.advice}"
    )


def check_complete(
    layout: DatasetLayout, rows: NDArray[np.intp], where: str, incomplete: bool
) -> None:
    """Raise an error unless all samples are there, or, if `incomplete`, at least one."""
    missing = np.setdiff1d(np.arange(len(layout.keys)), rows)
    if not len(missing) or (incomplete and len(rows)):
        return
    names = [name for row in missing for name in layout.files[row]]
    names = [name for name in names if not os.path.isfile(os.path.join(where, name))]
    raise ValueError(
        f"{where}: expected the {len(layout.keys)} samples of {layout.name}, found {len(rows)}; "
        f"missing: {listed(names, N_NAMES_SHOWN)}. {layout.advice}. "
        "Set allow_incomplete=True to load the samples that were found"
    )


def match_keys(layout: DatasetLayout, keys: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the sample of the layout for each row of `keys`, which must be in order."""
    row_of = {key: row for row, key in enumerate(map(tuple, layout.keys.tolist()))}
    rows = np.array([row_of.get(key, -1) for key in map(tuple, keys.tolist())], dtype=np.intp)
    if np.any(rows < 0):
        row = int(np.argmax(rows < 0))
        raise ValueError(
            f"labels and groups: expected the keys of a sample, from {layout.keys[0].tolist()} to "
            f"{layout.keys[-1].tolist()}, got {keys[row].tolist()} in row {row}"
        )
    if np.any(np.diff(rows) <= 0):
        row = int(np.argmax(np.diff(rows) <= 0)) + 1
        raise ValueError(
            "labels and groups: expected rows in ascending order without duplicates, "
            f"got {keys[row].tolist()} in row {row} after {keys[row - 1].tolist()}"
        )
    return rows


def make_common_members(layout: DatasetLayout, text: str, found: FoundDataset) -> dict[str, Any]:
    """Return the members that every dataset has."""
    return {
        "target_names": np.array(layout.class_names),
        "DESCR": text,
        "form": "compact" if found.rows is None else "as distributed",
        "source": found.where,
    }


@contextmanager
def naming_file(path: str, layout: DatasetLayout) -> Iterator[None]:
    """Convert any exception into an error that names the file and says where to put the data."""
    try:
        yield
    except MemoryError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}. {layout.advice}") from error
    except Exception as error:  # a decoder may raise anything for a damaged file
        problem = f"expected a readable file, got {type(error).__name__}: {error}"
        raise ValueError(f"{path}: {problem}. {layout.advice}") from error


def _data_folder(layout: DatasetLayout, folder: Any) -> str:
    given = (os.environ.get(FOLDER_VARIABLE) or None) if folder is None else folder
    if given is None:
        raise ValueError(
            f"folder: expected a path, or one in the environment variable {FOLDER_VARIABLE}, "
            f"got neither. {layout.advice}"
        )
    try:
        root = os.path.realpath(os.path.expanduser(os.fsdecode(given)))
    except TypeError as error:
        raise TypeError(f"folder: expected a path, got {given!r}") from error
    except ValueError as error:
        raise ValueError(f"folder: expected a path, got {given!r}") from error
    if not os.path.isdir(root):
        kind = "a file" if os.path.exists(root) else "nothing"
        raise FileNotFoundError(f"folder: expected a folder, got {kind} at {root}. {layout.advice}")
    return root


def _locate(layout: DatasetLayout, root: str, relative: str) -> str:
    """Return the path of a file with all links resolved; it must lie inside the folder."""
    path = os.path.join(root, relative)
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(root):
        raise ValueError(
            f"{path}: expected a file inside {root}, got a link to {real}. Links that leave the "
            f"folder are not followed. {layout.advice}"
        )
    return real


def _find_images(layout: DatasetLayout, root: str, prefix: str) -> FoundDataset:
    rows, present = [], []
    for row, names in enumerate(layout.files):
        paths = tuple(_locate(layout, root, os.path.join(prefix, name)) for name in names)
        if all(map(os.path.isfile, paths)):
            rows.append(row)
            present.append(paths)
    return FoundDataset(str(Path(root, prefix)), np.array(rows, dtype=np.intp), tuple(present))


# The type and the shape that an array in the file must have: "integer" means integers of any size,
# "text" short strings, and None stands for the number of samples.
ExpectedArray = tuple[ArrayKind, tuple[int | None, ...]]


def read_archive(
    layout: DatasetLayout,
    found: FoundDataset,
    arrays: dict[str, ExpectedArray],
    allow_incomplete: bool,
) -> tuple[NDArray[np.intp], dict[str, NDArray]]:
    """Return which samples of the layout the file contains, and its arrays.

    The file must also contain the keys of the layout: the first column as "labels", and the other
    columns, if there are any, as "groups".
    """
    n_numbers = layout.keys.shape[1] - 1
    key_arrays: dict[str, ExpectedArray] = {"labels": ("integer", (None,))}
    if n_numbers:
        key_arrays["groups"] = ("integer", (None, n_numbers))
    with naming_file(found.where, layout):
        read = _read_expected(found.where, key_arrays | arrays, len(layout.keys))
        keys = np.column_stack([read[name] for name in key_arrays])
        rows = match_keys(layout, keys)
    check_complete(layout, rows, found.where, allow_incomplete)
    return rows, read


def _read_expected(
    path: str, arrays: dict[str, ExpectedArray], largest_n: int
) -> dict[str, NDArray]:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        absent = [name for name in arrays if f"{name}.npy" not in names]
        if absent:
            raise ValueError(f"expected the arrays {', '.join(arrays)}, got no {absent[0]}")
        shape, _, _ = _read_header(archive, "labels")
        if len(shape) != 1 or shape[0] > largest_n:
            raise ValueError(f"labels: expected at most {largest_n} numbers, got shape {shape}")
        return {name: _read_array(archive, name, arrays[name], shape[0]) for name in arrays}


def _read_header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype, int]:
    with archive.open(f"{name}.npy") as stream:
        version = npy.read_magic(stream)
        if version not in HEADER_READERS:
            raise ValueError(f"{name}: expected npy format 1.0 or 2.0, got {version}")
        shape, _, dtype = HEADER_READERS[version](stream)
        return shape, dtype, stream.tell()


def _read_array(
    archive: zipfile.ZipFile, name: str, expected: ExpectedArray, n_samples: int
) -> NDArray:
    """Return an array after checking its header."""
    (kind, sizes), (shape, dtype, start) = expected, _read_header(archive, name)
    if not _is_of_type(dtype, kind):
        raise ValueError(f"{name}: expected an array of {kind}, got {dtype}")
    wanted = tuple(n_samples if n is None else n for n in sizes)
    if shape != wanted:
        raise ValueError(f"{name}: expected shape {wanted}, got {shape}")
    n_bytes = archive.getinfo(f"{name}.npy").file_size - start
    if n_bytes != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: expected {prod(shape) * dtype.itemsize} bytes, got {n_bytes}")
    with archive.open(f"{name}.npy") as stream:  # zipfile verifies the checksum
        return np.ascontiguousarray(npy.read_array(stream, allow_pickle=False))


def _is_of_type(dtype: np.dtype, expected: ArrayKind) -> bool:
    if dtype.itemsize > LONGEST_ITEM:
        return False
    if expected in ("integer", "text"):
        return dtype.kind in {"integer": "iu", "text": "U"}[expected]
    return dtype == np.dtype(expected)


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
        arrays: dict[str, ExpectedArray] = {"images": ("uint8", (None, *layout.compact_shape))}
        rows, read = read_archive(layout, found, arrays, allow_incomplete)
        return found, rows, read["images"]
    check_complete(layout, found.rows, found.where, allow_incomplete)
    pillow_image()  # before the loop, whose errors would blame a file for the missing Pillow
    images = np.empty((len(found.files), *layout.image_shape), dtype=np.uint8)
    for image, (path,) in zip(images, found.files, strict=True):
        with naming_file(path, layout):
            image[:] = read_image(path, kind, layout.image_shape, "L")
    return found, found.rows, images
