"""`learn_metric` on PyTorch tensors and CuPy arrays: NumPy's solution, on their device."""

from functools import partial
from math import inf

import numpy as np
import pytest
from comparisons_helpers import compared_case
from helpers import SHAPES, limited, random_case
from numpy.testing import assert_allclose
from placed_helpers import CASES, assert_same_solution, learn_placed, learnt
from sklearn import config_context
from sklearn.datasets import load_wine

from tatml import TATML, Blocks, Comparisons, Compute, Newton, PairChunks, learn_metric
from tatml._array import namespace, to_numpy
from tatml._optim import newton as newton_module
from tatml._optim.checkpoint import Checkpoint
from tatml._optim.layout import Limits
from tatml._optim.problem import LogDetProblem
from tatml._optim.sums import PairSums
from tatml._sharding import base

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
KINDS = [*DEVICES, pytest.param("cupy", marks=needs_cuda)]


@pytest.fixture(params=KINDS)
def place(request):
    """A function that converts NumPy arrays to a namespace and device."""
    if request.param == "cupy":
        return pytest.importorskip("cupy").asarray
    return partial(torch.asarray, device=request.param)


def limit_problems(monkeypatch, **limits):
    """Give all problems other limits."""
    of = LogDetProblem.of
    monkeypatch.setattr(
        LogDetProblem, "of", lambda *args, **known: limited(of(*args, **known), **limits)
    )


@pytest.mark.parametrize(("linear_solver", "c0", "shape"), CASES)
def test_the_solution_is_numpys(place, linear_solver, c0, shape):
    case = random_case(SHAPES[shape], n_pairs=40, C=5.0, c0=c0, weights=True, prior=True)
    result = learn_placed(case, place, solver=Newton(linear_solver=linear_solver))
    assert_same_solution(result, learnt(case, solver=Newton(linear_solver=linear_solver)), 1e-8)
    like = place(case.arrays[0])
    for W in result.W:
        assert type(W) is type(like)
        assert W.device == like.device
        assert W.dtype == like.dtype
    assert all(type(number) is float for number in (result.b0, result.primal, result.gap))


@pytest.mark.parametrize(("linear_solver", "c0", "shape"), CASES)
def test_sums_over_samples(place, monkeypatch, linear_solver, c0, shape):
    limit_problems(monkeypatch, by_samples=True)
    case = random_case(SHAPES[shape], n_pairs=40, C=5.0, c0=c0, weights=True, prior=True)
    solver = Newton(linear_solver=linear_solver)
    result = learn_placed(case, place, solver=solver)
    assert_same_solution(result, learnt(case, solver=solver), 1e-8)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
@pytest.mark.parametrize("by_samples", [False, True])
def test_midpoints_are_numpys(place, monkeypatch, loss, linear_solver, by_samples):
    limit_problems(monkeypatch, by_samples=by_samples)
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=2.0, weights=True)
    options = {"midpoint": True, "loss": loss, "solver": Newton(linear_solver=linear_solver)}
    result, expected = learn_placed(case, place, **options), learnt(case, **options)
    assert_same_solution(result, expected, 1e-8)
    for got, V in zip(result.V, expected.V, strict=True):
        assert type(got) is type(place(case.arrays[0]))
        assert_allclose(to_numpy(got), V, atol=1e-8 * np.max(np.abs(V)))


def test_near_pairs_are_computed_from_differences(place):
    """Distances of other pairs come from inner products."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 1, 20))
    X[25:] = X[:25] + 1e-6 * rng.standard_normal((25, 1, 20))
    pairs = np.vstack(
        [rng.integers(50, size=(300, 2)), np.column_stack([range(25), range(25, 50)])]
    )
    sums = PairSums.of(
        [place(X)], *(place(rows) for rows in pairs.T.copy()), limits=Limits(by_samples=True)
    )
    exact = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=(1, 2))
    distances = sums.evaluate(lambda part, d: d).distances
    assert_allclose(to_numpy(distances), exact, rtol=1e-12)
    assert_allclose(to_numpy(sums.distances()), exact, rtol=1e-12)


def test_many_pairs_are_rehearsed_and_sampled(place, monkeypatch):
    for name in ("SAMPLE", "GPU_SAMPLE"):
        monkeypatch.setattr(newton_module, name, 50)
    limit_problems(monkeypatch, pairs_per_dimension=5, svec_bytes=0)
    case = random_case(SHAPES["two ragged"], n_pairs=400, n_samples=30, C=0.5)
    for linear_solver in ("dense", "cg"):
        options = {"solver": Newton(linear_solver=linear_solver, random_state=0)}
        assert_same_solution(learn_placed(case, place, **options), learnt(case, **options), 1e-6)


def test_large_matrices_need_no_eigenvalues(place):
    """More rows than LARGE: steps and gaps by Cholesky factorisations."""
    case = random_case([(70, 1)], n_pairs=600, n_samples=100, C=0.5, c0=3.0)
    for linear_solver in ("woodbury", "cg"):
        result = learn_placed(case, place, solver=Newton(linear_solver=linear_solver))
        assert_same_solution(result, learnt(case), 1e-7)
        assert_allclose(result.gap, case.at(learnt(case).W, learnt(case).b0).gap, atol=1e-8)


@pytest.mark.parametrize("shape", ["vectors", "square", "two ragged"])
def test_float32_is_near_and_says_its_tolerance(place, shape):
    case = random_case(SHAPES[shape], n_pairs=40, C=1.0, weights=True, prior=True)
    result = learn_placed(case, place, compute=Compute(dtype="float32"))
    assert result.converged
    assert result.tol == 1e-5
    assert_same_solution(result, learnt(case), 1e-4)
    assert all(W.dtype == namespace(W).float32 for W in result.W)


def test_an_earlier_result_is_a_start(place):
    case = random_case(SHAPES["vectors"], n_pairs=40, C=5.0)
    first = learn_placed(case, place)
    assert learn_placed(case, place, init=first).n_iter <= 1


def test_a_checkpoint_resumes_where_the_samples_are(place, tmp_path):
    case, path = random_case(SHAPES["two ragged"], n_pairs=40, C=5.0), tmp_path / "fit.npz"
    learn_placed(case, place, callback=Checkpoint(path, every=0))
    assert learn_placed(case, place, init=Checkpoint.load(path)).n_iter <= 1


def test_integers_and_gradients_are_taken(place):
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0)
    rounded = np.round(10 * case.arrays[0])
    expected = learn_metric(rounded, case.pairs, case.similar, tol=1e-12)
    whole = learn_metric(place(rounded.astype(int)), case.pairs, case.similar, tol=1e-12)
    assert_same_solution(whole, expected, 1e-8)


def test_pairs_may_be_read_only(place):
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0)
    pairs = np.asfortranarray(case.pairs)  # as a data frame gives them
    pairs.flags.writeable = False
    result = learn_metric(place(case.arrays[0]), pairs, case.similar)  # warnings are errors
    assert_same_solution(result, learn_metric(case.arrays[0], pairs, case.similar), 1e-8)


def test_tensors_that_require_a_gradient_are_read_without_one():
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0)
    X = torch.asarray(case.arrays[0], requires_grad=True)
    result = learn_metric(X, case.pairs, case.similar)
    assert not result.W[0].requires_grad
    assert_same_solution(result, learn_metric(case.arrays[0], case.pairs, case.similar), 1e-8)


def test_in_parts_tensors_are_read_as_numpys():
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0, weights=True, prior=True)
    weights = torch.asarray(case.weights, requires_grad=True)
    result = learn_placed(case, torch.asarray, weights=weights, compute=Compute(max_memory="100MB"))
    assert_same_solution(result, learnt(case), 1e-8)
    assert type(result.W[0]) is np.ndarray
    first = learn_placed(case, torch.asarray)
    assert (
        learn_placed(case, torch.asarray, init=first, compute=Compute(max_memory="100MB")).n_iter
        <= 1
    )


def test_blocks_of_tensors_are_selected_like_others(place):
    case = random_case(SHAPES["two ragged"], n_pairs=10)
    blocks = Blocks(*map(place, case.arrays))
    plain = Blocks(*case.arrays)
    for key in (slice(1, 4), [3, -1], np.arange(len(plain)) % 2 == 0):
        for got, expected in zip(blocks[key].arrays, plain[key].arrays, strict=True):
            assert type(got) is type(place(expected))
            assert_allclose(np.asarray(got.tolist()), expected)
    with pytest.raises(IndexError, match="n_samples = 8"):
        blocks[[8]]


# Errors


def refused(case, error, message, **changes):
    given = {"X": torch.asarray(case.arrays[0]), "pairs": case.pairs, "similar": case.similar}
    with pytest.raises(error, match=message) as raised:
        learn_metric(**given | changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"prior": np.eye(4)}, TypeError, "prior: .* kind and device of X, torch, got numpy"),
        ({"solver": "dykstra"}, ValueError, r"solver: expected 'newton' or Newton\(…\) for torch"),
        ({"X": torch.ones((8, 4), dtype=torch.complex64)}, TypeError, "X: expected real numbers"),
        ({"X": torch.full((8, 4), torch.nan)}, ValueError, "X: expected finite numbers, got nan"),
    ],
)
def test_errors(changes, error, message):
    refused(random_case(SHAPES["vectors"], n_pairs=10), error, message, **changes)


def test_numpy_samples_and_a_prior_of_torch_are_mixed():
    case = random_case(SHAPES["vectors"], n_pairs=10)
    message = "prior: .* kind and device of X, numpy, got torch"
    refused(case, TypeError, message, X=case.arrays[0], prior=torch.eye(4))


def test_blocks_of_two_kinds_are_mixed():
    with pytest.raises(TypeError, match=r"block 1: .* block 0, numpy, got torch$"):
        Blocks(np.zeros((3, 2)), torch.zeros((3, 2)))


@needs_cuda
def test_two_devices_are_mixed():
    case = random_case(SHAPES["vectors"], n_pairs=10)
    X = torch.asarray(case.arrays[0], device="cuda")
    message = "prior: .* torch on cuda:0, got torch$"
    refused(case, ValueError, message, X=X, prior=torch.eye(4, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"block 1: .* torch on cuda:0, got torch$"):
        Blocks(X, X.cpu())


def test_a_missing_package_is_named(monkeypatch):
    from tatml import _array

    monkeypatch.setattr(_array, "COMPAT", ("no_such_package",))
    _array._compatible.cache_clear()
    with pytest.raises(ImportError, match=r'pip install "\.\[torch\]"'):
        Blocks(torch.zeros((3, 2)))
    monkeypatch.undo()
    _array._compatible.cache_clear()
    assert Blocks(torch.zeros((3, 2))).dtype == torch.float32


# Estimators compute on NumPy arrays


@pytest.mark.parametrize("dispatch", [False, True])
def test_estimators_read_tensors_of_the_host(monkeypatch, dispatch):
    X, y = load_wine(return_X_y=True)
    expected = TATML(random_state=0).fit(X, y)
    monkeypatch.setattr("sklearn.utils._array_api._check_array_api_dispatch", lambda *args: None)
    with config_context(array_api_dispatch=dispatch):
        fitted = TATML(random_state=0).fit(torch.asarray(X), y)
        embedded = fitted.transform(torch.asarray(X))
    assert_allclose(fitted.components_, expected.components_, rtol=1e-10)
    assert_allclose(to_numpy(embedded), expected.transform(X), rtol=1e-10)
    assert type(embedded) is (torch.Tensor if dispatch else np.ndarray)


def test_estimators_read_blocks_of_tensors():
    X, y = load_wine(return_X_y=True)
    plain = Blocks(X[:, :6], X[:, 6:])
    placed = Blocks(*(torch.asarray(array) for array in plain.arrays))
    expected, fitted = (TATML(random_state=0).fit(blocks, y) for blocks in (plain, placed))
    for got, component in zip(fitted.components_, expected.components_, strict=True):
        assert_allclose(got, component, rtol=1e-10)


@needs_cuda
def test_estimators_fit_on_the_gpu_of_their_samples():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    placed, expected = torch.asarray(X, device="cuda"), TATML(random_state=0).fit(X, y)
    index = np.random.default_rng(0).integers(len(X), size=(200, 2))
    fitted = TATML(random_state=0).fit(placed, y)
    assert_allclose(fitted.components_, expected.components_, atol=1e-7)
    assert_allclose(fitted.threshold_, expected.threshold_, rtol=1e-8)
    embedded, distances = fitted.transform(placed), fitted.pair_distance(index, placed)
    assert embedded.device == distances.device == placed.device
    assert_allclose(to_numpy(embedded), fitted.transform(X), rtol=1e-10)
    assert_allclose(to_numpy(distances), fitted.pair_distance(index, X), rtol=1e-10)


# Pairs of the host that are computed on a device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("linear_solver", ["dense", "cg"])
@pytest.mark.parametrize("c0", [1.0, inf])
@pytest.mark.parametrize("shape", ["vectors", "two ragged"])
def test_pairs_of_the_host_pass_through_a_device(device, shape, c0, linear_solver, monkeypatch):
    """In several parts, with a rehearsal on a sample on the same device."""
    for name in ("SAMPLE", "GPU_SAMPLE"):
        monkeypatch.setattr(newton_module, name, 50)
    case = random_case(
        SHAPES[shape], n_pairs=400, n_samples=30, C=0.5, c0=c0, weights=True, prior=True
    )
    pairs = case.pairs
    chunks = PairChunks(
        [
            (case.blocks, pairs[start : start + 90], case.similar[start : start + 90], weights)
            for start in range(0, len(pairs), 90)
            for weights in [case.weights[start : start + 90]]
        ]
    )
    options = {"C": 0.5, "c0": c0, "prior": case.prior, "tol": 1e-14}
    result = learn_metric(
        chunks,
        solver=Newton(linear_solver=linear_solver, random_state=0),
        compute=Compute(device=device),
        **options,
    )
    options |= {"weights": case.weights, "solver": Newton(random_state=0)}
    expected = learn_metric(case.blocks, pairs, case.similar, **options)
    assert_same_solution(result, expected, 1e-7)
    assert all(type(W) is np.ndarray for W in result.W)
    assert result.active is None


def test_samples_that_shards_share_are_sent_once(monkeypatch):
    case = random_case([(4, 1)], n_pairs=400, n_samples=30, C=0.5)
    sent, placed = [], base.placed
    monkeypatch.setattr(
        base, "placed", lambda array, like: sent.append(array.shape) or placed(array, like)
    )
    result = learn_metric(
        case.blocks,
        case.pairs,
        case.similar,
        C=0.5,
        compute=Compute(device="cpu", max_memory="17MB"),
    )
    assert result.converged
    assert sent.count((30, 1, 4)) == 1


@pytest.mark.parametrize("device", ["tpu9", "cuda:99"])
def test_a_device_that_is_not_there_is_named(device):
    case = random_case([(4, 1)], n_pairs=20)
    with pytest.raises(ValueError, match="device: expected one that PyTorch has here"):
        learn_metric(case.blocks, case.pairs, case.similar, compute=Compute(device=device))


# Comparisons


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
def test_comparisons_have_numpys_solution(place, linear_solver, alone):
    case = compared_case(SHAPES["two ragged"], alone=alone, weights=True)
    data, given = case.arguments()
    blocks = Blocks(*(place(array) for array in case.arrays))
    solver = Newton(linear_solver=linear_solver)
    found = learn_metric(blocks, *data[1:], **given | {"solver": solver})
    expected = case.learn(solver=solver)
    assert_allclose(found.primal, expected.primal, rtol=1e-8)
    for a, b in zip(found.W, expected.W, strict=True):
        assert_allclose(to_numpy(a), b, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_comparisons_of_the_host_pass_through_a_device(device):
    case = compared_case(SHAPES["vectors"], 1, 200, weights=True)
    comparisons = Comparisons(case.compared, case.compared_weights, 0.3, 1.5)
    data, given = case.arguments()
    compute = Compute(device=device, max_memory="50MB")
    found = learn_metric(*data, **given | {"comparisons": comparisons, "compute": compute})
    assert_allclose(found.primal, case.learn().primal, rtol=1e-8)
