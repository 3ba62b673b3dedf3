"""The Newton system in bounded memory: tiles of the Gram matrix, and kept svec(A_k)."""

from math import inf, isfinite

import numpy as np
import pytest
from helpers import SHAPES, limited, random_case, random_factors, random_point
from memory_helpers import peak_memory
from numpy.testing import assert_allclose
from test_linear_systems import RTOL, at, explicit_matrix, flat, random_direction

from tatml import Newton
from tatml._optim.hessian import ActivePairs, SvecRows, by_svec, row_chunks
from tatml._optim.layout import READ, Limits
from tatml._optim.linear_systems import (
    FIRST_PRODUCTS,
    GRAM,
    LARGEST_MATRIX,
    WoodburySystem,
    fastest_system,
    newton_system,
    pair_gram,
    system_operations,
)
from tatml._optim.sums import PairSums
from tatml._svec import svec_size

# The Gram matrix of the first block is made by tiles; of most others it is cheaper by svec.
TILED = {"tiled": [(9, 2), (4, 1)]}


@pytest.fixture(params=SHAPES | TILED)
def case(request):
    shapes = (SHAPES | TILED)[request.param]
    c0 = inf if len(shapes) == 2 else 0.1
    return random_case(shapes, c0=c0, C=3.0, n_pairs=40, weights=True, prior=True)


def limited_at(case, **limits):
    """Return the view of a random point, in a problem with other limits."""
    problem = limited(case.problem(), **limits)
    W, b0 = random_point(case)
    return problem.at(problem.whitened([np.linalg.cholesky(matrix) for matrix in W]), b0)


# Woodbury


def test_tiles_are_the_gram_matrix(case):
    factors, (V, b) = random_factors(case), random_direction(case)
    for tile in (1, 30, 80):
        point = limited_at(case, tile_numbers=tile)
        assert point.n_active > np.sqrt(tile)
        solution = newton_system(point, factors, "woodbury").solve(V, b, RTOL)
        expected = np.linalg.solve(explicit_matrix(case, point, factors), flat(V, b))
        assert_allclose(flat(*solution), expected, rtol=1e-8, atol=1e-10)


def test_the_gram_matrix_is_that_of_the_pairs(case):
    """zₖᵀzₗ, (Gram), by loops over the pairs."""
    M, root = len(case.arrays), case.c0**0.5
    Z = np.array(
        [
            np.concatenate([*(A[k].ravel() / M for A in case.A), [case.gamma[k] / root]])
            for k in range(len(case.pairs))
        ]
    )
    for tile in (1, 100, 2**20):
        sums = limited(case.with_(prior=None).problem(), tile_numbers=tile).pairs.sums
        assert_allclose(pair_gram(sums, -case.gamma / root), Z @ Z.T, rtol=1e-10, atol=1e-12)


def pairs_of(n, width, k, **limits):
    """Return the sums over k random pairs of 30 samples of n × width numbers."""
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(30, width, n)) / n]
    first = rng.integers(30, size=k)
    second = (first + 1 + rng.integers(29, size=k)) % 30
    return PairSums.of(features, first, second, limits=Limits(**limits))


@pytest.mark.parametrize(("tile", "pairs_per_tile"), [(0, 1), (15, 1), (16, 2), (36, 3), (900, 15)])
def test_a_tile_has_as_many_pairs_as_fit_into_its_limit(monkeypatch, tile, pairs_per_tile):
    """A tile of p × p pairs has (p n')² numbers; the smallest is that of one pair."""
    sums, parts, rows = pairs_of(9, 2, 20, tile_numbers=tile), [], PairSums.rows
    assert not by_svec(9, 2)
    monkeypatch.setattr(PairSums, "rows", lambda self, part: parts.append(part) or rows(self, part))
    pair_gram(sums, np.ones(20))
    assert [part.start for part in parts] == [*range(0, 20, pairs_per_tile)]
    assert max(part.stop - part.start for part in parts) == pairs_per_tile


def peak_of_woodbury(n, width, k, **limits):
    """Return the bytes allocated at most while a system of k pairs is factorised."""
    sums = pairs_of(n, width, k, **limits)
    few = ActivePairs(sums.take(np.arange(5)), np.ones(5), np.ones(5), 1.0)
    WoodburySystem(few)  # fills the caches
    return peak_memory(lambda: WoodburySystem(ActivePairs(sums, np.ones(k), np.ones(k), 1.0)))[0]


@pytest.mark.parametrize(("n", "width"), [(40, 40), (60, 4)])
def test_the_gram_matrix_needs_no_more_than_tiles(n, width):
    """Room for some k × k matrices and svec(A_k), not for all Δ or a K n' × K n' product."""
    k, tile = 300, 2**17
    room = 2 * svec_size(n) * k if by_svec(n, width) else 2 * tile
    bound = 8 * (4 * k * k + room)
    tiled = peak_of_woodbury(n, width, k, tile_numbers=tile)
    unlimited = peak_of_woodbury(n, width, k, tile_numbers=10**12, chunk_bytes=10**12)
    assert tiled < bound < 0.7 * unlimited


def test_woodbury_is_not_chosen_where_it_would_hold_too_much():
    case = random_case([(60, 1)], n_pairs=20, n_samples=50)
    n_active = case.problem().at(case.eyes, 0.5).n_active
    held = 8 * 60 * n_active
    for gram_bytes, chosen in ((held, True), (held - 1, False)):
        point = limited(case.problem(), gram_bytes=gram_bytes).at(case.eyes, 0.5)
        assert (newton_system(point, case.eyes, "auto").name == "woodbury") == chosen


def test_no_way_forms_a_matrix_with_too_many_rows():
    n = next(n for n in range(200) if svec_size(n) + 1 > LARGEST_MATRIX)
    for n_rows, allowed in ((n - 1, True), (n, False)):
        counts = system_operations([(n_rows, 1)], 10, 10, False, 20)
        assert isfinite(counts["dense"]) == allowed
    exactly = [(109, 1), (2, 1), (1, 1)]  # d = 5995 + 3 + 1 + 1 = 6000
    assert isfinite(system_operations(exactly, 10, 10, False, 20)["dense"])
    assert not isfinite(system_operations([*exactly, (1, 1)], 10, 10, False, 20)["dense"])
    for k, allowed in ((LARGEST_MATRIX, True), (LARGEST_MATRIX + 1, False)):
        assert isfinite(system_operations([(2, 1)], k, k, False, 20)["woodbury"]) == allowed


# Kept svec(A_k)


def test_kept_rows_give_the_same_system(case):
    V, b = random_direction(case)
    for factors in (case.eyes, random_factors(case)):
        hessians = []
        for size in (2**26, 0):
            point = limited_at(case, svec_bytes=size)
            assert (point.problem.pairs.rows.kept is None) == (size == 0)
            hessians.append(point.hessian(factors))
            solution = newton_system(point, factors, "dense").solve(V, b, RTOL)
            expected = np.linalg.solve(explicit_matrix(case, point, factors), flat(V, b))
            assert_allclose(flat(*solution), expected, rtol=1e-8, atol=1e-10)
        assert_allclose(*hessians, rtol=1e-9, atol=1e-10)


def test_kept_rows_are_summed_in_chunks(case):
    factors = random_factors(case)
    point = limited_at(case, chunk_bytes=1)
    assert point.problem.pairs.rows.kept is not None
    assert_allclose(point.hessian(factors), at(case).hessian(factors), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(("chunk_bytes", "step"), [(0, 16), (8 * 6 * 20, 20), (2**20, 50)])
def test_a_chunk_of_kept_rows_has_as_many_pairs_as_fit_into_its_limit(chunk_bytes, step):
    sums = pairs_of(3, 1, 50, chunk_bytes=chunk_bytes)
    parts = [part for part, _ in row_chunks(SvecRows(sums).kept, sums.features.room)]
    assert [part.start for part in parts] == [*range(0, 50, step)]
    assert max(part.stop - part.start for part in parts) == step


def test_a_problem_too_large_to_keep_has_the_same_solution():
    case = random_case(SHAPES["two ragged"], n_pairs=200, C=3.0, prior=True)
    solver = Newton(linear_solver="dense")
    kept = case.learn(solver=solver)
    found = solver.solve(limited(case.problem(), svec_bytes=0), tol=1e-12)
    assert_allclose(found.primal, kept.primal, rtol=1e-12)
    for V, W in zip(found.W, kept.W, strict=True):
        assert_allclose(V, W, rtol=1e-6, atol=1e-7)


def test_operations_are_those_of_the_formulas():
    """One block of 3 rows and width 2: d = 7; svec(A_k) has 6 entries."""
    counts = system_operations([(3, 2)], 100, 100, False, 20)
    assert counts["dense"] == pytest.approx(100 * 7**2 + 7**3 / 3)
    assert counts["woodbury"] == pytest.approx(GRAM * (100**2 * 6 + 100**3 / 3))
    assert counts["cg"] == pytest.approx(20 * 100 * 3 * 2 * (2 * 3 + READ))
    many = system_operations([(3, 2), (2, 1)], 10_000, 300, True, 20)
    assert many["dense"] == pytest.approx(5000 * 10**2 + 10**3 / 3)  # of 500 · 10 sampled pairs
    rows = 6 * (2 * 3 * 300 + READ * 10_000) + 2 * (2 * 2 * 300 + READ * 10_000)
    assert many["cg"] == pytest.approx(20 * rows)


def test_the_way_with_the_fewest_operations_is_taken():
    """Few pairs: the matrix of the pairs; few dimensions: dense; both large: no matrix at all."""
    cases = [([(6, 1)], 8, "woodbury"), ([(4, 1)], 200, "dense"), ([(60, 1)], 2_000, "cg")]
    for shapes, n_pairs, expected in cases:
        case = random_case(shapes, n_pairs=n_pairs, n_samples=100, C=1e-3)
        point = case.problem().at(case.eyes, 0.5)
        assert fastest_system(point, False, FIRST_PRODUCTS) == expected
    assert fastest_system(point, False, 10_000) != "cg"
