"""Sums over pairs by products over samples: equal to loops, as accurate as differences."""

from math import inf

import numpy as np
import pytest
from comparisons_helpers import compared_case
from helpers import SHAPES, limited, random_case, random_factors, random_matrices
from numpy.testing import assert_allclose, assert_array_equal

from tatml import Compute, Newton, learn_metric
from tatml._optim import sums as sums_module
from tatml._optim.hessian import SvecRows
from tatml._optim.layout import Limits, lay_out
from tatml._optim.sums import (
    LARGEST_NORMS,
    ComparisonSums,
    Links,
    PairGraph,
    PairSums,
    n_roundings,
)

N_PAIRS = 60
BY_SAMPLES, BY_PAIRS = Limits(by_samples=True), Limits(by_samples=False)


@pytest.fixture(params=SHAPES)
def case(request):
    return random_case(SHAPES[request.param], n_pairs=N_PAIRS)


def sums_of(case, **limits):
    features = [np.ascontiguousarray(np.swapaxes(array, 1, 2)) for array in case.arrays]
    return PairSums.of(features, *case.pairs.T, limits=Limits(by_samples=True, **limits))


def assert_close(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other, rtol=1e-11, atol=1e-12 * np.abs(other).max())


# Against loops


@pytest.mark.parametrize("chunk_bytes", [1, 2**20])
def test_the_sums_equal_loops(case, chunk_bytes):
    sums, rng, V = sums_of(case, chunk_bytes=chunk_bytes), np.random.default_rng(0), None
    V = random_matrices(case)
    weights, shift, s = (
        rng.uniform(size=N_PAIRS),
        rng.normal(size=N_PAIRS),
        rng.normal(size=N_PAIRS),
    )
    assert sums.form.is_accurate
    assert_allclose(sums.quadratic(V), case.distances(V), rtol=1e-10, atol=1e-12)
    assert_close(sums.scatter(s), case.scatter(s))
    q, S = sums.product(V, weights, shift)
    expected = weights * (case.distances(V) + shift)
    assert_allclose(q, expected, rtol=1e-10, atol=1e-12)
    assert_close(S, case.scatter(expected))
    D = case.distances(case.eyes)
    for share in (1.0, 0.3, 0.0):
        factor = s * (rng.uniform(size=N_PAIRS) < share)
        distances, _, scatter, *_ = sums.evaluate(lambda part, d, f=factor: f[part] * d)
        assert_allclose(distances, D, rtol=1e-12)
        assert_close(scatter, case.scatter(factor * D))
        for S in scatter:
            assert_array_equal(S, S.T)


def test_equal_and_reversed_pairs_and_pairs_of_a_sample_with_itself():
    case = random_case(SHAPES["vectors"], n_pairs=5)
    i, j = case.pairs[0]
    case = case.with_(
        pairs=np.vstack([case.pairs, [[i, j], [j, i], [i, i]]]), similar=np.ones(8, bool)
    )
    s = np.arange(1.0, 9)
    assert_close(sums_of(case).scatter(s), case.scatter(s))


def test_derived_sums_keep_the_graph_and_the_form(case):
    sums, factors = sums_of(case), random_factors(case)
    turned = sums.transformed(factors)
    assert turned.graph is sums.graph
    assert turned.form is not None
    some = sums.take(np.array([3, 1, 4, 1, 5]))
    assert some.form is not None
    assert_allclose(some.distances(), sums.distances()[[3, 1, 4, 1, 5]])
    assert sums.over_differences().form is None


# Accuracy


def scatters(X, pairs, s):
    """S by samples, by pairs, and in extended precision, relative to Σ|s| D."""
    features = lay_out([X[:, :, None]], centre=True)
    difference = (X[pairs[:, 0]] - X[pairs[:, 1]]).astype(np.longdouble)
    exact = np.einsum("k,ki,kj->ij", s.astype(np.longdouble), difference, difference)
    size = float(np.sum(np.abs(s) * np.sum(difference**2, axis=1)))

    def error(limits):
        sums = PairSums.of(features, *pairs.T, limits=limits)
        found = sums.evaluate(lambda part, d: s[part])
        return float(np.abs(found.scatter[0] - exact).max()) / size, found.reach is not None

    return error(BY_SAMPLES), error(BY_PAIRS)


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e12])
def test_samples_far_from_the_origin_lose_no_digits(shift):
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((200, 30)) * 2**10) + shift  # differences are exact
    pairs, s = rng.integers(200, size=(2000, 2)), rng.normal(size=2000)
    (error, by_samples), (before, _) = scatters(X, pairs, s)
    assert by_samples
    assert error < max(5 * before, 2e-15)


def test_sums_over_samples_form_no_differences(monkeypatch):
    case = random_case(SHAPES["vectors"], n_pairs=N_PAIRS)
    sums, V, s = sums_of(case), random_matrices(case), np.ones(N_PAIRS)
    assert sums.form.is_accurate

    def fails(*arguments):
        raise AssertionError("differences are formed")

    monkeypatch.setattr(PairSums, "rows", fails)
    assert_allclose(sums.quadratic(V), case.distances(V), rtol=1e-10)
    assert_close(sums.scatter(s), case.scatter(s))
    assert_close(sums.product(V, s, 0 * s)[1], case.scatter(case.distances(V)))


def test_inner_products_far_from_the_origin_lose_no_digits():
    """Of integers, so that differences are exact; expanded squares would lose them."""
    rng = np.random.default_rng(0)
    X, pairs = rng.integers(100, size=(40, 5)), rng.integers(40, size=(90, 2))
    diagonal = rng.integers(1, 9, size=5).astype(float)
    sums = PairSums.of([X[:, None, :] + 2.0**30], *pairs.T, limits=BY_SAMPLES)
    expected = (X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2 @ diagonal
    assert_array_equal(sums.form.quadratic([np.diag(diagonal)]), expected)


def test_near_samples_are_summed_over_differences():
    """Clusters 1e5 apart, with pairs inside the clusters."""
    rng = np.random.default_rng(0)
    centres = 1e5 * rng.standard_normal((10, 30))
    X = np.repeat(centres, 20, axis=0) + rng.standard_normal((200, 30))
    pairs = 20 * rng.integers(10, size=(2000, 1)) + rng.integers(20, size=(2000, 2))
    (error, by_samples), (before, _) = scatters(X, pairs, rng.normal(size=2000))
    assert not by_samples
    assert error == before
    features = lay_out([X[:, :, None]], centre=True)
    sums = PairSums.of(features, *pairs.T, limits=BY_SAMPLES)
    assert not sums.form.is_accurate
    exact = PairSums.of(features, *pairs.T, limits=BY_PAIRS)
    V = [np.diag(rng.uniform(size=30))]
    assert_array_equal(sums.quadratic(V), exact.quadratic(V))


def test_the_distances_of_near_pairs_are_computed_from_differences():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 1, 20))
    X[25:] = X[:25] + 1e-6 * rng.standard_normal((25, 1, 20))
    twins = np.column_stack([range(25), range(25, 50)])
    pairs = np.vstack([rng.integers(50, size=(300, 2)), twins])
    sums = PairSums.of([X], *pairs.T, limits=BY_SAMPLES)
    exact = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=(1, 2))
    assert sums.form.is_accurate
    found = sums.evaluate(lambda part, d: d)
    assert_allclose(found.distances, exact, rtol=1e-12)
    expected = PairSums.of([X], *twins.T, limits=BY_PAIRS).distances()
    assert_array_equal(found.distances[-25:], expected)
    found = sums.evaluate(lambda part, d: 1.0 * (d < 1e-3))  # the scatter is over differences
    assert_allclose(found.reach()[-25:], np.sqrt(exact[-25:]), rtol=1e-12)


def test_the_ratio_of_norms_and_distances_decides():
    X = np.zeros((4, 1, 1))
    X[:, 0, 0] = [1.0, 1.0 + 1e-2, -1.0, -1.0 - 1e-2]
    near, far = np.array([[0, 1], [2, 3]]), np.array([[0, 2], [1, 3]])
    for pairs, accurate in ((near, False), (far, True)):
        sums = PairSums.of([X], *pairs.T, limits=BY_SAMPLES)
        assert sums.form.is_accurate == accurate
        assert (sums.evaluate(lambda part, d: np.ones(2)).reach is not None) == accurate
    both = PairSums.of([X], *np.vstack([near, far]).T, limits=BY_SAMPLES)
    found = both.evaluate(lambda part, d: np.array([1.0, 1.0, 0.0, 0.0]))
    # Only the pairs with a weight count for the scatter; the distances of far pairs are expanded.
    assert_allclose(found.reach(), [1e-2, 1e-2, 2.0, 2.02], rtol=1e-12)
    assert 4 / 1e-4 > LARGEST_NORMS > 4 / 4


def test_the_reach_bounds_the_numbers_that_cancel():
    case = random_case(SHAPES["two ragged"], n_pairs=N_PAIRS)
    sums = sums_of(case)
    found = sums.evaluate(lambda part, d: d)
    assert np.all(found.reach() >= np.sqrt(found.distances) * (1 - 1e-12))
    norms = np.sqrt(sum(np.sum(block**2, axis=(1, 2)) for block in sums.features.blocks) / 2)
    assert_allclose(found.reach(), norms[case.pairs].sum(axis=1))
    n_terms, fewer = (n_roundings(s, N_PAIRS) for s in (sums, sums.over_differences()))
    assert n_terms > fewer


# The choice


@pytest.mark.parametrize(
    ("n", "width", "n_samples", "n_pairs", "expected"),
    [
        (512, 1, 20_000, 100_000, True),
        (512, 1, 20_000, 20_000, False),
        (64, 1, 5_000, 100_000, True),
        (16, 1, 5_000, 100_000, True),
        (16, 1, 20_000, 20_000, False),
        (9, 9, 20_000, 100_000, True),
        (9, 9, 200, 2_000, False),
        (64, 1, 200, 2_000, True),
        (32, 32, 2_000, 40_000, True),
    ],
)
def test_the_form_follows_the_operations(n, width, n_samples, n_pairs, expected):
    index = np.zeros(n_pairs, dtype=int)
    features = np.broadcast_to(np.zeros(1), (n_samples, width, n))
    sums = PairSums.of([features], index, index)
    assert (sums.form is not None) == expected


def test_differences_and_late_factors_have_no_samples(case):
    sums = sums_of(case, eager_bytes=0)
    assert sums.transformed(random_factors(case)).form is None
    assert PairSums.of(sums.features.blocks, limits=BY_SAMPLES).form is None


# Whole problems


@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_solution_and_its_proof_are_those_of_differences(shape, linear_solver):
    case = random_case(SHAPES[shape], n_pairs=N_PAIRS, C=5.0, weights=True, prior=True)
    solver = Newton(linear_solver=linear_solver)
    found, expected = (
        solver.solve(limited(case.problem(), by_samples=by_samples), tol=1e-12)
        for by_samples in (True, False)
    )
    assert found.converged
    assert_allclose(found.primal, expected.primal, rtol=1e-10)
    assert_allclose(found.b0, expected.b0, rtol=1e-7)
    for W, other in zip(found.W, expected.W, strict=True):
        assert_allclose(W, other, atol=1e-7 * np.abs(other).max())
    assert found.primal - found.gap <= expected.primal * (1 + 1e-12)


@pytest.fixture
def by_samples(monkeypatch):
    """Every sum over index pairs is by samples."""
    monkeypatch.setattr(sums_module, "saved_by_samples", lambda *sizes: inf)
    calls, scatter = [], PairGraph.scatter
    monkeypatch.setattr(
        PairGraph, "scatter", lambda self, *args: calls.append(1) or scatter(self, *args)
    )
    return calls


@pytest.mark.parametrize("compute", [None, Compute(max_memory="40MB")])
@pytest.mark.parametrize("alone", [True, False])
def test_comparisons(by_samples, monkeypatch, alone, compute):
    case = compared_case(SHAPES["two ragged"], alone=alone, n_comparisons=60)
    found = case.learn(compute=compute)
    assert by_samples
    monkeypatch.undo()
    expected = case.learn(compute=compute)
    assert_allclose(found.primal, expected.primal, rtol=1e-10)
    for W, other in zip(found.W, expected.W, strict=True):
        assert_allclose(W, other, atol=1e-6 * np.abs(other).max())


def test_links_are_a_matrix_with_one_pair_minus_another_in_each_row():
    rng = np.random.default_rng(0)
    plus, minus = rng.integers(7, size=(2, 20))
    R = np.eye(7)[plus] - np.eye(7)[minus]
    links, v, s = Links(plus, minus), rng.normal(size=7), rng.normal(size=20)
    G = rng.normal(size=(7, 7))
    assert_allclose(links.differences(v), R @ v, atol=1e-14)
    assert_allclose(links.pair_weights(s, 7), R.T @ s, atol=1e-14)
    assert_allclose(links.gram(G), R @ G @ R.T, atol=1e-14)
    assert_allclose(links.norms(v), np.hypot(v[plus], v[minus]))


def test_svec_rows_of_comparisons_are_their_differences():
    case = random_case(SHAPES["two ragged"], n_pairs=30)
    pairs, links = sums_of(case), Links(*np.random.default_rng(0).integers(30, size=(2, 50)))
    expected = links.differences(SvecRows(pairs).kept)
    for chunk_bytes in (1, 2**20):
        rows = SvecRows(ComparisonSums(sums_of(case, chunk_bytes=chunk_bytes), links))
        assert_allclose(rows.kept, expected, atol=1e-13)
        assert rows.evaluate([np.eye(3), np.eye(2)], lambda part, d: d) is None  # digits cancel


def test_sums_over_comparisons():
    case = random_case(SHAPES["two ragged"], n_pairs=30)
    rng = np.random.default_rng(0)
    links = rng.integers(30, size=(2, 50))
    V, s = random_matrices(case), rng.normal(size=50)
    pairs = sums_of(case)
    both = pairs, pairs.over_differences()
    found, expected = (ComparisonSums(of, Links(*links)) for of in both)
    q, S = found.product(V, np.abs(s), s)
    q_expected, S_expected = expected.product(V, np.abs(s), s)
    assert_allclose(q, q_expected, rtol=1e-9, atol=1e-11)
    assert_close(S, S_expected)
    found, expected = (sums.evaluate(lambda part, d: s[part]) for sums in (found, expected))
    assert_close(found.scatter, expected.scatter)
    assert np.all(found.reach() >= expected.reach() * (1 - 1e-12))


def test_pairs_in_shards(by_samples, monkeypatch):
    case = random_case(SHAPES["two ragged"], n_pairs=400, n_samples=30, C=0.5)
    arguments = (case.blocks, case.pairs, case.similar)
    options = {"C": 0.5, "tol": 1e-12, "compute": Compute(max_memory="20MB")}
    found = learn_metric(*arguments, **options)
    assert by_samples
    monkeypatch.undo()
    expected = learn_metric(*arguments, C=0.5, tol=1e-12)
    assert_allclose(found.b0, expected.b0, rtol=1e-8)
    assert_allclose(found.W[0], expected.W[0], atol=1e-8)
