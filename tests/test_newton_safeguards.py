"""The safeguards of solver "newton": each is the answer to one way in which a step can fail."""

from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import (
    SHAPES,
    SYSTEMS,
    random_case,
    random_matrices,
    random_point,
)
from numpy.testing import assert_allclose

from tatml import Newton, Status
from tatml._optim import linear_systems, steps
from tatml._optim import newton as newton_module

# The safeguards of a primal-dual step


def primal_dual_step(point, linear_solver="dense", Q=None):
    Q = steps.central(point) if Q is None else Q
    return steps.primal_dual_step(point, Q, linear_solver, None, newton_module.Pace())


def before_a_short_step():
    """A point and its Q from which the boundary stops the next step."""
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1e6, c0=inf)
    problem = case.with_(arrays=[1e-3 * array for array in case.arrays]).problem()
    point, Q, _ = primal_dual_step(
        problem.at(*newton_module._first_guess(problem, None, newton_module.Pace()))
    )
    return point, Q


def test_a_step_that_is_stopped_short_moves_w_back_and_centres_p(monkeypatch):
    point, before = before_a_short_step()
    reached, Q, step = primal_dual_step(point, Q=before)
    assert step.length < steps.CUT_SHORT
    assert step.tau > 1
    monkeypatch.setattr(steps, "backed_off", lambda L, share: list(L))
    W, stopped = (L @ L.T for L in (reached.L[0], primal_dual_step(point, Q=before)[0].L[0]))
    room = steps.ROOM * np.linalg.norm(stopped, 2)
    assert_allclose(W, stopped + room * np.eye(len(W)), atol=1e-9 * room)
    assert steps.central(reached) == Q
    assert Q[0] >= 1 + max(reached.eigenvalues[0])  # P = τ W⁻¹ covers I + S


def test_a_long_step_leaves_w_and_p_where_it_led():
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0)
    point = case.at(*random_point(case))
    reached, Q, step = primal_dual_step(point)
    assert step.length > steps.CUT_SHORT
    assert [factor.shape for factor in Q] == [factor.shape for factor in reached.L]


def test_a_direction_solves_the_linearised_equations():
    """ΔW + ΔP = τ/λ − λ − E, and P + ΔP = I + S to first order, theory (NT)."""
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0, prior=True)
    point = case.at(*random_point(case))
    _, Q, _ = primal_dual_step(point)
    scaling = [steps.Scaling.of(*block) for block in zip(point.L, Q, point.gradient, strict=True)]
    right = [block.right for block in scaling]
    E, tau = random_matrices(case, 5), 1.7
    for name in SYSTEMS:
        system = steps.newton_system(point, right, name)
        dW, dP, db = steps._direction(point, scaling, system, 1e-12, tau, E)
        image, part = point.products(right).product(dW, db)
        assert_allclose(db + part, -point.threshold_slope, atol=1e-8)
        for m, block in enumerate(scaling):
            goal = np.diag(tau / block.lam - block.lam) - E[m]
            assert_allclose(dW[m] + dP[m], goal, atol=1e-12, err_msg=name)
            assert_allclose(np.diag(block.lam) + dP[m], block.target + image[m], atol=1e-7)


def test_the_corrector_makes_up_for_the_second_order_of_the_predictor(monkeypatch):
    case, calls = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0), []
    direction = steps._direction

    def recorded(point, scaling, system, forcing, tau, E, check=True):
        calls.append((scaling, tau, E, direction(point, scaling, system, forcing, tau, E, check)))
        return calls[-1][-1]

    monkeypatch.setattr(steps, "_direction", recorded)
    _, _, step = primal_dual_step(case.at(*random_point(case)))
    (scaling, first_tau, zero, (dW, dP, _)), (_, tau, E, _) = calls
    assert (first_tau, zero, tau) == (1.0, [0.0, 0.0], step.tau)
    for m, block in enumerate(scaling):
        product = dW[m] @ dP[m] + dP[m] @ dW[m]
        for i, j in np.ndindex(product.shape):
            assert E[m][i, j] == pytest.approx(product[i, j] / (block.lam[i] + block.lam[j]))


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

    with monkeypatch.context() as patch:
        patch.setattr(steps, "newton_system", fails)
        assert primal_dual_step(point) is None
        assert steps.damped_step(point, "auto") is None
    far = SimpleNamespace(primal=inf, gap=inf, L=point.L, b0=point.b0)
    monkeypatch.setattr(steps, "_advance", lambda *args: (far, []))
    monkeypatch.setattr(steps, "_step_length", lambda *args: 1.0)
    assert primal_dual_step(point) is None


# The pace


def test_the_pace_notes_what_the_last_steps_achieved():
    pace, step = newton_module.Pace(), newton_module.Step("primal-dual", products=7)
    gaps = [1.0, 1e-4, 0.9e-4, 0.8e-4, 0.9e-4, 0.8e-4]
    seen = []
    for gap in gaps:
        pace.update(SimpleNamespace(gap=gap, primal=1.0), step)
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
    pace.update(SimpleNamespace(gap=1.0, primal=1.0), newton_module.Step("damped", products=90))
    assert (pace.stale, pace.products) == (0, 90)
    for gap in (1e-15, 1e-15, 1e-15):
        pace.update(SimpleNamespace(gap=gap, primal=1.0), step)
    assert pace.at_floor


def test_the_rescue_is_the_better_conditioned_system():
    """After three steps without progress, and only where the linear solver is "auto"."""
    few, many = (random_case(SHAPES["square"], n_pairs=n, C=5.0) for n in (4, 40))
    stale = newton_module.Pace("auto", stale=3)
    for case, expected in ((few, "woodbury"), (many, "dense")):
        point = case.at(*random_point(case))
        assert stale.system_at(point) == expected
        assert newton_module.Pace("cg", stale=3).system_at(point) == "cg"
        fastest = linear_systems.fastest_system(point, False, linear_systems.FIRST_PRODUCTS)
        assert newton_module.Pace("auto", stale=2).system_at(point) == fastest
    large = random_case([(45, 1)], n_pairs=4)  # 1036 dimensions
    assert stale.system_at(large.at(*random_point(large))) == "woodbury"  # the fastest
    for n_active, expected in ((1_000, "woodbury"), (1_001, "auto")):
        point = SimpleNamespace(n_active=n_active, problem=large.problem())
        assert linear_systems.most_accurate(point) == expected


def stay(point, Q, *rest):
    """A primal-dual step that leads nowhere."""
    return point, Q, newton_module.Step("primal-dual", 0.0)


def test_damped_steps_take_over_when_the_gap_stalls(monkeypatch):
    """First all pairs are used, then the rescue, then a damped step is taken."""
    case, calls = random_case(SHAPES["square"], n_pairs=40, C=5.0), []

    def recorded(point, Q, linear_solver, rng, pace):
        calls.append((linear_solver, rng is not None))
        return stay(point, Q)

    monkeypatch.setattr(newton_module, "primal_dual_step", recorded)
    result = case.learn(tol=1e-8, solver=Newton(random_state=0))
    assert result.status is Status.CONVERGED
    assert calls[:8] == [("dense", True)] * 2 + [("dense", False)] * 6
    assert result.history["kind"].tolist()[:10] == ["start", *["primal-dual"] * 8, "damped"]


def test_stale_steps_end_in_newton_on_the_dual(monkeypatch):
    """Where primal-dual steps never help, it is tried at the eighth damped step, and once."""
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=1e10)
    tried, finish_in_dual = [], newton_module.finish_in_dual

    def counted(*args):
        tried.append(None)
        return finish_in_dual(*args)

    monkeypatch.setattr(newton_module, "primal_dual_step", stay)
    monkeypatch.setattr(newton_module, "finish_in_dual", counted)
    result = case.learn(tol=1e-9)
    assert result.status is Status.CONVERGED
    kinds = result.history["kind"].tolist()
    assert kinds.count("damped") == 7  # the eighth is not taken
    assert kinds[-1] == "dual"
    assert len(tried) == 1


def test_a_dual_that_fails_leaves_the_rest_to_damped_steps(monkeypatch):
    case, tried = random_case(SHAPES["two ragged"], n_pairs=60, C=1e6, c0=inf), []

    def fails(*args):
        tried.append(None)
        return Status.PRECISION

    monkeypatch.setattr(newton_module, "primal_dual_step", stay)
    monkeypatch.setattr(newton_module, "finish_in_dual", fails)
    result = Newton(max_iter=120).solve(case.problem(), tol=1e-9)
    assert result.history["kind"].tolist().count("damped") > 8
    assert len(tried) == 1
    monkeypatch.setattr(newton_module, "damped_step", lambda *args: None)
    assert Newton().solve(case.problem(), tol=1e-9).status is Status.PRECISION
    assert len(tried) == 2
