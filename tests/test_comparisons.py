"""Comparisons ("a is more like b than c is like d") as a term of the problem."""

from math import inf

import numpy as np
import pytest
from comparisons_helpers import compared_case, neighbour_triplets, without_pairs
from helpers import SHAPES, SYSTEMS, random_case, random_matrices, random_point, symmetric
from numpy.testing import assert_allclose, assert_array_equal
from sharding_helpers import Sliceable
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import tatml
from tatml import Comparisons, Compute, Newton, learn_metric
from tatml._array import compacted, sum_at
from tatml._data.pairs import link_pairs
from tatml._optim.linear_systems import newton_system
from tatml._optim.losses import SmoothedHinge, SquaredHinge
from tatml._optim.problem import DualAlong

# Every shape alone and with pairs, once with triplets and once with quadruplets.
KINDS = [
    (name, columns, alone)
    for k, name in enumerate(SHAPES)
    for columns, alone in ((3, k % 2 == 0), (4, k % 2 == 1))
]
GENERAL = {"weights": True, "prior": True, "C": 2.0, "c0": 0.5, "mu0": 1.2}


@pytest.fixture(params=KINDS, ids=str)
def case(request):
    name, columns, alone = request.param
    return compared_case(SHAPES[name], columns=columns, alone=alone, **GENERAL)


# Against a general conic solver


def conic(case):
    """Solve with one variable per matrix and one slack per row, in the user's coordinates."""
    cp = pytest.importorskip("cvxpy")
    M = len(case.sizes)
    W = [cp.Variable((n, n), PSD=True) for n in case.sizes]
    b0 = cp.Variable() if np.isfinite(case.c0) else None
    xi = cp.Variable(len(case.y), nonneg=True)
    objective = cp.sum(cp.multiply(case.cw / 2, xi**2))
    if b0 is not None:
        objective += case.c0 / 2 * (b0 - case.mu0) ** 2
    for matrix, W0 in zip(W, case.W0, strict=True):
        objective += cp.trace(np.linalg.inv(W0) @ matrix) - cp.log_det(matrix)
        objective += np.linalg.slogdet(W0)[1] - len(W0)
    constraints = []
    for k, y in enumerate(case.y):
        distance = sum(cp.trace(case.A[m][k] @ W[m]) for m in range(M)) / M
        pull = case.gamma[k] * (case.mu0 if b0 is None else b0) + case.offset[k]
        constraints.append(y * (distance - pull) <= xi[k])
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    return [matrix.value for matrix in W], None if b0 is None else float(b0.value), problem.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_the_optimum_is_that_of_a_conic_solver(case):
    result = case.learn()
    W, b0, value = conic(case)
    compared = result.active[result.active >= len(case.pairs)]
    assert 0 < len(compared) < len(case.compared)
    assert_allclose(result.primal, value, rtol=1e-6, atol=1e-6)
    assert (result.b0 is None) == case.alone
    if not case.alone:
        assert_allclose(result.b0, b0, rtol=1e-4)
    for found, expected in zip(result.W, W, strict=True):
        assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())


# Problems built from their solution


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_the_solver_finds_the_solution_that_a_problem_was_built_from(name, alone):
    """Choose multipliers, then the weights that make the optimality conditions hold exactly."""
    case = compared_case(SHAPES[name], 3, 40, alone=alone, prior=True, weights=True)
    rng = np.random.default_rng(5)
    s = case.y * rng.uniform(0, 0.2, len(case.y)) * (case.violation(case.W0, case.mu0) > 0.05)
    while True:
        W, b0 = case.primal_of(s)
        a = case.y * (case.distances(W) - case.gamma * b0 - case.offset)
        if np.all(a[s != 0] > 0) and all(np.linalg.eigvalsh(symmetric(M)).min() > 0 for M in W):
            break
        s = 0.9 * s
    weights = np.where(s != 0, np.abs(s) / np.where(s != 0, a, 1), a <= 0)  # else weight 0
    K = len(case.pairs)
    case = case.with_(
        weights=None if alone else weights[:K] / case.C,
        compared_weights=weights[K:] / case.compared_C,
    )
    result = case.learn(tol=1e-14)
    assert np.count_nonzero(s[K:]) > 3
    assert_array_equal(result.active, np.flatnonzero(s))
    assert_allclose(result.multipliers, np.abs(s[s != 0]), rtol=1e-5, atol=1e-7)
    assert_allclose(result.primal, case.primal(W, b0), rtol=1e-10)
    for found, expected in zip(result.W, W, strict=True):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


# The definition


def test_value_multipliers_and_gradient_are_the_definition(case):
    W, b0 = random_point(case)
    point = case.at(W, b0)
    assert_allclose(point.primal, case.primal(W, b0))
    assert_allclose(point.slope, case.multipliers(W, b0), atol=1e-13)
    gradient, threshold = case.gradient(W, b0)
    for L, C, found, expected in zip(
        point.L, point.problem.prior_factors, point.gradient, gradient, strict=True
    ):
        G = C @ L
        assert_allclose(found, G.T @ expected @ G, atol=1e-12)
    assert_allclose(point.threshold_slope * np.sqrt(case.c0) if threshold else 0.0, threshold)


def test_gradient_and_hessian_agree_with_finite_differences(case):
    W, b0 = random_point(case, seed=1)
    gradient, _ = case.gradient(W, b0)
    for m, direction in enumerate(random_matrices(case)):
        h = 1e-6
        up, down = ([*W[:m], W[m] + t * direction, *W[m + 1 :]] for t in (h, -h))
        slope = (case.at(up, b0).primal - case.at(down, b0).primal) / (2 * h)
        assert_allclose(slope, np.sum(gradient[m] * direction), rtol=1e-5, atol=1e-7)
    W, b0 = random_point(case, seed=2)
    point, h = case.at(W, b0), 1e-6
    V = random_matrices(case, seed=3)
    eyes = point.problem.identity()
    moved = [
        [L @ (eye + t * v) for L, eye, v in zip(point.L, eyes, V, strict=True)] for t in (h, -h)
    ]
    up, down = (point.problem.at(L, b0) for L in moved)
    assert_array_equal(up.pairs.active, down.pairs.active)
    change = (up.pairs.evaluation.s - down.pairs.evaluation.s) / (2 * h)
    twice = [2 * v for v in V]  # (I + h V)(I + h V)ᵀ ≈ I + 2 h V
    expected = point.pairs.sums.scatter(change)
    found, _ = point.products(eyes).product(twice, 0.0)
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_all_linear_systems_agree(case):
    point = case.at(*random_point(case, seed=4))
    factors, rhs = random_matrices(case, seed=5), random_matrices(case, seed=6)
    b = 0.0 if case.alone else 0.3
    solved = [newton_system(point, factors, name).solve(rhs, b, 1e-13) for name in SYSTEMS]
    assert point.n_active > 2
    for V, b in solved[1:]:
        assert_allclose(b, solved[0][1], atol=1e-9)
        for a, expected in zip(V, solved[0][0], strict=True):
            assert_allclose(a, expected, atol=1e-8)


def test_weak_duality_and_the_gap_identity(case):
    optimum = case.learn().primal
    for seed in range(3):
        W, b0 = random_point(case, seed)
        point, s = case.at(W, b0), case.multipliers(W, b0)
        assert point.gap >= case.primal(W, b0) - optimum - 1e-10
        nu = [
            np.linalg.eigvals(W0 @ S).real for W0, S in zip(case.W0, case.scatter(s), strict=True)
        ]
        end = min(1.0, 1 / max(1e-9, -min(e.min() for e in nu)))
        for theta in (0.9 * end, 0.1 * end):
            value = case.dual(theta * s)
            assert value <= optimum + 1e-10
            library = DualAlong(
                point.problem, nu, point.term.totals.force, point.term.conjugate
            ).value(theta)
            assert_allclose(library, value, atol=1e-10)


# Invariances


def test_neither_the_order_of_comparisons_matters_nor_that_in_a_pair(case):
    """And a triplet is a quadruplet."""
    expected = case.learn()
    order = np.random.default_rng(0).permutation(len(case.compared))
    other = case.with_(compared=case.compared[order], compared_weights=case.compared_weights[order])
    assert_same_metric(expected, other.learn())
    turned = case.quadruplets[:, [1, 0, 3, 2]]
    assert_same_metric(expected, case.with_(compared=turned).learn())


def test_a_doubled_comparison_has_twice_the_weight(case):
    weights = case.compared_weights.copy()
    weights[2] *= 2
    doubled = case.with_(
        compared=np.concatenate([case.compared, case.compared[2:3]]),
        compared_weights=np.append(case.compared_weights, case.compared_weights[2]),
    )
    assert_same_metric(doubled.learn(), case.with_(compared_weights=weights).learn())


def test_swapped_sides_flip_the_sign(case):
    alone = without_pairs(case)
    swapped = alone.with_(compared=alone.quadruplets[:, [2, 3, 0, 1]])
    W, b0 = random_point(alone)
    assert_allclose(
        swapped.at(W, b0).pairs.evaluation.distances, -alone.at(W, b0).pairs.evaluation.distances
    )
    for a, b in zip(
        alone.at(W, b0).pairs.sums.scatter(alone.y),
        swapped.at(W, b0).pairs.sums.scatter(alone.y),
        strict=True,
    ):
        assert_allclose(a, -b)


def test_margin_C_and_prior_scale_together():
    """(m, c, W0) is the problem (1, c m², W0/m), whose solution is W/m."""
    case = compared_case(SHAPES["two ragged"], alone=True, prior=True, compared_margin=2.5)
    other = case.with_(
        compared_margin=1.0,
        compared_C=case.compared_C * 2.5**2,
        prior=[W0 / 2.5 for W0 in case.prior],
    )
    found, scaled = case.learn(), other.learn()
    assert_allclose(found.primal, scaled.primal)
    for a, b in zip(found.W, scaled.W, strict=True):
        assert_allclose(a, 2.5 * b, rtol=1e-6)


def assert_same_metric(found, expected, tolerance=1e-8):
    """Assert that both results are as near to each other as their gaps promise, or nearer."""
    assert_allclose(found.primal, expected.primal, rtol=tolerance)
    distance = np.sqrt(2 * found.gap) + np.sqrt(2 * expected.gap)
    assert distance < 1e-5
    if expected.b0 is None:
        assert found.b0 is None
    else:
        assert_allclose(found.b0, expected.b0, rtol=1e-6, atol=distance)  # c0 is 1
    for a, b in zip(found.W, expected.W, strict=True):
        assert_allclose(a, b, atol=max(1e-6, 2 * distance) * np.abs(b).max())


# Unusual comparisons


def test_equal_sides_are_ignored():
    """Such a row would add a constant to the objective, and loosen the tolerance."""
    case = compared_case(SHAPES["vectors"], alone=True)
    a, b, c, d = case.compared[0]
    more = [[a, b, a, b], [a, b, b, a], [c, c, d, d]]
    padded = case.with_(compared=np.concatenate([case.compared, more]))
    assert_allclose(padded.learn().primal, case.learn().primal, rtol=1e-12)


def test_contradictory_comparisons_have_a_solution():
    """Of W = w in one dimension and both orders: F = w − log w − 1 + Σ (1 ± w(D − d))²/2."""
    X = np.array([[0.0], [1.0], [3.0]])
    both = [[0, 1, 2], [0, 2, 1]]  # D = 1 and 9
    result = learn_metric(X, comparisons=Comparisons(both), tol=1e-14)
    w = result.W[0][0, 0]
    # both rows are violated for w < 1/8: 1 − 1/w + 2 · 64 w = 0
    assert_allclose(w, (-1 + np.sqrt(1 + 4 * 128)) / 256)
    assert w < 1 / 8
    assert len(result.active) == 2


def test_a_sample_compared_with_itself_bounds_one_distance():
    """(a, a, c) says D_ac ≥ m; (a, b, a) says −D_ab ≥ m, which pulls D_ab towards 0."""
    X = np.array([[0.0], [0.5]])
    pushed = learn_metric(X, comparisons=Comparisons([[0, 0, 1]], C=1e6), tol=1e-12)
    assert_allclose(0.25 * pushed.W[0][0, 0], 1.0, rtol=1e-4)
    pulled = learn_metric(X, comparisons=Comparisons([[0, 1, 0]]), tol=1e-14)
    w = pulled.W[0][0, 0]  # F = w − log w − 1 + (1 + w/4)²/2
    assert_allclose(1 - 1 / w + (1 + w / 4) / 4, 0, atol=1e-9)


def test_a_row_that_cannot_be_violated_leaves_the_prior():
    X = np.array([[0.0], [0.1], [5.0]])
    result = learn_metric(X, comparisons=Comparisons([[0, 1, 2]]))
    assert_allclose(result.W[0], [[1.0]])
    assert len(result.active) == 0


def test_a_comparison_with_equal_samples_elsewhere():
    """Different indices of equal samples are no equal sides: both distances are 0, F counts m²."""
    X = np.array([[1.0], [1.0], [1.0]])
    result = learn_metric(X, comparisons=Comparisons([[0, 1, 2]], C=3.0, margin=2.0))
    assert_allclose(result.primal, 3.0 / 2 * 4)
    assert_allclose(result.W[0], [[1.0]])


def test_merged_pairs_are_distinct():
    quadruplets = np.array([[0, 1, 2, 3], [3, 2, 0, 1], [1, 0, 0, 0], [2, 2, 3, 2]])
    linked = link_pairs(np.array([[1, 0], [2, 3]]), quadruplets)
    pairs = set(zip(linked.first.tolist(), linked.second.tolist(), strict=True))
    loops = {pair for pair in pairs if pair[0] == pair[1]}
    assert pairs - loops == {(0, 1), (2, 3)}
    assert len(loops) == 1
    assert len(linked) == 3
    plus, minus = linked.links
    listed = list(zip(linked.first.tolist(), linked.second.tolist(), strict=True))
    names = [[listed[k] if listed[k] not in loops else 0 for k in side] for side in (plus, minus)]
    assert names[0] == [(0, 1), (2, 3), (2, 3), (0, 1), 0, (2, 3)]
    assert names[1] == [0, 0, (0, 1), (2, 3), (0, 1), 0]


# Elsewhere


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", ["vectors", "two ragged"])
def test_shards_give_the_solution_in_memory(name, alone):
    case = compared_case(SHAPES[name], 1, 300, alone=alone, prior=True, weights=True)
    expected = case.learn()
    for solver in ("auto", "dense", "cg"):
        compute = Compute(max_memory="17.5MB")
        found = case.learn(compute=compute, solver=Newton(linear_solver=solver))
        assert found.converged
        assert_same_metric(found, expected)
        assert found.active is None


def test_several_shards_of_comparisons_on_disk():
    case = compared_case([(3, 1)], 1, 4000, n_samples=40, alone=True, weights=True)
    stored = Comparisons(Sliceable(case.compared), Sliceable(case.compared_weights), 0.3, 1.5)
    compute = Compute(max_memory=2**24 + 300_000)
    found = learn_metric(case.blocks, comparisons=stored, compute=compute, tol=1e-12)
    assert_same_metric(found, case.learn())


def test_a_rehearsal_samples_comparisons_of_shards():
    case = compared_case([(3, 1)], 2, 90_000, n_samples=60, n_pairs=5000, C=1e-3, compared_C=1e-3)
    expected = case.learn()
    solver = Newton(random_state=0)
    for compute in (None, Compute(max_memory="60MB")):
        assert_same_metric(case.learn(solver=solver, compute=compute), expected)


def test_strict_arrays_give_the_solution_in_memory():
    xp = pytest.importorskip("array_api_strict")
    for alone in (True, False):
        case = compared_case(SHAPES["two ragged"], alone=alone)
        data, given = case.arguments()
        placed = tatml.Blocks(*(xp.asarray(array) for array in case.arrays))
        comparisons = Comparisons(xp.asarray(case.compared), None, 0.3, 1.5)
        for name in SYSTEMS:
            options = given | {"comparisons": comparisons, "solver": Newton(linear_solver=name)}
            found = learn_metric(placed, *data[1:], **options)
            expected = case.learn()
            assert_allclose(found.primal, expected.primal, rtol=1e-8)
            for a, b in zip(found.W, expected.W, strict=True):
                assert_allclose(np.asarray(a), b, atol=1e-6)


def test_float32_is_certified():
    case = compared_case(SHAPES["vectors"], alone=True)
    result = case.learn(compute=Compute(dtype="float32"), tol=1e-5)
    assert result.converged
    assert_allclose(result.primal, case.learn().primal, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 7])
def test_sums_at_indices(n):
    xp = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    indices, values = rng.integers(n, size=20), rng.normal(size=20)
    expected = [values[indices == k].sum() for k in range(n + 2)]
    assert_allclose(sum_at(indices, values, n + 2), expected)
    strict = sum_at(xp.asarray(indices), xp.asarray(values), n + 2)
    assert_allclose(np.asarray(strict), expected)
    for given in (indices, xp.asarray(indices)):
        used, places = map(np.asarray, compacted(given, n + 2))
        assert_array_equal(used, np.unique(indices))
        assert_array_equal(used[places], indices)


# Real data, over ten decades of C


def standardised(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


@pytest.mark.parametrize(
    ("name", "every", "decades"), [("wine", 1, range(-5, 6)), ("breast_cancer", 2, (0, 2, 5))]
)
def test_nearest_neighbour_triplets_converge_within_60_steps(name, every, decades):
    """Where an unguarded Newton method cycles."""
    X, y = standardised(name)
    triplets = neighbour_triplets(X, y)[::every]
    for decade in decades:
        comparisons = Comparisons(triplets, C=10.0**decade)
        result = learn_metric(X, comparisons=comparisons, tol=1e-8, solver=Newton(max_iter=60))
        assert result.converged, (name, decade, result.gap)


# Smoothed hinges


def smoothed(hinge, smoothing):
    return SmoothedHinge(**vars(hinge), smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [1e-6, 0.1, 10.0])
def test_the_smoothed_slope_solves_its_equation(smoothing):
    """α (α/w − a) = ν with α = y s > 0; the curvature is its derivative."""
    rng = np.random.default_rng(0)
    zeta, sign = 3 * rng.normal(size=50), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    weight = rng.uniform(0.1, 5, size=50)
    hinge = SquaredHinge(sign, weight, np.ones(50), np.ones(50))
    loss = smoothed(hinge, smoothing)
    alpha, a = sign * loss.slope(zeta), sign * zeta
    assert np.all(alpha > 0)
    assert_allclose(alpha * (alpha / weight - a), smoothing, rtol=1e-8)
    h = 1e-6
    slope = (loss.slope(zeta + h) - loss.slope(zeta - h)) / (2 * h)
    assert_allclose(loss.curvature(zeta), slope, rtol=1e-4, atol=1e-9)
    limit = smoothed(hinge, 1e-30)
    assert_allclose(limit.slope(zeta), hinge.slope(zeta), atol=1e-12)
    some = loss.take(np.array([3, 5]), 2.0)
    assert_allclose(some[1:].slope(zeta[5:6]) / 2, smoothed(hinge, smoothing / 2).slope(zeta)[5:6])
    problem = random_case(SHAPES["vectors"], C=2.0).problem()
    smooth, plain = (p.at(p.identity(), 1.0) for p in (problem.smoothed(smoothing), problem))
    assert_allclose(
        smooth.term.totals.loss, plain.term.totals.loss, rtol=1e-12
    )  # the value of the hinge
    conjugate = smooth.problem.pairs.loss.conjugate(smooth.slope).sum()
    assert_allclose(smooth.term.totals.conjugate, conjugate, rtol=1e-12)


def test_the_active_set_cycles_without_smoothing():
    """The steps of this problem need it: `Newton` records how many."""
    X, y = standardised("breast_cancer")
    comparisons = Comparisons(neighbour_triplets(X, y)[::2], C=1e5)
    result = learn_metric(X, comparisons=comparisons, tol=1e-8)
    assert "smoothed" in result.history["kind"]
    assert result.n_iter <= 60


# The result


def test_a_result_without_pairs_has_no_threshold(tmp_path):
    case = compared_case(SHAPES["vectors"], alone=True)
    path, seen = tmp_path / "fit.npz", []
    keep = tatml.Checkpoint(path, every=0)

    def callback(iterate):
        keep(iterate)
        seen.append(iterate.b0)

    result = case.learn(callback=callback)
    assert result.b0 is None
    assert set(seen) == {None}
    assert np.all(np.isnan(result.history["b0"]))
    start = tatml.Checkpoint.load(path)
    assert start.b0 is None
    for init in (start, result):
        assert case.learn(init=init, tol=1e-6).n_iter <= 1
    with_pairs = compared_case(SHAPES["vectors"])
    assert_same_metric(with_pairs.learn(init=result), with_pairs.learn())


def test_the_multipliers_of_pairs_come_first():
    case = compared_case(SHAPES["vectors"], weights=True)
    result = case.learn()
    s = case.multipliers(result.W, result.b0)
    assert_array_equal(result.active, np.flatnonzero(s))
    assert_allclose(result.multipliers, np.abs(s[s != 0]), rtol=1e-6)
    assert result.active.max() >= len(case.pairs)


# Bad input

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"comparisons": [[0, 1, 2]]}, TypeError, "comparisons: expected Comparisons"),
        ({"comparisons": Comparisons([[0, 1]])}, ValueError, r"index: expected shape \(K, 3\)"),
        ({"comparisons": Comparisons(np.zeros((0, 3), int))}, ValueError, "index: expected"),
        ({"comparisons": Comparisons([[0, 1, 3]])}, ValueError, "got index 3 in row 0"),
        ({"comparisons": Comparisons([[0, 1, -1]])}, ValueError, "got index -1 in row 0"),
        ({"comparisons": Comparisons([[0.0, 1.0, 2.0]])}, TypeError, "integer sample indices"),
        ({"comparisons": Comparisons([[0, 1, 1]])}, ValueError, "whose two pairs differ, got none"),
        ({"comparisons": Comparisons([[0, 1, 2]], [-1.0])}, ValueError, "weights: expected finite"),
        ({"comparisons": Comparisons([[0, 1, 2]], [1, 2])}, ValueError, "weights: expected shape"),
        ({"comparisons": Comparisons([[0, 1, 2]]), "solver": "dykstra"}, ValueError, "solver: "),
        ({"comparisons": Comparisons([[0, 1, 2]]), "similar": [True]}, TypeError, "pairs, similar"),
        ({"comparisons": Comparisons([[0, 1, 2]]), "weights": [1.0]}, TypeError, "pairs, similar"),
    ],
)
def test_bad_comparisons_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        learn_metric(X, **options)
    if "Dykstra" not in message and "solver" not in options and "similar" not in options:
        with pytest.raises(error, match=r"(omparisons|pairs, similar): expected|weights|index"):
            learn_metric(X, **options, compute=Compute(max_memory="50MB"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"margin": 0.0}, ValueError),
        ({"margin": 1e60}, ValueError),
        ({"margin": "wide"}, TypeError),
        ({"C": -1.0}, ValueError),
        ({"C": inf}, ValueError),
    ],
)
def test_bad_settings_are_refused_by_name(settings, error):
    (name,) = settings
    with pytest.raises(error, match=f"Comparisons: {name}: expected"):
        Comparisons([[0, 1, 2]], **settings)


def test_chunks_have_no_samples_to_compare():
    chunks = tatml.PairChunks([(X, [[0, 1]], [True])])
    with pytest.raises(ValueError, match="comparisons: expected None with PairChunks"):
        learn_metric(chunks, comparisons=Comparisons([[0, 1, 2]]))


def test_dykstra_refuses_comparisons_by_name():
    with pytest.raises(ValueError, match=r"solver: .* with comparisons, got Dykstra\(\)"):
        learn_metric(X, comparisons=Comparisons([[0, 1, 2]]), solver=tatml.Dykstra())
