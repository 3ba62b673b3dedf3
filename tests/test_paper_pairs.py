"""The paper's experiments judge the pairs that the library draws, by thresholds that are best."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from tatml import TATML, PairThreshold
from tatml.verification import report
from tatml_paper.pairs import Pairs, best_threshold, draw_pairs, equal_error_rate, row_distances

SEEDS = st.integers(0, 2**31 - 1)


def make_labels(seed, with_groups=False):
    """Return labels with two samples or more of each class, and groups or None."""
    rng = np.random.default_rng(seed)
    n_classes = rng.integers(2, 8)
    y = np.append(np.repeat(np.arange(n_classes), 2), rng.integers(n_classes, size=50))
    return y, rng.integers(100, 140, len(y)) if with_groups else None


@pytest.mark.parametrize(
    ("groups", "last", "digest"),
    [(None, [138, 133], "6aeb76fc9073e77c"), (np.arange(200) // 3, [138, 136], "48c0981b61964cc3")],
)
def test_the_pairs_of_published_records_are_drawn_again(groups, last, digest):
    """The same pairs as on 2026-11-18, when they came from a private function of the library."""
    pairs = draw_pairs(np.arange(200) ** 2 % 7, groups, n_pairs_per_class=30, seed=7)
    assert (pairs.index[0].tolist(), pairs.index[-1].tolist()) == ([63, 98], last)
    content = np.ascontiguousarray(pairs.index, dtype="<i8").tobytes()
    assert sha256(content).hexdigest()[:16] == digest


@pytest.mark.parametrize("with_groups", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_estimators_draw_the_same_pairs(seed, with_groups):
    y, groups = make_labels(seed, with_groups)
    noise = np.random.default_rng(seed).normal(size=(len(y), 8))
    fitted = TATML(n_pairs_per_class=40, random_state=seed)
    fitted.fit(np.eye(8)[y] + 0.1 * noise, y, groups)
    drawn = draw_pairs(y, groups, n_pairs_per_class=40, seed=seed)
    assert_array_equal(drawn.index, fitted.pairs_)
    assert_array_equal(drawn.similar, fitted.similar_)


@given(SEEDS, st.booleans(), st.integers(2, 300))
def test_pairs_are_labelled_and_both_kinds_count_the_same(seed, with_groups, n_pairs):
    y, groups = make_labels(seed, with_groups)
    pairs = draw_pairs(y, groups, n_pairs_per_class=n_pairs, seed=seed)
    first, second = pairs.index.T
    assert_array_equal(pairs.similar, y[first] == y[second])
    assert_array_equal(pairs.labels, np.where(pairs.similar, 1, -1))
    assert groups is None or np.all(groups[first] != groups[second])
    weights = pairs.weights
    assert weights.sum() == pytest.approx(len(weights))
    assert weights[pairs.similar].sum() == pytest.approx(weights[~pairs.similar].sum())


def test_distances_are_those_of_the_rows_in_parts_of_any_size():
    rows = np.random.default_rng(0).normal(size=(9, 5))
    index = np.stack(np.tril_indices(9, -1), axis=1)
    whole = row_distances(rows, index)
    assert_allclose(whole, cdist(rows, rows)[tuple(index.T)], rtol=1e-13)
    assert_array_equal(row_distances(rows, index, chunk_numbers=12), whole)
    assert_array_equal(row_distances(np.asfortranarray(rows), index, chunk_numbers=1), whole)


@given(SEEDS, st.booleans())
def test_no_threshold_has_a_higher_balanced_accuracy(seed, with_ties):
    rng = np.random.default_rng(seed)
    pairs = Pairs(np.zeros((30, 2), int), rng.permutation(30) < rng.integers(1, 30))
    distances = rng.normal(size=30) ** 2 + 0.5 * ~pairs.similar
    if with_ties:
        distances = np.round(distances, 1)

    def accuracy(threshold):
        return np.average((distances < threshold) == pairs.similar, weights=pairs.weights)

    found = best_threshold(distances, pairs)
    edges = [0.0, *distances, np.inf]
    assert accuracy(found) == pytest.approx(max(accuracy(edge) for edge in edges))


def test_the_equal_error_rate_is_that_of_a_report():
    rng = np.random.default_rng(0)
    pairs = Pairs(rng.integers(1000, size=(300, 2)), rng.random(300) < 0.4)
    distances = rng.normal(size=300) ** 2 + ~pairs.similar
    judge = PairThreshold(metric="precomputed").fit(distances, pairs.labels)
    found = report(judge, distances, pairs.labels).equal_error_rate
    assert equal_error_rate(distances, pairs.similar) == pytest.approx(found, rel=1e-14)
