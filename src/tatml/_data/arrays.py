"""Reading of arrays that a user gave: which values are accepted, and what they become."""

from __future__ import annotations

import datetime
import numbers
import warnings
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from .._array import Array, asarray, contiguous, foreign_kind, namespace, place_of
from .._messages import named_error, shown
from .storage import check_files, warn_of_missing_chunks

BLOCKS_HINT = "for several matrices per sample write Blocks(a, b), one array for each"
DATES = (datetime.date, np.datetime64)
DURATIONS = (datetime.timedelta, np.timedelta64)
DATE_HINT = (
    "convert dates to numbers, such as days since a date: "
    "(dates - np.datetime64('2000-01-01')) / np.timedelta64(1, 'D')"
)
DURATION_HINT = "convert durations to numbers, such as days: durations / np.timedelta64(1, 'D')"
HINTS = {"M": DATE_HINT, "m": DURATION_HINT}  # by the kind of a dtype


def as_floating_array(values: Any, name: str) -> Array:
    """Convert to float32 or float64; PyTorch and CuPy arrays keep their kind and device."""
    if foreign_kind(values) is None:
        return as_real_array(values, name)
    xp = namespace(values)
    if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")):
        raise TypeError(f"{name}: expected real numbers, got an array of dtype {values.dtype}")
    dtype = xp.float32 if values.dtype == xp.float32 else xp.float64
    return contiguous(xp.astype(values, dtype, copy=False))


def as_real_array(values: ArrayLike, name: str) -> NDArray[np.floating]:
    """Convert to a C-contiguous NumPy array of float32, if it is one already, or of float64."""
    array = read_array(values, name)
    check_no_dates(array, name)
    if array.dtype.kind == "O":
        for index, value in np.ndenumerate(array):
            if not isinstance(value, numbers.Real | np.bool_):
                raise TypeError(
                    f"{name}: expected real numbers, got {shown(value)} of type "
                    f"{type(value).__name__} at {tuple(map(int, index))}"
                )
    elif array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: expected real numbers, got an array of dtype {array.dtype}")
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    try:
        with np.errstate(over="ignore"):  # Overflow gives infinity, which the caller refuses.
            return np.asarray(array, dtype=dtype, order="C")
    except Exception as error:  # The conversion of an object to float may raise anything.
        raise named_error(name, error) from error


def read_array(values: Any, name: str) -> np.ndarray:
    """Convert to a NumPy array; sparse, masked and ragged values are refused."""
    if scipy.sparse.issparse(values):
        raise TypeError(
            f"{name}: expected a dense array, got {type_and_length(values)}; convert with "
            ".toarray()"
        )
    check_not_masked(values, name)
    check_files(**{name: values})
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected an array with rows of equal length, got {type_and_length(values)} "
            f"with parts of different shapes; {BLOCKS_HINT}"
        ) from error
    except Exception as error:  # The __array__ method of an object may raise anything.
        raise TypeError(
            f"{name}: expected an array, got {type_and_length(values)}, which cannot be read as "
            f"one: {error}"
        ) from error
    check_not_masked(array, name)
    return array


def check_given(**arrays: Any) -> None:
    """Raise for masked entries and truncated files, and warn of missing chunks; nothing is read."""
    for name, values in arrays.items():
        check_not_masked(values, name)
    check_files(**arrays)
    warn_of_missing_chunks(**arrays)


def check_not_masked(values: Any, name: str) -> None:
    """Raise where an entry is masked, also inside a list: NumPy would ignore the mask."""
    if _is_masked(values):
        raise TypeError(
            f"{name}: expected an array without masked entries, got a masked array; fill it, or "
            "remove the samples"
        )


def _is_masked(values: Any) -> bool:
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    if isinstance(values, list | tuple):
        return any(_is_masked(part) for part in values)
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # a data frame
        return any(map(_is_masked, _object_columns(values)))
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return any(value is np.ma.masked for value in values.flat)
    return False


def _object_columns(frame: Any) -> list[NDArray]:
    """Return the columns of dtype object of a pandas data frame; other frames have none."""
    dtypes: Any = getattr(frame, "dtypes", None)
    unique = getattr(frame.columns, "is_unique", False)
    if not hasattr(dtypes, "items") or unique is not True:  # delayed objects have any attribute
        return []
    return [frame[name].to_numpy() for name, dtype in dtypes.items() if str(dtype) == "object"]


def check_no_dates(values: Any, name: str) -> None:
    """Raise where an entry is a date or a duration, which NumPy would convert to a number."""
    dtypes: Any = getattr(values, "dtypes", None)
    if hasattr(values, "columns") and hasattr(dtypes, "items"):  # a data frame of pandas
        for column, dtype in dtypes.items():
            if (kind := getattr(dtype, "kind", None)) in HINTS:
                raise _date_error(name, f"{dtype} in column {shown(column)}", HINTS[kind])
        for entries in _object_columns(values):
            check_no_dates(entries, name)
        return
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if not isinstance(kind, str) and foreign_kind(values) is None:
        try:  # a list, or a data frame of another package
            with warnings.catch_warnings():  # whoever reads the values warns of them,
                warnings.simplefilter("ignore")
                values = np.asarray(values)
        except Exception:  # and has the better message
            return
        kind = values.dtype.kind
    if kind == "O" and isinstance(values, np.ndarray):
        for value in values.flat:
            if isinstance(value, DATES + DURATIONS):
                hint = DATE_HINT if isinstance(value, DATES) else DURATION_HINT
                raise _date_error(name, f"{shown(value)} of type {type(value).__name__}", hint)
    if kind in HINTS:
        raise _date_error(name, f"an array of dtype {values.dtype}", HINTS[kind])


def _date_error(name: str, found: str, hint: str) -> TypeError:
    return TypeError(f"{name}: expected real numbers, got {found}; {hint}")


def as_host_array(values: Any, name: str, alternative: str = "") -> np.ndarray:
    """Convert to a NumPy array; raise for values on a GPU, which are not copied implicitly.

    The message says how to copy them, and adds the `alternative` that the caller offers.
    """
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"{name}: expected values in the memory of the host, got {place_of(values)}; copy "
            f"them to the host, with .cpu() in PyTorch or .get() in CuPy{alternative}"
        ) from error


def as_array_like(
    values: ArrayLike, name: str, owner: str, like: Array, from_host: bool = False
) -> Array:
    """Convert to float64 of the namespace and device of `like`, which the user knows as `owner`.

    Lists of numbers are moved there; other arrays must be of that kind and on that device already.
    With `from_host`, everything in the memory of the host is moved there.
    """
    if from_host and foreign_kind(like) is None and foreign_kind(values) is not None:
        values = as_host_array(values, name)
    if foreign_kind(values) is None and (from_host or not hasattr(values, "__array__")):
        return asarray(as_real_array(values, name), like, namespace(like).float64)
    if foreign_kind(like) is None and foreign_kind(values) is None:
        return as_real_array(values, name).astype(np.float64)
    check_same_place(name, values, owner, like)
    xp = namespace(like)
    return xp.astype(as_floating_array(values, name), xp.float64, copy=False)


def check_same_place(name: str, array: Any, owner: str, like: Array) -> None:
    """Raise unless two arrays are of the same kind and on the same device."""
    if foreign_kind(array) is None and foreign_kind(like) is None:
        return
    if foreign_kind(array) != foreign_kind(like) or array.device != like.device:
        raise (TypeError if foreign_kind(array) != foreign_kind(like) else ValueError)(
            f"{name}: expected an array of the kind and device of {owner}, {place_of(like)}, got "
            f"{place_of(array)}"
        )


def type_and_length(values: Any) -> str:
    """Return the name of a type for a message, for a list or tuple with its length."""
    kind = type(values).__name__
    return f"{kind} of length {len(values)}" if isinstance(values, list | tuple) else kind


# ---- Labels, and the groups of samples ----


def read_groups(groups: Any, n_samples: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct groups in order, and for each sample the number of its group."""
    groups = read_array(groups, "groups")
    if groups.ndim != 1:
        raise ValueError(f"groups: expected shape (n_samples,), got shape {groups.shape}")
    check_length(groups, n_samples, "groups")
    check_not_missing(groups, "groups")
    try:
        return np.unique(groups, return_inverse=True)
    except Exception as error:  # objects that cannot be compared
        raise TypeError(
            f"groups: expected values of one type, such as integers or words, got {kind_of(groups)}"
        ) from error


def group_labels(groups: Any, n_samples: int) -> NDArray[np.intp] | None:
    """Return for each sample the number of its group; None without groups."""
    return None if groups is None else read_groups(groups, n_samples)[1]


def check_length(values: NDArray, expected: int, name: str, what: str = "samples") -> None:
    """Raise an error unless there is one value per sample."""
    if len(values) != expected:
        raise ValueError(
            f"{name}: expected one value for each of the {expected} {what}, got {len(values)} "
            "(inconsistent numbers of samples)"
        )


def kind_of(labels: NDArray) -> str:
    """Describe the type of labels for a message, with one of them as an example."""
    kind = "objects" if labels.dtype.kind == "O" else f"dtype {labels.dtype}"
    return f"{kind} such as {shown(labels[0])}" if len(labels) else kind


def check_not_missing(labels: NDArray, name: str, unit: str = "sample") -> None:
    """Raise where a label is NaN, None, infinite or missing in another way."""
    if labels.dtype.kind == "f":
        wrong = ~np.isfinite(labels)
    elif labels.dtype.kind in "mM":
        wrong = np.isnat(labels)
    elif labels.dtype.kind == "O":
        wrong = np.array([_is_missing(label) for label in labels], dtype=bool)
    else:
        return
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "infinity" if labels.dtype.kind == "f" and np.isinf(labels[row]) else "NaN"
        raise ValueError(
            f"{name}: expected a label for each {unit}, got {shown(labels[row])} for {unit} {row} "
            f"(Input {name} contains {what})"
        )


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, numbers.Real) and label != label
