"""A fit on a dask cluster of worker processes: the same answer, also when a worker dies."""

import asyncio
import multiprocessing
import os
import pickle
import re
import signal
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from comparisons_helpers import compared_case
from good_calls import QuarticLoss
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose
from sharding_helpers import TIGHT, assert_same, zarr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tatml import TATMLCV, Comparisons, Compute, Newton, learn_metric
from tatml._sharding.all_pairs import AllPairs
from tatml._sharding.base import LossSetting
from tatml._sharding.chunks import LEAST_SENT, MOST_SENT, PairChunks, sharded_term
from tatml._sharding.dask import ATTEMPTS, DaskExecutor, aligned_chunks
from tatml.datasets import make_textures
from tatml.features import CovarianceDescriptor

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

LOST = (
    r"^client: the dask cluster lost {}, and 3 attempts to compute the sums over the shards failed "
    r"\(last error: \w+\); restart the cluster and resume from a checkpoint: "
    r"init=Checkpoint.load\(path\)$"
)


@pytest.fixture(scope="module")
def fork():
    """Processes that start within milliseconds, because the library is imported already."""
    method = {"distributed.worker.multiprocessing-method": "forkserver"}
    with dask.config.set(method | {"distributed.worker.memory.terminate": False}):
        distributed.utils.get_mp_context()  # sets a list of its own
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["distributed", "joblib", "tatml", "tatml.features"])
        yield context


@pytest.fixture(scope="module")
def cluster(fork):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@contextmanager
def waiting_at_most(seconds):
    """Limit how long a fit waits for a worker, or for the scheduler."""
    with dask.config.set({"distributed.comm.timeouts.connect": f"{seconds}s"}):
        yield


def vectors():
    return random_case(SHAPES["vectors"], n_pairs=60, n_samples=15, C=3.0, weights=True)


def dask_arrays(case, chunks=(17, 3, 40)):
    return [
        da.from_array(array, chunks=(chunks, *array.shape[1:]))
        for array in (case.pairs, case.similar, case.weights)
    ]


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ImportError, match=r'pip install "\.\[dask\]"'):
        learn_metric(case.blocks, pairs, similar)


def test_dask_arrays_need_a_cluster():
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ValueError, match=r"^client: expected a dask cluster"):
        learn_metric(case.blocks, pairs, similar)  # so this test comes first


def test_dask_arrays_of_index_pairs(client):
    case = vectors()
    pairs, similar, weights = dask_arrays(case)
    options = case.options() | {"weights": weights}
    found = learn_metric(case.blocks, pairs, similar, tol=TIGHT, **options)
    assert_same(found, case.learn(tol=TIGHT))
    few = Newton(linear_solver="cg", max_iter=50)  # a product is a round
    found = learn_metric(case.blocks, pairs, similar, tol=1e-4, solver=few, **options)
    expected = case.learn(tol=1e-4, solver=few)
    assert_allclose(found.W[0], expected.W[0], rtol=1e-6, atol=1e-8)


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


def test_pairs_and_tiles_on_a_given_client(client):
    case = random_case(SHAPES["vectors"], n_pairs=25_000, n_samples=15, C=1e-3)  # in three chunks
    place = Compute(client=client)
    found = learn_metric(
        case.blocks, case.pairs, case.similar, tol=TIGHT, compute=place, **case.options()
    )
    assert_same(found, case.learn(tol=TIGHT))
    y = np.arange(15) % 4
    every = {"tol": TIGHT, "C": 0.1}
    expected = learn_metric(case.blocks, AllPairs(y), **every)
    assert_same(learn_metric(case.blocks, AllPairs(y), compute=place, **every), expected)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", QuarticLoss()])
def test_midpoints_on_a_given_client(client, loss):
    case = random_case(SHAPES["vectors"], n_pairs=40)
    data = case.blocks, case.pairs, case.similar
    settings = {"midpoint": True, "loss": loss, "mu0": -0.5, "tol": 1e-10}
    expected = learn_metric(*data, **settings)
    found = learn_metric(*data, **settings, compute=Compute(client=client))
    assert found.converged
    assert abs(found.primal - expected.primal) <= found.gap + expected.gap + 1e-11
    assert_allclose(found.V[0], expected.V[0], rtol=1e-3, atol=1e-5)
    assert_allclose(found.center[0], expected.center[0], rtol=1e-13, atol=1e-14)


def test_each_worker_uses_its_own_device(client):
    """With CPU workers here, and with two workers on one GPU where there is one."""
    torch = pytest.importorskip("torch")
    case = random_case(SHAPES["two ragged"], n_pairs=200, n_samples=30, C=0.5)
    arguments = case.blocks, case.pairs, case.similar
    expected = learn_metric(*arguments, C=0.5, tol=1e-12)
    for device in ["cpu", "cuda"][: 1 + torch.cuda.is_available()]:
        compute = Compute(client=client, device=device)
        found = learn_metric(*arguments, C=0.5, tol=1e-12, compute=compute)
        assert isinstance(found.W[0], np.ndarray)
        assert_allclose(found.b0, expected.b0, rtol=1e-8)
        for W, other in zip(found.W, expected.W, strict=True):
            assert_allclose(W, other, atol=1e-8 * np.abs(other).max())
    with pytest.raises(ValueError, match="device: expected one that PyTorch has here"):
        learn_metric(*arguments, compute=Compute(client=client, device="nowhere"))


def test_chunks_are_small_enough_for_several_workers(monkeypatch):
    """Sixteen of them, with 10,000 to 200,000 pairs each."""
    monkeypatch.setattr(DaskExecutor, "__init__", lambda self, *args: vars(self).update(s=args[0]))
    monkeypatch.setattr(DaskExecutor, "gather", lambda *args: [(((4, 1),), 1, True)])
    place = Compute(client="any", max_memory="4GB")
    expected = {5_000: 1, 25_000: 3, 320_000: 16, 3_300_000: 17}
    assert (LEAST_SENT, MOST_SENT) == (10_000, 200_000)
    for n_pairs, n_chunks in expected.items():
        pairs = np.broadcast_to([[0, 1]], (n_pairs, 2))
        data = (np.zeros((2, 4)), pairs, np.broadcast_to(True, n_pairs), None)
        term = sharded_term(*data, LossSetting(1.0, (0.5, 2.0)), where=place)
        assert len(term.executor.s) == n_chunks, n_pairs


# Workers and schedulers that die


def kill_workers(client, which):
    """Kill worker processes; their nannies start new ones."""
    for pid in client.run(os.getpid, workers=which).values():
        os.kill(pid, signal.SIGKILL)


def fit_with_callback(callback, chunks=(17, 3, 40), **options):
    """A fit whose callback is called once, after the first step; returns the case too."""
    case = vectors()
    pairs, similar, weights = dask_arrays(case, chunks)

    def once(iterate):
        if iterate.n_iter == 1:
            callback()

    options = case.options() | {"weights": weights, "tol": TIGHT, "callback": once} | options
    return case, learn_metric(case.blocks, pairs, similar, **options)


def test_a_worker_that_dies_costs_its_chunks_not_the_fit(client):
    killed = []

    def kill():
        held = client.has_what()
        busiest = max(held, key=lambda worker: len(held[worker]))
        killed.append(len(held[busiest]))
        kill_workers(client, [busiest])

    case, found = fit_with_callback(kill, (6,) * 10)
    assert killed[0] > 0
    assert found.n_iter > 2
    assert_same(found, case.learn(tol=TIGHT))


def test_a_cluster_that_lost_all_workers_is_given_the_pairs_again(client):
    """Data that was sent to the workers, not computed there, is lost when all of them die."""
    client.wait_for_workers(2, timeout=60)
    case, found = fit_with_callback(lambda: kill_workers(client, None))
    assert_same(found, case.learn(tol=TIGHT))


def test_a_cluster_without_workers_is_one_line(cluster, client):
    client.wait_for_workers(2, timeout=60)

    def retire():
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.05)

    try:
        with (
            waiting_at_most(0.5),
            pytest.raises(ConnectionError, match=LOST.format("all workers")) as caught,
        ):
            fit_with_callback(retire)
        assert "\n" not in str(caught.value)
    finally:
        cluster.scale(2)
        client.wait_for_workers(2, timeout=60)


def run_scheduler(connection):
    async def serve():
        async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            connection.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(serve())


def run_worker(address):
    async def serve():
        async with distributed.Worker(address, nthreads=1, dashboard=False) as worker:
            await worker.finished()

    asyncio.run(serve())


@contextmanager
def process_of(context, function, *args):
    process = context.Process(target=function, args=args, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(timeout=60)


def test_a_lost_scheduler_is_one_line(fork):
    ours, theirs = fork.Pipe()
    with process_of(fork, run_scheduler, theirs) as scheduler:
        assert ours.poll(60)
        address = ours.recv()
        with (
            process_of(fork, run_worker, address),
            distributed.Client(address, set_as_default=False) as alone,
        ):
            alone.wait_for_workers(1, timeout=60)
            alone._timeout = 1  # how long it tries to connect again
            with (
                waiting_at_most(1),
                pytest.raises(ConnectionError, match=LOST.format("the connection to .*")) as caught,
            ):
                fit_with_callback(scheduler.kill, compute=Compute(client=alone))
            assert "\n" not in str(caught.value)


class FakeClient:
    """A client that loses what is submitted, always in the same way."""

    def __init__(self, error, status="running"):
        self.error, self.status, self.n_rounds = error, status, 0
        self.n_waits = 0

    def nthreads(self):
        return {"tcp://a": 1}

    def scatter(self, *args, **options):
        self.n_rounds += 1
        raise self.error

    def submit(self, *args, **options):
        self.n_waits += 1
        return SimpleNamespace(result=lambda: None)


def test_every_loss_is_tried_again_and_named():
    """Whatever dask raises; what is no loss is raised at once and unchanged."""
    losses = {
        "workers": [
            distributed.KilledWorker("task", None, 0),
            distributed.comm.CommClosedError("closed"),
            distributed.CancelledError("key"),
            TimeoutError("No valid workers found"),
            OSError("Timed out trying to connect"),
        ],
        "the connection to the scheduler": [RuntimeError("ConnectionPool is closed")],
    }
    for what, errors in losses.items():
        for error in errors:
            client = FakeClient(error, "running" if what == "workers" else "closed")
            executor = DaskExecutor([object()], "samples", client)
            with pytest.raises(ConnectionError, match=LOST.format(what)) as caught:
                executor.total(max, LossSetting(1.0, (0.5, 2.0)))
            assert caught.value.__cause__ is error
            assert client.n_rounds == ATTEMPTS == 3
            assert client.n_waits == 1  # for the first worker, without a limit, and never again
    client = FakeClient(TypeError("cannot pickle"))
    with pytest.raises(TypeError, match=r"^cannot pickle$"):
        DaskExecutor([object()], "samples", client).gather(max, LossSetting(1.0, (0.5, 2.0)))
    assert client.n_rounds == 1


def test_errors_of_tasks_are_no_losses():
    executor = DaskExecutor([], None, FakeClient(None))
    failed = [SimpleNamespace(status="finished"), SimpleNamespace(status="error")]
    for error in (FileNotFoundError("pairs.npy"), ValueError("X: expected"), TimeoutError()):
        assert not executor._is_loss(error, failed), error
    for error in (distributed.comm.CommClosedError("closed"), asyncio.CancelledError()):
        assert executor._is_loss(error, failed), error


def test_an_interrupt_returns_the_best_point_and_leaves_the_cluster_usable(client):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="The user interrupted"):
        case, stopped = fit_with_callback(interrupt, solver=Newton(on_interrupt="return"))
    assert str(stopped.status) == "interrupted"
    _, resumed = fit_with_callback(lambda: None, init=stopped)
    assert_same(resumed, case.learn(tol=TIGHT))


def test_the_answer_does_not_depend_on_who_computes_it(client):
    """The sums are taken in the same order whichever worker is faster."""
    case = vectors()
    data = (case.blocks, *dask_arrays(case, (6,) * 10), LossSetting(1.0, (0.5, 2.0)))
    terms = [sharded_term(*data) for _ in range(2)]
    points = [term.at([np.eye(4)], 0.7) for term in terms]
    first, second = (pickle.dumps(point.totals) for point in points)
    assert first == second
    assert points[0].totals.n_active > 0


def read_from_a_missing_file():
    raise FileNotFoundError("pairs.npy")


def test_errors_reach_the_user(client):
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    wrong = da.where(pairs == 14, 99, pairs)
    with pytest.raises(ValueError, match=r"^chunk \d: pairs: .* got index 99"):
        learn_metric(case.blocks, wrong, similar)
    with pytest.raises(TypeError, match=r"^X: .* got a dask array"):
        learn_metric(da.from_array(case.arrays[0][:, :, 0]), pairs, similar)
    with pytest.raises(FileNotFoundError, match=r"^pairs.npy$"):  # not an error of the cluster
        learn_metric(PairChunks([dask.delayed(read_from_a_missing_file)()]))


def test_arrays_on_disk_are_cut_as_the_dask_arrays_are(client, tmp_path):
    case = vectors()
    similar = dask_arrays(case)[1]
    stored = zarr_array(tmp_path / "p", case.pairs.astype("i4"), chunk=7)
    expected = learn_metric(case.blocks, case.pairs, case.similar, tol=TIGHT)
    assert_same(learn_metric(case.blocks, stored, similar, tol=TIGHT), expected)


def test_what_is_no_dask_array():
    case = vectors()
    for wrong in (dask.delayed(case.pairs), da.asarray(3)):
        with pytest.raises(TypeError, match=r"^pairs: expected a dask array with rows, got"):
            learn_metric(case.blocks, wrong, case.similar)


def test_chunks_that_do_not_align():
    case = vectors()
    pairs, similar, _ = dask_arrays(case)
    with pytest.raises(ValueError, match=r"^similar: expected the chunks of pairs, got others"):
        learn_metric(case.blocks, pairs, similar.rechunk(30))
    with pytest.raises(ValueError, match=r"^similar: expected 60 rows, got shape \(59,\)"):
        learn_metric(case.blocks, pairs, case.similar[:-1])
    for arrays in (
        {"pairs": pairs[pairs[:, 0] > 3]},
        {"similar": similar, "pairs": pairs[pairs[:, 0] > 3]},
        {"pairs": pairs[:, pairs[0] >= 0]},
    ):
        with pytest.raises(ValueError, match=r"^pairs: expected known chunks"):
            aligned_chunks(arrays, tuple)


def test_misaligned_chunks_are_told_apart():
    """Also where they begin alike, or where one list begins with the other."""
    ten = (10,) * 10
    shown = {
        (*ten[:6], 9, 11, 10, 10): "chunk 6 has 9 rows instead of 10",
        (9, 11, *ten[2:]): "chunk 0 has 9 rows instead of 10",
        (*ten, 10): "there are 11 chunks instead of 10",
        (50, 50): "chunk 0 has 50 rows instead of 10",
    }
    for chunks, message in shown.items():
        arrays = {
            "pairs": da.zeros(100, chunks=(ten,)),
            "weights": da.zeros(sum(chunks), chunks=(chunks,)),
        }
        expected = f"weights: expected the chunks of pairs, got others: {message}"
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}; call weights.rechunk$"):
            aligned_chunks(arrays, tuple)


def count_transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def test_a_search_runs_on_the_same_cluster(client):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    search = TATMLCV(param_grid={"C": [1.0, 100.0]}, cv=2, n_jobs=2, random_state=0)
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


def test_a_sum_is_a_tree_and_all_its_tasks_are_known():
    """So that all of them can be cancelled, and a lost one is found; eight results per task."""
    executor = SimpleNamespace(
        _submit=lambda *_: [SimpleNamespace(result=lambda k=k: k) for k in range(20)],
        _task=lambda function, group: SimpleNamespace(
            result=lambda: sum(each.result() for each in group), size=len(group)
        ),
        _wait=lambda futures: None,
        client=SimpleNamespace(gather=lambda futures: [future.result() for future in futures]),
    )
    futures = []
    assert DaskExecutor._compute(executor, executor._submit, True, futures) == [sum(range(20))]
    assert len(futures) == 20 + 3 + 1
    assert [future.size for future in futures[20:]] == [8, 8, 4, 3]


# Comparisons


def test_comparisons_on_a_cluster_have_the_solution_in_memory(client):
    case = compared_case([(3, 1)], 1, 500, n_samples=20, weights=True)
    data, given = case.arguments()
    lazy = Comparisons(
        da.from_array(case.compared, chunks=(150, 4)), case.compared_weights, 0.3, 1.5
    )
    expected = case.learn()
    for options in ({"compute": Compute(client=client)}, {"comparisons": lazy}):
        found = learn_metric(*data, **given | options)
        assert_allclose(found.primal, expected.primal, rtol=1e-8)
        assert_allclose(found.b0, expected.b0, rtol=1e-6)
        assert_allclose(found.W[0], expected.W[0], atol=1e-6)


# Rehearsals


def many_pairs_on(client, n_pairs=6_000):
    """A term in three chunks on the cluster, and the case."""
    case = random_case(SHAPES["two ragged"], n_pairs=n_pairs, n_samples=40, C=1e-2, weights=True)
    data = (case.blocks, *dask_arrays(case, (2_000, 1_000, n_pairs - 3_000)))
    return case, sharded_term(*data, LossSetting(case.C, case.margin), where=Compute(client=client))


def test_a_sample_stays_on_the_workers_and_stands_for_all_pairs(client):
    case, term = many_pairs_on(client)
    sample = term.sample(1_500, np.random.RandomState(0))
    assert type(sample) is type(term)
    assert sample.executor.sample_of[0] is term.executor
    counts = sample.executor.gather(count_pairs, sample.setting)
    assert counts == pytest.approx([500, 250, 750], abs=1)
    L = [np.eye(n) for n, _ in case.blocks.block_shapes]
    whole, some = term.at(L, 0.5).totals, sample.at(L, 0.5).totals
    assert_allclose(some.loss, whole.loss, rtol=0.2)
    assert_allclose(some.force, whole.force, rtol=0.2)
    assert_allclose(some.n_active / 1_500, whole.n_active / 6_000, rtol=0.2)


def count_pairs(term, index):
    return term.n_pairs


def test_a_lost_sample_is_drawn_again(client):
    case, term = many_pairs_on(client)
    L = [np.eye(n) for n, _ in case.blocks.block_shapes]
    sample = term.sample(600, np.random.RandomState(1))
    before = sample.at(L, 0.5).totals
    client.cancel(term.executor._pieces, force=True)
    client.cancel(sample.executor._pieces, force=True)
    assert_allclose(sample.at(L, 0.5).totals.loss, before.loss, rtol=1e-12)


def test_a_rehearsed_fit_has_the_solution_in_memory(client):
    case = random_case(SHAPES["vectors"], n_pairs=90_000, n_samples=60, C=1e-4)
    rehearsed = Newton(random_state=0)
    options = {"tol": TIGHT, "solver": rehearsed, **case.options()}
    found = learn_metric(
        case.blocks, case.pairs, case.similar, compute=Compute(client=client), **options
    )
    assert_same(found, case.learn(tol=TIGHT, solver=rehearsed))
    assert found.history["gap"][0] < 0.1 * found.primal  # a good start
