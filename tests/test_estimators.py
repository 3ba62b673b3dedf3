"""TATML, Maz and Euclidean: what the parameters mean, units, pairs, and the search of Maz."""

import warnings
from math import inf, sqrt

import numpy as np
import pytest
from estimators_helpers import (
    JOINT,
    KINDS,
    all_pairs,
    as_list,
    assert_best_threshold,
    balanced_weights,
    best_b0,
    labelled,
    neighbours_and_predictions,
    squared_distances,
    times,
)
from helpers import random_spd
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import PAPER, TATML, Euclidean, Maz, Newton, learn_metric
from tatml._data.blocks import as_blocks
from tatml._estimators.maz import best_of

FEW = {"n_pairs_per_class": 40, "random_state": 0}
STRATEGIES = ("random", "neighbors", "all")

# Parameters and the symbols of the paper

SETTINGS = {
    "the defaults": ({}, {"c": 100, "rho": 1}),
    "another C": ({"C": 20.0}, {"c": 20, "rho": 1}),
    "a weak pull": ({"threshold_strength": 0.2}, {"c": 100, "rho": 0.2}),
    "an absolute c0": ({"C": 50.0, "c0": 7.0}, {"c": 50, "c0": 7}),
    "a prior threshold": ({"threshold_prior": 0.7}, {"c": 100, "rho": 1, "mu0": 0.49}),
    "a fixed threshold": ({"threshold": 0.8}, {"c": 100, "c0": inf, "mu0": 0.64}),
    "the sum": ({"C": 0.5, "reduction": "sum"}, {"c": 0.5, "rho": 1}),
    "the sum, a weak pull": (
        {"C": 0.5, "reduction": "sum", "threshold_strength": 0.3},
        {"c": 0.5, "rho": 0.3},
    ),
    "another margin": (
        {"margin": (0.8, 1.7), "threshold_prior": 1.1},
        {"c": 100, "rho": 1, "mu0": 1.21 / sqrt(0.8 * 1.7)},
    ),
    "another margin, fixed": (
        {"margin": (0.3, 1.2), "threshold": 0.9},
        {"c": 100, "c0": inf, "mu0": 0.81 / 0.6},
    ),
    "the identity": ({"prior": "identity", "C": 10.0}, {"c": 10, "rho": 1}),
    "within": ({"prior": "within"}, {"c": 100, "rho": 1}),
    "neighbours": ({"pairs": "neighbors"}, {"c": 100, "rho": 1}),
}


def learnt_by_letters(X, estimator, letters):
    """Call `learn_metric` on the pairs and the prior of a fitted estimator."""
    pairs, similar = estimator.pairs_, estimator.similar_
    n_pairs = len(pairs)
    weights, c = np.ones(n_pairs), letters["c"]
    if estimator.reduction == "mean":
        weights, c = balanced_weights(similar), letters["c"] / n_pairs
    squared = squared_distances(X, as_list(estimator.prior_), pairs)
    return learn_metric(
        X,
        pairs,
        similar,
        C=c,
        c0=letters["c0"] if "c0" in letters else letters["rho"] * c * n_pairs,
        mu0=letters.get("mu0", np.average(squared, weights=weights)),
        margin=estimator.margin,
        prior=as_list(estimator.prior_),
        weights=weights,
        tol=estimator.tol,
    )


def assert_same_metric(estimator, result, rtol=1e-6):
    for W, expected in zip(estimator.result_.W, result.W, strict=True):
        assert_allclose(W, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))
    assert_allclose(estimator.result_.b0, result.b0, rtol=rtol)
    low, high = estimator.margin
    if estimator.pairs != "neighbors":  # their threshold is learnt from random pairs
        assert_allclose(estimator.b0_, result.b0, rtol=rtol)
        assert_allclose(estimator.threshold_, sqrt(result.b0 * sqrt(low * high)), rtol=rtol)


@pytest.mark.parametrize("name", SETTINGS)
def test_parameters_are_the_symbols_of_the_paper(name):
    words, letters = SETTINGS[name]
    X, y = labelled(KINDS[list(SETTINGS).index(name) % len(KINDS)])
    estimator = TATML(**JOINT | FEW | words, tol=1e-11).fit(X, y)
    assert_same_metric(estimator, learnt_by_letters(X, estimator, letters))
    learnt = squared_distances(X, estimator.result_.W, estimator.pairs_)
    before = squared_distances(X, as_list(estimator.prior_), estimator.pairs_)
    assert np.max(np.abs(learnt / before - 1)) > 0.05  # something was learnt


@pytest.mark.parametrize(("prior", "margin"), [("auto", (0.5, 2.0)), ("identity", (1.0, 3.0))])
def test_the_threshold_is_pulled_to_the_root_mean_square_of_the_distances(margin, prior):
    X, y = labelled()
    options = JOINT | FEW | {"margin": margin, "prior": prior}
    unnamed = TATML(**options).fit(X, y)
    squared = squared_distances(X, [unnamed.prior_], unnamed.pairs_)
    weights = balanced_weights(unnamed.similar_)
    root_mean_square = sqrt(np.average(squared, weights=weights))
    if prior == "auto":
        assert_allclose(root_mean_square, 1)
    named = TATML(**options, threshold_prior=root_mean_square).fit(X, y)
    assert_allclose(unnamed.threshold_, named.threshold_, rtol=1e-6)
    assert_allclose(unnamed.components_, named.components_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["vectors", "three blocks"])
def test_the_preset_is_the_setting_of_the_paper(kind):
    X, y = labelled(kind, n_samples=300)
    estimator = TATML(**PAPER, random_state=0).fit(X, y)
    assert_same_metric(estimator, learn_metric(X, estimator.pairs_, estimator.similar_))
    for matrix in as_list(estimator.prior_):
        assert_array_equal(matrix, np.eye(len(matrix)))
    similar, dissimilar = (
        y[estimator.pairs_[estimator.similar_ == kind]] for kind in (True, False)
    )
    assert_array_equal(similar[:, 0], similar[:, 1])
    assert_array_equal(np.bincount(similar[:, 0]), [5, 5, 5])
    assert np.all(dissimilar[:, 0] != dissimilar[:, 1])
    assert len(dissimilar) == 15
    assert_array_equal(np.bincount(dissimilar[:, 0]), [5, 5, 5])
    assert dict(PAPER) == {
        "C": 1,
        "reduction": "sum",
        "c0": 1,
        "threshold_prior": 1,
        "margin": (0.5, 2),
        "prior": "identity",
        "pairs": "random",
        "n_pairs_per_class": 10,
        "threshold": "joint",
        "clip_outliers": False,
    }


def test_dykstra_finds_the_same_metric():
    X, y = labelled("two blocks")
    newton = TATML(**PAPER, random_state=0, tol=1e-9).fit(X, y)
    dykstra = clone(newton).set_params(solver="dykstra", tol=1e-7).fit(X, y)
    assert_array_equal(newton.pairs_, dykstra.pairs_)
    assert_same_metric(dykstra, newton.result_, rtol=2e-3)


# Units

UNITS = {
    "features": ("vectors", [np.array([1e-3, 7.0, 1e3, 0.3])]),
    "matrices": ("matrices", [1e3]),
    "blocks": ("three blocks", [1e-3, 1e3, 5.0]),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize(
    "estimator",
    [TATML(random_state=0), TATML(pairs="neighbors", prior="within"), Maz(random_state=0)],
    ids=["TATML", "TATML within neighbors", "Maz"],
)
def test_units_change_neither_neighbours_nor_predictions(estimator, name):
    kind, factors = UNITS[name]
    X, y = labelled(kind)
    plain = neighbours_and_predictions(estimator, X, y)
    scaled = neighbours_and_predictions(estimator, times(X, *factors), y)
    assert_array_equal(plain[0], scaled[0])
    assert_array_equal(plain[1], scaled[1])
    assert np.unique(plain[1]).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("kind", "factor"), [("vectors", 1e3), ("matrices", 1e-3), ("two blocks", 1e3)]
)
def test_units_change_only_the_threshold_of_euclidean(kind, factor):
    X, y = labelled(kind)
    estimator = Euclidean(random_state=0)
    plain, threshold = neighbours_and_predictions(estimator, X, y), estimator.threshold_
    scaled = neighbours_and_predictions(estimator, times(X, factor), y)
    assert_array_equal(plain[0], scaled[0])
    assert_array_equal(plain[1], scaled[1])
    assert_allclose(estimator.threshold_, factor * threshold, err_msg=kind)


# The pairs that were used


@pytest.mark.parametrize("make", [TATML, Maz, Euclidean])
def test_pairs_are_row_numbers_and_follow_the_labels(make):
    X, y = labelled("two blocks")
    names = np.array(["spruce", "birch", "oak"])[y]
    for strategy in STRATEGIES:
        estimator = make(pairs=strategy, random_state=0).fit(X, names)
        pairs, similar = estimator.pairs_, estimator.similar_
        assert_array_equal(similar, y[pairs[:, 0]] == y[pairs[:, 1]])
        assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == len(pairs), strategy
        assert np.all(pairs[:, 0] != pairs[:, 1]), strategy
        if strategy == "all":
            assert len(pairs) == 60 * 59 // 2


@pytest.mark.parametrize("make", [TATML, Maz, Euclidean])
def test_no_pair_is_drawn_from_within_a_group(make):
    X, y = labelled()
    groups = np.array([f"object {i}" for i in np.arange(60) // 6])
    for strategy in STRATEGIES:
        free = make(pairs=strategy, random_state=0).fit(X, y).pairs_
        assert np.any(groups[free[:, 0]] == groups[free[:, 1]]), strategy
        grouped = make(pairs=strategy, random_state=0).fit(X, y, groups=groups).pairs_
        assert np.all(groups[grouped[:, 0]] != groups[grouped[:, 1]]), strategy


def test_a_class_of_one_sample_gives_dissimilar_pairs_only():
    X, y = labelled()
    y = y.copy()
    y[7] = 3
    estimator = TATML(random_state=0).fit(X, y)
    with_seven = np.any(estimator.pairs_ == 7, axis=1)
    assert with_seven.sum() > 20
    assert not np.any(estimator.similar_[with_seven])


@pytest.mark.parametrize("make_seed", [int, np.random.RandomState, np.random.default_rng])
def test_a_seed_repeats_the_fit(make_seed):
    X, y = labelled("matrices")
    options = {"n_pairs_per_class": 200}  # fewer than there are
    first, second = (TATML(**options, random_state=make_seed(3)).fit(X, y) for _ in range(2))
    assert_array_equal(first.pairs_, second.pairs_)
    assert_array_equal(first.components_, second.components_)
    assert not np.array_equal(first.pairs_, TATML(**options, random_state=4).fit(X, y).pairs_)


def test_a_preprocessor_finds_the_samples():
    X, y = labelled("two blocks")
    rows = np.arange(5, 55)
    plain = TATML(**FEW).fit(X[rows], y[rows])
    by_index = TATML(**FEW, preprocessor=X).fit(rows, y[rows])
    assert_array_equal(by_index.components_[0], plain.components_[0])
    assert_array_equal(by_index.transform(rows), plain.transform(X[rows]))
    assert_array_equal(by_index.pair_distance([[7, 9]]), plain.pair_distance([[7, 9]], X))


# Warm starts, reduced embeddings and early stops


def test_a_warm_start_takes_fewer_steps_to_the_same_metric():
    X, y = labelled("two blocks")
    options = JOINT | FEW | {"tol": 1e-10}
    cold = TATML(C=1100.0, **options).fit(X, y)
    warm = TATML(C=1000.0, **options, warm_start=True).fit(X, y)
    warm.set_params(C=1100.0).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert_same_metric(warm, cold.result_, rtol=1e-4)
    other, labels = labelled("vectors")  # of another shape, so nothing to start from
    assert_array_equal(
        warm.fit(other, labels).components_,
        TATML(C=1100.0, **options).fit(other, labels).components_,
    )


def test_fewer_components_take_less_room_and_their_own_threshold():
    X, y = labelled("two blocks")
    options = FEW | {"threshold_strength": 0.3}
    reduced, full = TATML(**options, n_components=[2, 3]).fit(X, y), TATML(**options).fit(X, y)
    assert [A.shape for A in reduced.components_] == [(2, 3), (3, 4)]
    assert reduced.transform(X).shape == (60, 2 * 2 + 3)
    assert len(reduced.get_feature_names_out()) == 7
    longest = full.pair_distance(all_pairs(60), X) * (1 + 1e-12)
    assert np.all(reduced.pair_distance(all_pairs(60), X) <= longest)
    b0 = best_b0(
        reduced.pair_distance(reduced.pairs_, X) ** 2,
        np.where(reduced.similar_, 1, -1),
        weights=balanced_weights(reduced.similar_),
        strength=0.3,
        centre=1.0,
    )
    assert_allclose(reduced.b0_, b0, rtol=1e-6)
    assert reduced.b0_ < full.b0_


def test_stopping_early_warns_at_the_line_of_the_user_and_keeps_the_fit():
    X, y = labelled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = TATML(solver=Newton(max_iter=1), **FEW).fit(X, y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert estimator.n_iter_ == 1
    assert not estimator.result_.converged


# Maz and Euclidean


@pytest.mark.parametrize("kind", ["vectors", "three blocks"])
def test_maz_is_tatml_with_the_threshold_fixed(kind):
    X, y = labelled(kind)
    options = {"C": 30.0, "margin": (0.4, 1.5), "prior": "within", "threshold": 0.7} | FEW
    maz, tatml = Maz(**options).fit(X, y), TATML(**JOINT | options).fit(X, y)
    assert_array_equal(maz.transform(X), tatml.transform(X))
    assert maz.threshold_ == tatml.threshold_ == pytest.approx(0.7)
    assert maz.b0_ == pytest.approx(0.49 / sqrt(0.4 * 1.5))


@pytest.mark.parametrize("threshold", [0.8, "search"])
def test_maz_warns_once_at_the_line_of_the_user_and_its_search_is_silent(threshold):
    """Each fit of the search stops early too, but only the final fit warns."""
    X, y = labelled()
    model = Maz(threshold=threshold, cv=2, solver=Newton(max_iter=1), **FEW)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert f"gap {model.result_.gap:.3g}" in str(caught[0].message)
    assert not model.result_.converged


def test_of_equal_scores_the_first_candidate_is_chosen():
    scores = {3.0: 0.5, 1.0: 0.9, 2.0: 0.9}
    assert best_of(scores) == 1.0
    assert best_of({2.0: 0.9, 1.0: 0.9}) == 2.0


@pytest.mark.parametrize("grouped", [False, True])
def test_the_search_of_maz_is_a_grid_search(grouped):
    X, y = labelled("two blocks", n_samples=90)
    given = {"groups": np.arange(90) // 5} if grouped else {}
    folds = GroupKFold(2) if grouped else StratifiedKFold(3)
    candidates = (0.3, 1.0, 3.0)
    maz = Maz(threshold="search", thresholds=candidates, cv=folds, k=5, **FEW).fit(X, y, **given)
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(Maz(**FEW).set_fit_request(groups=True), KNeighborsClassifier(5))
        grid = GridSearchCV(model, {"maz__threshold": list(maz.thresholds)}, cv=folds)
        grid.fit(X, y, **given)
    scores = grid.cv_results_["mean_test_score"]
    assert len(set(scores)) > 1
    assert_allclose(list(maz.search_scores_.values()), scores)
    assert list(maz.search_scores_) == list(maz.thresholds)
    assert maz.threshold_ == pytest.approx(grid.best_params_["maz__threshold"])
    assert_array_equal(maz.transform(X), grid.best_estimator_[0].transform(X))


def test_a_fit_without_a_search_forgets_the_search():
    X, y = labelled()
    maz = Maz(threshold="search", thresholds=(0.5, 1.0), **FEW).fit(X, y)
    assert hasattr(maz, "search_scores_")
    maz.set_params(threshold=1.0).fit(X, y)
    assert not hasattr(maz, "search_scores_")


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_euclidean_with_labels_has_the_best_threshold(kind):
    X, y = labelled(kind)
    options = {"margin": (0.6, 1.8), "threshold_strength": 0.4, "threshold_prior": 3.0}
    assert_best_threshold(Euclidean(pairs="neighbors", **options).fit(X, y), X)


def test_euclidean_without_labels_has_no_threshold():
    X, y = labelled("two blocks")
    estimator = Euclidean(random_state=0).fit(X, y)
    assert estimator.predict_pairs([[0, 1]], X).shape == (1,)
    estimator.fit(X)
    for name in ("threshold_", "b0_", "pairs_", "similar_"):
        assert not hasattr(estimator, name)
    with pytest.raises(AttributeError, match="no threshold_, because it was fitted without"):
        estimator.predict_pairs([[0, 1]], X)
    for A, n in zip(estimator.components_, (3, 4), strict=True):
        assert_allclose(A, np.eye(n) / sqrt(2))
    assert estimator.set_threshold(1e9).predict_pairs([[0, 1]], X) == [1]


# Pairs of neighbours: found in the metric of the prior, and used only for the metric


def test_the_threshold_of_neighbours_is_that_of_random_pairs():
    X, y = labelled("two blocks")
    options = FEW | {"threshold_strength": 0.4}
    model = TATML(pairs="neighbors", **JOINT | options).fit(X, y)
    plain = Euclidean(**options).fit(model.transform(X), y)
    assert_allclose(model.threshold_, plain.threshold_, rtol=1e-9)
    low, high = model.margin
    assert_allclose(model.threshold_, sqrt(model.b0_ * sqrt(low * high)))
    of_neighbours = sqrt(model.result_.b0 * sqrt(low * high))
    assert model.threshold_ > 1.05 * of_neighbours
    fixed = TATML(pairs="neighbors", threshold=0.9, **FEW).fit(X, y)
    assert_allclose(fixed.threshold_, 0.9)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_an_absolute_strength_counts_for_the_threshold_of_neighbours_too(reduction):
    X, y = labelled("vectors")
    options = FEW | {"pairs": "neighbors", "threshold_prior": 2.0, "reduction": reduction}
    model = TATML(3.0, c0=0.7, **JOINT | options).fit(X, y)
    random = clone(model).set_params(pairs="random").fit(X, y)
    weight = 1.0 if reduction == "mean" else len(random.pairs_)
    relative = FEW | {"threshold_prior": 2.0, "threshold_strength": 0.7 / (3.0 * weight)}
    plain = Euclidean(**relative).fit(model.transform(X), y)
    assert_allclose(model.threshold_, plain.threshold_, rtol=1e-9)
    fixed = TATML(3.0, c0=inf, **options).fit(X, y)
    assert_allclose(fixed.threshold_, 2.0)


def test_the_preprocessor_is_not_copied():
    X, y = labelled("vectors")

    class Reader:
        def __call__(self, rows):
            return X[np.asarray(rows)]

        def __deepcopy__(self, memory):
            raise TypeError("an open file cannot be copied")

    model = TATML(pairs="neighbors", preprocessor=Reader(), **FEW).fit(np.arange(len(y)), y)
    assert model.threshold_ == TATML(pairs="neighbors", **FEW).fit(X, y).threshold_


@pytest.mark.parametrize(
    ("kind", "prior"),
    [
        ("vectors", "identity"),
        ("vectors", "covariance"),
        ("vectors", "discriminant"),
        ("two blocks", "within"),
        ("two blocks", "given"),
    ],
)
def test_neighbours_are_those_of_the_prior(kind, prior):
    """The embedding of W0, which a tiny C leaves as it is, gives the pairs by brute force."""
    X, y = labelled(kind)
    given = prior == "given"
    if given:
        rng = np.random.default_rng(0)
        sizes = [n for n, _ in as_blocks(X).block_shapes]
        prior = [random_spd(rng, n) for n in sizes]
    model = TATML(1e-9, prior=prior, pairs="neighbors", n_neighbors=2, random_state=0).fit(X, y)
    Z = model.transform(X)
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    same, expected = y[:, None] == y, {True: set(), False: set()}
    for i, row in enumerate(distances):
        for alike in (True, False):
            nearest = np.argsort(np.where(same[i] == alike, row, np.inf))[:2]
            expected[alike] |= {frozenset((i, int(j))) for j in nearest}
    for alike in (True, False):
        found = {frozenset(map(int, pair)) for pair in model.pairs_[model.similar_ == alike]}
        overlap = len(found & expected[alike]) / len(found | expected[alike])
        # The scale of each block of W0 follows from the pairs, which are not known yet.
        assert overlap == 1 if kind == "vectors" or given else overlap > 0.85
