"""Names of blocks and of their rows, which tables and displays show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._messages import shown
from .._validation import as_list

BlockNames = tuple[str, ...] | None  # the name of each block
RowNames = tuple[tuple[str, ...] | None, ...] | None  # per block, the names of its rows


def check_block_names(
    names: Any, n_blocks: int, name: str = "names", what: str = "one word per block"
) -> BlockNames:
    """Return the names of blocks as a tuple; None if there are none."""
    return None if names is None else _words(name, names, n_blocks, what)


def check_row_names(
    names: Any, shapes: Sequence[tuple[int, ...]], name: str = "row_names"
) -> RowNames:
    """Return the names of the rows of each block; None if no block has any."""
    if names is None:
        return None
    listed = as_list(name, names, "one list of words, or None, per block")
    if len(listed) != len(shapes):
        raise ValueError(
            f"{name}: expected one list of words, or None, for each of {len(shapes)} blocks, got "
            f"{len(listed)}"
        )
    found = tuple(
        None if words is None else _words(f"{name}[{m}]", words, shape[0], "one word per row")
        for m, (words, shape) in enumerate(zip(listed, shapes, strict=True))
    )
    return found if any(words is not None for words in found) else None


def _words(name: str, values: Any, count: int, what: str) -> tuple[str, ...]:
    words = as_list(name, values, what)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{name}: expected {what}, got {shown(word)}")
    if len(words) != count:
        raise ValueError(f"{name}: expected {what}, which is {count}, got {len(words)}")
    return tuple(str(word) for word in words)


def make_frame(columns: Any, names: Sequence[str], what: str) -> Any:
    """Return a data frame with named rows; `what` names the column of their names."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(columns, index=pd.Index(list(names), name=what))
