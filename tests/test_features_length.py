"""LengthNormalizer: whitened vectors of the same length."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm
from scipy.sparse import csr_array
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator

from tatml import TATML
from tatml.features import LengthNormalizer


def samples(n_samples=300, n=6, seed=0):
    """Correlated vectors far from the origin."""
    mix = np.random.default_rng(1).normal(size=(n, n))
    return np.random.default_rng(seed).normal(size=(n_samples, n)) @ mix + 50.0


def angles(rows):
    return rows @ rows.T / rows.shape[1]


def test_scikit_learns_rules_are_kept():
    results = check_estimator(LengthNormalizer(), on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


def test_rows_are_whitened_and_have_the_same_length():
    X, new = samples(), samples(20, seed=2)
    mean, unit = X.mean(axis=0), X.std(axis=0)
    covariance = ledoit_wolf((X - mean) / unit, assume_centered=True)[0]
    expected = (new - mean) / unit @ np.linalg.inv(sqrtm(covariance))
    expected *= np.sqrt(6) / np.linalg.norm(expected, axis=1, keepdims=True)
    found = LengthNormalizer().fit(X).transform(new)
    assert_allclose(found, expected, rtol=1e-8)
    assert_allclose(np.linalg.norm(found, axis=1), np.sqrt(6), rtol=1e-14)


def test_with_many_samples_directions_are_those_of_principal_components():
    """Shrinkage hardly changes the covariance then, and the basis does not change angles."""
    X = samples(50_000, n=3)
    rows = make_pipeline(PCA(whiten=True), Normalizer()).fit_transform(X)
    found = LengthNormalizer().fit_transform(X)
    assert_allclose(angles(found[:50]), rows[:50] @ rows[:50].T, atol=0.01)


def test_units_and_the_origin_do_not_matter():
    X, units = samples(), 10.0 ** np.arange(-3, 3)
    other = units * (X - 50.0) + 7.0
    assert_allclose(LengthNormalizer().fit_transform(other), LengthNormalizer().fit_transform(X))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_squares_neither_overflow_nor_vanish(unit):
    X = samples()
    found = LengthNormalizer().fit_transform(unit * X)
    assert_allclose(found, LengthNormalizer().fit_transform(X), rtol=1e-9)


def test_vectors_at_the_mean_become_zero():
    X = samples()
    normalizer = LengthNormalizer().fit(X)
    assert_array_equal(normalizer.transform(normalizer.mean_[None]), np.zeros((1, 6)))
    constant = np.full((5, 3), 0.1)
    assert_array_equal(LengthNormalizer().fit_transform(constant), np.zeros((5, 3)))
    X[:, 2] = 0.1  # one constant column
    found = LengthNormalizer().fit_transform(X)
    assert_allclose(found[:, 2], 0, atol=1e-10)
    assert_allclose(np.linalg.norm(found, axis=1), np.sqrt(6))


def test_more_columns_than_samples_are_shrunk():
    X = samples(60, n=6)
    wide = np.concatenate([X, np.random.default_rng(0).normal(size=(60, 150))], axis=1)
    rows = LengthNormalizer().fit(wide[:40]).transform(wide)
    others = angles(rows)[np.triu_indices(60, 1)]
    assert_allclose(np.linalg.norm(rows, axis=1), np.sqrt(156))
    assert np.std(others) > 0.02  # not all training samples are equally far apart


def test_types_and_names_are_kept():
    pandas = pytest.importorskip("pandas")
    X = samples()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    found = LengthNormalizer().set_output(transform="pandas").fit_transform(frame)
    assert list(found.columns) == list("abcdef")
    single = LengthNormalizer().fit(X.astype(np.float32)).transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, found, atol=1e-4)


def test_what_it_cannot_use_is_refused_by_name():
    X = samples()
    for wrong, message in (
        (csr_array(X), "Sparse data was passed for X"),
        (X[:, :, None], "dim 3"),
        (X * np.nan, "X contains NaN"),
        (X[:1], "minimum of 2"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            LengthNormalizer().fit(wrong)


def test_noise_of_different_sizes_costs_less_afterwards():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(150), 6)
    X = rng.normal(size=(150, 20))[y]
    X += rng.normal(size=X.shape) * rng.lognormal(0.0, 0.7, size=(len(y), 1))
    known = y < 75
    pairs = rng.integers(np.sum(known), len(y), size=(20_000, 2))
    pairs = np.concatenate([pairs, [[k, k + 1] for k in range(450, 899)]])
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    for midpoint, gain in ((False, 0.05), (True, 0.005)):
        metric = TATML(midpoint=midpoint, new_classes=True, random_state=0)
        plain = metric.fit(X[known], y[known]).pair_score(pairs, X)
        rows = LengthNormalizer().fit(X[known]).transform(X)
        scores = metric.fit(rows[known], y[known]).pair_score(pairs, rows)
        assert roc_auc_score(same, scores) > roc_auc_score(same, plain) + gain
