"""One projection of Dykstra by hand, its scalar equation, and very many of them in a row."""

from itertools import product
from math import inf

import numpy as np
import pytest
from helpers import SHAPES, largest_difference, random_case, random_dual_point
from sklearn.exceptions import ConvergenceWarning

from tatml import Dykstra
from tatml._optim import dykstra as module
from tatml._optim.dykstra import InverseBlock, closed_root, efficient_block, monotone_root

KINDS = ["vectors", "low rank", "wide", "two ragged", "three ragged"]
ORDERS = ["permutation", "random", "cyclic"]


def state_of(case, alpha=None, projection="efficient"):
    """The solver's state at given multipliers."""
    problem = case.problem()
    alpha = np.zeros(len(case.pairs)) if alpha is None else alpha
    state = module._State(problem, projection, alpha)
    point = module.dual_point(problem, case.y * alpha)
    state.b0 = point.b0
    for block, L in zip(state.blocks, point.L, strict=True):
        block.reset(L)
    return state


def project(state, k):
    rows = state.problem.pairs.sums.take(np.array([k])).rows(slice(0, 1))
    state.project([k], [np.array(block) for block in rows])


def metric(state):
    """W in the user's coordinates."""
    blocks = zip(state.problem.prior_factors, state.blocks, strict=True)
    return [C @ block.metric() @ C.T for C, block in blocks]


# One projection


@pytest.mark.parametrize("projection", ["efficient", "naive"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c0", [0.1, inf])
def test_every_step_is_the_best_of_its_coordinate(kind, projection, c0):
    check_steps(random_case(SHAPES[kind], c0=c0, C=10.0, weights=True, prior=True), projection)


def check_steps(case, projection):
    alpha = np.abs(random_dual_point(case))
    state, rng = state_of(case, alpha, projection), np.random.default_rng(0)
    before, clipped = case.dual(case.y * alpha), 0
    for k in rng.integers(len(case.pairs), size=40):
        project(state, k)
        s = case.y * np.array(state.alpha)
        W, b0 = case.primal_of(s)  # what the multipliers say
        assert largest_difference(metric(state), W) < 1e-10
        assert state.b0 == pytest.approx(b0, abs=1e-11)
        slack = case.gamma[k] * b0 + s[k] / case.cw[k]
        excess = case.y[k] * (case.distances(W)[k] - slack)
        if state.alpha[k] > 0:
            assert abs(excess) < 1e-9  # on the boundary of the half-space
        else:
            assert excess < 1e-9  # inside
            clipped += 1
        after = case.dual(s)
        assert after >= before - 1e-12 * abs(before)
        before = after
    assert clipped


@pytest.mark.parametrize("kind", KINDS)
def test_efficient_and_naive_projections_agree(kind):
    case = random_case(SHAPES[kind], C=10.0)
    efficient, naive = (state_of(case, projection=name) for name in ("efficient", "naive"))
    for k in [*range(len(case.pairs)), *range(len(case.pairs))]:
        for state in (efficient, naive):
            project(state, k)
        np.testing.assert_allclose(efficient.alpha, naive.alpha, rtol=0, atol=1e-10)
        assert largest_difference(metric(efficient), metric(naive)) < 1e-10, kind
        assert abs(efficient.b0 - naive.b0) < 1e-10, kind
    assert naive.rule.evaluations > efficient.rule.evaluations, kind
    in_closed_form = all(width == 1 for _, width in SHAPES[kind]) and len(SHAPES[kind]) == 1
    assert (efficient.rule.evaluations == 0) == in_closed_form, kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_clipped_step_keeps_the_metric_positive_definite(kind):
    case = random_case(SHAPES[kind], C=1e4, c0=inf, mu0=0.01)
    state = state_of(case, np.abs(random_dual_point(case)))
    for k in np.random.default_rng(0).integers(len(case.pairs), size=100):
        project(state, k)
        for W in metric(state):
            assert np.linalg.eigvalsh(W)[0] > 0, kind


@pytest.mark.parametrize(("n", "width"), [(6, 1), (6, 2), (6, 5), (6, 6), (4, 9)])
def test_a_shift_inverts_the_shifted_inverse(n, width):
    rng = np.random.default_rng(n * width)
    L = np.triu(rng.normal(size=(n, n))) + 3 * np.eye(n)
    rows = rng.normal(size=(1, width, n))
    A = rows[0].T @ rows[0]
    blocks = [efficient_block(n, width), InverseBlock(n, width)]
    for share, block in product((-0.999, -0.3, 1e-9, 0.7, 1e6), blocks):
        delta = share / np.linalg.eigvalsh(L.T @ A @ L)[-1]
        expected = L @ np.linalg.inv(np.eye(n) + delta * L.T @ A @ L) @ L.T
        block.reset(L)
        block.load(rows.copy())
        assert block.square(0) == pytest.approx(np.sum(A * (L @ L.T)), rel=1e-12)
        block.shift(delta)
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(block.metric(), expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize(("n", "width"), [(6, 1), (6, 2), (4, 9)])
def test_a_shift_beyond_the_domain_raises(n, width):
    rng = np.random.default_rng(n * width)
    rows = rng.normal(size=(1, width, n))
    end = -1 / np.linalg.eigvalsh(rows[0].T @ rows[0])[-1]  # I + δ A is singular there
    for block in (efficient_block(n, width), InverseBlock(n, width)):
        block.reset(np.eye(n))
        block.load(rows.copy())
        block.square(0)
        with pytest.raises(np.linalg.LinAlgError, match="no longer positive definite"):
            block.shift(1.001 * end)


# The scalar equation


def excess(t, xi, h, lam, M):
    return xi + t * h - np.sum(lam / (M + t * lam))


def bracket_end(q, xi, h, d):
    """root(q) in long double, as (Root) prints it."""
    xi, h, d, q = (np.longdouble(value) for value in (xi, h, d, q))
    return float((-(xi + h * d) + np.sqrt((xi - h * d) ** 2 + 4 * h * q)) / (2 * h))


def random_equation(rng):
    n, M = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    lam = np.sort(np.exp(rng.uniform(-8, 6, size=n)) * (rng.random(n) < 0.8))
    lam[-1] = np.exp(rng.uniform(-2, 6))
    lam.sort()
    return rng.normal() * np.exp(rng.uniform(-4, 4)), np.exp(rng.uniform(-6, 8)), lam, M


def test_the_root_is_unique_and_in_its_bracket():
    rng, most = np.random.default_rng(0), 0
    for _ in range(1000):
        xi, h, lam, M = random_equation(rng)
        t, evaluations = monotone_root(xi, h, lam.tolist(), M)
        d = M / lam[-1]
        step = 1e-7 * (d + t)
        assert t > -d
        assert excess(t - step, xi, h, lam, M) < 0 < excess(t + step, xi, h, lam, M)
        grid = -d + np.geomspace(1e-6 * (d + t), 1e6 * (d + t), 40)
        signs = np.sign([excess(value, xi, h, lam, M) for value in grid])
        assert np.all(np.diff(signs) >= 0)  # one change, from − to +
        room = 1e-9 * (d + abs(t))
        assert bracket_end(1, xi, h, d) - room <= t <= bracket_end(len(lam), xi, h, d) + room
        most = max(most, evaluations)
    assert most <= 12


def test_the_closed_root_is_the_root_of_one_eigenvalue():
    rng = np.random.default_rng(1)
    for _ in range(300):
        xi, h, lam, _ = random_equation(rng)
        t, _ = monotone_root(xi, h, [float(lam[-1])], 1)
        assert closed_root(xi, h, float(lam[-1])) == pytest.approx(t, rel=1e-9, abs=1e-300)


def test_a_small_root_has_all_its_digits():
    # ξ = D(1 − 1e-12): t is ten orders below d_min, and h d_min is large.
    lam, M, h = np.array([0.5, 1.0, 2.0]), 2, 1e6
    distance = 1.75
    t, _ = monotone_root(distance - 1e-12, h, lam.tolist(), M)
    left = distance - (distance - 1e-12)
    assert t == pytest.approx(left / (h + np.sum((lam / M) ** 2)), rel=1e-9)


def test_without_a_difference_only_the_slack_moves():
    assert monotone_root(0.3, 2.0, [0.0, 0.0, 0.0], 2)[0] == -0.15
    assert closed_root(0.3, 2.0, 0.0) == -0.15


# Many projections


def drift_after(case, n_projections):
    state, rng = state_of(case), np.random.RandomState(0)
    for _ in range(-(-n_projections // len(case.pairs))):
        for visit in module._visits(state, module.ORDERS["permutation"], rng):
            state.project(*visit)
    point = module.dual_point(state.problem, case.y * np.array(state.alpha))
    return state._drift_from(point), abs(state.b0 - point.b0), state.moves


def test_many_projections_do_not_drift():
    # The factors are not rebuilt here as the solver would; c0 = 0.01 keeps the pairs moving.
    case = random_case([(5, 1)], n_pairs=500, n_samples=40, C=10.0, c0=0.01)
    drift, threshold_drift, moves = drift_after(case, 200_000)
    assert moves > 20_000
    assert drift < 2e-12
    assert threshold_drift < 2e-9


@pytest.mark.parametrize("shapes", [[(5, 2)], [(4, 4), (3, 5)]])
def test_matrices_do_not_drift(shapes):
    case = random_case(shapes, n_pairs=200, n_samples=40, C=10.0, c0=0.1)
    drift, _, moves = drift_after(case, 12_000)
    assert moves > 1_200
    assert drift < 3e-13


def test_the_recorded_drift_is_small_where_the_metric_is_ill_conditioned():
    case = random_case([(6, 1)], n_pairs=60, C=1e4, c0=inf)
    scaled = case.arrays[0] * np.geomspace(1e3, 1e-2, 6)[:, None]
    with pytest.warns(ConvergenceWarning):
        found = case.with_(arrays=[scaled]).learn(solver=Dykstra(max_iter=300, random_state=0))
    assert np.linalg.cond(found.W[0]) > 1e6
    assert found.history["drift"].max() < 1e-9


def test_an_epoch_is_a_projection_for_each_pair():
    case = random_case(SHAPES["vectors"], n_pairs=100)
    for order in ORDERS:
        state, rng = state_of(case), np.random.RandomState(0)
        visits = [k for part, _ in module._visits(state, module.ORDERS[order], rng) for k in part]
        assert len(visits) == 100
        assert (sorted(visits) == list(range(100))) == (order != "random")
