"""Estimators with midpoints: changes of samples and pairs that must not change scores."""

import numpy as np
import pytest
from estimators_helpers import all_pairs, labelled, labelled_pairs, times
from numpy.testing import assert_allclose, assert_array_equal

from tatml import TATML, Blocks, TATMLPairs

INDEX = all_pairs(60)
KINDS = ["vectors", "matrices", "two blocks"]
FEW = {"n_pairs_per_class": 60, "random_state": 0}


@pytest.fixture(params=[TATML, TATMLPairs])
def make(request):
    return request.param


@pytest.fixture(params=["columns", "common", "affine"])
def units(request, monkeypatch):
    """The units of the prior, which held-out pairs would choose else."""
    monkeypatch.setattr("tatml._learning.cross_fit.find_units", lambda *_: (1.0, request.param))
    return request.param


def fitted(make, X, y, **options):
    options = {"midpoint": True, "tol": 1e-11} | options
    if make is TATML:
        return TATML(**FEW | options).fit(X, y)
    return TATMLPairs(preprocessor=X, **options).fit(*labelled_pairs(y, 900))


def assert_same(model, X, expected, Z, rtol=1e-6, threshold_rtol=None):
    """Scores are the same; cross-fitted thresholds are those of fits that stop at a large gap."""
    assert model.prior_units_ == expected.prior_units_
    found, wanted = model.pair_score(INDEX, X), expected.pair_score(INDEX, Z)
    size = np.max(np.abs(wanted))
    assert_allclose(found, wanted, rtol=rtol, atol=rtol * size)
    assert_allclose(model.b0_, expected.b0_, rtol=rtol, atol=rtol)
    rtol = rtol if threshold_rtol is None else threshold_rtol
    assert_allclose(model.threshold_, expected.threshold_, rtol=rtol, atol=rtol)
    assert_allclose(model.likelihood_ratio_, expected.likelihood_ratio_, rtol=rtol, atol=rtol)
    near = np.abs(wanted + expected.threshold_) < 10 * rtol * size
    predicted = model.predict_pairs(INDEX, X), expected.predict_pairs(INDEX, Z)
    assert_array_equal(predicted[0][~near], predicted[1][~near])


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_all_samples_do_not_matter(make, kind):
    X, y = labelled(kind)
    plain = fitted(make, X, y)
    for scale in (2.0**20, 2.0**-30):  # which change no digit
        model = fitted(make, times(X, scale), y)
        assert model.threshold_ == plain.threshold_
        assert model.b0_ == plain.b0_
        assert_array_equal(model.likelihood_ratio_, plain.likelihood_ratio_)
        score = model.pair_score(INDEX, times(X, scale))
        assert_array_equal(score, plain.pair_score(INDEX, X))
    assert_same(fitted(make, times(X, -1e3), y), times(X, -1e3), plain, X)


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_the_origin_does_not_matter(make, kind):
    X, y = labelled(kind)
    moved = Blocks(*(array + 1e5 for array in X.arrays)) if kind != "vectors" else X + 1e5
    assert_same(fitted(make, moved, y), moved, fitted(make, X, y), X, rtol=1e-5)


def test_units_of_columns_do_not_matter_where_each_has_its_own(make, units):
    X, y = labelled()
    scaled = X * [1e-3, 1.0, 50.0, -2.0]
    model, expected = fitted(make, scaled, y), fitted(make, X, y)
    if units == "common":
        assert np.max(np.abs(model.pair_score(INDEX, scaled) - expected.pair_score(INDEX, X))) > 0.1
    else:
        assert_same(model, scaled, expected, X)


def test_rotations_do_not_matter_where_columns_have_a_common_unit(make, units):
    X, y = labelled()
    turned = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    model, expected = (fitted(make, Z, y, clip_outliers=False) for Z in (turned, X))
    if units == "columns":
        assert np.max(np.abs(model.pair_score(INDEX, turned) - expected.pair_score(INDEX, X))) > 0.1
    else:
        assert_same(model, turned, expected, X)


@pytest.mark.parametrize("units", ["affine"], indirect=True)
def test_linear_maps_do_not_matter_without_shrinkage(make, units):
    X, y = labelled()
    turned = X @ np.random.default_rng(0).normal(size=(4, 4))
    model, expected = (fitted(make, Z, y, clip_outliers=False) for Z in (turned, X))
    assert_same(model, turned, expected, X, rtol=1e-4)  # a ridge of 1e-5 is in units of columns


@pytest.mark.parametrize("new_classes", [False, True])
def test_constant_columns_do_not_matter(make, units, new_classes):
    X, y = labelled()
    padded = np.concatenate([np.full((60, 2), 0.1), X, np.full((60, 1), -1e4)], axis=1)
    options = {"new_classes": new_classes} if make is TATML else {}
    model, expected = (fitted(make, Z, y, **options) for Z in (padded, X))
    assert_same(model, padded, expected, X, threshold_rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_columns_does_not_matter(make, kind):
    X, y = labelled(kind)
    arrays = X.arrays if isinstance(X, Blocks) else (Blocks(X).arrays[0],)
    turned = Blocks(*(array[:, ::-1, ::-1].copy() for array in arrays))
    assert_same(fitted(make, turned, y), turned, fitted(make, X, y), X, rtol=1e-5)


# Pairs


@pytest.mark.parametrize("units", ["columns"], indirect=True)
@pytest.mark.parametrize("change", ["order", "members"])
@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_order_of_pairs_nor_of_their_members_matters(kind, change, units):
    """But for the folds, which depend on the order of the samples: so with a joint threshold."""
    (X, y), rng = labelled(kind), np.random.default_rng(0)
    index, labels = labelled_pairs(y, 900)
    options = {"midpoint": True, "tol": 1e-12, "threshold": "joint", "preprocessor": X}
    expected = TATMLPairs(**options).fit(index, labels)
    if change == "order":
        order = rng.permutation(len(index))
        model = TATMLPairs(**options).fit(index[order], labels[order])
    else:
        swapped = np.where(rng.random(len(index))[:, None] < 0.5, index, index[:, ::-1])
        model = TATMLPairs(**options).fit(swapped, labels)
    score = expected.pair_score(INDEX)
    assert_allclose(model.pair_score(INDEX), score, rtol=1e-6, atol=1e-6 * np.max(np.abs(score)))
    assert_allclose(model.threshold_, expected.threshold_, rtol=1e-6, atol=1e-6)
    assert_array_equal(model.pair_score(INDEX[:, ::-1]), model.pair_score(INDEX))


def test_the_weight_of_a_pair_is_how_often_it_is_given():
    X, y = labelled()
    index, labels = labelled_pairs(y, 900)
    counts = np.random.default_rng(0).integers(1, 4, size=900)
    options = {"midpoint": True, "tol": 1e-12, "threshold": "joint", "preprocessor": X}
    weighted = TATMLPairs(**options).fit(index, labels, sample_weight=counts)
    repeated = TATMLPairs(**options).fit(
        np.repeat(index, counts, axis=0), np.repeat(labels, counts)
    )
    score = weighted.pair_score(INDEX)
    assert_allclose(repeated.pair_score(INDEX), score, rtol=1e-6, atol=1e-6 * np.max(np.abs(score)))
    assert_allclose(repeated.threshold_, weighted.threshold_, rtol=1e-6)


# Blocks


@pytest.mark.parametrize("c0", [None, 20.0])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_block_given_twice_is_the_block_with_half_the_weights(make, c0, loss):
    X, y = labelled("matrices")
    twice = Blocks(X, X)
    options = {"loss": loss, "threshold": "joint", "tol": 1e-12}
    once = fitted(make, X, y, C=50.0, c0=c0, **options)
    both = fitted(make, twice, y, C=100.0, c0=None if c0 is None else 2 * c0, **options)
    score = once.pair_score(INDEX, X)
    found = both.pair_score(INDEX, twice)
    assert_allclose(found, score, rtol=1e-6, atol=1e-6 * np.max(np.abs(score)))
    assert_allclose(both.threshold_, once.threshold_, rtol=1e-6)
    other = fitted(make, twice, y, C=50.0, c0=c0, **options)
    assert np.max(np.abs(other.pair_score(INDEX, twice) - score)) > 1e-3


def test_the_order_of_blocks_does_not_matter(make):
    X, y = labelled("two blocks")
    turned = Blocks(*X.arrays[::-1])
    assert_same(fitted(make, turned, y), turned, fitted(make, X, y), X)
