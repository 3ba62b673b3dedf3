"""Newton on arrays that allow nothing but the array API standard."""

from math import inf

import numpy as np
import pytest
from helpers import random_case, strict_problem
from numpy.testing import assert_allclose

from tatml.solvers import Monitor, newton

xp = pytest.importorskip("array_api_strict")


def solved(problem, linear_solver):
    monitor = Monitor(problem, tol=1e-12, max_iter=60)
    return newton(problem, monitor, linear_solver=linear_solver)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("linear_solver", ["auto", "dense", "woodbury", "cg"])
@pytest.mark.parametrize("c0", [1.0, inf])
def test_newton_works_on_strict_arrays(monkeypatch, c0, linear_solver, keeps):
    if not keeps:
        monkeypatch.setattr("tatml.sums.SVEC_BYTES", 0)
    case = random_case([(3, 2), (2, 4)], n_pairs=40, C=5.0, c0=c0, weights=True, prior=True)
    plain = case.problem()
    ours, theirs = (solved(problem, linear_solver) for problem in (plain, strict_problem(plain)))
    assert ours.converged
    assert theirs.converged
    assert_allclose(theirs.primal, ours.primal, rtol=1e-8)
    assert_allclose(theirs.b0, ours.b0, rtol=1e-8)
    for got, expected in zip(theirs.W, ours.W, strict=True):
        assert isinstance(got, type(xp.asarray(0.0)))
        assert_allclose(np.asarray(got), expected, rtol=1e-8, atol=1e-8)
    assert np.asarray(theirs.active).tolist() == ours.active.tolist()
