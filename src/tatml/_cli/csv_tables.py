"""Tables of a user, `.csv`: columns of numbers and of words, and where in a table a mistake is."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._messages import quoted, suggestion

__all__ = ["Table", "check_is_file", "read_table", "write_csv"]


@dataclass(frozen=True)
class Table:
    """The cells of a table, and the lines of the file that they are on."""

    path: Path
    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str, option: str | None = None) -> list[str]:
        """The cells of one column."""
        place = self.place(name, option)
        return [row[place].strip() for row in self.rows]

    def place(self, name: str, option: str | None = None) -> int:
        """Which column has a name; `option` is what asked for it."""
        if name not in self.names:
            asked = f" ({option})" if option else ""
            raise ValueError(
                f"{self.path}: expected a column {name!r}{asked}, got {quoted(self.names)}"
                f"{suggestion(name, self.names)}"
            )
        return self.names.index(name)

    def numbers(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Some columns as finite numbers, shape (n_rows, n_columns)."""
        places = [self.place(name) for name in names]
        try:
            values = np.array([[float(row[place]) for place in places] for row in self.rows])
        except ValueError:
            values = np.array([[np.nan]])
        if not np.isfinite(values).all():
            raise ValueError(self._first_wrong(places))
        return values

    def labels(self, name: str, option: str) -> NDArray:
        """A column of labels: whole numbers, numbers or words."""
        cells = self.column(name, option)
        for line, cell in zip(self.lines, cells, strict=True):
            if not cell or cell.lower() == "nan":
                raise ValueError(
                    f"{self.path}, line {line}, column {name!r}: expected a label, got "
                    f"{cell or 'an empty cell'}"
                )
        for values in (_whole_numbers(cells), _as_floats(cells)):
            if values is not None:
                return values
        return np.array(cells)

    def groups(self, name: str, option: str) -> NDArray:
        """A column of groups, as words; what has no group would be one group with all such."""
        cells = self.column(name, option)
        for line, cell in zip(self.lines, cells, strict=True):
            if not cell:
                raise ValueError(
                    f"{self.path}, line {line}, column {name!r}: expected a group, got an empty "
                    "cell"
                )
        return np.array(cells)

    def _first_wrong(self, places: Sequence[int]) -> str:
        for line, row in zip(self.lines, self.rows, strict=True):
            for place in places:
                if not _is_finite(row[place]):
                    cell, name = row[place].strip(), self.names[place]
                    found = repr(cell) if cell else "an empty cell"
                    return (
                        f"{self.path}, line {line}, column {name!r}: expected a finite number, "
                        f"got {found}; leave a column out with --drop"
                    )
        return f"{self.path}: expected finite numbers"


def _whole_numbers(cells: Sequence[str]) -> NDArray[np.int64] | None:
    """The cells as whole numbers; None where some are none, or are codes such as 007."""
    try:
        values = np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return values if values.astype(str).tolist() == list(cells) else None


def _as_floats(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """The cells as numbers; None where some are words, or whole numbers that stay words."""
    if all(cell.lstrip("+-").isdecimal() for cell in cells):
        return None
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return None


def _is_finite(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False


def read_table(path: Path) -> Table:
    """A table with a header; the delimiter is the one of comma, semicolon and tab it has most."""
    check_is_file(path)
    rows, lines = [], []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header = next((line for line in file if line.strip()), "")
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(header), strict=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    rows.append(row)
                    lines.append(reader.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: expected a table in UTF-8, got {error}") from error
    if len(rows) < 2:
        raise ValueError(f"{path}: expected a header and one row or more, got {len(rows)} lines")
    names = [name.strip() for name in rows[0]]
    table = Table(path, names, rows[1:], lines[1:])
    _check_table(table)
    return table


def _delimiter(header: str) -> str:
    """Names in quotes may hold any of them: those do not count."""
    return max(",;\t", key="".join(header.split('"')[::2]).count)


def _check_table(table: Table) -> None:
    if all(_is_finite(name) for name in table.names):
        raise ValueError(
            f"{table.path}: expected a header with the names of the columns, got numbers "
            f"in the first line"
        )
    twice = [name for name in table.names if table.names.count(name) > 1]
    if twice:
        raise ValueError(f"{table.path}: expected different column names, got {twice[0]!r} twice")
    for line, row in zip(table.lines, table.rows, strict=True):
        if len(row) != len(table.names):
            raise ValueError(
                f"{table.path}, line {line}: expected {len(table.names)} cells as in the header, "
                f"got {len(row)}"
            )


def write_csv(path: str | Path | None, names: Iterable[str], rows: Iterable[Sequence]) -> None:
    """Write a table; without a path to the standard output."""
    if path is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([list(names), *rows])
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([list(names), *rows])


def check_is_file(path: Path) -> None:
    """A file, said in words where it is not."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a file, got a folder")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file, got none of this name")
