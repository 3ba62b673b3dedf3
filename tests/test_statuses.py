"""No solver claims more than it has: overflow, precision, interrupts, and what it returns then."""

import dataclasses
from math import inf, nan

import numpy as np
import oracle
import pytest
from helpers import SHAPES, random_case, solver_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from tatml import Blocks, Dykstra, Newton, Status, learn_metric
from tatml._optim import newton as newton_module
from tatml._optim.monitor import FoundPoint, Monitor
from tatml._optim.result import is_converged
from tatml.losses import SquaredHinge

# The stopping rule


def test_what_is_not_finite_is_not_converged():
    for primal in (inf, nan):
        for gap in (0.0, 1.0, inf, nan):
            assert not is_converged(gap, primal, 1e-6)
    for gap in (inf, nan):
        assert not is_converged(gap, 1.0, 1e-6)


def certified(case, gap, **changes):
    point = {"L": case.eyes, "b0": 1.0, "primal": 5.0, "slope": np.zeros(len(case.pairs))}
    return FoundPoint(**point | {"gap": gap, "n_active": 1} | changes)


def test_of_equal_objectives_the_smallest_finite_gap_is_returned():
    case = random_case(SHAPES["vectors"])
    for gaps, best in (
        ([nan, 3.0, 4.0], 1),
        ([inf, 3.0, 4.0], 1),
        ([3.0, nan, 4.0], 0),
        ([3.0, inf, 4.0], 0),
        ([3.0, 4.0, 2.0], 2),
    ):
        monitor = Monitor(case.problem(), tol=1e-6, max_iter=9)
        for n_iter, gap in enumerate(gaps):
            assert monitor.record(n_iter, certified(case, gap, b0=float(n_iter))) is None
        assert monitor.result(Status.MAX_ITER).b0 == best, gaps


def test_the_lowest_objective_is_returned_whatever_its_gap():
    case = random_case(SHAPES["vectors"])
    lowest = case.problem().at(case.eyes, 1.0).primal
    factors = [[scale * block for block in case.eyes] for scale in (2.0, 1.0, 3.0)]
    for gaps in ([1.0, 50.0, 2.0], [1.0, inf, 2.0], [1.0, nan, 2.0]):
        monitor = Monitor(case.problem(), tol=1e-6, max_iter=9)
        for n_iter, (gap, L) in enumerate(zip(gaps, factors, strict=True)):
            primal = case.problem().at(L, 1.0).primal
            assert primal >= lowest
            assert monitor.record(n_iter, certified(case, gap, L=L, primal=primal)) is None
        result = monitor.result(Status.MAX_ITER)
        assert result.primal == pytest.approx(lowest), gaps
        assert result.dual == pytest.approx(result.primal - result.gap, abs=1e-6)
        assert 0 <= result.gap <= lowest * (1 + 1e-6)  # its own; the dual value 0 is always known


def test_newton_returns_the_lowest_objective_where_it_fails():
    """Seed 356 visits F = 10,092 and ends elsewhere."""
    result = oracle.random_problem(356).learn()
    assert not result.converged
    assert result.primal == pytest.approx(result.history["primal"].min(), rel=1e-9)
    assert result.primal < 0.2 * result.history["primal"][-1]


def test_a_start_without_an_objective_overflows():
    case = random_case(SHAPES["vectors"])
    for primal in (nan, inf):
        monitor = Monitor(case.problem(), tol=1e-6, max_iter=9)
        with pytest.raises(OverflowError, match="not finite"):
            monitor.record(0, certified(case, 1.0, primal=primal))


@pytest.mark.parametrize("kind", ["vectors", "two ragged", "three ragged"])
def test_newton_ends_at_the_floor_of_floating_point(kind):
    """The gap is the square of a residual: easy problems reach 1e-30, and none 1e-40."""
    case = random_case(SHAPES[kind], n_pairs=40)
    with pytest.warns(ConvergenceWarning, match="precision allows no further progress"):
        result = case.learn(tol=1e-40, solver=Newton(max_iter=200))
    assert result.status is Status.PRECISION
    assert result.n_iter < 30
    assert 0 < result.gap < 1e-25


# Drawn with replacement


@pytest.mark.parametrize("c0", [1.0, inf])
def test_a_pair_that_an_epoch_misses_is_not_the_end(c0):
    """One pair in a hundred is violated, and 37 epochs in a hundred do not draw it."""
    X = np.array([[0.0, 0.0], [0.1, 0.0], [2.0, 1.0]])
    pairs, missed = np.array([[0, 1]] * 99 + [[0, 2]]), 0
    for seed in range(30):
        result = learn_metric(
            X,
            pairs,
            np.ones(100, dtype=bool),
            c0=c0,
            tol=1e-10,
            solver=Dykstra(order="random", random_state=seed),
        )
        assert result.status is Status.CONVERGED
        missed += result.history["moves"][1] == 0
    assert missed > 5


# Interrupted before the first step


def interrupted_after(n_records):
    """A monitor for the rehearsal, whose user presses Ctrl-C."""

    class Interrupted(Monitor):
        def record(self, n_iter, point, **extra):
            if n_iter == n_records:
                raise KeyboardInterrupt
            return super().record(n_iter, point, **extra)

    return Interrupted


@pytest.fixture
def rehearsed():
    """More pairs than are solved without a rehearsal."""
    return random_case(SHAPES["vectors"], n_pairs=80_001, n_samples=40, C=1e-3, prior=True)


def value(case, W, b0):
    """F, without the loops of `Case`, which are slow for so many pairs."""
    return case.at(W, b0).primal


def test_an_interrupted_rehearsal_returns_what_it_found(rehearsed, monkeypatch):
    case, seen = rehearsed, []
    monkeypatch.setattr(newton_module, "Monitor", interrupted_after(3))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = case.learn(
            callback=seen.append, solver=Newton(random_state=0, on_interrupt="return")
        )
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 0
    assert_allclose(result.primal, value(case, result.W, result.b0), rtol=1e-9)
    assert result.primal < 0.5 * value(case, case.W0, case.mu0)
    optimum = case.learn(init=result).primal
    assert result.gap >= result.primal - optimum > 0


def test_an_interrupt_before_any_point_returns_the_prior(rehearsed, monkeypatch):
    case, seen, optimum = rehearsed, [], rehearsed.learn(solver=Newton(random_state=0)).primal
    monkeypatch.setattr(newton_module, "Monitor", interrupted_after(0))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = case.learn(
            callback=seen.append, solver=Newton(random_state=0, on_interrupt="return")
        )
    assert result.status is Status.INTERRUPTED
    assert seen == []
    assert result.b0 == case.mu0
    for W, W0 in zip(result.W, case.W0, strict=True):
        assert_allclose(W, W0, rtol=1e-12)
    assert_allclose(result.primal, value(case, case.W0, case.mu0), rtol=1e-9)
    assert 0 < result.primal - optimum <= result.gap <= result.primal


def test_an_interrupted_rehearsal_raises_unless_asked_otherwise(rehearsed, monkeypatch):
    monkeypatch.setattr(newton_module, "Monitor", interrupted_after(2))
    with pytest.raises(KeyboardInterrupt):
        rehearsed.learn(solver=Newton(random_state=0))


# What comes back


def test_results_and_iterates_compare_by_identity():
    case, seen = random_case(SHAPES["two ragged"]), []
    result = case.learn(callback=seen.append)
    for one in (result, seen[0]):
        other = dataclasses.replace(one)
        assert (one == one, one == other, one != other) == (True, False, True)
        assert one in [other, one]


@pytest.mark.parametrize("solver", ["newton", "dykstra"])
def test_float32_samples_give_the_float64_solution_of_their_numbers(solver):
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=10.0)
    single = [array.astype(np.float32) for array in case.arrays]
    options = {"solver": solver_of(solver, random_state=0), "tol": 1e-4, "C": case.C}
    assert Blocks(*single).dtype == np.float32
    found, expected = (
        learn_metric(Blocks(*arrays), case.pairs, case.similar, **options)
        for arrays in (single, [array.astype(np.float64) for array in single])
    )
    assert found.converged
    assert (found.b0, found.primal) == (expected.b0, expected.primal)
    for W, V in zip(found.W, expected.W, strict=True):
        assert W.dtype == np.float64
        assert_array_equal(W, V)


def test_dykstra_refuses_a_loss_without_a_projection():
    class Other(SquaredHinge):
        pass

    problem = random_case(SHAPES["vectors"]).problem()
    problem = problem.with_loss(Other(**vars(problem.pairs.loss)), problem.c0)
    message = "solver: 'dykstra' needs .*SquaredHinge or BurgLoss, got Other"
    with pytest.raises(TypeError, match=message):
        Dykstra().solve(problem)


def test_a_monitor_without_points_has_no_result():
    monitor = Monitor(random_case(SHAPES["vectors"]).problem(), tol=1e-6, max_iter=9)
    for call in (lambda: monitor.found, lambda: monitor.result(Status.MAX_ITER)):
        with pytest.raises(RuntimeError, match="no point was recorded"):
            call()
    with pytest.raises(RuntimeError, match="no point was certified"):
        monitor.result(Status.CONVERGED)
