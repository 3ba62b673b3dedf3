import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
from helpers import assert_same_blocks
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tatml._data.blocks import Blocks, as_blocks


def counting(*shape, dtype=np.float64):
    """An array whose entries all differ, so that a wrong selection shows."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@pytest.fixture
def X():
    return Blocks(counting(6, 3, 3), 100 + counting(6, 2, 4), -counting(6, 5))


# What a Blocks is


def test_properties(X):
    assert X.n_blocks == 3
    assert X.block_shapes == ((3, 3), (2, 4), (5, 1))
    assert X.shape == (6, 9 + 8 + 5)
    assert X.ndim == 2
    assert len(X) == 6
    assert X.dtype == np.float64
    assert X.xp is np
    assert [array.shape for array in X.arrays] == [(6, 3, 3), (6, 2, 4), (6, 5, 1)]


def test_repr(X):
    assert repr(X) == "Blocks(n_samples=6, blocks=[3×3, 2×4, 5×1], dtype=float64)"


def test_a_2d_array_holds_vectors():
    vectors = counting(4, 3)
    assert_same_blocks(Blocks(vectors), [vectors[:, :, None]])


def test_what_is_ready_is_not_copied():
    matrices, vectors = counting(4, 3, 2), counting(4, 3)
    X = Blocks(matrices, vectors)
    assert X.arrays[0] is matrices
    assert np.shares_memory(X.arrays[1], vectors)
    assert np.shares_memory(X[1:3].arrays[0], matrices)
    mixed = Blocks(matrices, vectors.astype(np.float32))
    assert np.shares_memory(mixed.arrays[0], matrices)


@pytest.mark.parametrize(
    "array", [counting(4, 3, 2).T, counting(8, 3, 2)[::2], counting(4, 3)[:, ::2]]
)
def test_arrays_become_contiguous(array):
    assert Blocks(array).arrays[0].flags.c_contiguous
    assert_array_equal(Blocks(array).arrays[0].reshape(array.shape), array)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "longdouble", ">f4", ">f8", "object"]
)
def test_other_numbers_become_float64(dtype):
    block = Blocks(np.array([[0, 1], [1, 1]], dtype=dtype)).arrays[0]
    assert block.dtype == np.dtype("=f8"), dtype
    assert_array_equal(block[:, :, 0], [[0.0, 1.0], [1.0, 1.0]])


def test_float32_is_kept_only_if_all_are():
    single, double = counting(4, 3, dtype=np.float32), counting(4, 2)
    assert Blocks(single, single).dtype == np.float32
    assert Blocks(single, single)[::2].dtype == np.float32
    mixed = Blocks(single, double)
    assert [array.dtype for array in mixed.arrays] == [np.float64, np.float64]


def test_copies_and_pickles(X):
    for duplicate in (copy.copy(X), copy.deepcopy(X), pickle.loads(pickle.dumps(X))):
        assert_same_blocks(duplicate, X.arrays)


def test_never_becomes_one_array(X):
    message = r"cannot be converted to one array: take X\.arrays\[m\]"
    for convert in (
        np.asarray,
        np.array,
        lambda X: np.asarray(X, dtype=object),
        lambda X: np.array([X, X]),
        np.mean,
    ):
        with pytest.raises(TypeError, match=message):
            convert(X)


def test_the_advice_for_one_array_works(X):
    flat = np.hstack([a.reshape(len(a), -1) for a in X.arrays])
    assert flat.shape == X.shape


BAD_ARRAYS = [
    ((), ValueError, r"Blocks: expected at least one array, got none"),
    (
        (np.ones((4, 2)), np.ones((5, 2, 2)), np.ones((4, 1))),
        ValueError,
        r"samples in each block, got block 0 has 4, block 1 has 5",
    ),
    (
        (np.ones((4, 2)), np.ones(4)),
        ValueError,
        r"block 1: expected a 2-D array .* or a 3-D array .* got ndarray of shape \(4,\)",
    ),
    ((np.ones((4, 2, 2, 2)),), ValueError, r"block 0: .* got ndarray of shape \(4, 2, 2, 2\)"),
    ((3.0,), ValueError, r"block 0: .* got float of shape \(\)"),
    (([[1, 2], [3]],), ValueError, r"block 0: .* rows of equal length, got list of length 2"),
    (
        (np.ones((4, 2)), np.ones((4, 2), dtype=complex)),
        TypeError,
        r"block 1: expected real numbers, got an array of dtype complex128",
    ),
    (([["a", "b"]],), TypeError, r"block 0: expected real numbers, got an array of dtype <U1"),
    (
        (np.array([[1, None]], dtype=object),),
        TypeError,
        r"block 0: expected real numbers, got None of type NoneType at \(0, 1\)",
    ),
    (
        (np.array([[1.5, "2.5"]], dtype=object),),
        TypeError,
        r"block 0: expected real numbers, got '2\.5' of type str at \(0, 1\)",
    ),
    (
        (np.array([["2026-01-01"]], dtype="datetime64[D]"),),
        TypeError,
        r"block 0: expected real numbers, got an array of dtype datetime64\[D\]; convert dates to ",
    ),
    (
        (scipy.sparse.eye_array(3, format="csr"),),
        TypeError,
        r"block 0: expected a dense array, got csr_array; convert with \.toarray\(\)",
    ),
    (
        (np.ma.masked_less(np.arange(6.0).reshape(3, 2), 2),),
        TypeError,
        r"block 0: expected an array without masked entries, got a masked array",
    ),
    ((Blocks(np.ones((2, 2))),), TypeError, r"Blocks cannot be converted to one array"),
]


@pytest.mark.parametrize(("arrays", "error", "message"), BAD_ARRAYS)
def test_constructor_errors(arrays, error, message):
    with pytest.raises(error, match=message):
        Blocks(*arrays)


# Indexing


def array_shapes(n_samples):
    side = st.integers(1, 3)
    return st.one_of(st.tuples(st.just(n_samples), side), st.tuples(st.just(n_samples), side, side))


@st.composite
def blocks_and_n_samples(draw):
    n_samples = draw(st.integers(0, 7))
    shapes = draw(st.lists(array_shapes(n_samples), min_size=1, max_size=3))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    return Blocks(*(counting(*shape, dtype=dtype) for shape in shapes)), n_samples


@st.composite
def blocks_and_key(draw):
    X, n_samples = draw(blocks_and_n_samples())
    bound = st.integers(-n_samples - 2, n_samples + 2)
    mask = st.lists(st.booleans(), min_size=n_samples, max_size=n_samples).map(
        lambda flags: np.array(flags, dtype=bool)
    )
    keys = [
        st.builds(
            slice, st.none() | bound, st.none() | bound, st.sampled_from([None, 1, 2, -1, -2])
        ),
        mask,
        mask.map(list).filter(bool),
    ]
    if n_samples > 0:
        indices = st.lists(st.integers(-n_samples, n_samples - 1), max_size=9)
        keys += [
            indices,
            indices.map(lambda values: np.array(values, dtype=np.int8)),
            indices.map(lambda values: np.array(values, dtype=np.int64)),
        ]
    return X, draw(st.one_of(keys))


@given(blocks_and_key(), st.booleans())
def test_indexing_agrees_with_numpy(case, with_ellipsis):
    X, key = case
    selected = X[key, ...] if with_ellipsis else X[key]
    rows = key if isinstance(key, slice) else np.array(key, dtype=None if len(key) else int)
    assert_same_blocks(selected, [array[rows] for array in X.arrays])


@given(blocks_and_key())
def test_a_selection_keeps_all_but_the_samples(case):
    X, key = case
    selected = X[key]
    assert selected.block_shapes == X.block_shapes
    assert selected.dtype == X.dtype
    assert selected.shape == (len(selected), X.shape[1])


@given(blocks_and_n_samples(), st.data())
def test_an_integer_gives_one_sample(case, data):
    X, n_samples = case
    i = data.draw(st.integers(-n_samples - 3, n_samples + 3))
    integer = data.draw(st.sampled_from([int, np.int64, np.int16]))(i)
    if -n_samples <= i < n_samples:
        for sample in (X[integer], X[integer, ...]):
            assert isinstance(sample, tuple)
            for matrix, array in zip(sample, X.arrays, strict=True):
                assert_array_equal(matrix, array[i], strict=True)
    else:
        with pytest.raises(IndexError, match="out of bounds"):
            X[integer]


@given(blocks_and_n_samples())
def test_iteration_yields_every_sample_in_order(case):
    X, n_samples = case
    samples = list(X)
    assert len(samples) == len(X) == n_samples
    for i, sample in enumerate(samples):
        for matrix, expected in zip(sample, X[i], strict=True):
            assert_array_equal(matrix, expected, strict=True)


@given(blocks_and_n_samples(), st.randoms(use_true_random=False))
def test_a_permutation_and_its_inverse_round_trip(case, random):
    X, n_samples = case
    order = list(range(n_samples))
    random.shuffle(order)
    assert_same_blocks(X[order][np.argsort(order)], X.arrays)


@given(blocks_and_n_samples())
def test_arrays_round_trip(case):
    X, _ = case
    assert_same_blocks(Blocks(*X.arrays), X.arrays)


BAD_KEYS = [
    ([0, 6], r"index 6 is out of bounds"),
    ([True, False], r"expected a mask of length n_samples = 6, got length 2"),
    (np.ones(7, dtype=bool), r"expected a mask of length n_samples = 6, got length 7"),
    ((0, 1), r"expected one index, for the samples, got the 2 of \(0, 1\)"),
    ((slice(None), [0]), r"index the arrays in X\.arrays to reach inside a block"),
    ((0,), r"expected one index"),
    ("a", r"expected an integer, a slice, a mask or a 1-D array of integers as index, got 'a'"),
    ([0.0, 1.0], r"1-D array of integers as index, got \[0\.0, 1\.0\]"),
    ([[0, 1], [2, 3]], r"1-D array of integers"),
    (True, r"1-D array of integers as index, got True"),
    (None, r"1-D array of integers as index, got None"),
]


@pytest.mark.parametrize(("key", "message"), BAD_KEYS)
def test_indexing_errors(X, key, message):
    with pytest.raises(IndexError, match=message):
        X[key]


# as_blocks


class Frame:
    """The part of a data frame that counts here."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_as_blocks_passes_blocks_through(X):
    assert as_blocks(X) is X


SAMPLES = [
    (counting(4, 3), counting(4, 3, 1)),
    (counting(4, 3).tolist(), counting(4, 3, 1)),
    (Frame(counting(4, 3)), counting(4, 3, 1)),
    (counting(4, 3, 2), counting(4, 3, 2)),
    (list(counting(4, 3, 2)), counting(4, 3, 2)),
]


@pytest.mark.parametrize(("given_as", "expected"), SAMPLES)
def test_as_blocks_takes_2d_and_3d(given_as, expected):
    assert_same_blocks(as_blocks(given_as), [expected])


def test_as_blocks_takes_a_pandas_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    expected = np.array([[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]])[:, :, None]
    assert_same_blocks(as_blocks(frame), [expected])
    with pytest.raises(
        TypeError, match=r"X: expected real numbers, got 'x' of type str at \(0, 1\)"
    ):
        as_blocks(pandas.DataFrame({"a": [1], "b": ["x"]}))


@given(blocks_and_n_samples())
def test_as_blocks_of_one_array_is_one_block(case):
    X, n_samples = case
    if n_samples > 0:
        assert_same_blocks(as_blocks(X.arrays[0]), X.arrays[:1])


BAD_SAMPLES = [
    (np.ones(5), ValueError, r"Z: expected a 2-D .* or a 3-D .* got ndarray of shape \(5,\)"),
    (
        np.ones((2, 3, 4, 5)),
        ValueError,
        r"Z: .* got ndarray of shape \(2, 3, 4, 5\); .*Blocks\(a, b\)",
    ),
    (None, TypeError, r"Z: expected real numbers, got None of type NoneType"),
    ("abc", TypeError, r"Z: expected real numbers, got an array of dtype <U3"),
    (
        [np.ones((5, 2, 2)), np.ones((5, 3, 3))],
        ValueError,
        r"Z: .* got list of length 2 with parts of different shapes; .*Blocks\(a, b\)",
    ),
    (
        (np.ones((5, 2, 2)), np.ones((5, 2, 2))),
        ValueError,
        r"Z: .* got tuple of length 2 of shape \(2, 5, 2, 2\); .*Blocks\(a, b\)",
    ),
    (np.ones((0, 3)), ValueError, r"Z: expected at least one sample, got Blocks\(n_samples=0"),
    (np.ones((2, 0)), ValueError, r"Z: .* at least one row and one column, got 0×1 in block 0"),
    (
        Blocks(np.ones((2, 2)), np.ones((2, 3, 0))),
        ValueError,
        r"Z: .* at least one row and one column, got 3×0 in block 1",
    ),
    (np.ones((2, 2), dtype=complex), TypeError, r"Z: expected real numbers, got .* complex128"),
    (scipy.sparse.eye_array(3), TypeError, r"Z: expected a dense array, got .*\.toarray\(\)"),
]


@pytest.mark.parametrize(("values", "error", "message"), BAD_SAMPLES)
def test_as_blocks_errors(values, error, message):
    with pytest.raises(error, match=message):
        as_blocks(values, name="Z")


@given(blocks_and_n_samples(), st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_as_blocks_names_the_entry_that_is_not_finite(case, value, data):
    X, n_samples = case
    if n_samples == 0:
        return
    m = data.draw(st.integers(0, X.n_blocks - 1))
    arrays = [array.copy() for array in X.arrays]
    sample, row, column = (data.draw(st.integers(0, size - 1)) for size in arrays[m].shape)
    arrays[m][sample, row, column] = value
    with pytest.raises(ValueError, match="X: expected finite numbers") as caught:
        as_blocks(Blocks(*arrays))
    where = f"got {float(value)} in block {m}, sample {sample}, entry ({row}, {column})"
    assert where in str(caught.value)
