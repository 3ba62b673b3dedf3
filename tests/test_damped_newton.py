"""Damped Newton steps: they descend, and find the least value along their direction."""

from itertools import product
from math import inf, nan, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import (
    SHAPES,
    SYSTEMS,
    metric_of,
    random_case,
    random_matrices,
    random_point,
)
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from tatml._optim import steps


@pytest.mark.parametrize("linear_solver", SYSTEMS)
@pytest.mark.parametrize(("shape", "c0", "seed"), list(product(SHAPES, (0.1, inf), range(2))))
def test_a_damped_step_descends(linear_solver, shape, c0, seed):
    case = random_case(SHAPES[shape], n_pairs=30, C=20.0, c0=c0, weights=True, prior=True)
    point = case.at(*random_point(case, seed))
    reached, Q, step = steps.damped_step(point, linear_solver)
    assert step.kind == "damped"
    before, after = (case.primal(metric_of(point.problem, p.L), p.b0) for p in (point, reached))
    assert after < before
    assert len(Q) == len(reached.L)
    assert min(Q) >= 1  # τ of P = τ W⁻¹, which covers I + S
    largest = max(float(np.max(np.abs(1 + e))) for e in reached.eigenvalues)
    assert_allclose(Q, max(1.0, largest), rtol=1e-12)


@pytest.mark.parametrize(("C", "c0"), [(1e-3, 0.1), (5.0, 0.1), (5.0, inf), (1e-3, 30.0)])
def test_the_exact_search_minimises_along_the_direction(c0, C):
    """(LS): the t found is the best of F(W + tV, b0 + t δb), computed by loops."""
    case = random_case(SHAPES["two ragged"], n_pairs=30, C=C, c0=c0, weights=True, prior=True)
    scale = 1.0 if c0 == inf else sqrt(c0)
    for seed in range(4):
        W, b0 = random_point(case, seed)
        point, noise = case.at(W, b0), random_matrices(case, seed)
        V = [v / 10 - G for v, G in zip(noise, point.gradient, strict=True)]
        b = -point.threshold_slope
        T = [C @ L for C, L in zip(point.problem.prior_factors, point.L, strict=True)]
        boundary = 1 / max(1e-9, *(-np.linalg.eigvalsh(v)[0] for v in V))

        def value(t, W=W, b0=b0, T=T, V=V, b=b):
            moved = [w + t * f @ v @ f.T for w, f, v in zip(W, T, V, strict=True)]
            return case.primal(moved, b0 + t * b / scale)

        length = steps.exact_length(point, (V, b))
        found = minimize_scalar(
            value, bounds=(0, 0.98 * boundary), method="bounded", options={"xatol": 1e-8}
        )
        assert 0 < length < boundary
        assert_allclose(length, found.x, rtol=2e-3)  # the tolerance of the search is 1e-3
        assert value(length) <= found.fun + 1e-4 * (value(0) - found.fun)


def test_the_search_refuses_to_ascend():
    case = random_case(SHAPES["square"])
    point = case.at(*random_point(case))
    uphill = [G.copy() for G in point.gradient], point.threshold_slope
    assert steps.exact_length(point, uphill) == 0


def rounded_line(**losses):
    """A point whose losses along any direction are what rounding makes of them."""
    line = SimpleNamespace(**{"slope": lambda t: 0.0, "increase": lambda t: 0.0} | losses)
    return SimpleNamespace(
        problem=SimpleNamespace(xp=np),
        gradient=[np.diag([-0.01, 0.0])],
        threshold_slope=0.0,
        along=lambda V, b: line,
    )


def test_the_search_refuses_what_does_not_descend_measurably():
    """The slope promises a descent; F itself has to fall too, and both have to be numbers."""
    direction = [np.diag([1.0, 0.0])], 0.0
    assert steps.exact_length(rounded_line(), direction) > 0
    for broken in (
        {"increase": lambda t: 1.0},
        {"increase": lambda t: nan},
        {"slope": lambda t: nan},
    ):
        assert steps.exact_length(rounded_line(**broken), direction) == 0
