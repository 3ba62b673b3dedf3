"""The Newton system in bounded memory: tiles of the Gram matrix, and svec(A_k) that are kept."""

import tracemalloc
from math import inf

import numpy as np
import pytest
from helpers import SHAPES, random_case, random_factors, random_point
from numpy.testing import assert_allclose
from test_linear import RTOL, at, explicit_matrix, flat, random_direction

import tatml._optim.linear_systems as linear
from tatml import Newton
from tatml._optim.hessian import ActivePairs
from tatml._optim.linear_systems import WoodburySystem, newton_system, pair_gram
from tatml._optim.pair_sums import PairSums
from tatml._svec import svec_size

TILED = {"tiled": [(9, 2), (4, 1)]}  # what the others have is mostly cheaper by svec


@pytest.fixture(params=SHAPES | TILED)
def shapes(request):
    return (SHAPES | TILED)[request.param]


@pytest.fixture(params=[0.1, inf], ids="c0={}".format)
def case(request, shapes):
    return random_case(shapes, c0=request.param, C=3.0, n_pairs=40, weights=True, prior=True)


# Woodbury


@pytest.mark.parametrize("tile", [1, 30, 80])
def test_tiles_are_the_gram_matrix(case, monkeypatch, tile):
    monkeypatch.setattr(linear, "TILE", tile)
    point, factors, (V, b) = at(case), random_factors(case), random_direction(case)
    assert point.n_active > np.sqrt(tile)
    solution = newton_system(point, factors, "woodbury").solve(V, b, RTOL)
    expected = np.linalg.solve(explicit_matrix(case, point, factors), flat(V, b))
    assert_allclose(flat(*solution), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("tile", [1, 100, 2**20])
def test_the_gram_matrix_is_that_of_the_pairs(case, monkeypatch, tile):
    """zₖᵀzₗ, (Gram), by loops over the pairs."""
    monkeypatch.setattr(linear, "TILE", tile)
    sums, M = case.with_(prior=None).problem().pairs.sums, len(case.arrays)
    gram = pair_gram(sums, -case.gamma / case.c0**0.5)
    Z = np.array(
        [
            np.concatenate([*(A[k].ravel() / M for A in case.A), [case.gamma[k] / case.c0**0.5]])
            for k in range(len(case.pairs))
        ]
    )
    assert_allclose(gram, Z @ Z.T, rtol=1e-10, atol=1e-12)


def peak_of_woodbury(n, width, k):
    """Bytes at the most while a system of k pairs of few samples is factorised."""
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(30, width, n)) / n]
    first = rng.integers(30, size=k)
    sums = PairSums(features, first, (first + 1 + rng.integers(29, size=k)) % 30)
    few = ActivePairs(sums.take(np.arange(5)), np.ones(5), np.ones(5), 1.0)
    WoodburySystem(few)  # fills the caches
    tracemalloc.start()
    try:
        WoodburySystem(ActivePairs(sums, np.ones(k), np.ones(k), 1.0))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("n", "width"), [(60, 60), (90, 6)])
def test_the_gram_matrix_needs_no_more_than_tiles(monkeypatch, n, width):
    """Room for some k × k matrices and svec(A_k), but not for all Δ or a K n' × K n' product."""
    k = 600
    room = 2 * svec_size(n) * k if linear.by_svec(n, width) else 2 * linear.TILE
    bound = 8 * (4 * k * k + room)
    tiled = peak_of_woodbury(n, width, k)
    monkeypatch.setattr(linear, "TILE", 10**12)
    monkeypatch.setattr("tatml._optim.pair_sums.CHUNK_BYTES", 10**12)
    assert tiled < bound < 0.7 * peak_of_woodbury(n, width, k)


def test_woodbury_is_not_chosen_where_it_would_hold_too_much(monkeypatch):
    case = random_case([(60, 1)], n_pairs=20, n_samples=50)
    point = case.problem().at(case.eyes, 0.5)
    assert newton_system(point, case.eyes, "auto").name == "woodbury"
    monkeypatch.setattr("tatml._optim.hessian.HELD_BYTES", 8 * 60 * point.n_active - 1)
    assert newton_system(point, case.eyes, "auto").name != "woodbury"


# What the problem keeps


@pytest.mark.parametrize("coordinates", ["of W", "others"])
def test_kept_rows_give_the_same_system(case, monkeypatch, coordinates):
    factors = case.eyes if coordinates == "of W" else random_factors(case)
    W, b0 = random_point(case)
    V, b = random_direction(case)
    systems, hessians = [], []
    for size in (2**26, 0):
        monkeypatch.setattr("tatml._optim.pair_sums.SVEC_BYTES", size)
        point = case.at(W, b0)
        assert (point.problem.pairs.sums.kept_svec_rows is None) == (size == 0)
        systems.append(newton_system(point, factors, "dense"))
        hessians.append(point.hessian(factors))
    assert_allclose(*hessians, rtol=1e-9, atol=1e-10)
    expected = np.linalg.solve(explicit_matrix(case, point, factors), flat(V, b))
    for system in systems:
        assert_allclose(flat(*system.solve(V, b, RTOL)), expected, rtol=1e-8, atol=1e-10)


def test_kept_rows_come_in_chunks(case, monkeypatch):
    point, factors = at(case), random_factors(case)
    assert point.problem.pairs.sums.kept_svec_rows is not None
    whole = point.hessian(factors)
    monkeypatch.setattr("tatml._optim.pair_sums.CHUNK_BYTES", 1)
    assert_allclose(point.hessian(factors), whole, rtol=1e-12, atol=1e-11)


def test_a_problem_too_large_to_keep_has_the_same_solution(monkeypatch):
    case = random_case(SHAPES["two ragged"], n_pairs=200, C=3.0, prior=True)
    kept = case.learn(solver=Newton(linear_solver="dense"))
    monkeypatch.setattr("tatml._optim.pair_sums.SVEC_BYTES", 0)
    found = case.learn(solver=Newton(linear_solver="dense"))
    assert_allclose(found.primal, kept.primal, rtol=1e-12)
    for V, W in zip(found.W, kept.W, strict=True):
        assert_allclose(V, W, rtol=1e-6, atol=1e-7)
