"""Solver "newton": it reaches the certified optimum, in few steps, wherever doubles allow it."""

from itertools import product
from math import inf, nan, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import (
    SHAPES,
    dataset_case,
    factors_of,
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
from tatml._optim import damped_newton
from tatml._optim import newton as newton_module
from tatml._optim.dual_newton import can_finish_in_dual, finish_in_dual
from tatml._optim.linear_systems import SYSTEMS
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
    ("name", "n_pairs"), [("wine", 50), ("breast_cancer", 500), ("digits", 500), ("wine", 3_000)]
)
def test_forty_steps_are_enough(name, n_pairs):
    case = dataset_case(name, n_pairs)
    failures = []
    for C in (1e-6, 1e-2, 1.0, 1e2, 1e4):
        for c0 in (0.01, 1.0, 0.1 * C * n_pairs, inf):
            with threadpool_limits(1):  # with more, a busy machine is ten times slower
                result = case.with_(C=C, c0=c0).learn(tol=1e-8, solver=Newton(max_iter=100))
            if result.n_iter > 40 or not result.converged:
                failures.append((C, c0, result.n_iter, result.gap))
    assert failures == []


def test_every_linear_solver_reaches_the_same_optimum():
    case = random_case(SHAPES["two ragged"], n_pairs=80, C=10.0, prior=True)
    expected = case.learn()
    for linear_solver in SYSTEMS:
        result = case.learn(solver=Newton(linear_solver=linear_solver))
        assert_optimal(case, result, tol=1e-12)
        assert set(result.history["linear"][1:]) == {linear_solver}
        for got, W in zip(result.W, expected.W, strict=True):
            assert_allclose(got, W, rtol=1e-5, atol=1e-6, err_msg=linear_solver)


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


@pytest.mark.parametrize("kind", ODD)
def test_odd_pairs_are_solved(kind):
    for C, c0 in product((1e-2, 1e3), (0.1, 1.0, inf)):
        case = ODD[kind](random_case(SHAPES["two ragged"], C=C, c0=c0))
        for linear_solver in ("auto", *SYSTEMS):
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
def test_data_in_any_units_are_solved(shape):
    for C, c0, scale in product((1e-4, 1e4), (1.0, inf), (1e-6, 1e-3, 1e3, 1e6)):
        case = random_case(SHAPES[shape], n_pairs=40, C=C, c0=c0)
        case = case.with_(arrays=[scale * array for array in case.arrays])
        result = case.learn(tol=1e-8)
        assert_optimal(case, result)
        assert result.n_iter <= 40, (C, c0, scale)


# Honest about what it did not reach


@pytest.mark.parametrize("tol", [1e-8, 1e-30])
def test_a_status_never_claims_more_than_the_gap(tol):
    seen = set()
    for C, c0, kind in product((1e-6, 1.0, 1e12), (1e-8, 1.0, inf), (None, True, False)):
        case = random_case([(5, 1)], n_pairs=30, C=C, c0=c0)
        case = case if kind is None else only(kind)(case)
        result = Newton(max_iter=60).solve(case.problem(), tol=tol)
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


def rehearsed_case(**options):
    """More pairs than are solved without a rehearsal."""
    return random_case(SHAPES["vectors"], n_pairs=80_001, n_samples=60, C=1e-3, **options)


def solve(problem, tol=1e-10, **options):
    """Newton's method without its object; it draws nothing unless it gets a source of numbers."""
    monitor = Monitor(problem, tol=tol, max_iter=50)
    return newton_module.solve_newton(problem, monitor, **options)


def test_the_rehearsal_on_a_sample_does_not_change_the_optimum():
    problem = rehearsed_case(weights=True).problem()
    expected = solve(problem)
    starts = set()
    for seed in range(3):
        result = solve(problem, random_state=np.random.RandomState(seed))
        starts.add(result.history["primal"][0])
        assert result.history["gap"][0] < 0.1 * expected.history["gap"][0]
        assert_allclose(result.primal, expected.primal, rtol=1e-9)
        assert_allclose(result.b0, expected.b0, rtol=1e-4)
        assert_allclose(result.W[0], expected.W[0], rtol=1e-3, atol=1e-4)
        # With a lost factor K / K_sample the rehearsal would solve another problem.
        assert result.history["primal"][0] < 1.05 * expected.primal
    assert len(starts) == 3


def test_the_rehearsal_is_announced(capsys):
    case = rehearsed_case()
    for n_pairs, rehearsed in ((80_001, True), (80_000, False)):
        few = case.with_(pairs=case.pairs[:n_pairs], similar=case.similar[:n_pairs])
        few.learn(tol=1e-6, verbose=True, solver=Newton(random_state=0))
        lines = capsys.readouterr().out.splitlines()
        assert (lines[0] == "Rehearsal on 20,000 of 80,001 pairs.") is rehearsed
        assert ("All 80,001 pairs." in lines) is rehearsed


def test_a_sampled_hessian_does_not_change_the_optimum():
    """A sample of 500 pairs per dimension, of which there are four, if twice as many are active."""
    problem = random_case([(2, 1)], n_pairs=12_000, n_samples=60, C=1e-2, weights=True).problem()
    expected = solve(problem, linear_solver="dense")
    assert expected.history["n_active"][0] > 2 * 500 * 4
    result = solve(problem, linear_solver="dense", random_state=np.random.RandomState(0))
    assert result.history["gap"][1] != expected.history["gap"][1]
    assert result.n_iter <= 40
    assert_allclose(result.primal, expected.primal, rtol=1e-9)
    assert_allclose(result.W[0], expected.W[0], rtol=1e-3, atol=1e-4)


# The damped step


@pytest.mark.parametrize("linear_solver", SYSTEMS)
def test_a_damped_step_descends(linear_solver):
    for shape, c0, seed in product(SHAPES, (0.1, inf), range(2)):
        case = random_case(SHAPES[shape], n_pairs=30, C=20.0, c0=c0, weights=True, prior=True)
        point = case.at(*random_point(case, seed))
        reached, Q, step = newton_module._damped_step(point, linear_solver)
        assert step.kind == "damped"
        before, after = (case.primal(metric_of(point.problem, p.L), p.b0) for p in (point, reached))
        assert after < before
        assert len(Q) == len(reached.L)
        assert min(Q) >= 1  # τ of P = τ W⁻¹, which covers I + S
        largest = max(float(np.max(np.abs(1 + e))) for e in reached.eigenvalues)
        assert_allclose(Q, max(1.0, largest), rtol=1e-12)


@pytest.mark.parametrize(("C", "c0"), [(1e-3, 0.1), (5.0, 0.1), (5.0, inf)])
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

        length = damped_newton.exact_length(point, (V, b))
        found = minimize_scalar(value, bounds=(0, 0.98 * boundary), method="bounded")
        assert 0 < length < boundary
        assert value(length) <= found.fun + 1e-4 * (value(0) - found.fun)


def test_the_search_refuses_to_ascend():
    case = random_case(SHAPES["square"])
    point = case.at(*random_point(case))
    uphill = [G.copy() for G in point.gradient], point.threshold_slope
    assert damped_newton.exact_length(point, uphill) == 0


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
    assert damped_newton.exact_length(rounded_line(), direction) > 0
    for broken in (
        {"increase": lambda t: 1.0},
        {"increase": lambda t: nan},
        {"slope": lambda t: nan},
    ):
        assert damped_newton.exact_length(rounded_line(**broken), direction) == 0


@pytest.mark.parametrize("c0", [1.0, inf])
def test_damped_steps_alone_converge(monkeypatch, c0):
    monkeypatch.setattr(newton_module, "_primal_dual_step", lambda *args: None)
    case = random_case(SHAPES["two ragged"], C=5.0, c0=c0, prior=True)
    result = case.learn(tol=1e-10)
    assert_optimal(case, result, tol=1e-10)
    assert set(result.history["kind"][1:]) == {"damped"}
    assert np.all(np.diff(result.history["primal"]) <= 1e-12)


# The safeguards of a primal-dual step


def primal_dual_step(point, linear_solver="dense", Q=None):
    Q = newton_module._central(point) if Q is None else Q
    return newton_module._primal_dual_step(point, Q, linear_solver, None, newton_module._Pace())


def before_a_short_step():
    """A point and its Q from which the boundary stops the next step."""
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1e6, c0=inf)
    problem = case.with_(arrays=[1e-3 * array for array in case.arrays]).problem()
    point, Q, _ = primal_dual_step(problem.at(*newton_module._scaled_prior(problem)))
    return point, Q


def test_a_step_that_is_stopped_short_moves_w_back_and_centres_p():
    point, Q = before_a_short_step()
    reached, Q, step = primal_dual_step(point, Q=Q)
    assert step.length < newton_module.SHORTEST
    assert step.tau > 1
    values = np.linalg.eigvalsh(reached.L[0] @ reached.L[0].T)
    assert values[0] >= 0.99 * newton_module.ROOM * values[-1]
    assert newton_module._central(reached) == Q
    assert Q[0] >= 1 + max(reached.eigenvalues[0])  # P = τ W⁻¹ covers I + S


def test_a_long_step_leaves_w_and_p_where_it_led():
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0)
    point = case.at(*random_point(case))
    reached, Q, step = primal_dual_step(point)
    assert step.length > newton_module.SHORTEST
    assert [factor.shape for factor in Q] == [factor.shape for factor in reached.L]


def test_a_direction_solves_the_linearised_equations():
    """ΔW + ΔP = τ/λ − λ − E, and P + ΔP = I + S to first order, theory (NT)."""
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0, prior=True)
    point = case.at(*random_point(case))
    _, Q, _ = primal_dual_step(point)
    scaling = [
        newton_module.Scaling.of(*block) for block in zip(point.L, Q, point.gradient, strict=True)
    ]
    right = [block.right for block in scaling]
    E, tau = random_matrices(case, 5), 1.7
    for name in SYSTEMS:
        system = newton_module.newton_system(point, right, name)
        dW, dP, db = newton_module._direction(point, scaling, system, 1e-12, tau, E)
        image, part = point.products(right).product(dW, db)
        assert_allclose(db + part, -point.threshold_slope, atol=1e-8)
        for m, block in enumerate(scaling):
            goal = np.diag(tau / block.lam - block.lam) - E[m]
            assert_allclose(dW[m] + dP[m], goal, atol=1e-12, err_msg=name)
            assert_allclose(np.diag(block.lam) + dP[m], block.target + image[m], atol=1e-7)


def test_near_the_solution_the_centre_is_one():
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0)
    best = case.learn(tol=1e-6)
    _, _, step = primal_dual_step(case.at(best.W, best.b0))
    assert (step.tau, step.length) == (1.0, 1.0)


def test_conjugate_gradients_take_the_inverse_of_w_where_it_is_close():
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0)
    best = case.learn(tol=1e-3)
    near, far = case.at(best.W, best.b0), case.at([50 * W for W in best.W], best.b0)
    assert primal_dual_step(near, "cg")[1] == [1.0, 1.0]
    for point, name in ((near, "dense"), (far, "cg")):
        assert [np.ndim(factor) for factor in primal_dual_step(point, name)[1]] == [2, 2]


def test_a_step_without_a_factorisation_or_an_objective_is_none(monkeypatch):
    point, _ = before_a_short_step()

    def fails(*args):
        raise np.linalg.LinAlgError

    for module in (newton_module, damped_newton):
        with monkeypatch.context() as patch:
            patch.setattr(module, "newton_system", fails)
            assert (primal_dual_step(point) is None) == (module is newton_module)
            damped = newton_module._damped_step(point, "auto")
            assert (damped is None) == (module is damped_newton)
            accurate = damped_newton.accurate_direction(point)
            assert (accurate is None) == (module is damped_newton)
    far = SimpleNamespace(primal=inf, gap=inf, L=point.L, b0=point.b0)
    monkeypatch.setattr(newton_module, "_advance", lambda *args: (far, []))
    monkeypatch.setattr(newton_module, "_step_length", lambda *args: 1.0)
    assert primal_dual_step(point) is None


# The pace


def test_the_pace_notes_what_the_last_steps_achieved():
    pace, step = newton_module._Pace(), newton_module.Step("primal-dual", products=7)
    gaps = [1.0, 1e-4, 0.9e-4, 0.8e-4, 0.9e-4, 0.8e-4]
    seen = []
    for gap in gaps:
        pace.note(SimpleNamespace(gap=gap, primal=1.0), step)
        seen.append((pace.stale, pace.slow, pace.best_gap))
    assert seen == [
        (0, False, 1.0),
        (0, False, 1e-4),
        (0, True, 0.9e-4),
        (0, True, 0.8e-4),
        (1, True, 0.8e-4),
        (2, True, 0.8e-4),
    ]
    assert not pace.at_floor
    assert pace.forcing == pytest.approx(0.03 * 0.01)
    pace.note(SimpleNamespace(gap=1.0, primal=1.0), newton_module.Step("damped", products=90))
    assert (pace.stale, pace.products) == (0, 90)
    for gap in (1e-15, 1e-15, 1e-15):
        pace.note(SimpleNamespace(gap=gap, primal=1.0), step)
    assert pace.at_floor


def test_the_rescue_is_the_better_conditioned_system():
    """After three steps without progress, and only where the linear solver is "auto"."""
    few, many = (random_case(SHAPES["square"], n_pairs=n, C=5.0) for n in (4, 40))
    stale = newton_module._Pace(stale=3)
    for case, expected in ((few, "woodbury"), (many, "dense")):
        point = case.at(*random_point(case))
        assert stale.system_for(point, "auto") == expected
        assert stale.system_for(point, "cg") == "cg"
        assert newton_module._Pace(stale=2).system_for(point, "auto") == "auto"
    large = random_case([(45, 1)], n_pairs=4)  # 1036 dimensions
    assert stale.system_for(large.at(*random_point(large)), "auto") == "auto"


def stay(point, Q, *rest):
    """A primal-dual step that leads nowhere."""
    return point, Q, newton_module.Step("primal-dual", 0.0)


def test_damped_steps_take_over_when_the_gap_stalls(monkeypatch):
    """First all pairs are used, then the rescue, then a damped step is taken."""
    case, calls = random_case(SHAPES["square"], n_pairs=40, C=5.0), []

    def recorded(point, Q, linear_solver, rng, pace):
        calls.append((linear_solver, rng is not None))
        return stay(point, Q)

    monkeypatch.setattr(newton_module, "_primal_dual_step", recorded)
    result = case.learn(tol=1e-8, solver=Newton(random_state=0))
    assert_optimal(case, result)
    assert calls[:8] == [("auto", True)] * 2 + [("auto", False)] + [("dense", False)] * 5
    assert result.history["kind"].tolist()[:10] == ["start", *["primal-dual"] * 8, "damped"]


def test_stale_steps_end_in_the_last_resort(monkeypatch):
    """Where primal-dual steps never help, the eighth rescue is the last resort, tried once."""
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=1e10)
    resorts, last_resort = [], newton_module._last_resort

    def counted(*args):
        resorts.append(None)
        return last_resort(*args)

    monkeypatch.setattr(newton_module, "_primal_dual_step", stay)
    monkeypatch.setattr(newton_module, "_last_resort", counted)
    result = case.learn(tol=1e-9)
    assert result.status is Status.CONVERGED
    kinds = result.history["kind"].tolist()
    assert kinds.count("damped") == 7  # the eighth is not taken
    assert {"polished", "dual"} & set(kinds)
    assert len(resorts) == 1


def test_a_last_resort_that_fails_is_not_tried_again(monkeypatch):
    case, resorts = random_case(SHAPES["two ragged"], n_pairs=60, C=1e6, c0=inf), []

    def fails(problem, monitor):
        resorts.append(None)
        return Status.PRECISION, problem.at(monitor.found.L, monitor.found.b0)

    monkeypatch.setattr(newton_module, "_primal_dual_step", stay)
    monkeypatch.setattr(newton_module, "_last_resort", fails)
    result = Newton(max_iter=120).solve(case.problem(), tol=1e-9)
    assert result.history["kind"].tolist().count("damped") > 8  # it goes on by damped steps
    assert len(resorts) == 1
    monkeypatch.setattr(newton_module, "_damped_step", lambda *args: None)
    assert Newton().solve(case.problem(), tol=1e-9).status is Status.PRECISION
    assert len(resorts) == 2


# Where it starts, and what it finds


def test_the_solver_starts_where_it_is_told():
    case = random_case(SHAPES["two ragged"], C=5.0, prior=True)
    W, b0 = random_point(case)
    problem = case.problem()
    result = solve(problem, start=(factors_of(problem, W), b0))
    assert result.history["b0"][0] == b0
    assert_allclose(result.history["primal"][0], case.primal(W, b0), rtol=1e-10)
    assert_optimal(case, result, tol=1e-10)


def test_the_same_seed_gives_the_same_result_bit_by_bit():
    case = rehearsed_case()
    one, two = (
        case.learn(tol=1e-6, solver=Newton(random_state=3)),
        case.learn(tol=1e-6, solver=Newton(random_state=np.random.RandomState(3))),
    )
    assert (one.b0, one.gap) == (two.b0, two.gap)
    assert_array_equal(one.W[0], two.W[0])
    for name in set(one.history) - {"seconds"}:
        assert_array_equal(one.history[name], two.history[name])


def test_optimal_multipliers_beat_others():
    case = random_case(SHAPES["three ragged"], C=5.0, weights=True, prior=True)
    result = case.learn()
    for seed in range(20):
        assert case.dual(random_dual_point(case, seed)) < result.dual
        assert case.primal(*random_point(case, seed)) > result.primal


# The last resort


@pytest.mark.parametrize(
    ("name", "c0"), [("vectors", 0.3), ("two ragged", 0.3), ("two ragged", inf), ("wide", inf)]
)
def test_polished_multipliers_certify_half_the_squared_newton_step(name, c0):
    """theory (Polish): ½⟨step, H step⟩ = −½⟨gradient, step⟩, and never below F − min F."""
    case = random_case(SHAPES[name], n_pairs=40, C=50.0, c0=c0)
    best = case.learn(tol=1e-12)
    W = [(1 + 1e-4) * matrix for matrix in best.W]  # near the solution, on known sides of all kinks
    point = case.at(W, best.b0)
    direction = damped_newton.accurate_direction(point)
    V, b = direction
    slope = sum(np.sum(G * block) for G, block in zip(point.gradient, V, strict=True))
    decrement = -(slope + point.threshold_slope * b)
    polished = damped_newton.predict_multipliers(point, direction)
    assert_allclose(polished.gap, decrement / 2, rtol=0.01)
    assert polished.gap < point.gap
    s = polished.slope
    assert np.all(case.y * s >= 0)
    assert_allclose(polished.gap, case.primal(W, best.b0) - case.dual(s), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "c0"), [("vectors", inf), ("low rank", 0.3), ("wide", inf), ("three ragged", 0.3)]
)
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
