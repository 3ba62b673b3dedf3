"""A problem in shards is the problem in memory: the same sums, steps, solution and certificate."""

import sys
from math import inf

import numpy as np
import pytest
from helpers import (
    SHAPES,
    factors_of,
    largest_difference,
    random_case,
    random_factors,
    random_matrices,
    random_point,
)
from numpy.testing import assert_allclose
from shards_helpers import held_shards, sharded

import tatml._sharding.term
from tatml import Newton
from tatml._optim import newton as newton_module
from tatml._optim.linear_systems import newton_system
from tatml._optim.terms import Totals, add

TIGHT = 1e-16  # W is as exact as the square root of the gap
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(params=SHAPES)
def shapes(request):
    return SHAPES[request.param]


@pytest.fixture(params=[0.3, inf], ids="c0={}".format)
def case(request, shapes):
    return random_case(shapes, c0=request.param, C=3.0, weights=True, prior=True)


def both(case, seed=0):
    """The same point of the problem in memory and in shards."""
    W, b0 = random_point(case, seed)
    problems = case.problem(), sharded(case)
    return [problem.at(factors_of(problem, W), b0) for problem in problems]


def test_values_gradient_and_certificate_agree(case):
    for seed in range(3):
        whole, parts = both(case, seed)
        assert parts.n_active == whole.n_active > 0
        for name in ("primal", "threshold_slope", "gap", "dual"):
            assert_allclose(getattr(parts, name), getattr(whole, name), **EXACT)
        assert_allclose(parts.totals[:4], whole.totals[:4], **EXACT)
        assert largest_difference(parts.gradient, whole.gradient) < 1e-11
        for theta in (0.3, 1.0):
            assert_allclose(parts.conjugate(theta), whole.conjugate(theta), **EXACT)


@pytest.mark.parametrize("fused", [True, False], ids=["one pass", "two passes"])
@pytest.mark.parametrize("way", ["dense", "cg"])
def test_newton_directions_agree(case, way, fused, monkeypatch):
    monkeypatch.setattr(tatml._sharding.term, "FUSED_DIMENSION", 400 if fused else 0)
    whole, parts = both(case)
    factors, V = random_factors(case), random_matrices(case)
    b = 0.0 if case.c0 == inf else 0.7
    expected = newton_system(whole, factors, way).solve(V, b, 1e-13)
    found = newton_system(parts, factors, way).solve(V, b, 1e-13)
    assert largest_difference(found[0], expected[0]) < 1e-9
    assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-10)


def test_losses_along_a_direction_agree(case):
    whole, parts = both(case)
    V, b = random_matrices(case), 0.0 if case.c0 == inf else 0.7
    expected, found = whole.along(V, b), parts.along(V, b)
    for t in (0.01, 0.5, 3.0):
        assert_allclose(found.slope(t), expected.slope(t), **EXACT)
        assert_allclose(found.increase(t), expected.increase(t), **EXACT)
        assert expected.slope(t) > 0  # convex, so not the zeros of a direction without effect


@pytest.mark.parametrize("longest", [1e4, 0.01])
def test_the_start_agrees(case, longest):
    assert_allclose(
        sharded(case).scaled_start(longest), case.problem().scaled_start(longest), rtol=1e-12
    )


def test_without_active_pairs_the_system_is_the_identity():
    case = random_case(SHAPES["two ragged"])
    case = case.with_(similar=np.ones(len(case.pairs), dtype=bool))
    point, V = sharded(case).at(case.eyes, 1e3), random_matrices(case)
    assert point.n_active == 0
    for way in ("dense", "cg"):
        solution, b = newton_system(point, case.eyes, way).solve(V, 0.7, 1e-13)
        assert largest_difference(solution, V) == 0
        assert b == 0.7


@pytest.mark.parametrize("way", ["auto", "dense", "cg"])
def test_the_solution_is_the_same(case, way):
    expected = case.learn(tol=TIGHT)
    found = Newton(linear_solver=way).solve(sharded(case), tol=TIGHT)
    assert found.gap < 1e-14 * found.primal
    assert largest_difference(found.W, expected.W) < 1e-8
    assert_allclose(found.b0, expected.b0, rtol=1e-8)
    assert_allclose(found.primal, expected.primal, rtol=1e-10)
    assert found.active is None
    assert found.multipliers is None
    assert found.history["n_active"][-1] == len(expected.active)


def test_the_number_of_shards_does_not_matter():
    case = random_case([(4, 2)], n_pairs=300, n_samples=40, C=10.0)
    results = [
        Newton().solve(sharded(case, cuts), tol=TIGHT) for cuts in ([], [1], range(10, 300, 10))
    ]
    for result in results[1:]:
        assert largest_difference(result.W, results[0].W) < 1e-8
        assert_allclose(result.b0, results[0].b0, rtol=1e-8)


def test_damped_steps_work_in_shards(monkeypatch):
    """Without primal-dual steps, the exact line search has to do it all."""
    monkeypatch.setattr(newton_module, "PATIENCE", -1)
    monkeypatch.setattr(newton_module, "MOST_RESCUES", 0)
    case = random_case(SHAPES["two ragged"], C=5.0)
    expected, found = case.learn(tol=TIGHT), Newton().solve(sharded(case), tol=TIGHT)
    assert list(found.history["kind"][1:]) == ["damped"] * found.n_iter
    assert_allclose(found.history["length"][:4], expected.history["length"][:4], rtol=1e-6)
    assert found.gap < 1e-13
    assert largest_difference(found.W, expected.W) < 1e-8


def many_pairs():
    return random_case([(3, 1)], n_pairs=3_000, n_samples=100, C=0.1)


def test_a_sample_of_the_pairs_rehearses(monkeypatch):
    monkeypatch.setattr(newton_module, "SAMPLE", 300)
    monkeypatch.setattr(tatml._sharding.term, "PAIRS_PER_DIMENSION", 20)
    case = many_pairs()
    expected = case.learn(tol=TIGHT)
    problem = sharded(case, range(100, 3000, 100))
    found = Newton(random_state=0).solve(problem, tol=TIGHT)
    t, b0 = problem.scaled_start(1e4)
    assert found.history["gap"][0] < 0.1 * problem.at(case.eyes, b0).gap  # a good start
    assert t == 1
    assert largest_difference(found.W, expected.W) < 1e-8


def test_a_sample_stands_for_all_pairs():
    case = many_pairs()
    problem = sharded(case, [1000, 1500])
    sample = problem.sample(600, np.random.RandomState(0))
    assert sample.n_pairs == 600
    W, b0 = random_point(case)
    L = factors_of(problem, W)
    whole, some = problem.at(L, b0), sample.at(L, b0)
    assert_allclose(some.totals.loss, whole.totals.loss, rtol=0.3)
    assert_allclose(some.n_active / 600, whole.n_active / 3000, atol=0.1)


def test_a_sample_does_not_grow_with_the_number_of_shards():
    case = many_pairs()
    n_pairs = len(case.pairs)
    problem = sharded(case, range(1, n_pairs))  # one pair each
    sample = problem.sample(n_pairs // 10, np.random.default_rng(0))
    assert 0.8 < sample.n_pairs / (n_pairs // 10) < 1.2
    weight = np.sum(case.problem().pairs.loss.weight)
    assert np.sum(sample.pairs.loss.weight) == pytest.approx(weight, rel=0.2)
    assert problem.sample(1, np.random.default_rng(0)).n_pairs >= 1


def test_a_sampled_hessian_stands_for_all_pairs(monkeypatch):
    monkeypatch.setattr(tatml._sharding.term, "PAIRS_PER_DIMENSION", 40)
    case = many_pairs()
    point = sharded(case, [1000, 1500]).at(case.eyes, 0.5)
    (part,) = point.parts
    assert part._known_hessian(sampled=True) is not None
    assert part._known_hessian(sampled=False) is None
    sampled, exact = (point.hessian(case.eyes, rng) for rng in (np.random.default_rng(0), None))
    error = np.linalg.norm(sampled - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.2


def test_results_are_added_part_by_part():
    a = (1, 2.5, [np.ones(2), np.zeros((2, 2))])
    total = add(a, add(a, a))
    assert total[:2] == (3, 7.5)
    assert_allclose(total[2][0], [3, 3])
    named = Totals(1.0, 2.0, 3.0, 4, [np.ones(2)])
    twice = add(named, named)
    assert (twice.loss, twice.n_active, twice.scatter[0][0]) == (2.0, 8, 2.0)


def test_a_piece_knows_how_large_it_is():
    piece = held_shards(many_pairs(), [])[0].load(None)
    arrays = (*piece.sums.features, piece.sums.first, piece.sums.second, piece.similar)
    held = sum(array.nbytes for array in arrays)
    assert held <= sys.getsizeof(piece) < 3 * held
