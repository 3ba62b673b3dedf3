"""Search through other libraries finds what `predict_pairs` says: the recipe of docs/search.md."""

import importlib.util
import re
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from tatml import TATML, Blocks

PATH = Path(__file__).resolve().parents[1] / "examples" / "search_at_scale.py"


def load_recipe():
    spec = importlib.util.spec_from_file_location("search_at_scale", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recipe = load_recipe()


def needed(name):
    """An optional library; what it warns of while it is imported is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@pytest.fixture(scope="module")
def digits():
    """A metric, samples that it has not seen, the pairs that are the same, those at the border."""
    X, y = load_digits(return_X_y=True)
    metric = TATML(n_pairs_per_class=100, threshold="joint", random_state=0).fit(X[:600], y[:600])
    return metric, X[600:1000], *recipe.brute_force(metric, X[600:1000])


def test_the_comparison_can_fail(digits):
    """Some pairs are the same, most are not, and hardly any lie at the border."""
    metric, X, expected, close = digits
    n_pairs = len(X) * (len(X) - 1) // 2
    distances = np.array([metric.pair_distance([pair], X)[0] for pair in list(expected)[:50]])
    assert np.all(distances < metric.threshold_)
    assert 1000 < len(expected) < n_pairs / 2
    assert len(close) < 1e-3 * len(expected)
    for other in (metric.threshold_ * 0.99, metric.threshold_**2):  # as if it were not squared
        wrong = recipe.sklearn_pairs(metric.transform(X), other) ^ expected
        assert len(wrong - close) > 100


# Exact


def test_in_double_precision_the_pairs_are_the_same(digits):
    metric, X, expected, _ = digits
    assert recipe.sklearn_pairs(metric.transform(X), metric.threshold_) == expected


def test_in_single_precision_only_the_border_may_differ(digits):
    metric, X, expected, close = digits
    found = recipe.sklearn_pairs(recipe.embed(metric, X), metric.threshold_)
    assert found ^ expected <= close


def test_an_exact_index_of_faiss_finds_the_same(digits):
    needed("faiss")
    metric, X, expected, close = digits
    found = recipe.faiss_pairs(recipe.embed(metric, X), metric.threshold_)
    assert found ^ expected <= close


# Approximate


def test_a_graph_of_hnswlib_misses_few_and_invents_none(digits):
    needed("hnswlib")
    metric, X, expected, close = digits
    rows = recipe.embed(metric, X)
    found = recipe.hnswlib_pairs(rows, metric.threshold_, n_neighbors=len(X) // 2)
    assert found - expected <= close
    assert len(found & expected) > 0.99 * len(expected)
    few = recipe.hnswlib_pairs(rows, metric.threshold_, n_neighbors=10)  # itself and nine
    assert few <= found | close
    assert len(few) <= 9 * len(X) < 0.99 * len(expected)


# What the recipe rests on


def test_samples_of_several_blocks_are_searched_by_the_same_radius():
    X, y = load_digits(return_X_y=True)
    images = X.reshape(-1, 8, 8)
    blocks = Blocks(images[:300, :4], X[:300, 32:])
    metric = TATML(n_pairs_per_class=60, random_state=0).fit(blocks, y[:300])
    rows = metric.transform(blocks)
    index = NearestNeighbors(radius=metric.threshold_).fit(rows[50:])
    for query, near in enumerate(index.radius_neighbors(rows[:20], return_distance=False)):
        pairs = np.stack([np.full(250, query), np.arange(50, 300)], axis=1)
        expected = np.flatnonzero(metric.predict_pairs(pairs, blocks) > 0)
        assert sorted(near.tolist()) == expected.tolist()


def test_far_from_the_origin_single_precision_needs_the_centre(digits):
    metric, X, *_ = digits
    far = X[:60] + 1e6
    pairs = np.array(list(combinations(range(60), 2)))
    exact = metric.pair_distance(pairs, X[:60])

    def distances(rows):
        return np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)

    assert_allclose(distances(recipe.embed(metric, far)), exact, rtol=1e-5)
    bare = distances(metric.transform(far).astype(np.float32))
    assert np.max(np.abs(bare / exact - 1)) > 1e-3


def test_queries_take_the_centre_of_the_index(digits):
    metric, X, *_ = digits
    centre = metric.transform(X[:100]).mean(axis=0)
    queries = recipe.embed(metric, X[:10] + 5, centre)
    pairs = np.stack([np.arange(10), np.arange(10, 20)], axis=1)
    expected = metric.pair_distance(pairs, np.concatenate([X[:10] + 5, X[10:20]]))
    rows = recipe.embed(metric, X[10:20], centre)
    assert_allclose(np.linalg.norm(queries - rows, axis=1), expected, rtol=1e-5)


def test_the_example_runs(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optional libraries may warn when they are imported
        recipe.main()
    said = capsys.readouterr().out
    assert "float64: the same set: True" in said
    for name in ("scikit-learn", "FAISS flat"):
        line = re.search(rf"^{name}, float32: .* (\d+) differ|^{name}: skipped", said, re.MULTILINE)
        assert line is not None
        assert line.group(1) in (None, "0")
