"""Splits of pairs: nothing is on both sides, nothing else is dropped; scikit-learn uses them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, check_cv, cross_val_score

from tatml import PairThreshold, TATMLPairs
from tatml.verification import PairKFold, PairShuffleSplit, train_test_split_pairs

SPLITTERS = (
    PairKFold(3),
    PairKFold(2, shuffle=True, random_state=0),
    PairShuffleSplit(4, random_state=0),
    PairShuffleSplit(2, test_size=0.3, random_state=1),
)


@st.composite
def pairs_of_groups(draw):
    """Draw index pairs of samples that belong to groups."""
    n_samples = draw(st.integers(6, 20))
    groups = np.array(draw(st.lists(st.integers(0, 9), min_size=n_samples, max_size=n_samples)))
    sample = st.integers(0, n_samples - 1)
    pairs = np.array(draw(st.lists(st.tuples(sample, sample), min_size=6, max_size=60)))
    return pairs, groups


def splits_of(splitter, *given, **options):
    """Return the splits; none if a side would be empty."""
    try:
        return [*splitter.split(*given, **options)]
    except ValueError as error:
        if not re.search(
            "pairs of every kind on both sides|^(n_splits|test_size): expected", str(error)
        ):
            raise
        return []


@given(pairs_of_groups(), st.sampled_from(SPLITTERS), st.booleans())
def test_no_sample_and_no_group_is_on_both_sides_and_nothing_else_is_dropped(case, splitter, known):
    pairs, groups = case
    units = groups[pairs] if known else pairs
    for train, test in splits_of(splitter, pairs, groups=groups if known else None):
        assert len(train) > 0
        assert len(test) > 0
        assert len(np.intersect1d(train, test)) == 0
        sides = {*units[train].ravel().tolist()}, {*units[test].ravel().tolist()}
        assert not sides[0] & sides[1]
        samples = {*pairs[train].ravel().tolist()}, {*pairs[test].ravel().tolist()}
        assert not samples[0] & samples[1]
        # What is dropped would put a unit of one side on the other, or has no side at all.
        kept = np.union1d(train, test)
        for row in np.setdiff1d(np.arange(len(pairs)), kept):
            both = {*units[row].tolist()}
            assert not both <= sides[0]
            assert not both <= sides[1]


@given(pairs_of_groups())
def test_groups_of_members_are_groups_of_samples(case):
    pairs, groups = case
    for splitter in SPLITTERS:
        one = splits_of(splitter, pairs, groups=groups)
        other = splits_of(splitter, pairs, groups=groups[pairs].astype(str))
        assert str(one) == str(other)  # numbers of one digit are sorted alike as words


@given(pairs_of_groups())
def test_each_pair_within_a_group_is_tested_once(case):
    pairs, groups = case
    folds = splits_of(PairKFold(2), pairs, groups=groups)
    within = np.flatnonzero(groups[pairs[:, 0]] == groups[pairs[:, 1]])
    if folds:
        tested = np.concatenate([test for _, test in folds])
        assert len(tested) == len({*tested.tolist()})
        assert {*within.tolist()} <= {*tested.tolist()}


def test_pairs_that_share_nothing_are_all_kept():
    pairs = np.random.default_rng(0).permutation(400).reshape(-1, 2)
    for train, test in PairKFold(5).split(pairs):
        assert (len(train), len(test)) == (160, 40)
    train, test = train_test_split_pairs(pairs, test_size=0.25, random_state=0)
    assert (len(train), len(test)) == (150, 50)


@pytest.mark.parametrize("splitter", [PairShuffleSplit(2), PairKFold(2, shuffle=True)])
@pytest.mark.parametrize("source", [int, np.random.RandomState, np.random.default_rng])
def test_a_seed_repeats_the_split_and_another_changes_it(splitter, source):
    pairs = np.stack(np.triu_indices(30, 1), axis=1)
    first, again, other = (
        str([*clone(splitter).set_params(random_state=source(seed)).split(pairs)])
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_folds_that_are_not_shuffled_are_the_same_each_time():
    pairs = np.stack(np.triu_indices(30, 1), axis=1)
    assert str([*PairKFold(3).split(pairs)]) == str([*PairKFold(3).split(pairs)])


def test_the_parts_of_arrays_belong_together():
    rng = np.random.default_rng(0)
    identity = np.arange(60) // 3
    pairs = rng.integers(60, size=(3000, 2))
    y = np.where(identity[pairs[:, 0]] == identity[pairs[:, 1]], 1, -1)
    number = np.arange(3000)
    parts = train_test_split_pairs(pairs, y, number.tolist(), groups=identity, random_state=3)
    for side in (0, 1):
        own, labels, rows = parts[side], parts[2 + side], parts[4 + side]
        assert np.array_equal(own, pairs[rows])
        assert np.array_equal(labels, y[rows])
        assert {*labels} == {-1, 1}
    assert 0.4 < (len(parts[0]) + len(parts[1])) / 3000 < 0.6


def test_words_are_indicators_and_arrays_need_groups():
    words = np.array([f"{number}.png" for number in range(40)]).reshape(-1, 2)
    for train, test in PairShuffleSplit(3, random_state=0).split(np.repeat(words, 5, axis=0)):
        assert len(train) == len(test) == 50
    vectors = np.zeros((4, 2, 3))
    with pytest.raises(ValueError, match=r"groups: expected one group for each member .*\(4, 2\)"):
        next(PairKFold(2).split(vectors))
    train, test = next(PairKFold(2).split(vectors, groups=[[0, 0], [1, 1], [0, 0], [1, 1]]))
    assert sorted([train.tolist(), test.tolist()]) == [[0, 2], [1, 3]]


def test_verbose_says_how_many_pairs_are_dropped(capsys):
    pairs = np.stack(np.triu_indices(20, 1), axis=1)
    assert len([*PairKFold(2, verbose=True).split(pairs)]) == 2
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == (
        "split 1: 45 training pairs, 45 test pairs, 100 dropped with one member on each side"
    )
    assert len(printed) == 2


# scikit-learn


def digit_pairs(n_pairs=1500):
    X, digit = load_digits(return_X_y=True)
    index = np.random.default_rng(0).integers(len(X), size=(n_pairs, 2))
    return X, digit, index, np.where(digit[index[:, 0]] == digit[index[:, 1]], 1, -1)


def test_scikit_learn_takes_the_splitters():
    X, digit, index, y = digit_pairs()
    assert check_cv(PairKFold(3)).get_n_splits() == 3
    for cv in (PairKFold(2), PairShuffleSplit(2, random_state=0)):
        assert clone(cv).get_params() == cv.get_params()
        scores = cross_val_score(TATMLPairs(preprocessor=X), index, y, cv=cv)
        assert len(scores) == 2
        assert scores.min() > 0.7
        grouped = cross_val_score(
            PairThreshold(preprocessor=X), index, y, groups=digit[index], cv=cv
        )
        assert grouped.min() > 0.6


def test_a_search_takes_the_splitters():
    X, _, index, y = digit_pairs(800)
    search = GridSearchCV(
        PairThreshold(preprocessor=X), {"metric": ["euclidean", "cosine"]}, cv=PairKFold(2)
    ).fit(index, y)
    assert search.n_splits_ == 2


# Errors

PAIRS = np.stack(np.triu_indices(8, 1), axis=1)
WRONG = {
    "one fold": (PairKFold(1), {}, "n_splits: expected at least 2, got 1"),
    "too many folds": (PairKFold(9), {}, "n_splits: expected at most .* groups, 8, got 9"),
    "folds of one group": (PairKFold(2), {"groups": np.zeros(8)}, "n_splits: expected at most"),
    "no split": (PairShuffleSplit(0), {}, "n_splits: expected at least 1, got 0"),
    "share": (
        PairShuffleSplit(test_size=1.5),
        {},
        "test_size: expected a share .* 8 samples .*1.5",
    ),
    "word": (PairShuffleSplit(test_size="half"), {}, "test_size: expected a share .*got 'half'"),
    "all": (PairShuffleSplit(test_size=8), {}, "test_size: expected a share between 0 and 1, or a"),
    "empty side": (PairKFold(8), {}, "PairKFold: expected pairs of every kind .*got no pair on"),
    "groups": (PairKFold(2), {"groups": np.zeros(3)}, r"groups: expected shape \(n_samples,\)"),
    "labels": (PairKFold(2), {"y": [1, -1]}, "y: expected one value for each of 28 pairs, got 2"),
    "shape": (PairKFold(2), {"X": np.zeros(5)}, r"pairs: expected shape .*got shape \(5,\)"),
    "none": (PairKFold(2), {"X": PAIRS[:0]}, r"pairs: expected shape .*got shape \(0, 2\)"),
    "seed": (PairKFold(2, shuffle=True, random_state="x"), {}, "random_state: expected None, an"),
    "flag": (PairKFold(2, verbose="yes"), {}, "verbose: expected True or False, got 'yes'"),
    "kinds": (
        PairKFold(2),
        {"y": np.where(np.arange(28) == 0, 1, -1)},
        "PairKFold: expected pairs of every kind on both sides, got no pair with label 1 on the",
    ),
    "two groups of a sample": (
        PairKFold(2),
        {"groups": np.arange(56).reshape(28, 2)},
        "groups: expected one group for each sample, got two for sample",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_split_is_named(case):
    splitter, options, message = WRONG[case]
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        [*splitter.split(**{"X": PAIRS} | options)]


def test_arrays_of_another_length_are_named():
    with pytest.raises(ValueError, match=r"^y: expected one value for each of 28 pairs, got 3"):
        train_test_split_pairs(PAIRS, [1, 2, 3])
    with pytest.raises(ValueError, match=r"^arrays\[1\]: expected one value for each of 28 pairs"):
        train_test_split_pairs(PAIRS, np.ones(28), [1])
