"""The study of midpoints: its baselines do what they say, and its splits share nothing."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

midpoints = import_benchmark("midpoints")


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 20)
    return rng.normal(size=(8, 3))[y] + 0.7 * rng.normal(size=(160, 3)), y


def test_the_baseline_is_the_ratio_of_the_two_covariance_model(samples):
    X, y = samples
    judge = midpoints.PLDA()
    judge.shrinkage = 0.0
    judge.learn(X, y)
    rows = judge.scaler.transform(X)
    mean, B, S = midpoints.scatters(rows, y, 0.0)
    assert np.all(np.linalg.eigvalsh(B) > 0)  # or else the baseline clips it
    index = np.array([[0, 1], [0, 30], [5, 100]])
    same = multivariate_normal(np.zeros(6), np.block([[S + B, B], [B, S + B]]))
    apart = multivariate_normal(np.zeros(6), np.kron(np.eye(2), S + B))
    pairs = (rows - mean)[index].reshape(3, 6)
    assert_allclose(judge.score(index, X), same.logpdf(pairs) - apart.logpdf(pairs), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["PLDA", "LDA + cosine", "cosine", "logistic posteriors", "boosting posteriors"]
)
def test_a_baseline_has_a_threshold_and_a_ratio(samples, name):
    X, y = samples
    judge = midpoints.make_judge(name, 0).fit(X, y)
    index, similar = midpoints.held_out_pairs(y, 1)
    found = judge.score(index, X)
    accuracy = np.mean((found > judge.threshold) == similar)
    assert accuracy > 0.65
    ratio = judge.ratio[0] + judge.ratio[1] * found
    assert np.mean(ratio[similar]) > 0 > np.mean(ratio[~similar])


def test_the_best_threshold_separates():
    scores = np.array([0.1, 0.4, 0.35, 0.8])
    assert 0.4 < midpoints.best_threshold(scores, np.array([False, False, False, True])) < 0.8


@pytest.mark.parametrize("new_classes", [False, True])
def test_the_parts_of_a_split_are_apart(samples, new_classes):
    X, y = samples
    for _, (train, known, new) in midpoints.splits_of(X, y, None, 2, new_classes):
        rows = np.concatenate([train, known, new])
        assert_array_equal(np.unique(rows), np.arange(len(y)))
        assert len(rows) == len(y)
        if new_classes:
            assert not set(y[train]) & set(y[np.concatenate([known, new])])
