"""`learn_metric`: what it refuses, what it returns, and how it is watched and interrupted."""

import dataclasses
import re
import warnings
from math import inf

import numpy as np
import pytest
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from tatml import Blocks, Compute, Newton, Status, learn_metric
from tatml.solvers import Iterate


def arguments(**changes):
    case = random_case(SHAPES["two ragged"], C=5.0)
    return {"X": case.blocks, "pairs": case.pairs, "similar": case.similar} | changes


@pytest.fixture
def case():
    return random_case(SHAPES["two ragged"], n_pairs=40, C=20.0, prior=True, weights=True)


# What comes back


@pytest.mark.parametrize("c0", [0.3, inf])
def test_the_primal_solution_follows_from_the_multipliers(case, c0):
    """W = (W0⁻¹ + S(s))⁻¹ and b0 = μ0 + γᵀs / c0, (Map)."""
    case = case.with_(c0=c0)
    result = case.learn()
    assert np.all(result.multipliers > 0)
    assert_array_equal(result.active, np.unique(result.active))
    s = np.zeros(len(case.pairs))
    s[result.active] = result.multipliers * case.y[result.active]
    W, b0 = case.primal_of(s)
    assert_allclose(result.b0, b0, rtol=1e-6)
    for got, expected in zip(result.W, W, strict=True):
        assert_allclose(got, expected, rtol=1e-5, atol=1e-7)
    assert_array_equal(result.active, np.flatnonzero(case.violation(result.W, result.b0)))


def test_the_matrices_are_symmetric_and_positive_definite(case):
    result = case.learn()
    assert len(result.W) == 2
    for W in result.W:
        assert_array_equal(W, W.T)
        assert np.linalg.eigvalsh(W)[0] > 0


def test_the_history_holds_every_named_field(case):
    result = case.learn()
    names = {"iteration", "primal", "dual", "gap", "b0", "n_active", "seconds"}
    assert names <= set(result.history)
    assert {array.shape for array in result.history.values()} == {(result.n_iter + 1,)}
    assert_array_equal(result.history["iteration"], np.arange(result.n_iter + 1))
    primal, dual, gap = (result.history[name] for name in ("primal", "dual", "gap"))
    assert_allclose(primal - dual, gap, atol=1e-12 * primal.max())
    assert np.all(gap >= 0)
    assert np.all(dual <= result.primal * (1 + 1e-12))
    assert np.all(np.diff(result.history["seconds"]) >= 0)
    best = np.argmin(gap)
    assert result.b0 == result.history["b0"][best]
    assert_allclose(result.primal, primal[best], rtol=1e-12)
    assert gap[best] <= result.gap <= 1e-20  # with its rounding error
    assert result.history["n_active"][best] == len(result.active)


def test_converged_is_the_stopping_rule_and_nothing_else(case):
    result = case.learn()
    tol = 2.0**-20  # so that the products below are exact
    for primal, goal in [(0.5, tol), (1.0, tol), (100.0, 100 * tol)]:  # absolute where F is small
        for gap, expected in [(goal, True), (1.001 * goal, False)]:
            for status in Status:
                changes = {"gap": gap, "primal": primal, "tol": tol, "status": status}
                changed = dataclasses.replace(result, **changes)
                assert changed.converged is expected


def test_float32_raises_a_tolerance_that_it_could_not_certify(case):
    single = Compute(dtype="float32")
    for tol, used in ((1e-9, 1e-5), (1e-3, 1e-3)):
        assert case.learn(tol=tol, compute=single).tol == used
        assert case.learn(tol=tol).tol == tol


def test_every_status_is_a_word_and_a_sentence():
    assert {str(status) for status in Status} == {
        "converged",
        "max_iter",
        "precision",
        "stopped",
        "interrupted",
    }
    for status in Status:
        assert re.fullmatch(r"[A-Z].*\.", status.value)


def test_one_block_is_the_same_as_an_array():
    case = random_case([(3, 2)])
    expected = learn_metric(Blocks(case.arrays[0]), case.pairs, case.similar)
    for X in (case.arrays[0], case.arrays[0].tolist(), [*case.arrays[0]]):
        result = learn_metric(X, case.pairs.tolist(), case.similar.tolist())
        assert_array_equal(result.W[0], expected.W[0])
        assert result.b0 == expected.b0


def test_a_vector_is_a_matrix_of_one_column():
    case = random_case([(3, 1)])
    expected = learn_metric(case.arrays[0], case.pairs, case.similar)
    result = learn_metric(case.arrays[0][:, :, 0], case.pairs, case.similar)
    assert_array_equal(result.W[0], expected.W[0])


def test_one_prior_matrix_will_do_for_one_block():
    case = random_case([(3, 2)], prior=True)
    expected, result = case.learn(), case.with_(prior=case.prior[0]).learn()
    assert_array_equal(result.W[0], expected.W[0])


def test_the_prior_none_is_the_identity(case):
    plain = case.with_(prior=None)
    expected, result = plain.learn(), plain.with_(prior=plain.eyes).learn()
    assert_allclose(result.primal, expected.primal, rtol=1e-12)
    for got, W in zip(result.W, expected.W, strict=True):
        assert_allclose(got, W, rtol=1e-9, atol=1e-10)


def test_the_arguments_are_left_alone(case):
    before = [array.copy() for array in (*case.arrays, case.pairs, case.weights, *case.prior)]
    result = case.learn()
    case.learn(init=result)
    after = (*case.arrays, case.pairs, case.weights, *case.prior)
    for old, new in zip(before, after, strict=True):
        assert_array_equal(old, new)


# Starting from an earlier result


def test_a_path_over_C_costs_less_from_the_last_result(case):
    warm = cold = 0
    init = None
    for C in np.geomspace(1, 100, 9):
        one = case.with_(C=C)
        init, fresh = one.learn(tol=1e-8, init=init), one.learn(tol=1e-8)
        assert_allclose(init.primal, fresh.primal, rtol=1e-7)
        warm, cold = warm + init.n_iter, cold + fresh.n_iter
    assert warm < cold


@pytest.mark.parametrize("c0", [1.0, inf])
def test_the_solution_as_init_needs_no_step(case, c0):
    case = case.with_(c0=c0)
    result = case.learn(tol=1e-10)
    again = case.learn(tol=1e-9, init=result)
    assert again.n_iter == 0
    assert_allclose(again.b0, result.b0, rtol=1e-12)


def test_an_init_with_another_threshold_fits_a_fixed_one(case):
    result = case.with_(c0=inf, mu0=1.7).learn(init=case.learn())
    assert result.b0 == 1.7
    assert result.converged


def test_an_iterate_of_a_callback_resumes(case):
    iterates = []
    full = case.learn(callback=iterates.append)
    middle = iterates[full.n_iter // 2]
    assert isinstance(middle, Iterate)
    resumed = case.learn(init=middle)
    assert_allclose(resumed.history["primal"][0], middle.primal, rtol=1e-9)
    assert_allclose(resumed.primal, full.primal, rtol=1e-10)
    assert resumed.n_iter <= full.n_iter


# Watching, stopping, interrupting


def test_the_callback_sees_every_iteration(case):
    iterates = []
    result = case.learn(callback=iterates.append)
    for name in ("primal", "dual", "gap", "b0", "n_active", "seconds"):
        seen = [getattr(iterate, name) for iterate in iterates]
        assert_array_equal(seen, result.history[name])
    assert [iterate.n_iter for iterate in iterates] == [*range(result.n_iter + 1)]
    for iterate in iterates:
        assert_allclose(iterate.primal, case.primal(iterate.W, iterate.b0), rtol=1e-9)


def test_a_true_callback_stops_with_a_warning(case):
    with pytest.warns(ConvergenceWarning, match="after 2 iterations.*callback asked to stop"):
        result = case.learn(callback=lambda iterate: iterate.n_iter == 2)
    assert result.status is Status.STOPPED
    assert result.n_iter == 2
    assert not result.converged
    assert_allclose(result.gap, result.history["gap"].min(), rtol=1e-6)


def interrupt_at(n_iter):
    def callback(iterate):
        if iterate.n_iter == n_iter:
            raise KeyboardInterrupt

    return callback


def test_an_interrupt_raises_unless_asked_otherwise(case):
    with pytest.raises(KeyboardInterrupt):
        case.learn(callback=interrupt_at(2))


def test_an_interrupt_can_return_the_best_point_so_far(case):
    with pytest.warns(ConvergenceWarning, match="after 3 iterations.*interrupted"):
        result = case.learn(callback=interrupt_at(3), solver=Newton(on_interrupt="return"))
    assert result.status is Status.INTERRUPTED
    assert_allclose(result.gap, result.history["gap"].min(), rtol=1e-6)
    assert_allclose(result.primal, case.primal(result.W, result.b0), rtol=1e-9)
    assert case.learn(init=result).converged


def test_an_interrupt_before_any_point_raises(case, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("tatml._optim.monitor.Monitor.record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        case.learn(solver=Newton(on_interrupt="return"))


def test_other_errors_of_a_callback_pass_through(case):
    with pytest.raises(ZeroDivisionError):
        case.learn(callback=lambda iterate: 1 / 0, solver=Newton(on_interrupt="return"))


def test_not_converged_warns_once_with_the_numbers(case):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = case.learn(tol=1e-9, solver=Newton(max_iter=1))
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    message, goal = str(caught[0].message), 1e-9 * max(1, result.primal)
    assert f"gap {result.gap:.3g} > {goal:.3g} (tol 1e-09) after 1 iterations" in message
    assert result.status.value in message
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 1


def test_the_warning_points_at_the_caller():
    with pytest.warns(ConvergenceWarning) as caught:
        learn_metric(**arguments(tol=1e-12, solver=Newton(max_iter=1)))
    assert caught[0].filename == __file__


def test_verbose_prints_a_header_and_one_line_per_iteration(case, capsys):
    case.learn()
    assert capsys.readouterr() == ("", "")  # the default is silent
    result = case.learn(verbose=True)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["iter", "primal", "dual", "gap", "b0", "active", "seconds"]
    assert len(lines) == result.n_iter + 1
    for n_iter, line in enumerate(lines):
        numbers = [float(word) for word in line.split()]
        names = ("iteration", "primal", "dual", "gap", "b0", "n_active")
        expected = [result.history[name][n_iter] for name in names]
        assert_allclose(numbers[:-1], expected, rtol=1e-2, atol=1e-7)
