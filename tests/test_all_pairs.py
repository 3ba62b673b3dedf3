"""All pairs as tiles: the sums of the explicit list of all pairs, and the same solution."""

import pickle
import warnings

import numpy as np
import pytest
from estimators_helpers import JOINT
from helpers import SHAPES, largest_difference
from memory_helpers import peak_memory
from numpy.testing import assert_allclose, assert_array_equal
from sharding_helpers import TIGHT, Sliceable, assert_same, mapped
from sklearn.exceptions import ConvergenceWarning

from tatml import TATML, Blocks, Compute, Dykstra, Newton, learn_metric
from tatml._learning.labelled import sums_in_tiles
from tatml._learning.task import Settings
from tatml._optim.sums import PairSums
from tatml._sharding.all_pairs import AllPairs, tile_sums
from tatml._sharding.chunks import PairChunks
from tatml._sharding.samples import (
    LARGEST_SIDE,
    TILE_BYTES,
    WORKSPACE,
    as_shared_samples,
    samples_per_tile,
)

N_SAMPLES = 23
SMALL_TILES = Compute(max_memory=WORKSPACE + 6**2 * TILE_BYTES)  # of 6 samples: 23 = 3 * 6 + 5
FEW_TILES = Compute(max_memory=WORKSPACE + 12**2 * TILE_BYTES)  # of 12 samples: 23 = 12 + 11


def random_arrays(name):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(N_SAMPLES, n, width)) for n, width in SHAPES[name]]


def every_pair(labels):
    pairs = np.stack(np.triu_indices(len(labels), 1), axis=1)
    return pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]]


@pytest.mark.parametrize("n_first", [N_SAMPLES, 9], ids=["diagonal", "beside"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_sums_of_a_tile_are_those_of_its_pairs(n_first, name):
    arrays = random_arrays(name)
    features = [np.ascontiguousarray(np.swapaxes(a, 1, 2)) for a in arrays]
    tile = tile_sums(features, n_first)
    plain = PairSums.of(features, tile.graph.first, tile.graph.second)
    distinct = set(zip(tile.graph.first, tile.graph.second, strict=True))
    assert tile.n_pairs == plain.n_pairs == len(distinct), name
    rng = np.random.default_rng(1)
    G = [rng.normal(size=(a.shape[1], a.shape[1])) for a in arrays]
    tile, plain = tile.transformed(G), plain.transformed(G)
    V = [g + g.T for g in G]
    s = rng.normal(size=plain.n_pairs)
    assert_allclose(tile.distances(), plain.distances(), rtol=1e-11, err_msg=name)
    assert_allclose(tile.quadratic(V), plain.quadratic(V), rtol=1e-9, atol=1e-9, err_msg=name)
    assert largest_difference(tile.scatter(s), plain.scatter(s)) < 1e-9, name
    found = tile.evaluate(lambda part, D, s=s: D - s[part]).scatter
    expected = plain.scatter(plain.distances() - s)
    assert largest_difference(found, expected) < 1e-13 * np.sum(plain.distances() ** 2), name
    some = np.array([3, 0, 5])
    assert_allclose(tile.take(some).distances(), plain.distances()[some], rtol=1e-12)


def test_a_tile_that_moves_to_another_process_is_still_a_tile():
    X, labels = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 3
    samples = as_shared_samples(X, read_in_parts=False, memory=0)
    for shard in AllPairs(labels).shards(9, 2, 4**2 * TILE_BYTES, 0):
        piece = pickle.loads(pickle.dumps(shard)).load(samples)
        moved = pickle.loads(pickle.dumps(piece))
        assert moved.sums.form.whole_is_cheap
        assert_array_equal(moved.sums.distances(), piece.sums.distances())
        assert_array_equal(moved.similar, piece.similar)


def test_distances_of_near_copies_do_not_cancel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1, 3)) * 100
    X[4:] = X[:4] + 1e-7 * rng.normal(size=(4, 1, 3))
    tile = tile_sums([X], 8)
    exact = np.sum((X[tile.graph.first] - X[tile.graph.second]) ** 2, axis=(1, 2))
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
    tile = tile_sums([(X - X.mean(axis=0))[:, None, :]], n_first)
    plain = PairSums.of(tile.features.blocks, tile.graph.first, tile.graph.second)
    V = [np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]])]
    s = np.where(
        labels[tile.graph.first] == labels[tile.graph.second], 1.0, 0.0
    )  # active: similar pairs
    assert_allclose(tile.quadratic(V), plain.quadratic(V), rtol=1e-9)
    assert_allclose(tile.scatter(s)[0], plain.scatter(s)[0], rtol=1e-9)
    found = tile.product(V, s, np.zeros_like(s))[1]
    assert_allclose(found[0], plain.product(V, s, np.zeros_like(s))[1][0], rtol=1e-9)


@pytest.mark.parametrize("way", ["auto", "cg"])
def test_far_classes_have_the_certificate_of_the_explicit_list(way):
    X, labels = far_classes()
    result = learn_metric(
        X, AllPairs(labels), tol=1e-8, solver=Newton(linear_solver=way), compute=FEW_TILES
    )
    pairs, similar = every_pair(labels)
    exact = learn_metric(X, pairs, similar, tol=1e-2, init=result)
    assert exact.history["gap"][0] < 1e-7 * exact.primal
    assert result.primal == pytest.approx(exact.history["primal"][0], rel=1e-8)


@pytest.mark.parametrize("way", ["auto", "cg"])
def test_all_pairs_are_the_explicit_list(way):
    for name in SHAPES if way == "auto" else ("vectors", "three ragged"):
        X, labels = Blocks(*random_arrays(name)), np.arange(N_SAMPLES) % 4
        options = {"C": 0.05, "tol": TIGHT}
        expected = learn_metric(X, *every_pair(labels), **options)
        found = learn_metric(
            X,
            AllPairs(labels),
            solver=Newton(linear_solver=way),
            compute=SMALL_TILES if way == "auto" else FEW_TILES,
            **options,
        )
        assert_same(found, expected, name)
        assert 0 < found.history["n_active"][-1] == len(expected.active), name


def test_groups_and_weights():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(N_SAMPLES, 3)), rng.integers(3, size=N_SAMPLES)
    groups = np.arange(N_SAMPLES) // 2
    pairs, similar = every_pair(labels)
    kept = groups[pairs[:, 0]] != groups[pairs[:, 1]]
    assert not kept.all()
    weights = np.where(similar, 2.0, 0.5)[kept]
    options = {"C": 0.1, "tol": TIGHT, "prior": np.diag([1.0, 2.0, 3.0])}
    expected = learn_metric(X, pairs[kept], similar[kept], weights=weights, **options)
    words = np.array(["a", "b", "c"])[labels]
    every = AllPairs(words, groups=groups, weights=(2.0, 0.5))
    assert_same(learn_metric(X, every, compute=SMALL_TILES, **options), expected)


def test_samples_on_disk(tmp_path):
    """Small samples are read once, large samples are read tile by tile."""
    rng = np.random.default_rng(0)
    labels, options = rng.integers(3, size=N_SAMPLES), {"C": 0.1, "tol": TIGHT}
    for shape, read_once in (((3,), True), ((5, 4), False)):
        X = rng.normal(size=(N_SAMPLES, *shape)) + 5
        expected = learn_metric(X, *every_pair(labels), **options)
        for stored in (Sliceable(X), mapped(tmp_path / f"{shape}", X)):
            memory = SMALL_TILES.max_memory - WORKSPACE
            samples = as_shared_samples(stored, read_in_parts=True, memory=memory)
            assert samples.in_memory == samples.counted == read_once
            found = learn_metric(stored, AllPairs(labels), compute=SMALL_TILES, **options)
            assert_same(found, expected, type(stored).__name__)


def test_tiles_have_every_pair_once():
    """For all sides, also where the last tile on the diagonal has one sample and no pair."""
    samples = as_shared_samples(np.zeros((9, 2)), read_in_parts=False, memory=0)
    for side in (2, 3, 4, 9):
        shards = AllPairs(np.arange(9)).shards(9, 2, side**2 * TILE_BYTES, 0)
        tiles = [shard.load(samples) for shard in shards]
        assert min(map(len, tiles)) > 0, side
        sides = [shard.chunk[0] for shard in shards]
        rows = [np.r_[I] if I == J else np.r_[I, J] for I, J in sides]
        pairs = [
            (samples[tile.sums.graph.first], samples[tile.sums.graph.second])
            for samples, tile in zip(rows, tiles, strict=True)
        ]
        found = np.concatenate([np.stack(columns, axis=1) for columns in pairs])
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, every_pair(np.arange(9))[0]))
        assert max(I.stop - I.start for I, _ in sides) == side


def test_the_side_of_a_tile_is_what_fits():
    """Its pairs and its samples have to fit; the smallest tile has two samples."""
    assert samples_per_tile(2, 2**40) == LARGEST_SIDE
    assert samples_per_tile(2, 100**2 * TILE_BYTES) == 100  # pairs
    assert samples_per_tile(2, 100**2 * TILE_BYTES - 1) == 99
    per_sample = 128 * 1000  # samples of 1,000 numbers
    assert samples_per_tile(1000, 7 * per_sample) == 7
    assert samples_per_tile(1000, 7 * per_sample - 1) == 6
    for numbers, least in ((2, 4 * TILE_BYTES), (1000, 2 * per_sample)):
        assert samples_per_tile(numbers, least) == 2
        for memory in (least - 1, 0, -1):
            message = rf"at least {WORKSPACE + least:,} bytes, got {WORKSPACE + memory:,}$"
            with pytest.raises(ValueError, match=rf"^max_memory: expected {message}"):
                samples_per_tile(numbers, memory)


def test_the_smallest_tiles_find_the_same_metric():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(7, 2)), np.arange(7) % 2
    options = {"C": 0.1, "tol": TIGHT}
    smallest = WORKSPACE + 4 * TILE_BYTES
    found = learn_metric(X, AllPairs(labels), compute=Compute(max_memory=smallest), **options)
    assert_same(found, learn_metric(X, *every_pair(labels), **options))
    with pytest.raises(ValueError, match=rf"^max_memory: expected at least {smallest:,} bytes"):
        learn_metric(X, AllPairs(labels), compute=Compute(max_memory=smallest - 1))


def test_memory_does_not_grow_with_the_pairs():
    rng = np.random.default_rng(0)
    n_samples, limit = 1500, 2**25
    X, labels = rng.normal(size=(n_samples, 4)), rng.integers(5, size=n_samples)
    options = {"C": 1e-6, "tol": 0.5, "solver": Newton(random_state=0)}
    compute = Compute(max_memory=limit)
    peak, _ = peak_memory(learn_metric, X, AllPairs(labels), compute=compute, **options)
    n_pairs = n_samples * (n_samples - 1) // 2  # 1.1 million: 9 MB per vector
    assert peak < limit < 4 * 8 * n_pairs


def test_what_is_refused():
    X, labels = np.eye(5)[:, :2], np.arange(5)
    mixed, missing = np.array([0, "a", None, 1, 1], object), np.array([0, 1, np.nan, np.nan, 1])
    refused = {
        r"AllPairs: labels: expected shape \(5,\)": (AllPairs(labels[:4]),),
        r"AllPairs: groups: expected shape \(5,\)": (AllPairs(labels, groups=[1, 2]),),
        r"AllPairs: weights: expected finite": (AllPairs(labels, weights=(-1.0, 1.0)),),
        r"AllPairs: groups: expected at least two groups": (AllPairs(labels, groups=np.ones(5)),),
        r"AllPairs: labels: .*without masked": (AllPairs(np.ma.masked_equal(labels, 1)),),
        r"AllPairs: labels: .*one kind": (AllPairs(mixed),),
        r"AllPairs: groups: .*one kind": (AllPairs(labels, groups=mixed),),
        r"AllPairs: labels: .*missing": (AllPairs(missing.astype(object)),),
        r"AllPairs: groups: .*missing": (AllPairs(labels, groups=missing),),
        r"similar, weights: expected None with AllPairs": (AllPairs(labels), [True]),
    }
    for message, arguments in refused.items():
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            learn_metric(X, *arguments)
    with pytest.raises(ValueError, match=r"^AllPairs: labels: expected at least two"):
        learn_metric(X[:1], AllPairs(labels[:1]))
    assert learn_metric(X[:2], AllPairs([0, 0])).converged  # two are enough
    with pytest.raises(ValueError, match=r"expected None with PairChunks"):
        learn_metric(PairChunks([(X, None, [True] * 5)]), AllPairs(labels))


def test_samples_of_one_tile_are_centred_together():
    """Each run of samples around a mean of its own would move them against each other."""
    X = np.arange(12.0).reshape(6, 2)
    samples = as_shared_samples(Sliceable(X), read_in_parts=True, memory=0)
    rows = samples.runs(slice(0, 2), slice(4, 6))[0][:, 0, :]
    assert_allclose(rows[0] - rows[2], X[0] - X[4])
    for shared in (as_shared_samples(X, read_in_parts=False, memory=0), samples):
        tile = AllPairs(np.arange(6)).shards(6, 2, 4 * TILE_BYTES, 0)[0].load(shared)
        assert_allclose(tile.sums.features.like.mean(axis=0), 0, atol=1e-15)  # around its own mean


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("grouped", [False, True], ids=["", "groups"])
@pytest.mark.parametrize("name", ["vectors", "three ragged"])
def test_the_estimator_does_not_list_very_many_pairs(reduction, grouped, name):
    X, labels = Blocks(*random_arrays(name)), np.arange(N_SAMPLES) % 3
    labels[:8] = 0
    groups = np.arange(N_SAMPLES) // 2 if grouped else None
    options = JOINT | {"pairs": "all", "reduction": reduction, "tol": TIGHT}
    learner = TATML(100.0 if reduction == "mean" else 1.0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = learner.fit(X, labels, groups).result_
        listed, threshold = learner.pairs_, learner.threshold_
        learner._most_listed_pairs = 0
        found = learner.fit(X, labels, groups).result_
    assert learner.pairs_ is None
    assert len(listed) > 0
    assert_same(found, expected, name)
    assert_allclose(learner.threshold_, threshold, rtol=1e-8)


def test_very_many_pairs_of_one_kind_are_refused():
    learner = TATML(pairs="all")
    learner._most_listed_pairs = 0
    with pytest.raises(ValueError, match=r"^y: expected classes that give .* got no similar"):
        learner.fit(np.eye(4), [0, 1, 2, 3])


def test_long_lists_are_summed_in_tiles_unless_the_solver_needs_them():
    """2,000 samples have 1,999,000 pairs, 2,001 have 2,001,000: the limit is 2,000,000."""
    every = Settings(pairs="all")
    assert [sums_in_tiles(every, n) for n in (2000, 2001)] == [False, True]
    for other in (
        Settings(pairs="random"),
        Settings(pairs="all", n_components=2),
        Settings(pairs="all", solver=Dykstra()),
        Settings(pairs="all", solver=Newton(linear_solver="woodbury")),
    ):
        assert not sums_in_tiles(other, 10_000), other
    assert sums_in_tiles(Settings(pairs="all", solver=Newton(linear_solver="cg")), 2001)
