"""ITML: every solver finds the optimum of the published problem, with a valid certificate."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from estimators_helpers import (
    arrays_of,
    as_list,
    assert_best_threshold,
    labelled,
    neighbours_and_predictions,
    refused,
    squared_distances,
    times,
)
from helpers import divergence
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from tatml import ITML, Dykstra, Newton
from tatml._optim.solvers import as_solver

FEW = {"n_pairs_per_class": 10, "random_state": 0}
CYCLIC = Dykstra(order="cyclic")
SOLVERS = ("newton", CYCLIC, "dykstra")


def violations(itml, squared):
    """Return D/b of the pairs on the wrong side of their bound, 1 for the others."""
    ratio = squared / np.where(itml.similar_, *itml.bounds_)
    return np.where(itml.similar_, np.maximum(ratio, 1), np.minimum(ratio, 1))


def objective(itml, X, W):
    """Return LogDet(W, W0) + γ Σ (ξ/b − log(ξ/b) − 1) with the best slack ξ of every pair."""
    ratio = violations(itml, squared_distances(X, W, itml.pairs_))
    slacks = itml.gamma * np.sum(ratio - np.log(ratio) - 1)
    return sum(map(divergence, W, as_list(itml.prior_))) + slacks


def assert_same_matrices(got, expected, tol):
    for matrix, reference in zip(got, expected, strict=True):
        assert_allclose(matrix, reference, atol=tol * np.abs(reference).max(), rtol=0)


# The solution


def few_samples(name):
    if name == "made up":
        return labelled()
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    return X[::3], y[::3]


@pytest.mark.parametrize(("name", "gamma"), [("made up", 5.0), ("iris", 0.3), ("wine", 5.0)])
def test_every_solver_finds_the_same_metric(name, gamma):
    X, y = few_samples(name)
    tol = {"newton": 1e-13, "cyclic": 1e-12, "permutation": 1e-12}
    solvers = {"newton": Newton(max_iter=5000)} | {
        order: Dykstra(order=order, max_iter=5000) for order in ("cyclic", "permutation")
    }
    newton, *projections = (
        ITML(gamma, tol=tol[name], solver=solver, **FEW).fit(X, y)
        for name, solver in solvers.items()
    )
    assert newton.result_.converged
    assert np.any(violations(newton, squared_distances(X, newton.result_.W, newton.pairs_)) != 1)
    for other in projections:
        assert other.result_.converged
        assert_array_equal(other.pairs_, newton.pairs_)
        assert_same_matrices(other.result_.W, newton.result_.W, 1e-5)
        assert_allclose(other.threshold_, newton.threshold_, rtol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_the_gradient_vanishes_on_wine(solver):
    """W⁻¹ = W0⁻¹ + Σ γ (1/b − 1/D) ΔΔᵀ over the pairs on the wrong side."""
    X, y = load_wine(return_X_y=True)
    n_pairs = None if solver == "newton" else 40
    itml = ITML(0.5, solver=solver, tol=1e-10, n_pairs_per_class=n_pairs, random_state=0).fit(X, y)
    W, W0 = itml.result_.W[0], itml.prior_
    delta = X[itml.pairs_[:, 0]] - X[itml.pairs_[:, 1]]
    squared = np.einsum("ka,ab,kb->k", delta, W, delta)
    bound = np.where(itml.similar_, *itml.bounds_)
    wrong = np.where(itml.similar_, squared > bound, squared < bound)
    slope = 0.5 * (1 / bound - 1 / squared) * wrong
    assert 0.05 < wrong.mean() < 0.95
    root = np.sqrt(np.diagonal(W0))  # in units in which the prior is the identity
    gradient = (np.linalg.inv(W0) - np.linalg.inv(W) + (delta.T * slope) @ delta) * np.outer(
        root, root
    )
    assert np.max(np.abs(gradient)) < 1e-4


def conic_metric(itml, X):
    """Solve ITML's problem as published, with slacks, by a general conic solver."""
    cp = pytest.importorskip("cvxpy")
    arrays, prior = arrays_of(X), as_list(itml.prior_)
    W = [cp.Variable((len(W0), len(W0)), PSD=True) for W0 in prior]
    slack = cp.Variable(len(itml.pairs_))
    bound = np.where(itml.similar_, *itml.bounds_)
    ratio = cp.multiply(1 / bound, slack)
    terms = itml.gamma * cp.sum(ratio - cp.log(ratio) - 1)
    for matrix, W0 in zip(W, prior, strict=True):
        terms += cp.trace(np.linalg.inv(W0) @ matrix) - cp.log_det(matrix)
        terms += np.linalg.slogdet(W0)[1] - len(W0)
    constraints = []
    for k, (i, j) in enumerate(itml.pairs_):
        scatter = [(array[i] - array[j]) @ (array[i] - array[j]).T for array in arrays]
        distance = sum(cp.trace(A @ matrix) for A, matrix in zip(scatter, W, strict=True)) / len(W)
        constraints.append(distance <= slack[k] if itml.similar_[k] else distance >= slack[k])
    problem = cp.Problem(cp.Minimize(terms), constraints)
    precise = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    problem.solve(solver=cp.CLARABEL, **precise)
    return [matrix.value for matrix in W], problem.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is compared
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("vectors", {"gamma": 0.3}),
        ("vectors", {"gamma": 4.0, "bounds": (0.4, 1.1)}),
        ("matrices", {"gamma": 4.0, "bounds": (0.4, 1.1)}),
        ("two blocks", {"gamma": 1.0, "prior": "within"}),
    ],
)
def test_the_metric_is_that_of_a_conic_solver(kind, options):
    X, y = labelled(kind, n_samples=30)
    itml = ITML(**FEW | options, tol=1e-13).fit(X, y)
    W, value = conic_metric(itml, X)
    assert_allclose(itml.result_.primal, value, rtol=1e-7)
    assert_allclose(objective(itml, X, itml.result_.W), value, rtol=1e-7)
    assert_same_matrices(itml.result_.W, W, 1e-5)
    assert divergence(itml.result_.W[0], as_list(itml.prior_)[0]) > 0.01  # something was learnt


def published_updates(itml, X, n_cycles):
    """Run the cyclic projections of Davis et al., Algorithm 1, for vectors."""
    A, gamma = itml.prior_.copy(), itml.gamma
    multipliers = np.zeros(len(itml.pairs_))
    xi = np.where(itml.similar_, *itml.bounds_)
    for _ in range(n_cycles):
        for k, (i, j) in enumerate(itml.pairs_):
            v = X[i] - X[j]
            p, delta = v @ A @ v, 1 if itml.similar_[k] else -1
            step = min(multipliers[k], delta * gamma / (gamma + 1) * (1 / p - 1 / xi[k]))
            beta = delta * step / (1 - delta * step * p)
            xi[k] = 1 / (1 / xi[k] + delta * step / gamma)
            multipliers[k] -= step
            A += beta * np.outer(A @ v, A @ v)
    return A


def test_the_metric_is_that_of_the_published_updates():
    X, y = labelled(n_samples=30)
    itml = ITML(3.0, tol=1e-13, **FEW).fit(X, y)
    assert_same_matrices(itml.result_.W, [published_updates(itml, X, 300)], 1e-6)


@pytest.mark.parametrize("n_cycles", [1, 7])
def test_a_cycle_is_a_cycle_of_the_published_updates(n_cycles):
    """The iterates are the same, not only the solution."""
    X, y = labelled(n_samples=30)
    model = ITML(
        2.0, tol=1e-12, n_pairs_per_class=20, solver=Dykstra(order="cyclic", max_iter=n_cycles)
    )
    with pytest.warns(ConvergenceWarning):
        itml = model.set_params(random_state=0).fit(X, y)
    assert itml.n_iter_ == n_cycles
    assert_same_matrices(itml.result_.W, [published_updates(itml, X, n_cycles)], 1e-11)


def test_the_weight_of_the_slacks_goes_from_the_prior_to_the_bounds():
    X, y = labelled()
    models = [ITML(gamma, **FEW, tol=1e-9).fit(X, y) for gamma in (1e-7, 0.1, 1.0, 10.0)]
    assert_same_matrices(models[0].result_.W, [models[0].prior_], 1e-4)
    worst = [
        np.sum(np.abs(np.log(violations(m, squared_distances(X, m.result_.W, m.pairs_)))))
        for m in models
    ]
    assert worst == sorted(worst, reverse=True)
    assert worst[-1] < 0.7 * worst[0]


# Convergence


def test_one_cycle_is_not_called_convergence():
    X, y = labelled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        itml = ITML(2.0, random_state=0, solver=Dykstra(order="cyclic", max_iter=1)).fit(X, y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert f"gap {itml.result_.gap:.3g}" in str(caught[0].message)
    assert not itml.result_.converged
    assert itml.result_.gap > 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # it is the subject
@pytest.mark.parametrize(
    ("kind", "solver"),
    [
        *(("vectors", solver) for solver in SOLVERS),
        ("matrices", "newton"),
        ("two blocks", "newton"),
    ],
)
def test_the_gap_is_never_less_than_what_is_missing(kind, solver):
    X, y = labelled(kind)
    best = ITML(2.0, tol=1e-12, **FEW).fit(X, y)
    assert_allclose(best.result_.primal, objective(best, X, best.result_.W), rtol=1e-9)
    for max_iter in (1, 2, 5, 20):
        limited = replace(as_solver(solver), max_iter=max_iter)
        result = clone(best).set_params(solver=limited, tol=1e-5).fit(X, y).result_
        value = objective(best, X, result.W)
        assert_allclose(result.primal, value, rtol=1e-9)
        missing = value - best.result_.primal
        assert -1e-9 < missing <= result.gap + 1e-9
        assert result.dual <= best.result_.primal + 1e-9
        assert result.converged == (result.gap <= 1e-5 * max(1.0, value))
    if solver == "newton":
        assert result.converged


def test_a_warm_start_takes_fewer_steps_to_the_same_metric():
    X, y = labelled("two blocks")
    cold = ITML(1.1, **FEW, tol=1e-10).fit(X, y)
    warm = ITML(1.0, **FEW, tol=1e-10, warm_start=True).fit(X, y).set_params(gamma=1.1).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert_same_matrices(warm.result_.W, cold.result_.W, 1e-4)


# The bounds


def squared_under_the_prior(itml, X):
    return squared_distances(X, as_list(itml.prior_), itml.pairs_)


@pytest.mark.parametrize(
    ("kind", "prior", "percentiles"),
    [
        ("vectors", np.diag([3.0, 1.0, 0.2, 7.0]), (5, 95)),
        ("matrices", "covariance", (20, 60.5)),
        ("three blocks", "identity", (0, 100)),
    ],
)
def test_the_bounds_are_percentiles_of_squared_distances_under_the_prior(kind, prior, percentiles):
    X, y = labelled(kind)
    itml = ITML(prior=prior, percentiles=percentiles, pairs="neighbors").fit(X, y)
    ordered = np.sort(squared_under_the_prior(itml, X))
    place = np.array(percentiles) / 100 * (len(ordered) - 1)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, len(ordered) - 1)
    expected = ordered[below] + (place - below) * (ordered[above] - ordered[below])
    assert_allclose(itml.bounds_, expected, rtol=1e-9)


def test_given_bounds_are_the_bounds():
    X, y = labelled()
    percentiles = ITML(**FEW, tol=1e-10).fit(X, y)
    given = ITML(**FEW, tol=1e-10, bounds=percentiles.bounds_, percentiles=(40, 60)).fit(X, y)
    assert given.bounds_ == percentiles.bounds_
    assert_array_equal(given.components_, percentiles.components_)
    other = ITML(**FEW, bounds=(0.1, 3)).fit(X, y)
    assert other.bounds_ == (0.1, 3.0)
    assert not np.allclose(other.components_, percentiles.components_, rtol=0.05)


def test_pairs_that_coincide_do_not_make_a_bound_of_zero():
    X, y = labelled()
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    groups = np.arange(len(y))  # copies in different groups are not one sample
    itml = ITML(pairs="all", percentiles=(0, 90), gamma=1e-3).fit(X, y, groups=groups)
    squared = squared_under_the_prior(itml, X)
    assert squared.min() == 0
    assert_allclose(itml.bounds_[0], squared[squared > 1e-12].min())


# Units and threshold


@pytest.mark.parametrize(
    ("kind", "factors", "bounds"),
    [
        ("vectors", [np.array([1e3, 7.0, 1e-3, 0.3])], None),
        ("matrices", [1e3], (0.3, 1.5)),
        ("two blocks", [1e-3, 1e3], None),
    ],
)
def test_units_change_neither_neighbours_nor_predictions(kind, factors, bounds):
    X, y = labelled(kind)
    model = ITML(bounds=bounds, random_state=0)
    plain = neighbours_and_predictions(model, X, y)
    scaled = neighbours_and_predictions(model, times(X, *factors), y)
    assert_array_equal(plain[0], scaled[0])
    assert_array_equal(plain[1], scaled[1])
    assert np.unique(plain[1]).tolist() == [-1, 1]


@pytest.mark.parametrize(("kind", "n_components"), [("vectors", None), ("two blocks", 2)])
def test_the_threshold_is_the_best_for_the_learnt_distances(kind, n_components):
    X, y = labelled(kind)
    options = {"margin": (0.6, 1.8), "threshold_strength": 0.4, "threshold_prior": 1.3}
    itml = ITML(pairs="neighbors", n_components=n_components, **options).fit(X, y)
    if n_components is None:
        learnt = squared_distances(X, itml.result_.W, itml.pairs_)
        squared = itml.pair_distance(itml.pairs_, X) ** 2
        assert_allclose(squared, learnt, rtol=1e-9, atol=1e-12)
    assert_best_threshold(itml, X)


# scikit-learn, and errors


def test_the_checks_of_scikit_learn():
    results = check_estimator(ITML(), on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


@pytest.mark.parametrize(
    ("kind", "solver"), list(product(("matrices", "two blocks"), (CYCLIC, "dykstra")))
)
def test_the_projections_refuse_matrices_and_blocks(kind, solver):
    refused(ITML(solver=solver), *labelled(kind), "solver: expected 'newton'.*vectors")


@pytest.mark.parametrize("prior", ["auto", "identity"])
def test_identical_samples_are_named(prior):
    refused(ITML(prior=prior), np.ones((12, 2)), np.arange(12) % 2, "X: expected .* differ")


def test_identical_samples_of_two_classes_are_named():
    """Their loss is infinite in every metric, (Itml)."""
    X, y = labelled()
    first, second = (int(np.flatnonzero(y == label)[0]) for label in (0, 1))
    X = X.copy()
    X[second] = X[first]
    for pairs, solver in product(("all", "neighbors"), SOLVERS):
        message = rf"X: expected .* differ.*\b({first}|{second})\b"
        refused(ITML(pairs=pairs, solver=solver), X, y, message)


def test_too_many_components_are_refused_before_the_problem_is_solved(capsys):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match=r"^n_components: expected at most n = 3"):
        ITML(n_components=4, verbose=True, random_state=0).fit(X, np.arange(20) % 2)
    assert capsys.readouterr().out == ""
