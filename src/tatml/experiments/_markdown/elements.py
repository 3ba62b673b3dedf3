"""Small parts of markdown that tables are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

__all__ = ["number", "signed", "spread", "table"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is on the left, and all others on the right.

    Examples
    --------
    >>> print(table(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|---:|
    | x | 1 |
    """
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [_row(header), "|" + "|".join(rule) + "|", *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(escaped) + " |"


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits; a dash where there is none."""
    return "–" if value is None or isnan(value) else f"{value:.{digits}f}"


def signed(value: float, digits: int = 2) -> str:
    """With its sign, a true minus."""
    return "–" if isnan(value) else f"{value:+.{digits}f}".replace("-", "−")


def spread(mean: float, deviation: float, digits: int = 2) -> str:
    """Mean ± standard deviation, or the mean alone."""
    return number(mean, digits) + ("" if isnan(deviation) else f" ± {number(deviation, digits)}")
