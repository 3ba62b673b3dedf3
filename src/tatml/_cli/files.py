"""Read samples, labels and pairs from the files of a user, `.npz` or `.csv`, as arrays.

Every error is one line that names the file and the place in it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._data.blocks import Blocks, as_blocks
from .._messages import quoted, suggestion
from .csv_tables import Table, check_is_file, read_table

__all__ = ["Columns", "Data", "Samples", "read_data"]

Samples = Blocks | NDArray

TARGET_NAMES = ("y", "target")
PAIR_COLUMNS = ("first", "second", "similar")
SAME = {"1", "+1", "1.0", "true", "yes", "same", "similar"}
DIFFERENT = {"0", "-1", "0.0", "-1.0", "false", "no", "different", "dissimilar"}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what.

    Attributes
    ----------
    target, groups : str or None
        The columns of labels and of groups. No target: a column named y or target.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str or None
        The columns of numbers, in this order; None: all others.
    guess_target : bool
        Whether the last column is the target where none is named.
    likely_target, likely_groups : str or None
        The columns to take, where they are there and no others are named.
    """

    target: str | None = None
    groups: str | None = None
    drop: Sequence[str] = ()
    features: Sequence[str] | None = None
    guess_target: bool = False
    likely_target: str | None = None
    likely_groups: str | None = None


@dataclass(frozen=True)
class Data:
    """What a file holds: samples, perhaps with labels and groups; and perhaps pairs.

    Attributes
    ----------
    path : Path
        The file.
    X : array of shape (n_samples, n) or (n_samples, n, n'), Blocks or None
        The samples.
    y, groups : arrays of shape (n_samples,), or None
        The class and the group of each sample.
    pairs : array or None
        Index pairs (n_pairs, 2) into X; without X the pairs themselves, (n_pairs, 2, …).
    similar : bool array of shape (n_pairs,), or None
        Which pairs are of one kind.
    feature_names : tuple of str, or None
        The names of the columns of X.
    target, groups_name : str or None
        The columns of y and groups.
    """

    path: Path
    X: Samples | None = None
    y: NDArray | None = None
    groups: NDArray | None = None
    pairs: NDArray | None = None
    similar: NDArray[np.bool_] | None = None
    feature_names: tuple[str, ...] | None = None
    target: str | None = None
    groups_name: str | None = None


def read_data(
    path: str | Path,
    columns: Columns = Columns(),  # noqa: B008 - it is frozen
    pairs: str | Path | None = None,
) -> Data:
    """Read a file of samples or pairs; `pairs` names a table of index pairs into its rows."""
    path = Path(path)
    read = {".npz": _read_npz, ".csv": _read_csv}.get(path.suffix.lower())
    if read is None:
        found = f"the extension {path.suffix!r}" if path.suffix else "none"
        raise ValueError(f"{path}: expected a file with the extension .npz or .csv, got {found}")
    check_is_file(path)
    data = read(path, columns, pairs is not None)
    return data if pairs is None else _with_pairs(data, Path(pairs))


# Tables


def _read_csv(path: Path, columns: Columns, with_pairs: bool) -> Data:
    table = read_table(path)
    target = _target_of(table, columns, guess=columns.guess_target and not with_pairs)
    for name in columns.drop:
        table.place(name, "--drop")
    groups = columns.groups
    if groups is None and columns.likely_groups in table.names:
        groups = columns.likely_groups
    taken = {*columns.drop, target, groups}
    names = columns.features
    if names is None:
        kept_out = () if columns.target is not None else TARGET_NAMES
        names = [n for n in table.names if n not in taken and n.lower() not in kept_out]
        if "" in names:
            raise ValueError(
                f"{path}: expected a name for each column, got none for number "
                f"{table.place('') + 1}; if it holds row numbers, leave it out with --drop ''"
            )
    if not names:
        raise ValueError(f"{path}: expected columns of numbers besides {quoted(table.names)}")
    return Data(
        path,
        X=table.numbers(names),
        y=None if target is None else table.labels(target, "--target"),
        groups=None if groups is None else table.groups(groups, "--groups"),
        feature_names=tuple(names),
        target=target,
        groups_name=groups,
    )


def _target_of(table: Table, columns: Columns, guess: bool) -> str | None:
    if columns.target is not None:
        return table.names[table.place(columns.target, "--target")]
    if columns.likely_target in table.names:
        return columns.likely_target
    for name in table.names:
        if name.lower() in TARGET_NAMES and name not in (columns.features or ()):
            return name
    left = [name for name in table.names if name not in {*columns.drop, columns.groups}]
    return left[-1] if guess and left else None


def _with_pairs(data: Data, path: Path) -> Data:
    """The same samples with the index pairs of a table: first, second and perhaps similar."""
    if data.X is None:
        raise ValueError(f"{data.path}: expected samples, X, for the index pairs of {path}")
    table = read_table(path)
    similar = None
    index = np.stack([_row_numbers(table, name, len(data.X)) for name in PAIR_COLUMNS[:2]], axis=1)
    if PAIR_COLUMNS[2] in table.names:
        similar = np.array([_same(*cell) for cell in _cells(table, PAIR_COLUMNS[2])])
    return replace(data, pairs=index, similar=similar)


def _cells(table: Table, name: str) -> Iterable[tuple[str, str]]:
    """Each cell of a column, and where it is."""
    for line, cell in zip(table.lines, table.column(name), strict=True):
        yield cell, f"{table.path}, line {line}, column {name!r}"


def _row_numbers(table: Table, name: str, n_samples: int) -> NDArray[np.intp]:
    for cell, where in _cells(table, name):
        if not (cell.isdecimal() and int(cell) < n_samples):
            raise ValueError(
                f"{where}: expected the number of a sample, from 0 to {n_samples - 1}, got {cell!r}"
            )
    return np.array([int(cell) for cell in table.column(name)], dtype=np.intp)


def _same(cell: str, where: str) -> bool:
    if cell.lower() in SAME | DIFFERENT:
        return cell.lower() in SAME
    raise ValueError(f"{where}: expected 1 or same, 0, -1 or different, got {cell!r}")


# Archives of arrays


def _read_npz(path: Path, columns: Columns, with_pairs: bool) -> Data:
    if columns.drop:
        raise ValueError(f"{path}: expected a table for --drop, got an archive of arrays")
    arrays = _arrays(path)
    X = _samples(path, arrays)
    pairs = None if with_pairs else arrays.get("pairs")
    if pairs is None:
        if X is None:
            raise ValueError(
                f"{path}: expected an array X (or X0, X1, … or pairs), got {quoted(arrays)}"
                f"{suggestion('X', list(arrays))}"
            )
        y = _one_each(path, "y", arrays.get(columns.target or "y"), len(X))
        if columns.target and y is None:
            raise ValueError(f"{path}: expected an array {columns.target!r}, got {quoted(arrays)}")
        groups = _one_each(path, "groups", arrays.get(columns.groups or "groups"), len(X))
        if columns.groups and groups is None:
            raise ValueError(f"{path}: expected an array {columns.groups!r}, got {quoted(arrays)}")
        return Data(path, X, y, groups)
    pairs = _checked_pairs(path, pairs, None if X is None else len(X))
    name = "similar" if "similar" in arrays else "y"
    flags = _one_each(path, name, arrays.get(name), len(pairs))
    return Data(path, X, pairs=pairs, similar=None if flags is None else _flags(path, name, flags))


def _arrays(path: Path) -> dict[str, NDArray]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an archive of arrays (numpy.savez), got another file")
    arrays = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = np.asarray(archive[name])
    except Exception as error:  # a damaged archive fails in many ways
        raise ValueError(
            f"{path}: expected arrays of numbers or words (numpy.savez), got {error}"
        ) from error
    return arrays


def _samples(path: Path, arrays: dict[str, NDArray]) -> Samples | None:
    numbers = sorted(int(name[1:]) for name in arrays if re.fullmatch(r"X(0|[1-9]\d*)", name))
    several = [f"X{m}" for m in numbers]
    if "X" in arrays and several:
        raise ValueError(f"{path}: expected either X or {several[0]}, …, got both")
    if several != [f"X{m}" for m in range(len(several))]:
        raise ValueError(f"{path}: expected X0, X1, … without gaps, got {quoted(several)}")
    for name in ("X", *several):
        if name in arrays:
            _checked_samples(path, name, arrays[name])
    counts = {name: len(arrays[name]) for name in several}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{path}: expected the same number of samples in each block, got {counts}")
    return Blocks(*(arrays[name] for name in several)) if several else arrays.get("X")


def _checked_samples(path: Path, name: str, array: NDArray) -> None:
    if len(array.shape) not in (2, 3):
        raise ValueError(
            f"{path}: {name}: expected shape (n_samples, n) or (n_samples, n, n'), got "
            f"{array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"{path}: {name}: expected finite numbers, got {array[tuple(place)]} at "
            f"[{', '.join(map(str, place))}]"
        )
    as_blocks(array, f"{path}: {name}")


def _one_each(path: Path, name: str, values: NDArray | None, count: int) -> NDArray | None:
    if values is not None and values.shape != (count,):
        raise ValueError(
            f"{path}: {name}: expected shape ({count},), one for each sample or pair, got "
            f"{values.shape}"
        )
    return values


def _checked_pairs(path: Path, pairs: NDArray, n_samples: int | None) -> NDArray:
    if n_samples is None:
        if len(pairs.shape) not in (3, 4) or pairs.shape[1] != 2:
            raise ValueError(
                f"{path}: pairs: expected shape (n_pairs, 2, n) or (n_pairs, 2, n, n'), or index "
                f"pairs (n_pairs, 2) together with X, got {pairs.shape}"
            )
        return pairs
    if pairs.shape[1:] != (2,) or pairs.dtype.kind not in "iu" or not len(pairs):
        raise ValueError(
            f"{path}: pairs: expected index pairs into X, integers of shape (n_pairs, 2), got "
            f"{pairs.dtype} of shape {pairs.shape}"
        )
    outside = (pairs < 0) | (pairs >= n_samples)
    if outside.any():
        raise ValueError(
            f"{path}: pairs: expected numbers from 0 to {n_samples - 1}, got {pairs[outside][0]}"
        )
    return pairs.astype(np.intp)


def _flags(path: Path, name: str, values: NDArray) -> NDArray[np.bool_]:
    """Same or different, from booleans, 0 and 1, or ±1."""
    found = set(values.tolist())
    if not (found <= {0, 1} or found <= {-1, 1}):
        raise ValueError(
            f"{path}: {name}: expected 1 for the same and -1 or 0 for different, got "
            f"{sorted(found, key=str)[:5]}"
        )
    return values > 0
