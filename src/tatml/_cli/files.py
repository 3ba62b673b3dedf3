"""Read samples, labels and pairs from files, and write tables.

Every error is one line that names the file and the line and column (CSV) or the array (npz).
"""

from __future__ import annotations

import csv
import io
import re
import sys
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.atomic_files import checked_output, write_arrays, written_atomically
from .._data.blocks import Blocks, as_blocks
from .._data.pairs import as_index
from .._messages import quoted, shown, suggestion

InputSamples = Blocks | NDArray

TARGET_NAMES = ("y", "target")
PAIR_COLUMNS = ("first", "second", "similar")
SAME = {"1", "+1", "1.0", "true", "yes", "same", "similar"}
DIFFERENT = {"0", "-1", "0.0", "-1.0", "false", "no", "different", "dissimilar"}
TABLES = (".csv", ".npz")  # files of predict and transform


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file.

    Attributes
    ----------
    path : Path
        The file.
    columns : dict of lists of str
        The cells of each column, by its name.
    lines : list of int
        The line of the file on which each row ends, counted from 1.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    def column(self, name: str, option: str = "") -> list[str]:
        """Return the cells of one column, or raise; `option` is the option that asked for it."""
        if name not in self.columns:
            raise ValueError(
                f"{self.path}: expected a column {name!r}{option and f' ({option})'}, got "
                f"{quoted(self.columns)}{suggestion(name, self.columns)}"
            )
        return self.columns[name]

    def cells(self, name: str) -> Iterator[tuple[str, str]]:
        """Return each cell of one column with its place in the file, for messages."""
        for line, cell in zip(self.lines, self.column(name), strict=True):
            yield cell, f"{self.path}, line {line}, column {name!r}"

    def read_numbers(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return some columns as finite numbers, shape (n_rows, n_columns)."""
        columns = [self.column(name) for name in names]
        values = np.column_stack([[parse_number(cell) for cell in cells] for cells in columns])
        if not np.isfinite(values).all():
            row, place = np.argwhere(~np.isfinite(values))[0]
            cell = columns[place][row]
            raise ValueError(
                f"{self.path}, line {self.lines[row]}, column {names[place]!r}: expected a finite "
                f"number, got {shown(cell) if cell else 'an empty cell'}; leave a column out with "
                "--drop"
            )
        return values

    def read_labels(self, name: str) -> NDArray:
        """Return a column of labels: whole numbers, numbers or words."""
        for cell, where in self.cells(name):
            if not cell or cell.lower() == "nan":
                raise ValueError(f"{where}: expected a label, got {cell or 'an empty cell'}")
        values = _as_labels(self.column(name))
        if values.dtype.kind == "f" and np.isinf(values).any():
            cell, where = [*self.cells(name)][np.argmax(np.isinf(values))]
            raise ValueError(f"{where}: expected a label, got {cell}, which is not finite")
        return values

    def read_groups(self, name: str) -> NDArray:
        """Return a column of groups as words.

        Empty cells are refused: all samples without a group would form one group.
        """
        for cell, where in self.cells(name):
            if not cell:
                raise ValueError(f"{where}: expected a group, got an empty cell")
        return np.array(self.column(name))


# Cells


def is_whole_number(cell: str) -> bool:
    """Return whether a cell consists of the digits 0 to 9 only.

    >>> is_whole_number("12"), is_whole_number("1_2"), is_whole_number("٣")
    (True, False, False)
    """
    return cell.isascii() and cell.isdecimal()


def parse_number(cell: str) -> float:
    """Return the number in a cell, or NaN; unlike Python, refuse 1_000 and digits not from 0 to 9.

    Spaces around the number are ignored.
    """
    try:
        return float(cell) if cell.isascii() and "_" not in cell else nan
    except ValueError:
        return nan


def _as_labels(cells: Sequence[str]) -> NDArray:
    """Return cells as whole numbers, as numbers, or as words if they are words or codes (007)."""
    words = np.array(cells)
    if not all(is_whole_number(cell.lstrip("+-")) for cell in cells):
        numbers = np.array([parse_number(cell) for cell in cells])
        return words if np.isnan(numbers).any() else numbers
    try:
        integers = np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return words
    return integers if np.array_equal(integers.astype(str), words) else words


# Reading


def read_csv_table(path: Path) -> CsvTable:
    """Read a CSV file with a header.

    The delimiter is a comma, a semicolon or a tab: the most frequent one in the header.
    """
    check_is_file(path)
    text = _read_text(path)
    header = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    delimiter = max(",;\t", key="".join(header.split('"')[::2]).count)  # outside of quotes
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(_reader_message(path, reader.line_num, error)) from error
    if len(rows) < 2:
        raise ValueError(
            f"{path}: expected a header and at least one row, got {len(rows)} lines with text"
        )
    names, *cells = ([cell.strip() for cell in row] for row in rows)
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {line}: expected {len(names)} cells as in the header, got {len(row)}"
            )
    columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
    _check_header(names, columns, f"{path}, line {lines[0]}")
    return CsvTable(path, columns, lines[1:])


def _read_text(path: Path) -> str:
    content = path.read_bytes()
    if b"\0" in content:  # NumPy cuts it off the end of words
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise ValueError(f"{path}, line {line}: expected text in UTF-8, got a NUL character")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        start = content.rfind(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: expected text in UTF-8, got the byte "
            f"0x{content[error.start]:02x} at character {error.start - start + 1}"
        ) from error


def _reader_message(path: Path, line: int, error: csv.Error) -> str:
    """Return the message for an error of the csv module."""
    where, limit = f"{path}, line {line}", csv.field_size_limit()
    if "field limit" in str(error):
        return (
            f"{where}: expected cells of at most {limit} characters, got a longer one; is a "
            "quotation mark not closed?"
        )
    if "end of data" in str(error):
        return f"{where}: expected a closing quotation mark, got the end of the file"
    return f"{where}: expected comma-separated values, got text that is none: {error}"


def _check_header(names: Sequence[str], columns: Mapping[str, Sequence[str]], where: str) -> None:
    """Raise an error if the first row looks like data, or if two columns have the same name."""
    numbers = [name for name in names if isfinite(parse_number(name))]
    if numbers and not _counts_columns(names, columns, numbers):
        raise ValueError(
            f"{where}, column {names.index(numbers[0]) + 1}: expected a header with the names of "
            f"the columns, got the number {shown(numbers[0])}; add a header, or a letter to the "
            "names that are numbers"
        )
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        if first.setdefault(name, place) != place:
            raise ValueError(
                f"{where}, column {place + 1}: expected different column names, got {shown(name)} "
                "twice"
            )


def _counts_columns(
    names: Sequence[str], columns: Mapping[str, Sequence[str]], numbers: Sequence[str]
) -> bool:
    """Return whether the numbers of a header can only be column numbers, as pandas writes them.

    They count up from 0 or 1, and no word of the header is found in its own column, as a class
    would be.
    """
    counts = [str(place) for place in range(len(numbers) + 1)]
    if len(numbers) == len(names) or list(numbers) not in (counts[:-1], counts[1:]):
        return False
    words = {name for name in names if name} - {*numbers}
    return not any(name in columns[name] for name in words)


def check_is_file(path: Path) -> None:
    """Raise an error if there is no file of this name."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a file, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file, got none of this name")
    if not path.is_file():
        raise OSError(f"{path}: expected a file, got a device or a pipe")


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table.

    Attributes
    ----------
    target, groups : str or None
        The columns of the labels and of the groups. If target is None, the one that is known is
        used, or a column named y or target.
    drop : sequence of str
        Columns to leave out.
    known : mapping
        The columns that a model was fitted on, as in its metadata: "feature_names" are the columns
        of numbers, in this order; "target" and "groups" are used if the table has them.
    guess_target : bool
        Whether the last column is the target if no other column is and no features are known.
    """

    target: str | None
    groups: str | None
    drop: Sequence[str]
    known: Mapping[str, Any] = field(default_factory=dict)
    guess_target: bool = True


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
    X: Any = None  # None if the file has none; commands check what they need
    y: Any = None
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


def read_data(path: str | Path, columns: Columns, pairs: str | Path | None = None) -> InputData:
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
    for option, given in (("--target", columns.target), ("--groups", columns.groups)):
        if given is not None:
            table.column(given, option)
    for name in columns.drop:
        table.column(name, "--drop")
    groups = columns.groups
    if groups is None and columns.known.get("groups") in table.columns:
        groups = columns.known["groups"]
    target = _target_of(table, columns, with_pairs)
    names = columns.known.get("feature_names")
    if names is None:
        left_out = {*columns.drop, target, groups}
        unnamed = () if columns.target is not None else TARGET_NAMES
        names = [n for n in table.columns if n not in left_out and n.lower() not in unnamed]
        if "" in names:
            raise ValueError(
                f"{path}: expected a name for each column, got none for column "
                f"{list(table.columns).index('') + 1}; if it holds row numbers, leave it out with "
                "--drop ''"
            )
    if not names:
        raise ValueError(
            f"{path}: expected columns of numbers besides {quoted(table.columns)}, got none"
        )
    return InputData(
        path,
        X=table.read_numbers(names),
        y=None if target is None else table.read_labels(target),
        groups=None if groups is None else table.read_groups(groups),
        feature_names=tuple(names),
        target=target,
        groups_name=groups,
    )


def _target_of(table: CsvTable, columns: Columns, with_pairs: bool) -> str | None:
    for name in (columns.target, columns.known.get("target")):
        if name in table.columns:
            return name
    features = columns.known.get("feature_names")
    left = [name for name in table.columns if name not in {*columns.drop, columns.groups}]
    for name in left:
        if name.lower() in TARGET_NAMES and name not in (features or ()):
            return name
    guess = columns.guess_target and features is None and not with_pairs
    return left[-1] if guess and left else None


def _with_pairs(data: InputData, path: Path) -> InputData:
    """Add the index pairs of a CSV file with the columns first, second and, optionally, similar."""
    assert data.X is not None  # or the file would have been refused
    table = read_csv_table(path)
    index = [_sample_numbers(table, name, len(data.X)) for name in PAIR_COLUMNS[:2]]
    similar = None
    if PAIR_COLUMNS[2] in table.columns:
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
    try:
        return _read_archive(path, columns, with_pairs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _read_archive(path: Path, columns: Columns, with_pairs: bool) -> InputData:
    if columns.drop:
        raise ValueError("expected a table for --drop, got an archive of arrays")
    arrays = _read_arrays(path)
    X = _find_samples(arrays)
    pairs = None if with_pairs else arrays.get("pairs")
    if X is None and pairs is None:
        raise ValueError(
            f"expected an array X (or X0, X1, …{'' if with_pairs else ' or pairs'}), "
            f"got {quoted(arrays)}{suggestion('X', arrays)}"
        )
    groups = None if X is None else _one_each(arrays, columns.groups or "groups", len(X))
    if pairs is None:
        for name in (columns.target, columns.groups):
            if name is not None and name not in arrays:
                raise ValueError(f"expected an array {name!r}, got {quoted(arrays)}")
        return InputData(path, X, _one_each(arrays, columns.target or "y", len(X)), groups)
    if X is not None:
        pairs = as_index(pairs, len(X), allow_self=True)
    elif len(pairs.shape) not in (3, 4) or pairs.shape[1] != 2:
        raise ValueError(
            "pairs: expected shape (n_pairs, 2, n) or (n_pairs, 2, n, n'), or index pairs "
            f"(n_pairs, 2) together with X, got {pairs.shape}"
        )
    name = "similar" if "similar" in arrays else "y"
    flags = _one_each(arrays, name, len(pairs))
    similar = None if flags is None else _flags(name, flags)
    return InputData(path, X, groups=groups, pairs=pairs, similar=similar)


def _read_arrays(path: Path) -> dict[str, NDArray]:
    if not zipfile.is_zipfile(path):
        raise ValueError("expected an archive of arrays (numpy.savez), got another file")
    arrays: dict[str, NDArray] = {}
    where = ""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                where = f"{name}: "
                if name in arrays:
                    raise ValueError("the archive has two arrays of this name")
                arrays[name] = np.asarray(archive[name])
    except Exception as error:  # damaged archives raise many kinds of errors
        raise ValueError(
            f"{where}expected an array of numbers or words (numpy.savez), got one that cannot be "
            f"read: {error}"
        ) from error
    return arrays


def _find_samples(arrays: dict[str, NDArray]) -> Any:
    numbers = sorted(int(name[1:]) for name in arrays if re.fullmatch(r"X(0|[1-9]\d*)", name))
    several = [f"X{m}" for m in numbers]
    if "X" in arrays and several:
        raise ValueError(f"expected either X or {several[0]}, …, got both")
    if numbers != list(range(len(numbers))):
        raise ValueError(f"expected X0, X1, … without gaps, got {quoted(several)}")
    blocks = {name: arrays[name] for name in ("X", *several) if name in arrays}
    for name, block in blocks.items():
        if len(block.shape) not in (2, 3):
            raise ValueError(
                f"{name}: expected shape (n_samples, n) or (n_samples, n, n'), got {block.shape}"
            )
        as_blocks(block, name)
    counts = {name: len(block) for name, block in blocks.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"expected the same number of samples in each block, got {counts}")
    return Blocks(*blocks.values()) if several else arrays.get("X")


def _one_each(arrays: dict[str, NDArray], name: str, count: int) -> NDArray | None:
    values = arrays.get(name)
    if values is not None and values.shape != (count,):
        raise ValueError(
            f"{name}: expected shape ({count},), one value per sample or pair, got {values.shape}"
        )
    return values


def _flags(name: str, values: NDArray) -> NDArray[np.bool_]:
    """Return which pairs are similar, from booleans, 0 and 1, or ±1."""
    found = set(values.tolist())
    if not (found <= {0, 1} or found <= {-1, 1}):
        raise ValueError(
            f"{name}: expected 1 for similar and -1 or 0 for dissimilar pairs, got "
            f"{sorted(found, key=str)[:5]}"
        )
    return values > 0


# Writing


def optional_path(options: Namespace, extensions: Sequence[str]) -> Path | None:
    """Return the file of an output that need not be written; None without --out."""
    return None if options.out is None else output_path(options.out, options.force, extensions)


def output_path(path: str, force: bool, extensions: Sequence[str]) -> Path:
    """Return the path of an output, or raise an error before the work starts.

    A file is overwritten with --force only.
    """
    out = Path(path)
    if out.suffix.lower() not in extensions:
        raise ValueError(
            f"--out: expected a name that ends in {' or '.join(extensions)}, got {out}"
        )
    if checked_output(out, "--out").exists() and not force:
        raise FileExistsError(f"--out: {out} exists; overwrite it with --force")
    return out


def write_text(path: Path, text: str, overwrite: bool) -> None:
    """Write a file of text, completely or not at all."""
    with written_atomically(path, overwrite) as file:
        file.write(text.encode())


def write_csv(
    path: Path | None, names: Iterable[str], rows: Iterable[Iterable], overwrite: bool
) -> None:
    """Write a table to a file, or to the standard output if `path` is None."""
    if path is None and sys.stdout is None:
        raise ValueError("--out: expected a file, got none, and the standard output is closed")
    text = io.StringIO(newline="")
    csv.writer(text if path else sys.stdout, lineterminator="\n").writerows([names, *rows])
    if path is not None:
        write_text(path, text.getvalue(), overwrite)


def write_columns(out: Path | None, table: dict[str, NDArray], overwrite: bool) -> None:
    """Write columns to a file, or print them as CSV."""
    if out is not None and out.suffix.lower() == ".npz":
        write_arrays(out, table, overwrite)
    else:
        columns = [values.tolist() for values in table.values()]
        write_csv(out, table, zip(*columns, strict=True), overwrite)
    if out is not None:
        count = len(next(iter(table.values())))
        print(f"Saved to {out}: {count} rows of {quoted(table).replace(chr(39), '')}")


def print_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print names, numbers and notes as aligned columns."""
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    for name, value, note in rows:
        print(f"  {name:<{first}}  {value:>{second}}  {note}".rstrip())
