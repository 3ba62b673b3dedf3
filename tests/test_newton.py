"""Solver "newton": it reaches the certified optimum, in few steps, wherever doubles allow it."""

import cProfile
import pstats
from itertools import product
from math import inf

import numpy as np
import pytest
from helpers import (
    SHAPES,
    SYSTEMS,
    dataset_case,
    factors_of,
    random_case,
    random_dual_point,
    random_point,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tatml import Newton, Status
from tatml._optim import newton as newton_module
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
        products = result.history["products"]
        assert (products[0], np.all(products[1:] > 0)) == (0, linear_solver == "cg")
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
@pytest.mark.parametrize(("C", "c0"), list(product((1e-2, 1e3), (0.1, 1.0, inf))))
def test_odd_pairs_are_solved(kind, C, c0):
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
@pytest.mark.parametrize(
    ("C", "c0", "scale"), list(product((1e-4, 1e4), (1.0, inf), (1e-6, 1e-3, 1e3, 1e6)))
)
def test_data_in_any_units_are_solved(shape, C, c0, scale):
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


def solve(problem, tol=1e-10, start=None, **options):
    """Newton's method without its object; it draws nothing unless it gets a source of numbers."""
    monitor = Monitor(problem, tol=tol, max_iter=50)
    return newton_module.solve_newton(problem, monitor, newton_module.Pace(**options), start)


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


def test_after_a_rehearsal_w_is_moved_away_from_the_boundary(monkeypatch):
    """By the share d/size of its norm, so that it can turn by the error of the sample."""
    problem, starts = rehearsed_case().problem(), []
    backed_off = newton_module.backed_off

    def recorded(L, share):
        starts.append((share, backed_off(L, share)))
        return starts[-1][1]

    monkeypatch.setattr(newton_module, "backed_off", recorded)
    result = solve(problem, random_state=np.random.RandomState(0))
    (share, L), *_ = starts
    assert share == 11 / 20_000
    assert result.history["primal"][0] == problem.at(L, result.history["b0"][0]).primal


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


# Damped steps


@pytest.mark.parametrize("c0", [1.0, inf])
def test_damped_steps_alone_converge(monkeypatch, c0):
    monkeypatch.setattr(newton_module, "primal_dual_step", lambda *args: None)
    case = random_case(SHAPES["two ragged"], C=5.0, c0=c0, prior=True)
    result = case.learn(tol=1e-10)
    assert_optimal(case, result, tol=1e-10)
    assert set(result.history["kind"][1:]) == {"damped"}
    assert np.all(np.diff(result.history["primal"]) <= 1e-12)


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


def test_a_small_fit_makes_few_calls():
    """Most fits are small, and their time is that of Python's calls: 1,420 per step here."""
    case = random_case([(9, 9), (9, 9)], n_pairs=50, n_samples=200, C=10.0)
    case.learn()  # fills the caches
    profile = cProfile.Profile()
    profile.enable()
    result = case.learn()
    profile.disable()
    per_step = pstats.Stats(profile).total_calls / (result.n_iter + 1)
    assert result.converged
    assert per_step < 1_800
