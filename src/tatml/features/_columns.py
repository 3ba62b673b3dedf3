"""Columns of data frames and arrays, and what they hold. Neither pandas nor polars is imported."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles
from .._data.arrays import check_not_masked
from .._data.blocks import LARGEST_ENTRY
from .._messages import listed, quoted, shown

Kind = Literal["numbers", "categories", "dates", "nothing"]
MISSING_NAMES = ("NAType", "NaTType")  # the types of pandas.NA and pandas.NaT
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column.

    Attributes
    ----------
    name : str
    kind : {"numbers", "categories", "dates", "nothing"}
        "nothing": all values are missing.
    values : array of shape (n_samples,)
        Numbers are float64, with NaN where they are missing; categories are objects, strings or
        None; dates are datetime64[us], with NaT where they are missing.
    """

    name: str
    kind: Kind
    values: NDArray[Any]

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Return which values are missing."""
        if self.kind == "numbers":
            return np.isnan(self.values)
        if self.kind == "dates":
            return np.isnat(self.values)
        return np.array([value is None for value in self.values], dtype=bool)

    def read_as(self, kind: Kind) -> Column:
        """Return a column of the kind seen in `fit`; one without values can be of any kind."""
        if self.kind == kind:
            return self
        if self.kind != "nothing":
            example = shown(self.values[~self.missing].tolist()[0])
            raise TypeError(
                f"X: expected {kind} in column {self.name!r} as in fit, got {self.kind}, such as "
                f"{example}"
            )
        empty = {"numbers": np.nan, "dates": np.datetime64("NaT", "us"), "categories": None}[kind]
        return Column(self.name, kind, np.array([empty] * len(self.values)))


def frame_names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame of pandas or polars; None for others."""
    check_not_masked(X, "X")
    if not (hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "__getitem__")):
        return None
    names = list(X.columns)
    twice = {name for name in names if names.count(name) > 1} if len({*names}) < len(names) else ()
    if twice:
        raise ValueError(f"X: expected columns of different names, got {quoted(twice)} repeatedly")
    return names


def is_list(X: Any) -> bool:
    """Return whether X is neither an array nor anything that can be read as one without loss."""
    return not hasattr(X, "shape") and not hasattr(X, "__array__")


def read_column(name: str, series: Any) -> Column:
    """Return a column of a data frame or an array, with its kind.

    Columns of objects are numbers, categories or dates by what they contain.
    """
    if str(getattr(series, "dtype", "")) == "category":  # of pandas; the categories have any type
        series = series.astype(object)
        return _as_categories(name, np.array([*map(_as_text, series.to_numpy())], dtype=object))
    series = _without_time_zone(series)
    values = series.to_numpy() if hasattr(series, "to_numpy") else series
    if values.ndim > 1:  # of polars: structures, and arrays of one length
        raise _mixed(name, [f"dtype {series.dtype}"])
    kind = values.dtype.kind
    if kind in "iuf":
        return _as_numbers(name, values)
    if kind in "bUST":
        return _as_categories(name, np.array([*map(_as_text, values.tolist())], dtype=object))
    if kind == "m":
        return _as_numbers(name, values / DAY)
    if kind == "M":
        return _as_dates(name, values)
    if kind == "O":
        return _read_objects(name, values)
    raise _mixed(name, [f"dtype {values.dtype}"])


def _without_time_zone(series: Any) -> Any:
    """Return dates with the time of the clock in their zone; other columns are returned as is."""
    dtype = getattr(series, "dtype", None)
    if getattr(dtype, "tz", None) is not None:  # of pandas
        return series.dt.tz_localize(None)
    if getattr(dtype, "time_zone", None) is not None:  # of polars
        return series.dt.replace_time_zone(None)
    return series


def _as_numbers(name: str, values: NDArray[Any]) -> Column:
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused
        array: Doubles = values.astype(np.float64)
    large = np.abs(array) > LARGEST_ENTRY
    if np.any(large):
        row = int(np.argmax(large))
        raise ValueError(
            f"X: expected numbers of at most {LARGEST_ENTRY:g} or missing values, got "
            f"{array[row]:g} in column {name!r}, row {row}"
        )
    array[np.abs(array) < 1 / LARGEST_ENTRY] = 0  # its square would be 0
    return Column(name, "nothing" if np.all(np.isnan(array)) else "numbers", array)


def _as_categories(name: str, values: NDArray[np.object_]) -> Column:
    is_empty = all(value is None for value in values)
    return Column(name, "nothing" if is_empty else "categories", values)


def _as_dates(name: str, values: NDArray[Any]) -> Column:
    array = values.astype("datetime64[us]")
    return Column(name, "nothing" if np.all(np.isnat(array)) else "dates", array)


def _read_objects(name: str, values: NDArray[np.object_]) -> Column:
    """Return a column of objects, which have to be of one kind."""
    kept = np.array([not _is_missing(value) for value in values], dtype=bool)
    types = {*map(type, values[kept])}
    kinds = {_kind_of(each) for each in types}
    if len(kinds) > 1 or None in kinds:
        raise _mixed(name, sorted(each.__name__ for each in types))
    kind = kinds.pop() if kinds else "categories"  # all are missing
    if kind == "categories":
        return _as_categories(name, np.array([*map(_as_text, values)], dtype=object))
    if kind == "dates":
        dates = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[us]")
        dates[kept] = [_as_date(value) for value in values[kept]]
        return _as_dates(name, dates)
    array = np.full(len(values), np.nan)
    array[kept] = [_as_number(value) for value in values[kept]]
    return _as_numbers(name, array)


def _kind_of(kind: type) -> str | None:
    """Return what objects of a type are; durations are not mixed with other numbers."""
    if issubclass(kind, str | bytes | bool | np.bool_):
        return "categories"
    if issubclass(kind, datetime.date | np.datetime64):
        return "dates"
    if issubclass(kind, datetime.timedelta | np.timedelta64):
        return "durations"
    is_real = issubclass(kind, numbers.Real | Decimal)
    return "numbers" if is_real else None


def _is_missing(value: Any) -> bool:
    """Return whether an object is None, NaN, NaT, pandas.NA or a blank string."""
    if value is None or type(value).__name__ in MISSING_NAMES:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating | Decimal) and value != value


def _as_text(value: Any) -> str | None:
    return None if _is_missing(value) else str(value)


def _as_number(value: Any) -> float:
    """Return a number as a float, and a duration as days."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return float(np.timedelta64(value) / DAY)
    try:
        return float(value)
    except OverflowError:
        return np.inf  # which is refused with the name of the column


def _as_date(value: Any) -> np.datetime64:
    """Return a date without its time zone: the hour is that of the clock there."""
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    return np.datetime64(value, "us")


def _mixed(name: str, found: Sequence[str]) -> TypeError:
    return TypeError(
        f"X: column {name!r} of the argument must be all strings, all booleans, all dates or all "
        f"numbers, got {listed(found, 5)}"
    )


# ---- Dates as numbers ----


def numbers_of(column: Column) -> dict[str, Doubles]:
    """Return the numbers in a column by the ends of their names: itself, and the parts of dates.

    A date is the number of days since 1970, and its year, month, day of the week (Monday is 0) and
    hour.
    """
    if column.kind == "numbers":
        return {"": column.values}
    dates, missing = column.values, column.missing
    hours = dates.astype("datetime64[h]").astype(np.int64)
    parts = {
        "": dates.astype(np.int64) / (24 * 3.6e9),
        "_year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
        "_month": dates.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        "_weekday": (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7,
        "_hour": hours % 24,
    }
    return {end: np.where(missing, np.nan, values) for end, values in parts.items()}
