"""Pairs and samples that stay on disk: the same answer, in memory that an argument sets."""

import os
import pickle
import re
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from helpers import SHAPES, random_case
from memory_helpers import peak_memory
from numpy.testing import assert_allclose
from sharding_helpers import (
    STORES,
    TIGHT,
    Sliceable,
    assert_same,
    least_memory,
    mapped,
    zarr_array,
)
from sklearn.exceptions import ConvergenceWarning

from tatml import (
    TATML,
    AllPairs,
    Blocks,
    Comparisons,
    Compute,
    Newton,
    TATMLPairs,
    learn_metric,
)
from tatml._data.storage import (
    READ_BYTES,
    parse_bytes,
    read_rows,
    sendable,
    warn_of_missing_chunks,
)
from tatml._sharding.base import LossSetting, on_device
from tatml._sharding.chunks import PairChunks, sharded_term
from tatml._sharding.samples import (
    COPIES,
    DEFAULT_MEMORY,
    LEAST_PAIRS,
    SAMPLE_COPIES,
    SMALL_SHARE,
    VECTORS,
    WORKSPACE,
    SharedSamples,
    as_shared_samples,
    extra_workspace,
    memory_for_shards,
    pairs_per_chunk,
    pairs_per_sample,
)

LEAST = Compute(max_memory=least_memory(4))  # for vectors of 4 numbers
N_PAIRS = 600  # more than one chunk in this memory


def vectors(n_samples=15, **options):
    """15 samples on disk are read once in the least memory, 1,000 are read in parts."""
    return random_case(
        SHAPES["vectors"], n_pairs=N_PAIRS, n_samples=n_samples, C=0.1, weights=True, **options
    )


def samples_of(case):
    return case.arrays[0][:, :, 0]


def n_chunks(*data, compute=LEAST):
    return len(sharded_term(*data, LossSetting(1.0, (0.5, 2.0)), where=compute).executor.shards)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("n_samples", [15, 1000])
def test_from_disk_it_is_the_same(kind, tmp_path, n_samples):
    case = vectors(n_samples, prior=True)
    names = ("X", "pairs", "similar", "weights")
    arrays = (samples_of(case), case.pairs, case.similar, case.weights)
    on_disk = [
        STORES[kind](tmp_path / f"{name}{n_samples}", array)
        for name, array in zip(names, arrays, strict=True)
    ]
    expected = case.learn(tol=TIGHT)
    for X in (arrays[0], on_disk[0]):
        assert n_chunks(X, *on_disk[1:]) == (2 if n_samples == 15 else 3)
        options = case.options() | {"weights": on_disk[3], "tol": TIGHT, "compute": LEAST}
        assert_same(learn_metric(X, *on_disk[1:3], **options), expected, f"{n_samples}")


def test_matrices_and_blocks_from_disk(tmp_path):
    case = random_case(SHAPES["two ragged"], n_pairs=N_PAIRS, n_samples=15, C=0.1)
    X = Blocks(*(mapped(tmp_path / f"{m}", a) for m, a in enumerate(case.arrays)))
    expected = case.learn(tol=TIGHT)
    options = {"tol": TIGHT, "compute": Compute(max_memory=least_memory(14))} | case.options()
    for blocks in (X, case.blocks):
        assert_same(learn_metric(blocks, case.pairs, case.similar, **options), expected)


def test_stored_arrays_need_no_max_memory():
    case = vectors()
    X, pairs = samples_of(case), Sliceable(case.pairs)
    found = learn_metric(X, pairs, list(case.similar), tol=TIGHT, **case.options())
    assert_same(found, case.learn(tol=TIGHT))
    assert found.active is None


def chunks_of(case, kind):
    """The pairs in three chunks, with the samples, their differences, or read by functions."""
    X, chunks = samples_of(case), []
    for part in (slice(0, 5), slice(5, 6), slice(6, N_PAIRS)):
        pairs, rest = case.pairs[part], (case.similar[part], case.weights[part])
        i, j = pairs.T
        chunks.append((X, pairs, *rest) if kind == "samples" else (X[i] - X[j], None, *rest))
    return [partial(tuple, chunk) for chunk in chunks] if kind == "functions" else chunks


def test_chunks_of_pairs():
    case = vectors()
    expected = case.learn(tol=TIGHT)
    for kind in ("samples", "differences", "functions"):
        options = case.options() | {"weights": None}
        found = learn_metric(PairChunks(chunks_of(case, kind)), tol=TIGHT, **options)
        assert_same(found, expected, kind)


def test_two_aligned_arrays(tmp_path):
    case = random_case(SHAPES["two ragged"], n_pairs=40, n_samples=15, C=3.0, weights=True)
    for kind, store in STORES.items():
        first, second = (
            tuple(
                store(tmp_path / f"{kind}{side}{m}", a[case.pairs[:, side]])
                for m, a in enumerate(case.arrays)
            )
            for side in (0, 1)
        )
        similar = store(tmp_path / f"{kind}s", case.similar)
        chunks = PairChunks.from_arrays(first, second, similar, case.weights, chunk_size=7)
        assert len(chunks) == 6
        found = learn_metric(chunks, tol=TIGHT, **case.options() | {"weights": None})
        assert_same(found, case.learn(tol=TIGHT), kind)


def test_a_result_starts_another_and_the_callback_stops():
    case = vectors()
    X = samples_of(case)
    options = case.options() | {"compute": LEAST}
    seen = []

    def stop(iterate):
        seen.append(iterate)
        return len(seen) > 2

    with pytest.warns(UserWarning, match="The callback asked to stop"):
        first = learn_metric(X, case.pairs, case.similar, callback=stop, tol=TIGHT, **options)
    assert str(first.status) == "stopped"
    resumed = learn_metric(X, case.pairs, case.similar, init=seen[-1], tol=TIGHT, **options)
    assert resumed.history["primal"][0] == pytest.approx(seen[-1].primal, rel=1e-12)
    assert_same(resumed, case.learn(tol=TIGHT))


# Memory


def peak_of_fit(directory, n_samples, n_pairs, max_memory):
    """Return the peak memory of a fit on disk; NumPy reports its arrays, not mapped files."""
    rng = np.random.default_rng(0)
    X = mapped(directory / "X", rng.normal(size=(n_samples, 12)))
    index = rng.integers(n_samples, size=(n_pairs, 2))
    index[:, 1] = (index[:, 0] + 1 + index[:, 1] % (n_samples - 1)) % n_samples
    pairs = mapped(directory / "pairs", index)
    similar = mapped(directory / "similar", rng.random(n_pairs) < 0.5)
    options = {"C": 1 / n_pairs, "tol": 0.5, "solver": Newton(max_iter=2, random_state=0)}
    compute = Compute(max_memory=max_memory)
    return peak_memory(learn_metric, X, pairs, similar, compute=compute, **options)[0]


@pytest.mark.parametrize("n_samples", [10_000, 20_000], ids=["small samples", "samples in parts"])
def test_the_peak_is_set_by_the_argument(tmp_path, n_samples):
    limit = WORKSPACE + 2**23
    small = 8 * 12 * n_samples <= SMALL_SHARE * memory_for_shards(limit)
    assert small == (n_samples == 10_000)
    peak = peak_of_fit(tmp_path, n_samples, 85_000, limit)
    assert 0.3 * limit < peak < limit
    assert peak_of_fit(tmp_path, n_samples, 250_000, limit) < 1.1 * peak


def stored_problem(folder, n_samples, n, store):
    rng = np.random.default_rng(0)
    X = store(folder / f"X{n}", rng.normal(size=(n_samples, n)))
    index = rng.integers(n_samples, size=(2000, 2))
    index[:, 1] = (index[:, 0] + 1 + index[:, 1] % (n_samples - 1)) % n_samples
    return X, index, rng.random(2000) < 0.5


def test_the_matrices_of_the_solver_are_part_of_the_limit(tmp_path):
    """A metric of n = 400 needs 28 matrices of 1.3 MB, more than the workspace of 16 MiB."""
    data = stored_problem(tmp_path, 2000, 400, mapped)
    options = {"C": 1.0, "solver": Newton(max_iter=2, random_state=0)}
    limit = extra_workspace([(400, 1)], 0) + least_memory(400)
    assert extra_workspace([(400, 1)], 0) == 28 * 8 * 400**2 - WORKSPACE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peak, _ = peak_memory(learn_metric, *data, compute=Compute(max_memory=limit), **options)
    assert 0.5 * limit < peak < limit
    message = rf"^max_memory: expected at least {limit:,} bytes, got {limit - 1:,}$"
    with pytest.raises(ValueError, match=message):
        learn_metric(*data, compute=Compute(max_memory=limit - 1), **options)
    tiles = AllPairs(np.arange(2000) % 2)
    with pytest.raises(ValueError, match=r"^max_memory: expected at least 35,"):
        learn_metric(data[0], tiles, compute=Compute(max_memory=WORKSPACE + 10**6))


def test_the_default_memory_is_not_a_limit_of_the_metric():
    """Arrays on disk without max_memory: a metric of n = 1100 needs 28 matrices of 9.7 MB."""
    stored = Sliceable(np.zeros((5, 1100)))
    setting = LossSetting(1.0, (0.5, 2.0))
    term = sharded_term(stored, [[0, 1], [1, 2]], np.array([True, False]), None, setting)
    assert extra_workspace([(1100, 1)], 0) > DEFAULT_MEMORY - WORKSPACE
    assert term.n_pairs == 2


def test_a_term_in_shards_knows_whether_it_has_comparisons():
    X, setting = np.arange(8.0).reshape(4, 2), LossSetting(1.0, (0.5, 2.0), (1.0, 1.0))
    pairs = [[0, 1], [1, 3]], np.array([True, False])
    triplets = Comparisons([[0, 1, 2], [1, 2, 3]])
    assert not sharded_term(X, *pairs, None, setting).compares
    assert sharded_term(X, None, None, None, setting, comparisons=triplets).compares


class StoredZeros:
    """Zeros in stored chunks, and the numbers of rows of the requests."""

    dtype = np.dtype(np.float64)

    def __init__(self, shape, chunks):
        self.shape, self.chunks, self.requests = shape, chunks, []

    def __getitem__(self, rows):
        found = np.broadcast_to(0.0, self.shape)[rows]
        self.requests.append(len(found))
        return found


def test_chunks_above_the_size_of_a_request_are_read_one_at_a_time():
    stored = StoredZeros((4, 2**18), (1, 2**18))  # of 2 MiB each
    assert read_rows(stored, np.arange(4)).shape == stored.shape
    assert stored.requests == [1, 1, 1, 1]


def test_rows_of_small_chunks_are_read_in_one_request():
    stored = StoredZeros((1000, 1), (10, 1))
    assert read_rows(stored, np.arange(0, 1000, 3)).shape == (334, 1)
    assert stored.requests == [334]


def test_stored_chunks_are_decoded_a_few_at_a_time(tmp_path):
    """A store decodes all chunks of one request, here the whole array of 24 MB, at once.

    What one request leaves behind may live until Python collects its cycles.
    """
    n_samples = 30_000
    store = partial(zarr_array, chunk=n_samples // 10)
    X, index, similar = stored_problem(tmp_path, n_samples, 100, store)
    chunk = 8 * 100 * n_samples // 10
    limit = extra_workspace([(100, 1)], chunk) + least_memory(100) + 2**22
    assert extra_workspace([(100, 1)], chunk) == 3 * chunk - READ_BYTES
    options = {"C": 1e-5, "compute": Compute(max_memory=limit)}
    peak, _ = peak_memory(learn_metric, X, index, similar, **options)
    assert peak < limit
    rows = np.arange(0, n_samples, 7)
    peak, found = peak_memory(read_rows, X, rows)
    np.testing.assert_array_equal(found, X[:][rows])
    assert peak < found.nbytes + 8 * chunk  # one request for all needs 20


def test_the_workspace_is_taken_from_the_memory():
    assert memory_for_shards(None) == DEFAULT_MEMORY - WORKSPACE
    assert memory_for_shards("20MB") == 20_000_000 - WORKSPACE
    assert memory_for_shards(100) == 100 - WORKSPACE


def shared(n_samples, in_memory, counted=False):
    """Samples of 4 numbers, without the samples."""
    return SharedSamples((), ((4, 1),), n_samples, in_memory, counted)


def test_a_chunk_has_as_many_pairs_as_fit():
    """With its differences, or with two copies of all samples if these are fewer than the pairs."""
    difference = 8 * 4 * COPIES + VECTORS
    least = LEAST_PAIRS * difference
    assert pairs_per_chunk(shared(10, in_memory=False), least) == LEAST_PAIRS
    assert pairs_per_chunk(shared(10, in_memory=False), least + 3 * difference) == LEAST_PAIRS + 3
    for n_samples in (10, 300):
        size = 8 * 4 * n_samples
        given = pairs_per_chunk(shared(n_samples, in_memory=True), least)
        assert given == (least - 2 * size) // VECTORS  # the copies that a pass makes
        read = pairs_per_chunk(shared(n_samples, in_memory=True, counted=True), least)
        assert read == (least - 3 * size) // VECTORS  # and the samples themselves
    # 1,000 samples are more than the pairs that would fit beside a copy of them.
    assert pairs_per_chunk(shared(1000, in_memory=True), least) == LEAST_PAIRS
    # As many pairs as samples: their differences take no more than the samples.
    memory = 2 * least
    n_samples = next(n for n in range(1000) if (memory - 64 * n) // VECTORS <= n)
    assert (memory - 64 * n_samples) // VECTORS == n_samples
    assert pairs_per_chunk(shared(n_samples, in_memory=True), memory) == memory // difference


def test_too_little_memory_for_a_chunk_is_refused():
    least = least_memory(4)
    for samples in (shared(10, in_memory=False), shared(1000, in_memory=True)):
        for memory in (least - WORKSPACE - 1, 0, -5):
            message = rf"at least {least:,} bytes, got {WORKSPACE + memory:,}$"
            with pytest.raises(ValueError, match=rf"^max_memory: expected {message}"):
                pairs_per_chunk(samples, memory)


def test_a_sample_of_the_pairs_fits():
    per_pair = 8 * 4 * SAMPLE_COPIES + VECTORS
    assert pairs_per_sample(4, 10 * per_pair) == 10
    assert pairs_per_sample(4, 10 * per_pair - 1) == 9
    assert pairs_per_sample(4, 0) == pairs_per_sample(4, -1) == 1  # the solver needs one
    case = vectors()
    data = (samples_of(case), case.pairs, case.similar, None, LossSetting(1.0, (0.5, 2.0)))
    memory = LEAST.max_memory - WORKSPACE
    term = sharded_term(*data, where=LEAST)
    assert term.largest_sample == memory // per_pair < N_PAIRS
    sample = term.sample(10, np.random.RandomState(0))
    for term in (sample, on_device(sample, sample.sums.features.like)):
        assert term.rows.kept is None  # the limit does not provide for svec(A_k)


def test_samples_on_disk_are_read_once_if_they_are_small():
    stored = Sliceable(np.ones((10, 4)))
    memory = int(320 / SMALL_SHARE)
    fits = as_shared_samples(stored, read_in_parts=False, memory=memory)
    assert fits.in_memory
    assert fits.counted
    too_large = as_shared_samples(stored, read_in_parts=False, memory=memory - 1)
    assert not too_large.in_memory
    assert not too_large.counted
    given = as_shared_samples(np.ones((10, 4)), read_in_parts=True, memory=0)
    assert given.in_memory
    assert not given.counted  # their memory is the user's


def test_bytes_in_words():
    words = {1000: 1000, "500MB": 500_000_000, "2 GiB": 2**31, "1.5kb": 1500, "7": 7}
    for value, expected in words.items():
        assert parse_bytes("max_memory", value) == expected
    for value in ("much", "5 iB", "-3MB", "9" * 400, 0, -5):
        with pytest.raises(ValueError, match=r"^max_memory: expected"):
            parse_bytes("max_memory", value)
    for value in (1.5, None, True):
        with pytest.raises(TypeError, match=r"^max_memory: expected bytes"):
            parse_bytes("max_memory", value)


# Errors


def refused(error, message, X=None, pairs=None, similar=None, **options):
    case = vectors()
    X = samples_of(case) if X is None else X
    pairs = case.pairs if pairs is None else pairs
    similar = case.similar if similar is None else similar
    with pytest.raises(error, match=message):
        learn_metric(X, pairs, similar, **{"compute": LEAST} | options)


def changed(array, row, value):
    array = array.copy()
    array[row] = value
    return array


def test_errors_name_the_row_in_the_whole():
    case = vectors()
    refused(
        ValueError, r"^pairs: .* got index 15 in row 533", pairs=changed(case.pairs, 533, [0, 15])
    )
    refused(
        ValueError, r"^pairs: .* got 4 twice in row 531", pairs=changed(case.pairs, 531, [4, 4])
    )
    weights = changed(case.weights, 538, -1.0)
    refused(ValueError, r"^weights: .* got -1.0 in row 538", weights=weights)
    for n_samples in (15, 1000):
        case = vectors(n_samples)
        stored = Sliceable(changed(samples_of(case), (11, 2), np.nan))
        pairs = changed(case.pairs, 300, [11, 12])
        message = r"^X: .* got nan in block 0, sample 11, entry \(2, 0\)"
        refused(ValueError, message, X=stored, pairs=pairs)


def test_errors_of_shapes_and_kinds():
    case = vectors()
    refused(ValueError, r"^pairs: .* pairs has 600, similar has 599", similar=case.similar[:-1])
    refused(TypeError, "^similar: expected booleans", similar=case.similar.astype(int))
    refused(ValueError, "^weights: .* zeros only", weights=np.zeros(N_PAIRS))
    refused(ValueError, "^max_memory: expected at least", compute=Compute(max_memory=100))
    refused(ValueError, r"^X: .* got shape \(15,\)", X=Sliceable(np.zeros(15)))
    refused(ValueError, r"^X: .* got shape \(0, 4\)", X=Sliceable(np.zeros((0, 4))))
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
    sparse = scipy.sparse.csr_array(samples_of(case))
    for compute in (None, LEAST):
        message = r"^X: expected a dense array, .* \.toarray\(\)"
        refused(TypeError, message, X=sparse, compute=compute)


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


def test_masks_are_refused():
    case = vectors()
    given = {"X": samples_of(case), "pairs": case.pairs, "similar": case.similar}
    given["weights"] = case.weights
    for name, values in given.items():
        wrong = given | {name: np.ma.masked_array(values, mask=True)}
        with pytest.raises(TypeError, match=rf"^{name}: expected an array without masked entries"):
            learn_metric(**wrong, compute=LEAST)


def test_errors_of_aligned_arrays():
    first, similar = np.ones((3, 2)), np.ones(3, dtype=bool)
    with pytest.raises(ValueError, match=r"^second: expected 1 arrays"):
        PairChunks.from_arrays(first, (first, first), similar)
    for shape in ((3, 1), (3, 2, 1), (3, 3)):  # the first could be broadcast
        message = r"^second\[0\]: expected samples of the shape of those of first\[0\], \(2,\), got"
        with pytest.raises(ValueError, match=message):
            PairChunks.from_arrays(first, np.zeros(shape), similar)
    for place in range(3):  # the mask would be ignored
        given = [first, first, similar]
        given[place] = np.ma.masked_array(given[place], mask=True)
        with pytest.raises(TypeError, match=r": expected an array without masked entries"):
            PairChunks.from_arrays(*given)
    for wrong in (first + 1j, first.astype(str)):
        with pytest.raises(TypeError, match=r"second\[0\]: expected real numbers, got an array of"):
            learn_metric(PairChunks.from_arrays(first, wrong, similar))
    for chunk_size in (0, -1, 2.5, "many"):
        with pytest.raises((TypeError, ValueError), match=r"^chunk_size: expected"):
            PairChunks.from_arrays(first, first, similar, chunk_size=chunk_size)


def test_arguments_are_checked_before_the_pairs_are_read():
    def read():
        raise AssertionError("read")

    wrong = {"tol": 0, "solver": "x", "callback": 1, "compute": "x"}
    for name, value in wrong.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            learn_metric(PairChunks([read]), **{name: value})


# Files


def test_a_truncated_memory_map_is_refused_before_the_fit(tmp_path):
    """Reading it would end the process with SIGBUS."""
    case = vectors()
    arrays = {"X": samples_of(case), "pairs": case.pairs, "similar": case.similar}
    arrays["weights"] = case.weights
    for name, array in arrays.items():
        path = tmp_path / name
        given = arrays | {name: mapped(path, array)}
        os.truncate(path, array.nbytes - 1)
        message = rf"^{name}: expected a file of at least {array.nbytes:,} bytes, got .*{path}"
        for compute in (None, LEAST):
            with pytest.raises(ValueError, match=message):
                learn_metric(**given, compute=compute)
    X = mapped(tmp_path / "X", np.ones((1_000, 4)))  # of several pages
    os.truncate(tmp_path / "X", 100)
    with pytest.raises(ValueError, match=r"^X: expected a file of at least 32,000 bytes, got 100"):
        TATML().fit(X, np.arange(1_000) % 2)
    labels = mapped(tmp_path / "y", np.arange(100) % 2)
    os.truncate(tmp_path / "y", 0)
    with pytest.raises(ValueError, match=r"^y: expected a file of at least 800 bytes, got 0"):
        TATML().fit(np.ones((100, 4)), labels)
    with pytest.raises(ValueError, match=r"^AllPairs: labels: expected a file of at least 800"):
        learn_metric(np.ones((100, 4)), AllPairs(labels))
    pairs = mapped(tmp_path / "p", case.pairs)
    os.truncate(tmp_path / "p", case.pairs[:500].nbytes)
    learn_metric(arrays["X"], pairs[:500], case.similar[:500])  # a view of what is left
    with pytest.raises(ValueError, match=r"^pairs: expected a file of at least"):
        learn_metric(arrays["X"], pairs[:501], case.similar[:501])


def test_truncated_maps_of_blocks_and_aligned_arrays_are_refused(tmp_path):
    case = random_case(SHAPES["two ragged"], n_pairs=40, n_samples=15)
    maps = [mapped(tmp_path / f"{m}", a) for m, a in enumerate(case.arrays)]
    X, similar = Blocks(*maps), np.ones(15, dtype=bool)
    os.truncate(tmp_path / "1", 100)
    with pytest.raises(ValueError, match=r"^X: expected a file .* got 100 bytes"):
        learn_metric(X, case.pairs, case.similar)
    with pytest.raises(ValueError, match=r"^second\[1\]: expected a file .* got 100 bytes"):
        PairChunks.from_arrays(tuple(case.arrays), tuple(maps), similar)


def test_a_memory_map_that_is_truncated_during_the_fit_ends_it(tmp_path):
    case = vectors(1000)
    X, pairs = mapped(tmp_path / "X", samples_of(case)), mapped(tmp_path / "p", case.pairs)

    def truncate(iterate):
        os.truncate(tmp_path / "p", 4096)

    with pytest.raises(
        ValueError, match=r"^numpy.memmap: expected a file of at least .* got 4,096"
    ):
        learn_metric(X, pairs, case.similar, callback=truncate, compute=LEAST)


def test_a_deleted_memory_map_is_read(tmp_path):
    """The operating system keeps the content as long as it is mapped."""
    case = vectors()
    X = mapped(tmp_path / "X", samples_of(case))
    os.remove(tmp_path / "X")
    assert learn_metric(X, case.pairs, case.similar).converged


@pytest.mark.parametrize("version", [2, 3])
def test_missing_chunks_of_zarr_arrays_are_reported_once(tmp_path, version):
    case = vectors()
    X = zarr_array(tmp_path / "X", samples_of(case), 5, zarr_format=version)
    weights = zarr_array(tmp_path / "w", case.weights, 100, zarr_format=version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn_metric(X, case.pairs, case.similar, weights=weights)
    os.remove(tmp_path / "X" / ("1.0" if version == 2 else "c/1/0"))
    for chunk in ("0", "3"):
        os.remove(tmp_path / "w" / (chunk if version == 2 else f"c/{chunk}"))
    with pytest.warns(UserWarning, match="stored chunks") as caught:
        learn_metric(X, case.pairs, case.similar, weights=weights)
    assert [str(warning.message) for warning in caught] == [
        "X: expected 3 stored chunks, got 2; weights: expected 6 stored chunks, got 4. zarr reads "
        "the missing chunks as the fill value. If they were not lost, write the array with "
        "write_empty_chunks=True."
    ]
    assert caught[0].filename == __file__
    labels = np.arange(15) % 2
    with pytest.warns(UserWarning, match=r"^X: expected 3 stored chunks, got 2\.") as caught:
        TATML(random_state=0).fit(X, labels)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"^preprocessor: expected 3 stored chunks, got 2\."):
        TATMLPairs(preprocessor=X).fit(case.pairs, np.where(case.similar, 1, -1))
    with pytest.warns(UserWarning, match=r"^first\[0\]: expected 3 stored chunks, got 2\."):
        PairChunks.from_arrays(X, samples_of(case), np.ones(15, dtype=bool))


def test_a_store_that_cannot_count_its_chunks_is_read():
    class Uncountable(Sliceable):
        nchunks = 3

        @property
        def nchunks_initialized(self):
            raise NotImplementedError

    stored = Uncountable(np.ones((3, 2)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_missing_chunks(X=stored, weights=None)
        read = as_shared_samples(stored, read_in_parts=False, memory=10**6)
    assert caught == []
    assert read.n_samples == 3


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
    assert_allclose(pickle.loads(pickle.dumps(sendable(array[3:])))[0], array[3])  # travels whole


def test_a_device_without_pytorch_is_a_missing_extra(monkeypatch):
    case = random_case([(3, 1)], n_pairs=20)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = re.escape('device needs PyTorch: pip install ".[torch]"')
    with pytest.raises(ImportError, match=message):
        learn_metric(case.blocks, case.pairs, case.similar, compute=Compute(device="cuda"))


class SlicesOnly:
    """An array that supports slices only, as some file formats do."""

    def __init__(self, values):
        self.values = values

    def __getitem__(self, rows):
        if not isinstance(rows, slice):
            raise TypeError("slices only")
        return self.values[rows]


@pytest.mark.parametrize("wrap", [np.asarray, SlicesOnly])
def test_rows_are_read_by_slices_and_by_indices(wrap):
    values = np.arange(20.0).reshape(10, 2)
    for rows in ([3], [3, 4, 5], [0, 9], [0, 1, 4, 6, 7, 8], list(range(10))):
        found = read_rows(wrap(values), np.array(rows))
        np.testing.assert_array_equal(found, values[rows])


def test_comparisons_without_indices_are_refused_by_name():
    place = Compute(max_memory="50MB")
    with pytest.raises(TypeError, match="comparisons: index: expected"):
        learn_metric(np.eye(3), comparisons=Comparisons(None), compute=place)
