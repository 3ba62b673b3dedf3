"""Vectors of matrices keep distances, in the order and under the names that are documented."""

import re
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from spd_helpers import SIZES, stack, symmetric_stack

from tatml import Blocks
from tatml._data.blocks import as_blocks
from tatml.features import LogEuclidean, Vectorize

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7


@pytest.mark.parametrize("join", [False, True])
def test_vectorize_keeps_scikit_learns_rules(join):
    results = check_estimator(Vectorize(join), on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


def frobenius_gram(array):
    return np.array([[np.trace(A.T @ B) for B in array] for A in array])


def distances(array):
    return np.array([[np.linalg.norm(A - B) for B in array] for A in array])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("symmetric", ["auto", True, False])
def test_symmetric_matrices_keep_distances_and_inner_products(n, symmetric):
    S = symmetric_stack(n, 6)
    vectors = Vectorize(symmetric=symmetric).fit_transform(S)
    assert vectors.shape == (6, n**2 if symmetric is False else n * (n + 1) // 2)
    assert_allclose(vectors @ vectors.T, frobenius_gram(S), atol=1e-11)
    assert_allclose(distances(vectors), distances(S), atol=1e-11)


@pytest.mark.parametrize("shape", [(3, 2), (2, 5), (4, 4), (3, 1)])
def test_other_matrices_keep_distances_and_all_entries(shape):
    X = np.random.default_rng(0).normal(size=(6, *shape))
    vectorize = Vectorize().fit(X)
    vectors = vectorize.transform(X)
    assert vectorize.symmetric_ == (False,)
    assert_array_equal(vectors, X.reshape(6, -1))
    assert_allclose(distances(vectors), distances(X), atol=1e-12)


def test_the_order_is_the_upper_triangle_row_by_row():
    X = np.array([[[1.0, 2, 3], [2, 4, 5], [3, 5, 6]]])
    root = np.sqrt(2)
    assert_allclose(
        Vectorize().fit_transform(X), [[1, 2 * root, 3 * root, 4, 5 * root, 6]], rtol=1e-15
    )


def test_blocks_become_blocks_of_vectors():
    S, R = symmetric_stack(3), np.random.default_rng(0).normal(size=(12, 2, 4))
    vectors = Vectorize().fit_transform(Blocks(S, R))
    assert vectors.block_shapes == ((6, 1), (8, 1))
    assert_array_equal(vectors.arrays[0][:, :, 0], Vectorize().fit_transform(S))
    assert_array_equal(vectors.arrays[1][:, :, 0], R.reshape(12, 8))


def test_joined_blocks_lie_side_by_side_and_add_squared_distances():
    X = Blocks(symmetric_stack(3), np.random.default_rng(0).normal(size=(12, 2, 4)))
    joined = Vectorize(join=True).fit_transform(X)
    apart = Vectorize().fit_transform(X)
    assert_array_equal(joined, np.hstack([array[:, :, 0] for array in apart.arrays]))
    expected = sum(distances(array) ** 2 for array in X.arrays)
    assert_allclose(distances(joined) ** 2, expected, atol=1e-11)


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize(
    "X",
    [
        symmetric_stack(4),
        np.random.default_rng(0).normal(size=(12, 3, 2)),
        np.random.default_rng(0).normal(size=(12, 3)),
        Blocks(symmetric_stack(4), np.ones((12, 2, 3)), np.arange(24.0).reshape(12, 2)),
        Blocks(symmetric_stack(2)),
    ],
)
def test_vectors_become_matrices_again(X, join):
    vectorize = Vectorize(join=join).fit(X)
    back = vectorize.inverse_transform(vectorize.transform(X))
    assert type(back) is type(X)
    assert back.shape == X.shape
    for array, expected in zip(as_blocks(back).arrays, as_blocks(X).arrays, strict=True):
        assert_allclose(array, expected, rtol=1e-15)


def test_what_was_symmetric_in_fit_must_be_in_transform():
    S = symmetric_stack(3)
    vectorize = Vectorize().fit(S)
    S[2, 0, 1] += 1.0
    with pytest.raises(ValueError, match=r"symmetric.*block 0, sample 2"):
        vectorize.transform(S)
    assert Vectorize().fit_transform(S).shape == (12, 9)
    with pytest.raises(ValueError, match=r"symmetric.*block 0, sample 2"):
        Vectorize(symmetric=True).fit(S)
    with pytest.raises(ValueError, match=r"square.*got 3×2 in block 0"):
        Vectorize(symmetric=True).fit(np.ones((4, 3, 2)))


def test_what_happened_to_be_symmetric_can_be_kept_whole():
    X = np.ones((4, 3, 3))
    vectorize = Vectorize(symmetric=False).fit(X)
    X[1, 0, 1] = 5.0
    assert_array_equal(vectorize.transform(X), X.reshape(4, 9))


def test_single_precision_vectors_stay_single():
    S = symmetric_stack(3).astype(np.float32)
    vectorize = Vectorize().fit(S)
    assert vectorize.transform(S).dtype == np.float32
    assert vectorize.inverse_transform(vectorize.transform(S)).dtype == np.float32


def test_names_of_the_columns():
    S = symmetric_stack(2)
    assert Vectorize().fit(S).get_feature_names_out().tolist() == ["x0_0", "x0_1", "x1_1"]
    R = np.arange(24.0).reshape(12, 2, 1)
    joined = Vectorize(join=True).fit(Blocks(S, R))
    assert joined.get_feature_names_out().tolist() == [
        "block0_x0_0", "block0_x0_1", "block0_x1_1", "block1_x0_0", "block1_x1_0"
    ]  # fmt: skip
    assert Vectorize().fit(R[..., 0]).get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    assert not hasattr(Vectorize().fit(Blocks(S)), "get_feature_names_out")
    with pytest.raises(NotFittedError):
        Vectorize().get_feature_names_out()


def test_data_frames_come_out_where_asked_for():
    pytest.importorskip("pandas")
    X = stack(3)
    model = make_pipeline(LogEuclidean(), Vectorize()).set_output(transform="pandas")
    frame = model.fit_transform(X)
    assert frame.columns.tolist() == ["x0_0", "x0_1", "x0_2", "x1_1", "x1_2", "x2_2"]
    expected = Vectorize().fit_transform(LogEuclidean().transform(X))
    assert_array_equal(frame.to_numpy(), expected)
    assert_allclose(model["vectorize"].inverse_transform(frame), LogEuclidean().transform(X))
    blocks = Vectorize().set_output(transform="pandas").fit_transform(Blocks(X))
    assert blocks.block_shapes == ((6, 1),)


def test_vectorize_says_what_is_wrong():
    S = symmetric_stack(3)
    with pytest.raises(NotFittedError):
        Vectorize().transform(S)
    with pytest.raises(NotFittedError):
        Vectorize().inverse_transform(np.ones((2, 6)))
    with pytest.raises(ValueError, match="symmetric: expected 'auto', True or False"):
        Vectorize(symmetric="yes").fit(S)
    with pytest.raises(ValueError, match="join: expected True or False"):
        Vectorize(join="yes").fit(S)
    with pytest.raises(ValueError, match=re.escape("[3×3] as in fit, got [2×2]")):
        Vectorize().fit(S).transform(symmetric_stack(2))
    with pytest.raises(ValueError, match="vectors of 6 entries, as transform returns them"):
        Vectorize().fit(S).inverse_transform(np.ones((2, 9)))
    with pytest.raises(ValueError, match="vectors of 6 and 4 entries"):
        Vectorize().fit(Blocks(S, np.ones((12, 4)))).inverse_transform(np.ones((2, 10)))
    S[1, 0, 0] = np.inf
    with pytest.raises(ValueError, match="inf in block 0, sample 1"):
        Vectorize().fit(S)
