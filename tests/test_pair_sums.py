"""Sums over pairs equal explicit loops, however the pairs are held and cut into chunks."""

import tracemalloc

import numpy as np
import pytest
from helpers import SHAPES, random_case, random_factors, random_matrices, symmetric
from numpy.testing import assert_allclose, assert_array_equal

import tatml
from tatml import Newton
from tatml._optim import pair_sums as sums_module
from tatml._optim.pair_sums import PairSums
from tatml._svec import svec, svec_congruence, svec_size, unsvec

N_PAIRS = 50


def features_of(case):
    return [np.ascontiguousarray(np.swapaxes(array, 1, 2)) for array in case.arrays]


def as_samples(case):
    return PairSums(features_of(case), case.pairs[:, 0], case.pairs[:, 1])


def as_differences(case):
    i, j = case.pairs.T
    return PairSums([block[i] - block[j] for block in features_of(case)])


@pytest.fixture(params=SHAPES)
def case(request):
    return random_case(SHAPES[request.param], n_pairs=N_PAIRS)


@pytest.fixture(params=[as_samples, as_differences])
def sums(request, case):
    return request.param(case)


@pytest.fixture(params=["default chunks", "tiny chunks", "tiny chunks, late factors"])
def memory(request, monkeypatch):
    """Chunks of 16 pairs, the least; factors that are applied to each chunk."""
    if "tiny" in request.param:
        monkeypatch.setattr(sums_module, "CHUNK_BYTES", 1)
    if "late" in request.param:
        monkeypatch.setattr(sums_module, "EAGER_BYTES", 0)


def moved(case, factors):
    """The case of the features GᵀΦ."""
    return case.with_(arrays=[G.T @ array for G, array in zip(factors, case.arrays, strict=True)])


def assert_matrices_allclose(got, expected, **tolerance):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other, **{"rtol": 1e-12, "atol": 1e-12} | tolerance)


@pytest.mark.usefixtures("memory")
class TestAgainstLoops:
    def test_sizes(self, case, sums):
        assert sums.n_pairs == N_PAIRS
        assert sums.n_blocks == len(case.arrays)
        assert [*sums.sizes] == case.sizes
        assert [*sums.widths] == [array.shape[2] for array in case.arrays]

    def test_distances(self, case, sums):
        assert_allclose(sums.distances(), case.distances(case.eyes), rtol=1e-12)

    def test_quadratic(self, case, sums):
        V = random_matrices(case)
        assert_allclose(sums.quadratic(V), case.distances(V), rtol=1e-11, atol=1e-13)

    @pytest.mark.parametrize("share", [1.0, 0.2, 0.0])
    def test_scatter(self, case, sums, share):
        rng = np.random.default_rng(2)
        s = rng.normal(size=N_PAIRS) * (rng.uniform(size=N_PAIRS) < share)
        scatter = sums.scatter(s)
        assert_matrices_allclose(scatter, case.scatter(s))
        for S in scatter:
            assert_array_equal(S, S.T)

    def test_distances_and_scatter_in_one_pass(self, case, sums):
        factor = np.random.default_rng(2).normal(size=N_PAIRS)
        D = case.distances(case.eyes)
        distances, scatter = sums.distances_and_scatter(lambda part, d: factor[part] * d)
        assert_allclose(distances, D, rtol=1e-12)
        assert_matrices_allclose(scatter, case.scatter(factor * D))

    def test_scatter_is_the_adjoint_of_quadratic(self, case, sums):
        s, V = np.random.default_rng(3).normal(size=N_PAIRS), random_matrices(case)
        inner = sum(np.sum(S * v) for S, v in zip(sums.scatter(s), V, strict=True))
        assert_allclose(inner, s @ sums.quadratic(V), rtol=1e-11)

    def test_svec_rows(self, case, sums):
        V = random_matrices(case)
        stacked = np.concatenate([svec(v) for v in V])
        rows = np.concatenate([sums.svec_rows(rows) for _, rows in sums.chunks()])
        assert rows.shape == (N_PAIRS, sum(map(svec_size, case.sizes)))
        assert_allclose(rows @ stacked, case.distances(V), rtol=1e-11, atol=1e-13)

    def test_transformed_features(self, case, sums):
        G, H = (random_factors(case, seed) for seed in (4, 5))
        s = np.random.default_rng(6).normal(size=N_PAIRS)
        for result, expected in [
            (sums.transformed(G), moved(case, G)),
            (sums.transformed(G).transformed(H), moved(moved(case, G), H)),
        ]:
            assert_allclose(result.distances(), expected.distances(case.eyes), rtol=1e-11)
            assert_matrices_allclose(result.scatter(s), expected.scatter(s), rtol=1e-11)

    def test_take(self, case, sums):
        chosen = np.array([7, 3, 3, 41])
        G = random_factors(case)
        expected = case.with_(pairs=case.pairs[chosen])
        assert_allclose(sums.take(chosen).distances(), expected.distances(case.eyes), rtol=1e-12)
        part, expected = sums.transformed(G).take(chosen), moved(expected, G)
        assert_allclose(part.distances(), expected.distances(case.eyes), rtol=1e-11)

    def test_chunks_cover_every_pair_once(self, sums):
        covered = [np.arange(N_PAIRS)[part] for part, _ in sums.chunks()]
        assert_array_equal(np.concatenate(covered), np.arange(N_PAIRS))


@pytest.mark.parametrize("n_samples", [8, N_PAIRS, N_PAIRS + 1])
def test_from_samples_holds_whichever_is_smaller(n_samples):
    case = random_case([(3, 2)], n_pairs=N_PAIRS, n_samples=n_samples)
    sums = PairSums.from_samples(features_of(case), case.pairs[:, 0], case.pairs[:, 1])
    assert sums.features[0].shape[0] == min(n_samples, N_PAIRS)
    assert_allclose(sums.distances(), case.distances([np.eye(3)]), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_svec_keeps_inner_products_and_comes_back(n):
    rng = np.random.default_rng(n)
    A, B = (symmetric(rng.normal(size=(n, n))) for _ in range(2))
    assert svec(A).shape == (svec_size(n),) == (n * (n + 1) // 2,)
    assert_allclose(svec(A) @ svec(B), np.sum(A * B), rtol=1e-13)
    assert_allclose(unsvec(svec(A), n), A, rtol=1e-15)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
def test_results_do_not_depend_on_chunks(linear_solver):
    case = random_case([(3, 2), (2, 1)], n_pairs=200, weights=True, prior=True)
    result = case.learn(solver=Newton(linear_solver=linear_solver))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums_module, "CHUNK_BYTES", 2**20)
        patch.setattr(sums_module, "EAGER_BYTES", 2**28)
        expected = case.learn(solver=Newton(linear_solver=linear_solver))
    assert_matrices_allclose(result.W, expected.W)
    assert_allclose([result.b0, result.primal], [expected.b0, expected.primal], rtol=1e-10)
    assert_array_equal(result.active, expected.active)


def test_no_array_of_all_differences_is_held():
    n_pairs, n = 200_000, 9
    case = random_case([(n, n)], n_pairs=n_pairs, n_samples=500)
    tracemalloc.start()
    try:
        result = tatml.learn_metric(
            case.blocks, case.pairs, case.similar, C=1e-3, solver=Newton(random_state=0)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.converged
    assert peak < 0.5 * (8 * n_pairs * n * n)


@pytest.mark.parametrize("hold", [as_samples, as_differences])
@pytest.mark.parametrize("shapes", [[(4, 1)], [(3, 2), (2, 4)]], ids=["vectors", "two"])
@pytest.mark.usefixtures("memory")
def test_sums_work_on_strict_arrays(shapes, hold):
    xp = pytest.importorskip("array_api_strict")
    case = random_case(shapes, n_pairs=N_PAIRS)
    plain = hold(case)
    first, second = (
        None if index is None else xp.asarray(index) for index in (plain.first, plain.second)
    )
    strict = PairSums([xp.asarray(block) for block in plain.features], first, second)
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
    rows = strict.svec_rows(strict.rows(slice(0, 5)))
    assert_allclose(np.asarray(rows), plain.svec_rows(plain.rows(slice(0, 5))), rtol=1e-12)
    assert_allclose(np.asarray(unsvec(svec(xp.asarray(V[0])), len(V[0]))), V[0], rtol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_congruence_of_svec_is_that_of_the_matrix(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        G, V = rng.normal(size=(n, n)), rng.normal(size=(n, n))
        V = V + V.T
        T = svec_congruence(G)
        assert T.shape == (svec_size(n), svec_size(n))
        assert_allclose(T @ svec(V), svec(G.T @ V @ G), rtol=1e-12, atol=1e-12)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    T = svec_congruence(Q)
    assert_allclose(T @ T.T, np.eye(svec_size(n)), atol=1e-13)
