"""Writes the Markdown files from the records of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from ..files import write_text
from ..store import read_records
from .sensitivity import sensitivity_text
from .table1 import table1_text


def write_tables(out: str | os.PathLike[str]) -> list[Path]:
    """Write `table1.md` and `sensitivity.md` from the records of a folder.

    Parameters
    ----------
    out : path
        The folder with `results.jsonl`.

    Returns
    -------
    list of Path
        The files that were written. A file is written only if there are records for it.

    Examples
    --------
    >>> from tatml_paper import write_tables
    >>> write_tables("no-such-folder")
    []
    """
    records = read_records(out)
    texts = {"table1.md": table1_text(records), "sensitivity.md": sensitivity_text(records)}
    written = [Path(out) / name for name, text in texts.items() if text]
    for path in written:
        write_text(path, texts[path.name])
    return written
