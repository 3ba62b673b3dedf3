"""Steps that model the losses and keep the LogDet term exact."""

from math import inf, sqrt

import numpy as np
import pytest
from helpers import SHAPES, random_case, random_point
from numpy.testing import assert_allclose

from tatml import Newton
from tatml._optim import loss_model, steps
from tatml._optim import newton as newton_module
from tatml._optim.steps import Pace

MANY = {"n_pairs": 20_000, "n_samples": 60}


def model_of(point):
    return loss_model._model_at(point, None)


@pytest.mark.parametrize("c0", [2.0, inf])
def test_the_model_has_the_derivatives_of_the_objective(c0):
    """F and the model agree to the third order in a small step from the point, theory (Model)."""
    case = random_case(SHAPES["two ragged"], n_pairs=200, C=0.5, c0=c0, prior=True)
    point = case.at(*random_point(case))
    model, rng = model_of(point), np.random.default_rng(0)
    start = model.at(model.identity(), model.mu0)
    assert start.primal == pytest.approx(0.0, abs=1e-12)
    assert_allclose(start.threshold_slope, point.threshold_slope, rtol=1e-12)
    for found, expected in zip(start.gradient, point.gradient, strict=True):
        assert_allclose(found, expected, atol=1e-12)
    errors = []
    for size in (1e-3, 5e-4):
        C = [np.eye(n) + size * np.tril(rng.standard_normal((n, n))) for n in model.sizes]
        b0 = point.b0 + (0.0 if c0 == inf else size)
        reached = case.problem().at([L @ c for L, c in zip(point.L, C, strict=True)], b0)
        change = model.at(C, b0).primal
        errors.append(abs(reached.primal - point.primal - change) / abs(change))
        rng = np.random.default_rng(0)
    assert errors[0] < 1e-3
    assert errors[1] < 0.35 * errors[0] + 1e-9  # third order of the change over its first order


@pytest.mark.parametrize("c0", [2.0, inf])
def test_one_step_solves_a_problem_whose_active_pairs_stay_the_same(c0):
    """Then the losses are quadratic, and the model is F itself; a primal-dual step is not enough.

    Similar pairs with a margin of nearly zero stay active.
    """
    case = random_case(SHAPES["two ragged"], n_pairs=60, C=3.0, c0=c0, margin=(1e-9, 2.0))
    case = case.with_(similar=np.ones(60, dtype=bool))
    point = case.problem().at(case.problem().identity(), 1.0)
    reached, _, step = loss_model.model_step(point, None)
    assert step.kind == "model"
    assert reached.n_active == point.n_active == 60
    usual = steps.primal_dual_step(point, steps.central(point), "dense", None, Pace())
    assert reached.gap < 1e-8 * max(1.0, reached.primal)
    assert usual[0].gap > 1e3 * reached.gap


def test_a_model_whose_minimum_is_no_better_is_not_followed(monkeypatch):
    case = random_case(SHAPES["vectors"], C=50.0)
    point = case.at(*random_point(case))
    assert loss_model.model_step(point, None) is not None
    flat = loss_model.QuadraticTerm

    def without_curvature(G, slope, H, b0, c0):
        return flat(G, slope, 0 * H, b0, c0)

    monkeypatch.setattr(loss_model, "QuadraticTerm", without_curvature)
    assert loss_model.model_step(point, None) is None

    def fails(*args):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(loss_model, "_model_at", fails)
    assert loss_model.model_step(point, None) is None


def test_the_model_is_used_where_passes_over_the_pairs_take_long():
    """From 100 pairs per dimension on, of which there are eleven."""
    few, enough, many = (
        random_case(SHAPES["vectors"], n_pairs=n, n_samples=60, C=1e-3)
        for n in (1_099, 1_100, 20_000)
    )
    for case, expected in ((few, "primal-dual"), (enough, "model"), (many, "model")):
        result = case.learn(tol=1e-6)
        assert result.history["kind"][1] == expected
    point = many.problem().at(many.problem().identity(), 1.0)
    for way, expected in (("dense", True), ("cg", False), ("woodbury", False)):
        assert loss_model.is_worth_modelling(point, way) is expected
    satisfied = many.with_(similar=np.ones(20_000, dtype=bool)).problem()
    satisfied = satisfied.at([1e-9 * eye for eye in satisfied.identity()], 1.0)
    assert satisfied.n_active == 0
    assert not loss_model.is_worth_modelling(satisfied, "dense")


def test_steps_with_and_without_the_model_have_the_same_solution(monkeypatch):
    for c0, C in ((0.5, 1e-3), (inf, 1.0)):
        case = random_case(SHAPES["two ragged"], C=C, c0=c0, weights=True, prior=True, **MANY)
        found = case.learn(tol=1e-12)
        assert "model" in found.history["kind"]
        with monkeypatch.context() as patch:
            patch.setattr(newton_module, "is_worth_modelling", lambda *args: False)
            expected = case.learn(tol=1e-12)
        assert set(expected.history["kind"][1:]) == {"primal-dual"}
        assert found.n_iter <= expected.n_iter + 1
        assert_allclose(found.primal, expected.primal, rtol=1e-11)
        for W, other in zip(found.W, expected.W, strict=True):
            assert_allclose(W, other, atol=1e-5 * sqrt(found.primal) * np.abs(other).max())


def test_a_failed_model_leaves_the_rest_to_primal_dual_steps(monkeypatch):
    case, calls = random_case(SHAPES["vectors"], C=1e-3, **MANY), []

    def never(point, rng):
        calls.append(None)

    monkeypatch.setattr(newton_module, "model_step", never)
    result = case.learn(tol=1e-8, solver=Newton())
    assert len(calls) == 1
    assert result.converged
    assert set(result.history["kind"][1:]) == {"primal-dual"}
    pace = Pace(stale=1, best_gap=1.0)
    pace.update(case.problem().at(case.problem().identity(), 1.0), newton_module.Step("model"))
    assert (pace.stale, pace.models) == (2, False)


def test_large_models_are_not_minimised_for_points_on_a_gpu(monkeypatch):
    """The host would take longer than a pass over the pairs."""
    for n, expected in ((30, True), (32, False)):  # of 466 and 529 dimensions
        problem = random_case([(n, 1)], n_pairs=60_000, n_samples=60).problem()
        point = problem.at(problem.identity(), 1.0)
        assert loss_model.is_worth_modelling(point, "dense")
        with monkeypatch.context() as patch:
            patch.setattr(loss_model, "on_gpu", lambda array: True)
            assert loss_model.is_worth_modelling(point, "dense") is expected
