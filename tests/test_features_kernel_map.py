"""KernelMap: exact on landmarks, a projection elsewhere, and whatever the units of the data."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from tatml import ITML, TATML, Blocks, TATMLNeighbors
from tatml.features import KernelMap

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-9)
WORDS = ["rbf", "laplacian", "polynomial", "linear", "chi2"]


def table(n_samples=40, n_features=3, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=(n_samples, n_features))


def kernel_distances(K):
    """Squared distances in the feature space, by definition."""
    return np.diagonal(K)[:, None] + np.diagonal(K) - 2 * K


def squared_distances(Z):
    return np.sum((Z[:, None] - Z[None]) ** 2, axis=2)


def units_of(X, kernel, units):
    """The samples as the kernel sees them."""
    center = 0 if kernel == "chi2" else X.mean(axis=0)
    spread = X.std(axis=0)
    return (X - center) / (spread if units == "columns" else np.sqrt(np.mean(spread**2)))


@pytest.mark.parametrize(
    "model", [KernelMap(keep_features=False), KernelMap("linear", keep_features=False)]
)
def test_kernel_map_keeps_scikit_learns_rules(model):
    results = check_estimator(model, on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


@pytest.mark.parametrize("kernel", WORDS)
@pytest.mark.parametrize("units", ["columns", "common"])
def test_distances_of_landmarks_are_exact(kernel, units):
    X = table()
    model = KernelMap(
        kernel, gamma=0.4, coef0=0.7, degree=2, units=units, keep_features=False, n_landmarks=40
    )
    Z = model.fit_transform(X)
    given = {"gamma": 0.4, "coef0": 0.7, "degree": 2}
    K = pairwise_kernels(units_of(X, kernel, units), metric=kernel, filter_params=True, **given)
    assert_allclose(squared_distances(Z), kernel_distances(K), atol=1e-9)
    assert_allclose(Z.mean(axis=0), np.zeros(Z.shape[1]), atol=1e-9)


def test_a_precomputed_kernel_is_the_kernel_that_it_was_computed_by():
    X, new = table(), table(10, seed=1)
    scale = X.std(axis=0)
    rows, new_rows = (X - X.mean(axis=0)) / scale, (new - X.mean(axis=0)) / scale
    options = {"n_landmarks": 15, "random_state": 0, "keep_features": False}
    plain = KernelMap(gamma=0.5, **options).fit(X)
    given = KernelMap("precomputed", **options)
    given.fit(pairwise_kernels(rows, metric="rbf", gamma=0.5))
    assert_array_equal(given.landmark_rows_, plain.landmark_rows_)
    K = pairwise_kernels(new_rows, rows, metric="rbf", gamma=0.5)
    assert_allclose(
        squared_distances(given.transform(K)), squared_distances(plain.transform(new)), atol=1e-9
    )


def test_other_samples_are_projected_on_the_span_of_the_landmarks():
    """The distance to a landmark loses exactly the part outside the span."""
    X, new = table(30), table(8, seed=1)
    model = KernelMap("polynomial", degree=2, gamma=1.0, units="common", keep_features=False)
    model.fit(X)
    z, Z = model.transform(new), model.transform(X)
    assert Z.shape[1] == 9  # all monomials of degree 1 and 2: new samples lose nothing
    scale = np.sqrt(np.mean(X.var(axis=0)))
    both = np.vstack([(X - X.mean(axis=0)) / scale, (new - X.mean(axis=0)) / scale])
    K = pairwise_kernels(both, metric="polynomial", degree=2, gamma=1.0, coef0=1.0)
    assert_allclose(squared_distances(np.vstack([Z, z])), kernel_distances(K), atol=1e-8)
    few = KernelMap(n_landmarks=5, random_state=0, keep_features=False).fit(X)
    lost = squared_distances(KernelMap(keep_features=False).fit_transform(X))
    assert np.all(squared_distances(few.transform(X)) <= lost + 1e-12)


@pytest.mark.parametrize("change", [(1e-8, 0.0), (1e8, 0.0), (1.0, 1e6), (1e-6, 1e3)])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "linear"])
def test_units_and_shifts_change_nothing(change, kernel):
    """An absolute limit of eigenvalues would lose small data, and no centring shifted data."""
    factor, shift = change
    X = table()
    options = {"degree": 2, "keep_features": False, "n_landmarks": 40}
    expected = squared_distances(KernelMap(kernel, **options).fit_transform(X))
    found = squared_distances(KernelMap(kernel, **options).fit_transform(factor * X + shift))
    digits = np.finfo(float).eps * (1 + abs(shift) / factor)
    assert_allclose(found, expected, rtol=1e-9 + 100 * digits, atol=1e-9 + 100 * digits)


def test_repeated_samples_and_constant_columns_lose_nothing():
    X = table(20)
    twice = np.vstack([X, X])
    expected = squared_distances(KernelMap(keep_features=False).fit_transform(twice))
    assert_allclose(expected[:20, :20], expected[20:, 20:], atol=1e-10)
    assert_allclose(np.diagonal(expected[:20, 20:]), np.zeros(20), atol=1e-12)
    wide = np.hstack([twice, np.full((40, 1), 7.0)])
    found = squared_distances(KernelMap(keep_features=False).fit_transform(wide))
    assert_allclose(found, expected, atol=1e-10)


def test_gamma_is_taken_from_the_landmarks():
    X = table(50)
    model = KernelMap(gamma_factor=0.5, random_state=0).fit(X)
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_allclose(model.gamma_, [0.5 / np.median(pdist(rows, "sqeuclidean"))])
    few = KernelMap(n_landmarks=10, random_state=0).fit(X)
    assert_allclose(few.gamma_, [1.0 / np.median(pdist(rows[few.landmark_rows_], "sqeuclidean"))])
    cityblock = KernelMap("laplacian", units="common").fit(X)
    scale = np.sqrt(np.mean(X.var(axis=0)))
    assert_allclose(cityblock.gamma_, [1.0 / np.median(pdist(X / scale, "cityblock"))])


@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_equal_samples_are_refused_by_name_not_by_the_division_by_their_spread(kernel):
    with pytest.raises(ValueError, match=r"^X: expected landmarks with different kernel images"):
        KernelMap(kernel).fit(np.ones((5, 2)))


def test_landmarks_are_training_samples_drawn_by_the_seed():
    X = table(50)
    model = KernelMap(n_landmarks=10, random_state=3, units="common").fit(X)
    again, other = clone(model).fit(X), clone(model).set_params(random_state=4).fit(X)
    assert len(set(model.landmark_rows_)) == 10
    assert_array_equal(again.landmark_rows_, model.landmark_rows_)
    assert not np.array_equal(other.landmark_rows_, model.landmark_rows_)
    scale = np.sqrt(np.mean(X.var(axis=0)))
    expected = (X[model.landmark_rows_] - X.mean(axis=0)) / scale
    assert_allclose(model.maps_[0].landmarks, expected)


def test_blocks_have_one_image_each_after_the_features():
    rng = np.random.default_rng(0)
    X = Blocks(rng.normal(size=(20, 3, 3)), rng.normal(size=(20, 2)))
    model = KernelMap(n_landmarks=8, random_state=0).fit(X)
    Z = model.transform(X)
    assert Z.block_shapes == ((3, 3), (2, 1), (7, 1), (7, 1)) == model.block_shapes_out_
    assert_array_equal(Z.arrays[0], X.arrays[0])
    alone = KernelMap(n_landmarks=8, random_state=0, keep_features=False, units="common")
    flat = alone.fit_transform(X.arrays[0].reshape(20, 9))
    assert_allclose(squared_distances(Z.arrays[2][:, :, 0]), squared_distances(flat), atol=1e-12)
    only = KernelMap(n_landmarks=8, random_state=0, keep_features=False).fit_transform(X)
    assert_allclose(only.arrays[1], Z.arrays[3])


def test_one_image_is_a_table_with_names():
    X = table(20)
    model = KernelMap(n_landmarks=5, keep_features=False, random_state=0).fit(X)
    assert list(model.get_feature_names_out()) == [f"kernelmap{k}" for k in range(4)]
    pandas = pytest.importorskip("pandas")
    frame = model.set_output(transform="pandas").transform(X)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert not hasattr(KernelMap().fit(X), "get_feature_names_out")


def test_a_large_table_is_mapped_in_chunks():
    X = table(50)
    model = KernelMap(n_landmarks=10, random_state=0).fit(X)
    found = model._map_block(X[:, :, None], model.maps_[0], chunk_numbers=70)
    assert_allclose(found, model.transform(X).arrays[1][:, :, 0])


def test_in_a_pipeline():
    X = table(60)
    y = (np.sum((X - 2) ** 2, axis=1) > 4).astype(int)
    steps = make_pipeline(KernelMap(random_state=0), TATML(random_state=0), KNeighborsClassifier(3))
    assert steps.fit(X, y).score(X, y) > 0.9


def test_new_samples_of_chi2_are_checked_as_well():
    model = KernelMap("chi2").fit(table())
    with pytest.raises(ValueError, match="X: expected numbers of at least 0 for kernel='chi2'"):
        model.transform(table() - 1)


@pytest.mark.parametrize(
    ("share", "n_samples", "expected"),
    [(0.25, 40, 10), (0.25, 43, 10), (0.01, 40, 2), (0.5, 700, 300)],
)
def test_a_share_of_the_samples_become_landmarks(share, n_samples, expected):
    """At least 2, and at most 300; those of the same number."""
    X = table(n_samples)
    model, same = (KernelMap(n_landmarks=n, random_state=0).fit(X) for n in (share, expected))
    assert len(model.landmark_rows_) == expected
    assert_array_equal(model.landmark_rows_, same.landmark_rows_)
    assert_array_equal(model.transform(X).arrays[1], same.transform(X).arrays[1])


NOT_SYMMETRIC = np.eye(4) + np.diag([0.1, 0, 0], k=1)
NOT_PSD = np.array([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    "given",
    [
        ({"gamma": 0.0}, table(), "gamma: expected a positive number, got 0"),
        ({"gamma": "large"}, table(), "gamma: expected a number or 'auto', got 'large'"),
        ({"gamma_factor": -1.0}, table(), "gamma_factor: expected a positive number, got -1.0"),
        ({"kernel": "sigmoid"}, table(), "kernel: expected one of"),
        ({"units": "metres"}, table(), "units: expected one of"),
        ({"degree": 0}, table(), "degree: expected"),
        ({"coef0": -1.0}, table(), "coef0: expected a finite number of at least 0, got -1"),
        ({"n_landmarks": 41}, table(), "n_landmarks: expected at most the number of samples, 40"),
        ({"n_landmarks": 1}, table(), "n_landmarks: expected"),
        ({"n_landmarks": 1.0}, table(), "n_landmarks: expected a number between 0 and 1, got 1"),
        ({"n_landmarks": np.nan}, table(), "n_landmarks: expected a number between 0 and 1"),
        ({"keep_features": "yes"}, table(), "keep_features: expected"),
        ({"random_state": "seed"}, table(), "random_state: expected"),
        ({"kernel": "chi2"}, table() - 1, "X: expected numbers of at least 0 for kernel='chi2', g"),
        ({}, np.ones((4, 3)), "X: expected landmarks with different kernel images in block 0, got"),
        ({"kernel": "precomputed"}, table(), r"X: expected the values of a precomputed kernel, of"),
        ({"kernel": "precomputed"}, NOT_SYMMETRIC, "X: expected a symmetric kernel .* got 0.1 for"),
        ({"kernel": "precomputed"}, NOT_PSD, "X: expected a positive .* smallest eigenvalue -1$"),
    ],
)
def test_refused(given):
    parameters, X, message = given
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        KernelMap(**parameters).fit(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("constant", [-7.3, 0.1, 1e6 / 3])
@pytest.mark.parametrize("n_samples", range(20, 60))
def test_a_constant_column_has_no_unit_however_it_is_rounded(constant, n_samples):
    """The mean of equal numbers differs from them by rounding, which is no spread."""
    X = np.column_stack([table(n_samples), np.full(n_samples, constant)])
    noise = np.random.default_rng(n_samples).normal(size=n_samples)
    for relative in (0.0, 1e-15, 1e-14):  # noise in the last places is no spread either
        X[:, -1] = constant * (1 + relative * noise)
        scale = KernelMap(units="columns").fit(X).maps_[0].scale
        assert_allclose(scale[:-1], X[:, :-1].std(axis=0))
        assert scale[-1] == 1.0, (n_samples, relative)


@pytest.mark.parametrize(
    "model",
    [
        TATMLNeighbors(kernel="rbf", max_rounds=1, threshold="joint"),
        ITML(kernel="rbf"),
        TATML(kernel=KernelMap(units="columns"), threshold="joint"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("n_samples", [30, 41, 52])
def test_a_small_change_of_a_constant_column_moves_no_distance(model, n_samples):
    X = np.column_stack([table(n_samples), np.full(n_samples, -7.3)])
    model.fit(X, np.arange(n_samples) % 2)
    changed = np.stack([X, X + np.array([0, 0, 0, 1e-6])], axis=1)
    distance = model.pair_distance(changed).max()
    assert distance < 1e-4 * model.threshold_


def test_dates_are_refused():
    """scikit-learn would convert them to numbers in the unit of their dtype."""
    days = np.datetime64("2020-01-01") + np.arange(120).reshape(40, 3)
    model = KernelMap().fit(table())
    for call in (KernelMap().fit, model.transform):
        with pytest.raises(TypeError, match=r"^X: expected real numbers, got an array of dtype d"):
            call(days)
        with pytest.raises(TypeError, match=r"timedelta64\[D\]; convert durations to numbers"):
            call(days - days[0])


def test_a_negative_entry_of_a_matrix_is_named_with_its_sample():
    X = np.ones((5, 3, 2))
    X[3, 1, 1] = -1.0
    with pytest.raises(ValueError, match=r"^X: expected numbers of at least 0 .* sample 3"):
        KernelMap("chi2").fit(X)
