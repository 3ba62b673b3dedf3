"""CSV files: columns of numbers or words, and the line and column of each mistake."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._data.atomic_files import written_atomically
from .._messages import quoted, shown, suggestion


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        The names of the columns.
    rows : list of list of str
        The cells of each row, without the header.
    lines : list of int
        The line of the file on which each row ends, counted from 1.
    """

    path: Path
    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str, option: str | None = None) -> list[str]:
        """Return the cells of one column."""
        place = self.place(name, option)
        return [row[place].strip() for row in self.rows]

    def cells(self, name: str, option: str | None = None) -> Iterator[tuple[str, str]]:
        """Return each cell of one column with its place in the file, for messages."""
        for line, cell in zip(self.lines, self.column(name, option), strict=True):
            yield cell, f"{self.path}, line {line}, column {name!r}"

    def place(self, name: str, option: str | None = None) -> int:
        """Return the index of a column; `option` is the option that asked for it."""
        if name not in self._places:
            asked = f" ({option})" if option else ""
            raise ValueError(
                f"{self.path}: expected a column {name!r}{asked}, got {quoted(self.names)}"
                f"{suggestion(name, self.names)}"
            )
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each name; the first one if a name occurs twice."""
        return {name: place for place, name in reversed(list(enumerate(self.names)))}

    def read_numbers(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return some columns as finite numbers, shape (n_rows, n_columns)."""
        places = [self.place(name) for name in names]
        try:
            values = np.array(
                [[_parse_number(row[place]) for place in places] for row in self.rows]
            )
        except ValueError as error:
            raise ValueError(self._first_wrong(names)) from error
        if not np.isfinite(values).all():
            raise ValueError(self._first_wrong(names))
        return values

    def read_labels(self, name: str, option: str) -> NDArray:
        """Return a column of labels: whole numbers, numbers or words."""
        for cell, where in self.cells(name, option):
            if not cell or cell.lower() == "nan":
                raise ValueError(f"{where}: expected a label, got {cell or 'an empty cell'}")
        cells = self.column(name)
        for values in (_as_integers(cells), _as_fractions(cells)):
            if values is not None:
                self._check_finite_labels(name, values)
                return values
        return np.array(cells)

    def _check_finite_labels(self, name: str, values: NDArray) -> None:
        for (cell, where), value in zip(self.cells(name), values, strict=True):
            if not isfinite(value):
                raise ValueError(f"{where}: expected a label, got {cell}, which is not finite")

    def read_groups(self, name: str, option: str) -> NDArray:
        """Return a column of groups as words.

        Empty cells are refused: all samples without a group would form one group.
        """
        for cell, where in self.cells(name, option):
            if not cell:
                raise ValueError(f"{where}: expected a group, got an empty cell")
        return np.array(self.column(name))

    def _first_wrong(self, names: Sequence[str]) -> str:
        """Return the message about the first cell, in reading order, that is no finite number."""
        columns = [list(self.cells(name)) for name in names]
        cells = (cell for row in zip(*columns, strict=True) for cell in row)
        wrong, where = next((cell, where) for cell, where in cells if not _is_finite(cell))
        found = shown(wrong) if wrong else "an empty cell"
        return f"{where}: expected a finite number, got {found}; leave a column out with --drop"


# Cells


def is_whole_number(cell: str) -> bool:
    """Return whether a cell consists of the digits 0 to 9 only.

    >>> is_whole_number("12"), is_whole_number("1_2"), is_whole_number("٣")
    (True, False, False)
    """
    return cell.isascii() and cell.isdecimal()


def _parse_number(cell: str) -> float:
    """Return the number in a cell; unlike Python, refuse 1_000 and digits other than 0 to 9."""
    cell = cell.strip()
    if "_" in cell or not cell.isascii():
        raise ValueError(f"expected a number, got {shown(cell)}")
    return float(cell)


def _is_finite(cell: str) -> bool:
    try:
        return isfinite(_parse_number(cell))
    except ValueError:
        return False


def _as_integers(cells: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the cells as integers; None if some are not, or are codes such as 007."""
    try:
        values = np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return values if values.astype(str).tolist() == list(cells) else None


def _as_fractions(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the cells as numbers; None if some are words, or all are codes such as 007."""
    if all(is_whole_number(cell.lstrip("+-")) for cell in cells):
        return None
    try:
        return np.array([_parse_number(cell) for cell in cells])
    except ValueError:
        return None


# Reading


def read_csv_table(path: Path) -> CsvTable:
    """Read a CSV file with a header.

    The delimiter is a comma, a semicolon or a tab: the most frequent one in the header.
    """
    check_is_file(path)
    text = _read_text(path)
    header = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(header), strict=True)
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
    table = CsvTable(path, [name.strip() for name in rows[0]], rows[1:], lines[1:])
    for line, row in zip(table.lines, table.rows, strict=True):
        if len(row) != len(table.names):
            raise ValueError(
                f"{path}, line {line}: expected {len(table.names)} cells as in the header, got "
                f"{len(row)}"
            )
    _check_header(table, lines[0])
    return table


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


def _delimiter(header: str) -> str:
    """Return the most frequent delimiter of the header; those in quotation marks do not count."""
    return max(",;\t", key="".join(header.split('"')[::2]).count)


def _check_header(table: CsvTable, line: int) -> None:
    """Raise an error if the first row looks like data, or if two columns have the same name."""
    numbers = [name for name in table.names if _is_finite(name)]
    if numbers and not _counts_columns(table, numbers):
        place = table.names.index(numbers[0]) + 1
        raise ValueError(
            f"{table.path}, line {line}, column {place}: expected a header with the names of the "
            f"columns, got the number {shown(numbers[0])}; add a header, or a letter to the names "
            "that are numbers"
        )
    for place, name in enumerate(table.names):
        if table.place(name) != place:
            raise ValueError(
                f"{table.path}, line {line}, column {place + 1}: expected different column names, "
                f"got {shown(name)} twice"
            )


def _counts_columns(table: CsvTable, numbers: Sequence[str]) -> bool:
    """Return whether the numbers of a header can only be column numbers, as pandas writes them.

    They count up from 0 or 1, and no word of the header is found in its own column, as a class
    would be.
    """
    counts = [str(place) for place in range(len(numbers) + 1)]
    if len(numbers) == len(table.names) or list(numbers) not in (counts[:-1], counts[1:]):
        return False
    words = [name for name in table.names if name and not _is_finite(name)]
    return not any(name in table.column(name) for name in words)


def check_is_file(path: Path) -> None:
    """Raise an error if there is no file of this name."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a file, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file, got none of this name")
    if not path.is_file():
        raise OSError(f"{path}: expected a file, got a device or a pipe")


# Writing


def write_csv(
    path: Path | None, names: Iterable[str], rows: Iterable[Sequence], overwrite: bool = True
) -> None:
    """Write a table to a file, or to the standard output if `path` is None."""
    if path is None:
        if sys.stdout is None:
            raise ValueError("--out: expected a file, got none, and the standard output is closed")
        csv.writer(sys.stdout, lineterminator="\n").writerows([list(names), *rows])
        return
    with written_atomically(path, overwrite) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        csv.writer(text, lineterminator="\n").writerows([list(names), *rows])
        text.flush()
        text.detach()
