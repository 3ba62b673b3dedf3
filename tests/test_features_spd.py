"""Logarithms, powers and vectors of symmetric positive definite matrices."""

import re
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from memory_helpers import peak_memory
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from spd_helpers import SIZES, stack, symmetric_stack

from tatml import Blocks
from tatml.features import LogEuclidean, SPDPower, Vectorize, _symmetric
from tatml.features._symmetric import Chunking, map_eigenvalues

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def with_eigenvalues(eigenvalues, seed=0):
    """Return a matrix with these eigenvalues."""
    Q = rotation(len(eigenvalues), seed)
    matrix = Q * np.asarray(eigenvalues) @ Q.T
    return (matrix + matrix.T) / 2


def map_logarithms(X, chunking):
    """Return the logarithms of the matrices, computed in chunks."""
    return map_eigenvalues(X, np.log, 0, takes_posdef=True, chunking=chunking)


# Agreement with SciPy, one matrix at a time


@pytest.mark.parametrize("n", SIZES)
def test_logarithms_are_scipys(n):
    X = stack(n)
    expected = [scipy.linalg.logm(matrix) for matrix in X]
    assert_allclose(LogEuclidean().transform(X), expected, atol=1e-10)


@pytest.mark.parametrize("n", SIZES)
def test_exponentials_are_scipys(n):
    S = symmetric_stack(n) / n
    expected = [scipy.linalg.expm(matrix) for matrix in S]
    assert_allclose(LogEuclidean().inverse_transform(S), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("power", [0.5, -1.0, -0.5, 2, 0.3])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_powers_are_scipys(n, power):
    X = stack(n, spread=1.5)
    expected = [scipy.linalg.fractional_matrix_power(matrix, power) for matrix in X]
    assert_allclose(SPDPower(power).transform(X), expected, atol=1e-10)


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower(0.5), SPDPower(-2), SPDPower(3)])
def test_inverse_transform_undoes_transform(transformer):
    X = stack(6, spread=1.0)
    assert_allclose(transformer.inverse_transform(transformer.transform(X)), X, atol=1e-10)


def test_transform_undoes_inverse_transform():
    S = symmetric_stack(5)
    assert_allclose(LogEuclidean().transform(LogEuclidean().inverse_transform(S)), S, atol=1e-8)


# Theorems


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower(0.5), SPDPower(-1.3)])
def test_rotations_commute_with_the_map(transformer):
    X, Q = stack(7), rotation(7)
    assert_allclose(
        transformer.transform(Q @ X @ Q.T), Q @ transformer.transform(X) @ Q.T, atol=1e-9
    )


def test_the_log_of_the_inverse_is_minus_the_log():
    X = stack(6)
    assert_allclose(
        LogEuclidean().transform(np.linalg.inv(X)), -LogEuclidean().transform(X), atol=1e-9
    )


def test_the_trace_of_the_log_is_the_log_determinant():
    X = stack(6)
    traces = np.trace(LogEuclidean().transform(X), axis1=1, axis2=2)
    assert_allclose(traces, np.linalg.slogdet(X)[1], atol=1e-10)


@given(st.integers(0, 1000), st.floats(-250, 250), st.integers(1, 8))
def test_a_change_of_unit_adds_to_the_log_whatever_the_unit(seed, decades, n):
    X = stack(n, 3, seed)
    shifted = LogEuclidean().transform(X) + decades * np.log(10) * np.eye(n)
    assert_allclose(LogEuclidean().transform(10.0**decades * X), shifted, atol=1e-9)


def test_powers_tend_to_the_logarithm():
    X, power = stack(5), 1e-5
    slope = (SPDPower(power).transform(X) - np.eye(5)) / power
    assert_allclose(slope, LogEuclidean().transform(X), atol=1e-3)


def test_the_square_root_squares_to_the_matrix():
    X = stack(8)
    root = SPDPower().transform(X)
    assert_allclose(root @ root, X, atol=1e-10)


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower(0.7)])
def test_the_result_is_exactly_symmetric(transformer):
    result = transformer.transform(stack(9))
    assert_array_equal(result, result.transpose(0, 2, 1))


def test_asymmetry_from_rounding_is_averaged_away():
    X = stack(4)
    skew = 1e-10 * np.random.default_rng(0).normal(size=X.shape)
    nearly = X + skew - skew.transpose(0, 2, 1)
    assert_allclose(
        LogEuclidean().transform(nearly), LogEuclidean().transform(X), rtol=0, atol=1e-13
    )


# Forms and chunks


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower()])
def test_blocks_are_mapped_one_by_one(transformer):
    arrays = [stack(3), stack(5), stack(1)]
    mapped = transformer.fit_transform(Blocks(*arrays))
    assert mapped.block_shapes == ((3, 3), (5, 5), (1, 1))
    for array, result in zip(arrays, mapped.arrays, strict=True):
        assert_array_equal(result, clone(transformer).transform(array))
    back = transformer.inverse_transform(mapped)
    for array, result in zip(arrays, back.arrays, strict=True):
        assert_allclose(result, array, atol=1e-10)


def test_a_batch_is_the_same_as_one_by_one():
    X = stack(6, n_samples=23)
    together = LogEuclidean().transform(X)
    for sample in range(len(X)):
        alone = LogEuclidean().transform(X[sample : sample + 1])
        assert_allclose(alone[0], together[sample], atol=1e-13)
    for entries in (1, 6 * 6 * 5, 6 * 6 * 22):
        assert_allclose(map_logarithms(X, Chunking(entries)), together, atol=1e-13)


def test_threads_change_nothing(monkeypatch):
    X = stack(3, n_samples=50)
    alone = LogEuclidean().transform(X)
    monkeypatch.setattr(_symmetric, "_blas_threads", lambda: 3)
    chunking = Chunking(few_samples=4, threaded_rows=3)
    assert len(_symmetric._split_samples(X, 3, chunking)) == 3
    assert_allclose(map_logarithms(X, chunking), alone, atol=1e-13)
    X[[30, 45]] *= -1
    with pytest.raises(ValueError, match=r"sample 30 \(2 of 50 samples\)"):
        map_logarithms(X, chunking)


def test_threads_are_used_for_many_matrices_that_are_neither_small_nor_large(monkeypatch):
    used = []
    monkeypatch.setattr(_symmetric, "_blas_threads", lambda: used.append(True) or 2)
    for n, n_samples, threaded in ((16, 257, True), (16, 256, False), (15, 257, False)):
        X = np.tile(2 * np.eye(n), (n_samples, 1, 1))
        used.clear()
        assert_allclose(LogEuclidean().transform(X)[-1], np.log(2) * np.eye(n), atol=1e-14)
        assert bool(used) == threaded, (n, n_samples)


def test_memory_is_the_result_and_little_more(monkeypatch):
    monkeypatch.setattr(_symmetric, "_blas_threads", lambda: 1)
    X = np.broadcast_to(stack(20, 50), (75, 50, 20, 20)).reshape(-1, 20, 20)
    LogEuclidean().transform(X[:10])
    peak, result = peak_memory(LogEuclidean().transform, X)
    assert result.nbytes == 12_000_000
    assert peak < 1.9 * result.nbytes


def test_single_precision_stays_single_and_is_computed_in_double():
    X = stack(5).astype(np.float32)
    logs = LogEuclidean().transform(X)
    assert logs.dtype == np.float32
    assert_array_equal(logs, LogEuclidean().transform(X.astype(float)).astype(np.float32))


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower(0.3)])
def test_lists_of_matrices_will_do_and_are_not_changed(transformer):
    X = stack(3)
    before = X.copy()
    assert_array_equal(transformer.transform(list(X)), transformer.transform(X))
    assert_array_equal(X, before)


def test_transform_needs_no_fit():
    X = stack(3)
    assert_array_equal(LogEuclidean().transform(X), LogEuclidean().fit(X).transform(X))


# What is refused


def message_of(transformer, X, method="transform"):
    with pytest.raises(ValueError, match="X: expected") as error:
        getattr(transformer, method)(X)
    return str(error.value)


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower()])
@pytest.mark.parametrize("smallest", [-0.25, 0.0, 1e-18])
@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1.0, 1e9, 1e200])
def test_a_matrix_that_is_not_positive_definite_is_named(transformer, smallest, unit):
    bad = stack(3, 10)
    bad[[4, 7]] = with_eigenvalues([smallest, 1.0, 2.0])
    message = message_of(transformer, Blocks(stack(2, 10), unit * bad))
    assert "block 1, sample 4 (2 of 10 samples)" in message
    assert "shrinkage" in message
    assert "identity" in message
    low, high = map(float, re.search(r"eigenvalues from (\S+) to (\S+) in", message).groups())
    assert_allclose([low / unit, high / unit], [smallest, 2.0], rtol=0.01, atol=1e-15)


def test_the_sample_is_named_behind_the_first_chunk():
    chunking = Chunking(3 * 3 * 4)
    X = stack(3, 10)
    X[9] = with_eigenvalues([-1.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"block 0, sample 9 \(1 of 10 samples\)"):
        map_logarithms(X, chunking)
    X[9, 0, 1] += 1.0
    with pytest.raises(ValueError, match=r"mirror images in block 0, sample 9"):
        map_logarithms(X, chunking)
    X[9] = 1e4 * np.eye(3)
    with pytest.raises(ValueError, match=r"float64 can represent.* in block 0, sample 9"):
        map_eigenvalues(X, np.exp, 0, gives_posdef=True, chunking=chunking)


def test_what_is_just_positive_definite_is_taken():
    n, eps = 4, np.finfo(float).eps
    diagonal = np.diag([10 * n * eps, 1.0, 1.0, 1.0])[None]
    assert_allclose(LogEuclidean().transform(diagonal)[0, 0, 0], np.log(10 * n * eps), rtol=1e-12)
    diagonal[0, 0, 0] = 0.9 * n * eps
    assert "sample 0" in message_of(LogEuclidean(), diagonal)


def test_single_precision_has_its_own_rounding_error():
    doubtful = np.diag([1e-9, 1.0, 1.0])[None]
    assert_allclose(LogEuclidean().transform(doubtful)[0, 0, 0], np.log(1e-9))
    assert "sample 0" in message_of(LogEuclidean(), doubtful.astype(np.float32))


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_a_matrix_that_is_not_symmetric_is_named(method):
    X = stack(3)
    X[5, 0, 2] += 1e-3 * np.abs(X[5]).max()
    message = message_of(LogEuclidean(), Blocks(stack(2), X), method)
    assert "symmetric" in message
    assert "block 1, sample 5" in message


def test_an_exponential_beyond_floats_is_refused():
    S = np.zeros((3, 2, 2))
    for value in (710.0, -800.0):
        S[1] = value * np.eye(2)
        assert "block 0, sample 1" in message_of(LogEuclidean(), S, "inverse_transform")
    S[1] = 100 * np.eye(2)
    assert "float32" in message_of(LogEuclidean(), S.astype(np.float32), "inverse_transform")


def test_a_power_beyond_floats_is_refused():
    assert "float64" in message_of(SPDPower(3), 1e200 * stack(2))


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower()])
@pytest.mark.parametrize("method", ["fit", "transform", "inverse_transform"])
def test_bad_input_is_refused(transformer, method):

    def call(X):
        getattr(clone(transformer), method)(X)

    with pytest.raises(ValueError, match=r"square matrices.*got 3×2 in block 1"):
        call(Blocks(stack(2, 4), np.ones((4, 3, 2))))
    with pytest.raises(ValueError, match="write X\\[None\\]"):
        call(np.eye(3))
    with pytest.raises(ValueError, match="3-D array"):
        call(np.ones((2, 2, 3, 3)))
    with pytest.raises(ValueError, match="at least one sample"):
        call(np.empty((0, 3, 3)))
    X = stack(3)
    X[7, 1, 1] = np.nan
    with pytest.raises(ValueError, match="nan in block 0, sample 7"):
        call(X)
    with pytest.raises(TypeError, match="real numbers"):
        call(stack(3) + 0j)


def test_other_shapes_than_in_fit_are_refused():
    with pytest.raises(ValueError, match=re.escape("[3×3] as in fit, got [2×2]")):
        LogEuclidean().fit(stack(3)).transform(stack(2))
    with pytest.raises(ValueError, match=re.escape("[3×3] as in fit, got [3×3, 3×3]")):
        SPDPower().fit(stack(3)).transform(Blocks(stack(3), stack(3)))


@pytest.mark.parametrize(
    ("power", "error"),
    [
        (0, ValueError),
        (np.nan, ValueError),
        (np.inf, ValueError),
        ("1", TypeError),
        (True, TypeError),
    ],
)
@pytest.mark.parametrize("method", ["fit", "transform", "inverse_transform"])
def test_a_power_that_is_none_is_refused(power, error, method):
    with pytest.raises(error, match="power: expected"):
        getattr(SPDPower(power), method)(stack(2))


# Life among other estimators


@pytest.mark.parametrize("transformer", [LogEuclidean(), SPDPower(2.0), Vectorize(True)])
def test_clones_have_the_same_parameters(transformer):
    fitted = transformer.fit(stack(3))
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert repr(copy) == repr(transformer)
    assert not hasattr(copy, "block_shapes_in_")


@pytest.mark.parametrize("blocks", [False, True])
def test_pipelines_cross_validate_and_search(blocks):
    X = stack(4, n_samples=40, spread=0.3)
    y = np.arange(40) % 2
    X[y == 1] *= 3.0
    samples = Blocks(X, stack(2, n_samples=40)) if blocks else X
    model = make_pipeline(SPDPower(), LogEuclidean(), Vectorize(join=True), LogisticRegression())
    assert_array_equal(cross_val_score(model, samples, y, cv=4), np.ones(4))
    search = GridSearchCV(model, {"spdpower__power": [1e-9, 1.0]}, cv=4).fit(samples, y)
    assert search.best_params_ == {"spdpower__power": 1.0}
