"""TATMLNeighbors: comparisons with neighbours, drawn again in the metric learnt so far."""

import numpy as np
import pytest
from comparisons_helpers import neighbour_triplets
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from tatml import Blocks, Comparisons, TATMLNeighbors, learn_metric
from tatml._data.sampling import count_violated, neighbor_triplets
from tatml._learning.labelled import LabelledSamples
from tatml._learning.learn import CANDIDATES, N_FOLDS, choose_prior
from tatml._learning.prepare import prior_from_samples
from tatml._learning.priors import within_classes

X, Y = load_wine(return_X_y=True)


def test_triplets_are_those_of_a_direct_search():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    found = neighbor_triplets(Z, y, 3, 5)
    expected = neighbour_triplets(Z, y, 3, 5)
    assert_array_equal(found, expected[np.lexsort(expected.T[::-1])])


def test_a_class_of_one_sample_is_never_the_anchor():
    Z, y = np.arange(7.0)[:, None], np.array([0, 0, 0, 1, 1, 1, 2])
    found = neighbor_triplets(Z, y, 3, 2)
    assert set(found[:, 0]) == set(range(6))
    assert 6 in found[:, 2]
    assert len(found) == 6 * 2 * 2  # at most two others of the class


def test_missed_comparisons_are_counted_by_loops():
    rng = np.random.default_rng(1)
    Z, y, margin = rng.normal(size=(30, 2)), rng.integers(2, size=30), 0.7
    triplets = neighbor_triplets(Z, y, 2, 3)
    drawn, missed = {tuple(row) for row in triplets.tolist()}, 0
    for a, b in {row[:2] for row in drawn}:
        for c in np.flatnonzero(y != y[a]):
            far, near = (np.sum((Z[a] - Z[k]) ** 2) for k in (c, b))
            missed += far < near + margin and (a, b, int(c)) not in drawn
    assert count_violated(Z, y, triplets, margin) == missed > 0


def test_the_metric_is_that_of_learn_metric_on_the_last_comparisons():
    model = TATMLNeighbors(random_state=0, clip_outliers=False, tol=1e-9).fit(X, Y)
    n_rows = len(model.comparisons_)
    total = model.pair_weights_.sum()
    mean = np.average(
        [(X[i] - X[j]) @ model.prior_ @ (X[i] - X[j]) for i, j in model.pairs_],
        weights=model.pair_weights_,
    )
    assert_allclose(mean, 1.0)
    result = learn_metric(
        X,
        model.pairs_,
        model.similar_,
        weights=model.pair_weights_,
        C=model.pair_C / total,
        c0=model.pair_C,
        mu0=mean,
        prior=model.prior_,
        comparisons=Comparisons(model.comparisons_, C=model.C / n_rows, margin=model.margin),
        tol=1e-9,
    )
    assert_allclose(result.primal, model.result_.primal, rtol=1e-8)
    assert_allclose(result.b0, model.b0_, rtol=1e-5)


def test_rounds_end_when_the_comparisons_repeat():
    """Then the comparisons are those of the learnt metric."""
    X, y = load_iris(return_X_y=True)
    X, first = np.unique(X, axis=0, return_index=True)  # copies are one sample
    y = y[first]
    model = TATMLNeighbors(max_rounds=60, C=1.0, random_state=0).fit(X, y)
    assert 1 < model.n_rounds_ < 60
    again = neighbor_triplets(model.transform(X), y, 3, 3)
    assert_array_equal(again, model.comparisons_)
    assert model.result_.gap <= model.tol * model.result_.primal  # not the tolerance of a round
    assert TATMLNeighbors(max_rounds=1, random_state=0).fit(X, y).n_rounds_ == 1


def test_it_classifies_and_verifies():
    train, test = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    model = TATMLNeighbors(random_state=0).fit(X[train], Y[train])
    knn = KNeighborsClassifier(3).fit(model.transform(X[train]), Y[train])
    assert knn.score(model.transform(X[test]), Y[test]) > 0.93
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(test), size=(500, 2))
    same = Y[test][pairs[:, 0]] == Y[test][pairs[:, 1]]
    predicted = model.predict_pairs(pairs, X[test]) == 1
    balanced = (np.mean(predicted[same]) + np.mean(~predicted[~same])) / 2
    assert balanced > 0.75


def test_fitting_again_does_not_depend_on_the_earlier_fit():
    one = TATMLNeighbors(random_state=0).fit(X, Y)
    other = TATMLNeighbors(random_state=0).fit(X[::2], Y[::2]).fit(X, Y)
    assert_allclose(one.components_, other.components_)


@pytest.mark.parametrize("n_components", [1, 3])
def test_reduced_metrics_have_their_own_threshold(n_components):
    model = TATMLNeighbors(n_components=n_components, random_state=0).fit(X, Y)
    assert model.transform(X).shape == (len(X), n_components)
    assert model.threshold_ > 0


@pytest.mark.parametrize(("load", "best"), [(load_wine, "discriminant"), (load_digits, "scaled")])
def test_the_best_prior_has_the_most_held_out_neighbours_of_the_class(load, best):
    """Wine has columns of different units; the pixels of digits have one, and many modes."""
    X, y = (values[:600] for values in load(return_X_y=True))
    found = dict.fromkeys(CANDIDATES, 0)
    for held_out in range(N_FOLDS):
        inside = np.zeros(len(y), dtype=bool)
        for label in np.unique(y):
            inside[np.flatnonzero(y == label)[held_out::N_FOLDS]] = True
        known = Blocks(X[~inside])
        for name in CANDIDATES:
            prior = prior_from_samples(name, known, within_classes(known, y[~inside]))
            A = np.asarray(prior.own_factors()[0])
            nearest = NearestNeighbors(n_neighbors=3).fit(X[~inside] @ A.T)
            index = nearest.kneighbors(X[inside] @ A.T, return_distance=False)
            found[name] += np.sum(y[~inside][index] == y[inside][:, None])
    assert max(found, key=found.get) == choose_prior(LabelledSamples(Blocks(X), y, None), 3) == best


# The threshold


def test_the_threshold_is_cross_fitted_by_default():
    """A multiple of the joint threshold of the same metric, and the better one for new pairs."""
    Z, y = load_digits(return_X_y=True)
    given = {"random_state": 0, "max_rounds": 1, "prior": "discriminant"}
    auto, joint = (
        TATMLNeighbors(threshold=kind, **given).fit(Z[:300], y[:300]) for kind in ("auto", "joint")
    )
    assert_array_equal(auto.components_, joint.components_)
    assert auto.b0_ == joint.b0_
    assert joint.threshold_factor_ == 1.0
    assert joint.threshold_ == pytest.approx(np.sqrt(joint.b0_))
    assert auto.threshold_ == auto.threshold_factor_ * joint.threshold_
    index = np.random.default_rng(0).integers(300, len(Z), size=(20_000, 2))
    same = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    scores = [balanced_accuracy_score(same, each.predict_pairs(index, Z)) for each in (auto, joint)]
    assert scores[0] > scores[1] + 0.02


def test_a_given_threshold_is_kept():
    model = TATMLNeighbors(threshold=0.8, random_state=0, max_rounds=1).fit(X, Y)
    assert model.threshold_ == pytest.approx(0.8)
    assert model.threshold_factor_ == 1.0
    fixed = {"pairs": model.pairs_, "similar": model.similar_, "weights": model.pair_weights_}
    rows = model.comparisons_[:, [0, 1, 0, 2]]
    comparisons = Comparisons(rows, None, model.margin, model.C / len(rows))
    result = learn_metric(
        X,
        **fixed,
        C=model.pair_C / model.pair_weights_.sum(),
        c0=np.inf,
        mu0=0.8**2,
        prior=model.prior_,
        comparisons=comparisons,
        tol=1e-9,
    )
    assert_allclose(model.result_.primal, result.primal, rtol=1e-5)
    reduced = TATMLNeighbors(threshold=0.8, random_state=0, n_components=2).fit(X, Y)
    assert reduced.threshold_ == pytest.approx(0.8)


def test_a_wide_table_has_a_cross_fitted_threshold_too():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    Z = rng.normal(size=(60, 200)) + 0.8 * rng.normal(size=(2, 200))[y]
    model = TATMLNeighbors(random_state=0, max_rounds=1).fit(Z, y)
    assert model.threshold_factor_ != 1.0
    assert model.threshold_ == pytest.approx(model.threshold_factor_ * np.sqrt(model.b0_))
