"""A fit on a dask cluster of worker processes: the same answer, also when a worker dies."""

import os
import signal
import sys

import joblib
import numpy as np
import pytest
from helpers import SHAPES, largest_difference, random_case
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import tatml._sharding.chunks
from tatml import TATMLCV, Compute, Newton, learn_metric
from tatml._sharding.all_pairs import AllPairs
from tatml._sharding.chunks import PairChunks
from tatml._sharding.dask import aligned_chunks
from tatml.datasets import make_textures
from tatml.features import CovarianceDescriptor

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

TIGHT = 1e-16


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def vectors():
    return random_case(SHAPES["vectors"], n_pairs=60, n_samples=15, C=3.0, weights=True)


def dask_arrays(case, chunks=(17, 3, 40)):
    return [
        da.from_array(array, chunks=(chunks, *array.shape[1:]))
        for array in (case.pairs, case.similar, case.weights)
    ]


def assert_same(found, expected):
    assert found.gap < 1e-14 * max(1, found.primal)
    assert largest_difference(found.W, expected.W) < 1e-8
    assert_allclose(found.b0, expected.b0, rtol=1e-8)
    assert_allclose(found.primal, expected.primal, rtol=1e-10)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ImportError, match=r'pip install "tatml\[dask\]"'):
        learn_metric(case.blocks, pairs, similar)


def test_dask_arrays_need_a_cluster():
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ValueError, match=r"^client: expected a dask cluster"):
        learn_metric(case.blocks, pairs, similar)  # so this test comes first


@pytest.mark.parametrize("way", ["auto", "cg"])
def test_dask_arrays_of_index_pairs(client, way):
    case = vectors()
    pairs, similar, weights = dask_arrays(case)
    options = case.options() | {"weights": weights, "solver": Newton(linear_solver=way)}
    found = learn_metric(case.blocks, pairs, similar, tol=TIGHT, **options)
    assert_same(found, case.learn(tol=TIGHT))


def test_dask_arrays_of_features(client):
    case = random_case(SHAPES["two ragged"], n_pairs=60, n_samples=15, C=3.0, prior=True)
    first, second = (
        tuple(da.from_array(a[case.pairs[:, side]], chunks=((17, 43), 2, 2)) for a in case.arrays)
        for side in (0, 1)
    )
    chunks = PairChunks.from_arrays(first, second, case.similar)
    assert len(chunks) == 2
    found = learn_metric(chunks, tol=TIGHT, **case.options())
    assert_same(found, case.learn(tol=TIGHT))


def test_delayed_chunks(client):
    case = vectors()
    X = case.arrays[0][:, :, 0]

    def read(start, stop):
        part = slice(start, stop)
        return X, case.pairs[part], case.similar[part], case.weights[part]

    chunks = PairChunks(dask.delayed(read)(k, k + 6) for k in range(0, 60, 6))
    found = learn_metric(chunks, tol=TIGHT, **case.options() | {"weights": None})
    assert_same(found, case.learn(tol=TIGHT))


def test_pairs_and_tiles_on_a_given_client(client, monkeypatch):
    monkeypatch.setattr(tatml._sharding.chunks, "LEAST_SENT", 1)
    case = vectors()
    options = case.options()
    found = learn_metric(
        case.blocks, case.pairs, case.similar, tol=TIGHT, compute=Compute(client=client), **options
    )
    assert_same(found, case.learn(tol=TIGHT))
    y = np.arange(15) % 4
    every = {"tol": TIGHT, "C": 0.1}
    expected = learn_metric(case.blocks, AllPairs(y), **every)
    assert_same(
        learn_metric(case.blocks, AllPairs(y), compute=Compute(client=client), **every), expected
    )


def test_a_worker_that_dies_costs_its_chunks_not_the_fit(client):
    case = vectors()
    pairs, similar, weights = dask_arrays(case, (6,) * 10)
    killed = []

    def kill(iterate):
        if iterate.n_iter == 2:
            held = client.has_what()
            busiest = max(held, key=lambda worker: len(held[worker]))
            pid = client.run(os.getpid, workers=[busiest])[busiest]
            os.kill(pid, signal.SIGKILL)
            killed.append(len(held[busiest]))

    options = case.options() | {"weights": weights, "callback": kill, "tol": TIGHT}
    found = learn_metric(case.blocks, pairs, similar, **options)
    assert killed[0] > 0
    assert found.n_iter > 3
    assert_same(found, case.learn(tol=TIGHT))
    client.wait_for_workers(2, timeout=20)


def test_a_cluster_that_lost_everything_is_given_it_again():
    """With one worker, what was sent to it and not computed there is gone when it dies."""
    case = vectors()
    pairs, similar, weights = dask_arrays(case)
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=1, processes=True, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as alone,
    ):

        def kill(iterate):
            if iterate.n_iter == 1:
                os.kill(next(iter(alone.run(os.getpid).values())), signal.SIGKILL)

        options = case.options() | {"weights": weights, "callback": kill}
        found = learn_metric(
            case.blocks, pairs, similar, tol=TIGHT, compute=Compute(client=alone), **options
        )
    assert_same(found, case.learn(tol=TIGHT))


def test_an_interrupt_returns_the_best_point_and_leaves_the_cluster_usable(client):
    case = vectors()
    pairs, similar, weights = dask_arrays(case)

    def interrupt(iterate):
        if iterate.n_iter == 2:
            raise KeyboardInterrupt

    options = case.options() | {"weights": weights, "tol": TIGHT}
    with pytest.warns(ConvergenceWarning, match="The user interrupted"):
        stopped = learn_metric(
            case.blocks,
            pairs,
            similar,
            callback=interrupt,
            solver=Newton(on_interrupt="return"),
            **options,
        )
    assert str(stopped.status) == "interrupted"
    resumed = learn_metric(case.blocks, pairs, similar, init=stopped, **options)
    assert_same(resumed, case.learn(tol=TIGHT))


def test_the_answer_does_not_depend_on_who_computes_it(client):
    """The sums are taken in the same order whichever worker is faster."""
    case = vectors()
    pairs, similar, _ = dask_arrays(case, (6,) * 10)
    results = [
        learn_metric(case.blocks, pairs, similar, tol=1e-2, solver=Newton(max_iter=3))
        for _ in range(2)
    ]
    assert_allclose(results[0].W[0], results[1].W[0], rtol=0, atol=0)
    assert results[0].b0 == results[1].b0


def test_errors_reach_the_user(client):
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    wrong = da.where(pairs == 14, 99, pairs)
    with pytest.raises(ValueError, match=r"^chunk \d: pairs: .* got index 99"):
        learn_metric(case.blocks, wrong, similar)
    with pytest.raises(TypeError, match=r"^X: .* got a dask array"):
        learn_metric(da.from_array(case.arrays[0][:, :, 0]), pairs, similar)


def test_arrays_on_disk_are_cut_as_the_dask_arrays_are(client, tmp_path):
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "p", shape=case.pairs.shape, chunks=(7, 2), dtype="i4")
    stored[:] = case.pairs
    expected = learn_metric(case.blocks, pairs, similar, tol=TIGHT)
    assert_same(learn_metric(case.blocks, stored, similar, tol=TIGHT), expected)


def test_what_is_no_dask_array():
    case = vectors()
    for wrong in (dask.delayed(case.pairs), da.asarray(3)):
        with pytest.raises(TypeError, match=r"^pairs: expected a dask array with rows, got"):
            learn_metric(case.blocks, wrong, case.similar)


def test_chunks_that_do_not_align():
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ValueError, match=r"^similar: expected the chunks of pairs, \(17, 3, 40\)"):
        learn_metric(case.blocks, pairs, similar.rechunk(30))
    with pytest.raises(ValueError, match=r"^similar: expected 60 rows, got shape \(59,\)"):
        learn_metric(case.blocks, pairs, case.similar[:-1])
    with pytest.raises(ValueError, match=r"^pairs: expected known chunks"):
        aligned_chunks({"pairs": pairs[pairs[:, 0] > 3], "similar": similar}, tuple)


def count_transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def test_a_search_runs_on_the_same_cluster(client):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    search = TATMLCV([1.0, 100.0], cv=2, n_jobs=2, random_state=0)
    expected = clone(search).set_params(n_jobs=None).fit(X, y)
    before = client.run_on_scheduler(count_transitions)
    with joblib.parallel_config(backend="dask"):
        found = search.fit(X, y)
    assert client.run_on_scheduler(count_transitions) > before + 4
    assert found.C_ == expected.C_
    assert_allclose(found.components_, expected.components_, rtol=1e-9)


def test_descriptors_are_extracted_on_the_same_cluster(client):
    images = make_textures(n_classes=2, n_per_class=6, random_state=0).images
    descriptor = CovarianceDescriptor(scales=(1.0,))
    parts = [images[start : start + 4] for start in range(0, len(images), 4)]
    with joblib.parallel_config(backend="dask"):
        found = joblib.Parallel()(joblib.delayed(descriptor.fit_transform)(part) for part in parts)
    assert_allclose(np.concatenate(found), descriptor.fit_transform(images), rtol=1e-12)
