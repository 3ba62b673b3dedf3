"""Probabilities that pairs are the same, and their log-likelihood ratios."""

import numpy as np
import pytest
from good_calls import (
    ESTIMATORS,
    PAIR_ESTIMATORS,
    TUPLE_ESTIMATORS,
    classes,
    fitted,
    index_pairs,
    samples,
    tuples_of,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss

from tatml import Euclidean, PairThreshold, TATMLPairs
from tatml._verification.probabilities import fit_log_likelihood_ratio
from tatml.io import load_model, save_model

INDEX, SIGNS = index_pairs()
X = samples("vectors")


def judge(distances, y):
    """A threshold for given distances, without probabilities."""
    return PairThreshold("precomputed").fit(distances, y)


def overlapping(n_pairs, seed=0):
    """Distances of two kinds that overlap, and their labels ±1, half of each."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, -1], n_pairs // 2)
    return np.abs(rng.normal(np.where(y > 0, 1.0, 2.0), 0.6)), y


def logistic(n_pairs, intercept, slope, seed=0):
    """Pairs whose log odds of being the same are intercept − slope d, for d uniform on [0, 4]."""
    rng = np.random.default_rng(seed)
    distances = rng.uniform(0, 4, n_pairs)
    return distances, np.where(rng.random(n_pairs) < expit(intercept - slope * distances), 1, -1)


# What the numbers mean


@pytest.mark.parametrize("name", ESTIMATORS)
def test_log_odds_are_the_likelihood_ratio_plus_the_prior_odds(name, tmp_path):
    """Saved models have them too."""
    pytest.importorskip("skops")
    model = fitted(ESTIMATORS[name], "vectors")
    model.set_same_rate(0.02)
    ratio = model.pair_log_likelihood_ratio(INDEX, X)
    probability = model.pair_probability(INDEX, X)
    assert_allclose(logit(probability) - logit(0.02), ratio, rtol=1e-9, atol=1e-9)
    intercept, slope = model.likelihood_ratio_
    assert_array_equal(ratio, intercept - slope * model.pair_distance(INDEX, X))
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert_array_equal(loaded.pair_probability(INDEX, X), probability)


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_another_rate_shifts_the_log_odds_by_the_difference_of_the_logits(before, after):
    distances, y = overlapping(40)
    model = judge(distances, y).calibrate_probability(distances, y, same_rate=before)
    old, ratio = model.pair_probability(distances), model.pair_log_likelihood_ratio(distances)
    new = model.set_same_rate(after).pair_probability(distances)
    assert_allclose(logit(new) - logit(old), logit(after) - logit(before), atol=1e-9)
    assert_array_equal(model.pair_log_likelihood_ratio(distances), ratio)


def test_the_likelihood_ratio_does_not_depend_on_how_many_pairs_are_the_same():
    """Repeating all dissimilar pairs changes the rate, and the ratio by Platt's targets only."""
    distances, y = overlapping(2000)
    many = np.concatenate([distances, *9 * [distances[y < 0]]])
    signs = np.concatenate([y, *9 * [y[y < 0]]])
    balanced = judge(distances, y).calibrate_probability(distances, y)
    rare = judge(many, signs).calibrate_probability(many, signs)
    assert (balanced.same_rate_, rare.same_rate_) == (0.5, pytest.approx(1 / 11))
    assert_allclose(rare.likelihood_ratio_, balanced.likelihood_ratio_, rtol=0.01)


@pytest.mark.parametrize(("intercept", "slope"), [(3.0, 2.0), (0.5, 0.4), (12.0, 5.0)])
def test_the_parameters_of_a_logistic_model_are_found(intercept, slope):
    distances, y = logistic(200_000, intercept, slope)
    prior = logit(np.mean(y > 0))
    found = fit_log_likelihood_ratio(distances, y > 0, np.ones(len(y)))
    assert_allclose(found, [intercept - prior, slope], rtol=0.03, atol=0.03)


def test_probabilities_of_new_pairs_are_frequencies():
    distances, y = logistic(40_000, 2.0, 1.5)
    model = judge(distances, y).calibrate_probability(distances, y)
    new, signs = logistic(40_000, 2.0, 1.5, seed=1)
    predicted = model.pair_probability(new)
    for low in np.arange(0, 1, 0.1):
        inside = (predicted >= low) & (predicted < low + 0.1)
        if inside.sum() > 500:
            error = 4 * 0.5 / np.sqrt(inside.sum())
            assert abs(np.mean(signs[inside] > 0) - predicted[inside].mean()) < error
    truth = expit(2.0 - 1.5 * new)
    assert log_loss(signs > 0, predicted) < log_loss(signs > 0, truth) + 1e-3
    assert brier_score_loss(signs > 0, predicted) < brier_score_loss(signs > 0, truth) + 1e-3


@given(st.integers(0, 200), st.floats(0.01, 0.99))
def test_a_larger_distance_is_never_more_probable(seed, rate):
    distances, y = overlapping(30, seed)
    model = judge(distances, y).calibrate_probability(distances, y, same_rate=rate)
    probability = model.pair_probability(np.sort(np.append(distances, [0.0, 1e9])))
    assert np.all(np.diff(probability) <= 0)
    assert 0 <= probability[-1] <= probability[0] <= 1


def test_sigmoid_calibration_of_scikit_learn_agrees():
    """With as many pairs of each kind, both solve the same problem."""
    distances, y = overlapping(600)
    model = judge(distances, y).calibrate_probability(distances, y)
    other = CalibratedClassifierCV(FrozenEstimator(judge(distances, y))).fit(distances, y)
    assert_allclose(other.predict_proba(distances), model.predict_proba(distances), atol=2e-5)


def test_columns_are_those_of_the_classes():
    distances, y = overlapping(100)
    model = judge(distances, y).calibrate_probability(distances, y, same_rate=0.3)
    table = model.predict_proba(distances)
    assert_array_equal(model.classes_, [-1, 1])
    assert_array_equal(table[:, 1], model.pair_probability(distances))
    assert_allclose(table.sum(axis=1), 1, rtol=1e-15)


# Weights, units and hard cases


def test_a_weight_of_two_is_nearly_a_pair_given_twice():
    """Platt's targets depend on the effective number of pairs, not on the sum of the weights."""
    distances, y = overlapping(200)
    weights = np.tile([2.0, 1.0], 100)
    twice = np.repeat(np.arange(200), weights.astype(int))
    weighted = judge(distances, y).calibrate_probability(distances, y, sample_weight=weights)
    repeated = judge(distances, y).calibrate_probability(distances[twice], y[twice])
    assert_allclose(weighted.likelihood_ratio_, repeated.likelihood_ratio_, rtol=0.03)
    assert weighted.same_rate_ == repeated.same_rate_
    scaled = judge(distances, y).calibrate_probability(distances, y, sample_weight=1e6 * weights)
    assert_allclose(scaled.likelihood_ratio_, weighted.likelihood_ratio_, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-100, 1e-3, 1e3, 1e100])
def test_units_do_not_matter(unit):
    distances, y = overlapping(100)
    model = judge(distances, y).calibrate_probability(distances, y)
    scaled = judge(unit * distances, y).calibrate_probability(unit * distances, y)
    assert_allclose(
        scaled.pair_probability(unit * distances), model.pair_probability(distances), rtol=1e-9
    )


def test_distances_that_separate_the_kinds_give_finite_numbers():
    distances, y = np.arange(20.0), np.repeat([1, -1], 10)
    model = judge(distances, y).calibrate_probability(distances, y)
    intercept, slope = model.likelihood_ratio_
    assert intercept / slope == pytest.approx(9.5)
    assert 0 < slope < 100


def test_distances_of_the_wrong_order_say_nothing():
    distances, y = np.arange(20.0), np.repeat([-1, 1], 10)
    with pytest.warns(
        UserWarning, match="expected similar pairs to have higher scores than dissimilar"
    ):
        model = judge(distances, y).calibrate_probability(distances, y, same_rate=0.2)
    assert_array_equal(model.pair_log_likelihood_ratio(distances), 0)
    assert_allclose(model.pair_probability(distances), 0.2)


def test_equal_distances_say_nothing():
    distances, y = np.ones(6), np.array([1, 1, 1, -1, -1, -1])
    with pytest.warns(UserWarning, match="log-likelihood ratio of all pairs is set to 0"):
        model = judge(distances, y).calibrate_probability(distances, y)
    assert_array_equal(model.likelihood_ratio_, 0)


def test_distances_too_small_to_invert_are_refused():
    distances, y = np.array([1e-320, 2e-320, 3e-320, 4e-320]), [1, 1, -1, -1]
    model = judge([0.1, 0.2, 0.8, 0.9], y)
    with pytest.raises(ValueError, match="pairs: expected distances whose inverse a float"):
        model.calibrate_probability(distances, y)
    assert not hasattr(model, "likelihood_ratio_")


# When there are probabilities


@pytest.mark.parametrize("name", ESTIMATORS)
def test_probabilities_exist_after_calibration_only(name):
    make = ESTIMATORS[name]
    model = clone(fitted(make, "vectors"))  # a clone has forgotten them
    given = (X[INDEX], SIGNS) if make in PAIR_ESTIMATORS else (X, classes())
    if make in TUPLE_ESTIMATORS:
        given = (tuples_of(make, "vectors"),)
    with pytest.raises(NotFittedError):
        model.pair_probability(INDEX, X)
    model.fit(*given)
    for call in (
        lambda: model.pair_probability(INDEX, X),
        lambda: model.pair_log_likelihood_ratio(INDEX, X),
        lambda: model.set_same_rate(0.5),
    ):
        with pytest.raises(AttributeError, match=f"^{name} has no probabilities: call calibrate_p"):
            call()
    assert not hasattr(model, "predict_proba")
    threshold = getattr(model, "threshold_", None)
    assert model.calibrate_probability(INDEX, SIGNS, X=X) is model
    assert hasattr(model, "predict_proba") == (make in PAIR_ESTIMATORS)
    assert getattr(model, "threshold_", None) == threshold
    assert model.pair_probability(INDEX, X).shape == (len(INDEX),)
    model.fit(*given)  # another metric
    assert not hasattr(model, "likelihood_ratio_")
    assert not hasattr(model, "same_rate_")


def test_precomputed_distances_forget_too():
    distances, y = overlapping(40)
    model = judge(distances, y).calibrate_probability(distances, y).fit(distances, y)
    assert not hasattr(model, "predict_proba")


def test_a_failed_fit_keeps_the_probabilities():
    model = Euclidean().fit(X, classes()).calibrate_probability(INDEX, SIGNS, X=X)
    before = model.pair_probability(INDEX, X)
    with pytest.raises(ValueError, match="y: "):
        model.fit(X, np.zeros(len(X)))
    assert_array_equal(model.pair_probability(INDEX, X), before)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("likelihood_ratio_", np.array([1.0, -1.0]), "a slope of at least 0"),
        ("likelihood_ratio_", np.array([1.0]), "an intercept and a slope"),
        ("likelihood_ratio_", np.array([np.nan, 1.0]), "expected finite numbers"),
        ("likelihood_ratio_", "ab", "expected an array, got"),
        ("same_rate_", 1.0, "between 0 and 1"),
        ("same_rate_", None, "expected a value, got none"),
    ],
)
def test_wrong_calibrations_are_not_saved(attribute, value, message, tmp_path):
    pytest.importorskip("skops")
    model = TATMLPairs().fit(X[INDEX], SIGNS).calibrate_probability(X[INDEX], SIGNS)
    setattr(model, attribute, value)
    if value is None:
        delattr(model, attribute)
    with pytest.raises((TypeError, ValueError), match=f"{attribute}: .*{message}"):
        save_model(model, tmp_path / "model.skops")


@pytest.mark.parametrize("method", ["calibrate_probability", "calibrate_threshold"])
def test_labels_of_one_kind_are_refused_before_distances_are_computed(method, monkeypatch):
    distances, y = overlapping(20)
    model = judge(distances, y)
    monkeypatch.setattr(PairThreshold, "pair_distance", None)
    with pytest.raises(ValueError, match=r"^y: expected similar \(\+1\) and dissimilar"):
        getattr(model, method)(distances, np.ones(20))
