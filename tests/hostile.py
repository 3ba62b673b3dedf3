"""Values that no parameter, or hardly one, should take, each with a label.

The table of refusals takes its values from here, and the fuzzer gives them to every parameter.
"""

from __future__ import annotations

import decimal
from fractions import Fraction
from math import inf, nan
from numbers import Real

import numpy as np
import pandas as pd
import scipy.sparse

from tatml import TATML, Compute, Dykstra, Maz, Newton

HUGE = 10**400  # an integer that overflows a float


ENDLESS = 10**5000  # an integer with more digits than Python prints


class HostileArray:
    """An object whose conversion to an array raises an error of its own."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array today")


class HostileLength:
    """A sequence whose length and items cannot be read."""

    def __len__(self):
        raise KeyError("no length today")

    def __getitem__(self, index):
        raise KeyError("no items today")


class HostileFloat:
    """An object whose conversion to a number raises an error of its own."""

    def __float__(self):
        raise ArithmeticError("no number today")

    __int__ = __index__ = __bool__ = __float__


@Real.register
class HostileNumber(HostileFloat):
    """A real number, by its type, that cannot be converted to a float."""


class HostileRepr:
    """An object without a repr."""

    def __repr__(self):
        raise RuntimeError("nothing to show")


class HostileIterator:
    """An object that fails while it is iterated over."""

    def __iter__(self):
        yield 1.0
        raise LookupError("no second item")


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
    "hostile number": HostileNumber(),
    "hostile iterator": HostileIterator(),
    "hostile repr": HostileRepr(),
    "Ellipsis": ...,
}


FRESH = {  # functions that make a value per case, because using it changes it
    "iterator": lambda: iter([0.5, 2.0]),
    "generator": lambda: (value for value in (1.0, 2.0)),
    "RandomState": lambda: np.random.RandomState(0),
    "Generator": lambda: np.random.default_rng(0),
}


NOT_FOR = {  # values that are valid but slow, or that raise their own errors when called
    "n_jobs": {"-1", "2", "3", "int8", "uint64"},
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
    "param_grid": {
        "weights": {"C": [1.0, 10.0]},
        "two grids": [{"prior": ["auto", "within"]}, {"kernel": ["rbf"], "C": (1, 2.0)}],
        "pairs": {"pairs": ["random", "neighbors"], "margin": [(0.5, 2.0), (0.9, 1.1)]},
        "components": {"n_components": [None, 2, 50]},
        "solvers": {"solver": ["dykstra", Newton(max_iter=3)], "tol": np.array([1e-3])},
        "unknown name": {"Cs": [1.0]},
        "no list": {"C": 1.0},
        "wrong values": {"C": [1.0, -1.0], "threshold": ["auto", nan]},
        "huge values": {"C": [1.0, HUGE], "c0": [inf, 1e300]},
        "matrices": {"prior": [np.eye(3), np.eye(2), "identity"]},
        "hostile values": {"prior": HostileIterator(), "tol": [HostileFloat()]},
    },
    "estimator": {
        "defaults": TATML(),
        "fixed threshold": TATML(threshold=1.0, n_pairs_per_class=6),
        "wrong": TATML(C=-1.0),
        "kernel": TATML(kernel="rbf", n_pairs_per_class=6),
        "precomputed kernel": TATML(kernel="precomputed"),
        "another": Maz(),
        "class of estimators": TATML,
    },
    "strategy": {name: name for name in ("f_beta", "max_tpr", "max_tnr", "false_match_rate")},
    "percentiles": {"equal": (50, 50), "whole": (0, 100)},
}


def parameter_value(rng, name):
    """Draw a value of a parameter, valid or not, and return it with its label."""
    extra = EXTRA.get(name, {})
    labels = [label for label in (*PARAMETERS, *FRESH) if label not in NOT_FOR.get(name, ())]
    label = list(extra)[rng.integers(len(extra))] if extra and rng.random() < 0.3 else None
    if label is not None:
        return label, extra[label]
    label = labels[rng.integers(len(labels))]
    return label, FRESH[label]() if label in FRESH else PARAMETERS[label]
