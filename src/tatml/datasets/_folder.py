"""Find a dataset in the folder that a user names, and read no file outside that folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FOLDER_VARIABLE",
    "Found",
    "Layout",
    "check_complete",
    "describe",
    "find_dataset",
    "match_keys",
    "naming",
]

FOLDER_VARIABLE = "TATML_DATA"
N_NAMES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Layout:
    """What a complete dataset consists of, and where its files lie.

    The names of all files are listed here. Nothing else in a folder is looked at, so that a
    file name can neither be misread nor lead elsewhere.

    Attributes
    ----------
    name : str
        The subfolder of the images as distributed, and what messages call the dataset.
    archive : str
        The name of the compact file.
    tree : str
        The files as distributed, in words.
    class_names : tuple of str
        One name for each class.
    keys : array of shape (n_samples, n_columns)
        Class and further numbers that tell the samples apart, in the order of the dataset.
    files : tuple of tuples of str
        For each sample the files that it needs as distributed.
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
        """How to lay the data out."""
        return (
            f"Lay the data out as <folder>/{self.archive}, or as distributed in "
            f"<folder>/{self.name}/{self.tree}; and give <folder> as argument or in the "
            f"environment variable {FOLDER_VARIABLE}"
        )


@dataclass(frozen=True)
class Found:
    """Where a dataset was found: one compact file, or the files of some samples.

    Attributes
    ----------
    where : str
        The compact file, or the folder of the images as distributed.
    rows : array of int, or None
        The samples of the layout that are there; None for a compact file.
    files : tuple of tuples of str
        The files of each of these samples.
    """

    where: str
    rows: NDArray[np.intp] | None = None
    files: tuple[tuple[str, ...], ...] = ()


def find_dataset(layout: Layout, folder: Any) -> Found:
    """Look for the compact file first, then for the images as distributed."""
    root = _data_folder(layout, folder)
    for relative in (layout.archive, os.path.join(layout.name, layout.archive)):
        path = _locate(layout, root, relative)
        if os.path.isfile(path):
            return Found(path)
    for prefix in (layout.name, ""):
        found = _find_images(layout, root, prefix)
        if found.files:
            return found
    raise FileNotFoundError(
        f"{layout.name}: expected {layout.archive}, {layout.name}/{layout.archive}, "
        f"{layout.name}/{layout.files[0][0]} and so on, or {layout.files[0][0]} and so on in "
        f"{root}, which holds {_listed(sorted(os.listdir(root))) or 'nothing'}. {layout.advice}"
    )


def check_complete(layout: Layout, rows: NDArray[np.intp], where: str, incomplete: bool) -> None:
    """All samples of the layout, or, if `incomplete`, at least one."""
    missing = np.setdiff1d(np.arange(len(layout.keys)), rows)
    if not len(missing) or (incomplete and len(rows)):
        return
    names = [name for row in missing for name in layout.files[row]]
    names = [name for name in names if not os.path.isfile(os.path.join(where, name))]
    raise ValueError(
        f"{where}: expected the {len(layout.keys)} samples of {layout.name}, found {len(rows)}; "
        f"missing are {_listed(names)}. {layout.advice}. "
        "With allow_incomplete=True, what is there is loaded"
    )


def match_keys(layout: Layout, keys: NDArray[np.integer]) -> NDArray[np.intp]:
    """The sample of the layout that each row of `keys` stands for; they must be in order."""
    row_of = {key: row for row, key in enumerate(map(tuple, layout.keys.tolist()))}
    rows = np.array([row_of.get(key, -1) for key in map(tuple, keys.tolist())], dtype=np.intp)
    if np.any(rows < 0):
        row = int(np.argmax(rows < 0))
        raise ValueError(
            f"labels and groups: expected those of a sample, from {layout.keys[0].tolist()} to "
            f"{layout.keys[-1].tolist()}, got {keys[row].tolist()} in row {row}"
        )
    if np.any(np.diff(rows) <= 0):
        row = int(np.argmax(np.diff(rows) <= 0)) + 1
        raise ValueError(
            "labels and groups: expected rows in ascending order and none twice, "
            f"got {keys[row].tolist()} in row {row} after {keys[row - 1].tolist()}"
        )
    return rows


def describe(layout: Layout, text: str, found: Found) -> dict[str, Any]:
    """The members that every dataset has."""
    return {
        "target_names": np.array(layout.class_names),
        "DESCR": text,
        "form": "compact" if found.rows is None else "as distributed",
        "source": found.where,
    }


@contextmanager
def naming(path: str, layout: Layout) -> Iterator[None]:
    """Turn whatever goes wrong with a file into an error that names it and says what to do."""
    try:
        yield
    except MemoryError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}. {layout.advice}") from error
    except Exception as error:  # a damaged file makes a decoder fail in any way it likes
        problem = f"expected a readable file, got {type(error).__name__}: {error}"
        raise ValueError(f"{path}: {problem}. {layout.advice}") from error


def _data_folder(layout: Layout, folder: Any) -> str:
    given = (os.environ.get(FOLDER_VARIABLE) or None) if folder is None else folder
    if given is None:
        raise ValueError(
            f"folder: expected a folder, or one in the environment variable {FOLDER_VARIABLE}, "
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


def _locate(layout: Layout, root: str, relative: str) -> str:
    """The real path of a file, which has to be in the folder when all links are followed."""
    path = os.path.join(root, relative)
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(root):
        raise ValueError(
            f"{path}: expected a file inside {root}, got a link to {real}. Links that leave the "
            f"folder are not followed. {layout.advice}"
        )
    return real


def _find_images(layout: Layout, root: str, prefix: str) -> Found:
    rows, present = [], []
    for row, names in enumerate(layout.files):
        paths = tuple(_locate(layout, root, os.path.join(prefix, name)) for name in names)
        if all(map(os.path.isfile, paths)):
            rows.append(row)
            present.append(paths)
    return Found(str(Path(root, prefix)), np.array(rows, dtype=np.intp), tuple(present))


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:N_NAMES_SHOWN])
    more = len(names) - N_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
