"""Unfoldings of tensors are those of a loop over the entries."""

from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from tatml import Blocks
from tatml.features import Unfold, Vectorize

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7

SHAPES = [(2, 3), (3, 4, 2), (2, 3, 4, 5), (1, 3, 1), (2, 2, 2, 2, 2)]


def tensors(shape, n_samples=4, seed=0):
    return np.random.default_rng([*shape, seed]).normal(size=(n_samples, *shape))


def unfolded(tensor, mode):
    """Kolda and Bader, section 2.4: column j = Σ_{k≠n} i_k J_k with J_k = Π_{l<k, l≠n} I_l."""
    shape = tensor.shape
    result = np.full((shape[mode], prod(shape) // shape[mode]), np.nan)
    for index in product(*map(range, shape)):
        column, stride = 0, 1
        for k, size in enumerate(shape):
            if k != mode:
                column += index[k] * stride
                stride *= size
        result[index[mode], column] = tensor[index]
    return result


@pytest.mark.parametrize("shape", SHAPES)
def test_unfoldings_agree_with_a_loop_over_the_entries(shape):
    X = tensors(shape)
    blocks = Unfold().fit_transform(X)
    assert blocks.n_blocks == len(shape)
    for mode, array in enumerate(blocks.arrays):
        assert_array_equal(array, [unfolded(tensor, mode) for tensor in X])


def test_the_example_of_kolda_and_bader():
    """Example 2.1: a 3 × 4 × 2 tensor with the entries 1, …, 24."""
    X = np.arange(1.0, 25).reshape(3, 4, 2, order="F")[None]
    first, second, third = Unfold().transform(X).arrays
    assert_array_equal(first[0, 0], [1, 4, 7, 10, 13, 16, 19, 22])
    assert_array_equal(second[0, 0], [1, 2, 3, 13, 14, 15])
    assert_array_equal(third[0, 1], np.arange(13, 25))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_unfolding_keeps_norms_and_inner_products(shape):
    X = tensors(shape)
    flat = X.reshape(len(X), -1)
    for array in Unfold().transform(X).arrays:
        vectors = array.reshape(len(X), -1)
        assert_allclose(vectors @ vectors.T, flat @ flat.T, atol=1e-12)


def test_a_product_in_one_mode_multiplies_its_unfolding_from_the_left():
    X, A = tensors((3, 4, 2)), np.random.default_rng(0).normal(size=(5, 4))
    multiplied = np.einsum("ij,najb->naib", A, X)
    before, after = Unfold([1]).transform(X).arrays[0], Unfold([1]).transform(multiplied).arrays[0]
    assert_allclose(after, A @ before, atol=1e-12)


@pytest.mark.parametrize("modes", [(0,), (2,), (1, 0), [2, 0, 1], np.array([1, 2])])
def test_modes_are_chosen_in_their_order(modes):
    X = tensors((3, 4, 2))
    everything = Unfold().transform(X).arrays
    chosen = Unfold(modes).fit_transform(X)
    assert isinstance(chosen, Blocks)
    for array, mode in zip(chosen.arrays, modes, strict=True):
        assert_array_equal(array, everything[mode])


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_are_put_together_again_from_any_mode(shape):
    X = tensors(shape)
    for mode in range(len(shape)):
        unfold = Unfold([mode]).fit(X)
        blocks = unfold.transform(X)
        assert_array_equal(unfold.inverse_transform(blocks), X)
        assert_array_equal(unfold.inverse_transform(blocks.arrays[0]), X)
    unfold = Unfold().fit(X)
    assert_array_equal(unfold.inverse_transform(unfold.transform(X)), X)


def test_a_batch_is_the_same_as_one_by_one():
    X = tensors((3, 4, 2))
    together = Unfold().transform(X)
    for sample, parts in enumerate(together):
        alone = Unfold().transform(X[sample : sample + 1])
        for part, array in zip(parts, alone.arrays, strict=True):
            assert_array_equal(array[0], part)


def test_single_precision_and_lists_are_kept():
    X = tensors((2, 3)).astype(np.float32)
    assert Unfold().transform(X).dtype == np.float32
    assert_array_equal(Unfold().transform(X.tolist()).arrays[1], Unfold().transform(X).arrays[1])


@pytest.mark.parametrize(
    ("modes", "error"),
    [
        ((3,), ValueError),
        ((-1,), ValueError),
        ((0, 0), ValueError),
        ((), ValueError),
        (1, TypeError),
        ("01", TypeError),
        ((1.0,), TypeError),
        ((True,), TypeError),
    ],
)
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_modes_that_are_none_are_refused(modes, error, method):
    with pytest.raises(error, match="modes: expected"):
        getattr(Unfold(modes), method)(tensors((3, 4, 2)))


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_bad_input_is_refused(method):
    call = getattr(Unfold(), method)
    with pytest.raises(ValueError, match=r"at least two modes.*shape \(4, 3\)"):
        call(np.ones((4, 3)))
    with pytest.raises(ValueError, match="at least one entry"):
        call(np.empty((0, 3, 4)))
    X = tensors((3, 4, 2))
    X[1, 2, 3, 1] = np.inf
    with pytest.raises(ValueError, match="inf in sample 1, entry \\(2, 3, 1\\)"):
        call(X)
    with pytest.raises(TypeError, match="real numbers"):
        call(np.full((2, 3, 3), "a"))


def test_other_shapes_than_in_fit_are_refused():
    X = tensors((3, 4, 2))
    unfold = Unfold([1, 0]).fit(X)
    with pytest.raises(ValueError, match="\\(3, 4, 2\\) as in fit, got \\(4, 3, 2\\)"):
        unfold.transform(tensors((4, 3, 2)))
    with pytest.raises(ValueError, match="unfoldings of shape \\(4, 6\\)"):
        unfold.inverse_transform(np.ones((2, 3, 8)))
    with pytest.raises(NotFittedError):
        Unfold().inverse_transform(unfold.transform(X))


def test_pipelines_cross_validate_and_search():
    X, y = tensors((2, 3, 2), n_samples=40), np.arange(40) % 2
    X[y == 1] += 10.0
    model = make_pipeline(Unfold(), Vectorize(join=True), LogisticRegression())
    assert_array_equal(cross_val_score(model, X, y, cv=4), np.ones(4))
    search = GridSearchCV(model, {"unfold__modes": [(0,), (0, 1)]}, cv=4).fit(X, y)
    assert search.best_score_ == 1.0
    assert clone(Unfold((0, 2))).get_params() == {"modes": (0, 2)}
