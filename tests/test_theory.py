"""The statements of docs/theory.md, and known optima: of a conic solver, or of built problems."""

from math import inf

import numpy as np
import pytest
from helpers import (
    SHAPES,
    divergence,
    random_case,
    random_dual_point,
    random_factors,
    random_point,
    shapes_with,
)
from numpy.testing import assert_allclose, assert_array_equal

from tatml import Newton
from tatml._data.pairs import as_pairs
from tatml._optim.problem import LogDetProblem
from tatml.losses import BurgLoss


@pytest.fixture(params=SHAPES)
def shapes(request):
    return SHAPES[request.param]


# A general conic solver

inaccurate = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is compared


def conic(case, slack_penalty, b0=None):
    """Solve the paper's (P0), with its slacks: min BD + penalty(ξ), y_k (D_k − ξ_k) ≤ 0."""
    cp = pytest.importorskip("cvxpy")
    M = len(case.sizes)
    W = [cp.Variable((n, n), PSD=True) for n in case.sizes]
    xi = cp.Variable(len(case.pairs))
    objective = slack_penalty(xi)
    for matrix, W0 in zip(W, case.W0, strict=True):
        objective += cp.trace(np.linalg.inv(W0) @ matrix) - cp.log_det(matrix)
        objective += np.linalg.slogdet(W0)[1] - len(W0)
    constraints = [
        y * (sum(cp.trace(case.A[m][k] @ W[m]) for m in range(M)) / M - xi[k]) <= 0
        for k, y in enumerate(case.y)
    ]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    threshold = case.mu0 if b0 is None else float(b0.value)
    return [matrix.value for matrix in W], threshold, problem.value


def conic_tatml(case):
    cp = pytest.importorskip("cvxpy")
    b0 = None if case.c0 == inf else cp.Variable()

    def penalty(xi):
        losses = cp.multiply(case.cw / 2, (xi - case.gamma * (case.mu0 if b0 is None else b0)) ** 2)
        return cp.sum(losses) + (0 if b0 is None else case.c0 / 2 * (b0 - case.mu0) ** 2)

    return conic(case, penalty, b0)


def assert_same_solution(result, W, b0, value):
    assert_allclose(result.primal, value, rtol=1e-6, atol=1e-6)
    assert_allclose(result.b0, b0, rtol=1e-4)
    for got, expected in zip(result.W, W, strict=True):
        assert_allclose(got, expected, atol=2e-4 * np.abs(expected).max())


GENERAL = {"mu0": 1.3, "margin": (0.7, 1.6), "weights": True, "prior": True, "C": 4.0}


@inaccurate
@pytest.mark.parametrize(
    ("shapes", "c0", "options"),
    [(*given, {}) for given in shapes_with([0.1, 1.0, inf])]
    + [(*given, GENERAL) for given in shapes_with([inf, 0.1, 1.0])],
)
def test_the_optimum_is_that_of_a_conic_solver(shapes, c0, options):
    case = random_case(shapes, seed=2, c0=c0, **options)
    result = case.learn()
    assert 0 < len(result.active) < len(case.pairs)
    assert_same_solution(result, *conic_tatml(case))


@inaccurate
@pytest.mark.parametrize(("shapes", "eta"), [([(3, 1)], 0.3), ([(3, 2), (2, 4)], 5.0)])
def test_itml_is_solved_by_the_same_solver(shapes, eta):
    """(Itml): ITML's problem, slacks and all, is LogDetProblem with BurgLoss."""
    case = random_case(shapes, weights=True, prior=True)
    cp = pytest.importorskip("cvxpy")
    bound = np.where(case.similar, 0.5, 1.5) * np.median(case.distances(case.W0))
    weight = eta * case.weights
    pairs = as_pairs(case.pairs, case.similar, len(case.blocks))
    problem = LogDetProblem.build(
        case.blocks, pairs, BurgLoss(case.y, weight, bound), prior=case.prior
    )
    result = Newton().solve(problem, tol=1e-12)
    ratio = 1 / bound

    def penalty(xi):
        terms = cp.multiply(ratio, xi) - cp.log(cp.multiply(ratio, xi)) - 1
        return cp.sum(cp.multiply(weight, terms))

    W, _, value = conic(case, penalty)
    assert 0 < len(result.active) < len(case.pairs)
    assert_same_solution(result, W, 0.0, value)


# Problems built from their solution


def case_with_known_optimum(shapes, c0, seed):
    """Choose multipliers, then the weights that make the KKT conditions hold exactly.

    α_k = c w_k r_k: a pair with α_k > 0 needs r_k > 0 and gets the weight α_k / (c r_k); one with
    α_k = 0 and r_k = 0 may have any weight; one with α_k = 0 and r_k > 0 is left out.
    """
    case = random_case(shapes, seed=seed, n_pairs=30, c0=c0, C=2.0, mu0=1.2, prior=True)
    rng = np.random.default_rng(seed)
    s = random_dual_point(case, seed) * (case.violation(case.W0, case.mu0) > 0.05)
    while True:
        W, b0 = case.primal_of(s)
        a = case.y * (case.distances(W) - case.gamma * b0)
        if np.all(a[s != 0] > 0):
            break
        s = 0.9 * s
    keep = (s != 0) | (a <= 0)
    weights = rng.uniform(0.5, 2, size=len(a))
    weights[s != 0] = np.abs(s[s != 0]) / (case.C * a[s != 0])
    case = case.with_(pairs=case.pairs[keep], similar=case.similar[keep], weights=weights[keep])
    return case, W, b0, s[keep]


@pytest.mark.parametrize(("shapes", "c0"), shapes_with([0.3, 2.0, inf]))
@pytest.mark.parametrize("seed", range(3))
def test_the_solver_finds_the_solution_that_a_problem_was_built_from(shapes, c0, seed):
    case, W, b0, s = case_with_known_optimum(shapes, c0, seed)
    assert np.any(s > 0)
    assert np.any(s < 0)
    result = case.learn(tol=1e-14)
    assert_allclose(result.b0, b0, rtol=1e-7)
    assert_allclose(result.primal, case.primal(W, b0), rtol=1e-10)
    assert_array_equal(result.active, np.flatnonzero(s))
    assert_allclose(result.multipliers, np.abs(s[s != 0]), rtol=1e-5, atol=1e-7)
    for got, expected in zip(result.W, W, strict=True):
        assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


# What the gap means


@pytest.mark.parametrize(("shapes", "c0"), shapes_with([0.1, inf]))
def test_the_gap_bounds_every_distance_at_every_step(shapes, c0):
    """(Bound), for training pairs, other pairs and b0; and gap ≥ F − F*."""
    case = random_case(shapes, n_pairs=60, n_samples=12, c0=c0, C=10.0, prior=True)
    optimum, iterates = case.learn(tol=1e-13), []
    case.learn(callback=iterates.append)
    assert len(iterates) >= 4
    objects = np.array([(i, j) for i in range(12) for j in range(i)])
    everything = case.with_(pairs=objects)
    D_optimal = everything.distances(optimum.W)
    for iterate in iterates:
        assert iterate.gap >= 0
        error = case.primal(iterate.W, iterate.b0) - optimum.primal
        assert error <= iterate.gap + 1e-12 * abs(optimum.primal)
        gap = iterate.gap + 1e-12
        ratio = everything.distances(iterate.W) / D_optimal
        assert 1 - np.sqrt(2 * gap) <= ratio.min() <= ratio.max() <= 1 + np.sqrt(2 * gap) + gap
        distance = sum(map(divergence, iterate.W, optimum.W))
        if c0 < inf:
            distance += c0 / 2 * (iterate.b0 - optimum.b0) ** 2
        assert distance <= gap * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(24))
def test_the_threshold_is_positive(seed):
    rng = np.random.default_rng(seed)
    shapes = list(SHAPES.values())[seed % len(SHAPES)]
    C, c0, mu0 = 10 ** rng.uniform(-3, 3, size=3)
    case = random_case(shapes, seed=seed, C=C, c0=c0, mu0=mu0)
    assert case.learn(tol=1e-8).b0 > 0


# Section 2: the paper's letters


@pytest.mark.parametrize("c0", [0.1, 1.0, 30.0])
def test_the_printed_bregman_form_is_the_simple_one(c0):
    """(G): μ3 = −μ1, G⁻¹ = I/c + γγᵀ/c0, ξ0 = μ0 γ, B = 0, h_k = e_k/c + (γ_k/c0) γ."""
    rng = np.random.default_rng(0)
    K, c, mu0 = 9, 2.5, 1.4
    gamma = rng.choice([0.5, 2.0], size=K)
    square = gamma @ gamma
    mu1, mu2 = c / (c * square + c0), c0 * mu0 / (c * square + c0)
    mu3 = mu1**2 * (c0 / c + square) - 2 * mu1
    G = c * (np.eye(K) + mu3 * np.outer(gamma, gamma))
    factor = c * mu2 + (c0 * mu1 * mu0 - c * mu2) * mu1 * square
    xi0 = factor * np.linalg.solve(G, gamma)
    B = G @ xi0 @ xi0 / 2 - c * mu2**2 * square / 2 - c0 * mu1**2 * mu0**2 * square**2 / 2
    printed_h = np.eye(K) / c - mu3 * np.outer(gamma, gamma) / (c * (1 + mu3 * square))
    assert_allclose(mu3, -mu1, rtol=1e-12)
    assert_allclose(np.linalg.inv(G), np.eye(K) / c + np.outer(gamma, gamma) / c0, rtol=1e-10)
    assert_allclose(printed_h, np.eye(K) / c + np.outer(gamma, gamma) / c0, rtol=1e-10)
    assert_allclose(xi0, mu0 * gamma, rtol=1e-11)
    assert_allclose(B, 0, atol=1e-11)
    for xi in rng.normal(size=(5, K)):  # the paper's step: b0 is minimised out of (P0)
        b0 = (c0 * mu0 + c * gamma @ xi) / (c0 + c * square)
        terms = c / 2 * np.sum((xi - gamma * b0) ** 2) + c0 / 2 * (b0 - mu0) ** 2
        assert_allclose(terms, G @ (xi - xi0) @ (xi - xi0) / 2 - B, rtol=1e-10)


def test_the_printed_matrix_is_singular_without_a_threshold_term():
    gamma, c = np.array([0.5, 2.0, 2.0, 0.5]), 2.5
    mu1 = 1 / (gamma @ gamma)
    mu3 = mu1**2 * (gamma @ gamma) - 2 * mu1
    G = c * (np.eye(4) + mu3 * np.outer(gamma, gamma))
    assert_allclose(G @ gamma, 0, atol=1e-14)
    assert np.linalg.matrix_rank(G) == 3


def test_the_dual_is_that_of_the_bregman_form():
    """(D) is Σ logdet − ξ0ᵀs − ½ sᵀG⁻¹s, and ξ = ξ0 + G⁻¹s."""
    case = random_case(SHAPES["two ragged"], C=2.0, c0=0.4, mu0=1.3)
    s = random_dual_point(case)
    inverse = np.eye(len(s)) / case.C + np.outer(case.gamma, case.gamma) / case.c0
    logdet = sum(np.linalg.slogdet(np.eye(len(S)) + S)[1] for S in case.scatter(s))
    expected = logdet - case.mu0 * case.gamma @ s - s @ inverse @ s / 2
    assert_allclose(case.dual(s), expected, rtol=1e-10)
    _, b0 = case.primal_of(s)
    assert_allclose(case.mu0 * case.gamma + inverse @ s, case.gamma * b0 + s / case.C, rtol=1e-10)


# Invariances: a change of the problem, and what it does to W, b0 and F


def left(case, J):
    """Φ_m → J_m Φ_m with W0_m → J_m⁻ᵀ W0_m J_m⁻¹, (Scale)."""
    inverse = [np.linalg.inv(j) for j in J]
    return case.with_(
        arrays=[j @ array for j, array in zip(J, case.arrays, strict=True)],
        prior=[i.T @ W0 @ i for i, W0 in zip(inverse, case.W0, strict=True)],
    ), lambda W: [i.T @ matrix @ i for i, matrix in zip(inverse, W, strict=True)]


def orthogonal(case):
    return [np.linalg.qr(J)[0] for J in random_factors(case)]


def unchanged(W):
    return W


def permuted(case):
    order = np.random.default_rng(0).permutation(len(case.pairs))
    return case.with_(
        pairs=case.pairs[order], similar=case.similar[order], weights=case.weights[order]
    ), unchanged


def with_pair_of_weight_zero(case):
    return case.with_(
        pairs=np.concatenate([case.pairs, [[0, 1]]]),
        similar=np.append(case.similar, False),
        weights=np.append(case.weights, 0.0),
    ), unchanged


def turned_columns(case):
    turns = [
        np.linalg.qr(np.random.default_rng(0).normal(size=2 * (a.shape[2],)))[0]
        for a in case.arrays
    ]
    return case.with_(arrays=[a @ q for a, q in zip(case.arrays, turns, strict=True)]), unchanged


SAME = {
    "order of pairs": permuted,
    "i and j swapped": lambda case: (case.with_(pairs=case.pairs[:, ::-1]), unchanged),
    "a pair of weight zero": with_pair_of_weight_zero,
    "translation": lambda case: (case.with_(arrays=[a + 3.0 for a in case.arrays]), unchanged),
    "columns turned": turned_columns,
    "a column of zeros": lambda case: (
        case.with_(arrays=[np.concatenate([a, 0 * a[:, :, :1]], axis=2) for a in case.arrays]),
        unchanged,
    ),
    "orthogonal": lambda case: left(case, orthogonal(case)),
    "units": lambda case: left(case, [1e3 * eye for eye in case.eyes]),
    "congruence": lambda case: left(case, random_factors(case)),
    "weights in C": lambda case: (case.with_(C=2 * case.C, weights=case.weights / 2), unchanged),
    "blocks reversed": lambda case: (
        case.with_(arrays=case.arrays[::-1], prior=case.prior[::-1]),
        lambda W: W[::-1],
    ),
}


def assert_matches(result, W, b0, value):
    assert_allclose(result.primal, value, rtol=1e-9)
    assert_allclose(result.b0, b0, rtol=1e-6)
    for got, expected in zip(result.W, W, strict=True):
        assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("c0", [0.5, inf])
@pytest.mark.parametrize("change", SAME)
def test_the_solution_does_not_depend_on(change, c0):
    case = random_case(SHAPES["two ragged"], C=3.0, c0=c0, weights=True, prior=True)
    expected = case.learn()
    other, move = SAME[change](case)
    assert_matches(other.learn(), move(expected.W), expected.b0, expected.primal)


def test_data_far_from_the_origin_keep_their_digits():
    """Differences of numbers that are exact in binary lose nothing, wherever the origin is."""
    case = random_case(SHAPES["two ragged"], C=3.0, prior=True)
    near = case.with_(arrays=[np.round(array * 2**20) / 2**20 for array in case.arrays])
    expected, result = (
        one.learn() for one in (near, near.with_(arrays=[a + 2.0**31 for a in near.arrays]))
    )
    assert_allclose(result.b0, expected.b0, rtol=1e-10)
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-9, atol=1e-10)


def test_an_orthogonal_transform_keeps_the_identity_prior(shapes):
    case = random_case(shapes)
    expected, Q = case.learn(), orthogonal(case)
    turned = case.with_(arrays=[q @ array for q, array in zip(Q, case.arrays, strict=True)])
    W = [q @ matrix @ q.T for q, matrix in zip(Q, expected.W, strict=True)]
    assert_matches(turned.learn(), W, expected.b0, expected.primal)


def test_a_doubled_pair_is_a_pair_of_weight_two(shapes):
    case = random_case(shapes, weights=True)
    for k in case.learn().active[[0, -1]]:
        weights = case.weights * np.where(np.arange(len(case.pairs)) == k, 2, 1)
        expected = case.with_(weights=weights).learn()
        rows = np.append(np.arange(len(case.pairs)), k)
        twice = case.with_(
            pairs=case.pairs[rows], similar=case.similar[rows], weights=case.weights[rows]
        )
        assert_matches(twice.learn(), expected.W, expected.b0, expected.primal)


@pytest.mark.parametrize("M", [2, 3])
@pytest.mark.parametrize("c0", [0.6, inf])
def test_copies_of_a_block_share_the_work(M, c0):
    """D is the mean over blocks, BD the sum: M copies are M times the problem of (c/M, c0/M)."""
    case = random_case(SHAPES["low rank"], C=3.0, c0=c0, prior=True)
    copies = case.with_(arrays=M * case.arrays, prior=M * case.prior).learn()
    single = case.with_(C=case.C / M, c0=c0 / M).learn()
    assert_matches(copies, M * single.W, single.b0, M * single.primal)


def test_the_scale_of_the_threshold_is_that_of_the_prior():
    """W0 → κ W0, μ0 → κ μ0, c → c/κ², c0 → c0/κ²: W and b0 are multiplied by κ."""
    case, kappa = random_case(SHAPES["two ragged"], C=3.0, c0=0.7, prior=True), 5.0
    expected = case.learn()
    scaled = case.with_(
        prior=[kappa * W0 for W0 in case.prior],
        mu0=kappa * case.mu0,
        C=case.C / kappa**2,
        c0=case.c0 / kappa**2,
    )
    W = [kappa * matrix for matrix in expected.W]
    assert_matches(scaled.learn(), W, kappa * expected.b0, expected.primal)


def test_the_primal_is_jointly_convex():
    case = random_case(SHAPES["two ragged"], weights=True, prior=True, C=5.0)
    for seed in range(20):
        (V, a), (W, b) = random_point(case, seed), random_point(case, seed + 100)
        middle = [(v + w) / 2 for v, w in zip(V, W, strict=True)]
        ends = case.at(V, a).primal + case.at(W, b).primal
        assert case.at(middle, (a + b) / 2).primal < ends / 2
