"""Small labelled samples of every kind, pairs of them, and TATML's criterion for a threshold."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from sklearn.neighbors import NearestNeighbors

from tatml import TATML, TATMLCV, Blocks

SHAPES = {
    "vectors": [(4, 1)],
    "matrices": [(3, 4)],
    "two blocks": [(3, 2), (4, 1)],
    "three blocks": [(2, 1), (3, 3), (2, 4)],
}
KINDS = list(SHAPES)
# TATML's problem alone: for tests of its identities, which hold for the samples as they are.
OF_SEARCH = ("scoring", "k", "cv", "n_jobs")  # parameters that TATML does not have
JOINT = {"threshold": "joint", "clip_outliers": False}


def labelled(kind="vectors", n_samples=60, seed=0):
    """Return samples of three classes that differ in the first row of each block; the classes."""
    rng = np.random.default_rng([seed, n_samples, KINDS.index(kind)])
    y = rng.permutation(np.arange(n_samples) % 3)
    arrays = []
    for n, width in SHAPES[kind]:
        array = rng.normal(size=(n_samples, n, width)) * rng.uniform(0.5, 2, size=(n, 1))
        array[:, 0] += 3 * y[:, None]
        arrays.append(array)
    if len(arrays) > 1:
        return Blocks(*arrays), y
    return (arrays[0][:, :, 0] if kind == "vectors" else arrays[0]), y


def search_over(param_grid=None, make=TATMLCV, **options):
    """Return a search; options that are not its own are parameters of its estimator."""
    own = {name: options.pop(name) for name in OF_SEARCH if name in options}
    return make(TATML(**options), param_grid, **own)


def split_scores(search):
    """Return the score of every setting on every fold, shape (n_settings, n_splits)."""
    names = [f"split{number}_test_score" for number in range(search.n_splits_)]
    return np.stack([search.cv_results_[name] for name in names], axis=1)


def arrays_of(X):
    """Return the blocks of X as arrays of shape (n_samples, n_m, n'_m)."""
    return (X if isinstance(X, Blocks) else Blocks(X)).arrays


def times(X, *factors):
    """Multiply each block of X by a number; or, for vectors, each feature by its own."""
    if not isinstance(X, Blocks):
        return X * factors[0]
    factors = factors * (X.n_blocks if len(factors) == 1 else 1)
    return Blocks(*(factor * array for factor, array in zip(factors, X.arrays, strict=True)))


def squared_distances(X, W, pairs):
    """Compute D_k = (1/M) Σ_m tr(Δᵀ W_m Δ) by the formula."""
    total = 0.0
    for array, matrix in zip(arrays_of(X), W, strict=True):
        delta = array[pairs[:, 0]] - array[pairs[:, 1]]
        total = total + np.einsum("kab,ac,kcb->k", delta, matrix, delta)
    return total / len(W)


def as_list(matrices):
    """Return `components_`, `prior_` and the like as a list of M matrices."""
    return matrices if isinstance(matrices, list) else [matrices]


def all_pairs(n_samples):
    return np.stack(np.triu_indices(n_samples, 1), axis=1)


def labelled_pairs(y, n_pairs=120, seed=1):
    """Return random index pairs of different samples, and their labels ±1."""
    pairs = np.random.default_rng(seed).permutation(all_pairs(len(y)))[:n_pairs]
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def best_b0(squared, labels, *, weights=None, margin=(0.5, 2.0), strength=1.0, centre=None):
    """Find the b0 of least mean squared hinge plus ρ (b0 − μ0)² by a general minimiser."""
    weights = np.ones(len(squared)) if weights is None else weights
    centre = np.average(squared, weights=weights) if centre is None else centre
    gamma = np.where(labels > 0, *margin)

    def criterion(b0):
        hinge = np.maximum(labels * (squared - gamma * b0), 0)
        return np.average(hinge**2, weights=weights) + strength * (b0 - centre) ** 2

    largest = 2 * max(np.max(squared) / margin[0], centre)
    return minimize_scalar(
        criterion, bounds=(0, largest), method="bounded", options={"xatol": 1e-10 * largest}
    ).x


def balanced_weights(similar):
    """Return weights with the same total for both kinds of pairs, and a mean of 1."""
    return np.where(similar, 0.5 / np.mean(similar), 0.5 / np.mean(~similar))


def assert_best_threshold(estimator, X):
    """Assert that b0 and the threshold are the best for the distances of the training pairs."""
    low, high = estimator.margin
    b0 = best_b0(
        estimator.pair_distance(estimator.pairs_, X) ** 2,
        np.where(estimator.similar_, 1, -1),
        weights=balanced_weights(estimator.similar_),
        margin=estimator.margin,
        strength=estimator.threshold_strength,
        centre=estimator.threshold_prior**2 / sqrt(low * high),
    )
    assert_allclose(estimator.b0_, b0, rtol=1e-6)
    assert_allclose(estimator.threshold_, sqrt(b0 * sqrt(low * high)), rtol=1e-6)


def refused(model, X, y, message):
    """Assert that fit raises an error with this message and leaves the estimator unchanged."""
    before = dict(vars(model))
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, y)
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())


def neighbours_and_predictions(estimator, X, y):
    """Return the neighbours of every sample, and the prediction for every pair."""
    embedded = estimator.fit(X, y).transform(X)
    order = NearestNeighbors(n_neighbors=10).fit(embedded).kneighbors(return_distance=False)
    return order, estimator.predict_pairs(all_pairs(len(y)), X)


def changed_attributes(model, before):
    """Return the names of the attributes that have changed."""
    now = vars(model)
    return {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}


def apart(pairs):
    """Return pairs of samples of which no two rows are equal any more."""
    return pairs * (1 + 1e-9 * np.random.default_rng(0).random(pairs.shape))
