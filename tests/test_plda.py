"""The prior of midpoints is two-covariance PLDA: docs/theory.md, (PLDA)."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import load_wine

from tatml import TATML, Blocks, TATMLPairs
from tatml._data.pairs import Pairs
from tatml._learning import plda as module
from tatml._learning.centers import center_of_classes
from tatml._learning.plda import (
    FLOOR,
    FLOOR_OF_PAIRS,
    between_classes,
    correction,
    plda,
    plda_of_block,
    shrunk_ratios,
)
from tatml._learning.prepare import midpoint_prior_from_samples
from tatml._learning.priors import mean_square, minus_class_means, within_classes, within_pairs

CLASSES = [2, 3, 7, inf]


def random_spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + 0.2 * np.eye(n)


def axes_of(S, B):
    """Return λ and V with VᵀSV = I and VᵀBV = diag(λ), without the library."""
    lower = np.linalg.inv(np.linalg.cholesky(S))
    ratio, vectors = np.linalg.eigh(lower @ B @ lower.T)
    return np.maximum(ratio, 0), lower.T @ vectors


def log_ratio(x, y, S, B, n_classes=inf):
    """Return log p(x, y | same) − log p(x, y | different) of the two-covariance model.

    Around their mean, k classes that recur have means with the covariance B (k − 1)/k, and those of
    two different classes have the covariance −B/k: B is the unbiased estimate.
    """
    own = B * (1 - 1 / n_classes)
    other = -B / n_classes
    same = np.block([[S + own, own], [own, S + own]])
    different = np.block([[S + own, other], [other, S + own]])
    z, zero = np.concatenate([x, y], axis=1), np.zeros(2 * len(S))
    return multivariate_normal(zero, same).logpdf(z) - multivariate_normal(zero, different).logpdf(
        z
    )


def score(x, y, W, V):
    """Return q of centred vectors."""
    return np.einsum("ki,ij,kj->k", x - y, W, x - y) - np.einsum("ki,ij,kj->k", x + y, V, x + y)


def sample_classes(n_classes=6, n_each=7, n=4, width=1, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_each)
    means, mix = rng.normal(size=(n_classes, n, width)), random_spd(rng, n)
    X = 2 * means[y] + mix @ rng.normal(size=(len(y), n, width)) + 5
    return X, y


# The likelihood ratio


@pytest.mark.parametrize("n_classes", CLASSES)
def test_the_prior_without_a_floor_is_the_log_likelihood_ratio(n_classes):
    rng = np.random.default_rng(0)
    S, B = random_spd(rng, 4), random_spd(rng, 4)
    x, y = rng.normal(size=(2, 30, 4))
    prior = plda(*axes_of(S, B), floor=0.0, n_classes=n_classes)
    found = prior.log_ratio - score(x, y, prior.W0, prior.V0)
    assert_allclose(found, log_ratio(x, y, S, B, n_classes), rtol=1e-10, atol=1e-10)


def test_the_matrices_of_new_classes_are_those_of_the_literature():
    """W0 = ¼(S⁻¹ − T⁻¹) and V0 = ¼(T⁻¹ − (T + B)⁻¹)."""
    rng = np.random.default_rng(1)
    S, B = random_spd(rng, 3), random_spd(rng, 3)
    T, inverse = S + B, np.linalg.inv
    prior = plda(*axes_of(S, B), floor=0.0)
    assert_allclose(4 * prior.W0, inverse(S) - inverse(T), atol=1e-12)
    assert_allclose(4 * prior.V0, inverse(T) - inverse(T + B), atol=1e-12)
    w = axes_of(S, B)[0]
    assert_allclose(prior.log_ratio, 0.5 * np.sum(np.log((1 + w) ** 2 / (1 + 2 * w))), rtol=1e-12)


def test_the_matrices_of_two_classes_are_equal():
    """A sum of samples of two classes says nothing of the class, one of a class says all."""
    rng = np.random.default_rng(2)
    prior = plda(*axes_of(random_spd(rng, 3), random_spd(rng, 3)), floor=0.0, n_classes=2)
    assert_allclose(prior.V0, prior.W0, rtol=1e-12)


def test_the_covariance_of_different_classes_that_recur():
    """The mean over pairs of k class means: (k − 1)/k B on the diagonal, −B/k beside it."""
    rng = np.random.default_rng(3)
    k, means = 5, rng.normal(size=(5, 3))
    means -= means.mean(axis=0)
    B = means.T @ means / (k - 1)  # unbiased, as for a sample of classes
    i, j = np.array([(a, b) for a in range(k) for b in range(k) if a != b]).T
    assert_allclose(means[i].T @ means[j] / len(i), -B / k, atol=1e-14)
    assert_allclose(means.T @ means / k, B * (k - 1) / k, atol=1e-14)


@pytest.mark.parametrize("n_classes", CLASSES)
def test_the_floor_is_added_to_both_matrices(n_classes):
    rng = np.random.default_rng(4)
    S, B = random_spd(rng, 4), np.diag([3.0, 1.0, 0.0, 0.0])
    without = plda(*axes_of(S, B), 0.0, n_classes)
    prior = plda(*axes_of(S, B), 0.01, n_classes)
    for matrix, bare in ((prior.W0, without.W0), (prior.V0, without.V0)):
        assert_allclose(matrix - bare, 0.01 * np.linalg.inv(S), atol=1e-12)
    assert prior.log_ratio == without.log_ratio


# The estimates


@pytest.mark.parametrize("width", [1, 3])
def test_on_balanced_classes_the_scatters_are_those_of_the_analysis_of_variance(width):
    X, y = sample_classes(width=width)
    n_classes, n_each = 6, 7
    groups = X.reshape(n_classes, n_each, 4, width)
    means = groups.mean(axis=1)
    inside = (groups - means[:, None]).reshape(-1, 4, width)
    middle = means - means.mean(axis=0)
    mean_within = np.einsum("kiw,kjw->ij", inside, inside) / (n_classes * (n_each - 1) * width)
    mean_between = n_each * np.einsum("kiw,kjw->ij", middle, middle) / ((n_classes - 1) * width)
    within = within_classes(Blocks(X), y)
    S = correction(within) * mean_square(minus_class_means(X, y))
    assert_allclose(S, mean_within, rtol=1e-12)
    assert_allclose(between_classes(X, within), (mean_between - mean_within) / n_each, atol=1e-12)


def test_scatters_of_unbalanced_classes_have_no_bias():
    """The mean over many draws is S and B, and the standard error is known from the draws."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), [2, 3, 5, 10])
    S, B = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.5], [-0.5, 0.4]])
    within, between = [], []
    for _ in range(2000):
        means = rng.multivariate_normal(np.zeros(2), B, size=4)
        X = (means[y] + rng.multivariate_normal(np.zeros(2), S, size=20))[:, :, None]
        known = within_classes(Blocks(X), y)
        within.append(correction(known) * mean_square(minus_class_means(X, y)))
        between.append(between_classes(X, known))
    for found, truth in ((within, S), (between, B)):
        error = np.std(found, axis=0) / np.sqrt(len(found))
        assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * error)
        assert np.all(error < 0.05 * np.max(np.abs(truth)))  # small enough to see a wrong factor


@pytest.mark.parametrize("width", [1, 2])
def test_scatters_of_pairs_are_those_of_similar_and_of_dissimilar_pairs(width):
    X, y = sample_classes(n_each=3, width=width)
    rng = np.random.default_rng(0)
    index = rng.integers(len(y), size=(60, 2))
    index = index[index[:, 0] != index[:, 1]]
    index = np.unique(np.sort(index, axis=1), axis=0)
    similar = y[index[:, 0]] == y[index[:, 1]]
    pairs = Pairs(index, similar, None)
    within = within_pairs(Blocks(X), pairs)

    def half_mean(kind):
        Delta = X[index[kind, 0]] - X[index[kind, 1]]
        return np.einsum("kiw,kjw->ij", Delta, Delta) / (2 * np.sum(kind) * width)

    assert correction(within) == 1.0
    assert_allclose(mean_square(within.of_block(0, X)), half_mean(similar), rtol=1e-12)
    expected = half_mean(~similar) - half_mean(similar)
    assert_allclose(between_classes(X, within), expected, atol=1e-12)


def test_pairs_that_are_given_twice_or_have_no_weight_do_not_matter():
    X, y = sample_classes(n_each=3)
    index = np.array([[0, 1], [3, 4], [0, 5], [2, 9], [4, 3], [7, 12], [6, 7]])
    similar = y[index[:, 0]] == y[index[:, 1]]
    weights = np.array([1.0, 2.0, 1.0, 0.5, 3.0, 0.0, 0.0])
    some = within_pairs(Blocks(X), Pairs(index, similar, weights))
    distinct = within_pairs(Blocks(X), Pairs(index[:4], similar[:4], None))
    assert_allclose(between_classes(X, some), between_classes(X, distinct), atol=1e-13)
    assert_allclose(center_of_classes(X, some), center_of_classes(X, distinct), rtol=1e-13)


def test_the_centre_is_the_mean_of_the_class_means():
    X, _ = sample_classes()
    y = np.repeat([0, 1, 2], [5, 12, 25])
    expected = np.mean([X[y == k].mean(axis=0) for k in range(3)], axis=0)
    found = center_of_classes(X, within_classes(Blocks(X), y))
    assert_allclose(found, expected, rtol=1e-13)
    assert np.max(np.abs(found - X.mean(axis=0))) > 0.1


def test_the_centre_of_pairs_is_the_mean_of_their_samples():
    X, _ = sample_classes()
    index = np.array([[0, 3], [3, 9], [11, 20], [1, 2]])
    pairs = Pairs(index, np.array([True, False, False, True]), np.array([1.0, 2.0, 0.5, 0.0]))
    found = center_of_classes(X, within_pairs(Blocks(X), pairs))
    assert_allclose(found, X[[0, 3, 9, 11, 20]].mean(axis=0), rtol=1e-13)


# Floors, constant columns and units


def of_samples(X, y, new_classes=False, units="affine"):
    return plda_of_block(X, within_classes(Blocks(X), y, units), new_classes, 0)


@pytest.mark.parametrize("units", ["columns", "common", "affine"])
@pytest.mark.parametrize("new_classes", [False, True])
def test_a_constant_column_changes_nothing(units, new_classes):
    X, y = sample_classes()
    wider = np.concatenate([X, np.full((len(X), 1, 1), 3.7)], axis=1)
    plain, found = (of_samples(array, y, new_classes, units) for array in (X, wider))
    assert found.log_ratio == pytest.approx(plain.log_ratio, rel=1e-9)
    for matrix, expected in ((found.W0, plain.W0), (found.V0, plain.V0)):
        assert_allclose(matrix[:4, :4], expected, rtol=1e-9)
        assert np.all(matrix[:4, 4] == 0)
        assert 0 < matrix[4, 4] < np.inf
    assert found.W0[4, 4] == found.V0[4, 4]  # of which one sees nothing


@pytest.mark.parametrize("new_classes", [False, True])
def test_outside_the_span_of_wide_samples_both_matrices_are_equal(new_classes):
    X, y = sample_classes(n_classes=4, n_each=3, n=30, seed=1)
    blocks = Blocks(X)
    prior = midpoint_prior_from_samples(blocks, within_classes(blocks, y), new_classes)
    W, V = prior.full()
    rows = (X[:, :, 0] - X[:, :, 0].mean(axis=0)) / prior.spans[0].unit
    outside = np.linalg.svd(rows)[2][11:] / prior.spans[0].unit * prior.spans[0].unit ** 2
    difference = (W - V) @ outside.T
    assert np.max(np.abs(difference)) < 1e-10 * np.max(np.abs(W @ outside.T))
    assert np.all(np.linalg.eigvalsh(V) > 0)


def test_the_prior_in_the_span_of_wide_samples_is_that_of_all_columns():
    X, y = sample_classes(n_classes=4, n_each=3, n=30, seed=1)
    blocks = Blocks(X)
    within = within_classes(blocks, y)
    prior = midpoint_prior_from_samples(blocks, within, False)
    whole = plda_of_block(X, within_classes(blocks, y), False, 0)
    for matrix, expected in zip(prior.full(), (whole.W0, whole.V0), strict=True):
        assert_allclose(matrix, expected, rtol=1e-6, atol=1e-8 * np.max(np.abs(expected)))
    assert prior.log_ratio == pytest.approx(whole.log_ratio, rel=1e-6)


def test_the_floors_of_labels_and_of_pairs():
    """Where the classes do not differ at all, the floor is what remains."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3, 1)), np.repeat(np.arange(20), 3)
    X -= np.repeat(X.reshape(20, 3, 3, 1).mean(axis=1), 3, axis=0)  # all class means are zero
    index = np.array([[i, j] for i in range(60) for j in range(i)])
    pairs = Pairs(index, y[index[:, 0]] == y[index[:, 1]], None)
    of_labels = of_samples(X, y)
    known = replace(within_pairs(Blocks(X), pairs), units="affine")
    of_pairs = plda_of_block(X, known, True, 0)
    for prior in (of_labels, of_pairs):
        assert_allclose(prior.W0, prior.V0, rtol=1e-12)
        assert prior.log_ratio == 0
    S = X[:, :, 0].T @ X[:, :, 0] / 40
    assert_allclose(of_labels.W0, FLOOR * np.linalg.inv(S), rtol=1e-4)
    assert_allclose(of_pairs.W0, FLOOR_OF_PAIRS * np.linalg.inv(S), rtol=1e-4)


# Shrunk ratios


def shrunk_share(ratio, shrunk):
    """Return the share of the mean in each ratio."""
    return (ratio - shrunk) / (ratio - ratio.mean())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_ratios_move_to_their_mean_by_the_share(share, monkeypatch):
    monkeypatch.setattr(module, "ledoit_wolf_shrinkage", lambda rows, assume_centered: share)
    X, y = sample_classes()
    ratio = np.array([0.0, 1.0, 2.0, 9.0])
    found = shrunk_ratios(ratio, np.eye(4), X, within_classes(Blocks(X), y))
    assert_allclose(found, (1 - share) * ratio + share * 3.0, rtol=1e-12)


def test_shrunk_ratios_lie_between_the_least_and_the_largest_and_keep_their_mean_and_order():
    X, y = sample_classes(seed=5)
    ratio = np.array([0.1, 0.2, 3.0, 8.0])
    found = shrunk_ratios(ratio, np.eye(4), X, within_classes(Blocks(X), y))
    assert found.mean() == pytest.approx(ratio.mean())
    assert ratio.min() < found[0] < found[1] < found[2] < found[3] < ratio.max()
    assert_allclose(shrunk_share(ratio, found), shrunk_share(ratio, found)[0])


def test_many_classes_are_hardly_shrunk_and_few_are_shrunk_much():
    """The more classes a sample has, the better it knows the covariance of their means."""
    ratio, shares = np.array([0.1, 0.5, 2.0, 8.0]), []
    for n_classes in (4, 40, 4000):
        rng = np.random.default_rng(0)
        X = (rng.normal(size=(n_classes, 4)) * np.sqrt(ratio))[:, :, None]
        found = shrunk_ratios(ratio, np.eye(4), X, within_classes(Blocks(X), np.arange(n_classes)))
        shares.append(shrunk_share(ratio, found)[0])
    assert shares[0] > 0.1 > shares[1] > 0.01 > shares[2] > 0


# Through the estimators


def centred_pairs(model, X, n_pairs=40, seed=0):
    rng = np.random.default_rng(seed)
    arrays = X.arrays if isinstance(X, Blocks) else (X[:, :, None],)
    index = rng.integers(len(arrays[0]), size=(n_pairs, 2))
    middles = [array - middle for array, middle in zip(arrays, model.midpoint_, strict=True)]
    return index, [(a[index[:, 0]], a[index[:, 1]]) for a in middles]


def columns_ratio(sides, S, B, n_classes):
    """Return the log-likelihood ratio of matrices: each column is one observation."""
    x, y = sides
    return sum(log_ratio(x[:, :, w], y[:, :, w], S, B, n_classes) for w in range(x.shape[2]))


@pytest.mark.parametrize("new_classes", [False, True])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_with_a_tiny_weight_the_estimator_is_plda(monkeypatch, new_classes, n_blocks):
    """S and B are those of the samples: no floor, no shrinkage, and many samples of each class."""
    monkeypatch.setattr(module, "FLOOR", 0.0)
    monkeypatch.setattr(module, "shrunk_ratios", lambda ratio, *_: ratio)
    monkeypatch.setattr("tatml._learning.priors.RIDGE", 0.0)
    monkeypatch.setattr("tatml._learning.learn.choose_space", affine_space)
    arrays, y = [], None
    for m in range(n_blocks):
        X, y = sample_classes(n_classes=7, n_each=30, n=3, width=1 + m, seed=m)
        arrays.append(X)
    X = Blocks(*arrays) if n_blocks > 1 else arrays[0][:, :, 0]
    options = {"C": 1e-12, "c0": 1.0, "threshold": "joint"}
    options |= {"clip_outliers": False, "random_state": 0}
    model = TATML(midpoint=True, new_classes=new_classes, **options).fit(X, y)
    assert model.prior_units_ == "affine"
    index, sides = centred_pairs(model, X)
    expected = []
    for array, pair in zip(arrays, sides, strict=True):
        S, B = analysis_of_variance(array, y)
        expected.append(columns_ratio(pair, S, B, inf if new_classes else 7))
    found = model.threshold_ + model.pair_score(index, X)
    assert_allclose(found, np.mean(expected, axis=0), rtol=1e-10, atol=1e-10)


def affine_space(kernel, settings, hold_out):
    return kernel, "affine", []


def analysis_of_variance(X, y):
    """Return unbiased S and B of balanced classes, without the library."""
    k, n_each = len(np.unique(y)), np.sum(y == 0)
    width = X.shape[2]
    groups = np.stack([X[y == c] for c in range(k)])
    means = groups.mean(axis=1)
    inside, middle = groups - means[:, None], means - means.mean(axis=0)
    S = np.einsum("cniw,cnjw->ij", inside, inside) / (k * (n_each - 1) * width)
    between = n_each * np.einsum("ciw,cjw->ij", middle, middle) / ((k - 1) * width)
    return S, (between - S) / n_each


def test_with_a_tiny_weight_the_estimator_of_pairs_is_plda(monkeypatch):
    """S and T are half the mean squares of the differences of similar and of dissimilar pairs."""
    monkeypatch.setattr(module, "FLOOR_OF_PAIRS", 0.0)
    monkeypatch.setattr("tatml._learning.priors.RIDGE", 0.0)
    monkeypatch.setattr("tatml._learning.learn.choose_space", affine_space)
    X, y = sample_classes(n_classes=7, n_each=10, n=3)
    X = X[:, :, 0]
    index = np.array([[i, j] for i in range(70) for j in range(i) if (i + 2 * j) % 3 == 0])
    similar = y[index[:, 0]] == y[index[:, 1]]
    options = {"C": 1e-12, "c0": 1.0, "threshold": "joint", "clip_outliers": False}
    model = TATMLPairs(midpoint=True, preprocessor=X, **options)
    model.fit(index, np.where(similar, 1, -1))
    half = (X[index[:, 0]] - X[index[:, 1]]) / np.sqrt(2)
    S, T = (half[kind].T @ half[kind] / np.sum(kind) for kind in (similar, ~similar))
    assert np.linalg.eigvalsh(T - S).min() > 0
    assert_allclose(model.midpoint_[0][:, 0], X.mean(axis=0), rtol=1e-12)
    x, z = (X[side] - X.mean(axis=0) for side in index.T)
    found = model.threshold_ + model.pair_score(index)
    assert_allclose(found, log_ratio(x, z, S, T - S), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_with_a_tiny_weight_the_estimator_keeps_its_prior(make):
    """Whatever the floor and the shrinkage are, the score is that of `prior_`."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    index = rng.integers(len(y), size=(400, 2))
    options = {"midpoint": True, "C": 1e-12, "threshold": "joint"}
    if make is TATML:
        model = TATML(random_state=0, **options).fit(X, y)
    else:
        signs = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
        model = TATMLPairs(preprocessor=X, **options).fit(index, signs)
    W0, V0 = model.prior_
    x, z = (X[side] - model.midpoint_[0][:, 0] for side in index.T)
    assert_allclose(model.pair_score(index, X), -score(x, z, W0, V0), rtol=1e-8, atol=1e-8)
