"""Unions of transformers, and blocks on a common scale."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tatml import Blocks
from tatml.features import (
    BlockScaler,
    BlockUnion,
    FilterBankCovariance,
    LogEuclidean,
    SPDPower,
    Unfold,
    Vectorize,
)

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7


def matrices(n_samples=20, n=3, seed=0):
    points = np.random.default_rng(seed).normal(size=(n_samples, n, 3 * n))
    return points @ points.transpose(0, 2, 1)


def log_and_power(**options):
    return BlockUnion([("log", LogEuclidean()), ("power", SPDPower(2.0))], **options)


class Recorder(TransformerMixin, BaseEstimator):
    """A transformer that returns the mean of y, and records what `fit` got."""

    def fit(self, X, y=None):
        self.X_, self.y_ = X, y
        return self

    def transform(self, X):
        return np.full((len(X), 1), np.mean(self.y_))


# BlockUnion


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_union_holds_what_each_transformer_gives(n_jobs):
    X = matrices()
    union = log_and_power(n_jobs=n_jobs)
    with parallel_config("threading"):
        joined = union.fit_transform(X)
        again = union.fit(X).transform(X)
    assert_array_equal(joined.arrays[0], LogEuclidean().transform(X))
    assert_array_equal(joined.arrays[1], SPDPower(2.0).transform(X))
    for array, other in zip(joined.arrays, again.arrays, strict=True):
        assert_array_equal(array, other)


def test_arrays_blocks_and_vectors_are_joined_in_order():
    X = np.random.default_rng(0).normal(size=(10, 3, 64))
    union = BlockUnion(
        [
            ("bands", FilterBankCovariance(sfreq=128)),
            ("modes", Unfold()),
            ("vectors", Vectorize()),
            ("all", "passthrough"),
            ("none", "drop"),
        ]
    )
    joined = union.fit_transform(X)
    assert joined.block_shapes == ((3, 3),) * 3 + ((3, 64), (64, 3), (192, 1), (3, 64))
    assert_array_equal(joined.arrays[6], X)
    assert_array_equal(joined.arrays[5][:, :, 0], X.reshape(10, -1))
    assert [name for name, _ in union.transformers_] == ["bands", "modes", "vectors", "all"]


def test_transformers_of_scikit_learn_take_part():
    X = np.random.default_rng(0).normal(size=(10, 4))
    joined = BlockUnion([("pca", PCA(2)), ("scaled", StandardScaler())]).fit_transform(X)
    assert joined.block_shapes == ((2, 1), (4, 1))
    assert_allclose(joined.arrays[1][:, :, 0], StandardScaler().fit_transform(X))


def test_a_wish_for_data_frames_leaves_blocks_alone():
    pytest.importorskip("pandas")
    X = matrices()
    union = BlockUnion([("log", LogEuclidean()), ("svec", Vectorize()), ("same", "passthrough")])
    with config_context(transform_output="pandas"):
        model = make_pipeline(union, BlockScaler(), Vectorize(join=True))
        assert union.fit_transform(X).block_shapes == ((3, 3), (6, 1), (3, 3))
        assert model.fit_transform(X).columns[-1] == "same_x2_2"
    frame = clone(model).set_output(transform="pandas").fit_transform(X)
    assert_allclose(frame.to_numpy(), clone(model).fit_transform(X))


def test_unions_nest():
    X = matrices()
    joined = BlockUnion([("both", log_and_power()), ("same", "passthrough")]).fit_transform(X)
    assert joined.n_blocks == 3
    assert_array_equal(joined.arrays[1], SPDPower(2.0).transform(X))


def test_the_squared_distance_is_the_mean_over_the_blocks():
    """With W = I, D = (1/M) Σ_m ‖Δ_m‖²; the squared distance of joined vectors is M D."""
    X = matrices(2)
    blocks = log_and_power().fit_transform(X)
    mean = np.mean([np.sum((array[0] - array[1]) ** 2) for array in blocks.arrays])
    joined = Vectorize(join=True).fit_transform(blocks)
    assert_allclose(np.sum((joined[0] - joined[1]) ** 2), 2 * mean, rtol=1e-12)


def test_fit_changes_no_parameter_and_uses_copies():
    union = log_and_power()
    before = list(union.transformer_list)
    union.fit(matrices())
    assert union.transformer_list == before
    assert not hasattr(union.transformer_list[0][1], "block_shapes_in_")
    assert union.transformers_[0][1].block_shapes_in_ == ((3, 3),)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_y_reaches_the_transformers(method):
    X, y = matrices(), np.arange(20.0)
    union = BlockUnion([("one", Recorder())])
    getattr(union, method)(X, y)
    assert_array_equal(union.transformers_[0][1].y_, y)
    assert_array_equal(union.transform(X[:2]).arrays[0][:, 0, 0], [9.5, 9.5])


def test_parameters_inside_can_be_read_and_set():
    union = log_and_power()
    assert union.get_params()["power__power"] == 2.0
    assert "power__power" not in union.get_params(deep=False)
    union.set_params(power__power=-1.0, log="drop", n_jobs=1)
    joined = union.fit_transform(matrices())
    assert joined.n_blocks == 1
    assert_allclose(joined.arrays[0], np.linalg.inv(matrices()), atol=1e-10)
    copy = clone(union)
    assert copy.get_params()["power__power"] == -1.0
    assert copy.get_params()["log"] == "drop"
    assert "SPDPower(power=-1.0)" in repr(copy)
    assert not hasattr(copy, "transformers_")


def test_what_is_no_transformer_is_refused():
    X = matrices()
    with pytest.raises(TypeError, match=r"expected transformers.* got 3 for 'a'"):
        BlockUnion([("a", 3)]).fit(X)
    with pytest.raises(TypeError, match=r"expected a list of pairs"):
        BlockUnion([LogEuclidean()]).fit(X)
    with pytest.raises(TypeError, match=r"expected a list of pairs"):
        BlockUnion(None).fit(X)
    with pytest.raises(ValueError, match="not unique"):
        BlockUnion([("a", LogEuclidean()), ("a", SPDPower())]).fit(X)
    for empty in ([], [("a", "drop")]):
        with pytest.raises(ValueError, match="at least one transformer, got none"):
            BlockUnion(empty).fit_transform(X)
    with pytest.raises(NotFittedError):
        log_and_power().transform(X)


def test_a_result_that_cannot_be_joined_is_named():
    class Half(Recorder):
        def transform(self, X):
            return X[::2]

    class Holes(Recorder):
        def transform(self, X):
            return np.full((len(X), 2), np.nan)

    X = matrices()
    with pytest.raises(ValueError, match=r"got 20 from 'log', 10 from 'half'"):
        BlockUnion([("log", LogEuclidean()), ("half", Half())]).fit_transform(X)
    with pytest.raises(ValueError, match=r"result of 'holes': .* got nan in block 0, sample 0"):
        BlockUnion([("holes", Holes())]).fit_transform(X)
    with pytest.raises(ValueError, match=r"\[3×3\] as in fit, got \[4×4\]"):
        log_and_power().fit(X).transform(matrices(n=4))


def test_pipelines_with_unions_cross_validate_and_search():
    X, y = matrices(40), np.arange(40) % 2
    X[y == 1] *= 50.0
    model = make_pipeline(
        log_and_power(), BlockScaler(), Vectorize(join=True), LogisticRegression(C=10)
    )
    assert_array_equal(cross_val_score(model, X, y, cv=4), np.ones(4))
    assert cross_val_score(model, Blocks(X, X), y, cv=4).mean() == 1.0
    grid = {"blockunion__log": ["drop", LogEuclidean()], "blockunion__power__power": [0.5, 1.0]}
    search = GridSearchCV(model, grid, cv=4).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ == 1.0


# BlockScaler


def test_block_scaler_keeps_scikit_learns_rules():
    results = check_estimator(BlockScaler(), on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


def mean_squared_distance(array):
    return np.mean([np.sum((A - B) ** 2) for A, B in combinations(array, 2)])


def ragged(n_samples=9, seed=0):
    rng = np.random.default_rng(seed)
    return Blocks(
        3.0 + rng.normal(size=(n_samples, 2, 3)),
        1e6 * rng.normal(size=(n_samples, 4)),
        1e-9 * rng.normal(size=(n_samples, 2, 2)),
    )


def test_the_scale_is_the_root_mean_squared_distance_of_pairs():
    X = ragged()
    scaler = BlockScaler().fit(X)
    expected = [np.sqrt(mean_squared_distance(array)) for array in X.arrays]
    assert_allclose(scaler.scale_, expected, rtol=1e-12)
    variances = [2 * np.var(array, axis=0, ddof=1).sum() for array in X.arrays]
    assert_allclose(scaler.scale_**2, variances, rtol=1e-12)


def test_afterwards_pairs_have_a_mean_squared_distance_of_one():
    scaled = BlockScaler().fit_transform(ragged())
    assert_allclose([mean_squared_distance(array) for array in scaled.arrays], 1, rtol=1e-12)


@given(st.integers(0, 1000), st.floats(-290, 290))
def test_the_unit_of_a_block_does_not_matter(seed, decades):
    X = ragged(seed=seed)
    other = Blocks(10.0**decades * X.arrays[0], *X.arrays[1:])
    for array, expected in zip(
        BlockScaler().fit_transform(other).arrays,
        BlockScaler().fit_transform(X).arrays,
        strict=True,
    ):
        assert_allclose(array, expected, rtol=1e-12)


def test_new_samples_are_divided_by_the_scale_of_the_training_samples():
    X, new = ragged(), ragged(4, seed=1)
    scaler = BlockScaler().fit(X)
    for array, before, scale in zip(
        scaler.transform(new).arrays, new.arrays, scaler.scale_, strict=True
    ):
        assert_array_equal(array, before / scale)
    for array, before in zip(
        scaler.inverse_transform(scaler.transform(new)).arrays, new.arrays, strict=True
    ):
        assert_allclose(array, before, rtol=1e-14)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -1e20, 1e-300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_block_is_left_as_it_is(value, dtype):
    constant = np.full((7, 3, 2), value, dtype=dtype)
    scaler = BlockScaler().fit(Blocks(constant, np.arange(7.0, dtype=dtype)[:, None]))
    assert scaler.scale_[0] == 1.0
    assert scaler.scale_[1] > 1.0
    assert_array_equal(BlockScaler().fit_transform(constant), constant)


def test_one_sample_has_no_pairs_and_is_left_as_it_is():
    X = ragged(1)
    assert_array_equal(BlockScaler().fit(X).scale_, np.ones(3))


def test_a_small_spread_about_a_large_mean_is_not_constant():
    X = 1e6 + np.random.default_rng(0).normal(size=(50, 3)) * 1e-3
    assert_allclose(BlockScaler().fit(X).scale_[0], np.sqrt(mean_squared_distance(X)), rtol=1e-6)


@pytest.mark.parametrize("X", [matrices(), matrices()[:, 0], Blocks(matrices(), matrices(n=2))])
def test_the_form_is_kept(X):
    scaler = BlockScaler().fit(X)
    scaled = scaler.transform(X)
    assert type(scaled) is type(X)
    assert scaled.shape == X.shape
    assert hasattr(scaler, "get_feature_names_out") == (X.shape == (20, 3))


def test_block_scaler_says_what_is_wrong():
    with pytest.raises(NotFittedError):
        BlockScaler().transform(ragged())
    with pytest.raises(NotFittedError):
        BlockScaler().inverse_transform(ragged())
    with pytest.raises(ValueError, match=r"\[3×3\] as in fit, got \[2×2\]"):
        BlockScaler().fit(matrices()).transform(matrices(n=2))
    with pytest.raises(ValueError, match="at least one sample"):
        BlockScaler().fit(np.empty((0, 2, 2)))
    X = matrices()
    X[4, 1, 0] = np.nan
    with pytest.raises(ValueError, match="nan in block 0, sample 4"):
        BlockScaler().fit(X)
    assert clone(BlockScaler().fit(matrices())).get_params() == {}


def test_names_of_columns_are_forgotten_with_the_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(matrices()[:, 0], columns=["a", "b", "c"])
    scaler = BlockScaler().set_output(transform="pandas").fit(frame)
    assert scaler.transform(frame).columns.tolist() == ["a", "b", "c"]
    scaler.fit(matrices())
    assert not hasattr(scaler, "feature_names_in_")
    assert scaler.transform(matrices()).shape == (20, 3, 3)


def test_a_table_without_dimensions_is_an_array():
    """A frame of polars has a shape, but no ndim."""

    class Table:
        shape = (20, 3)

        def __array__(self, dtype=None, copy=None):
            return matrices()[:, 0]

    scaled = BlockScaler().fit(Table()).transform(Table())
    assert_array_equal(scaled, BlockScaler().fit_transform(matrices()[:, 0]))


class FitOnly(BaseEstimator):
    """A transformer without fit_transform."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


def test_transformers_without_fit_transform_are_fitted_and_applied():
    X = np.random.default_rng(0).normal(size=(6, 3, 3))
    union = BlockUnion([("centre", FitOnly())])
    assert_array_equal(union.fit_transform(X).arrays[0], X - X.mean(axis=0))
