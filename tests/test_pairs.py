import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tatml._data.pairs import Pairs, as_pairs
from tatml._optim.problem import squared_hinge


@st.composite
def valid_arguments(draw):
    n_samples = draw(st.integers(2, 8))
    row = st.lists(st.integers(0, n_samples - 1), min_size=2, max_size=2, unique=True)
    index = draw(st.lists(row, min_size=1, max_size=12))
    n_pairs = len(index)
    similar = draw(st.lists(st.booleans(), min_size=n_pairs, max_size=n_pairs))
    positive = st.lists(st.floats(0.1, 10), min_size=n_pairs, max_size=n_pairs)
    return index, similar, n_samples, draw(st.none() | positive)


@given(valid_arguments(), st.sampled_from([list, np.array]), st.sampled_from("CF"))
def test_as_pairs_round_trips(arguments, kind, order):
    index, similar, n_samples, weights = arguments
    given_index = np.array(index, order=order) if kind is np.array else index
    pairs = as_pairs(given_index, kind(similar), n_samples, weights)
    assert len(pairs) == len(index)
    assert_array_equal(pairs.index, np.array(index, dtype=np.intp), strict=True)
    assert_array_equal(pairs.similar, np.array(similar), strict=True)
    if weights is None:
        assert pairs.weights is None
    else:
        assert_array_equal(pairs.weights, np.array(weights), strict=True)


@given(valid_arguments())
def test_columns_are_contiguous_and_not_copied(arguments):
    pairs = as_pairs(*arguments)
    for column, values in enumerate([pairs.first, pairs.second]):
        assert_array_equal(values, pairs.index[:, column])
        assert values.flags.c_contiguous
        assert np.shares_memory(values, pairs.index)


@given(valid_arguments())
def test_sign_is_plus_one_for_similar_pairs(arguments):
    pairs = as_pairs(*arguments)
    sign = squared_hinge(pairs, 1.0, (0.5, 2.0)).sign
    assert sign.dtype == np.float64
    assert_array_equal(sign, [1.0 if similar else -1.0 for similar in arguments[1]])


@given(valid_arguments(), st.data())
def test_take_agrees_with_numpy(arguments, data):
    pairs = as_pairs(*arguments)
    n_pairs = len(pairs)
    key = data.draw(
        st.one_of(
            st.lists(st.integers(0, n_pairs - 1), min_size=1),
            st.lists(st.booleans(), min_size=n_pairs, max_size=n_pairs),
            st.builds(slice, st.integers(0, n_pairs), st.none(), st.sampled_from([None, 2, -1])),
        )
    )
    taken = pairs.take(key)
    rows = np.arange(n_pairs)[key]
    assert len(taken) == len(rows)
    assert_array_equal(taken.index, pairs.index[rows], strict=True)
    assert_array_equal(taken.similar, pairs.similar[rows], strict=True)
    assert taken.index.flags.f_contiguous
    assert taken.similar.flags.c_contiguous
    if pairs.weights is not None:
        assert_array_equal(taken.weights, pairs.weights[rows], strict=True)
        assert taken.weights.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_any_integer_type_will_do(dtype):
    pairs = as_pairs(np.array([[0, 1], [2, 1]], dtype=dtype), [True, False], 3)
    assert_array_equal(pairs.index, np.array([[0, 1], [2, 1]], dtype=np.intp), strict=True)


@pytest.mark.parametrize("weights", [[1, 0], [True, False], [0.5, 0.0], np.float32([2, 1])])
def test_weights_become_float64(weights):
    pairs = as_pairs([[0, 1], [2, 1]], [True, False], 3, weights)
    assert_array_equal(pairs.weights, np.asarray(weights, dtype=np.float64), strict=True)


def test_pairs_are_frozen():
    pairs = as_pairs([[0, 1]], [True], 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairs.weights = np.ones(1)


def test_first_is_contiguous_for_any_layout():
    pairs = Pairs(np.array([[0, 1], [2, 1], [0, 2]]), np.array([True, False, True]))
    assert pairs.first.flags.c_contiguous
    assert_array_equal(pairs.second, [1, 1, 2])
