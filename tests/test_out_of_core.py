"""Pairs and samples that stay on disk: the same answer, in memory that an argument sets."""

import pickle
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from helpers import SHAPES, largest_difference, random_case
from numpy.testing import assert_allclose

import tatml._data.storage
import tatml._sharding.chunks
import tatml._sharding.samples
from tatml import Blocks, Compute, Newton, learn_metric
from tatml._data.storage import parse_bytes, sendable
from tatml._sharding.chunks import PairChunks

TIGHT = 1e-16  # W is as exact as the square root of the gap


class Sliceable:
    """What knows its shape and slices, and nothing else."""

    def __init__(self, array):
        self._array = np.asarray(array)
        self.shape, self.dtype = self._array.shape, self._array.dtype

    def __getitem__(self, key):
        if not isinstance(key, slice):
            raise TypeError(f"slices only, got {key!r}")
        return self._array[key]


def mapped(path, array):
    array = np.asarray(array)
    stored = np.memmap(path, array.dtype, "w+", shape=array.shape)
    stored[:] = array
    stored.flush()
    return np.memmap(path, array.dtype, "r", shape=array.shape)


def zarr_array(path, array):
    zarr = pytest.importorskip("zarr")
    array = np.asarray(array)
    stored = zarr.create_array(str(path), shape=array.shape, chunks=array.shape, dtype=array.dtype)
    stored[:] = array
    return stored


STORES = {
    "memmap": mapped,
    "zarr": zarr_array,
    "sliceable": lambda path, array: Sliceable(array),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    """A function of a name and an array."""
    return lambda name, array: STORES[request.param](tmp_path / name, array)


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch):
    """Chunks of a few pairs for small problems."""
    monkeypatch.setattr(tatml._sharding.chunks, "LEAST_PAIRS", 2)
    monkeypatch.setattr(tatml._sharding.chunks, "WORKSPACE", 0)


def vectors(**options):
    return random_case(SHAPES["vectors"], n_pairs=40, n_samples=15, C=3.0, weights=True, **options)


def small_memory(numbers, n_pairs=7):
    return n_pairs * (8 * tatml._sharding.chunks.COPIES * numbers + tatml._sharding.chunks.VECTORS)


def assert_same(found, expected):
    assert found.gap < 1e-14 * max(1, found.primal)
    assert largest_difference(found.W, expected.W) < 1e-8
    assert_allclose(found.b0, expected.b0, rtol=1e-8)
    assert_allclose(found.primal, expected.primal, rtol=1e-10)
    assert found.active is None


@pytest.mark.parametrize("on_disk", ["pairs", "small samples and pairs", "samples and pairs"])
def test_from_disk_it_is_the_same(store, on_disk, monkeypatch):
    case = vectors(prior=True)
    monkeypatch.setattr(
        tatml._sharding.samples, "SMALL_SHARE", 1.0 if on_disk.startswith("small") else 0.0
    )
    X = case.arrays[0][:, :, 0]
    X = store("X", X) if on_disk != "pairs" else X
    arrays = [store("p", case.pairs), store("s", case.similar)]
    options = case.options() | {"weights": store("w", case.weights)}
    memory = small_memory(4)
    found = learn_metric(X, *arrays, tol=TIGHT, compute=Compute(max_memory=memory), **options)
    assert_same(found, case.learn(tol=TIGHT))


def test_matrices_and_blocks_from_disk(tmp_path):
    case = random_case(SHAPES["two ragged"], n_pairs=40, n_samples=15, C=3.0)
    X = Blocks(*(mapped(tmp_path / f"{m}", a) for m, a in enumerate(case.arrays)))
    expected = case.learn(tol=TIGHT)
    place = Compute(max_memory=small_memory(14))
    options = {"tol": TIGHT, "compute": place} | case.options()
    assert_same(learn_metric(X, case.pairs, case.similar, **options), expected)
    assert_same(learn_metric(case.blocks, case.pairs, case.similar, **options), expected)


def test_stored_arrays_need_no_max_memory():
    case = vectors()
    X, pairs = case.arrays[0][:, :, 0], Sliceable(case.pairs)
    found = learn_metric(X, pairs, list(case.similar), tol=TIGHT, **case.options())
    assert_same(found, case.learn(tol=TIGHT))


def chunks_of(case, kind):
    """The pairs in three chunks, with the samples, their differences, or read by functions."""
    X, chunks = case.arrays[0][:, :, 0], []
    for part in (slice(0, 5), slice(5, 6), slice(6, 40)):
        pairs, rest = case.pairs[part], (case.similar[part], case.weights[part])
        i, j = pairs.T
        chunks.append((X, pairs, *rest) if kind == "samples" else (X[i] - X[j], None, *rest))
    return [partial(tuple, chunk) for chunk in chunks] if kind == "functions" else chunks


@pytest.mark.parametrize("kind", ["samples", "differences", "functions"])
def test_chunks_of_pairs(kind):
    case = vectors()
    options = case.options() | {"weights": None}
    found = learn_metric(PairChunks(chunks_of(case, kind)), tol=TIGHT, **options)
    assert_same(found, case.learn(tol=TIGHT))


def test_two_aligned_arrays(store):
    case = random_case(SHAPES["two ragged"], n_pairs=40, n_samples=15, C=3.0, weights=True)
    first, second = (
        tuple(store(f"{side}{m}", a[case.pairs[:, side]]) for m, a in enumerate(case.arrays))
        for side in (0, 1)
    )
    chunks = PairChunks.from_arrays(
        first, second, store("s", case.similar), case.weights, chunk_size=7
    )
    assert len(chunks) == 6
    found = learn_metric(chunks, tol=TIGHT, **case.options() | {"weights": None})
    assert_same(found, case.learn(tol=TIGHT))


def test_a_result_starts_another_and_the_callback_stops():
    case = vectors()
    X = case.arrays[0][:, :, 0]
    options = case.options() | {"compute": Compute(max_memory=small_memory(4))}
    seen = []

    def stop(iterate):
        seen.append(iterate)
        return len(seen) > 2

    with pytest.warns(UserWarning, match="The callback asked to stop"):
        first = learn_metric(X, case.pairs, case.similar, callback=stop, **options)
    assert str(first.status) == "stopped"
    resumed = learn_metric(X, case.pairs, case.similar, init=seen[-1], tol=TIGHT, **options)
    assert resumed.history["primal"][0] == pytest.approx(seen[-1].primal, rel=1e-12)
    assert_same(resumed, case.learn(tol=TIGHT))


def peak_memory(directory, n_pairs, max_memory):
    """Of a fit with samples and pairs on disk; numpy reports its arrays, not mapped files."""
    rng = np.random.default_rng(0)
    X = mapped(directory / "X", rng.normal(size=(20_000, 12)))
    index = rng.integers(20_000, size=(n_pairs, 2))
    index[:, 1] = (index[:, 0] + 1 + index[:, 1] % 19_999) % 20_000
    pairs = mapped(directory / "pairs", index)
    similar = mapped(directory / "similar", rng.random(n_pairs) < 0.5)
    tracemalloc.start()
    try:
        options = {"C": 1 / n_pairs, "tol": 0.5, "solver": Newton(max_iter=2, random_state=0)}
        learn_metric(X, pairs, similar, compute=Compute(max_memory=max_memory), **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["samples in parts", "small samples"])
def test_the_peak_is_set_by_the_argument(tmp_path, monkeypatch, share):
    monkeypatch.setattr(tatml._sharding.samples, "SMALL_SHARE", share)
    monkeypatch.setattr(tatml._sharding.chunks, "WORKSPACE", 2**24)
    limit = 2**25
    peak = peak_memory(tmp_path, 150_000, limit)
    assert 0.3 * limit < peak < limit
    assert peak_memory(tmp_path, 600_000, limit) < 1.1 * peak


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1000, 1000), ("500MB", 500_000_000), ("2 GiB", 2**31), ("1.5kb", 1500), ("7", 7)],
)
def test_bytes_in_words(value, expected):
    assert parse_bytes("max_memory", value) == expected


@pytest.mark.parametrize("value", ["much", "5 iB", "-3MB", 0, -5])
def test_what_is_no_number_of_bytes(value):
    with pytest.raises(ValueError, match=r"^max_memory: expected"):
        parse_bytes("max_memory", value)


@pytest.mark.parametrize("value", [1.5, None, True])
def test_bytes_are_integers_or_words(value):
    with pytest.raises(TypeError, match=r"^max_memory: expected bytes"):
        parse_bytes("max_memory", value)


def refused(error, message, X=None, pairs=None, similar=None, **options):
    case = vectors()
    X = case.arrays[0][:, :, 0] if X is None else X
    pairs = case.pairs if pairs is None else pairs
    similar = case.similar if similar is None else similar
    options = {"compute": Compute(max_memory=small_memory(4))} | options
    with pytest.raises(error, match=message):
        learn_metric(X, pairs, similar, **options)


def changed(array, row, value):
    array = array.copy()
    array[row] = value
    return array


def test_errors_name_the_row_in_the_whole(monkeypatch):
    case = vectors()
    X = case.arrays[0][:, :, 0]
    refused(
        ValueError, r"^pairs: .* got index 15 in row 33", pairs=changed(case.pairs, 33, [0, 15])
    )
    refused(ValueError, r"^pairs: .* got 4 twice in row 31", pairs=changed(case.pairs, 31, [4, 4]))
    weights = changed(case.weights, 38, -1.0)
    refused(ValueError, r"^weights: .* got -1.0 in row 38", weights=weights)
    stored = Sliceable(changed(X, (11, 2), np.nan))
    for share in (0.0, 1.0):
        monkeypatch.setattr(tatml._sharding.samples, "SMALL_SHARE", share)
        refused(ValueError, r"^X: .* got nan in block 0, sample 11, entry \(2, 0\)", X=stored)


def test_errors_of_shapes_and_kinds():
    case = vectors()
    refused(ValueError, r"^pairs: .* pairs has 40, similar has 39", similar=case.similar[:-1])
    refused(TypeError, "^similar: expected booleans", similar=case.similar.astype(int))
    refused(ValueError, "^weights: .* zeros only", weights=np.zeros(40))
    refused(ValueError, "^max_memory: expected at least", compute=Compute(max_memory=100))
    refused(ValueError, r"^X: .* got shape \(15,\)", X=Sliceable(np.zeros(15)))
    refused(ValueError, "^solver: expected 'newton'", solver="dykstra")
    refused(
        ValueError,
        "^solver: expected linear_solver='auto', 'dense' or 'cg' .*woodbury",
        solver=Newton(linear_solver="woodbury"),
    )
    refused(ValueError, "^prior: expected matrices of shapes", prior=np.eye(3))
    refused(ValueError, "^pairs: expected an array with rows of equal", pairs=[[0, 1], [2]])
    refused(
        TypeError,
        "^client: expected a distributed.Client, got 'here'",
        compute=Compute(client="here"),
    )


def test_errors_of_chunks():
    case = vectors()
    chunks = chunks_of(case, "differences")
    chunks[1] = (np.zeros((1, 3)), None, [True])
    with pytest.raises(ValueError, match=r"^chunk 1: expected blocks of shapes .* got"):
        learn_metric(PairChunks(chunks))
    chunks[1] = (np.full((1, 4), np.inf), None, [True])
    with pytest.raises(ValueError, match=r"^chunk 1: X: expected finite"):
        learn_metric(PairChunks(chunks))
    with pytest.raises(TypeError, match=r"^chunk 0: expected a tuple"):
        learn_metric(PairChunks([np.zeros(3)]))
    with pytest.raises(ValueError, match=r"^PairChunks: expected at least one chunk"):
        PairChunks([])
    with pytest.raises(ValueError, match="expected None with PairChunks"):
        learn_metric(PairChunks(chunks), case.pairs, case.similar)
    with pytest.raises(TypeError, match=r"^pairs, similar: expected arrays"):
        learn_metric(case.blocks)
    with pytest.raises(ValueError, match=r"^second: expected 1 arrays"):
        PairChunks.from_arrays(np.zeros((3, 2)), (np.zeros((3, 2)),) * 2, np.ones(3, dtype=bool))


@pytest.mark.parametrize("shape", [(3, 1), (3, 2, 1), (3, 3)])
def test_aligned_samples_are_not_broadcast(shape):
    message = r"^second\[0\]: expected samples of the shape of those of first\[0\], \(2,\), got"
    with pytest.raises(ValueError, match=message):
        PairChunks.from_arrays(np.ones((3, 2)), np.zeros(shape), np.ones(3, dtype=bool))


@pytest.mark.parametrize("chunk_size", [0, -1, 2.5, "many"])
def test_a_wrong_size_of_chunks_is_named(chunk_size):
    arrays = np.ones((3, 2)), np.zeros((3, 2)), np.ones(3, dtype=bool)
    with pytest.raises((TypeError, ValueError), match=r"^chunk_size: expected"):
        PairChunks.from_arrays(*arrays, chunk_size=chunk_size)


def test_arguments_are_checked_before_the_pairs_are_read():
    def read():
        raise AssertionError("read")

    wrong = {"tol": 0, "solver": "x", "callback": 1, "compute": "x"}
    for name, value in wrong.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            learn_metric(PairChunks([read]), **{name: value})


@pytest.mark.parametrize("options", [{}, {"compute": Compute(max_memory="100MB")}])
def test_sparse_samples_are_refused_by_name(options):
    case = vectors()
    X = scipy.sparse.csr_array(case.arrays[0][:, :, 0])
    with pytest.raises(TypeError, match=r"^X: expected a dense array, .* \.toarray\(\)"):
        learn_metric(X, case.pairs, case.similar, **options)


def test_a_chunk_travels_without_the_others():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 1000, 8))
    chunks = PairChunks.from_arrays(first, second, np.ones(1000, dtype=bool), chunk_size=10)
    assert len(pickle.dumps(chunks.chunks[3])) < 5_000 < first.nbytes / 10
    X, pairs, similar = chunks.chunks[3]()
    assert pairs is None
    assert len(similar) == 10
    assert_allclose(X.arrays[0][:, :, 0], (first - second)[30:40])


def test_mapped_files_travel_by_name(tmp_path):
    array = mapped(tmp_path / "X", np.arange(100_000.0).reshape(-1, 4))
    message = pickle.dumps(sendable(array))
    assert len(message) < 1000
    assert_allclose(pickle.loads(message)[5:7], array[5:7])
    assert sendable(array[3:]) is not None  # a view has another offset: it travels whole
    assert_allclose(pickle.loads(pickle.dumps(sendable(array[3:])))[0], array[3])


def test_a_device_without_pytorch_is_a_missing_extra(monkeypatch):
    case = random_case([(3, 1)], n_pairs=20)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'device needs PyTorch: pip install "tatml\[torch\]"'):
        learn_metric(case.blocks, case.pairs, case.similar, compute=Compute(device="cuda"))
