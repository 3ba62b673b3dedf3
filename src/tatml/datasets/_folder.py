"""Find a dataset in a folder; files outside the folder are never read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER_VARIABLE = "TATML_DATA"
N_NAMES_SHOWN = 3  # how many missing or unexpected files a message lists


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
    content = _format_names(sorted(os.listdir(root))) or "nothing"
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
        f"missing: {_format_names(names)}. {layout.advice}. "
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


def _format_names(names: list[str]) -> str:
    shown = ", ".join(names[:N_NAMES_SHOWN])
    more = len(names) - N_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
