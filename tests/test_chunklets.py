"""Pairs from chunks, the form of RCA's input."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tatml import TATMLPairs, pairs_from_chunks

CHUNKS = np.array([2, -1, 0, 2, 0, 0, -1, 7])


def test_all_pairs_within_chunks_are_similar_and_no_others():
    pairs, y = pairs_from_chunks(CHUNKS, random_state=0)
    same = CHUNKS[pairs[:, 0]] == CHUNKS[pairs[:, 1]]
    assert_array_equal(same, y == 1)
    assert sorted(map(tuple, pairs[same])) == [(0, 3), (2, 4), (2, 5), (4, 5)]
    assert not np.any(CHUNKS[pairs] == -1)
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 8


def test_the_draw_is_seeded_and_limited_by_what_there_is():
    one, other = (pairs_from_chunks(CHUNKS, 3, random_state=5)[0] for _ in range(2))
    assert_array_equal(one, other)
    assert len(one) == 7
    assert (pairs_from_chunks(CHUNKS, 10**6)[1] == -1).sum() == 15 - 4


def test_chunks_teach_what_is_alike():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    X = rng.normal(size=(90, 4)) * [1, 1, 5, 5]
    X[:, 0] += 6 * y
    chunks = np.full(90, -1)
    for k in range(12):  # twelve chunks of three samples, four per class
        chunks[np.flatnonzero((y == k % 3) & (chunks == -1))[:3]] = k
    pairs, labels = pairs_from_chunks(chunks, random_state=0)
    model = TATMLPairs(preprocessor=X).fit(pairs, labels)
    W = model.get_mahalanobis_matrix()
    assert W[0, 0] > 5 * max(W[1, 1], W[2, 2], W[3, 3])


@pytest.mark.parametrize(
    ("chunks", "options", "error", "message"),
    [
        ([0.5, 1.0], {}, ValueError, "chunks: expected integers"),
        ([[0, 0]], {}, ValueError, "chunks: expected integers"),
        ([0, 0, -2], {}, ValueError, "chunks: expected numbers of at least −1, got -2"),
        ([0, 0, 0], {}, ValueError, "chunks: expected at least two chunks"),
        ([0, 1, 2], {}, ValueError, "chunks: expected at least two chunks"),
        ([-1, -1], {}, ValueError, "chunks: expected at least two chunks"),
        ([0, 0, 1], {"n_dissimilar": 0}, ValueError, "n_dissimilar: expected at least 1"),
        ([0, 0, 1], {"random_state": "x"}, ValueError, "random_state: expected"),
    ],
)
def test_bad_chunks_are_refused_by_name(chunks, options, error, message):
    with pytest.raises(error, match=message):
        pairs_from_chunks(chunks, **options)
