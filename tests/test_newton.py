"""Solver "newton": it reaches the certified optimum, in few steps, wherever doubles allow it."""

from itertools import product
from math import inf, sqrt

import numpy as np
import pytest
from helpers import (
    SHAPES,
    SYSTEMS,
    dataset_case,
    factors_of,
    limited,
    metric_of,
    random_case,
    random_dual_point,
    random_matrices,
    random_point,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tatml import Newton, Status
from tatml._optim import newton as newton_module
from tatml._optim.dual_newton import can_finish_in_dual, finish_in_dual
from tatml._optim.monitor import Monitor


def assert_optimal(case, result, tol=1e-8):
    """The result is certified, by the library and by loops: F − g(s) at its own multipliers."""
    assert result.converged
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, case.primal(result.W, result.b0), rtol=1e-9, atol=1e-12)
    s = np.zeros(len(case.pairs))
    s[result.active] = result.multipliers * case.y[result.active]
    gap = case.primal(result.W, result.b0) - case.dual(s)
    assert abs(gap) <= 2 * tol * max(1, result.primal)


# The promise: a relative gap of 1e-8 in at most 40 steps


@pytest.mark.parametrize(
    ("name", "n_pairs"),
    [*product(["wine", "breast_cancer", "digits"], [50, 500]), ("wine", 3_000)],
)
def test_forty_steps_are_enough(name, n_pairs):
    case = dataset_case(name, n_pairs)
    failures = []
    for C in (1e-6, 1e-2, 1.0, 1e2, 1e4):
        for c0 in (0.01, 1.0, 0.1 * C * n_pairs, C * n_pairs, inf):
            with threadpool_limits(1):  # with more, a busy machine is ten times slower
                result = case.with_(C=C, c0=c0).learn(tol=1e-8, solver=Newton(max_iter=100))
            if result.n_iter > 40 or not result.converged:
                failures.append((C, c0, result.n_iter, result.gap))
    assert failures == []


@pytest.mark.parametrize("linear_solver", SYSTEMS)
def test_every_linear_solver_reaches_the_same_optimum(linear_solver):
    case = random_case(SHAPES["two ragged"], n_pairs=80, C=10.0, prior=True)
    expected, result = case.learn(), case.learn(solver=Newton(linear_solver=linear_solver))
    assert_optimal(case, result, tol=1e-12)
    assert set(result.history["linear"][1:]) == {linear_solver}
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-5, atol=1e-6)


# Odd data


def without_difference(case):
    """Some pairs compare equal samples."""
    arrays = [array.copy() for array in case.arrays]
    for array in arrays:
        array[1] = array[0]
    pairs = np.concatenate([case.pairs, [[0, 1], [1, 0]]])
    return case.with_(arrays=arrays, pairs=pairs, similar=np.append(case.similar, [True, False]))


def repeated(case):
    return case.with_(pairs=np.tile(case.pairs, (5, 1)), similar=np.tile(case.similar, 5))


def in_a_line(case):
    """All samples on one line: every A is the same matrix of rank one, up to a factor."""
    line = [np.ones((1, *array.shape[1:])) * array[:, :1, :1] for array in case.arrays]
    return case.with_(arrays=line)


def only(similar):
    return lambda case: case.with_(similar=np.full(len(case.pairs), similar))


def labelled_twice(case):
    """Each pair is called similar and dissimilar."""
    both = case.with_(pairs=np.tile(case.pairs, (2, 1)))
    return both.with_(similar=np.append(case.similar, ~case.similar))


ODD = {
    "one similar pair": lambda case: only(True)(case.with_(pairs=case.pairs[:1])),
    "one dissimilar pair": lambda case: only(False)(case.with_(pairs=case.pairs[:1])),
    "only similar": only(True),
    "only dissimilar": only(False),
    "labelled twice": labelled_twice,
    "no difference": without_difference,
    "repeated": repeated,
    "in a line": in_a_line,
}


@pytest.mark.parametrize("linear_solver", ["auto", *SYSTEMS])
@pytest.mark.parametrize("c0", [0.1, 1.0, inf])
@pytest.mark.parametrize("kind", ODD)
def test_odd_pairs_are_solved(kind, c0, linear_solver):
    for C in (1e-2, 1.0, 1e3):
        case = ODD[kind](random_case(SHAPES["two ragged"], C=C, c0=c0))
        result = case.learn(tol=1e-8, solver=Newton(linear_solver=linear_solver))
        assert_optimal(case, result)


def test_similar_pairs_of_equal_samples_change_nothing():
    case = random_case(SHAPES["low rank"]).with_(pairs=np.array([[0, 1]]), similar=np.array([True]))
    case = case.with_(arrays=[0 * array + 1.0 for array in case.arrays])
    result = case.learn()
    assert_allclose(result.W[0], np.eye(5), rtol=1e-12)
    assert_allclose(result.b0, 1.0, rtol=1e-12)
    assert result.primal <= 1e-20
    assert len(result.active) == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_data_in_any_units_are_solved(shape, scale):
    for C in (1e-4, 1.0, 1e4):
        for c0 in (1.0, inf):
            case = random_case(SHAPES[shape], n_pairs=40, C=C, c0=c0)
            case = case.with_(arrays=[scale * array for array in case.arrays])
            result = case.learn(tol=1e-8)
            assert_optimal(case, result)
            assert result.n_iter <= 40


# Honest about what it did not reach


@pytest.mark.parametrize("tol", [1e-8, 1e-30])
def test_a_status_never_claims_more_than_the_gap(tol):
    seen = set()
    for C in (1e-6, 1.0, 1e6, 1e12):
        for c0 in (1e-8, 1.0, inf):
            for kind in (None, True, False):
                case = random_case([(5, 1)], n_pairs=30, C=C, c0=c0)
                case = case if kind is None else only(kind)(case)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("tatml._learn_metric.warn_unless_converged", lambda result: None)
                    result = case.learn(tol=tol, solver=Newton(max_iter=60))
                seen.add(result.status)
                assert result.converged == (result.gap <= tol * max(1, result.primal))
                assert result.converged == (result.status is Status.CONVERGED)
                assert result.gap > 0
                assert_allclose(result.primal, case.primal(result.W, result.b0), rtol=1e-6)
                assert result.dual <= case.primal(case.W0, case.mu0) * (1 + 1e-12)
    assert (Status.PRECISION in seen) == (tol < 1e-20)  # 1e-8 can be proved even for C = 1e12


def test_precision_is_reported_with_a_warning():
    case = random_case([(5, 1)], n_pairs=30, C=1e12, c0=1e-8)
    case = only(True)(case)
    with pytest.warns(ConvergenceWarning, match="precision allows no further progress"):
        result = case.learn(tol=1e-16)
    assert result.status is Status.PRECISION
    assert not result.converged


def test_the_best_point_is_returned_not_the_last():
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=1e6, c0=inf)
    with pytest.warns(ConvergenceWarning):
        result = case.learn(tol=1e-30, solver=Newton(max_iter=30))
    assert result.status is Status.PRECISION  # it bounced at the floor, and says so early
    assert result.n_iter < 30
    best = np.argmin(result.history["gap"])
    assert best < result.n_iter
    assert_allclose(result.primal, result.history["primal"][best], rtol=1e-9)


# The start


def test_the_rehearsal_on_a_sample_does_not_change_the_optimum(monkeypatch):
    case = random_case(SHAPES["two ragged"], n_pairs=3_000, n_samples=60, C=1e-2, weights=True)
    expected = case.learn(tol=1e-10, solver=Newton(random_state=0))
    monkeypatch.setattr(newton_module, "SAMPLE", 300)
    starts = set()
    for seed in range(3):
        result = case.learn(tol=1e-10, solver=Newton(random_state=seed))
        starts.add(result.history["primal"][0])
        assert result.history["gap"][0] < 0.1 * expected.history["gap"][0]
        assert_allclose(result.primal, expected.primal, rtol=1e-9)
        assert_allclose(result.b0, expected.b0, rtol=1e-4)
        for got, W in zip(result.W, expected.W, strict=True):
            assert_allclose(got, W, rtol=1e-3, atol=1e-4)
    assert len(starts) == 3


def test_the_sample_is_weighted_like_the_whole(monkeypatch):
    """With a lost factor K / K_sample the rehearsal would solve another problem."""
    case = random_case(SHAPES["square"], n_pairs=4_000, n_samples=100, C=1e-3)
    optimum = case.learn().primal
    monkeypatch.setattr(newton_module, "SAMPLE", 900)
    first = case.learn(solver=Newton(random_state=0)).history["primal"][0]
    assert first - optimum < 0.05 * optimum


def test_a_sampled_hessian_does_not_change_the_optimum():
    case = random_case(SHAPES["two ragged"], n_pairs=3_000, n_samples=60, C=1e-2, weights=True)
    expected = case.learn(tol=1e-10, solver=Newton(linear_solver="dense"))
    problem = limited(case.problem(), pairs_per_dimension=10)
    result = Newton(linear_solver="dense", random_state=0).solve(problem, tol=1e-10)
    assert result.history["gap"][1] != expected.history["gap"][1]
    assert result.n_iter <= 40
    assert_allclose(result.primal, expected.primal, rtol=1e-9)
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-3, atol=1e-4)


# The damped step


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("c0", [0.1, inf])
@pytest.mark.parametrize("linear_solver", SYSTEMS)
def test_a_damped_step_descends(shape, c0, linear_solver):
    case = random_case(SHAPES[shape], n_pairs=30, C=20.0, c0=c0, weights=True, prior=True)
    for seed in range(5):
        point = case.at(*random_point(case, seed))
        reached, Q, step = newton_module._damped_step(point, linear_solver)
        assert step.kind == "damped"
        before, after = (case.primal(metric_of(point.problem, p.L), p.b0) for p in (point, reached))
        assert after < before
        assert len(Q) == len(reached.L)
        assert min(Q) >= 1  # τ of P = τ W⁻¹, which covers I + S
        largest = max(float(np.max(np.abs(1 + e))) for e in reached.eigenvalues)
        assert_allclose(Q, max(1.0, largest), rtol=1e-12)


@pytest.mark.parametrize("C", [1e-3, 5.0])
@pytest.mark.parametrize("c0", [0.1, inf])
def test_the_exact_search_minimises_along_the_direction(c0, C):
    """(LS): the t found is the best of F(W + tV, b0 + t δb), computed by loops."""
    case = random_case(SHAPES["two ragged"], n_pairs=30, C=C, c0=c0, weights=True, prior=True)
    scale = 1.0 if c0 == inf else sqrt(c0)
    for seed in range(8):
        W, b0 = random_point(case, seed)
        point, noise = case.at(W, b0), random_matrices(case, seed)
        V = [v / 10 - G for v, G in zip(noise, point.gradient, strict=True)]
        b = -point.threshold_slope
        T = [C @ L for C, L in zip(point.problem.prior_factors, point.L, strict=True)]
        boundary = 1 / max(1e-9, *(-np.linalg.eigvalsh(v)[0] for v in V))

        def value(t, W=W, b0=b0, T=T, V=V, b=b):
            moved = [w + t * f @ v @ f.T for w, f, v in zip(W, T, V, strict=True)]
            return case.primal(moved, b0 + t * b / scale)

        length = newton_module._exact_search(point, (V, b))
        found = minimize_scalar(value, bounds=(0, 0.98 * boundary), method="bounded")
        assert 0 < length < boundary
        assert value(length) <= found.fun + 1e-4 * (value(0) - found.fun)


def test_the_search_refuses_to_ascend():
    case = random_case(SHAPES["square"])
    point = case.at(*random_point(case))
    uphill = [G.copy() for G in point.gradient], point.threshold_slope
    assert newton_module._exact_search(point, uphill) == 0


@pytest.mark.parametrize("c0", [1.0, inf])
def test_damped_steps_alone_converge(monkeypatch, c0):
    monkeypatch.setattr(newton_module, "_primal_dual_step", lambda *args: None)
    case = random_case(SHAPES["two ragged"], C=5.0, c0=c0, prior=True)
    result = case.learn(tol=1e-10)
    assert_optimal(case, result, tol=1e-10)
    assert set(result.history["kind"][1:]) == {"damped"}
    assert np.all(np.diff(result.history["primal"]) <= 1e-12)


def test_damped_steps_take_over_when_the_gap_stalls(monkeypatch):
    """A primal-dual step that leads nowhere must not keep the solver from the optimum."""
    monkeypatch.setattr(
        newton_module,
        "_primal_dual_step",
        lambda point, Q, *rest: (point, Q, newton_module.Step("primal-dual", 0.0)),
    )
    case = random_case(SHAPES["square"], C=5.0)
    result = case.learn(tol=1e-8)
    assert_optimal(case, result)
    assert "damped" in result.history["kind"]


def test_the_solver_starts_where_it_is_told():
    case = random_case(SHAPES["two ragged"], C=5.0, prior=True)
    W, b0 = random_point(case)
    problem = case.problem()
    monitor = Monitor(problem, tol=1e-10, max_iter=50)
    result = newton_module.newton(problem, monitor, start=(factors_of(problem, W), b0))
    assert result.history["b0"][0] == b0
    assert_allclose(result.history["primal"][0], case.primal(W, b0), rtol=1e-10)
    assert_optimal(case, result, tol=1e-10)


def test_the_same_seed_gives_the_same_result_bit_by_bit(monkeypatch):
    monkeypatch.setattr(newton_module, "SAMPLE", 40)
    case = random_case(SHAPES["two ragged"], n_pairs=200, C=10.0, prior=True)
    one, two = (
        case.learn(solver=Newton(random_state=3)),
        case.learn(solver=Newton(random_state=np.random.RandomState(3))),
    )
    assert one.b0 == two.b0
    assert one.gap == two.gap
    for first, second in zip(one.W, two.W, strict=True):
        assert_array_equal(first, second)
    for name in set(one.history) - {"seconds"}:
        assert_array_equal(one.history[name], two.history[name])


def test_optimal_multipliers_beat_others():
    case = random_case(SHAPES["three ragged"], C=5.0, weights=True, prior=True)
    result = case.learn()
    for seed in range(20):
        assert case.dual(random_dual_point(case, seed)) < result.dual
        assert case.primal(*random_point(case, seed)) > result.primal


# The last resort


@pytest.mark.parametrize("c0", [0.3, inf])
@pytest.mark.parametrize("name", SHAPES)
def test_polished_multipliers_certify_half_the_squared_newton_step(name, c0):
    """theory (Polish): ½⟨step, H step⟩ = −½⟨gradient, step⟩, and never below F − min F."""
    case = random_case(SHAPES[name], n_pairs=40, C=50.0, c0=c0)
    best = case.learn(tol=1e-12)
    W = [(1 + 1e-4) * matrix for matrix in best.W]  # near the solution, on known sides of all kinks
    point = case.at(W, best.b0)
    direction = newton_module._newton_direction(point)
    V, b = direction
    slope = sum(np.sum(G * block) for G, block in zip(point.gradient, V, strict=True))
    decrement = -(slope + point.threshold_slope * b)
    polished = newton_module._polished(point, direction)
    assert_allclose(polished.gap, decrement / 2, rtol=0.01)
    assert polished.gap < point.gap
    s = polished.slope
    assert np.all(case.y * s >= 0)
    assert_allclose(polished.gap, case.primal(W, best.b0) - case.dual(s), rtol=1e-4)


@pytest.mark.parametrize("c0", [0.3, inf])
@pytest.mark.parametrize("name", SHAPES)
def test_newton_on_the_dual_solves_ordinary_problems_too(name, c0):
    case = random_case(SHAPES[name], n_pairs=40, C=10.0, c0=c0, prior=True, weights=True)
    expected, problem = case.learn(), case.problem()
    monitor = Monitor(problem, tol=1e-10, max_iter=60)
    monitor.record(0, problem.at(problem.identity(), case.mu0), **vars(newton_module.Step("start")))
    status = finish_in_dual(problem, monitor, vars(newton_module.Step("dual")))
    assert status is Status.CONVERGED
    result = monitor.result(status)
    dual = result.history["dual"][1:]
    assert np.all(np.diff(dual) >= -1e-12 * np.abs(dual[1:]))
    assert_allclose(result.primal, expected.primal, rtol=1e-9)
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-3, atol=1e-4)
    assert result.n_iter < 40


def test_newton_on_the_dual_leaves_many_pairs_alone():
    case = random_case(SHAPES["vectors"])
    assert can_finish_in_dual(case.problem(), 1_000)
    assert not can_finish_in_dual(case.problem(), 1_001)


def test_stale_steps_end_in_the_last_resort(monkeypatch):
    """Where primal-dual steps never help, the last resort does, and the history says so."""
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=1e3)

    def no_step(point, Q, linear_solver, rng, pace):
        return point, Q, newton_module.Step("primal-dual", 0.0)

    monkeypatch.setattr(newton_module, "_primal_dual_step", no_step)
    monkeypatch.setattr(newton_module, "PATIENCE", 1)
    monkeypatch.setattr(newton_module, "MOST_RESCUES", 1)
    result = case.learn(tol=1e-9)
    assert result.status is Status.CONVERGED
    assert {"polished", "dual"} & set(result.history["kind"])
