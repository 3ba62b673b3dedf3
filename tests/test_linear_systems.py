"""The three ways to solve the Newton system agree with each other, a matrix, and the Hessian."""

from math import inf, sqrt

import numpy as np
import pytest
from helpers import (
    SHAPES,
    SYSTEMS,
    limited,
    metric_of,
    random_case,
    random_factors,
    random_matrices,
    random_point,
    shapes_with,
    symmetric,
)
from numpy.testing import assert_allclose

from tatml._optim.linear_systems import newton_system

RTOL = 1e-13  # tolerance of conjugate gradients


@pytest.fixture(params=shapes_with([0.1, 1.0, inf]), ids=str)
def case(request):
    shapes, c0 = request.param
    return random_case(shapes, c0=c0, C=3.0, weights=True, prior=True)


@pytest.fixture(params=SYSTEMS)
def name(request):
    return request.param


def at(case, seed=0):
    return case.at(*random_point(case, seed))


def random_direction(case, seed=0):
    return random_matrices(case, seed), 0.0 if case.c0 == inf else 0.7


def whitening(point, factors):
    """Return T with V = T Ṽ Tᵀ in the user's coordinates."""
    blocks = zip(point.problem.prior_factors, point.L, factors, strict=True)
    return [C @ L @ R for C, L, R in blocks]


def flat(V, b):
    """Convert a direction to a vector with the same inner products, without svec."""
    return np.concatenate([*(v.ravel() for v in V), [b]])


def explicit_matrix(case, point, factors):
    """Assemble I + Σ_k h_k z_k z_kᵀ over vec, not svec, by loops over the active pairs, (N)."""
    T, M = whitening(point, factors), len(case.arrays)
    W, b0 = metric_of(point.problem, point.L), point.b0
    total = np.eye(sum(n * n for n in case.sizes) + 1)
    for k in np.flatnonzero(case.violation(W, b0)):
        blocks = [t.T @ A[k] @ t / M for t, A in zip(T, case.A, strict=True)]
        z = flat(blocks, -case.gamma[k] / sqrt(case.c0))
        total += case.cw[k] * np.outer(z, z)
    return total


def test_a_solve_inverts_the_explicit_matrix(case, name):
    """In the coordinates of W and in others; the solution is symmetric.

    Conjugate gradients start from the previous solution, even if it is inaccurate: a second
    right-hand side has its own solution.
    """
    point, (V, b) = at(case), random_direction(case)
    assert 2 <= point.n_active < len(case.pairs)
    for factors in (case.eyes, random_factors(case)):
        solution = newton_system(point, factors, name).solve(V, b, RTOL)
        expected = np.linalg.solve(explicit_matrix(case, point, factors), flat(V, b))
        assert_allclose(flat(*solution), expected, rtol=1e-8, atol=1e-10)
        for matrix in solution[0]:
            assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-14)
        assert solution[1] != 0 or case.c0 == inf
    other, c = random_direction(case, seed=1)
    system = newton_system(point, case.eyes, name)
    system.solve(V, b, 0.3)
    near = [v + 0.1 * w for v, w in zip(V, other, strict=True)], b + 0.1 * c
    expected = np.linalg.solve(explicit_matrix(case, point, case.eyes), flat(*near))
    assert_allclose(flat(*system.solve(*near, RTOL)), expected, rtol=1e-8, atol=1e-10)


def test_a_solve_inverts_the_hessian_of_the_primal(case, name):
    """Solving for H p, computed from differences of the gradient by loops, returns p."""
    point, (V, b) = at(case), random_direction(case)
    T, h = whitening(point, case.eyes), 1e-5
    W, scale = metric_of(point.problem, point.L), 1.0 if case.c0 == inf else sqrt(case.c0)

    def gradient(t):
        moved = [w + t * f @ v @ f.T for w, f, v in zip(W, T, V, strict=True)]
        b0 = point.b0 + t * b / scale
        assert np.array_equal(case.violation(moved, b0) > 0, case.violation(W, point.b0) > 0)
        G, force = case.gradient(moved, b0)
        return flat([f.T @ g @ f for f, g in zip(T, G, strict=True)], force / scale)

    image = (gradient(h) - gradient(-h)) / (2 * h)
    matrices = np.split(image[:-1], np.cumsum([n * n for n in case.sizes])[:-1])
    rhs = [symmetric(v.reshape(n, n)) for v, n in zip(matrices, case.sizes, strict=True)]
    solution = newton_system(point, case.eyes, name).solve(rhs, image[-1], RTOL)
    assert_allclose(flat(*solution), flat(V, b), rtol=1e-6, atol=1e-6)


def test_second_differences_of_the_primal_are_the_quadratic_form(case):
    point, (V, b) = at(case), random_direction(case)
    T, h = whitening(point, case.eyes), 1e-3
    W, scale = metric_of(point.problem, point.L), 1.0 if case.c0 == inf else sqrt(case.c0)
    values = [
        case.primal(
            [w + t * f @ v @ f.T for w, f, v in zip(W, T, V, strict=True)], point.b0 + t * b / scale
        )
        for t in (-h, 0, h)
    ]
    p = flat(V, b)
    expected = p @ explicit_matrix(case, point, case.eyes) @ p
    assert_allclose((values[0] - 2 * values[1] + values[2]) / h**2, expected, rtol=1e-3)


def test_lift_is_the_adjoint_of_project(case):
    point, (V, b) = at(case), random_direction(case)
    active = point.pairs.active_pairs(random_factors(case), case.c0)
    q = np.random.default_rng(2).normal(size=point.n_active)
    assert_allclose(flat(*active.lift(q)) @ flat(V, b), q @ active.project(V, b), rtol=1e-10)


def test_without_active_pairs_the_system_is_the_identity(name):
    case = random_case(SHAPES["two ragged"])
    case = case.with_(similar=np.ones(len(case.pairs), dtype=bool))
    problem, (V, b) = case.problem(), random_direction(case)
    point = problem.at(case.eyes, 1e3)
    assert point.n_active == 0
    solution = newton_system(point, case.eyes, name).solve(V, b, RTOL)
    assert_allclose(flat(*solution), flat(V, b), rtol=0)


def test_conjugate_gradients_stop_at_the_asked_residual():
    case = random_case([(6, 1)], n_pairs=200, n_samples=40, C=1e3)
    point, (V, b) = at(case), random_direction(case)
    matrix, rhs = explicit_matrix(case, point, case.eyes), flat(V, b)
    products = []
    for rtol in (1e-1, 1e-4, 1e-8):
        system = newton_system(point, case.eyes, "cg")
        residual = matrix @ flat(*system.solve(V, b, rtol)) - rhs
        assert np.linalg.norm(residual) <= 1.01 * rtol * np.linalg.norm(rhs)
        products.append(system.n_products)
    assert 0 < products[0] < products[1] < products[2]


def test_a_sample_of_very_many_pairs_represents_all():
    case = random_case([(2, 1)], n_pairs=4_000, n_samples=200, C=1e-2)
    problem, (V, b) = limited(case.problem(), pairs_per_dimension=100), random_direction(case)
    point = problem.at(case.eyes, 0.7)
    exact, sampled = (
        newton_system(point, case.eyes, "dense", rng) for rng in (None, np.random.RandomState(0))
    )
    assert point.n_active > 2 * 400
    expected = flat(*exact.solve(V, b, RTOL))
    error = flat(*sampled.solve(V, b, RTOL)) - expected
    assert 0 < np.linalg.norm(error) < 0.2 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("n", "n_pairs", "expected"), [(3, 2_000, "dense"), (60, 20, "woodbury"), (60, 9_000, "cg")]
)
def test_the_automatic_way_suits_the_problem(n, n_pairs, expected):
    case = random_case([(n, 1)], n_pairs=n_pairs, n_samples=50, C=1.0)
    point = case.problem().at(case.eyes, 0.5)
    assert newton_system(point, case.eyes, "auto").name == expected
