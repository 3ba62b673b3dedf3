"""Newton's method on the dual, which ends stiff problems, solves ordinary ones too."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose

from tatml import Status
from tatml._optim import newton as newton_module
from tatml._optim.dual_newton import MOST_PAIRS, _point, finish_in_dual
from tatml._optim.monitor import FoundPoint, Monitor
from tatml._optim.sums import PairSums


@pytest.mark.parametrize(
    ("name", "c0"), [("vectors", inf), ("low rank", 0.3), ("wide", inf), ("three ragged", 0.3)]
)
def test_newton_on_the_dual_solves_ordinary_problems_too(name, c0):
    case = random_case(SHAPES[name], n_pairs=40, C=10.0, c0=c0, prior=True, weights=True)
    case.weights[:3] = 0.0  # such pairs keep a multiplier of zero
    expected, problem = case.learn(), case.problem()
    monitor = Monitor(problem, tol=1e-10, max_iter=60)
    monitor.record(0, problem.at(problem.identity(), case.mu0), **vars(newton_module.Step("start")))
    status = finish_in_dual(problem, monitor)
    assert status is Status.CONVERGED
    result = monitor.result(status)
    dual = result.history["dual"][1:]
    assert np.all(np.diff(dual) >= -1e-12 * np.abs(dual[1:]))
    assert_allclose(result.primal, expected.primal, rtol=1e-9)
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-3, atol=1e-4)
    assert result.n_iter < 40


def test_newton_on_the_dual_leaves_many_pairs_alone():
    """It needs a matrix with one row per active pair, and takes no step where that is too large."""
    case = random_case(SHAPES["vectors"], C=10.0)
    problem = case.problem()
    start = problem.at(problem.identity(), case.mu0)
    for n_active, steps in ((MOST_PAIRS, True), (MOST_PAIRS + 1, False)):
        monitor = Monitor(problem, tol=1e-10, max_iter=60)
        monitor.best = replace(FoundPoint.copy_of(start), n_active=n_active)
        status = finish_in_dual(problem, monitor)
        assert (status is Status.CONVERGED) == steps
        assert (len(monitor.records) > 0) == steps


def test_centring_ends_where_rounding_keeps_it_from_its_goal(monkeypatch):
    """The differences are equal and the large multipliers cancel, but for rounding errors."""
    X = np.random.default_rng(0).normal(size=(12, 4))
    X[1::2] = X[::2] + np.array([1.0, 0.3, -0.7, 0.2])
    case = random_case(SHAPES["vectors"], n_pairs=6, n_samples=12, C=1e14)
    pairs, similar = np.arange(12).reshape(6, 2), np.repeat([True, False], 3)
    problem, passes = case.with_(arrays=[X], pairs=pairs, similar=similar).problem(), []
    transformed = PairSums.transformed
    monkeypatch.setattr(
        PairSums, "transformed", lambda *args: passes.append(args) or transformed(*args)
    )
    alpha = np.array([1 / 3, 1 / 7, 11 / 21, 0.2, 0.3, 0.5])
    for scale, most in ((1.0, 1), (1e12, 3)):
        passes.clear()
        _point(problem, scale * alpha, problem.identity())
        assert 1 <= len(passes) <= most
