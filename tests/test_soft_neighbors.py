"""Soft votes of neighbours: the formula, the choice by leaving one out, invariances, edge cases."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_estimators_sklearn import failed_checks

from tatml import TATML, SoftNeighborsClassifier, SoftNeighborsRegressor
from tatml._estimators import soft_neighbors
from tatml._estimators.soft_neighbors import NEIGHBORS, PSEUDO_COUNTS, TEMPERATURES

BOTH = [SoftNeighborsClassifier, SoftNeighborsRegressor]


def table(n=60, seed=0):
    """Return samples of three classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 1.2 * y[:, None] * np.eye(4)[0], y


def outputs(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def weights_of(x, X, k, t):
    """Return the weight of each sample, by the formula: 0 for all but the k nearest."""
    distances = np.sqrt(((X - x) ** 2).sum(axis=1))
    nearest = np.argsort(distances, kind="stable")[:k]
    weights = np.zeros(len(X))
    weights[nearest] = np.exp(-(distances[nearest] - distances.min()) / t)
    return weights


def probabilities_of(x, X, y, k, t, pseudo, prior):
    weights = weights_of(x, X, k, t)
    votes = np.array([weights[y == c].sum() for c in range(len(prior))])
    return (votes + pseudo * prior) / (votes.sum() + pseudo)


# The formula


@pytest.mark.parametrize("pseudo", [0.0, 0.3])
@pytest.mark.parametrize(("k", "t"), [(1, 1.0), (7, 0.2), (7, 3.0), (60, 0.5), (12, np.inf)])
def test_probabilities_are_those_of_the_formula(k, t, pseudo):
    X, y = table()[0], np.minimum(np.arange(60) % 5, 2)
    new = table(9, seed=1)[0]
    model = SoftNeighborsClassifier(k, temperature=t, pseudo_count=pseudo).fit(X, y)
    assert_allclose(model.class_prior_, [0.2, 0.2, 0.6])
    expected = [probabilities_of(x, X, y, k, t, pseudo, model.class_prior_) for x in new]
    assert_allclose(model.predict_proba(new), expected, atol=1e-12)
    assert_array_equal(model.predict(new), np.argmax(expected, axis=1))
    assert (model.n_neighbors_, model.temperature_, model.pseudo_count_) == (k, t, pseudo)


@pytest.mark.parametrize("targets", [np.arange(60.0) ** 1.5, table()[0][:, :2] ** 2])
def test_regression_is_the_weighted_mean(targets):
    X, new = table()[0], table(9, seed=1)[0]
    model = SoftNeighborsRegressor(7, temperature=0.4).fit(X, targets)
    expected = [np.average(targets, axis=0, weights=weights_of(x, X, 7, 0.4)) for x in new]
    assert_allclose(model.predict(new), expected)


def test_at_infinite_temperature_the_votes_are_those_of_scikit_learn():
    X, y = table(90)
    new = table(30, seed=1)[0]
    classifier = SoftNeighborsClassifier(8, temperature=np.inf, pseudo_count=0).fit(X, y)
    expected = KNeighborsClassifier(8).fit(X, y).predict_proba(new)
    assert_allclose(classifier.predict_proba(new), expected)
    regressor = SoftNeighborsRegressor(8, temperature=np.inf).fit(X, X[:, :2])
    assert_allclose(regressor.predict(new), KNeighborsRegressor(8).fit(X, X[:, :2]).predict(new))


def test_at_a_low_temperature_the_nearest_neighbour_decides():
    X, y = table(90)
    new = table(30, seed=1)[0]
    model = SoftNeighborsClassifier(temperature=1e-300, pseudo_count=0).fit(X, y)
    assert_array_equal(model.predict(new), KNeighborsClassifier(1).fit(X, y).predict(new))
    assert_array_equal(model.predict_proba(new).max(axis=1), 1.0)


# The choice by leaving one out


def candidates_for(X):
    """Return all numbers of neighbours and temperatures, computed one sample at a time."""
    n = len(X)
    counts = sorted({min(k, n) for k in NEIGHBORS})
    excess = []
    for i in range(n):
        distances = np.sort(np.sqrt(((np.delete(X, i, axis=0) - X[i]) ** 2).sum(axis=1)))
        excess.extend(distances[: min(counts[-1], n - 1)] - distances[0])
    unit = np.median([e for e in excess if e > 0])
    return counts, [unit * factor for factor in TEMPERATURES]


def left_out(X, y, i):
    return np.delete(X, i, axis=0), np.delete(y, i, axis=0)


def loss_of_votes(X, y, k, t, pseudo):
    """Return the log loss of the samples, each left out, and of one without votes for its class."""
    prior = np.bincount(y) / len(y)
    own, totals = [], []
    for i, x in enumerate(X):
        rest, labels = left_out(X, y, i)
        own.append(probabilities_of(x, rest, labels, k, t, pseudo, prior)[y[i]])
        totals.append(weights_of(x, rest, k, t).sum())
    imagined = pseudo / 3 / (np.mean(totals) + pseudo)
    return -np.mean(np.log([*own, imagined]))


def loss_of_means(X, y, k, t):
    errors = []
    for i, x in enumerate(X):
        rest, targets = left_out(X, y, i)
        errors.append(np.average(targets, axis=0, weights=weights_of(x, rest, k, t)) - y[i])
    return np.sum(np.mean(np.square(errors), axis=0) / np.var(y, axis=0))


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_for_classes_is_that_of_a_search_by_hand(seed, monkeypatch):
    monkeypatch.setattr(soft_neighbors, "TEMPERATURES", TEMPERATURES[4::4])
    monkeypatch.setattr(soft_neighbors, "PSEUDO_COUNTS", PSEUDO_COUNTS[6::3])
    X, y = table(30, seed)
    counts, temperatures = candidates_for(X)
    losses = {
        (k, t, pseudo): loss_of_votes(X, y, k, t, pseudo)
        for k in counts
        for t in temperatures[4::4]
        for pseudo in PSEUDO_COUNTS[6::3]
    }
    model = SoftNeighborsClassifier().fit(X, y)
    found = (model.n_neighbors_, model.temperature_, model.pseudo_count_)
    assert_allclose(found, min(losses, key=losses.get))


@pytest.mark.parametrize("columns", [[0], [0, 1]])
def test_the_choice_for_numbers_is_that_of_a_search_by_hand(columns):
    X = table(30)[0]
    y = (X**2)[:, columns] * [1.0, 1000.0][: len(columns)]
    counts, temperatures = candidates_for(X)
    losses = {(k, t): loss_of_means(X, y, k, t) for k in counts for t in temperatures}
    model = SoftNeighborsRegressor().fit(X, y[:, 0] if len(columns) == 1 else y)
    assert_allclose((model.n_neighbors_, model.temperature_), min(losses, key=losses.get))


def test_what_is_given_stays_and_the_rest_is_chosen():
    X, y = table(90)
    free = SoftNeighborsClassifier().fit(X, y)
    for name in ("n_neighbors", "temperature", "pseudo_count"):
        chosen = {name: getattr(free, f"{name}_")}
        model = SoftNeighborsClassifier(**chosen).fit(X, y)
        assert getattr(model, f"{name}_") == chosen[name]
    other = SoftNeighborsClassifier(temperature=3 * free.temperature_).fit(X, y)
    assert other.temperature_ == 3 * free.temperature_
    assert other.pseudo_count_ in PSEUDO_COUNTS


def test_a_sample_is_no_neighbour_of_itself():
    """Labels are noise: a sample that judged itself would find the smallest temperature best."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(2, size=400)
    model = SoftNeighborsClassifier().fit(X, y)
    assert log_loss(y, model.predict_proba(X)) > 0.6
    assert abs(model.predict_proba(rng.normal(size=(50, 3))) - 0.5).mean() < 0.1


def test_a_duplicate_is_a_neighbour_and_the_sample_itself_is_not():
    """Of three copies of a row, the two others of the same class are found, or of the other."""
    X = np.repeat(np.arange(12.0)[:, None] ** 2, 3, axis=0)
    y = np.repeat(np.arange(12) % 2, 3)
    assert SoftNeighborsClassifier().fit(X, y).predict_proba(X)[np.arange(36), y].min() > 0.9
    own = np.arange(36)
    distances, index = SoftNeighborsClassifier().fit(X, y)._nearest(X - X.mean(), 2, own)
    assert_array_equal(distances, 0.0)
    assert_array_equal(
        np.sort(index), [[i for i in range(j - j % 3, j - j % 3 + 3) if i != j] for j in own]
    )


def test_a_sample_is_left_out_among_more_duplicates_than_neighbours():
    X, y = np.zeros((50, 3)), np.arange(50) % 2
    model = SoftNeighborsClassifier(4).fit(X, y)
    own = np.arange(50)
    _, index = model._nearest(X, 4, own)
    assert index.shape == (50, 4)
    assert not np.any(index == own[:, None])


def test_distances_are_sorted_where_products_of_large_numbers_are_not():
    """Two clusters far apart: |x|² + |y|² − 2 x·y has no digit of the distances within one."""
    rng = np.random.default_rng(0)
    X = 1e-6 * rng.normal(size=(60, 20)) + 1e4 * np.where(np.arange(60) % 2, 1, -1)[:, None]
    model = SoftNeighborsClassifier(20).fit(X, np.arange(60) % 2)
    distances, index = model._nearest(model._samples, 20)
    assert_allclose(
        distances, np.linalg.norm(model._samples[:, None] - model._samples[index], axis=2)
    )
    assert np.all(np.diff(distances, axis=1) >= 0)
    sharp = SoftNeighborsClassifier(20, temperature=1e-300, pseudo_count=0)
    sharp.fit(X, np.arange(60) % 7)
    assert np.isfinite(sharp.predict_proba(X)).all()


def test_many_samples_are_judged_by_some_of_them(monkeypatch):
    X, y = table(600)
    whole = SoftNeighborsClassifier().fit(X, y)
    monkeypatch.setattr(soft_neighbors, "MOST_LEFT_OUT", 100)
    some = [SoftNeighborsClassifier(random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    probabilities = [model.predict_proba(X) for model in some]
    assert_array_equal(probabilities[0], probabilities[1])
    assert {(m.n_neighbors_, m.temperature_) for m in some} != {
        (whole.n_neighbors_, whole.temperature_)
    }
    assert log_loss(y, probabilities[0]) == pytest.approx(log_loss(y, whole.predict_proba(X)), 0.1)


# Invariances


@pytest.mark.parametrize("make", BOTH)
def test_the_order_of_the_samples_does_not_matter(make):
    X, y = table(90)
    order = np.random.default_rng(0).permutation(90)
    expected = outputs(make().fit(X, y), X)
    assert_allclose(outputs(make().fit(X[order], y[order]), X), expected)


@pytest.mark.parametrize("make", BOTH)
def test_shifts_rotations_and_units_do_not_matter(make):
    X, y = table(90)
    new = table(30, seed=1)[0]
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    model = make().fit(X, y)
    moved = make().fit(1e3 * X @ rotation + 1e6, y)
    assert moved.n_neighbors_ == model.n_neighbors_
    assert_allclose(moved.temperature_, 1e3 * model.temperature_, rtol=1e-6)
    assert_allclose(outputs(moved, 1e3 * new @ rotation + 1e6), outputs(model, new), rtol=1e-5)


def test_regression_follows_affine_maps_of_the_targets():
    X, new = table(90)[0], table(30, seed=1)[0]
    y = np.sin(X[:, 0])
    expected = 5 * SoftNeighborsRegressor().fit(X, y).predict(new) - 3
    assert_allclose(SoftNeighborsRegressor().fit(X, 5 * y - 3).predict(new), expected)


def test_names_of_classes_do_not_matter():
    X, y = table(90)
    names = np.array(["b", "c", "a"])[y]
    model, named = (SoftNeighborsClassifier().fit(X, labels) for labels in (y, names))
    assert_array_equal(named.classes_, ["a", "b", "c"])
    assert_allclose(named.predict_proba(X)[:, [1, 2, 0]], model.predict_proba(X))
    assert set(named.predict(X)) <= set("abc")


@pytest.mark.parametrize("make", BOTH)
def test_chunks_do_not_matter(make, monkeypatch):
    X, y = table(90)
    expected = outputs(make().fit(X, y), X)
    monkeypatch.setattr(soft_neighbors, "CHUNK_NUMBERS", 500)
    assert_allclose(outputs(make().fit(X, y), X), expected)


def test_single_precision_stays_and_agrees():
    X, y = table(90)
    model, single = (SoftNeighborsClassifier(8).fit(Z, y) for Z in (X, X.astype(np.float32)))
    assert single._samples.dtype == np.float32
    assert_allclose(single.predict_proba(X), model.predict_proba(X), atol=1e-4)


# Probabilities


def test_rows_sum_to_one_and_no_class_is_impossible():
    X, y = load_digits(return_X_y=True)
    model = SoftNeighborsClassifier().fit(X[:600], y[:600])
    probabilities = model.predict_proba(X[600:])
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert probabilities.min() > 0
    assert_allclose(model.class_prior_, np.bincount(y[:600]) / 600)


def test_far_from_all_samples_the_nearest_still_vote():
    X, y = table(90)
    model = SoftNeighborsClassifier(4, temperature=1e-3, pseudo_count=0.1).fit(X, y)
    assert_allclose(model.predict_proba(X[:1] + 1e9).sum(), 1.0)


@pytest.mark.parametrize("embed", [StandardScaler(), TATML(random_state=0)], ids=str)
@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_log_loss_is_below_that_of_plain_votes(load, embed):
    X, y = load(return_X_y=True)
    X, y = X[:900], y[:900]
    grid = GridSearchCV(
        KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 10, 20]}, scoring="neg_log_loss", cv=3
    )
    embed = clone(embed).fit(X[::2], y[::2])
    train, test = embed.transform(X[::2]), embed.transform(X[1::2])
    plain, soft = (
        log_loss(y[1::2], model.fit(train, y[::2]).predict_proba(test))
        for model in (grid, SoftNeighborsClassifier())
    )
    assert soft < plain


# Edge cases


def test_equal_samples_share_the_votes():
    model = SoftNeighborsClassifier().fit([[1.0, 2.0], [1.0, 2.0]], ["a", "b"])
    assert_allclose(model.predict_proba([[1.0, 2.0], [5.0, 5.0]]), 0.5)
    X, y = np.full((50, 20), 1 / 3), np.arange(50) % 2
    assert_allclose(SoftNeighborsClassifier(50).fit(X, y).predict_proba(X), 0.5)
    assert_allclose(SoftNeighborsRegressor(50).fit(X, y).predict(X), 0.5)


def test_one_class_is_certain():
    X, _ = table()
    model = SoftNeighborsClassifier().fit(X, np.full(60, "only"))
    assert_allclose(model.predict_proba(X), np.ones((60, 1)))
    assert_array_equal(model.predict(X[:2]), ["only", "only"])


@pytest.mark.parametrize("make", BOTH)
def test_more_neighbours_than_samples_are_all_samples(make):
    X, y = table()
    model, all_of_them = (make(k, temperature=1.0).fit(X, y) for k in (1000, 60))
    assert model.n_neighbors_ == 60
    assert_array_equal(outputs(model, X), outputs(all_of_them, X))
    assert make().fit(X[:3], y[:3]).n_neighbors_ == 3


def test_constant_targets_are_predicted():
    X, _ = table()
    assert_allclose(SoftNeighborsRegressor().fit(X, np.full(60, 7.5)).predict(X), 7.5)


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors: expected at least 1, got 0"),
        ({"n_neighbors": 2.5}, "n_neighbors: expected an integer, got 2.5"),
        ({"temperature": 0}, "temperature: expected a positive number or numpy.inf, got 0"),
        ({"temperature": "auto"}, "temperature: expected a number, got 'auto'"),
        ({"random_state": "x"}, "random_state: expected None, an integer"),
    ],
)
def test_wrong_parameters_are_refused_by_name(make, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(**parameters).fit(*table())


def test_wrong_pseudo_counts_are_refused_by_name():
    with pytest.raises(ValueError, match="pseudo_count: expected a finite number of at least 0"):
        SoftNeighborsClassifier(pseudo_count=-1).fit(*table())


@pytest.mark.parametrize("make", BOTH)
def test_numbers_whose_distances_overflow_are_refused(make):
    X, y = table()
    with pytest.raises(ValueError, match="X: expected numbers within"):
        make().fit(1e200 * X, y)
    with pytest.raises(ValueError, match=r"X: expected numbers within .*, got 1e\+200"):
        make().fit(X, y).predict(np.full((1, 4), 1e200))
    assert np.isfinite(outputs(make().fit(1e150 * X, y), 1e150 * X)).all()


# In scikit-learn


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
@pytest.mark.parametrize("make", BOTH)
def test_the_checks_of_scikit_learn(make):
    assert failed_checks(make()) == {}


@pytest.mark.parametrize("make", BOTH)
def test_pickling_and_cloning(make):
    X, y = table()
    model = make(random_state=3).fit(X, y)
    assert_array_equal(outputs(pickle.loads(pickle.dumps(model)), X), outputs(model, X))
    assert_array_equal(outputs(clone(model).fit(X, y), X), outputs(model, X))


def test_in_a_pipeline_after_a_metric():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(TATML(random_state=0), SoftNeighborsClassifier())
    assert cross_val_score(model, X, y, cv=3).min() > 0.93
    assert cross_val_score(model, X, y, cv=3, scoring="neg_log_loss").mean() > -0.2


def test_there_are_no_weights():
    with pytest.raises(TypeError, match="sample_weight"):
        SoftNeighborsClassifier().fit(*table(), sample_weight=np.ones(60))


# Intervals


def inside(intervals, y):
    return (intervals[..., 0] <= y) & (y <= intervals[..., 1])


def noisy(n_samples, seed):
    """Return samples whose targets have noise that grows with the first number."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_samples, 2))
    return X, np.sin(3 * X[:, 1]) + (0.1 + X[:, 0]) * rng.standard_t(4, size=n_samples)


def test_intervals_are_predictions_and_spreads_by_hand():
    X, y = noisy(40, 0)
    model = SoftNeighborsRegressor(5, temperature=0.2).fit(X, y)

    def moments(x, rows):
        distances = np.linalg.norm(X[rows] - x, axis=1)
        order = np.argsort(distances)[:5]
        votes = np.exp((distances[order].min() - distances[order]) / 0.2)
        mean = np.average(y[rows][order], weights=votes)
        return mean, np.average((y[rows][order] - mean) ** 2, weights=votes), votes.sum()

    all_rows = np.arange(40)
    left_out = np.array([moments(X[i], np.delete(all_rows, i)) for i in all_rows])
    usual = left_out[:, 1].mean()

    def spread(variance, total):
        return np.sqrt((total * variance + usual) / (total + 1))

    scores = np.sort(np.abs(y - left_out[:, 0]) / spread(left_out[:, 1], left_out[:, 2]))
    new = noisy(7, 1)[0]
    found = [moments(x, all_rows) for x in new]
    for coverage, rank in ((0.8, 33), (0.5, 21), (40 / 41, 40)):  # ceil(41 · coverage)
        reach = [scores[rank - 1] * spread(*parts[1:]) for parts in found]
        means = np.array([parts[0] for parts in found])
        expected = np.stack([means - reach, means + reach], axis=1)
        assert_allclose(model.predict_interval(new, coverage), expected, rtol=1e-10)
    assert_allclose(model.predict_interval(new).mean(axis=1), model.predict(new), rtol=1e-10)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_as_many_new_targets_as_they_say(coverage):
    shares = []
    for seed in range(6):
        (X, y), (new, given) = noisy(400, seed), noisy(1000, 100 + seed)
        intervals = SoftNeighborsRegressor().fit(X, y).predict_interval(new, coverage)
        shares.append(inside(intervals, given).mean())
        width = intervals[:, 1] - intervals[:, 0]
        assert width[new[:, 0] > 0.8].mean() > 2 * width[new[:, 0] < 0.2].mean()
    assert abs(np.mean(shares) - coverage) < 0.03


def test_held_out_samples_promise_a_coverage_whatever_was_learnt_before():
    """Over many draws it is at least that promised, and at most 1/(n + 1) more.

    The model predicts its own samples perfectly: of these, the intervals are far too short.
    """
    rng = np.random.default_rng(0)
    shares, short = [], []
    for _ in range(300):
        X, y = rng.normal(size=(80, 1)), rng.normal(size=80)
        known = np.column_stack([X[:40], y[:40]])  # an embedding that knows the targets
        others = np.column_stack([X[40:], np.zeros(40)])
        model = SoftNeighborsRegressor(3, temperature=1.0).fit(known, y[:40])
        short.append(inside(model.predict_interval(others[19:], 0.9), y[59:]).mean())
        model.calibrate_interval(others[:19], y[40:59])
        shares.append(inside(model.predict_interval(others[19:], 0.9), y[59:]).mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert 0.9 - 3 * error < np.mean(shares) < 0.9 + 1 / 20 + 3 * error
    assert np.mean(short) < 0.8


def test_several_targets_have_their_own_intervals_and_units():
    X, y = noisy(200, 0)
    both = np.column_stack([y, 1e3 * y[::-1]])
    model = SoftNeighborsRegressor(8, temperature=0.3).fit(X, both)
    found = model.predict_interval(X[:9], 0.8)
    assert found.shape == (9, 2, 2)
    for k in range(2):
        single = SoftNeighborsRegressor(8, temperature=0.3).fit(X, both[:, k])
        assert_allclose(found[:, k], single.predict_interval(X[:9], 0.8), rtol=1e-9)
    constant = SoftNeighborsRegressor().fit(X, np.full(200, 2.5)).predict_interval(X[:3])
    assert_allclose(constant, 2.5)


def test_intervals_that_cannot_be_are_refused_by_name():
    X, y = noisy(19, 0)
    model = SoftNeighborsRegressor().fit(X, y)
    assert np.isfinite(model.predict_interval(X, 0.95)).all()
    for coverage, message in (
        (0.96, "coverage: expected at most 0.95 with 19 samples, got 0.96"),
        (1.0, "coverage: expected a number between 0 and 1, got 1.0"),
        ("90%", "coverage: expected a number, got '90%'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.predict_interval(X, coverage)
    with pytest.raises(ValueError, match=r"y: expected shape \(19,\) as in fit, got \(19, 2\)"):
        model.calibrate_interval(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="NaN"):
        model.calibrate_interval(X, np.where(y > 0, np.nan, y))
    with pytest.raises(NotFittedError):
        SoftNeighborsRegressor().predict_interval(X)
