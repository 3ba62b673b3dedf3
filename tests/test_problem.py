"""Values, derivatives, duality and the certificate of LogDetProblem, against explicit loops."""

import gc
import weakref
from dataclasses import replace
from math import inf, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import (
    SHAPES,
    divergence,
    dual_of,
    factors_of,
    metric_of,
    random_case,
    random_dual_point,
    random_matrices,
    random_point,
    shapes_with,
    strict_problem,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from tatml._data.pairs import as_pairs
from tatml._optim.problem import DualAlong, LogDetProblem, best_threshold
from tatml.losses import BurgLoss, SquaredHinge

C0 = [0.1, 1.0, inf]


@pytest.fixture(params=shapes_with(C0), ids=str)
def case(request):
    shapes, c0 = request.param
    return random_case(shapes, c0=c0, C=0.7, mu0=1.3, margin=(0.6, 1.7), weights=True, prior=True)


def scale_to_domain(case, s):
    """Return the largest θ ≤ 1 with θ s in the domain of g, slightly inside."""
    lowest = min(
        eigh(S, np.linalg.inv(W0), eigvals_only=True)[0]
        for W0, S in zip(case.W0, case.scatter(s), strict=True)
    )
    return 1.0 if lowest > -1 else -0.999999 / lowest


@pytest.mark.parametrize("seed", range(5))
def test_primal_and_multipliers_are_the_definition(case, seed):
    W, b0 = random_point(case, seed)
    point = case.at(W, b0)
    assert_allclose(point.primal, case.primal(W, b0), rtol=1e-12)
    assert_allclose(point.pairs.zeta, case.distances(W) - case.gamma * b0, rtol=1e-10, atol=1e-12)
    assert_allclose(point.slope, case.multipliers(W, b0), rtol=1e-10, atol=1e-12)
    assert_array_equal(point.pairs.active, np.flatnonzero(case.violation(W, b0)))
    assert_allclose(point.pairs.curvature, case.cw * (case.violation(W, b0) > 0), rtol=1e-14)


def test_factors_and_metric_are_inverse_to_each_other(case):
    W, _ = random_point(case)
    problem = case.problem()
    for got, expected in zip(metric_of(problem, factors_of(problem, W)), W, strict=True):
        assert_allclose(got, expected, rtol=1e-11, atol=1e-13)
        assert_array_equal(got, got.T)


def dual_by_library(problem, s):
    """g(s) as the library computes it for a certificate: that of the multiple θ = 1."""
    eigenvalues = [np.linalg.eigvalsh(S) for S in problem.pairs.sums.scatter(s)]
    conjugate = float(problem.pairs.loss.conjugate(s).sum())
    return DualAlong(problem, eigenvalues, problem.threshold_force(s), lambda _: conjugate).value(1)


def test_dual_is_the_definition(case):
    problem = case.problem()
    for seed in range(5):
        s = random_dual_point(case, seed)
        assert_allclose(dual_by_library(problem, s), case.dual(s), rtol=1e-10, atol=1e-12)
        assert_allclose(dual_of(problem, s), case.dual(s), rtol=1e-10, atol=1e-12)


def test_dual_is_minus_infinity_outside_its_domain():
    case = random_case(SHAPES["square"])
    s = np.where(case.similar, 0.0, -1e3)
    assert dual_by_library(case.problem(), s) == -inf
    assert dual_of(case.problem(), s) == -inf


def test_gradient_of_primal_agrees_with_finite_differences(case):
    """In direction L Ṽ Lᵀ the derivative of F is ⟨G̃, Ṽ⟩, in b0 it is g_b, (N)."""
    h = 1e-6
    for seed in range(3):
        W, b0 = random_point(case, seed)
        point, V = case.at(W, b0), random_matrices(case, seed)
        T = [C @ L for C, L in zip(point.problem.prior_factors, point.L, strict=True)]
        step = [t @ v @ t.T for t, v in zip(T, V, strict=True)]
        ahead, behind = (
            case.primal([w + t * v for w, v in zip(W, step, strict=True)], b0) for t in (h, -h)
        )
        expected = sum(np.sum(G * v) for G, v in zip(point.gradient, V, strict=True))
        assert_allclose((ahead - behind) / (2 * h), expected, rtol=1e-6, atol=1e-7)
        if case.c0 == inf:
            assert point.threshold_slope == 0
        else:
            difference = (case.primal(W, b0 + h) - case.primal(W, b0 - h)) / (2 * h)
            assert_allclose(difference, point.threshold_slope * sqrt(case.c0), rtol=1e-6)


def test_gradient_of_dual_agrees_with_finite_differences(case):
    """∂g/∂s_k = D_k(W(s)) − ξ_k(s), (Map)."""
    s, h = random_dual_point(case), 1e-6
    W, b0 = case.primal_of(s)
    gradient = case.distances(W) - case.gamma * b0 - s / case.cw
    for k, step in enumerate(h * np.eye(len(s))):
        difference = (case.dual(s + step) - case.dual(s - step)) / (2 * h)
        assert_allclose(difference, gradient[k], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_weak_duality_at_any_points(case, seed):
    W, b0 = random_point(case, seed)
    assert case.dual(random_dual_point(case, seed + 100)) < case.at(W, b0).primal


@pytest.mark.parametrize("seed", range(5))
def test_gap_identity_at_any_points(case, seed):
    """(Gap): F − g is a sum of non-negative terms for any W, b0 and s."""
    (W, b0), s = random_point(case, seed), random_dual_point(case, seed + 100)
    W_s, b0_s = case.primal_of(s)
    threshold = 0.0 if case.c0 == inf else case.c0 / 2 * (b0 - b0_s) ** 2
    alpha, a = case.y * s, case.y * (case.distances(W) - case.gamma * b0)
    pairs = (alpha - case.cw * np.maximum(a, 0)) ** 2 / (2 * case.cw)
    pairs += alpha * np.maximum(-a, 0)
    identity = sum(map(divergence, W, W_s)) + threshold + pairs.sum()
    assert_allclose(case.at(W, b0).primal - case.dual(s), identity, rtol=1e-9)


def test_gap_at_the_point_of_a_dual_point(case):
    """(GapD): where W = W(s) and b0 = b0(s) only the pairs are left."""
    s = random_dual_point(case)
    W, b0 = case.primal_of(s)
    alpha, a = case.y * s, case.y * (case.distances(W) - case.gamma * b0)
    pairs = (alpha - case.cw * np.maximum(a, 0)) ** 2 / (2 * case.cw) + alpha * np.maximum(-a, 0)
    assert_allclose(case.at(W, b0).primal - case.dual(s), pairs.sum(), rtol=1e-9)


def test_gap_is_primal_minus_dual_near_the_solution(case):
    """(GapN): the dual point is s = φ'(ζ), and the gap is not a difference."""
    solution, moves = case.learn(), random_matrices(case, 7)
    L = [np.linalg.cholesky(W) for W in solution.W]
    for noise in (1e-3, 1e-4, 1e-5):
        W = [l @ (np.eye(len(l)) + noise * V) @ l.T for l, V in zip(L, moves, strict=True)]
        b0 = solution.b0 if case.c0 == inf else solution.b0 * (1 + noise)
        point, difference = case.at(W, b0), case.primal(W, b0) - case.dual(case.multipliers(W, b0))
        assert_allclose(point.gap, difference, rtol=1e-6, atol=1e-13)
        assert point.gap >= case.primal(W, b0) - solution.primal > 0


@pytest.mark.parametrize("seed", range(5))
def test_gap_far_from_the_solution_is_that_of_the_scaled_dual_point(case, seed):
    """(GapS): the best of g(θ s), 0 ≤ θ ≤ 1, and never worse than g(0) = 0."""
    W, b0 = random_point(case, seed)
    point, s = case.at(W, b0), case.multipliers(W, b0)
    end = scale_to_domain(case, s)
    best = minimize_scalar(
        lambda theta, s=s: -case.dual(theta * s), bounds=(0, end), method="bounded"
    )
    primal = case.primal(W, b0)
    expected = primal - max(0.0, -best.fun, case.dual(end * s))
    assert_allclose(point.gap, expected, rtol=1e-3)
    assert point.gap >= expected * (1 - 1e-6)


def test_gap_is_never_negative_and_never_below_the_error(case):
    optimum = case.learn().primal
    for seed in range(10):
        W, b0 = random_point(case, seed)
        point = case.at(W, b0)
        assert point.primal - optimum <= point.gap <= point.primal


def test_the_solution_satisfies_the_kkt_conditions(case):
    result = case.learn(tol=1e-14)
    s = np.zeros(len(case.pairs))
    s[result.active] = result.multipliers * case.y[result.active]
    assert max(case.kkt(result.W, result.b0, s)) < 1e-6
    assert max(case.kkt(result.W, result.b0, case.multipliers(result.W, result.b0))) < 1e-6


def test_the_whitened_gradient_is_that_of_the_definition(case):
    """The eigenvalues of LᵀPL − I, and the derivative in b0, are those of the user's problem."""
    W, b0 = random_point(case)
    point, s = case.at(W, b0), case.multipliers(W, b0)
    metric, threshold, _ = case.kkt(W, b0, s)
    assert metric > 0.1
    assert_allclose(max(np.abs(e).max() for e in point.eigenvalues), metric, rtol=1e-9)
    assert_allclose(abs(point.threshold_slope), threshold, rtol=1e-9)


@pytest.mark.parametrize("c0", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(10))
def test_best_threshold_is_the_minimum_over_b0(c0, seed):
    """(B0)."""
    case = random_case(SHAPES["square"], seed=seed, c0=c0, C=3.0, weights=True)
    W, _ = random_point(case, seed)
    D, problem = case.distances(W), case.problem()
    b0 = best_threshold(D, problem.pairs.loss, case.c0, case.mu0)
    s = case.multipliers(W, b0)
    assert abs(c0 * (b0 - case.mu0) - case.gamma @ s) < 1e-10 * (1 + np.abs(s).sum())
    ends = [case.mu0, *(D / case.gamma)]
    assert min(ends) <= b0 <= max(ends)
    assert b0 > 0


def test_best_threshold_takes_a_handful_of_passes():
    """Newton's method on ψ needs few active sets."""
    calls = []

    class Counted(SquaredHinge):
        def slope(self, zeta):
            calls.append(zeta)
            return super().slope(zeta)

    for seed in range(10):
        problem = random_case([(3, 2)], seed=seed, n_pairs=500, n_samples=50, C=3.0).problem()
        counted, distances = Counted(**vars(problem.pairs.loss)), problem.pairs.sums.distances()
        calls.clear()
        best_threshold(distances, counted, problem.c0, problem.mu0)
        assert len(calls) <= 12


def test_a_fixed_threshold_is_its_centre():
    case = random_case(SHAPES["square"], c0=inf, mu0=1.7)
    assert best_threshold(np.ones(len(case.pairs)), case.problem().pairs.loss, inf, 1.7) == 1.7
    assert not case.problem().learns_threshold


def test_the_threshold_balances_the_multipliers(case):
    """b0(s) = μ0 + γᵀs / c0 makes the residual of b0 zero."""
    problem, s = case.problem(), random_dual_point(case)
    assert_allclose(problem.threshold_force(s), case.gamma @ s, rtol=1e-12)
    _, b0 = case.primal_of(s)
    residual = 0.0 if case.c0 == inf else problem.c0 * (b0 - problem.mu0) - case.gamma @ s
    assert abs(residual) < 1e-12 * max(1.0, abs(problem.c0 * b0))


def test_a_subset_is_the_problem_of_these_pairs(case):
    chosen = np.array([3, 0, 8, 8, 5])
    some = case.with_(
        pairs=case.pairs[chosen],
        similar=case.similar[chosen],
        weights=case.weights[chosen],
        C=2.5 * case.C,
    )
    W, b0 = random_point(case)
    problem = case.problem()
    problem = replace(problem, term=problem.pairs.take(chosen, 2.5))
    point = problem.at(factors_of(problem, W), b0)
    assert_allclose(point.primal, some.primal(W, b0), rtol=1e-11)
    s = random_dual_point(some)
    assert_allclose(dual_of(problem, s), some.dual(s), rtol=1e-10, atol=1e-12)


def burg_problem(seed=0, convert=np.asarray):
    case = random_case([(3, 2), (2, 1)], seed=seed, prior=True)
    D0 = case.distances(case.W0)
    bound = np.where(case.similar, 0.6, 1.5) * np.median(D0)
    loss = BurgLoss(*map(convert, (case.y, np.full(len(D0), 2.0), bound)))
    pairs = as_pairs(case.pairs, case.similar, len(case.blocks))
    return case, LogDetProblem.build(case.blocks, pairs, loss, prior=case.prior)


def test_the_certificate_holds_for_another_loss():
    """(GapN) with BurgLoss: F − g by its own definition, at s = φ'."""
    case, problem = burg_problem()
    W, _ = random_point(case)
    point = problem.at(factors_of(problem, W), 0.0)
    theta = scale_to_domain(case, point.slope)
    s = theta * point.slope
    logdet = sum(
        np.linalg.slogdet(np.eye(len(S)) + W0 @ S)[1]
        for W0, S in zip(case.W0, case.scatter(s), strict=True)
    )
    dual = logdet - problem.pairs.loss.conjugate(s).sum()
    assert_allclose(dual_by_library(problem, s), dual, rtol=1e-9)
    loss = problem.pairs.loss.value(case.distances(W)).sum()
    assert_allclose(point.primal, sum(map(divergence, W, case.W0)) + loss, rtol=1e-11)
    assert 0 < point.gap <= point.primal - dual + 1e-9


@pytest.mark.parametrize("c0", [0.1, inf])
@pytest.mark.parametrize("distance", ["far", "near"])
def test_the_problem_works_on_strict_arrays(c0, distance):
    xp = pytest.importorskip("array_api_strict")
    case = random_case([(3, 2), (2, 4)], c0=c0, prior=True)
    plain = case.problem()
    W, b0 = random_point(case)
    if distance == "near":
        result = case.learn(tol=1e-4)
        W, b0 = result.W, result.b0
    L, s = factors_of(plain, W), random_dual_point(case)
    strict = strict_problem(plain)
    ours, theirs = plain.at(L, b0), strict.at([xp.asarray(l) for l in L], b0)
    for name in ("primal", "gap", "threshold_slope", "n_active"):
        assert_allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-12, atol=1e-14)
    for got, expected in zip(theirs.gradient, ours.gradient, strict=True):
        assert_allclose(np.asarray(got), expected, rtol=1e-11, atol=1e-12)
    moved = xp.asarray(s)
    assert_allclose(strict.best_multiple(moved), plain.best_multiple(s), rtol=1e-9)
    force, expected = strict.threshold_force(moved), plain.threshold_force(s)
    assert_allclose(force, expected, rtol=1e-10, atol=1e-13)
    D = case.distances(W)
    found = best_threshold(xp.asarray(D), strict.pairs.loss, strict.c0, strict.mu0)
    expected = best_threshold(D, plain.pairs.loss, plain.c0, plain.mu0)
    assert_allclose(found, expected, rtol=1e-12)
    metric = metric_of(strict, factors_of(strict, [xp.asarray(matrix) for matrix in W]))
    for got, expected in zip(metric, W, strict=True):
        assert_allclose(np.asarray(got), expected, rtol=1e-11, atol=1e-12)


def test_the_best_multiple_is_the_best(case):
    problem, grid = case.problem(), np.linspace(0, 1, 101)
    moved = set()
    for seed in range(2):
        slope = case.at(*random_point(case, seed)).slope
        for s in (slope, 30 * slope, 1e-3 * slope):
            eigenvalues = [np.linalg.eigvalsh(S) for S in problem.pairs.sums.scatter(s)]
            theta, value = problem.best_multiple(s)
            assert 0 <= theta <= 1
            assert_allclose(value, dual_of(problem, theta * s), rtol=1e-9, atol=1e-11)
            conjugate, force = problem.pairs.loss.conjugate(s).sum(), case.gamma @ s
            best = max(
                sum(np.log1p(t * e).sum() for e in eigenvalues)
                - (t**2 * conjugate + t * case.mu0 * force + (t * force) ** 2 / (2 * case.c0))
                for t in grid
                if min(np.min(t * e) for e in eigenvalues) > -1
            )
            assert value >= max(0.0, best - 1e-9 * abs(best))
            moved.add(0 < theta < 1)
    assert True in moved


def test_the_best_multiple_is_all_of_a_small_force():
    case = random_case(SHAPES["square"])
    problem = case.problem()
    s = np.zeros(len(case.pairs))
    assert problem.best_multiple(s)[1] == 0


def test_the_best_multiple_is_that_of_a_search_without_slopes(case):
    problem = case.problem()
    slope = case.at(*random_point(case, 0)).slope
    eigenvalues = [np.linalg.eigvalsh(S) for S in problem.pairs.sums.scatter(slope)]
    loss, inside = problem.pairs.loss, 0
    other_loss = SimpleNamespace(**vars(problem) | {"term": SimpleNamespace(quadratic=False)})
    for scale in (0.1, 1.0, 30.0):
        along = DualAlong(
            problem,
            [scale * e for e in eigenvalues],
            problem.threshold_force(scale * slope),
            lambda theta, s=scale * slope: float(loss.conjugate(theta * s).sum()),
        )
        searched = replace(along, problem=other_loss)
        best, other = along.best()[1], searched.best()[1]
        assert other - 1e-9 * abs(best) <= best <= 1.0001 * other + 1e-9
        inside += 0 < along.best()[0] < 1
    assert inside > 0


def test_the_best_multiple_leaves_no_pairs_to_the_garbage_collector(case):
    """`brentq` leaves its function in a cycle; a problem in parts would exceed its memory."""
    point = case.problem().at(*factors_and_threshold(case))
    watched = weakref.ref(point)
    assert point.gap > 0
    gc.disable()
    try:
        del point
        assert watched() is None
    finally:
        gc.enable()


def factors_and_threshold(case):
    W, b0 = random_point(case)
    return factors_of(case.problem(), W), b0
