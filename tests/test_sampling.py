"""Pairs drawn from labels: which, how many, and how evenly."""

import math
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from memory_helpers import peak_memory
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.random import sample_without_replacement

from tatml import TATML
from tatml._data.blocks import Blocks
from tatml._data.pairs import Pairs
from tatml._data.sampling import (
    STRATEGIES,
    _automatic,
    _ByGroup,
    _distinct,
    _draw_cells,
    _in_common_units,
    balanced,
    draw_pairs,
    draw_random_pairs,
)


def draw(strategy, labels, groups=None, *, X=None, n_pairs=None, n_neighbors=3, seed=0):
    labels = np.asarray(labels)
    groups = None if groups is None else np.asarray(groups)
    source = seed if hasattr(seed, "permutation") else np.random.RandomState(seed)
    if strategy == "random":  # which looks at labels and groups alone
        return draw_random_pairs(labels, groups, n_pairs_per_class=n_pairs, random_state=source)
    if X is None:
        X = np.random.default_rng(7).normal(size=(len(labels), 3))
    return draw_pairs(
        strategy,
        X if isinstance(X, Blocks) else Blocks(X),
        labels,
        groups,
        n_pairs_per_class=n_pairs,
        n_neighbors=n_neighbors,
        random_state=source,
    )


def unordered(pairs):
    """The pairs as a set, which must lose none of them."""
    found = {frozenset(pair) for pair in pairs.index.tolist()}
    assert len(found) == len(pairs)
    assert all(len(pair) == 2 for pair in found)
    return found


def possible(labels, groups=None):
    """Every allowed pair and whether it is similar, by looking at them one by one."""
    return {
        frozenset((i, j)): labels[i] == labels[j]
        for i, j in combinations(range(len(labels)), 2)
        if groups is None or groups[i] != groups[j]
    }


def touching(pairs, labels, label, similar):
    """The number of pairs of one kind with a member in a class."""
    chosen = pairs.index[pairs.similar == similar]
    return int(np.sum(np.any(labels[chosen] == label, axis=1)))


@st.composite
def labelled(draw_value, most=14, n_classes=5):
    """Class numbers from 0 without holes, and groups or None."""
    n = draw_value(st.integers(2, most))
    numbers = st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)
    labels = np.unique(draw_value(numbers), return_inverse=True)[1]
    return labels, draw_value(st.none() | numbers)


# Which pairs


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(given_labels=labelled(), n_pairs=st.integers(2, 12), n_neighbors=st.integers(1, 4))
def test_pairs_are_distinct_labelled_and_across_groups(
    strategy, given_labels, n_pairs, n_neighbors
):
    labels, groups = given_labels
    allowed = possible(labels, groups)
    assume(len(set(allowed.values())) == 2)
    pairs = draw(strategy, labels, groups, n_pairs=n_pairs, n_neighbors=n_neighbors)
    assert unordered(pairs) <= set(allowed)
    expected = [allowed[frozenset(pair)] for pair in pairs.index.tolist()]
    assert pairs.similar.tolist() == expected
    assert expected == sorted(expected, reverse=True)  # the similar ones first
    assert pairs.weights is None
    assert pairs.index.dtype == np.intp


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(given_labels=labelled(most=4, n_classes=3))
def test_missing_kinds_are_named_exactly_where_none_exist(strategy, given_labels):
    labels, groups = given_labels
    kinds = set(possible(labels, groups).values())
    if len(kinds) == 2:
        assert set(draw(strategy, labels, groups).similar.tolist()) == kinds
        return
    name = "dissimilar" if kinds == {True} else "similar"
    with pytest.raises(ValueError, match=f"y: expected labels that give {name} pairs.*got none"):
        draw(strategy, labels, groups)


@given(labelled())
def test_all_pairs_are_all(given_labels):
    labels, groups = given_labels
    allowed = possible(labels, groups)
    assume(len(set(allowed.values())) == 2)
    assert unordered(draw("all", labels, groups)) == set(allowed)


def test_the_error_says_that_groups_forbid_pairs():
    with pytest.raises(ValueError, match=r"similar pairs, .*two samples outside the groups"):
        draw("random", [0, 0, 1, 1], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="takes a class of two samples, got none"):
        draw("random", [0, 1, 2])


def test_the_strategy_random_is_that_of_labels_alone():
    labels, X = np.arange(60) % 3, np.random.default_rng(0).normal(size=(60, 2))
    options = {"n_pairs_per_class": 10, "n_neighbors": 1}
    for groups in (None, np.arange(60) // 9):
        source = np.random.RandomState(5)
        one = draw_pairs("random", Blocks(X), labels, groups, random_state=source, **options)
        assert_array_equal(one.index, draw("random", labels, groups, n_pairs=10, seed=5).index)


# How many at random


def test_ten_pairs_a_class_are_five_and_five():
    labels = np.repeat([0, 1, 2], 2000)
    pairs = draw("random", labels, n_pairs=10)
    similar = labels[pairs.index[pairs.similar][:, 0]]
    assert np.bincount(similar).tolist() == [5, 5, 5]
    assert len(pairs) == 30
    assert min(touching(pairs, labels, label, False) for label in range(3)) >= 5


def test_an_odd_number_is_divided_as_evenly_as_can_be():
    labels = np.repeat([0, 1], 2000)
    pairs = draw("random", labels, n_pairs=7)
    assert (int(pairs.similar.sum()), int((~pairs.similar).sum())) == (8, 6)


@given(given_labels=labelled(), n_pairs=st.integers(2, 30), seed=st.integers(0, 99))
def test_every_class_gets_its_pairs_or_all_there_are(given_labels, n_pairs, seed):
    labels, groups = given_labels
    allowed = possible(labels, groups)
    assume(len(set(allowed.values())) == 2)
    pairs = draw("random", labels, groups, n_pairs=n_pairs, seed=seed)
    half = {True: (n_pairs + 1) // 2, False: n_pairs // 2}
    most = {True: 0, False: 0}
    for label in range(labels.max() + 1):
        for kind in (True, False):
            there_are = sum(
                similar == kind and any(labels[i] == label for i in pair)
                for pair, similar in allowed.items()
            )
            wanted = min(half[kind], there_are)
            most[kind] += wanted
            got = touching(pairs, labels, label, kind)
            assert got == wanted if kind else got >= wanted
    assert int((~pairs.similar).sum()) <= most[False]


def test_as_many_as_documented_where_no_number_is_given():
    """500 per class, 5,000 in total for few classes, 50,000 for many, at least 10 per class."""
    expected = {2: 2500, 4: 1250, 10: 500, 100: 500, 125: 400, 500: 100, 5_000: 10, 10**6: 10}
    assert {n_classes: _automatic(n_classes) for n_classes in expected} == expected
    for n_classes in (2, 125):
        labels = np.repeat(np.arange(n_classes), 5_000 // n_classes)
        pairs, half = draw("random", labels), expected[n_classes] // 2
        assert np.bincount(labels[pairs.index[pairs.similar][:, 0]]).tolist() == [half] * n_classes
        n_dissimilar = int((~pairs.similar).sum())  # a pair may be drawn for both its classes
        assert 0.99 * half * n_classes <= n_dissimilar <= half * n_classes


def test_many_small_classes_get_their_pairs_in_little_memory():
    """Five of the six similar pairs of each class, and as many dissimilar ones."""
    n_classes = 1_000
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), 4))
    peak, pairs = peak_memory(lambda: draw("random", labels, n_pairs=10))
    assert peak < 4e6  # all pairs would take 128 MB
    unordered(pairs)
    same = labels[pairs.index[:, 0]] == labels[pairs.index[:, 1]]
    assert_array_equal(pairs.similar, same)
    assert np.bincount(labels[pairs.index[same][:, 0]]).tolist() == [5] * n_classes
    assert 0.99 * 5_000 <= np.sum(~same) <= 5_000
    own = np.bincount(labels[pairs.index[~same][:, 0]], minlength=n_classes)
    assert own.min() >= 4  # the fifth may have been drawn for the other class too
    counts = np.bincount(labels[pairs.index[~same][:, 1]] // 100)
    assert np.abs(counts - counts.mean()).max() < 5 * math.sqrt(500)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_class_of_one_sample_gives_dissimilar_pairs_only(strategy):
    labels = np.array([0, 1, 1, 1, 1])
    pairs = draw(strategy, labels, n_pairs=6)
    assert touching(pairs, labels, 0, True) == 0
    assert touching(pairs, labels, 0, False) >= 3


def test_one_pair_a_class_is_the_fault_of_its_parameter():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="n_pairs_per_class: expected"):
        TATML(n_pairs_per_class=1).fit(X, np.arange(20) % 2)


# How evenly at random


def counts_of_draws(labels, groups, *, n_pairs, n_draws):
    """Count the draws of each possible pair, similar and dissimilar ones apart."""
    source = np.random.RandomState(0)
    counts = dict.fromkeys(possible(labels, groups), 0)
    for _ in range(n_draws):
        for pair in unordered(draw("random", labels, groups, n_pairs=n_pairs, seed=source)):
            counts[pair] += 1
    kinds = possible(labels, groups)
    return [np.array([counts[p] for p in counts if kinds[p] == kind]) for kind in (True, False)]


@pytest.mark.parametrize(
    "groups", [None, [0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1, 1, 2], [0] * 6 + [1] + [0] * 6 + [1]]
)
def test_every_possible_pair_is_as_likely(groups):
    """χ² over the pairs; groups leave few of them, so that more must be drawn than are kept."""
    labels = np.repeat([0, 1], 7)
    for counts in counts_of_draws(labels, groups, n_pairs=4, n_draws=700):
        expected = counts.mean()
        freedom = len(counts) - 1
        chi2 = np.sum((counts - expected) ** 2) / expected
        assert expected > 50
        assert chi2 < freedom + 5 * math.sqrt(2 * freedom)


def test_no_class_is_preferred_as_partner():
    labels = np.repeat([0, 1, 2, 3], 500)
    pairs = draw("random", labels, n_pairs=600)
    partners = labels[pairs.index[~pairs.similar]]
    codes = np.sort(partners, axis=1) @ [4, 1]
    counts = np.bincount(codes)[[1, 2, 3, 6, 7, 11]]
    assert counts.sum() == len(partners)
    assert np.abs(counts - 200).max() < 5 * math.sqrt(200)


# Sources of random numbers


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.default_rng])
def test_a_seed_repeats_its_draw_and_a_source_goes_on(source):
    labels, used = np.arange(60) % 3, source(5)
    one, two = (draw("random", labels, n_pairs=10, seed=source(5)) for _ in range(2))
    assert_array_equal(one.index, two.index)
    assert_array_equal(draw("random", labels, n_pairs=10, seed=used).index, one.index)
    for other in (used, source(6)):
        assert unordered(draw("random", labels, n_pairs=10, seed=other)) != unordered(one)


# Numbers of pairs


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_every_place_of_every_row_has_one_number(counts):
    """All are wanted: each (row, place) comes exactly once."""
    row, place = _draw_cells(np.array(counts), 10**6, np.random.RandomState(0))
    expected = [(r, p) for r, count in enumerate(counts) for p in range(count)]
    assert sorted(zip(row.tolist(), place.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 9), st.integers(0, 99))
def test_drawn_places_are_distinct_and_allowed(counts, n_wanted, seed):
    row, place = _draw_cells(np.array(counts), n_wanted, np.random.RandomState(seed))
    drawn = set(zip(row.tolist(), place.tolist(), strict=True))
    assert len(drawn) == len(row) == min(n_wanted, sum(counts))
    assert all(0 <= p < counts[r] for r, p in drawn)


def test_identical_pairs_are_kept_once_in_the_order_of_their_first_appearance():
    pairs = np.array([[4, 2], [0, 1], [2, 4], [3, 0], [0, 1], [1, 0], [0, 3], [2, 3]])
    assert _distinct(pairs).tolist() == [[4, 2], [0, 1], [3, 0], [2, 3]]


def test_a_pair_that_two_classes_draw_is_kept_once():
    """Both classes draw all nine pairs that join them."""
    pairs = draw("random", [0, 0, 0, 1, 1, 1], n_pairs=18)
    assert (int(pairs.similar.sum()), int((~pairs.similar).sum())) == (6, 9)
    assert unordered(pairs) == set(possible([0, 0, 0, 1, 1, 1]))


def test_classes_may_be_large():
    """More pairs than 32 bits can number."""
    labels = np.r_[np.zeros(200_000, dtype=int), np.ones(20, dtype=int)]
    pairs = draw("random", labels, n_pairs=40)
    unordered(pairs)
    large = pairs.index[pairs.similar & (labels[pairs.index[:, 0]] == 0)]
    assert len(large) == 20
    assert np.ptp(large) > 100_000


@pytest.mark.parametrize("n_others", [0, 1])
def test_a_large_class_of_one_group_costs_no_memory(n_others):
    """Most of the half million pairs inside the class are forbidden."""
    sizes = [1000, n_others, 20]
    labels = np.repeat([0, 0, 1], sizes)
    groups = np.r_[np.zeros(1000, dtype=int), np.arange(1, 21 + n_others)]
    peak, pairs = peak_memory(lambda: draw("random", labels, groups, n_pairs=10))
    assert touching(pairs, labels, 0, True) == 5 * n_others
    assert peak < 4e6


def pairs_across_by_hand(labels, groups, label, n_wanted, random_state):
    """All of another class, by group, that a sample may meet are written down and numbered."""
    everyone = np.lexsort((labels, groups))
    inside = [i for i in everyone if labels[i] == label]
    allowed = [
        (i, j) for i in inside for j in everyone if labels[j] != label and groups[i] != groups[j]
    ]
    n_drawn = min(n_wanted, len(allowed))
    drawn = sample_without_replacement(len(allowed), n_drawn, random_state=random_state)
    return [allowed[number] for number in drawn]


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 12), st.sampled_from([1, 5, 400])
)
def test_pairs_across_classes_and_groups_are_draw_cells_in_order(seed, n, n_groups, n_wanted):
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(4, size=n), rng.integers(n_groups, size=n)
    inside = np.flatnonzero(labels == labels[0])
    inside = inside[np.argsort(groups[inside], kind="stable")]
    drawn = _ByGroup(labels, groups).pairs_across(inside, n_wanted, np.random.RandomState(1))
    expected = pairs_across_by_hand(labels, groups, labels[0], n_wanted, np.random.RandomState(1))
    assert list(map(tuple, drawn.tolist())) == expected


def test_with_groups_a_class_costs_nothing_for_the_other_samples():
    """The memory for one class of four samples does not grow with the other classes."""
    peaks = []
    for n_classes in (250, 50_000):
        labels = np.repeat(np.arange(n_classes), 4)
        groups = np.random.default_rng(0).integers(n_classes, size=len(labels))
        by_group = _ByGroup(labels, groups)
        inside = np.argsort(groups[:4])
        draw_one = partial(by_group.pairs_across, inside, 5, np.random.RandomState(0))
        draw_one()  # imports and caches
        peak, pairs = peak_memory(draw_one)
        assert len(pairs) == 5
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0] < 30_000  # one number for each sample would take 1.6 MB


# Weights


@pytest.mark.parametrize("n_similar", [1, 3, 6, 9])
def test_balanced_pairs_have_the_same_total_weight(n_similar):
    pairs = Pairs(np.zeros((10, 2), dtype=np.intp), np.arange(10) < n_similar)
    even = balanced(pairs)
    assert even.index is pairs.index
    assert even.similar is pairs.similar
    assert_allclose(even.weights[even.similar], 5 / n_similar)
    assert_allclose(even.weights[~even.similar], 5 / (10 - n_similar))


def test_pairs_that_are_even_need_no_weights():
    pairs = Pairs(np.zeros((10, 2), dtype=np.intp), np.arange(10) < 5)
    assert balanced(pairs) is pairs


def test_constant_entries_do_not_count_in_common_units():
    rng = np.random.default_rng(0)
    vectors, matrices = rng.normal(size=(30, 2, 1)), rng.normal(size=(30, 3, 2))
    expected = _in_common_units(Blocks(vectors, matrices))
    assert_allclose(expected[:, :2].std(axis=0), 1.0)
    assert_allclose((expected[:, 2:] ** 2).sum() / 30, 1.0)
    constant = np.full((30, 1, 2), 7.0)
    found = _in_common_units(Blocks(vectors, np.concatenate([matrices, constant], axis=1)))
    assert_allclose(found, np.concatenate([expected, np.zeros((30, 2))], axis=1), atol=1e-15)
