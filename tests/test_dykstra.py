"""Stochastic Dykstra: every optimum against two other solvers, and honest about its way there."""

from math import inf

import numpy as np
import pytest
from helpers import SHAPES, dual_of, largest_difference, random_case, random_dual_point
from sklearn.exceptions import ConvergenceWarning

from tatml import Dykstra, Newton
from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim import dykstra as module
from tatml._optim.problem import LogDetProblem
from tatml.losses import BurgLoss
from tatml.solvers import Status

KINDS = ["vectors", "low rank", "wide", "two ragged", "three ragged"]
ORDERS = ["permutation", "random", "cyclic"]


def conic(case):
    """W, b0 and the value, by Clarabel."""
    cp = pytest.importorskip("cvxpy")
    W = [cp.Variable((n, n), PSD=True) for n in case.sizes]
    b0, M = cp.Variable(), len(W)
    D = [
        sum(cp.trace(A[k] @ V) for A, V in zip(case.A, W, strict=True)) / M
        for k in range(len(case.pairs))
    ]
    excess = cp.multiply(case.y, cp.hstack(D) - case.gamma * b0)
    value = cp.sum(cp.multiply(case.cw / 2, cp.square(cp.pos(excess))))
    for V, W0 in zip(W, case.W0, strict=True):
        value += cp.trace(np.linalg.inv(W0) @ V) - cp.log_det(V)
        value += np.linalg.slogdet(W0)[1] - len(W0)
    fixed = case.c0 == inf
    value += 0 if fixed else case.c0 / 2 * cp.square(b0 - case.mu0)
    problem = cp.Problem(cp.Minimize(value), [b0 == case.mu0] if fixed else [])
    problem.solve(solver=cp.CLARABEL)
    return [V.value for V in W], float(b0.value), problem.value


# The optimum


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is compared, not trusted
@pytest.mark.parametrize(
    ("kind", "c0"),
    [
        ("vectors", 0.1),
        ("low rank", 1.0),
        ("wide", inf),
        ("two ragged", 1.0),
        ("three ragged", inf),
    ],
)
def test_newton_dykstra_and_conic_solver_agree(kind, c0):
    case = random_case(SHAPES[kind], c0=c0, C=3.0, weights=True)
    W, b0, value = conic(case)
    newton = case.learn()
    for order in ORDERS:
        found = case.learn(tol=1e-9, solver=Dykstra(order=order, max_iter=20_000, random_state=0))
        assert found.converged
        assert abs(found.primal - value) < 1e-6 * max(1, value)
        assert largest_difference(found.W, W) < 2e-3
        assert abs(found.b0 - b0) < 1e-3
        # (Bound): the gap 1e-9 is worth 5e-5 of a distance, and 2e-4 of b0 at c0 = 0.1.
        assert abs(found.primal - newton.primal) < 1.01e-9 * max(1, value)
        assert largest_difference(found.W, newton.W) < 1e-4
        assert abs(found.b0 - newton.b0) < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_general_prior_is_honoured(kind):
    case = random_case(SHAPES[kind], prior=True)
    newton, found = case.learn(), case.learn(tol=1e-9, solver=Dykstra(max_iter=20_000))
    assert largest_difference(found.W, newton.W) < 1e-4, kind
    assert abs(found.primal - case.primal(found.W, found.b0)) < 1e-9, kind


def test_the_multipliers_are_the_dual_solution():
    case = random_case(SHAPES["two ragged"], C=5.0)
    found = case.learn(solver="dykstra", tol=1e-9)
    s = np.zeros(len(case.pairs))
    s[found.active] = case.y[found.active] * found.multipliers
    W, b0 = case.primal_of(s)
    assert largest_difference(W, found.W) < 1e-12
    assert b0 == pytest.approx(found.b0, abs=1e-12)
    assert case.dual(s) == pytest.approx(found.dual, abs=1e-11)
    assert 0 < found.primal - case.dual(s) < 1.001e-9 * found.primal


@pytest.mark.parametrize("c0", [0.1, inf])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_is_primal_minus_dual_at_any_point(c0, kind):
    case = random_case(SHAPES[kind], c0=c0, weights=True)
    s = random_dual_point(case)
    point = module.dual_point(case.problem(), s)
    W, b0 = case.primal_of(s)
    assert point.primal == pytest.approx(case.primal(W, b0), rel=1e-12), kind
    assert point.gap == pytest.approx(case.primal(W, b0) - case.dual(s), rel=1e-9), kind


# The path


@pytest.mark.parametrize("order", ["permutation", "random"])
def test_the_same_seed_gives_the_same_path(order):
    case = random_case(SHAPES["two ragged"], C=10.0)
    runs = [
        case.learn(tol=1e-3, solver=Dykstra(order=order, random_state=seed)) for seed in (3, 3, 4)
    ]
    for name in ("gap", "primal", "b0", "moves"):
        np.testing.assert_array_equal(runs[0].history[name], runs[1].history[name])
    np.testing.assert_array_equal(runs[0].W[0], runs[1].W[0])
    assert runs[0].history["b0"][1] != runs[2].history["b0"][1]


def test_the_cyclic_order_needs_no_seed():
    case = random_case(SHAPES["low rank"])
    a, b = (case.learn(tol=1e-6, solver=Dykstra(order="cyclic", random_state=i)) for i in range(2))
    np.testing.assert_array_equal(a.history["gap"], b.history["gap"])


def test_the_path_does_not_depend_on_the_chunks():
    problem = random_case(SHAPES["two ragged"], n_pairs=50).problem()
    states, sizes = [], []
    for chunk_bytes in (module.CHUNK_BYTES, 8 * 14 * 3):
        state, rng = module._State(problem, "efficient", np.zeros(50)), np.random.RandomState(0)
        for block in state.blocks:
            block.reset(np.eye(*block.L.shape))
        for _ in range(3):
            sizes.append([])
            visits = module._visits(state, module.ORDERS["permutation"], rng, chunk_bytes)
            for chunk, differences in visits:
                sizes[-1].append(len(chunk))
                state.project(chunk, differences)
        states.append(state)
    whole, parts = states
    assert sizes[0] == [50]
    assert sizes[-1] == [3] * 16 + [2]
    assert whole.alpha == parts.alpha
    assert whole.b0 == parts.b0
    assert (
        largest_difference(*([block.metric() for block in state.blocks] for state in states)) == 0
    )


@pytest.mark.parametrize("n_samples", [8, 80])
def test_the_samples_are_left_alone(n_samples):
    problem = random_case(SHAPES["wide"], n_pairs=40, n_samples=n_samples).problem()
    before = [block.copy() for block in problem.pairs.sums.features.blocks]
    Dykstra().solve(problem, tol=1e-4)
    for block, kept in zip(problem.pairs.sums.features.blocks, before, strict=True):
        np.testing.assert_array_equal(block, kept)


def test_the_dual_never_falls():
    case = random_case(SHAPES["three ragged"], C=10.0, n_pairs=60)
    found = case.learn(tol=1e-5, solver=Dykstra(max_iter=5000))
    dual = found.history["dual"]
    assert np.all(np.diff(dual) >= -1e-10 * np.abs(dual[1:]))
    assert np.all(found.history["gap"] >= 0)


# Honest statuses, and the other solver's manners


def test_a_stalled_run_warns_and_does_not_claim_convergence():
    case = random_case(SHAPES["two ragged"], C=1e4, n_pairs=60)
    with pytest.warns(ConvergenceWarning, match="after 3 iterations"):
        found = case.learn(tol=1e-6, solver=Dykstra(max_iter=3))
    assert not found.converged
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 3
    optimum = case.learn(tol=1e-10).primal
    assert found.gap >= found.primal - optimum - 1e-9 > 0
    assert found.dual <= optimum


def test_the_floor_of_floating_point_is_a_status():
    case = random_case(SHAPES["vectors"])
    with pytest.warns(ConvergenceWarning):
        found = case.learn(tol=1e-300, solver=Dykstra(max_iter=100_000))
    assert found.status is Status.PRECISION
    assert found.gap < 1e-20


@pytest.mark.parametrize("n_pairs", [1, 5])
def test_few_pairs_are_certified_less_often_but_at_the_end(n_pairs):
    case = random_case(SHAPES["vectors"], n_pairs=n_pairs, C=100.0)
    with pytest.warns(ConvergenceWarning):
        found = case.learn(tol=1e-300, solver=Dykstra(max_iter=3))
    assert found.history["iteration"].tolist() == [0, 3]
    assert case.learn(solver="dykstra", tol=1e-8).converged


def test_a_warm_start_resumes_where_it_stopped():
    case = random_case(SHAPES["two ragged"], C=10.0, n_pairs=60)
    with pytest.warns(ConvergenceWarning):
        part = case.learn(tol=1e-4, solver=Dykstra(random_state=0, max_iter=5))
    resumed = case.learn(tol=1e-4, init=part, solver=Dykstra(random_state=0, max_iter=5000))
    assert resumed.history["gap"][0] == pytest.approx(part.gap, rel=1e-7)
    assert part.primal == pytest.approx(part.history["primal"].min(), rel=1e-9)
    again = case.learn(tol=1e-4, init=resumed, solver=Dykstra(random_state=0))
    assert again.n_iter == 0
    assert again.converged


def test_newton_results_and_iterates_start_it_too():
    case = random_case(SHAPES["low rank"], C=10.0, n_pairs=60)
    seen = []
    newton = case.learn(callback=seen.append)
    assert case.learn(tol=1e-8, init=newton, solver=Dykstra(random_state=0)).n_iter == 0
    assert case.learn(tol=1e-8, init=seen[-1], solver=Dykstra(random_state=0)).n_iter == 0
    assert (
        case.learn(tol=1e-5, init=case.learn(tol=1e-6, solver=Dykstra(random_state=0))).n_iter <= 2
    )


def test_a_start_that_does_not_fit_is_no_worse_than_zero():
    case = random_case(SHAPES["low rank"], C=1.0, n_pairs=60)
    other = random_case(SHAPES["low rank"], seed=9, C=1e4, n_pairs=90)
    strange = other.learn(tol=1e-6)
    found = case.learn(tol=1e-4, init=strange, solver=Dykstra(random_state=0))
    assert found.history["dual"][0] >= 0
    assert found.converged


def test_a_callback_stops_it_and_sees_every_certificate():
    case, seen = random_case(SHAPES["vectors"], n_pairs=40), []

    def stop_at_two(iterate):
        seen.append(iterate.n_iter)
        return iterate.n_iter == 2

    with pytest.warns(ConvergenceWarning):
        found = case.learn(solver="dykstra", callback=stop_at_two)
    assert seen == [0, 1, 2]
    assert found.status is Status.STOPPED


def test_an_interrupt_returns_the_best_point(monkeypatch):
    case, calls = random_case(SHAPES["vectors"], n_pairs=40), []
    sweep = module._State.project

    def interrupted(self, *args):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        sweep(self, *args)

    monkeypatch.setattr(module._State, "project", interrupted)
    with pytest.warns(ConvergenceWarning):
        found = case.learn(solver=Dykstra(on_interrupt="return"))
    assert found.status is Status.INTERRUPTED
    assert found.n_iter == 2


def test_verbose_prints_one_line_per_certificate(capsys):
    found = random_case(SHAPES["vectors"], n_pairs=40).learn(
        solver="dykstra", verbose=True, tol=1e-4
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(found.history["gap"])


# Pairs out of the ordinary


@pytest.mark.parametrize("projection", ["efficient", "naive"])
def test_pairs_without_difference_or_weight(projection):
    case = random_case(SHAPES["two ragged"], n_pairs=20, C=10.0)
    arrays = [np.concatenate([array, array[:2]]) for array in case.arrays]
    pairs = np.concatenate([case.pairs, [[0, 8], [1, 9], [0, 1]]])
    similar = np.concatenate([case.similar, [True, False, True]])
    weights = np.concatenate([np.ones(22), [0.0]])
    case = case.with_(arrays=arrays, pairs=pairs, similar=similar, weights=weights)
    newton = case.learn(tol=1e-10)
    found = case.learn(tol=1e-8, solver=Dykstra(projection=projection, max_iter=5000))
    assert largest_difference(found.W, newton.W) < 1e-3
    assert 22 not in found.active
    assert 21 in found.active  # a dissimilar pair at distance zero pulls the threshold down
    assert abs(found.b0 - newton.b0) < 1e-4


# ITML


def itml_problem(n_pairs=40, eta=0.7, c0=inf):
    case = random_case([(4, 1)], n_pairs=n_pairs, n_samples=20)
    chosen = as_pairs(case.pairs, case.similar, 20, None)
    bound = np.where(case.similar, 0.3, 2.5)
    weight = eta * np.random.default_rng(0).uniform(0.5, 2, size=n_pairs)
    loss = BurgLoss(case.y, weight, bound)
    return case, LogDetProblem.build(Blocks(*case.arrays), chosen, loss, c0=c0, mu0=0.0)


def textbook_itml(case, loss, epochs):
    """Davis et al. (2007), algorithm 1, with a slack weight for each pair."""
    A, multiplier, xi = np.eye(4), np.zeros(len(case.pairs)), loss.bound.copy()
    for _ in range(epochs):
        for k, (i, j) in enumerate(case.pairs):
            v = (case.arrays[0][i] - case.arrays[0][j])[:, 0]
            p, y, g = v @ A @ v, case.y[k], loss.weight[k]
            a = min(multiplier[k], y * g / (g + 1) * (1 / p - 1 / xi[k]))
            beta = y * a / (1 - y * a * p)
            xi[k] = g * xi[k] / (g + y * a * xi[k])
            multiplier[k] -= a
            A = A + beta * np.outer(A @ v, A @ v)
    return A, multiplier


@pytest.mark.parametrize("c0", [1.0, inf])
def test_itml_is_its_textbook_algorithm(c0):
    case, problem = itml_problem(c0=c0)
    found = Dykstra(order="cyclic", max_iter=3).solve(problem, tol=1e-13)
    assert not found.converged
    A, multiplier = textbook_itml(case, problem.pairs.loss, 3)
    assert len(found.active) > 5
    np.testing.assert_allclose(found.W[0], A, atol=1e-10)
    np.testing.assert_allclose(found.multipliers, multiplier[found.active], atol=1e-10)


def test_itml_reaches_newtons_optimum_with_a_valid_gap():
    _, problem = itml_problem()
    newton = Newton().solve(problem, tol=1e-12)
    found = Dykstra(max_iter=5000, random_state=0).solve(problem, tol=1e-9)
    assert largest_difference(found.W, newton.W) < 1e-4
    suboptimality = found.history["primal"] - newton.primal
    assert np.all(found.history["gap"] >= suboptimality - 1e-9)
    assert suboptimality[0] > 0.1
    s = np.zeros(problem.pairs.sums.n_pairs)
    s[found.active] = problem.pairs.loss.sign[found.active] * found.multipliers
    assert dual_of(problem, s) == pytest.approx(found.dual, abs=1e-10)


def test_itml_resumes():
    _, problem = itml_problem()
    newton = Newton().solve(problem, tol=1e-10)
    assert Dykstra().solve(problem, tol=1e-8, init=newton).n_iter == 0


def test_itml_is_for_vectors():
    _, problem = itml_problem()
    with pytest.raises(ValueError, match="vectors"):
        Dykstra(projection="naive").solve(problem)


# Refusals


def test_an_invalid_start_is_refused():
    case = random_case(SHAPES["vectors"])
    with pytest.raises(TypeError, match="init"):
        case.learn(solver="dykstra", init="here")
    with pytest.raises(ValueError, match="init"):
        case.learn(solver="dykstra", init=random_case([(3, 1)]).learn())


def test_the_value_of_a_start_is_the_dual_function():
    """A start whose value is below g(0) = 0 is not taken."""
    case = random_case(SHAPES["two ragged"], c0=0.3, C=3.0)
    problem = case.problem()
    best = Newton().solve(problem, tol=1e-10)
    s = problem.at(best.L, best.b0).pairs.evaluation.s
    assert module._dual_value(problem, 0.0 * s) == pytest.approx(0.0, abs=1e-12)
    assert module._dual_value(problem, s) == pytest.approx(best.primal, rel=1e-6)
    for share in (0.3, 2.0, 5.0):  # g is concave, with its maximum at the multipliers
        value = module._dual_value(problem, share * s)
        assert value == pytest.approx(dual_of(problem, share * s), rel=1e-9)
        assert value < best.primal
