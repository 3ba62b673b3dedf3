"""Labelled mutations of good arrays: samples, pairs, labels and weights.

A mutation is a function of a random generator and a good value. Its key is its label.
"""

from __future__ import annotations

import array
import decimal
import tempfile
import warnings
from fractions import Fraction
from functools import cache, partial
from math import inf, nan
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from hostile import (
    ENDLESS,
    HUGE,
    HostileArray,
    HostileFloat,
    HostileIterator,
    HostileLength,
    HostileRepr,
)

from tatml import Blocks


def replaced(values, rng, value):
    """A copy with one entry changed."""
    changed = np.array(values)
    if changed.size:
        changed.flat[rng.integers(changed.size)] = value
    return changed


def as_objects(values, convert):
    """An array of objects of this shape, each entry converted by a function."""
    changed = np.empty(np.shape(values), dtype=object)
    for index, value in np.ndenumerate(np.asarray(values)):
        changed[index] = convert(value)
    return changed


def cast(dtype, rng, values):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(values).astype(dtype)


def one(value, rng, values):
    """A copy with one entry changed; integers become floats where the value is one."""
    dtype = np.asarray(values).dtype
    if dtype.kind in "biu" and isinstance(value, float):
        values = np.asarray(values).astype(float)
    return replaced(values, rng, value)


def one_object(value, rng, values):
    objects = as_objects(values, lambda entry: entry)
    if objects.size:
        index = tuple(rng.integers(size) for size in objects.shape)
        objects[index] = value
    return objects


def non_contiguous(rng, values):
    return np.repeat(values, 2, axis=-1)[..., ::2]


def read_only(rng, values):
    values = np.array(values)
    values.flags.writeable = False
    return values


def byte_swapped(rng, values):
    values = np.asarray(values)
    return values.astype(values.dtype.newbyteorder())


def masked(share, rng, values):
    values = np.array(values)
    return np.ma.array(values, mask=rng.random(values.shape) < share)


def masked_rows(rng, values):
    return [np.ma.array(row, mask=rng.random(np.shape(row)) < 0.5) for row in values]


def masked_scalar(rng, values):
    return [[*np.atleast_1d(row)[:-1].tolist(), np.ma.masked] for row in values]


def scaled(exponent, rng, values):
    with np.errstate(all="ignore"):
        return np.asarray(values, dtype=float) * 10.0**exponent


def scaled_column(exponent, rng, values):
    values = np.array(values, dtype=float)
    if values.ndim and values.size:
        with np.errstate(all="ignore"):
            values[..., rng.integers(values.shape[-1])] *= 10.0**exponent
    return values


def constant_column(rng, values):
    values = np.array(values)
    if values.ndim and values.size:
        values[..., rng.integers(values.shape[-1])] = 1
    return values


def constant(rng, values):
    return np.ones_like(np.asarray(values))


def ragged(rng, values):
    rows = [np.atleast_1d(row).tolist() for row in values]
    if rows:
        rows[rng.integers(len(rows))] = [1.0]
    return rows


@cache
def _folder():
    return tempfile.TemporaryDirectory(prefix="tatml-fuzzing-")


def mapped(rng, values):
    values = np.ascontiguousarray(values)
    if values.size == 0 or values.dtype.hasobject:
        return values
    values = values.copy()  # it may be in the file that is written next
    path = Path(_folder().name) / f"{values.dtype.str[1:]}-{values.size}"
    stored = np.memmap(path, dtype=values.dtype, mode="w+", shape=values.shape)
    stored[...] = values
    return stored


def as_frame(rng, values):
    values = np.asarray(values)
    if values.ndim == 1:
        return pd.Series(values)
    flat = values.reshape(len(values), -1) if values.ndim and len(values) else values
    return pd.DataFrame(flat) if flat.ndim == 2 else values


def as_named_frame(rng, values):
    frame = as_frame(rng, values)
    return (
        frame.set_axis([f"c{k}" for k in range(frame.shape[1])], axis=1) if _wide(frame) else frame
    )


def as_frame_with_words(rng, values):
    frame = as_frame(rng, values)
    return frame.assign(word="a") if _wide(frame) else frame


def as_nullable(rng, values):
    frame = as_frame(rng, values)
    if not hasattr(frame, "convert_dtypes") or not frame.size:
        return frame
    frame = frame.convert_dtypes()
    if _wide(frame):
        frame.iloc[0, 0] = pd.NA
    else:
        frame.iloc[0] = pd.NA
    return frame


def _wide(frame):
    return isinstance(frame, pd.DataFrame)


def sparse(kind, rng, values):
    values = np.asarray(values)
    flat = values.reshape(len(values), -1) if values.ndim > 2 else np.atleast_2d(values)
    return kind(flat) if flat.dtype.kind in "biufc" else values


def as_matrix_class(rng, values):
    if np.ndim(values) != 2:
        return values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.matrix is to go
        return np.matrix(values)


def as_flat_buffer(rng, values):
    return array.array("d", np.ravel(values).astype(float).tolist())


def fixed(value, rng, values):
    return value


# Arrays of any meaning

DTYPES = {
    f"dtype {name}": partial(cast, name)
    for name in (
        "int8",
        "int64",
        "uint64",
        "float16",
        "float32",
        "longdouble",
        "bool",
        "complex128",
    )
} | {
    "dtype object": lambda rng, values: as_objects(values, lambda entry: entry),
    "dtype Python objects": lambda rng, values: as_objects(values, lambda entry: entry.item()),
    "dtype str": partial(cast, str),
    "dtype bytes": partial(cast, "S6"),
    "dtype datetime": lambda rng, values: np.zeros(np.shape(values), dtype="datetime64[s]"),
    "dtype timedelta": lambda rng, values: np.zeros(np.shape(values), dtype="timedelta64[s]"),
    "dtype void": lambda rng, values: np.zeros(np.shape(values), dtype="V4"),
    "dtype record": lambda rng, values: np.zeros(np.shape(values), dtype=[("a", float)]),
    "dtype Fraction": lambda rng, values: as_objects(values, lambda e: Fraction(float(e))),
    "dtype Decimal": lambda rng, values: as_objects(values, lambda e: decimal.Decimal(float(e))),
    "one huge int": partial(one_object, HUGE),
    "one endless int": partial(one_object, ENDLESS),
    "one None": partial(one_object, None),
    "one word": partial(one_object, "word"),
    "one list": partial(one_object, [1, 2]),
    "one NA": partial(one_object, pd.NA),
    "one masked object": partial(one_object, np.ma.masked),
    "one hostile object": partial(one_object, HostileFloat()),
    "one unprintable object": partial(one_object, HostileRepr()),
}

ORDERS = {
    "Fortran order": lambda rng, values: np.asfortranarray(values),
    "reversed rows": lambda rng, values: np.array(values[::-1])[::-1],
    "reversed columns": lambda rng, values: np.array(values[..., ::-1])[..., ::-1],
    "non-contiguous": non_contiguous,
    "read-only": read_only,
    "byte-swapped": byte_swapped,
    "broadcast": lambda rng, values: np.broadcast_to(values[:1], np.shape(values)),
}

MASKS = {
    "masked, no entry": partial(masked, 0),
    "masked, some entries": partial(masked, 0.3),
    "masked, all entries": partial(masked, 2),
    "list of masked rows": masked_rows,
    "list with the masked scalar": masked_scalar,
}

VALUES = {
    f"one {value!r}": partial(one, value) for value in (nan, inf, -inf, -0.0, 5e-324, 1e308, -1e308)
}

SCALES = {
    f"scale 1e{exponent}": partial(scaled, exponent)
    for exponent in (-320, -300, -170, -155, -100, -60, -30, -9, 3, 9, 16, 30, 59, 61, 155, 300)
} | {
    f"column 1e{exponent}": partial(scaled_column, exponent)
    for exponent in (-300, -160, -60, -9, 9, 30, 58, 61, 160, 300)
}

SHAPES = {
    "0-d": lambda rng, values: np.asarray(np.ravel(values)[0] if np.size(values) else 1.0),
    "1-d": lambda rng, values: np.ravel(values),
    "extra axis": lambda rng, values: np.asarray(values)[..., None],
    "extra first axis": lambda rng, values: np.asarray(values)[None],
    "no rows": lambda rng, values: values[:0],
    "no columns": lambda rng, values: np.asarray(values)[..., :0],
    "one row": lambda rng, values: values[:1],
    "two rows": lambda rng, values: values[:2],
    "one column": lambda rng, values: np.asarray(values)[..., :1],
    "one row fewer": lambda rng, values: values[:-1],
    "one row more": lambda rng, values: np.concatenate([values, values[:1]]),
    "transposed": lambda rng, values: np.transpose(values),
    "ragged": ragged,
    "constant column": constant_column,
    "constant": constant,
}

CONTAINERS = {
    "list": lambda rng, values: np.asarray(values).tolist(),
    "tuple": lambda rng, values: tuple(values),
    "list of arrays": lambda rng, values: list(values),
    "DataFrame": as_frame,
    "DataFrame with names": as_named_frame,
    "DataFrame with words": as_frame_with_words,
    "DataFrame with NA": as_nullable,
    "csr_array": partial(sparse, scipy.sparse.csr_array),
    "csc_matrix": partial(sparse, scipy.sparse.csc_matrix),
    "coo_array": partial(sparse, scipy.sparse.coo_array),
    "memmap": mapped,
    "numpy.matrix": as_matrix_class,
    "flat buffer": as_flat_buffer,
    "generator": lambda rng, values: (row for row in values),
    "iterator": lambda rng, values: iter(values),
    "set": lambda rng, values: set(np.ravel(values).tolist()),
    "dict": lambda rng, values: dict(enumerate(values)),
    "dict of lists": lambda rng, values: {"a": list(values)},
    "range": lambda rng, values: range(len(values)),
    "bytes": partial(fixed, b"bytes"),
    "None": partial(fixed, None),
    "word": partial(fixed, "word"),
    "number": partial(fixed, 3.0),
    "hostile array": partial(fixed, HostileArray()),
    "hostile length": partial(fixed, HostileLength()),
    "hostile iterator": partial(fixed, HostileIterator()),
    "hostile repr": partial(fixed, HostileRepr()),
    "object": partial(fixed, object()),
    "class": partial(fixed, np.ndarray),
}

# Mutations of the form alone: a call with only these is accepted.
HARMLESS = (ORDERS.keys() - {"broadcast"}) | {
    "masked, no entry",
    "list",
    "tuple",
    "list of arrays",
    "memmap",
    "unchanged",
}

ANY_ARRAY = [DTYPES, ORDERS, MASKS, SHAPES, CONTAINERS]
SAMPLES = [*ANY_ARRAY, VALUES, SCALES]
WEIGHTS = [*ANY_ARRAY, VALUES, SCALES, {"negative": lambda rng, values: -np.asarray(values)}]

INDEX = [
    *ANY_ARRAY,
    {
        "negative": lambda rng, values: replaced(values, rng, -1),
        "out of range": lambda rng, values: replaced(values, rng, 10**6),
        "largest int64": lambda rng, values: replaced(values, rng, 2**63 - 1),
        "largest uint64": lambda rng, values: replaced(cast("uint64", rng, values), rng, 2**64 - 1),
        "self pairs": lambda rng, values: np.repeat(values[:, :1], 2, axis=1),
        "half": lambda rng, values: np.asarray(values) + 0.5,
        "integers as float": lambda rng, values: np.asarray(values, dtype=float),
        "triples": lambda rng, values: np.concatenate([values, values[:, :1]], axis=1),
        "repeated": lambda rng, values: np.concatenate([values, values]),
    },
]

LABELS = [
    *ANY_ARRAY,
    VALUES,
    {
        "words": lambda rng, values: np.asarray(values).astype(str),
        "words in objects": lambda rng, values: as_objects(values, str),
        "mixed types": lambda rng, values: as_objects(
            values, lambda entry: entry if rng.random() < 0.5 else str(entry)
        ),
        "one class": lambda rng, values: np.repeat(values[:1], len(values)),
        "all different": lambda rng, values: np.arange(len(values)),
        "all but one": lambda rng, values: np.arange(len(values)) == 0,
        "continuous": lambda rng, values: np.asarray(values) + rng.random(np.shape(values)),
        "column": lambda rng, values: np.reshape(values, (-1, 1)),
        "two columns": lambda rng, values: np.stack([values, values], axis=1),
        "pluses and minuses": lambda rng, values: np.where(np.arange(len(values)) % 2, 1, -1),
        "zeros and ones": lambda rng, values: np.arange(len(values)) % 2,
        "booleans": lambda rng, values: np.arange(len(values)) % 2 == 0,
        "tuples": lambda rng, values: as_objects(values, lambda entry: (entry, entry)),
        "frozensets": lambda rng, values: as_objects(values, lambda entry: frozenset([entry])),
        "categories": lambda rng, values: pd.Categorical(np.asarray(values)),
        "huge ints": lambda rng, values: as_objects(values, lambda entry: HUGE + int(entry)),
        "NaN object": partial(one_object, nan),
    },
]


def mutate_array(rng, kinds, values):
    """Apply a mutation of a kind that is drawn first, so that all kinds are equally frequent."""
    kind = kinds[rng.integers(len(kinds))]
    label = list(kind)[rng.integers(len(kind))]
    return label, kind[label](rng, values)


def mutate_blocks(rng, blocks):
    """Change one array of Blocks, if the result is still valid as Blocks."""
    arrays = list(blocks.arrays)
    m = int(rng.integers(len(arrays)))
    label, arrays[m] = mutate_array(rng, [VALUES, SCALES, SHAPES, ORDERS, MASKS], arrays[m])
    try:
        return f"block {m} {label}", Blocks(*arrays)
    except (TypeError, ValueError) as error:
        if not str(error).startswith(("block ", "Blocks: ")):
            raise
        return "list of blocks", list(blocks.arrays)
