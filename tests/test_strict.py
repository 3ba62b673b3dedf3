"""Newton and `learn_metric` on arrays that support the array API standard and nothing else."""

from functools import partial
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from estimators_helpers import labelled, labelled_pairs
from helpers import SHAPES, limited, random_case, strict_problem
from numpy.testing import assert_allclose, assert_array_equal
from placed_helpers import CASES, assert_same_solution, learn_placed, learnt

from tatml import TATML, AllPairs, Blocks, Compute, Newton, PairChunks, TATMLPairs, learn_metric
from tatml._array import on_gpu, to_numpy
from tatml._optim.checkpoint import Checkpoint
from tatml._optim.losses import SquaredHinge
from tatml._optim.monitor import Monitor
from tatml._optim.newton import Pace, solve_newton
from tatml.features import LogEuclidean

xp = pytest.importorskip("array_api_strict")


def solved(problem, linear_solver):
    monitor = Monitor(problem, tol=1e-12, max_iter=60)
    return solve_newton(problem, monitor, Pace(linear_solver))


@pytest.mark.parametrize(
    ("linear_solver", "c0", "svec_bytes"),
    [("dense", 1.0, 2**25), ("dense", inf, 0), ("woodbury", inf, 2**25), ("cg", 1.0, 2**25)],
)
def test_newton_works_on_strict_arrays(linear_solver, c0, svec_bytes):
    case = random_case([(3, 2), (2, 4)], n_pairs=40, C=5.0, c0=c0, weights=True, prior=True)
    plain = limited(case.problem(), svec_bytes=svec_bytes)
    ours, theirs = (solved(problem, linear_solver) for problem in (plain, strict_problem(plain)))
    assert ours.converged
    assert theirs.converged
    assert_allclose(theirs.primal, ours.primal, rtol=1e-8)
    assert_allclose(theirs.b0, ours.b0, rtol=1e-8)
    for got, expected in zip(theirs.W, ours.W, strict=True):
        assert isinstance(got, type(xp.asarray(0.0)))
        assert_allclose(np.asarray(got), expected, rtol=1e-8, atol=1e-8)
    assert np.asarray(theirs.active).tolist() == ours.active.tolist()


# The public edge


@pytest.mark.parametrize(("linear_solver", "c0", "shape"), CASES)
def test_learn_metric_takes_strict_arrays_and_returns_them(linear_solver, c0, shape):
    case = random_case(SHAPES[shape], n_pairs=40, C=5.0, c0=c0, weights=True, prior=True)
    result = learn_placed(case, xp.asarray, solver=Newton(linear_solver=linear_solver))
    assert_same_solution(result, learnt(case, solver=Newton(linear_solver=linear_solver)), 1e-8)
    assert all(type(W) is type(xp.asarray(0.0)) for W in result.W)
    assert all(W.dtype == xp.float64 for W in result.W)


def test_everything_stays_on_the_device_of_the_samples():
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=5.0, weights=True, prior=True)
    elsewhere = partial(xp.asarray, device=xp.Device("device1"))
    result = learn_placed(case, elsewhere)
    assert all(W.device == xp.Device("device1") for W in result.W)
    assert_same_solution(result, learnt(case), 1e-8)


def test_a_checkpoint_resumes_where_the_samples_are(tmp_path):
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=5.0, weights=True, prior=True)
    elsewhere, path = partial(xp.asarray, device=xp.Device("device1")), tmp_path / "fit.npz"
    first = learn_placed(case, elsewhere, callback=Checkpoint(path, every=0))
    again = learn_placed(case, elsewhere, init=Checkpoint.load(path))
    assert again.n_iter <= 1 < first.n_iter
    assert all(W.device == xp.Device("device1") for W in again.W)


def test_two_devices_are_refused():
    case = random_case(SHAPES["vectors"], n_pairs=10)
    X = xp.asarray(case.arrays[0], device=xp.Device("device1"))
    with pytest.raises(ValueError, match="prior: expected an array of the kind and device of X"):
        learn_metric(X, case.pairs, case.similar, prior=xp.eye(4))


@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
def test_float32_is_near_and_says_its_tolerance(linear_solver):
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=1.0, weights=True, prior=True)
    for place, dtype in ((xp.asarray, xp.float32), (np.asarray, np.float32)):
        result = learn_placed(
            case,
            place,
            solver=Newton(linear_solver=linear_solver),
            compute=Compute(dtype="float32"),
        )
        assert result.converged
        assert result.tol == 1e-5
        assert all(W.dtype == dtype for W in result.W)
        assert_same_solution(result, learnt(case), 1e-4)


def test_in_float32_it_does_not_matter_where_the_samples_lie():
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0)
    X = case.arrays[0] + 1e6
    result = learn_metric(X, case.pairs, case.similar, compute=Compute(dtype="float32"))
    assert_same_solution(result, learn_metric(X, case.pairs, case.similar, tol=1e-12), 1e-4)


def test_the_limits_of_float32():
    case = random_case(SHAPES["vectors"], n_pairs=40)
    assert case.learn(tol=1e-2, compute=Compute(dtype="float32")).tol == 1e-2
    with pytest.raises(ValueError, match="dtype: expected one of 'float64', 'float32', got 'half'"):
        case.learn(compute=Compute(dtype="half"))
    with pytest.raises(ValueError, match="solver: expected 'newton'"):
        case.learn(solver="dykstra", compute=Compute(dtype="float32"))


def test_a_loss_on_the_host_is_sampled_by_pairs_that_are_elsewhere():
    """The certificate keeps the given loss on the host, while pairs are drawn on the device."""
    loss = SquaredHinge(np.array([1.0, -1.0, 1.0]), np.array([1.0, 2.0, 3.0]), np.ones(3))
    some = loss.take(xp.asarray([2, 0], device=xp.Device("device1")), 2.0)
    assert type(some.weight) is np.ndarray
    assert some.weight.tolist() == [6.0, 2.0]
    assert some.sign.tolist() == [1.0, 1.0]


def test_integers_are_taken_and_complex_numbers_refused():
    case = random_case(SHAPES["vectors"], n_pairs=40, C=1.0)
    rounded = np.round(10 * case.arrays[0]).astype(int)
    whole, expected = (
        learn_metric(place(rounded), case.pairs, case.similar, tol=1e-12)
        for place in (xp.asarray, np.asarray)
    )
    assert whole.W[0].dtype == xp.float64
    assert_same_solution(whole, expected, 1e-8)
    with pytest.raises(TypeError, match="X: expected real numbers, got an array of dtype"):
        learn_metric(xp.asarray(rounded + 0j), case.pairs, case.similar)


def test_blocks_are_selected_like_others():
    case = random_case(SHAPES["two ragged"], n_pairs=10)
    strict, plain = Blocks(*map(xp.asarray, case.arrays)), Blocks(*case.arrays)
    for key in (slice(1, 4), [3, -1, -8, 0], [], np.arange(len(plain)) % 2 == 0):
        for got, expected in zip(strict[key].arrays, plain[key].arrays, strict=True):
            assert isinstance(got, type(xp.asarray(0.0)))
            assert_array_equal(np.asarray(got), expected)
    for key in ([8], [-9], [0, 8], [0, -9]):
        with pytest.raises(IndexError, match=r"^Blocks: expected indices below n_samples = 8"):
            strict[key]


def test_two_kinds_are_not_mixed():
    case = random_case(SHAPES["vectors"], n_pairs=10)
    X, pairs, similar = case.arrays[0], case.pairs, case.similar
    with pytest.raises(TypeError, match=r"prior: .* kind and device of X, numpy, got array_api_st"):
        learn_metric(X, pairs, similar, prior=xp.eye(4))
    with pytest.raises(TypeError, match=r"prior: .* kind and device of X, array_api_strict"):
        learn_metric(xp.asarray(X), pairs, similar, prior=np.eye(4))
    with pytest.raises(TypeError, match="pairs: expected a NumPy array or one of the kind of X, n"):
        learn_metric(X, xp.asarray(pairs), similar)
    with pytest.raises(TypeError, match=r"block 1: .* block 0, numpy, got array_api_strict"):
        Blocks(np.zeros((3, 2)), xp.zeros((3, 2)))


@pytest.mark.parametrize(
    ("package", "device", "expected"),
    [("cupy", "", True), ("torch", "cuda", True), ("torch", "cpu", False), ("other", None, False)],
)
def test_arrays_of_a_gpu_are_known_by_their_package_or_device(package, device, expected):
    kind = type("Array", (), {"__module__": f"{package}.core"})
    array = kind()
    array.device = SimpleNamespace() if device is None else SimpleNamespace(type=device)
    assert on_gpu(array) is expected


# Estimators compute on NumPy arrays


def test_estimators_read_arrays_of_the_host():
    X, y = labelled("vectors")
    pairs, labels = labelled_pairs(y)
    expected = TATML(random_state=0).fit(X, y)
    fitted = TATML(random_state=0).fit(Blocks(xp.asarray(X)), y)
    assert_array_equal(fitted.components_, expected.components_)
    assert_array_equal(fitted.transform(Blocks(xp.asarray(X))), expected.transform(X))
    of_pairs = [TATMLPairs().fit(place(X[pairs]), labels) for place in (xp.asarray, np.asarray)]
    assert_array_equal(of_pairs[0].components_, of_pairs[1].components_)


# Samples on a device that have to be on the host: the advice works for the caller


def elsewhere(values):
    return xp.asarray(values, device=xp.Device("device1"))


@pytest.mark.parametrize("place", [None, Compute(max_memory="50MB")])
def test_samples_of_pairs_in_parts_are_copied_or_their_pairs_are_listed(place):
    X, y = labelled("vectors")
    index = np.column_stack(np.triu_indices(len(y), 1))
    similar = y[index[:, 0]] == y[index[:, 1]]
    given = (AllPairs(y),) if place is None else (index, similar)
    options = {"C": 1e-3, "tol": 1e-13}
    with pytest.raises(TypeError, match=r"^X: expected values in the memory of") as refused:
        learn_metric(elsewhere(X), *given, compute=place, **options)
    assert "copy them to the host, with .cpu() in PyTorch" in str(refused.value)
    assert "or give pairs and similar as arrays in memory, without max_memory" in str(refused.value)
    assert "learn_metric" not in str(refused.value)
    copied = learn_metric(to_numpy(elsewhere(X)), *given, compute=place, **options)
    listed = learn_metric(elsewhere(X), index, similar, **options)
    assert listed.W[0].device == xp.Device("device1")
    assert_same_solution(listed, copied, 1e-8)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (
            "chunk 0: X",
            lambda X, pairs, y: learn_metric(PairChunks([(elsewhere(X), pairs, y > 0)])),
        ),
        (
            "prior",
            lambda X, pairs, y: learn_metric(
                X,
                pairs,
                y > 0,
                prior=elsewhere(np.eye(X.shape[1])),
                compute=Compute(max_memory="50MB"),
            ),
        ),
        (
            "preprocessor",
            lambda X, pairs, y: TATMLPairs(preprocessor=lambda found: elsewhere(X[found])).fit(
                pairs, y
            ),
        ),
        ("X", lambda X, pairs, y: LogEuclidean().transform(elsewhere(np.ones((2, 3, 3))))),
    ],
)
def test_whoever_cannot_compute_on_a_device_is_told_to_copy(name, call):
    X, y = labelled("vectors")
    with pytest.raises(TypeError, match=f"^{name}: expected values in the memory") as refused:
        call(X, *labelled_pairs(y))
    assert str(refused.value).endswith("with .cpu() in PyTorch or .get() in CuPy")
