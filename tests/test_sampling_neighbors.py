"""Pairs of nearest neighbours: which samples are near, in whatever units."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn import config_context
from test_sampling import draw, unordered

from tatml._data.blocks import Blocks


def nearest_by_hand(X, labels, groups, n_neighbors):
    """The neighbours of every sample, by sorting exact differences; X a list of 3-D arrays."""
    scaled = []
    for array in X:
        spread = array.std(axis=0)
        if array.shape[2] > 1:
            spread = np.full_like(spread, np.sqrt(np.sum(spread**2)))
        difference = array[:, None] - array[None]
        scaled.append(np.divide(difference, spread, out=difference, where=spread > 1e-12))
    distances = np.sqrt(sum(np.sum(part**2, axis=(2, 3)) for part in scaled))
    found = set()
    for i, row in enumerate(distances):
        for kind in (True, False):
            others = [
                j
                for j in np.argsort(row)
                if j != i
                and (labels[i] == labels[j]) == kind
                and (groups is None or groups[i] != groups[j])
            ]
            found |= {frozenset((i, int(j))) for j in others[:n_neighbors]}
    return found


NEIGHBOUR_SHAPES = {
    "vectors": [(4, 1)],
    "matrices": [(3, 2)],
    "blocks": [(2, 1), (3, 3), (2, 4)],
}


def samples(shapes, n=40, seed=0):
    """Arrays whose entries and blocks have very different units."""
    rng = np.random.default_rng(seed)
    arrays = []
    for m, (rows, width) in enumerate(shapes):
        unit = 10.0 ** rng.uniform(-2, 2, size=(rows, 1 if width == 1 else width))
        arrays.append(rng.normal(size=(n, rows, width)) * unit * 100.0**m)
    return arrays


@pytest.mark.parametrize("shape", NEIGHBOUR_SHAPES)
def test_neighbours_are_the_nearest(shape):
    arrays, labels = samples(NEIGHBOUR_SHAPES[shape]), np.arange(40) % 3
    for groups, n_neighbors in product((None, np.arange(40) // 7), (1, 3, 50)):
        pairs = draw("neighbors", labels, groups, X=Blocks(*arrays), n_neighbors=n_neighbors)
        assert unordered(pairs) == nearest_by_hand(arrays, labels, groups, n_neighbors)


def test_neighbours_do_not_depend_on_the_working_memory():
    arrays, labels = samples(NEIGHBOUR_SHAPES["blocks"]), np.arange(40) % 3
    whole = draw("neighbors", labels, X=Blocks(*arrays))
    with config_context(working_memory=0.001):  # MiB: two or three rows at a time
        parts = draw("neighbors", labels, X=Blocks(*arrays))
    assert_array_equal(whole.index, parts.index)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=6, max_size=12),
    st.integers(1, 3),
)
def test_ties_leave_no_nearer_sample_out(points, n_neighbors):
    X = np.array(points, dtype=float)
    labels = np.arange(len(X)) % 2
    chosen = unordered(draw("neighbors", labels, X=X, n_neighbors=n_neighbors))
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    distances = np.linalg.norm((X[:, None] - X) / spread, axis=2)
    for i in range(len(X)):
        for kind in (True, False):
            others = [j for j in range(len(X)) if j != i and (labels[i] == labels[j]) == kind]
            partners = [j for j in others if frozenset((i, j)) in chosen]
            farthest = sorted(distances[i, others])[:n_neighbors][-1]
            nearer = [j for j in others if distances[i, j] < farthest - 1e-6]
            assert len(partners) >= min(n_neighbors, len(others))
            assert set(nearer) <= set(partners)


@pytest.mark.parametrize(
    ("shapes", "scale"), list(product(NEIGHBOUR_SHAPES.values(), (1e-6, 3.0, 1e6)))
)
def test_neighbours_do_not_depend_on_units(shapes, scale):
    arrays, labels = samples(shapes), np.arange(40) % 3
    one = draw("neighbors", labels, X=Blocks(*arrays))
    other = draw("neighbors", labels, X=Blocks(*(array * scale for array in arrays)))
    assert unordered(one) == unordered(other), (shapes, scale)


def test_a_constant_feature_changes_no_neighbour():
    X, labels = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3
    expected = unordered(draw("neighbors", labels, X=X))
    for value in (0.0, 1.0, 0.1, 1.7, 1e9 / 3):
        with_constant = np.c_[X, np.full(30, value)]
        assert unordered(draw("neighbors", labels, X=with_constant)) == expected, value


@pytest.mark.parametrize("origin", [1e4, 1e8, -1e10])
def test_neighbours_do_not_depend_on_the_origin(origin):
    X, labels = np.random.default_rng(0).normal(size=(30, 3)) + origin, np.arange(30) % 3
    expected = nearest_by_hand([X[:, :, None] - origin], labels, None, 3)
    assert unordered(draw("neighbors", labels, X=X)) == expected, origin
