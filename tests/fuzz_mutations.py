"""Labelled mutations of good input: what `fuzzing` does to arrays, labels and parameters.

A mutation is a function of a random generator and a good value. Its name is its label.
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

from tatml import Blocks, Compute, Dykstra, Newton

HUGE = 10**400  # more than a float can hold
ENDLESS = 10**5000  # more digits than Python is willing to print


class HostileArray:
    """Something whose conversion to an array fails in its own way."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array today")


class HostileLength:
    """A sequence that does not know its length."""

    def __len__(self):
        raise KeyError("no length today")

    def __getitem__(self, index):
        raise KeyError("no items today")


class HostileFloat:
    """Something that looks like a number until it is asked for one."""

    def __float__(self):
        raise ArithmeticError("no number today")

    __int__ = __index__ = __bool__ = __float__


class HostileRepr:
    """Something that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError("nothing to show")


class HostileIterator:
    """Something that fails while it is iterated over."""

    def __iter__(self):
        yield 1.0
        raise LookupError("no second item")


def replaced(values, rng, value):
    """A copy with one entry changed."""
    changed = np.array(values)
    if changed.size:
        changed.flat[rng.integers(changed.size)] = value
    return changed


def as_objects(values, convert):
    """The same shape, each entry converted to a Python object."""
    changed = np.empty(np.shape(values), dtype=object)
    for index, value in np.ndenumerate(np.asarray(values)):
        changed[index] = convert(value)
    return changed


def cast(dtype, rng, values):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(values).astype(dtype)


def one(value, rng, values):
    """One entry, or all of them."""
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

# What changes the form alone: a call with nothing but these is accepted.
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

# Parameters

PARAMETERS = {
    "None": None,
    "True": True,
    "False": False,
    "empty word": "",
    "word": "word",
    "auto": "auto",
    "bytes": b"bytes",
    "nan": nan,
    "inf": inf,
    "-inf": -inf,
    "-1": -1,
    "0": 0,
    "1": 1,
    "2": 2,
    "3": 3,
    "0.0": 0.0,
    "-0.0": -0.0,
    "0.5": 0.5,
    "-0.5": -0.5,
    "2.5": 2.5,
    "1e-300": 1e-300,
    "5e-324": 5e-324,
    "1e-12": 1e-12,
    "1e12": 1e12,
    "1e160": 1e160,
    "1e308": 1e308,
    "2**63": 2**63,
    "huge int": HUGE,
    "-huge int": -HUGE,
    "endless int": ENDLESS,
    "huge Fraction": Fraction(HUGE),
    "tiny Fraction": Fraction(1, HUGE),
    "float32": np.float32(0.5),
    "longdouble": np.longdouble("1e400"),
    "float64 nan": np.float64(nan),
    "int8": np.int8(3),
    "uint64": np.uint64(2),
    "numpy True": np.bool_(True),
    "numpy word": np.str_("word"),
    "0-d int": np.array(2),
    "0-d float": np.array(0.5),
    "0-d word": np.array("word"),
    "0-d object": np.array(None),
    "1-d one": np.array([0.5]),
    "1-d two": np.array([0.5, 2.0]),
    "1-d none": np.array([]),
    "2-d eye": np.eye(3),
    "2-d eye of objects": np.eye(3).astype(object),
    "masked scalar": np.ma.masked,
    "masked array": np.ma.array([0.5, 2.0], mask=[True, False]),
    "datetime": np.datetime64("2020-01-01"),
    "timedelta": np.timedelta64(1, "s"),
    "Fraction": Fraction(1, 2),
    "Decimal": decimal.Decimal("0.5"),
    "complex": 1 + 0j,
    "NA": pd.NA,
    "Series": pd.Series([0.5, 2.0]),
    "empty list": [],
    "list": [1, 2],
    "list of NaN": [nan, nan],
    "list of huge": [1, HUGE],
    "list of words": ["a", "b"],
    "list of None": [None, None],
    "ragged list": [[1, 2], [3]],
    "tuple": (0.5, 2.0),
    "turned tuple": (2.0, 0.5),
    "tiny tuple": (1e-300, 1e300),
    "dict": {},
    "dict of classes": {-1: 1.0, 1: 2.0},
    "dict of huge": {-1: 1.0, 1: HUGE},
    "dict of words": {-1: "a", 1: "b"},
    "dict of inf": {-1: inf, 1: 1.0},
    "set": {1, 2},
    "range": range(2),
    "csr_array": scipy.sparse.csr_array(np.eye(3)),
    "RandomState class": np.random.RandomState,
    "Generator class": np.random.Generator,
    "object": object(),
    "class": int,
    "module": np,
    "hostile array": HostileArray(),
    "hostile length": HostileLength(),
    "hostile float": HostileFloat(),
    "hostile iterator": HostileIterator(),
    "hostile repr": HostileRepr(),
    "Ellipsis": ...,
}
FRESH = {  # made anew for each case, because they change when they are used
    "iterator": lambda: iter([0.5, 2.0]),
    "generator": lambda: (value for value in (1.0, 2.0)),
    "RandomState": lambda: np.random.RandomState(0),
    "Generator": lambda: np.random.default_rng(0),
}
NOT_FOR = {  # what would be right, and slow, or is called and fails by itself
    "n_jobs": {"-1", "2", "3", "int8", "uint64"},
    "Cs": {"1e12", "2**63"},
    "max_memory": {"2**63"},
    "callback": {"class", "RandomState class", "Generator class"},
    "preprocessor": {"class", "RandomState class", "Generator class"},
    "metric": {"class", "RandomState class", "Generator class"},
    "random_state": {"module"},
}
EXTRA = {
    "max_memory": {
        "bytes": "1b",
        "too many bytes": "9" * 400 + "GB",
        "some": "50MB",
        "turned": "MB5",
    },
    "device": {"no such device": "gpu:7"},
    "prior": {
        "not definite": -np.eye(3),
        "not symmetric": np.triu(np.ones((3, 3))),
        "NaN matrix": np.full((3, 3), nan),
        "huge matrix": 1e200 * np.eye(3),
        "tiny matrix": 1e-200 * np.eye(3),
        "list of matrices": [np.eye(3)],
        "masked matrix": np.ma.array(np.eye(3), mask=np.eye(3) == 0),
        "diagonal": "diagonal",
        "identity": "identity",
        "covariance": "covariance",
        "within": "within",
    },
    "cv": {
        "fold of numbers": [(np.arange(6), np.arange(6, 12))],
        "fold beyond": [(np.arange(6), np.arange(6, 100))],
        "empty fold": [(np.arange(12), np.arange(0))],
        "fold of words": [("ab", "cd")],
        "many": 11,
        "too many": 50,
    },
    "preprocessor": {
        "returns None": lambda indicators: None,
        "returns a number": lambda indicators: 3.0,
        "returns words": lambda indicators: ["a"] * len(indicators),
        "returns one": lambda indicators: np.ones((1, 3)),
        "returns an object": lambda indicators: object(),
    },
    "metric": {
        "cosine": "cosine",
        "manhattan": "manhattan",
        "precomputed": "precomputed",
        "returns None": lambda u, v: None,
        "returns NaN": lambda u, v: nan,
        "returns a word": lambda u, v: "far",
        "returns an array": lambda u, v: u - v,
        "returns minus one": lambda u, v: -1.0,
        "returns a complex number": lambda u, v: 1j,
    },
    "random_state": {"largest seed": 2**32 - 1, "too large a seed": 2**32},
    "pairs": {"neighbors": "neighbors", "all": "all"},
    "solver": {
        "dykstra": "dykstra",
        "newton": "newton",
        "cyclic": "cyclic",
        "steps": Newton(max_iter=3),
        "conjugate gradients": Newton(linear_solver="cg", random_state=0),
        "Woodbury": Newton(linear_solver="woodbury"),
        "cyclic projections": Dykstra(order="cyclic", max_iter=20),
        "naive projections": Dykstra(projection="naive", max_iter=5, on_interrupt="return"),
        "class of solvers": Newton,
    },
    "compute": {
        "defaults": Compute(),
        "in single precision": Compute(dtype="float32"),
        "in parts": Compute(max_memory="50MB"),
        "class of places": Compute,
    },
    "class_weight": {"balanced": "balanced", "one class": {1: 1.0}, "zero": {-1: 0, 1: 1}},
    "pair_strategies": {"both": ["random", "neighbors"]},
    "priors": {"both": ["auto", "within"]},
    "strategy": {name: name for name in ("f_beta", "max_tpr", "max_tnr", "false_match_rate")},
    "percentiles": {"equal": (50, 50), "whole": (0, 100)},
}


def mutate_array(rng, kinds, values):
    """One labelled mutation of a kind drawn first, so that no long list drowns the others."""
    kind = kinds[rng.integers(len(kinds))]
    label = list(kind)[rng.integers(len(kind))]
    return label, kind[label](rng, values)


def mutate_blocks(rng, blocks):
    """Blocks of which one array is changed, where the result still is Blocks."""
    arrays = list(blocks.arrays)
    m = int(rng.integers(len(arrays)))
    label, arrays[m] = mutate_array(rng, [VALUES, SCALES, SHAPES, ORDERS, MASKS], arrays[m])
    try:
        return f"block {m} {label}", Blocks(*arrays)
    except (TypeError, ValueError) as error:
        if not str(error).startswith(("block ", "Blocks: ")):
            raise
        return "list of blocks", list(blocks.arrays)


def parameter_value(rng, name):
    """A value of a parameter, right or wrong, with its label."""
    extra = EXTRA.get(name, {})
    labels = [label for label in (*PARAMETERS, *FRESH) if label not in NOT_FOR.get(name, ())]
    label = list(extra)[rng.integers(len(extra))] if extra and rng.random() < 0.3 else None
    if label is not None:
        return label, extra[label]
    label = labels[rng.integers(len(labels))]
    return label, FRESH[label]() if label in FRESH else PARAMETERS[label]
