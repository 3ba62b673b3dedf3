"""A problem in shards is the problem in memory: the same sums, steps, solution and certificate."""

import sys
from dataclasses import replace
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
from numpy.testing import assert_allclose, assert_array_equal
from sharding_helpers import TIGHT, assert_same, every_case, held_shards, sharded

from tatml import Newton
from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim import newton as newton_module
from tatml._optim.hessian import dimension
from tatml._optim.linear_systems import fastest_system, newton_system
from tatml._optim.problem import build_pair_sums
from tatml._optim.terms import Totals
from tatml._sharding.base import Device, SerialExecutor, _each_array, add
from tatml._sharding.chunks import PairChunks, chunk_piece
from tatml._sharding.samples import as_shared_samples
from tatml._sharding.term import FUSED_DIMENSION, shard_hessian

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def both(case, seed=0):
    """Return one point of the problem in memory and in shards."""
    W, b0 = random_point(case, seed)
    problems = case.problem(), sharded(case)
    return [problem.at(factors_of(problem, W), b0) for problem in problems]


def test_values_gradient_and_certificate_agree():
    for name, case in every_case():
        for seed in range(2):
            whole, parts = both(case, seed)
            assert parts.n_active == whole.n_active > 0, name
            for value in ("primal", "threshold_slope", "gap"):
                found, expected = getattr(parts, value), getattr(whole, value)
                assert_allclose(found, expected, **EXACT, err_msg=f"{value} of {name}")
            assert_allclose(parts.term.totals[:4], whole.term.totals[:4], **EXACT, err_msg=name)
            assert largest_difference(parts.gradient, whole.gradient) < 1e-11, name
            for theta in (0.3, 1.0):
                found, expected = parts.term.conjugate(theta), whole.term.conjugate(theta)
                assert_allclose(found, expected, **EXACT, err_msg=name)


def test_smoothed_losses_agree():
    case = random_case(SHAPES["two ragged"])
    for smoothing in (0.1, 10.0):
        whole, parts = (problem.smoothed(smoothing) for problem in (case.problem(), sharded(case)))
        whole, parts = (problem.at(case.eyes, case.mu0) for problem in (whole, parts))
        assert_allclose(parts.threshold_slope, whole.threshold_slope, **EXACT)
        assert largest_difference(parts.gradient, whole.gradient) < 1e-11


def test_the_mean_scatter_agrees():
    for name, case in every_case():
        terms = case.problem().term, sharded(case).term
        whole, parts = (term.mean_scatter(None) for term in terms)
        assert largest_difference(parts, whole) < 1e-12, name


def test_pairs_in_shards_take_no_other_weights():
    case = random_case([(2, 1)])
    with pytest.raises(ValueError, match=r"^share: expected None for pairs in shards, got weights"):
        sharded(case).term.mean_scatter(np.ones(len(case.pairs)))


def assert_same_directions(name, case, whole, parts):
    factors, V = random_factors(case), random_matrices(case)
    b = 0.0 if case.c0 == inf else 0.7
    for way in ("dense", "cg"):
        expected = newton_system(whole, factors, way).solve(V, b, 1e-13)
        found = newton_system(parts, factors, way).solve(V, b, 1e-13)
        assert largest_difference(found[0], expected[0]) < 1e-9, f"{way}, {name}"
        assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-10, err_msg=f"{way}, {name}")


def test_newton_directions_agree():
    for name, case in every_case():
        assert_same_directions(name, case, *both(case))


@pytest.mark.parametrize("c0", [0.3, inf])
def test_newton_directions_in_high_dimension_agree(c0):
    """The pass for F then does not compute the Hessian."""
    case = random_case([(28, 1)], c0=c0, C=3.0, n_pairs=40, n_samples=20)
    assert dimension([28]) > FUSED_DIMENSION
    whole, parts = both(case)
    assert parts.term._first_round[1] is None
    assert_same_directions("vectors of 28", case, whole, parts)
    assert fastest_system(parts, True, 1) == "cg"


def test_losses_along_a_direction_agree():
    for name, case in every_case():
        whole, parts = both(case)
        V, b = random_matrices(case), 0.0 if case.c0 == inf else 0.7
        expected, found = whole.along(V, b), parts.along(V, b)
        for t in (0.01, 0.5, 3.0):
            assert_allclose(found.slope(t), expected.slope(t), **EXACT, err_msg=name)
            assert_allclose(found.increase(t), expected.increase(t), **EXACT, err_msg=name)
            assert expected.slope(t) > 0, name  # convex; a direction without effect has slope 0


def test_the_start_agrees():
    for name, case in every_case():
        for longest in (1e4, 0.01):
            found, expected = (p.scaled_start(longest) for p in (sharded(case), case.problem()))
            assert_allclose(found, expected, rtol=1e-12, err_msg=name)


def test_without_active_pairs_the_system_is_the_identity():
    case = random_case(SHAPES["two ragged"])
    case = case.with_(similar=np.ones(len(case.pairs), dtype=bool))
    point, V = sharded(case).at(case.eyes, 1e3), random_matrices(case)
    assert point.n_active == 0
    for way in ("dense", "cg"):
        solution, b = newton_system(point, case.eyes, way).solve(V, 0.7, 1e-13)
        assert largest_difference(solution, V) == 0, way
        assert b == 0.7, way


@pytest.mark.parametrize("way", ["auto", "dense", "cg"])
def test_the_solution_is_the_same(way):
    names = SHAPES if way == "auto" else ("vectors", "three ragged")
    for name, case in every_case(names):
        expected = case.learn(tol=TIGHT)
        found = Newton(linear_solver=way).solve(sharded(case), tol=TIGHT)
        assert_same(found, expected, name)
        assert found.active is None
        assert found.multipliers is None
        assert found.history["n_active"][-1] == len(expected.active), name


def test_the_number_of_shards_does_not_matter():
    case = random_case([(4, 2)], n_pairs=100, n_samples=40, C=10.0)
    results = [
        Newton().solve(sharded(case, cuts), tol=TIGHT) for cuts in ([], [1], range(10, 100, 10))
    ]
    for result in results[1:]:
        assert_same(result, results[0])


def test_damped_steps_work_in_shards(monkeypatch):
    """Without primal-dual steps, the exact line search finds the solution alone."""
    monkeypatch.setattr(newton_module, "primal_dual_step", lambda *args: None)
    case = random_case(SHAPES["two ragged"], C=5.0)
    expected, found = case.learn(tol=TIGHT), Newton().solve(sharded(case), tol=TIGHT)
    assert list(found.history["kind"][1:]) == ["damped"] * found.n_iter
    assert_allclose(found.history["length"][:4], expected.history["length"][:4], rtol=1e-6)
    assert_same(found, expected)


def many_pairs(n_pairs=3_000):
    return random_case([(3, 1)], n_pairs=n_pairs, n_samples=100, C=0.1)


def test_a_sample_of_the_pairs_rehearses():
    case = many_pairs(81_000)  # from 80,000 on
    expected = case.learn(tol=TIGHT)
    problem = sharded(case, range(9_000, 81_000, 9_000))
    found = Newton(random_state=0).solve(problem, tol=TIGHT)
    t, b0 = problem.scaled_start(1e4)
    assert found.history["gap"][0] < 0.1 * problem.at(case.eyes, b0).gap  # a good start
    assert t == 1
    assert largest_difference(found.W, expected.W) < 1e-8


def test_a_sample_stands_for_all_pairs():
    case = many_pairs()
    problem = sharded(case, [1000, 1500])
    sample = problem.sample(600, np.random.RandomState(0))
    assert sample.term.n_pairs == 600
    W, b0 = random_point(case)
    L = factors_of(problem, W)
    whole, some = problem.at(L, b0), sample.at(L, b0)
    assert_allclose(some.term.totals.loss, whole.term.totals.loss, rtol=0.3)
    assert_allclose(some.n_active / 600, whole.n_active / 3000, atol=0.1)


def test_a_sample_does_not_grow_with_the_number_of_shards():
    case = many_pairs(500)
    problem = sharded(case, range(1, 500))  # one pair each
    sample = problem.sample(50, np.random.default_rng(0))
    assert 40 <= sample.term.n_pairs <= 60
    weight = np.sum(case.problem().pairs.loss.weight)
    assert np.sum(sample.pairs.loss.weight) == pytest.approx(weight, rel=0.2)
    assert problem.sample(1, np.random.default_rng(0)).term.n_pairs >= 1


def test_a_sampled_hessian_stands_for_all_pairs():
    case = many_pairs(40_000)  # 3,500 of them are enough for d = 7
    point = sharded(case, [10_000, 15_000]).at(case.eyes, 0.5)
    part = point.term
    assert 7_000 < part.totals.n_active < 40_000
    assert part._first_round[1][1] > 0
    sampled, exact = (point.hessian(case.eyes, rng) for rng in (np.random.default_rng(0), None))
    error = np.linalg.norm(sampled - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.2


def test_results_are_added_part_by_part():
    a = (1, 2.5, [np.ones(2), np.zeros((2, 2))])
    total = add(a, add(a, a))
    assert total[:2] == (3, 7.5)
    assert_allclose(total[2][0], [3, 3])
    named = Totals(1.0, 2.0, 3.0, 0.5, 4, [np.ones(2)])
    twice = add(named, named)
    assert (twice.loss, twice.n_active, twice.scatter[0][0]) == (2.0, 8, 2.0)


def test_a_piece_knows_how_large_it_is():
    piece = held_shards(many_pairs(), [])[0].load(None)
    arrays = (
        *piece.sums.features.blocks,
        piece.sums.graph.first,
        piece.sums.graph.second,
        piece.similar,
    )
    held = sum(array.nbytes for array in arrays)
    assert held <= sys.getsizeof(piece) < 3 * held


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_laid_out_in_the_same_way_everywhere(dtype):
    """In memory, as shared samples and in a chunk: transposed, centred in float64, contiguous."""
    case = random_case([(3, 2)], n_pairs=30)
    X = (case.arrays[0] + 1e3).astype(dtype)
    exact = X.astype(np.float64)
    expected = np.swapaxes(exact - exact.mean(axis=0), 1, 2)
    pairs = as_pairs(case.pairs, case.similar, len(X))
    found = [
        build_pair_sums(Blocks(X), pairs).features.like,
        as_shared_samples(X, read_in_parts=False, memory=0).arrays[0],
        chunk_piece((X, case.pairs, case.similar)).sums.features.like,
    ]
    for features in found:
        assert_array_equal(features, expected, strict=True)
        assert features.flags.c_contiguous
    differences = chunk_piece((X, None, np.ones(len(X), dtype=bool))).sums.features.like
    assert_array_equal(differences, np.swapaxes(exact, 1, 2), strict=True)  # never centred
    assert differences.flags.c_contiguous


def test_a_device_gives_the_sums_of_the_host():
    """The "device" is NumPy here: what is sent and what comes back is the same."""
    for name, case in every_case(["two ragged"]):
        host = sharded(case)
        term = host.term
        place = Device(np.zeros(1))
        executor = SerialExecutor(term.executor.shards, device=place)
        device = replace(host, term=replace(term, executor=executor))
        assert_same(Newton().solve(device, tol=TIGHT), Newton().solve(host, tol=TIGHT), name)
        features = place._sent[0]
        place.place(executor.shards[-1].load(None).term(term.setting))
        assert place._sent[0] is not features


def test_functions_are_applied_to_arrays_in_lists_tuples_and_named_tuples():
    numbers = range(len(Totals._fields))
    nested = [1, (np.array(2), Totals(*map(np.array, numbers)))]
    found = _each_array(lambda value: value + 1, nested)
    assert found == [1, (3, Totals(*range(1, len(numbers) + 1)))]
    assert isinstance(found[1][1], Totals)


def test_less_than_half_of_the_active_pairs_are_sampled_and_more_are_all_used():
    case = random_case(SHAPES["vectors"], n_pairs=40, C=3.0)
    term, identity = case.problem().pairs, case.eyes
    k, n = term.at(identity, 1.0).totals.n_active, term.n_pairs
    whole, n_sampled = shard_hessian(term, 0, identity, 1.0, None)
    assert n_sampled == 0
    for enough, sampled in (((k - 1) // 2, 1), ((k + 1) // 2, 0), (k // 2, int(k % 2))):
        found, n_sampled = shard_hessian(term, 0, identity, 1.0, (enough - 0.5) / n)
        assert n_sampled == sampled, (enough, k)
        assert (largest_difference([found], [whole]) == 0) == (sampled == 0)


def test_what_needs_pairs_in_memory_says_so():
    case = random_case(SHAPES["vectors"])
    problem = sharded(case)
    point = problem.at(case.eyes, 1.0)
    for call in (lambda: problem.pairs, lambda: point.pairs):
        with pytest.raises(TypeError, match="expected pairs in memory"):
            call()
    few = random_case([(60, 1)], n_pairs=10, n_samples=20)
    for problem_of, expected in ((few.problem, "woodbury"), (lambda: sharded(few), "cg")):
        assert fastest_system(problem_of().at(few.eyes, 0.5), False, 20) == expected
    with pytest.raises(ValueError, match="s: expected None for pairs in shards"):
        problem.term.certify(case.eyes, 1.0, s=np.zeros(len(case.pairs)))


def test_pairs_in_parts_say_how_many_parts_and_need_both_arrays():
    assert repr(PairChunks([None, None])) == "PairChunks(2 chunks)"
    assert len(PairChunks([None, None])) == 2
