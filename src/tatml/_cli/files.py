"""Read samples, labels and pairs from `.npz` or `.csv` files.

Every error is one line that names the file and the line and column (CSV) or the array (npz).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._data.blocks import Blocks, as_blocks
from .._messages import quoted, shown, suggestion
from .csv_tables import CsvTable, check_is_file, is_whole_number, read_csv_table

InputSamples = Blocks | NDArray

TARGET_NAMES = ("y", "target")
PAIR_COLUMNS = ("first", "second", "similar")
SAME = {"1", "+1", "1.0", "true", "yes", "same", "similar"}
DIFFERENT = {"0", "-1", "0.0", "-1.0", "false", "no", "different", "dissimilar"}


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table.

    Attributes
    ----------
    target, groups : str or None
        The columns of the labels and of the groups. If target is None, a column named y or target
        is used.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str or None
        The columns of numbers, in this order. If None, all other columns are used.
    guess_target : bool
        Whether the last column is the target if no other column is.
    likely_target, likely_groups : str or None
        Columns to use if the table has them and no others are named.
    """

    target: str | None = None
    groups: str | None = None
    drop: Sequence[str] = ()
    features: Sequence[str] | None = None
    guess_target: bool = False
    likely_target: str | None = None
    likely_groups: str | None = None


@dataclass(frozen=True)
class InputData:
    """The content of a file: samples with optional labels and groups, or pairs, or both.

    Attributes
    ----------
    path : Path
        The file.
    X : array of shape (n_samples, n) or (n_samples, n, n'), Blocks or None
        The samples.
    y, groups : arrays of shape (n_samples,), or None
        The class and the group of each sample.
    pairs : array or None
        Index pairs (n_pairs, 2) into X; without X, the pairs themselves, (n_pairs, 2, …).
    similar : bool array of shape (n_pairs,), or None
        Which pairs are similar.
    feature_names : tuple of str, or None
        The names of the columns of X.
    target, groups_name : str or None
        The names of the columns of y and groups.
    pairs_path : Path or None
        The CSV file of the pairs, if there is one.
    """

    path: Path
    X: InputSamples | None = None
    y: NDArray | None = None
    groups: NDArray | None = None
    pairs: NDArray | None = None
    similar: NDArray[np.bool_] | None = None
    feature_names: tuple[str, ...] | None = None
    target: str | None = None
    groups_name: str | None = None
    pairs_path: Path | None = None

    @property
    def places(self) -> dict[str, str]:
        """The places of y, groups and pairs, for messages."""
        if self.pairs_path is not None:
            column = f"{self.pairs_path}, column {PAIR_COLUMNS[2]!r}"
            return {"y": column, "pairs": str(self.pairs_path)}
        names = {"y": self.target, "groups": self.groups_name}
        return {
            what: f"{self.path}, column {name!r}"
            for what, name in names.items()
            if name is not None
        }


def read_data(
    path: str | Path,
    columns: Columns = Columns(),
    pairs: str | Path | None = None,
) -> InputData:
    """Read a file of samples or pairs; `pairs` is a CSV file of index pairs into the samples."""
    path = Path(path)
    read = {".npz": _read_npz, ".csv": _read_csv}.get(path.suffix.lower())
    if read is None:
        found = f"the extension {path.suffix!r}" if path.suffix else "none"
        raise ValueError(f"{path}: expected a file with the extension .npz or .csv, got {found}")
    check_is_file(path)
    data = read(path, columns, pairs is not None)
    return data if pairs is None else _with_pairs(data, Path(pairs))


# Tables


def _read_csv(path: Path, columns: Columns, with_pairs: bool) -> InputData:
    table = read_csv_table(path)
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
                f"{path}: expected a name for each column, got none for column "
                f"{table.place('') + 1}; if it holds row numbers, leave it out with --drop ''"
            )
    if not names:
        raise ValueError(
            f"{path}: expected columns of numbers besides {quoted(table.names)}, got none"
        )
    return InputData(
        path,
        X=table.read_numbers(names),
        y=None if target is None else table.read_labels(target, "--target"),
        groups=None if groups is None else table.read_groups(groups, "--groups"),
        feature_names=tuple(names),
        target=target,
        groups_name=groups,
    )


def _target_of(table: CsvTable, columns: Columns, guess: bool) -> str | None:
    if columns.target is not None:
        return table.names[table.place(columns.target, "--target")]
    if columns.likely_target in table.names:
        return columns.likely_target
    left = [name for name in table.names if name not in {*columns.drop, columns.groups}]
    for name in left:
        if name.lower() in TARGET_NAMES and name not in (columns.features or ()):
            return name
    return left[-1] if guess and left else None


def _with_pairs(data: InputData, path: Path) -> InputData:
    """Add the index pairs of a CSV file with the columns first, second and, optionally, similar."""
    assert data.X is not None  # or the file would have been refused
    table = read_csv_table(path)
    index = [_sample_numbers(table, name, len(data.X)) for name in PAIR_COLUMNS[:2]]
    similar = None
    if PAIR_COLUMNS[2] in table.names:
        similar = np.array([_same(*cell) for cell in table.cells(PAIR_COLUMNS[2])])
    return replace(data, pairs=np.stack(index, axis=1), similar=similar, pairs_path=path)


def _sample_numbers(table: CsvTable, name: str, n_samples: int) -> NDArray[np.intp]:
    for cell, where in table.cells(name):
        if not (is_whole_number(cell) and float(cell) < n_samples):
            raise ValueError(
                f"{where}: expected the number of a sample, from 0 to {n_samples - 1}, got "
                f"{shown(cell)}"
            )
    return np.array([int(cell) for cell in table.column(name)], dtype=np.intp)


def _same(cell: str, where: str) -> bool:
    if cell.lower() in SAME | DIFFERENT:
        return cell.lower() in SAME
    raise ValueError(f"{where}: expected 1, same, 0, -1 or different, got {shown(cell)}")


# Archives of arrays


def _read_npz(path: Path, columns: Columns, with_pairs: bool) -> InputData:
    if columns.drop:
        raise ValueError(f"{path}: expected a table for --drop, got an archive of arrays")
    arrays = _read_arrays(path)
    X = _find_samples(path, arrays)
    pairs = None if with_pairs else arrays.get("pairs")
    if pairs is None:
        if X is None:
            raise ValueError(
                f"{path}: expected an array X (or X0, X1, …{'' if with_pairs else ' or pairs'}), "
                f"got {quoted(arrays)}"
                f"{suggestion('X', list(arrays))}"
            )
        for name in (columns.target, columns.groups):
            if name is not None and name not in arrays:
                raise ValueError(f"{path}: expected an array {name!r}, got {quoted(arrays)}")
        names = (columns.target or "y", columns.groups or "groups")
        y, groups = (_one_each(path, name, arrays.get(name), len(X)) for name in names)
        return InputData(path, X, y, groups)
    pairs = _checked_pairs(path, pairs, None if X is None else len(X))
    name = "similar" if "similar" in arrays else "y"
    flags = _one_each(path, name, arrays.get(name), len(pairs))
    similar = None if flags is None else _flags(path, name, flags)
    groups = None
    if X is not None:
        name = columns.groups or "groups"
        groups = _one_each(path, name, arrays.get(name), len(X))
    return InputData(path, X, groups=groups, pairs=pairs, similar=similar)


def _read_arrays(path: Path) -> dict[str, NDArray]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an archive of arrays (numpy.savez), got another file")
    arrays: dict[str, NDArray] = {}
    name: str | None = None
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                if name in arrays:
                    raise ValueError("the archive has two arrays of this name")
                arrays[name] = np.asarray(archive[name])
    except Exception as error:  # damaged archives raise many kinds of errors
        where = f"{path}: " if name is None else f"{path}: {name}: "
        raise ValueError(
            f"{where}expected an array of numbers or words (numpy.savez), got one that cannot be "
            f"read: {error}"
        ) from error
    return arrays


def _find_samples(path: Path, arrays: dict[str, NDArray]) -> InputSamples | None:
    numbers = sorted(int(name[1:]) for name in arrays if re.fullmatch(r"X(0|[1-9]\d*)", name))
    several = [f"X{m}" for m in numbers]
    if "X" in arrays and several:
        raise ValueError(f"{path}: expected either X or {several[0]}, …, got both")
    if several != [f"X{m}" for m in range(len(several))]:
        raise ValueError(f"{path}: expected X0, X1, … without gaps, got {quoted(several)}")
    for name in ("X", *several):
        if name in arrays:
            _check_samples(path, name, arrays[name])
    counts = {name: len(arrays[name]) for name in several}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{path}: expected the same number of samples in each block, got {counts}")
    return Blocks(*(arrays[name] for name in several)) if several else arrays.get("X")


def _check_samples(path: Path, name: str, array: NDArray) -> None:
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
            f"{path}: {name}: expected shape ({count},), one value per sample or pair, got "
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
    """Return which pairs are similar, from booleans, 0 and 1, or ±1."""
    found = set(values.tolist())
    if not (found <= {0, 1} or found <= {-1, 1}):
        raise ValueError(
            f"{path}: {name}: expected 1 for similar and -1 or 0 for dissimilar pairs, got "
            f"{sorted(found, key=str)[:5]}"
        )
    return values > 0
