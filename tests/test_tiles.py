"""All pairs as tiles: the sums of the explicit list of all pairs, and the same solution."""

import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import SHAPES, largest_difference
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from test_out_of_core import Sliceable, mapped

import tatml._data.storage
import tatml._sharding.all_pairs
import tatml._sharding.chunks
import tatml._sharding.samples
from tatml import TATML, Blocks, Compute, Newton, learn_metric
from tatml._optim.pair_sums import PairSums
from tatml._sharding.all_pairs import AllPairs, TileSums
from tatml._sharding.chunks import PairChunks
from tatml._sharding.samples import as_shared_samples

TIGHT = 1e-16
N_SAMPLES = 23


@pytest.fixture(params=SHAPES)
def arrays(request):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(N_SAMPLES, n, width)) for n, width in SHAPES[request.param]]


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    monkeypatch.setattr(tatml._sharding.all_pairs, "DEFAULT_SIDE", 6)  # 23 = 6 + 6 + 6 + 5


def every_pair(labels):
    pairs = np.stack(np.triu_indices(len(labels), 1), axis=1)
    return pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]]


def assert_same(found, expected):
    assert found.gap < 1e-13 * max(1, found.primal)
    assert largest_difference(found.W, expected.W) < 1e-8
    assert_allclose(found.b0, expected.b0, rtol=1e-8)
    assert_allclose(found.primal, expected.primal, rtol=1e-10)


@pytest.mark.parametrize("n_first", [N_SAMPLES, 9], ids=["diagonal", "beside"])
def test_the_sums_of_a_tile_are_those_of_its_pairs(arrays, n_first):
    features = [np.ascontiguousarray(np.swapaxes(a, 1, 2)) for a in arrays]
    tile = TileSums(features, n_first)
    plain = PairSums(features, tile.first, tile.second)
    assert tile.n_pairs == plain.n_pairs == len(set(zip(tile.first, tile.second, strict=True)))
    rng = np.random.default_rng(1)
    G = [rng.normal(size=(a.shape[1], a.shape[1])) for a in arrays]
    tile, plain = tile.transformed(G), plain.transformed(G)
    V = [g + g.T for g in G]
    s = rng.normal(size=plain.n_pairs)
    assert_allclose(tile.distances(), plain.distances(), rtol=1e-11)
    assert_allclose(tile.quadratic(V), plain.quadratic(V), rtol=1e-9, atol=1e-9)
    assert largest_difference(tile.scatter(s), plain.scatter(s)) < 1e-9
    both = tile.distances_and_scatter(lambda part, D: D - s[part])
    for S, expected in zip(both[1], plain.scatter(plain.distances() - s), strict=True):
        assert_allclose(S, expected, rtol=0, atol=1e-13 * np.sum(np.abs(plain.distances()) ** 2))
    some = np.array([3, 0, 5])
    assert_allclose(tile.take(some).distances(), plain.distances()[some], rtol=1e-12)


def test_distances_of_near_copies_do_not_cancel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1, 3)) * 100
    X[4:] = X[:4] + 1e-7 * rng.normal(size=(4, 1, 3))
    tile = TileSums([X], 8)
    exact = np.sum((X[tile.first] - X[tile.second]) ** 2, axis=(1, 2))
    assert exact.min() < 1e-12
    assert_allclose(tile.distances(), exact, rtol=1e-9)


def far_classes():
    """Classes that lie 10⁸ times as far from each other as their samples."""
    labels = np.arange(N_SAMPLES) % 2
    X = np.random.default_rng(0).normal(size=(N_SAMPLES, 3))
    X[:, 0] += 1e8 * labels
    return X, labels


@pytest.mark.parametrize("n_first", [N_SAMPLES, 9], ids=["diagonal", "beside"])
def test_sums_over_near_pairs_of_far_classes_do_not_cancel(n_first):
    X, labels = far_classes()
    tile = TileSums([(X - X.mean(axis=0))[:, None, :]], n_first)
    plain = PairSums(tile.features, tile.first, tile.second)
    V = [np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]])]
    s = np.where(labels[tile.first] == labels[tile.second], 1.0, 0.0)  # active: similar pairs
    assert_allclose(tile.quadratic(V), plain.quadratic(V), rtol=1e-9)
    assert_allclose(tile.scatter(s)[0], plain.scatter(s)[0], rtol=1e-9)
    found = tile.product(V, s, np.zeros_like(s))[1]
    assert_allclose(found[0], plain.product(V, s, np.zeros_like(s))[1][0], rtol=1e-9)


@pytest.mark.parametrize("way", ["auto", "cg"])
def test_far_classes_have_the_certificate_of_the_explicit_list(way):
    X, labels = far_classes()
    result = learn_metric(X, AllPairs(labels), tol=1e-8, solver=Newton(linear_solver=way))
    pairs, similar = every_pair(labels)
    exact = learn_metric(X, pairs, similar, tol=1e-2, init=result)
    assert exact.history["gap"][0] < 1e-7 * exact.primal
    assert result.primal == pytest.approx(exact.history["primal"][0], rel=1e-8)


@pytest.mark.parametrize("way", ["auto", "cg"])
def test_all_pairs_are_the_explicit_list(arrays, way):
    X, labels = Blocks(*arrays), np.arange(N_SAMPLES) % 4
    options = {"C": 0.05, "tol": TIGHT}
    expected = learn_metric(X, *every_pair(labels), **options)
    found = learn_metric(X, AllPairs(labels), solver=Newton(linear_solver=way), **options)
    assert_same(found, expected)
    assert 0 < found.history["n_active"][-1] == len(expected.active)


def test_groups_and_weights():
    rng = np.random.default_rng(0)
    X, labels, groups = (
        rng.normal(size=(N_SAMPLES, 3)),
        rng.integers(3, size=23),
        np.arange(23) // 2,
    )
    pairs, similar = every_pair(labels)
    kept = groups[pairs[:, 0]] != groups[pairs[:, 1]]
    assert not kept.all()
    weights = np.where(similar, 2.0, 0.5)[kept]
    options = {"C": 0.1, "tol": TIGHT, "prior": np.diag([1.0, 2.0, 3.0])}
    expected = learn_metric(X, pairs[kept], similar[kept], weights=weights, **options)
    words = np.array(["a", "b", "c"])[labels]
    found = learn_metric(X, AllPairs(words, groups=groups, weights=(2.0, 0.5)), **options)
    assert_same(found, expected)


def test_samples_on_disk(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(N_SAMPLES, 3)) + 5, rng.integers(3, size=23)
    options = {"C": 0.1, "tol": TIGHT}
    expected = learn_metric(X, *every_pair(labels), **options)
    assert_same(learn_metric(Sliceable(X), AllPairs(labels), **options), expected)
    monkeypatch.setattr(tatml._sharding.samples, "SMALL_SHARE", 0)
    stored = mapped(tmp_path / "X", X)
    assert_same(
        learn_metric(stored, AllPairs(labels), compute=Compute(max_memory="20MB"), **options),
        expected,
    )


def test_memory_does_not_grow_with_the_pairs(monkeypatch):
    monkeypatch.setattr(tatml._sharding.all_pairs, "DEFAULT_SIDE", 512)
    rng = np.random.default_rng(0)
    n_samples, limit = 1500, 2**25
    X, labels = rng.normal(size=(n_samples, 4)), rng.integers(5, size=n_samples)
    tracemalloc.start()
    try:
        learn_metric(
            X,
            AllPairs(labels),
            C=1e-6,
            tol=0.5,
            solver=Newton(random_state=0),
            compute=Compute(max_memory=limit),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    n_pairs = n_samples * (n_samples - 1) // 2  # 1.1 million: 9 MB a vector
    assert peak < limit < 4 * 8 * n_pairs


def test_what_is_refused():
    X, labels = np.zeros((5, 2)), np.arange(5)
    with pytest.raises(ValueError, match=r"^AllPairs: labels: expected shape \(5,\)"):
        learn_metric(X, AllPairs(labels[:4]))
    with pytest.raises(ValueError, match=r"^AllPairs: groups: expected shape \(5,\)"):
        learn_metric(X, AllPairs(labels, groups=[1, 2]))
    with pytest.raises(ValueError, match=r"^AllPairs: weights: expected finite"):
        learn_metric(X, AllPairs(labels, weights=(-1.0, 1.0)))
    with pytest.raises(ValueError, match=r"^similar, weights: expected None with AllPairs"):
        learn_metric(X, AllPairs(labels), [True])
    with pytest.raises(ValueError, match=r"^AllPairs: labels: expected at least two"):
        learn_metric(X[:1], AllPairs(labels[:1]))
    with pytest.raises(ValueError, match=r"^max_memory: expected room"):
        learn_metric(X, AllPairs(labels), compute=Compute(max_memory=1000))
    with pytest.raises(ValueError, match=r"expected None with PairChunks"):
        learn_metric(PairChunks([(X, None, [True] * 5)]), AllPairs(labels))


@pytest.mark.parametrize("name", ["labels", "groups"])
def test_missing_and_mixed_labels_are_refused(name):
    X, labels = np.eye(4), [0, 1, 0, 1]
    for wrong, message in (([0, 1, np.nan, np.nan], "missing"), ([0, "a", None, 1], "one kind")):
        with pytest.raises((TypeError, ValueError), match=f"^AllPairs: {name}: .*{message}"):
            learn_metric(X, AllPairs(**{"labels": labels} | {name: np.array(wrong, object)}))


def test_one_group_has_no_pairs():
    with pytest.raises(ValueError, match=r"^AllPairs: groups: expected at least two groups"):
        learn_metric(np.eye(4), AllPairs([0, 1, 0, 1], groups=np.ones(4)))


def test_samples_of_one_tile_are_centred_together():
    """Each run of samples around a mean of its own would move them against each other."""
    X = np.arange(12.0).reshape(6, 2)
    samples = as_shared_samples(Sliceable(X), read_in_parts=True, memory=0)
    rows = samples.runs(slice(0, 2), slice(4, 6))[0][:, 0, :]
    assert_allclose(rows[0] - rows[2], X[0] - X[4])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("grouped", [False, True], ids=["", "groups"])
def test_the_estimator_does_not_list_very_many_pairs(arrays, monkeypatch, reduction, grouped):
    X, labels = Blocks(*arrays), np.arange(N_SAMPLES) % 3
    labels[:8] = 0
    groups = np.arange(N_SAMPLES) // 2 if grouped else None
    options = {"pairs": "all", "reduction": reduction, "tol": TIGHT}
    C = 100.0 if reduction == "mean" else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        listed = TATML(C, **options).fit(X, labels, groups)
        monkeypatch.setattr("tatml._estimators.all_pairs.LISTED", 0)
        summed = TATML(C, **options).fit(X, labels, groups)
    assert summed.pairs_ is None
    assert len(listed.pairs_) > 0
    assert_same(summed.result_, listed.result_)
    assert_allclose(summed.threshold_, listed.threshold_, rtol=1e-8)


def test_the_estimator_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("tatml._estimators.all_pairs.LISTED", 0)
    with pytest.raises(ValueError, match=r"^y: expected classes that give .* got no similar"):
        TATML(pairs="all").fit(np.eye(4), [0, 1, 2, 3])
