"""Products in float32 inside a Newton step in float64: same solution, checked residuals."""

import numpy as np
import pytest
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose
from test_linear_systems import random_direction

from tatml import Newton
from tatml._optim import hessian
from tatml._optim.hessian import InSingle
from tatml._optim.linear_systems import MOST_MISSES, ConjugateGradientSystem, newton_system


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Products of any size are in float32."""
    monkeypatch.setattr(hessian, "WORTH_SINGLE", 0.0)


def norm(V, b):
    return np.sqrt(sum(np.sum(v * v) for v in V) + b * b)


def residual(system, V, b, solution):
    lifted, part = system.products.product(*solution)
    left = [v - x - w for v, x, w in zip(V, solution[0], lifted, strict=True)]
    return norm(left, b - solution[1] - part)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_in_float32_is_near_that_in_float64(shape):
    case = random_case(SHAPES[shape], n_pairs=60)
    point, (V, b) = case.problem().at(case.eyes, 0.5), random_direction(case)
    operator = point.products(case.eyes)
    single = operator.in_single()
    assert isinstance(single, InSingle)
    exact, found = operator.product(V, b), single.product(V, b)
    assert all(S.dtype == np.float64 for S in found[0])
    scale = norm(*exact)
    assert norm([a - c for a, c in zip(found[0], exact[0], strict=True)], 0.0) < 1e-5 * scale
    assert_allclose(found[1], exact[1], atol=1e-5 * scale)
    assert any(np.any(a != c) for a, c in zip(found[0], exact[0], strict=True))


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6, 1e-9, 1e-12])
def test_every_solution_has_the_residual_that_was_asked_for(rtol):
    """Below the precision of float32 the residual comes from float64."""
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=20.0)
    point, (V, b) = case.problem().at(case.eyes, 0.5), random_direction(case)
    system = newton_system(point, case.eyes, "cg", single=True)
    for _ in range(2):
        solution = system.solve(V, b, rtol)
        assert residual(system, V, b, solution) <= 2.001 * rtol * norm(V, b)
        V = [1.1 * v for v in V]
    if rtol >= 1e-4:
        assert system.misses == 0
    if rtol <= 1e-9:
        assert system.misses == MOST_MISSES
        assert system.single is None


class Broken:
    """A product that returns numbers that are not finite."""

    def product(self, V, b):
        return [np.full_like(v, np.inf) for v in V], np.nan


def test_a_product_that_overflows_is_not_used_again():
    case = random_case(SHAPES["vectors"], n_pairs=60)
    point, (V, b) = case.problem().at(case.eyes, 0.5), random_direction(case)
    operator = point.products(case.eyes)
    system = ConjugateGradientSystem(operator, Broken())
    with np.errstate(all="ignore"):
        solution = system.solve(V, b, 1e-8)
    assert residual(system, V, b, solution) <= 1e-8 * norm(V, b)
    assert system.single is None
    system = ConjugateGradientSystem(operator, Broken())
    for left in (True, False):  # one that is only inaccurate is used once more
        system._miss(finite=True)
        assert (system.single is not None) == left


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_it_costs_no_accuracy(C, scale):
    """At any scale of the data, and for well and ill conditioned systems."""
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=C / 60)
    case = case.with_(
        arrays=[scale * array for array in case.arrays],
        prior=[np.eye(n) / scale**2 for n in case.sizes],
    )
    results = [
        Newton(linear_solver="cg", lower_precision=lower).solve(case.problem(), tol=1e-8)
        for lower in (True, False)
    ]
    found, expected = results
    assert found.converged
    assert_allclose(found.primal, expected.primal, rtol=2e-8)
    assert found.n_iter <= expected.n_iter + 2


def test_float32_problems_and_few_pairs_are_computed_as_before(monkeypatch):
    case = random_case(SHAPES["vectors"], n_pairs=60)
    point = case.problem().at(case.eyes, 0.5)
    monkeypatch.undo()  # these products are too small for float32
    assert point.products(case.eyes).in_single() is None
    system = newton_system(point, case.eyes, "cg", single=True)
    assert system.single is None
