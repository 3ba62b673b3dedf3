"""The defaults of TATML and TATMLPairs: changes of the samples that must not change the results."""

import numpy as np
import pytest
from estimators_helpers import all_pairs, labelled, labelled_pairs, times
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from tatml import TATML, Blocks, TATMLPairs

FEW = {"n_pairs_per_class": 60, "random_state": 0}
PAIRS = all_pairs(60)


def fitted(make, X, y):
    if make is TATML:
        return TATML(**FEW, tol=1e-10).fit(X, y)
    index, labels = labelled_pairs(y, 900)
    return TATMLPairs(preprocessor=X, tol=1e-10).fit(index, labels)


def assert_same(model, X, expected, Z, rtol):
    """The distances of all pairs are the same, and the thresholds nearly."""
    # The parts stop at a large gap, and the factors are 1.5 % apart.
    assert_allclose(model.threshold_factor_, expected.threshold_factor_, rtol=0.035)
    assert model.prior_units_ == expected.prior_units_
    assert_allclose(model.b0_, expected.b0_, rtol=rtol)
    distances = model.pair_distance(PAIRS, X), expected.pair_distance(PAIRS, Z)
    assert_allclose(*distances, rtol=rtol, atol=rtol * np.mean(distances[1]))


@pytest.fixture(params=[TATML, TATMLPairs])
def make(request):
    return request.param


@pytest.mark.parametrize("kind", ["vectors", "matrices", "two blocks"])
def test_one_unit_for_all_samples_scales_the_components_exactly(make, kind):
    """A power of two, which changes no digit."""
    X, y = labelled(kind)
    plain = fitted(make, X, y)
    for scale in (2.0**20, 2.0**-30):
        model = fitted(make, times(X, scale), y)
        assert model.threshold_ == plain.threshold_
        assert model.b0_ == plain.b0_
        assert model.prior_units_ == plain.prior_units_
        for got, expected in zip(as_blocks_of(model), as_blocks_of(plain), strict=True):
            assert_array_equal(got * scale, expected)
    assert_same(fitted(make, times(X, 1e3), y), times(X, 1e3), plain, X, rtol=1e-6)


def as_blocks_of(model):
    parts = model.components_
    return parts if isinstance(parts, list) else [parts]


@pytest.mark.parametrize("value", [0.0, 0.1, -1e5 / 3])
def test_constant_columns_do_not_matter(make, value):
    # A gap of 1e-10 leaves errors of about its root.
    X, y = labelled()
    padded = np.concatenate([np.full((60, 2), value), X, np.full((60, 1), 2 * value)], axis=1)
    assert_same(fitted(make, padded, y), padded, fitted(make, X, y), X, rtol=1e-5)
    matrices, y = labelled("matrices")
    wider = np.concatenate([matrices, np.full((60, 1, 4), value)], axis=1)
    assert_same(fitted(make, wider, y), wider, fitted(make, matrices, y), matrices, rtol=1e-5)


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_the_origin_does_not_matter(make, kind):
    X, y = labelled(kind)
    moved = Blocks(*(array + 1e6 for array in X.arrays)) if kind != "vectors" else X + 1e6
    assert_same(fitted(make, moved, y), moved, fitted(make, X, y), X, rtol=1e-5)


def quality(model, X, y):
    """Return the area under the ROC curve, and the balanced accuracy at the threshold."""
    index = all_pairs(len(y))
    same = y[index[:, 0]] == y[index[:, 1]]
    distances = model.pair_distance(index, X)
    below = distances < model.threshold_
    return roc_auc_score(same, -distances), (np.mean(below[same]) + np.mean(~below[~same])) / 2


@pytest.mark.parametrize("seed", range(3))
def test_columns_given_twice_change_little(make, seed):
    X, y = labelled(n_samples=260, seed=seed)
    known, labels = X[:60], y[:60]
    once = quality(fitted(make, known, labels), X[60:], y[60:])
    twice = quality(fitted(make, np.hstack([known, known]), labels), np.hstack([X, X])[60:], y[60:])
    assert_allclose(twice, once, atol=0.03)
    assert min(once) > 0.65


@pytest.mark.parametrize("seed", range(3))
def test_principal_components_of_full_rank_change_little(seed):
    """Null components weigh next to nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 3
    X = 0.01 * rng.normal(size=(300, 60))
    X[:, :5] = rng.normal(size=(300, 5)) + 1.5 * rng.normal(size=(3, 5))[y]
    X = X @ np.linalg.qr(rng.normal(size=(60, 60)))[0]
    turned = PCA().fit(X[:120]).transform(X)
    plain, rotated = (
        quality(TATML(**FEW).fit(Z[:120], y[:120]), Z[120:], y[120:]) for Z in (X, turned)
    )
    assert_allclose(rotated, plain, atol=0.01)
    assert min(plain) > 0.85
