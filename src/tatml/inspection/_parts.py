"""What the tables of importance share: the parts of a sample, their names, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._data.names import check_block_names, check_row_names, join_names
from .._messages import shown
from .._validation import as_list, check_choice

By = Literal["features", "blocks"]
NAME_WIDTH = 40  # longer names are cut in printed tables


class Part(NamedTuple):
    """A row of a block, or a whole block (`row` is None), and its name."""

    name: str
    block: int
    row: int | None


def name_parts(estimator: Any, by: By, names: Any) -> list[Part]:
    """Return the rows of all blocks, or the blocks, with given names or those that fit saw."""
    check_choice("by", by, ("features", "blocks"))
    shapes = estimator.block_shapes_
    known = vars(estimator).get("block_names_in_")
    if by == "blocks":
        words = check_block_names(names, len(shapes)) or known
        return [
            Part(f"block {m}" if words is None else words[m], m, None) for m in range(len(shapes))
        ]
    sizes = [n for n, _ in shapes]
    rows = _known_rows(estimator) if names is None else _given_rows(names, sizes)
    blocks: Sequence[str | None] = known or [f"block {m}" for m in range(len(shapes))]
    if len(shapes) == 1:
        blocks = [None]
    return [
        Part(join_names(blocks[m], word), m, row)
        for m, words in enumerate(rows)
        for row, word in enumerate(words)
    ]


def _known_rows(estimator: Any) -> list[Sequence[str]]:
    """Return the names of rows that fit saw, and x0, x1, … for those without."""
    known = vars(estimator).get("row_names_in_", (None,) * len(estimator.block_shapes_))
    if hasattr(estimator, "feature_names_in_"):
        known = ([str(name) for name in estimator.feature_names_in_],)
    return [
        [f"x{row}" for row in range(n)] if words is None else words
        for words, (n, _) in zip(known, estimator.block_shapes_, strict=True)
    ]


def _given_rows(names: Any, sizes: Sequence[int]) -> list[Sequence[str]]:
    """Return given names per block; for one block they may be one list."""
    what = "one word per feature; for several blocks one list of words per block"
    listed = as_list("names", names, what)
    if len(sizes) == 1 and all(isinstance(word, str) for word in listed):
        listed = [listed]
    found = check_row_names(listed, [(n,) for n in sizes], "names")
    if found is None or None in found:
        raise TypeError(f"names: expected {what}, got {shown(names)}")
    return [words for words in found if words is not None]


def make_frame(columns: dict[str, Any], names: Sequence[str], what: str) -> Any:
    """Return a data frame with one row per feature or block. It needs pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(columns, index=pd.Index(list(names), name=what))


def format_table(
    title: str, names: Sequence[str], columns: dict[str, NDArray[np.float64]], order: NDArray
) -> str:
    """Return a table as lines of text, in the given order of rows."""
    words = [name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…" for name in names]
    width = max(len(word) for word in words)
    lines = [title, " " * width + "".join(f"  {head:>10}" for head in columns)]
    for row in order:
        cells = "".join(f"  {values[row]:>10.4f}" for values in columns.values())
        lines.append(f"{words[row]:<{width}}{cells}")
    return "\n".join(lines)
