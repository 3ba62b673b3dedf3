"""Folds: both kinds of pairs in all of them, whole groups, and as many as the classes allow."""

import numpy as np
import pytest
from estimators_helpers import refused, split_scores
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from tatml import TATML, TATMLCV
from tatml._data.blocks import Blocks
from tatml._learning.labelled import LabelledSamples, gives_pairs, make_folds, make_pair_folds


def check_folds(folds, labels, groups):
    """Each fold splits all samples, keeps groups whole, and has both kinds of pairs twice."""
    units = np.arange(len(labels)) if groups is None else groups
    for rows in folds:
        assert sorted(np.concatenate(rows)) == list(range(len(labels)))
        assert not set(units[rows[0]]) & set(units[rows[1]])
        for part in rows:
            same = labels[part][:, None] == labels[part]
            apart = units[part][:, None] != units[part]
            assert np.any(same & apart)
            assert np.any(~same & apart)
            assert gives_pairs(labels[part], units[part])
    tests = [row for _, test in folds for row in test]
    assert len(set(tests)) == len(tests)  # no sample is tested twice


def numbered(values):
    return np.unique(values, return_inverse=True)[1]


# Folds for held-out pairs


@given(
    st.lists(st.integers(2, 5), min_size=3, max_size=12),
    st.sampled_from([None, 2, 3, 5]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_small_classes_give_folds_with_both_kinds_of_pairs(sizes, n_folds, grouped, seed):
    """At most half as many folds as samples in the median class; each group in one class."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    groups = None
    if grouped:  # one to three samples per group; the sizes of classes count groups
        copies = rng.integers(1, 4, size=len(labels))
        groups, labels = np.repeat(np.arange(len(labels)), copies), np.repeat(labels, copies)
    order = rng.permutation(len(labels))
    labels, groups = labels[order], None if groups is None else numbered(groups[order])
    folds = make_pair_folds(labels, groups, n_folds)
    check_folds(folds, labels, groups)
    assert len(folds) <= max(2, int(np.median(sizes)) // 2)
    if min(sizes) == max(sizes) and len(sizes) >= 4:
        assert len(folds) == 2
        tested = np.concatenate([test for _, test in folds])
        assert len(tested) == len(labels)  # every sample is tested


@given(
    st.integers(4, 30), st.integers(2, 4), st.integers(1, 30), st.integers(0, 10**6), st.booleans()
)
def test_no_labels_and_groups_fail(n_samples, n_classes, n_groups, seed, nested):
    """Without a warning, too; there may be no folds."""
    rng = np.random.default_rng(seed)
    labels = numbered(rng.integers(n_classes, size=n_samples))
    groups = rng.integers(n_groups, size=n_samples)
    groups = numbered(groups * n_classes + labels if nested else groups)
    for given_groups in (None, groups):
        check_folds(make_pair_folds(labels, given_groups), labels, given_groups)


def test_large_classes_are_spread_evenly_over_three_folds_and_others_over_five():
    rng = np.random.default_rng(0)
    for size, n_folds in ((60, 3), (20, 3), (19, 5), (10, 5), (9, 4), (6, 3), (4, 2)):
        labels = rng.permutation(np.repeat(np.arange(4), size))
        folds = make_pair_folds(labels, None)
        check_folds(folds, labels, None)
        assert len(folds) == n_folds, size
        for _, test in folds:
            counts = np.bincount(labels[test], minlength=4)
            if size >= 2 * n_folds:
                assert np.ptp(counts) <= 1
                assert abs(counts[0] - size / n_folds) < 1
        assert len(make_pair_folds(labels, None, 2)) == 2


def test_folds_are_the_same_whenever_they_are_made_and_follow_the_labels_only():
    labels = np.random.default_rng(0).integers(4, size=50)
    first, second = make_pair_folds(labels, None), make_pair_folds(labels, None)
    for one, other in zip(first, second, strict=True):
        assert_array_equal(one[0], other[0])
        assert_array_equal(one[1], other[1])
    alone = make_pair_folds(labels, np.arange(50))  # every sample is a group
    for one, other in zip(first, alone, strict=True):
        assert_array_equal(one[1], other[1])


def test_groups_in_several_classes_stay_together():
    rng = np.random.default_rng(0)
    groups, labels = np.repeat(np.arange(20), 6), rng.integers(3, size=120)
    folds = make_pair_folds(labels, groups)
    check_folds(folds, labels, groups)
    assert len(folds) == 3
    for few in (np.zeros(120, int), np.arange(120) // 60):
        assert make_pair_folds(labels, few) == []


@pytest.mark.parametrize(
    ("labels", "units", "expected"),
    [
        ([], [], False),
        ([0, 1], [0, 1], False),
        ([0, 0], [0, 1], False),
        ([0, 0, 1], [0, 1, 2], True),
        ([0, 0, 1], [0, 0, 1], False),
        (["b", "b", "a"], [4, 7, 4], True),
    ],
)
def test_pairs_take_a_class_in_two_units_and_another_class(labels, units, expected):
    units = np.array(units, dtype=np.intp)
    assert gives_pairs(np.array(labels), units) == expected


# Folds of a cross-validation


def samples_of(labels, groups=None):
    X = np.random.default_rng(0).normal(size=(len(labels), 2)) + labels[:, None]
    return LabelledSamples(Blocks(X), labels, groups)


def test_a_number_of_folds_gives_those_of_scikit_learn_where_they_give_pairs():
    rng = np.random.default_rng(0)
    labels, groups = rng.permutation(np.arange(90) % 3), np.arange(90) // 3
    for given_groups, splitter in ((None, StratifiedKFold(4)), (groups, StratifiedGroupKFold(4))):
        expected = list(splitter.split(labels, labels, given_groups))
        found = make_folds(4, samples_of(labels, given_groups), pairs_in_tests=True)
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one[0], other[0])
            assert_array_equal(one[1], other[1])


def test_scores_of_neighbours_need_pairs_in_training_samples_only():
    """One object per class in each test part: no similar pairs, but neighbours to predict."""
    groups = np.repeat(np.arange(15), 4)
    labels = groups // 5
    expected = list(StratifiedGroupKFold(5).split(labels, labels, groups))
    samples = samples_of(labels, groups)
    found = make_folds(5, samples, pairs_in_tests=False)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one[1], other[1])
    fewer = make_folds(5, samples, pairs_in_tests=True)
    assert len(fewer) == 2
    check_folds(fewer, labels, groups)
    small = np.repeat([0, 1, 2], [20, 20, 3])  # fewer samples than folds in a class
    expected = list(StratifiedKFold(3).split(small, small))
    found = make_folds(3, samples_of(small), pairs_in_tests=False)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(found, expected, strict=True))
    with pytest.warns(UserWarning, match="least populated"):
        expected = list(StratifiedKFold(5).split(small, small))
    found = make_folds(5, samples_of(small), pairs_in_tests=False)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_search_fits_two_to_five_samples_per_class(size, grouped):
    rng = np.random.default_rng(size)
    y = np.repeat(np.arange(6), size)
    groups = None
    if grouped:
        groups, y = np.repeat(np.arange(len(y)), 2), np.repeat(y, 2)
    X = rng.normal(size=(len(y), 3)) + 3 * rng.normal(size=(6, 3))[y]
    model = TATMLCV(param_grid={"C": [10.0]}, cv=5, random_state=0).fit(X, y, groups=groups)
    n_folds = split_scores(model).shape[1]
    assert n_folds == 2
    assert 0.5 < model.best_score_ <= 1
    check_folds(make_folds(5, samples_of(y, groups), pairs_in_tests=True), y, groups)


def test_two_samples_of_two_classes_have_no_folds():
    X, y = np.random.default_rng(0).normal(size=(4, 2)), np.array([0, 0, 1, 1])
    message = r"^cv: expected a number of folds that all give similar and dissimilar pairs, got 5 "
    refused(TATMLCV(), X, y, message + "for 4 samples in 2 classes")
    assert make_pair_folds(y, None) == []
    model = TATML().fit(X, y)  # no folds: b0's own threshold
    assert model.threshold_factor_ == 1.0
    assert model.prior_units_ == "columns"
