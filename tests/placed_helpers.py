"""Calls of `learn_metric` with arrays of another namespace or device."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.testing import assert_allclose

from tatml import Blocks, learn_metric
from tatml._array import to_numpy

CASES = [  # (linear_solver, c0, shape)
    ("auto", 1.0, "vectors"),
    ("auto", inf, "two ragged"),
    ("dense", 1.0, "square"),
    ("dense", inf, "vectors"),
    ("woodbury", 1.0, "two ragged"),
    ("woodbury", inf, "square"),
    ("cg", 1.0, "vectors"),
    ("cg", inf, "two ragged"),
]


def learnt(case, **options):
    """Solve with NumPy arrays, to high accuracy."""
    return case.learn(**{"tol": 1e-13} | options)


def learn_placed(case, place, **options):
    """Solve like `Case.learn`, with every array converted by `place`."""
    given = case.options()
    if case.prior is not None:
        given["prior"] = [place(W0) for W0 in case.prior]
    if case.weights is not None:
        given["weights"] = place(case.weights)
    X = Blocks(*(place(array) for array in case.arrays))
    options = {"tol": 1e-13} | given | options
    return learn_metric(X, place(case.pairs), place(case.similar), **options)


def assert_same_solution(result, expected, tolerance):
    """Check that W and b0 agree, relative to the largest entry of W."""
    assert_allclose(result.b0, expected.b0, rtol=tolerance)
    for got, W in zip(result.W, expected.W, strict=True):
        scale = np.max(np.abs(W))
        assert_allclose(to_numpy(got) / scale, W / scale, atol=tolerance)
