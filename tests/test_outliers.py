"""Outliers: bounds of the columns by hand, what is clipped, and the warning that names samples."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

from tatml import PAPER, TATML, TATMLCV, Blocks, TATMLPairs, learn_metric
from tatml._data.blocks import as_blocks
from tatml._learning import outliers
from tatml._learning.outliers import clip_outliers

FEW = {"n_pairs_per_class": 40, "random_state": 0}


def clipped(X):
    """Return the entries of samples after clipping; every sample counts."""
    return clip_outliers(as_blocks(X), np.arange(len(X))).arrays[0].reshape(np.shape(X))


def with_warnings(call):
    """Return the messages of all warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


def clean(n_samples=90, n_features=4, seed=0):
    """Return samples of three classes whose means differ; the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 3
    return rng.normal(size=(n_samples, n_features)) + 1.5 * y[:, None], y


# Bounds


def test_entries_are_clipped_at_half_the_range_outside_the_quantiles():
    """Of 21 entries, the second and the last but one are the quantiles: 1 and 19.

    A column is clipped if an entry is more than three times their distance outside.
    """
    column = np.arange(21.0)
    for wild, bound in ((74, 28), (1e5, 28), (-54, -8), (-1e5, -8), (73, 73), (-53, -53)):
        given = column.copy()
        given[0 if wild < 0 else 20] = wild
        expected = given.copy()
        expected[given == wild] = bound
        order = np.random.default_rng(0).permutation(21)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # such a sample dominates
            assert_array_equal(clipped(given[order, None])[:, 0], expected[order], str(wild))


def test_a_column_of_mostly_equal_entries_has_the_quantiles_of_the_others():
    """80 zeros and the counts 1 to 20: the others have the quantiles 2 and 19."""
    column = np.concatenate([np.zeros(80), np.arange(1.0, 21)])
    assert_array_equal(clipped(column[:, None])[:, 0], column)
    for sign, middle in ((1, 0.0), (-1, 0.0), (1, 7.0)):
        given = middle + sign * column
        given[-1] = middle + sign * 500
        with pytest.warns(UserWarning, match="samples 99 are"):
            found = clipped(given[:, None])[:, 0]
        assert_array_equal(found[:-1], given[:-1])
        assert found[-1] == middle + sign * 28.5
    rare = np.concatenate([np.zeros(90), np.arange(1.0, 9), [56.0]])  # too few for quantiles
    with pytest.warns(UserWarning, match="samples 98 are"):
        assert_array_equal(clipped(rare[:, None])[:, 0], rare)
    for sign in (1, -1):  # 8 is the second farthest: far is 8 + 3 · 16
        given = sign * np.concatenate([rare[:-1], [57.0]])
        with pytest.warns(UserWarning, match="samples 98 are"):
            found = clipped(given[:, None])[:, 0]
        assert_array_equal(found, sign * np.concatenate([rare[:-1], [16.0]]))
    single = np.concatenate([np.zeros(90), [1e6]])  # nothing to compare with
    assert_array_equal(clipped(single[:, None])[:, 0], single)


def test_fewer_than_ten_samples_are_left_as_they_are():
    column = np.append(np.zeros(8), 1e9)
    column[:8] += np.arange(8)
    blocks = Blocks(column[:, None])
    assert clip_outliers(blocks, np.arange(9)) is blocks
    with pytest.warns(UserWarning, match="samples 11 are"):
        found = clipped(np.append(np.arange(11.0), 1e9)[:, None])
    assert found.max() < 20


def test_each_entry_of_a_matrix_has_its_own_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3, 2)) * 10.0 ** np.arange(6).reshape(3, 2)
    X[7, 2, 1] *= 1e3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = clipped(X)
        columns = [clipped(X[:, i, [j]])[:, 0] for i in range(3) for j in range(2)]
    assert_array_equal(found.reshape(50, 6), np.stack(columns, axis=1))
    assert np.sum(found != X) >= 1


def test_only_counted_rows_set_the_bounds_and_all_rows_are_clipped():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[40:] *= 1e4
    X[:2] += 1e3
    with pytest.warns(UserWarning, match="samples"):
        blocks = clip_outliers(Blocks(X), np.arange(40))
    found = blocks.arrays[0][:, :, 0]
    with pytest.warns(UserWarning, match="samples"):
        assert_array_equal(found[:40], clipped(X[:40]))
    low, high = np.min(found, axis=0), np.max(found, axis=0)
    assert np.all(low > -5)
    assert np.all(high < 5)
    assert_array_equal(found, np.clip(X, low, high))
    with pytest.warns(UserWarning, match="samples"):
        single = clip_outliers(Blocks(X.astype(np.float32)), np.arange(40)).arrays[0]
    assert single.dtype == np.float32
    assert_allclose(single[:, :, 0], found, rtol=1e-5)


COLUMNS = st.sampled_from(["normal", "heavy", "zeros", "counts", "constant"])


def draw_column(kind, n_samples, rng):
    column = {
        "normal": lambda: rng.normal(size=n_samples),
        "heavy": lambda: rng.standard_cauchy(size=n_samples),
        "zeros": lambda: np.where(rng.random(n_samples) < 0.7, 0, rng.normal(size=n_samples) ** 3),
        "counts": lambda: rng.poisson(0.5, size=n_samples).astype(float) ** 3,
        "constant": lambda: np.full(n_samples, 2.5),
    }[kind]()
    return np.round(column * 2**10) / 2**10  # sums of such numbers are exact


@pytest.mark.filterwarnings("ignore:X. samples:UserWarning")
@given(st.lists(COLUMNS, min_size=1, max_size=3), st.integers(10, 120), st.integers(0, 10**6))
def test_clipping_follows_units_and_origins_and_is_done_once(kinds, n_samples, seed):
    rng = np.random.default_rng(seed)
    X = np.stack([draw_column(kind, n_samples, rng) for kind in kinds], axis=1)
    found = clipped(X)
    assert_array_equal(clipped(found), found)
    most = 0.1 * n_samples + 1  # the tails of 5 %, each rounded to a whole number of samples
    assert np.sum(found != X, axis=0).max() <= most
    scale = 2.0 ** rng.integers(-20, 20, size=len(kinds))
    shift = rng.integers(-1000, 1000, size=len(kinds))
    assert_array_equal(clipped(X * scale), found * scale)
    assert_array_equal(clipped(X + shift), found + shift)
    order = rng.permutation(n_samples)
    assert_array_equal(clipped(X[order]), found[order])


# The warning


def test_samples_that_dominate_are_named_once_at_the_line_of_the_user():
    X, y = clean()
    X[17], X[44, 2] = 3e4, -2e4
    for model, name in (
        (TATML(**FEW), "X"),
        (TATMLCV(TATML(prior="auto", **FEW), {"C": [10.0]}, cv=2), "X"),
    ):
        with pytest.warns(UserWarning, match=f"^{name}: samples 17 are so far from") as caught:
            model.fit(X, y)
        assert len(caught) == 1, model
        assert caught[0].filename == __file__
    assert with_warnings(lambda: TATML(clip_outliers=False, **FEW).fit(X, y)) == []


def test_the_fewest_samples_that_make_up_half_of_the_squares_are_named():
    """At most one per cent of the samples, and five names."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    for sizes, named in (
        ([5, 3, 2], "samples 500 are .* 66 %"),
        ([3, 3, 3, 3], "samples 500, 501 are .* 50 %|samples 5.., 5.., 5.. are .* 75 %"),
        ([1] * 13, r"samples 5.., 5.., 5.., 5.., 5.. and 2 more are .* 54 %"),
        ([1] * 19, r"samples 5.., 5.., 5.., 5.., 5.. and 5 more are .* 53 %"),
    ):
        bad = X.copy()
        bad[500 : 500 + len(sizes), 0] = 1e6 * np.array(sizes)
        with pytest.warns(UserWarning, match=f"^X: {named} of the squared distances"):
            clipped(bad)
    bad[500:600, 0] = 1e6  # five per cent are not few
    assert with_warnings(lambda: clipped(bad)) == []


def test_samples_of_pairs_are_named_by_their_rows():
    X, y = clean()
    X[17] = 3e4
    rng = np.random.default_rng(0)
    index = rng.integers(90, size=(300, 2))
    index = index[(index[:, 0] != index[:, 1]) & np.all(index > 3, axis=1)]
    labels = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    position = np.searchsorted(np.unique(index), 17)
    with pytest.warns(UserWarning, match=rf"^pairs: samples {position} are") as caught:
        TATMLPairs(preprocessor=X).fit(index, labels)
    assert len(caught) == 1
    row = np.flatnonzero(index.ravel() == 17)[0]
    with pytest.warns(UserWarning, match=rf"^pairs: samples {row} are"):
        TATMLPairs().fit(X[index], labels)
    weights = np.where(np.any(index == 17, axis=1), 0.0, 1.0)
    assert with_warnings(lambda: TATMLPairs().fit(X[index], labels, weights)) == []


DRAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 0.5, size=shape),
    "counts": lambda rng, shape: rng.poisson(3, size=shape),
    "rare counts": lambda rng, shape: rng.poisson(0.3, size=shape),
    "two values": lambda rng, shape: rng.random(shape) < 0.2,
    "constant": lambda rng, shape: np.ones(shape),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_clean_samples_are_not_warned_of(kind):
    for shape, seed in product(((15, 3), (60, 2), (300, 20), (1000, 5)), range(10)):
        X = DRAWS[kind](np.random.default_rng(seed), shape).astype(float)
        assert with_warnings(lambda X=X: clipped(X)) == [], (shape, seed)


# In the estimators


def test_the_embedding_stays_linear_and_is_not_clipped():
    X, y = clean()
    model = TATML(**FEW).fit(X, y)
    far = 1e3 * X[:5]
    assert_allclose(model.transform(X), X @ model.components_.T, rtol=1e-12)
    assert_allclose(model.transform(far), 1e3 * model.transform(X[:5]), rtol=1e-9)
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    assert_allclose(model.pair_distance(1e3 * pairs), 1e3 * model.pair_distance(pairs), rtol=1e-9)


def test_a_fit_to_samples_with_outliers_is_that_to_clipped_samples():
    X, y = clean()
    X[17] = 50.0
    index = np.random.default_rng(1).permutation(np.stack(np.triu_indices(90, 1), axis=1))[:800]
    labels = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        inside = clipped(X)
        models = (
            TATML(clip_outliers=True, **FEW).fit(X, y),
            TATMLPairs(clip_outliers=True).fit(X[index], labels),
        )
        assert not np.array_equal(inside, X)
        unclipped = (
            TATML(clip_outliers=False, **FEW).fit(inside, y),
            TATMLPairs(clip_outliers=False).fit(inside[index], labels),
        )
        plain = TATML(clip_outliers=False, **FEW).fit(X, y)
    for model, expected in zip(models, unclipped, strict=True):
        assert_array_equal(model.components_, expected.components_)
        assert model.threshold_ == expected.threshold_
    assert not np.allclose(plain.components_, models[0].components_, rtol=0.1)


def test_the_preset_of_the_paper_takes_the_samples_as_they_are():
    X, y = clean()
    X[17] = 1e3
    model = TATML(**PAPER, random_state=0)
    assert with_warnings(lambda: model.fit(X, y)) == []
    result = learn_metric(X, model.pairs_, model.similar_)
    assert_allclose(model.result_.W[0], result.W[0], rtol=1e-6, atol=1e-9)


def quality(model, X, y):
    """Return the area under the ROC curve, and the balanced accuracy at the threshold."""
    first, second = np.triu_indices(len(y), 1)
    same = y[first] == y[second]
    distances = model.pair_distance(np.stack([first, second], axis=1), X)
    below = distances < model.threshold_
    return roc_auc_score(same, -distances), (np.mean(below[same]) + np.mean(~below[~same])) / 2


@pytest.mark.parametrize("row", [0, 40, 80])
def test_one_bad_row_costs_at_most_three_hundredths(row):
    """Without clipping it costs far more."""
    X, y = load_wine(return_X_y=True)
    known, labels = X[::2], y[::2]
    bad = known.copy()
    bad[row] = known.mean(axis=0) + 1000 * known.std(axis=0)
    options = {"n_pairs_per_class": 100, "random_state": 0}
    before = quality(TATML(**options).fit(known, labels), X[1::2], y[1::2])
    with pytest.warns(UserWarning, match=f"samples {row} are"):
        after = quality(TATML(**options).fit(bad, labels), X[1::2], y[1::2])
    assert before[0] - after[0] < 0.03
    assert before[1] - after[1] < 0.03
    with pytest.warns(UserWarning, match="^threshold_: .* hardly any training pairs"):
        model = TATML(clip_outliers=False, **options).fit(bad, labels)
    lost = quality(model, X[1::2], y[1::2])
    assert before[1] - lost[1] > 0.1


def test_columns_are_clipped_some_at_a_time():
    """In float32 and in matrices too; the squares of all columns are added."""
    rng = np.random.default_rng(0)
    array = rng.normal(size=(40, 5, 3)).astype(np.float32)
    array[3, 2, 1], array[7, 4, 2] = 90.0, -80.0
    counted = np.arange(35)
    expected, squares = outliers._clip_block(array, counted)
    assert expected.dtype == np.float32
    assert np.max(np.abs(expected)) < 10
    for numbers in (1, 40, 41, 280):
        found, more = outliers._clip_dense(array, counted, chunk_numbers=numbers)
        assert_array_equal(found, expected)
        assert_allclose(more, squares, rtol=1e-12)
