"""Write what the commands return: files, tables and rows of text."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .._data.atomic_files import checked_output, write_arrays
from .._messages import quoted
from .csv_tables import write_csv

TABLES = (".csv", ".npz")  # files of predict and transform


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


def print_json(facts: dict[str, Any]) -> None:
    """Print the results as JSON."""
    print(json.dumps(facts, indent=2, default=float))
