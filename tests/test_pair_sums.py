"""Sums over pairs equal explicit loops, however the pairs are stored and cut into chunks."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from helpers import SHAPES, limited, random_case, random_factors, random_matrices, random_point
from memory_helpers import peak_memory
from numpy.testing import assert_allclose, assert_array_equal

from tatml import Newton
from tatml._optim import layout
from tatml._optim import sums as sums_module
from tatml._optim.hessian import SvecRows, svec_chunks
from tatml._optim.layout import Limits
from tatml._optim.linear_systems import _svec_rows
from tatml._optim.sums import (
    SMALLEST_CHUNK,
    ComparisonSums,
    Links,
    PairSums,
    longest_row,
    row_errors,
)
from tatml._svec import svec, svec_size, unsvec

N_PAIRS = 50

# Chunks of as few pairs as possible; factors that are applied to each chunk.
LIMITS = {
    "default": Limits(),
    "small chunks": Limits(chunk_bytes=1),
    "late factors": Limits(chunk_bytes=1, eager_bytes=0),
}


def features_of(case):
    return [np.ascontiguousarray(np.swapaxes(array, 1, 2)) for array in case.arrays]


def as_samples(case, limits=LIMITS["default"]):
    return PairSums.of(features_of(case), case.pairs[:, 0], case.pairs[:, 1], limits=limits)


def as_differences(case, limits=LIMITS["default"]):
    i, j = case.pairs.T
    return PairSums.of([block[i] - block[j] for block in features_of(case)], limits=limits)


WAYS = {"samples": as_samples, "differences": as_differences}


@pytest.fixture(params=zip(SHAPES, product(WAYS, LIMITS), strict=True), ids=str)
def case_and_sums(request):
    """Every shape once, and every way to store pairs with every limit once."""
    shape, (way, limits) = request.param
    case = random_case(SHAPES[shape], n_pairs=N_PAIRS)
    return case, WAYS[way](case, LIMITS[limits])


def moved(case, factors):
    """Return the case of the features GᵀΦ."""
    return case.with_(arrays=[G.T @ array for G, array in zip(factors, case.arrays, strict=True)])


def assert_matrices_allclose(got, expected, **tolerance):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other, **{"rtol": 1e-12, "atol": 1e-12} | tolerance)


# Against loops


def test_sizes(case_and_sums):
    case, sums = case_and_sums
    assert sums.n_pairs == N_PAIRS
    assert sums.features.n_blocks == len(case.arrays)
    assert [*sums.features.sizes] == case.sizes
    assert [*sums.features.widths] == [array.shape[2] for array in case.arrays]


def test_distances_and_quadratic_forms(case_and_sums):
    case, sums = case_and_sums
    V = random_matrices(case)
    assert_allclose(sums.distances(), case.distances(case.eyes), rtol=1e-12)
    assert_allclose(sums.quadratic(V), case.distances(V), rtol=1e-11, atol=1e-13)


def test_scatter(case_and_sums):
    """Of multipliers of which all, few or none differ from zero."""
    case, sums = case_and_sums
    rng, V = np.random.default_rng(2), random_matrices(case)
    for share in (1.0, 0.2, 0.0):
        s = rng.normal(size=N_PAIRS) * (rng.uniform(size=N_PAIRS) < share)
        scatter = sums.scatter(s)
        assert_matrices_allclose(scatter, case.scatter(s))
        for S in scatter:
            assert_array_equal(S, S.T)
        inner = sum(np.sum(S * v) for S, v in zip(scatter, V, strict=True))
        assert_allclose(inner, s @ sums.quadratic(V), rtol=1e-11, atol=1e-13)  # adjoint


def test_distances_and_scatter_in_one_pass(case_and_sums):
    case, sums = case_and_sums
    factor = np.random.default_rng(2).normal(size=N_PAIRS)
    D = case.distances(case.eyes)
    distances, _, scatter, *_ = sums.evaluate(lambda part, d: factor[part] * d)
    assert_allclose(distances, D, rtol=1e-12)
    assert_matrices_allclose(scatter, case.scatter(factor * D))


def test_a_product_in_one_pass(case_and_sums):
    case, sums = case_and_sums
    rng, V = np.random.default_rng(0), random_matrices(case)
    weights, shift = rng.uniform(size=N_PAIRS), rng.normal(size=N_PAIRS)
    expected = weights * (case.distances(V) + shift)
    q, S = sums.product(V, weights, shift)
    assert_allclose(q, expected, rtol=1e-11)
    assert_matrices_allclose(S, case.scatter(expected), rtol=1e-10)


def test_svec_rows(case_and_sums):
    case, sums = case_and_sums
    V = random_matrices(case)
    stacked = np.concatenate([svec(v) for v in V])
    rows = np.concatenate([rows for _, rows in svec_chunks(sums, 0)])
    assert rows.shape == (N_PAIRS, sum(map(svec_size, case.sizes)))
    assert_allclose(rows @ stacked, case.distances(V), rtol=1e-11, atol=1e-13)


def test_transformed_features(case_and_sums):
    case, sums = case_and_sums
    G, H = (random_factors(case, seed) for seed in (4, 5))
    s, chosen = np.random.default_rng(6).normal(size=N_PAIRS), np.array([7, 3, 3, 41])
    once, twice = sums.transformed(G), sums.transformed(G).transformed(H)
    for result, expected in [(once, moved(case, G)), (twice, moved(moved(case, G), H))]:
        assert_allclose(result.distances(), expected.distances(case.eyes), rtol=1e-11)
        assert_matrices_allclose(result.scatter(s), expected.scatter(s), rtol=1e-11)
        some = expected.with_(pairs=case.pairs[chosen]).distances(case.eyes)
        assert_allclose(result.take(chosen).distances(), some, rtol=1e-11)


def test_no_difference_is_longer_than_the_bound(case_and_sums):
    case, sums = case_and_sums
    for each in (sums, sums.transformed([10 * eye for eye in case.eyes])):
        longest = np.sqrt(each.distances().max())
        assert longest <= longest_row(each) <= 10 * longest


@pytest.mark.parametrize("shape", ["vectors", "three ragged"])
def test_the_bound_of_a_pair_is_twice_the_longest_sample_and_that_of_a_comparison_two_pairs(shape):
    sums = as_samples(random_case(SHAPES[shape], n_pairs=N_PAIRS))
    longest = [np.max(np.sum(block**2, axis=(1, 2))) for block in sums.features.blocks]
    expected = 2 * np.sqrt(np.mean(longest))  # block by block
    assert_allclose(longest_row(sums), expected)
    compared = ComparisonSums(sums, Links(np.arange(2), np.arange(1, 3)))
    assert_allclose(longest_row(compared), sqrt(2) * expected)


def test_some_pairs_and_single_blocks(case_and_sums):
    case, sums = case_and_sums
    chosen = np.array([7, 3, 3, 41])
    some = case.with_(pairs=case.pairs[chosen])
    assert_allclose(sums.take(chosen).distances(), some.distances(case.eyes), rtol=1e-12)
    for m, array in enumerate(case.arrays):
        expected = case.with_(arrays=[array]).distances([case.eyes[m]])
        assert_allclose(sums.block(m).distances(), expected, rtol=1e-12)


def test_chunks_cover_every_pair_once(case_and_sums):
    _, sums = case_and_sums
    covered = [np.arange(N_PAIRS)[part] for part, _ in sums.chunks()]
    assert_array_equal(np.concatenate(covered), np.arange(N_PAIRS))


def test_every_derived_object_keeps_the_limits(case_and_sums):
    case, sums = case_and_sums
    derived = [
        sums.transformed(random_factors(case)),
        sums.take(np.array([1, 2])),
        sums.block(0),
    ]
    assert all(other.features.limits is sums.features.limits for other in derived)


@pytest.mark.parametrize("n_samples", [8, N_PAIRS, N_PAIRS + 1])
def test_compact_sums_store_whichever_is_smaller(n_samples):
    case = random_case([(3, 2)], n_pairs=N_PAIRS, n_samples=n_samples)
    sums = PairSums.of(features_of(case), case.pairs[:, 0], case.pairs[:, 1]).compact()
    assert sums.features.n_rows == min(n_samples, N_PAIRS)
    assert_allclose(sums.distances(), case.distances([np.eye(3)]), rtol=1e-12)


@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
def test_results_do_not_depend_on_the_limits(linear_solver):
    case = random_case([(3, 2), (2, 1)], n_pairs=200, weights=True, prior=True)
    solver = Newton(linear_solver=linear_solver)
    expected = case.learn(solver=solver)
    for limits in ({"chunk_bytes": 1}, {"chunk_bytes": 1, "eager_bytes": 0, "svec_bytes": 0}):
        result = solver.solve(limited(case.problem(), **limits), tol=1e-12)
        assert_matrices_allclose(result.W, expected.W)
        assert_allclose([result.b0, result.primal], [expected.b0, expected.primal], rtol=1e-10)
        assert_array_equal(result.active, expected.active)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS)
def test_sums_work_on_strict_arrays(way, limits):
    xp = pytest.importorskip("array_api_strict")
    case = random_case([(3, 2), (2, 4)], n_pairs=N_PAIRS)
    plain = WAYS[way](case, LIMITS[limits])
    strict = plain.placed(xp.asarray([0.0]))
    V, G = random_matrices(case), random_factors(case)
    s, chosen = np.random.default_rng(2).normal(size=N_PAIRS), np.array([7, 3, 41])
    for ours, theirs in [
        (plain, strict),
        (plain.transformed(G), strict.transformed([xp.asarray(g) for g in G])),
    ]:
        assert_allclose(np.asarray(theirs.distances()), ours.distances(), rtol=1e-12)
        quadratic = theirs.quadratic([xp.asarray(v) for v in V])
        assert_allclose(np.asarray(quadratic), ours.quadratic(V), rtol=1e-11, atol=1e-13)
        scatter = theirs.scatter(xp.asarray(s))
        assert_matrices_allclose([np.asarray(S) for S in scatter], ours.scatter(s))
        part = theirs.take(xp.asarray(chosen))
        assert_allclose(np.asarray(part.distances()), ours.take(chosen).distances(), rtol=1e-12)
    rows = strict.svec_rows(slice(0, 5))
    assert_allclose(np.asarray(rows), plain.svec_rows(slice(0, 5)), rtol=1e-12)
    assert_allclose(np.asarray(unsvec(svec(xp.asarray(V[0])), len(V[0]))), V[0], rtol=1e-14)


# Memory


def sums_of(n_pairs, n, width, **limits):
    """Return the sums over random pairs of 20 samples of n × width numbers."""
    rng = np.random.default_rng(0)
    first = rng.integers(20, size=n_pairs)
    second = (first + rng.integers(1, 20, size=n_pairs)) % 20
    features = [rng.normal(size=(20, width, n))]
    return PairSums.of(features, first, second, limits=Limits(**limits))


def test_a_chunk_has_as_many_pairs_as_fit_into_its_limit():
    numbers = 6  # of a pair
    for pairs_per_chunk in (16, 17, 40):
        sums = sums_of(100, 3, 2, chunk_bytes=8 * numbers * pairs_per_chunk + 1)
        sizes = [part.stop - part.start for part, _ in sums.chunks()]
        assert sizes[0] == pairs_per_chunk
        assert max(sizes) == pairs_per_chunk
        # Work on 8 times as many numbers per pair may use four chunks' room.
        sizes = [part.stop - part.start for part, _ in sums.chunks(numbers_per_pair=8 * numbers)]
        assert max(sizes) == max(SMALLEST_CHUNK, pairs_per_chunk // 2)


def test_a_chunk_has_sixteen_pairs_at_least():
    sizes = [part.stop - part.start for part, _ in sums_of(40, 3, 2, chunk_bytes=0).chunks()]
    assert sizes == [16, 16, 8]


def test_features_above_the_limit_are_multiplied_chunk_by_chunk():
    size, G = 8 * 20 * 3 * 2, [np.eye(3)]
    assert sums_of(100, 3, 2, eager_bytes=size).transformed(G).features.factors is None
    late = sums_of(100, 3, 2, eager_bytes=size - 1).transformed(G)
    assert late.features.factors is G
    assert late.features.like.shape == (20, 2, 3)


def kept(*sizes, **limits):
    return SvecRows(sums_of(*sizes, **limits)).kept


def test_svec_rows_are_kept_within_their_limits():
    size = 8 * 100 * svec_size(3)
    assert kept(100, 3, 2, svec_bytes=size).shape == (100, svec_size(3))
    assert kept(100, 3, 2, svec_bytes=size - 1) is None
    assert kept(100, 3, 2, svec_width=svec_size(3)) is not None
    assert kept(100, 3, 2, svec_width=svec_size(3) - 1) is None


@pytest.mark.parametrize("n_chunks", [1, 2, 3])
def test_svec_rows_of_several_chunks_are_those_of_all_pairs(n_chunks):
    sums = sums_of(n_chunks * SMALLEST_CHUNK, 3, 2, chunk_bytes=0)
    assert len([*sums.chunks()]) == n_chunks
    expected = sums.svec_rows(slice(0, sums.n_pairs))
    assert_allclose(_svec_rows(sums), expected, rtol=1e-12)


def test_the_default_limits_bound_what_a_problem_keeps():
    """Sums just above the limits, whose arrays would be large, keep nothing."""
    default = Limits()
    assert kept(default.svec_bytes // (8 * svec_size(10)) + 1, 10, 1) is None
    assert kept(30, 25, 1) is None  # 325 numbers per pair
    sums = sums_of(20_000, 10, 1)
    assert max(part.stop - part.start for part, _ in sums.chunks()) == default.chunk_bytes // 80


@pytest.fixture
def fake_gpu(monkeypatch):
    """Pretend that arrays are on a GPU; return a function that sets its free memory."""
    free = {"bytes": 2**30}
    for module in (sums_module, layout):
        monkeypatch.setattr(module, "on_gpu", lambda array: True)
    monkeypatch.setattr(layout, "free_bytes", lambda array: free["bytes"])
    return lambda size: free.update(bytes=size)


def test_on_a_gpu_limits_depend_on_its_free_memory(fake_gpu):
    size, G = 8 * 20 * 3 * 2, [np.eye(3)]
    fake_gpu(8 * size)
    assert sums_of(100, 3, 2, eager_bytes=0).transformed(G).features.factors is None
    fake_gpu(8 * size - 8)
    assert sums_of(100, 3, 2).transformed(G).features.factors is G
    sums = sums_of(100, 3, 2, chunk_bytes=1, gpu_chunk_bytes=8 * 6 * 30)
    assert max(part.stop - part.start for part, _ in sums.chunks()) == 30


@pytest.mark.parametrize("limits", LIMITS)
def test_a_gpu_holds_differences_where_it_has_room(fake_gpu, limits):
    case = random_case([(3, 2), (2, 4)], n_pairs=N_PAIRS)
    options = vars(LIMITS[limits]) | {"gpu_chunk_bytes": LIMITS[limits].chunk_bytes}
    sums = as_samples(case, Limits(**options)).transformed(random_factors(case))
    size, V = 8 * N_PAIRS * sums.features.numbers_per_row, random_matrices(case)
    fake_gpu(8 * size)
    held = sums.held()
    assert held.graph is None
    assert held.features.factors is None
    assert held.features.n_rows == N_PAIRS
    assert held.held() is held
    assert held.features.limits is sums.features.limits
    one = np.ones(N_PAIRS)
    (q, S), (expected, T) = (each.product(V, one, one) for each in (held, sums))
    assert_allclose(q, expected, rtol=1e-12)
    assert_matrices_allclose(S, T)
    fake_gpu(8 * size - 8)
    assert sums.held() is sums


def test_on_a_cpu_differences_are_not_held():
    sums = sums_of(100, 3, 2)
    assert sums.held() is sums


def test_rounding_errors_are_bounded_in_chunks():
    rng = np.random.default_rng(0)
    features, factor = [rng.normal(size=(2_000, 5, 8))], [np.eye(8)]
    whole = PairSums.of(features)
    chunked = PairSums.of(features, limits=Limits(chunk_bytes=8 * 40 * 100))
    assert_allclose(row_errors(chunked, factor), row_errors(whole, factor), rtol=1e-14)
    assert peak_memory(row_errors, chunked, factor)[0] < features[0].nbytes / 2
    assert peak_memory(row_errors, whole, factor)[0] > features[0].nbytes / 2


def test_rounding_errors_hold_that_of_stored_numbers_where_it_is_larger():
    """(n + 8) u of float64 times the length, here 5, and the u of float32 for such features."""
    for dtype, stored in ((np.float64, 0.0), (np.float32, 2.0**-24)):
        sums = PairSums.of([np.array([[[3.0, 4.0]]], dtype)])
        assert_allclose(row_errors(sums, [np.eye(2)]), 5 * (10 * 2.0**-53 + stored), rtol=1e-12)


def test_no_array_of_all_differences_is_held():
    n_pairs, n, width = 10_000, 10, 40
    case = random_case([(n, width)], n_pairs=n_pairs, n_samples=60, C=1e-3)
    peak, result = peak_memory(case.learn, tol=1e-6)
    assert result.converged
    assert peak < 0.5 * (8 * n_pairs * n * width)


# Distances from the kept svec(A_k)


def zero(part, distances):
    return 0 * distances


def test_distances_and_scatter_of_few_pairs_come_from_the_kept_rows():
    """As from differences; where digits would cancel, they come from differences."""
    case = random_case([(3, 2), (2, 1)], n_pairs=40, C=0.5)
    W, b0 = random_point(case)
    L = [np.linalg.cholesky(matrix) for matrix in W]
    by_rows, plain = (
        limited(case.problem(), **limits).pairs.at(L, b0) for limits in ({}, {"svec_bytes": 0})
    )
    assert by_rows.term.rows.evaluate(L, zero) is not None
    assert plain.term.rows.evaluate(L, zero) is None
    assert_allclose(by_rows.evaluation.distances, plain.evaluation.distances, rtol=1e-12)
    assert_allclose(by_rows.evaluation.s, plain.evaluation.s, rtol=1e-11, atol=1e-13)
    for found, expected in zip(by_rows.totals.scatter, plain.totals.scatter, strict=True):
        assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    found = by_rows.evaluation
    reach, terms = found.reach(), found.more_terms
    assert np.all(reach**2 >= found.distances * (1 - 1e-12))
    assert terms == 2 * (6 + 3 + 1)
    assert plain.evaluation[3:] == (None, 0)
    along = case.with_(
        arrays=[array * ([[0.0]] * (array.shape[1] - 1) + [[1.0]]) for array in case.arrays]
    )
    thin = [np.diag([*np.ones(len(factor) - 1), 1e-3]) for factor in L]
    few = along.problem().pairs.at(thin, b0)
    assert (
        few.term.rows.evaluate(thin, zero) is None
    )  # the differences are along the small eigenvalues of W
    assert few.evaluation[3:] == (None, 0)


def test_the_reach_of_kept_rows_bounds_the_terms_of_a_distance():
    """tr A_k tr W/M ≥ Σ |A_ij W_ij|/M, for W with large and small eigenvalues."""
    case = random_case([(3, 2), (2, 1)], n_pairs=40)
    term = case.problem().pairs
    L = [np.diag(np.geomspace(1, 30, n)) @ np.tril(np.ones((n, n))) for n in (3, 2)]
    rows = term.rows.kept
    W = np.concatenate([svec(factor @ factor.T) for factor in L])
    reach = term.rows.evaluate(L, zero).reach()
    assert np.all(reach**2 >= np.abs(rows) @ np.abs(W) * (1 - 1e-12))
