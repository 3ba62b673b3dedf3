"""Held-out pairs: how they are kept apart, and what they choose (units, and the threshold)."""

from math import sqrt

import numpy as np
import pytest
from estimators_helpers import JOINT, all_pairs, as_list, labelled, labelled_pairs, search_over
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score

from tatml import TATML, Blocks, Newton, TATMLNeighbors, TATMLPairs
from tatml._data.blocks import as_blocks
from tatml._data.pairs import Pairs
from tatml._learning.cross_fit import (
    FACTORS,
    FittedPart,
    HeldOutPairs,
    HeldOutRelative,
    area_under_roc,
    choose_space,
    enough_parts,
    find_threshold_factor,
    hold_out_pairs,
    hold_out_samples,
    merge_identical,
)
from tatml._learning.labelled import LabelledSamples, make_pair_folds
from tatml._learning.metric import Metric
from tatml._learning.task import Settings

FEW = {"n_pairs_per_class": 40, "random_state": 0}
STEP = FACTORS[1] / FACTORS[0]

# The area under the ROC curve


ROW = st.tuples(st.integers(0, 6), st.booleans(), st.integers(1, 4))


@given(st.lists(ROW, min_size=2, max_size=40), st.booleans())
def test_the_area_is_that_of_scikit_learn_with_ties_and_weights(rows, weighted):
    distances, similar, weights = (np.array(column) for column in zip(*rows, strict=True))
    if 0 < similar.sum() < len(similar):
        weights = weights.astype(float) if weighted else None
        pairs = Pairs(np.zeros((len(rows), 2), np.intp), similar, weights)
        expected = roc_auc_score(similar, -distances, sample_weight=weights)
        assert_allclose(area_under_roc(distances, pairs), expected)


# The factor of the threshold


def judged(ratios, similar, weights=None, threshold=1.0):
    """Return a model and held-out pairs whose distances are the ratios times the threshold."""
    ends = Blocks(threshold * np.append(0.0, ratios)[:, None])
    index = np.stack([np.zeros(len(ratios), int), np.arange(1, len(ratios) + 1)], axis=1)
    pairs = Pairs(np.asfortranarray(index), np.asarray(similar), weights)
    part = HeldOutPairs(np.arange(1), ends, None, ends, pairs)
    return FittedPart(Metric([np.eye(1)], threshold=threshold), part, pairs)


def factor_of(*cases):
    held_out = HeldOutRelative.of([judged(*case) for case in cases])
    return None if held_out is None else find_threshold_factor(held_out)


@pytest.mark.parametrize(("low", "high"), [(0.8, 1.8), (0.5, 1.1), (0.9, 1.0), (1.2, 2.0)])
def test_the_best_factor_is_in_the_middle_of_the_gap(low, high):
    """If all similar pairs have the ratio a, and all others b, it is √(ab)."""
    factor = factor_of(([low] * 40 + [high] * 40, [True] * 40 + [False] * 40))
    assert abs(np.log(factor / sqrt(low * high))) <= np.log(STEP), (low, high)


def test_the_factor_balances_two_normal_distributions():
    rng = np.random.default_rng(0)
    similar = np.arange(20_000) % 2 == 0
    ratios = np.exp(np.where(similar, np.log(0.7), np.log(1.6)) + 0.3 * rng.normal(size=20_000))
    assert_allclose(factor_of((ratios, similar)), sqrt(0.7 * 1.6), rtol=0.04)


def test_weights_are_copies_and_move_the_factor():
    rng = np.random.default_rng(1)
    similar = rng.random(300) < 0.5
    ratios = np.exp(np.where(similar, -0.3, 0.3) + 0.4 * rng.normal(size=300))
    weights = rng.integers(0, 5, size=300)
    weighted = factor_of((ratios, similar, weights.astype(float)))
    assert weighted == factor_of((np.repeat(ratios, weights), np.repeat(similar, weights)))
    for strength, larger in ((9.0, True), (1 / 9, False)):
        moved = factor_of((ratios, similar, np.where(similar, strength, 1.0)))
        assert (moved > 1.2 * factor_of((ratios, similar))) == larger


def test_each_part_is_judged_in_units_of_its_own_threshold():
    rng = np.random.default_rng(2)
    similar = rng.random(400) < 0.5
    ratios = np.exp(np.where(similar, -0.2, 0.4) + 0.3 * rng.normal(size=400))
    whole = factor_of((ratios, similar))
    halves = [(ratios[k::2], similar[k::2], None, 10.0**k) for k in (0, 1)]
    assert factor_of(*halves) == whole
    assert factor_of(([9.0, 0.1], [True, False])) is None
    assert HeldOutRelative.of([]) is None


def test_a_factor_beyond_the_grid_is_found():
    """Distances of the parts are a hundredth of their thresholds, whose factors end at 0.4."""
    rng = np.random.default_rng(0)
    similar = np.arange(400) % 2 == 0
    ratios = np.where(similar, 0.01, 0.02) * rng.uniform(0.9, 1.1, size=400)
    for scale in (1.0, 1e4):
        factor = factor_of((scale * ratios, similar))
        assert 0.011 < factor / scale < 0.018
    assert factor_of((ratios, ~similar)) == 1.0  # the wrong way round: no factor is of any use


def test_factors_above_a_million_are_not_tried():
    """Nor below a millionth; the best would be a billion and its inverse."""
    similar = np.arange(80) % 2 == 0
    ratios = np.where(similar, np.geomspace(1e3, 1e9, 80), 1e10)
    assert 1e6 / STEP < factor_of((ratios, similar)) < 1e6 * STEP**2
    assert 1e-6 / STEP**2 < factor_of((1 / ratios, ~similar)) < 1e-6 * STEP


def test_only_as_many_parts_are_fitted_as_are_needed():
    parts = [judged(np.ones(900), np.ones(900, bool)).part for _ in range(5)]
    assert len(enough_parts(parts)) == 1
    small = [judged(np.ones(9), np.ones(9, bool)).part for _ in range(5)]
    assert enough_parts(small) == small[:3]
    assert enough_parts([]) == []


# Pairs that are held out


def rows_in(blocks):
    """Return the samples as a list of bytes, to compare them."""
    return [b"".join(array[i].tobytes() for array in blocks.arrays) for i in range(len(blocks))]


def as_given(X, index, labels, weights=None):
    index = np.asfortranarray(np.asarray(index, dtype=np.intp))
    return as_blocks(X), Pairs(index, np.asarray(labels) > 0, weights)


def check_parts(parts, blocks, pairs):
    """Samples are known or held out; pairs are given ones, with their labels and weights."""
    names = rows_in(blocks)
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    listed = {}
    for (i, j), kind, weight in zip(pairs.index, pairs.similar, weights, strict=True):
        listed.setdefault((names[i], names[j]), set()).add((bool(kind), float(weight)))
    for part in parts:
        known, others = rows_in(part.known), rows_in(part.others)
        assert not set(known) & set(others)
        assert known == [names[row] for row in part.rows]
        weights = np.ones(len(part.pairs)) if part.pairs.weights is None else part.pairs.weights
        for (i, j), kind, weight in zip(part.pairs.index, part.pairs.similar, weights, strict=True):
            assert (bool(kind), float(weight)) in listed[others[i], others[j]]
            assert weight > 0
        chosen = part.select_known(pairs)
        assert {bool(kind) for kind in part.pairs.similar} == {True, False}
        assert set(map(bool, chosen.similar)) == {True, False}
        inside = [names[i] in known and names[j] in known for i, j in pairs.index]
        assert len(chosen) <= sum(inside)


def merged(blocks, pairs):
    rows, pairs, _ = merge_identical(blocks, pairs)
    return blocks[rows], pairs


@pytest.mark.parametrize("way", ["index", "arrays", "weights"])
@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_no_sample_of_a_held_out_pair_is_known(kind, way):
    """Also where a sample is given once per pair: identical samples count as one."""
    X, y = labelled(kind)
    index, labels = labelled_pairs(y, 900)
    blocks, pairs = as_given(X, index, labels)
    if way == "arrays":
        blocks = blocks[pairs.index.ravel()]
        pairs = Pairs(np.asfortranarray(np.arange(1800).reshape(-1, 2)), pairs.similar)
    elif way == "weights":
        pairs = Pairs(pairs.index, pairs.similar, np.arange(900) % 3 / 2)
    blocks, pairs = merged(blocks, pairs)
    assert len(blocks) == 60
    parts = hold_out_pairs(blocks, pairs)
    assert len(parts) == 5
    check_parts(parts, blocks, pairs)
    held_out = set().union(*(rows_in(part.others) for part in parts))
    assert len(held_out) == (60 if way != "weights" else 59)  # one sample has pairs across only


@given(st.integers(0, 10**6), st.integers(10, 60), st.integers(30, 400))
def test_parts_of_any_graph_are_apart(seed, n_samples, n_pairs):
    rng = np.random.default_rng(seed)
    X = rng.integers(4, size=(n_samples, 2)).astype(float)  # many are identical
    index = rng.integers(n_samples, size=(n_pairs, 2))
    index = index[np.any(X[index[:, 0]] != X[index[:, 1]], axis=1)]
    blocks, pairs = as_given(X, index, rng.choice([-1, 1], size=len(index)))
    if len(pairs):
        blocks, pairs = merged(blocks, pairs)
        check_parts(hold_out_pairs(blocks, pairs), blocks, pairs)


def test_pairs_of_many_components_are_all_used_and_stay_together():
    """Four samples per person, and only pairs of the same eight samples: nothing is lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    cells = [all_pairs(8) + 8 * cell for cell in range(20)]
    index = np.concatenate(cells)
    labels = np.where(index[:, 0] // 4 == index[:, 1] // 4, 1, -1)
    blocks, pairs = as_given(X, index, labels)
    parts = hold_out_pairs(blocks, pairs)
    assert len(parts) == 5
    assert sum(len(part.pairs) for part in parts) == len(index)
    for part in parts:
        cells_known = set(part.rows // 8)
        assert len(part.rows) == 8 * len(cells_known)
        assert len(part.others) == 160 - len(part.rows)
        assert 24 <= len(part.others) <= 40


def test_samples_are_numbered_as_the_pairs_name_them():
    """Not by hashes, which differ between processes; pairs without weight do not count."""
    X = np.array([[5.0], [0.0], [7.0], [5.0], [-0.0], [9.0]])
    index = [[5, 2], [4, 0], [2, 3], [1, 5]]
    rows, pairs, n_counted = merge_identical(*as_given(X, index, [1] * 4))
    assert n_counted == 4
    assert_array_equal(rows, [5, 2, 4, 0])
    assert_array_equal(pairs.index, [[0, 1], [2, 3], [1, 3], [2, 0]])
    weights = np.array([0.0, 1.0, 2.0, 0.0])
    rows, pairs, n_counted = merge_identical(*as_given(X, index, [1] * 4, weights))
    assert n_counted == 3
    assert_array_equal(rows, [4, 0, 2, 5])
    assert_array_equal(pairs.index, [[3, 2], [0, 1], [2, 1], [0, 3]])
    assert_array_equal(pairs.weights, weights)


def test_too_few_pairs_are_not_held_out():
    X, y = labelled()
    index, labels = labelled_pairs(y, 40)
    assert hold_out_pairs(*as_given(X, index, labels)) == []
    model = TATMLPairs().fit(X[index], labels)
    assert model.threshold_factor_ == 1.0
    assert model.threshold_ == TATMLPairs(threshold="joint").fit(X[index], labels).threshold_


def test_known_and_held_out_samples_of_labels_share_no_group():
    X, y = labelled("two blocks", n_samples=90)
    for groups in (None, np.arange(90) // 3):
        samples = LabelledSamples(as_blocks(X), y, groups)
        parts = hold_out_samples(samples, make_pair_folds(y, groups))
        assert len(parts) > 2
        names = {row: number for number, row in enumerate(rows_in(as_blocks(X)))}
        for part in parts:
            others = np.array([names[row] for row in rows_in(part.others)])
            assert sorted([*part.rows, *others]) == list(range(90))
            units = np.arange(90) if groups is None else groups
            assert not set(units[part.rows]) & set(units[others])
            first, second = others[part.pairs.index].T
            assert_array_equal(y[first] == y[second], part.pairs.similar)
            assert np.all(units[first] != units[second])
            weights = np.ones(len(first)) if part.pairs.weights is None else part.pairs.weights
            assert_allclose(*(weights[part.pairs.similar == kind].sum() for kind in (True, False)))


# Units of the prior


def units_of(X, y, prior="discriminant"):
    samples = LabelledSamples(as_blocks(X), y, None)
    parts = hold_out_samples(samples, make_pair_folds(y, None))
    return choose_space(None, Settings(prior=prior), lambda _: parts)[1]


def in_three_directions(rng, n_samples=90, n_features=30, noise=1e-3):
    """Return samples whose classes differ in three columns; the others hold weak noise."""
    y = np.arange(n_samples) % 3
    X = noise * rng.normal(size=(n_samples, n_features))
    X[:, :3] = rng.normal(size=(n_samples, 3)) + 2 * np.eye(3)[y]
    return X, y


@pytest.mark.parametrize("prior", ["within", "discriminant"])
def test_the_units_suit_the_columns(prior):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = in_three_directions(rng)
        turn = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        components = np.linalg.svd(X @ turn - (X @ turn).mean(axis=0), full_matrices=False)[2]
        assert units_of(X @ turn @ components.T, y, prior) == "common"  # as after PCA
        loud = X * np.where(np.arange(30) < 3, 1e-3, 1e4)  # noise in large units
        assert units_of(loud, y, prior) == "columns"
    model = TATML(prior=prior, **FEW).fit(loud, y)
    assert model.prior_units_ == "columns"
    assert model.set_params(prior="auto").fit(loud, y).prior_units_ == "columns"


def test_unshrunk_scatters_need_five_samples_per_column():
    """Strongly correlated noise, against which only the inverse scatter helps."""
    chosen = {}
    for n_samples in (36, 600):
        rng = np.random.default_rng(0)
        y = np.arange(n_samples) % 3
        common = 30 * rng.normal(size=(n_samples, 1))
        X = common + 0.1 * rng.normal(size=(n_samples, 10)) + 0.2 * np.eye(10)[y]
        chosen[n_samples] = units_of(X @ np.diag(10.0 ** np.arange(-5, 5)), y)
    assert chosen[600] == "affine"
    assert chosen[36] != "affine"


def test_priors_without_units_and_without_parts_take_columns():
    X, y = labelled()
    samples = LabelledSamples(as_blocks(X), y, None)
    parts = hold_out_samples(samples, make_pair_folds(y, None))
    for prior in ("auto", "scaled", "covariance", np.eye(4), [np.eye(4)]):
        assert choose_space(None, Settings(prior=prior), lambda _: parts) == (
            None,
            "columns",
            parts,
        )
    assert choose_space(None, Settings(), lambda _: []) == (None, "columns", [])


# In the estimators


def test_parts_serve_the_threshold_without_units_and_the_units_without_a_threshold():
    X, y = labelled()
    index, labels = labelled_pairs(y, 900)
    assert TATML(prior="identity", **FEW).fit(X, y).threshold_factor_ > 1.1
    of_pairs = TATMLPairs(prior="identity", preprocessor=X).fit(index, labels)
    assert of_pairs.threshold_factor_ > 1.1
    of_pairs.set_params(prior="within", threshold="joint").fit(index, labels)
    assert of_pairs.prior_units_ == "common"
    X, y = in_three_directions(np.random.default_rng(0))
    components = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2]
    joint = TATML(prior="within", threshold="joint", **FEW).fit(X @ components.T, y)
    assert joint.prior_units_ == "common"


SETTINGS = {
    "the defaults": {},
    "another margin": {"margin": (0.3, 1.1)},
    "neighbours": {"pairs": "neighbors"},
    "all pairs": {"pairs": "all"},
    "fewer components": {"n_components": 1},
    "the sum": {"reduction": "sum", "C": 0.1},
    "a given strength": {"c0": 3.0, "threshold_prior": 0.8},
}


def assert_is_scaled(model, joint):
    """The metric and b0 are those of the joint problem; the threshold is a multiple of it."""
    for got, expected in zip(as_list(model.components_), as_list(joint.components_), strict=True):
        assert_array_equal(got, expected)
    assert model.b0_ == joint.b0_
    assert joint.threshold_factor_ == 1.0
    assert joint.threshold_ == sqrt(joint.b0_ * sqrt(joint.margin[0] * joint.margin[1]))
    assert model.threshold_ == model.threshold_factor_ * joint.threshold_
    assert model.threshold_factor_ in FACTORS


@pytest.mark.parametrize("name", SETTINGS)
def test_auto_is_a_multiple_of_the_joint_threshold(name):
    X, y = labelled("vectors" if "all" in name else "two blocks")
    options = FEW | SETTINGS[name]
    model = TATML(**options).fit(X, y)
    assert_is_scaled(model, TATML(threshold="joint", **options).fit(X, y))
    if "pairs" not in options:
        index, labels = labelled_pairs(y, 900)
        options = {key: options[key] for key in SETTINGS[name]} | {"preprocessor": X}
        model = TATMLPairs(**options).fit(index, labels)
        assert_is_scaled(model, TATMLPairs(threshold="joint", **options).fit(index, labels))


def test_the_factor_of_pairs_without_a_list_is_that_of_random_pairs():
    X, y = labelled(n_samples=90)
    listed = TATML(pairs="all", random_state=0).fit(X, y)
    models = [TATML(pairs="all", threshold=word, random_state=0) for word in ("auto", "joint")]
    for model in models:
        model._most_listed_pairs = 0
        model.fit(X, y)
    assert models[0].pairs_ is None
    assert_is_scaled(*models)
    assert_allclose(models[0].threshold_, listed.threshold_, rtol=0.1)


def test_a_search_scales_its_threshold_too():
    X, y = labelled()
    models = [
        search_over({"C": [10.0]}, threshold=word, prior="auto", cv=2, **FEW).fit(X, y)
        for word in ("auto", "joint")
    ]
    assert_is_scaled(*models)
    plain = TATML(10.0, prior="auto", **FEW).fit(X, y)
    assert models[0].threshold_ == plain.threshold_


def test_given_thresholds_are_not_scaled():
    X, y = labelled()
    index, labels = labelled_pairs(y, 900)
    for options, threshold in (({"threshold": 0.7}, 0.7), ({"c0": np.inf}, None)):
        models = (TATML(**FEW, **options).fit(X, y), TATMLPairs(**options).fit(X[index], labels))
        for model in models:
            assert model.threshold_factor_ == 1.0
            assert_allclose(model.threshold_, threshold or model.threshold_, rtol=1e-12)


def test_parts_start_cold_and_only_from_known_samples(monkeypatch):
    """A start from the full solution would leak the held-out samples."""
    X, y = labelled()
    solve, calls = Newton.solve, []

    def spy(solver, problem, *, init=None, tol, **options):
        calls.append((init, tol, problem.pairs.sums.n_pairs))
        return solve(solver, problem, init=init, tol=tol, **options)

    monkeypatch.setattr(Newton, "solve", spy)
    model = TATML(warm_start=True, **FEW)
    for start in (None, "the last fit"):
        calls.clear()
        model.fit(X, y)
        full, *parts = calls
        assert (full[0] is None) == (start is None)
        assert full[1] == 1e-6
        assert len(parts) >= 3
        for init, tol, n_pairs in parts:
            assert init is None
            assert tol == 0.1
            assert n_pairs < full[2]
    assert model.threshold_factor_ == TATML(**FEW).fit(X, y).threshold_factor_


def test_parts_with_one_kind_of_known_pairs_are_left_out(monkeypatch):
    X, y = labelled()
    solve, signs = Newton.solve, []

    def spy(solver, problem, **options):
        signs.append(set(problem.pairs.loss.sign.tolist()))
        return solve(solver, problem, **options)

    monkeypatch.setattr(Newton, "solve", spy)
    counts = []
    for seed in range(6):
        signs.clear()
        TATML(n_pairs_per_class=2, random_state=seed).fit(X, y)
        assert all(found == {1.0, -1.0} for found in signs)
        counts.append(len(signs))
    assert min(counts) < max(counts)  # the metric of all pairs, and those of the parts


def test_the_factor_does_not_depend_on_how_the_pairs_are_given():
    X, y = labelled(n_samples=100)
    index, labels = labelled_pairs(y, 1500)
    model = TATMLPairs(preprocessor=X).fit(index, labels)
    assert model.threshold_factor_ != 1.0
    assert TATMLPairs().fit(X[index], labels).threshold_factor_ == model.threshold_factor_
    keep = np.arange(1500) % 4 > 0
    wild = np.where(keep[:, None, None], X[index], 1e3 - X[index])
    weighted = TATMLPairs().fit(wild, labels, keep.astype(float))
    without = TATMLPairs().fit(X[index][keep], labels[keep])
    assert weighted.threshold_factor_ == without.threshold_factor_
    assert_allclose(weighted.threshold_, without.threshold_, rtol=1e-9)
    assert_allclose(weighted.components_, without.components_, rtol=1e-6, atol=1e-9)


def balanced_accuracy(model, X, y):
    index = all_pairs(len(y))
    same = y[index[:, 0]] == y[index[:, 1]]
    below = model.pair_distance(index, X) < model.threshold_
    return (np.mean(below[same]) + np.mean(~below[~same])) / 2


@pytest.mark.filterwarnings("ignore:threshold_.*separates hardly any training pairs")
def test_where_distances_concentrate_the_factor_mends_the_threshold():
    """Matrices of many entries: all distances are alike, and those of training pairs too small."""
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = np.arange(180) % 3
        X = rng.normal(size=(180, 25, 25)) + 0.36 * rng.normal(size=(3, 25, 25))[y]
        joint = TATML(**JOINT, **FEW).fit(X[:60], y[:60])
        auto = TATML(**FEW).fit(X[:60], y[:60])
        scores = [balanced_accuracy(model, X[60:], y[60:]) for model in (auto, joint)]
        gains.append(scores[0] - scores[1])
    assert min(gains) > 0.25, gains


# The check of the training pairs


def with_a_lonely_sample():
    """Return iris with a column in which one sample differs from all others by very much."""
    X, y = load_iris(return_X_y=True)
    first = np.sort(np.unique(X, axis=0, return_index=True)[1])  # without copies
    X, y = X[first], y[first]
    lonely = np.where(np.arange(len(X)) == 0, 1e3, 0.0)
    return np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), lonely]), y


@pytest.mark.parametrize("make", [TATML, TATMLNeighbors])
def test_a_metric_that_collapses_is_reported_though_parts_of_the_samples_are_fine(make):
    """Held-out pairs are separated in the parts without that sample."""
    X, y = with_a_lonely_sample()
    with pytest.warns(UserWarning, match="^threshold_: .* separates hardly any training pairs"):
        model = make(prior="scaled", random_state=0).fit(X, y)
    below = model.pair_distance(model.pairs_, X) < model.threshold_
    assert min(np.mean(below[model.similar_]), np.mean(below[~model.similar_])) > 0.95


def test_training_pairs_below_a_threshold_that_suits_new_pairs_are_no_fault():
    """There are many more columns than samples. A warning would be an error."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 2000)) + rng.normal(size=(3, 2000))[y]
    index = rng.permutation(all_pairs(60))[:600]
    labels = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    model = TATMLPairs(preprocessor=X[:60]).fit(index, labels)
    below = model.pair_distance(index) < model.threshold_
    assert np.mean(below[labels < 0]) > 0.95
    model.preprocessor = None
    new = all_pairs(60) + 60
    same = y[new[:, 0]] == y[new[:, 1]]
    below = model.pair_distance(new, X) < model.threshold_
    assert (np.mean(below[same]) + np.mean(~below[~same])) / 2 > 0.9


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "rbf", "prior": [np.eye(4), np.eye(148)]},
        {"kernel": "rbf", "n_components": [2, 110]},
    ],
    ids=["given prior", "components"],
)
@pytest.mark.parametrize("make", [TATML, TATMLNeighbors])
def test_parts_that_do_not_allow_the_fit_are_left_out(make, changes):
    """The kernel image of fewer samples has fewer rows."""
    X, y = load_iris(return_X_y=True)
    model = make(random_state=0, **changes).fit(X, y)
    assert model.threshold_factor_ == 1.0
    assert balanced_accuracy(model, X, y) > 0.6
