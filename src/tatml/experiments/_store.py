"""results.jsonl: one record a line, appended when a run is done, whole or not at all.

Only the process that holds the file's lock writes, one line at a time and through to the disk. If
it is killed in the middle of a line, the torn line is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

__all__ = ["Store", "current_records", "failed_records", "read_records"]

Record = dict[str, Any]
FILE_NAME = "results.jsonl"


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """All records of a file, or of the folder that holds it, in the order they were made.

    A torn line, of a process that was killed, is left out. Where there is no file, there are none.

    Parameters
    ----------
    path : path
        A file of records, or a folder with `results.jsonl` in it.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from tatml.experiments import read_records
    >>> read_records("no-such-folder")
    []
    """
    path = _file_of(path)
    if not path.exists():
        return []
    records = (_parsed(line) for line in path.read_bytes().split(b"\n"))
    return [record for record in records if record is not None]


def _file_of(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path / FILE_NAME if path.is_dir() or not path.suffix else path


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if hasattr(record, "keys") and "key" in record else None


class Store:
    """The file of records, open for appending; a context manager.

    Parameters
    ----------
    folder : path
        Where `results.jsonl` is; made if need be.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.path = Path(folder) / FILE_NAME

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab+")
        try:
            self._lock()
            self._cut_torn_line()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Write one record, through to the disk."""
        line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on Windows: there nothing keeps a second process away
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BlockingIOError(
                f"{self.path}: expected to be alone, got another process that writes to it; wait "
                "for it or choose another folder"
            ) from error

    def _cut_torn_line(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)


def _finite(value: Any) -> Any:
    """The same with None in place of NaN and infinity, which JSON does not have."""
    if hasattr(value, "items"):
        return {name: _finite(part) for name, part in value.items()}
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return [_finite(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def current_records(records: Iterable[Record], experiment: str) -> list[Record]:
    """Of each run the last record that succeeded, from one declaration of each cell.

    Where a data set was declared anew, the older records of it are left out; where a method was,
    those of the method in that cell.
    """
    done = [r for r in records if r["experiment"] == experiment and not r.get("error")]
    data = {_cell(r): r["data_digest"] for r in done}
    done = [r for r in done if r["data_digest"] == data[_cell(r)]]
    method = {_row(r): r["digest"] for r in done}
    last = {r["key"]: r for r in done if r["digest"] == method[_row(r)]}
    return sorted(last.values(), key=lambda r: r["repeat"])


def failed_records(records: Iterable[Record], experiment: str) -> list[Record]:
    """The last record of each run that failed and has not succeeded since, however declared."""
    last = {(*_row(r), r["repeat"]): r for r in records if r["experiment"] == experiment}
    return [record for record in last.values() if record.get("error")]


def _cell(record: Record) -> tuple:
    return record["dataset"], record["split"]


def _row(record: Record) -> tuple:
    setting = json.dumps(record.get("setting"), sort_keys=True)
    return *_cell(record), record["features"], record["method"], setting
