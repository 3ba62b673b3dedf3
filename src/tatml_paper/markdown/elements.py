"""The elements of the Markdown files: tables and marked numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..standings import Mark


def make_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is aligned left and all others right.

    Examples
    --------
    >>> print(make_table(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|---:|
    | x | 1 |
    """
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [_table_row(header), "|" + "|".join(rule) + "|", *(_table_row(row) for row in rows)]
    return "\n".join(lines)


def _table_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(escaped) + " |"


def mark_text(text: str, mark: Mark) -> str:
    """Return the text in bold, followed by °, or as it is.

    Examples
    --------
    >>> mark_text("90.00", Mark.HIGHEST), mark_text("89.90", Mark.UNDECIDED)
    ('**90.00**', '89.90 °')
    """
    return {Mark.HIGHEST: f"**{text}**", Mark.UNDECIDED: f"{text} °", Mark.APART: text}[mark]
