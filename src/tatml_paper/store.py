"""results.jsonl: one record per line, appended when a run is done, whole or not at all.

Only the process that holds the lock of the file writes to it, one line at a time, and each line is
on the disk before the next run is counted. If the process is killed within a line, the torn line is
cut off when the file is opened again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

Record = dict[str, Any]
GroupKey = TypeVar("GroupKey", bound=Hashable)
FILE_NAME = "results.jsonl"


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """Read all records of a file, in the order in which they were made.

    A last line without its end, left by a process that was killed, is ignored. A missing file has
    no records.

    Parameters
    ----------
    path : path
        A file of records, or a folder that contains `results.jsonl`.

    Returns
    -------
    list of dict

    Raises
    ------
    ValueError
        If a line is not the record of a run. The message names the file and the line.

    Examples
    --------
    >>> from tatml_paper import read_records
    >>> read_records("no-such-folder")
    []
    """
    path = _file_of(path)
    if not path.exists():
        return []
    if not path.is_file():
        raise OSError(f"{path}: expected a file of records, got a folder, a device or a pipe")
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    lines = enumerate(whole.split(b"\n"), start=1)
    return [_parse(line, f"{path}, line {number}") for number, line in lines if line.strip()]


def _file_of(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path / FILE_NAME if path.is_dir() or not path.suffix else path


# Check what was read


def _parse(line: bytes, place: str) -> Record:
    """Return the record of a line; raise ValueError with the place if there is none."""
    try:
        record = json.loads(
            line, parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubled
        )
        if b"\\u" in line:  # an escape can spell half of a surrogate pair, which is no text
            json.dumps(record, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"{place}: expected text in UTF-8, got {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: expected a record in JSON, got {error}") from error
    if not hasattr(record, "keys"):
        raise ValueError(f"{place}: expected a record with fields, got {str(record)[:60]!r}")
    _check_fields(record, place)
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")


def _refuse_doubled(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {doubled!r} twice")
    return record


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _is_number(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value))


def _or_null(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_valid(value)


def _is_mapping(value: Any) -> bool:
    return hasattr(value, "items")


FieldCheck = tuple[Callable[[Any], bool], str]
TEXT: FieldCheck = _is_text, "text"
NUMBER: FieldCheck = _is_number, "a number"
MAPPING: FieldCheck = _is_mapping, "names and values"

# The fields that the tables and the page read from every record.
FIELDS: dict[str, FieldCheck] = {
    **dict.fromkeys(
        ("key", "experiment", "dataset", "split", "features", "method", "data_digest", "digest"),
        TEXT,
    ),
    "setting": MAPPING,
    "repeat": (_is_count, "an integer"),
    "versions": MAPPING,
    "date": TEXT,
}
# The further fields of a run that failed, and of a run that succeeded.
FAILED_FIELDS = {"error": TEXT}
DONE_FIELDS = {"accuracy": NUMBER, "seconds": NUMBER}
# Fields that a record need not have.
OPTIONAL_FIELDS: dict[str, FieldCheck] = {
    **dict.fromkeys(
        ("auc", "eer", "balanced_learnt", "balanced_calibrated"),
        (_or_null(_is_number), "a number or null"),
    ),
    "params": (_or_null(_is_mapping), "names and values or null"),
}
VERSION_FIELDS: dict[str, FieldCheck] = {"commit": (_or_null(_is_text), "text or null")}
# The fields of the setting of a sensitivity study, besides the name of the study.
STUDY_FIELDS: dict[str, dict[str, FieldCheck]] = {
    "grid": {"c0": NUMBER, "mu0": NUMBER},
    "threshold": {"b0": NUMBER},
    "decades": {"moves": TEXT},
}


def _check_fields(record: Record, place: str) -> None:
    """Raise ValueError if a field that the tables need is missing or of another kind."""
    _check(record, FIELDS, place)
    _check(record, FAILED_FIELDS if record.get("error") else DONE_FIELDS, place)
    _check_present(record, OPTIONAL_FIELDS, place)
    _check_present(record["versions"], VERSION_FIELDS, f"{place}, versions")
    if record["experiment"] == "sensitivity":
        setting = record["setting"]
        if setting.get("study") not in tuple(STUDY_FIELDS):  # also of kinds that no dict can hold
            studies = ", ".join(STUDY_FIELDS)
            got = repr(setting.get("study"))
            raise ValueError(f"{place}: expected a setting with study {studies}, got {got}")
        _check(setting, STUDY_FIELDS[setting["study"]], f"{place}, setting")
        if setting["study"] == "decades":
            _check(setting, {setting["moves"]: NUMBER}, f"{place}, setting")


def _check_present(record: Record, fields: dict[str, FieldCheck], place: str) -> None:
    _check(record, {name: fields[name] for name in fields if name in record}, place)


def _check(record: Record, fields: dict[str, FieldCheck], place: str) -> None:
    for name, (is_valid, kind) in fields.items():
        if name not in record:
            raise ValueError(f"{place}: expected a field {name!r}, got none")
        if not is_valid(record[name]):
            got = f"{record[name]!r}"[:60]
            raise ValueError(f"{place}: expected {kind} in the field {name!r}, got {got}")


# Write


class Store:
    """The file of records, open for appending; a context manager.

    Parameters
    ----------
    folder : path
        The folder of `results.jsonl`; it is created if necessary.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.path = Path(folder) / FILE_NAME

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab+", buffering=0)  # a failed write leaves no buffer behind
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
        """Write one record through to the disk.

        Raises
        ------
        OSError
            If it cannot be written whole; the file is then as before. Also if the file was removed
            or replaced meanwhile, so that nobody would find the record.
        """
        line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        try:
            self._write(line)
        except BaseException:  # an interrupt as well
            with suppress(OSError):
                self._file.truncate(start)
            raise
        self._check_still_there()

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _check_still_there(self) -> None:
        try:
            found = os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            found = False
        if not found:
            raise FileNotFoundError(
                f"{self.path}: expected a file that stays in place, got one that was removed or "
                "replaced; the records in it are lost, and the same command runs them again"
            )

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no flock: a second process is not kept away
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BlockingIOError(
                f"{self.path}: expected one process that writes to it, got a second one; wait for "
                "the other one or choose another folder"
            ) from error

    def _cut_torn_line(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None, at any depth."""
    if hasattr(value, "items"):
        return {name: _finite(part) for name, part in value.items()}
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return [_finite(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Select


def current_records(records: Iterable[Record], experiment: str) -> list[Record]:
    """Return the last successful record of each run, from one declaration per cell and method.

    If a data set was declared anew, its older records are left out; if a method was, the older
    records of this method in the cell.
    """
    done = [r for r in records if r["experiment"] == experiment and not r.get("error")]
    data = {_place(r): r["data_digest"] for r in done}
    done = [r for r in done if r["data_digest"] == data[_place(r)]]
    method = {_row_of(r): r["digest"] for r in done}
    last = {r["key"]: r for r in done if r["digest"] == method[_row_of(r)]}
    return sorted(last.values(), key=lambda r: r["repeat"])


def grouped(
    records: Iterable[Record], key: Callable[[Record], GroupKey]
) -> dict[GroupKey, list[Record]]:
    """Group records by what a function returns for them, in the order in which it first does.

    Examples
    --------
    >>> grouped([{"repeat": 0}, {"repeat": 1}, {"repeat": 0}], lambda record: record["repeat"])
    {0: [{'repeat': 0}, {'repeat': 0}], 1: [{'repeat': 1}]}
    """
    found: dict[GroupKey, list[Record]] = {}
    for record in records:
        found.setdefault(key(record), []).append(record)
    return found


def failed_records(records: Iterable[Record], experiment: str) -> list[Record]:
    """Return the last record of each run that failed and has not succeeded since."""
    last = {(*_row_of(r), r["repeat"]): r for r in records if r["experiment"] == experiment}
    return [record for record in last.values() if record.get("error")]


def _place(record: Record) -> tuple:
    return record["dataset"], record["split"]


def _row_of(record: Record) -> tuple:
    setting = json.dumps(record["setting"], sort_keys=True)
    return *_place(record), record["features"], record["method"], setting
