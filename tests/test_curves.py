"""Calibrations of probabilities that are no straight line, their cost, and their reliability."""

import numpy as np
import pytest
from good_calls import classes, index_pairs, samples
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss

from tatml import TATML, PairThreshold
from tatml._verification import curves
from tatml._verification.curves import (
    FITS,
    distance_at,
    find_least_log_loss,
    fit_curve,
    held_out_losses,
    ratio_at,
)
from tatml.io import export, load_model, save_model
from tatml.verification import report

INDEX, SIGNS = index_pairs()
X = samples("vectors")
TABLES = ("isotonic", "gaussian")


def overlapping(n_pairs, seed=0, deviations=(0.6, 0.6)):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, -1], n_pairs // 2)
    return rng.normal(np.where(y > 0, 1.0, 2.0), np.where(y > 0, *deviations)), y


def calibrated(distances, y, method, **options):
    judge = PairThreshold("precomputed").fit(distances, y)
    return judge.calibrate_probability(distances, y, method=method, **options)


# The methods


def test_two_normal_laws_have_the_difference_of_their_log_densities():
    distances, y = overlapping(20_000, deviations=(0.4, 0.7))
    curve = fit_curve(distances, y > 0, np.ones(len(y)), "gaussian")
    inside = np.linspace(0.6, 2.5, 50)
    expected = norm.logpdf(inside, 1, 0.4) - norm.logpdf(inside, 2, 0.7)
    assert_allclose(ratio_at(curve, inside), expected, atol=0.08)


@pytest.mark.parametrize("deviations", [(0.4, 0.9), (0.9, 0.4)])
def test_the_parabola_is_constant_beyond_its_turning_point(deviations):
    distances, y = overlapping(4000, deviations=deviations)
    knots, ratios = fit_curve(distances, y > 0, np.ones(len(y)), "gaussian")
    s, d = deviations
    turn = (1 / s**2 - 2 / d**2) / (1 / s**2 - 1 / d**2)
    beyond = knots < turn - 0.1 if s < d else knots > turn + 0.1
    assert beyond.sum() > 20
    assert np.ptp(ratios[beyond]) == 0
    assert np.all(np.diff(ratios[~beyond & (np.abs(knots - turn) > 0.1)]) < 0)


def test_isotonic_steps_are_those_of_scikit_learn():
    """Of as many pairs of either kind, with Platt's targets."""
    distances, y = overlapping(600)
    targets = np.where(y > 0, 301 / 302, 1 / 302)
    expected = IsotonicRegression(increasing=False).fit_transform(distances, targets)
    model = calibrated(distances, y, "isotonic", same_rate=0.5)
    assert_allclose(model.pair_probability(distances), expected, rtol=1e-9)


@pytest.mark.parametrize("method", TABLES)
@given(seed=st.integers(0, 50), n_pairs=st.sampled_from([2, 6, 40]))
def test_a_larger_distance_is_never_more_probable(method, seed, n_pairs):
    distances, y = overlapping(n_pairs, seed)
    curve = fit_curve(distances, y > 0, np.ones(n_pairs), method)
    ratio = ratio_at(curve, np.sort(np.append(distances, [-1e9, 1e9])))
    assert np.isfinite(ratio).all()
    assert np.all(np.diff(ratio) <= 0)


@pytest.mark.parametrize("method", TABLES)
@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_units_do_not_matter(method, unit):
    distances, y = overlapping(60)
    found = calibrated(distances, y, method).pair_probability(distances)
    scaled = calibrated(unit * distances, y, method).pair_probability(unit * distances)
    assert_allclose(scaled, found, rtol=1e-9)


@pytest.mark.parametrize("method", [*TABLES, "auto"])
def test_distances_of_the_wrong_order_say_nothing(method):
    distances, y = np.arange(20.0), np.repeat([-1, 1], 10)
    with pytest.warns(UserWarning, match="expected similar pairs to have higher scores"):
        model = calibrated(distances, y, method, same_rate=0.2)
    assert_allclose(model.pair_probability(distances), 0.2)
    assert report(model, distances, y).cllr == pytest.approx(1)


def test_weights_count_as_repetitions():
    distances, y = overlapping(200)
    weights = np.tile([2.0, 1.0], 100)
    twice = np.repeat(np.arange(200), weights.astype(int))
    for method in TABLES:
        found = calibrated(distances, y, method, sample_weight=weights)
        repeated = calibrated(distances[twice], y[twice], method)
        ratio = [model.pair_log_likelihood_ratio(distances) for model in (found, repeated)]
        assert_allclose(*ratio, rtol=0.15, atol=0.05)  # Platt's targets differ


# The choice


def test_auto_takes_the_method_with_the_least_held_out_loss(monkeypatch):
    distances, y = overlapping(3000, deviations=(0.2, 1.2))
    similar, weights = y > 0, np.ones(len(y))
    losses = held_out_losses(distances, similar, weights)
    assert losses["gaussian"] < losses["logistic"] - 0.05
    best = min(losses, key=losses.get)
    found = fit_curve(distances, similar, weights, "auto")
    assert_array_equal(found, FITS[best](distances, similar, weights))
    monkeypatch.setitem(FITS, "isotonic", lambda *_: np.array([0.0, 0.0]))
    assert held_out_losses(distances, similar, weights)["isotonic"] == pytest.approx(np.log(2))


def test_no_curve_is_fitted_to_identities_that_are_held_out():
    rng = np.random.default_rng(0)
    units = rng.integers(60, size=(2000, 2))
    seen = 0
    for fit_on, test_on in curves._divide(len(units), units):
        assert not set(units[fit_on].ravel()) & set(units[test_on].ravel())
        seen += len(test_on)
    assert seen > 200
    rows = np.concatenate([test for _, test in curves._divide(2000, None)])
    assert_array_equal(np.sort(rows), np.arange(2000))


def test_without_folds_of_both_kinds_the_line_is_taken():
    distances, y = overlapping(4)
    model = calibrated(distances, y, "auto", groups=np.arange(8).reshape(4, 2))
    assert hasattr(model, "likelihood_ratio_")


def test_groups_are_for_the_choice_only():
    distances, y = overlapping(20)
    with pytest.raises(ValueError, match="groups: expected None with method='isotonic', got"):
        calibrated(distances, y, "isotonic", groups=np.arange(40).reshape(20, 2))


# One form or the other, everywhere


@pytest.mark.parametrize("method", TABLES)
def test_another_method_replaces_the_attribute_and_a_fit_forgets_it(method):
    distances, y = overlapping(60)
    model = calibrated(distances, y, method)
    assert not hasattr(model, "likelihood_ratio_")
    log_odds = model.pair_log_likelihood_ratio(distances) + logit(model.same_rate_)
    assert_allclose(model.predict_proba(distances)[:, 1], expit(log_odds), rtol=1e-12)
    model.calibrate_probability(distances, y)
    assert not hasattr(model, "likelihood_table_")
    model.calibrate_probability(distances, y, method=method).fit(distances, y)
    assert not {"likelihood_ratio_", "likelihood_table_", "same_rate_"} & vars(model).keys()


@pytest.mark.parametrize("method", TABLES)
def test_tables_are_saved_and_exported(method, tmp_path):
    pytest.importorskip("skops")
    model = TATML(random_state=0).fit(X, classes())
    model.calibrate_probability(INDEX, SIGNS, method=method, same_rate=0.1, X=X)
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    expected = model.pair_probability(INDEX, X)
    assert_array_equal(loaded.pair_probability(INDEX, X), expected)
    with np.load(export(model, tmp_path / "model.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    assert "likelihood_ratio" not in arrays
    ratio = np.interp(model.pair_distance(INDEX, X), *arrays["likelihood_table"])
    assert_allclose(expit(ratio + logit(arrays["same_rate"])), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([[1.0, 1.0], [2.0, 0.0]]), "increasing distances"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "do not increase"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "finite"),
        (np.zeros((3, 2)), "increasing distances"),
        (np.zeros((2, 0)), "increasing distances"),
        (np.zeros(2), "dimensions"),
    ],
)
def test_wrong_tables_are_not_saved(table, message, tmp_path):
    pytest.importorskip("skops")
    model = calibrated(*overlapping(40), "isotonic")
    model.likelihood_table_ = table
    with pytest.raises((TypeError, ValueError), match=f"likelihood_table_: .*{message}"):
        save_model(model, tmp_path / "model.skops")


def test_both_forms_together_and_a_table_without_a_rate_are_not_saved(tmp_path):
    pytest.importorskip("skops")
    model = calibrated(*overlapping(40), "isotonic")
    model.likelihood_ratio_ = np.ones(2)
    with pytest.raises(ValueError, match="likelihood_table_: expected no likelihood_ratio_"):
        save_model(model, tmp_path / "model.skops")
    del model.likelihood_ratio_, model.same_rate_
    with pytest.raises(ValueError, match="same_rate_: expected a value, got none"):
        save_model(model, tmp_path / "model.skops")


# The report


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.floats(-6, 6))
def test_pairs_are_accepted_where_the_ratio_exceeds_the_wanted_one(values, wanted):
    ratios = np.sort(values)[::-1]
    curve = np.stack([np.arange(1.0, len(values) + 1), ratios])
    distances = np.linspace(0.0, len(values) + 2.0, 200)
    accepted = distances < distance_at(curve, wanted, distances)
    found = ratio_at(curve, distances)
    clear = np.abs(found - wanted) > 1e-9
    assert_array_equal(accepted[clear], found[clear] > wanted)


def test_the_cost_of_ratios_is_the_log_loss_of_equal_odds_in_bits():
    distances, y = overlapping(400)
    for method in FITS:
        model = calibrated(distances, y, method, same_rate=0.03)
        found = report(model, distances, y)
        probability = model.set_same_rate(0.5).pair_probability(distances)
        assert found.cllr == pytest.approx(log_loss(y > 0, probability) / np.log(2))
        assert found.cllr >= found.least_cllr
        assert "Cllr" in str(found)


@given(st.integers(0, 300), st.integers(1, 3))
def test_the_least_cost_is_that_of_the_best_decreasing_steps(seed, digits):
    """With as many pairs of either kind: the isotonic regression of scikit-learn."""
    distances, y = overlapping(30, seed)
    distances = distances.round(digits)
    steps = IsotonicRegression(increasing=False).fit_transform(distances, y > 0)
    found = find_least_log_loss(distances, y > 0)
    assert found == pytest.approx(log_loss(y > 0, steps, labels=[False, True]), abs=1e-9)
    assert found <= log_loss(y > 0, expit(2 * (1.5 - distances))) + 1e-12


def test_the_least_cost_does_not_depend_on_how_many_pairs_are_the_same():
    distances, y = overlapping(200)
    many = np.concatenate([distances, distances[y < 0]]), np.concatenate([y, y[y < 0]])
    expected = find_least_log_loss(distances, y > 0)
    assert find_least_log_loss(many[0], many[1] > 0) == pytest.approx(expected)


def test_limits_of_reliability_are_wider_for_pairs_that_share_identities():
    rng = np.random.default_rng(0)
    units = np.sort(rng.integers(40, size=(3000, 2)), axis=1)
    own = rng.normal(size=40)[units].sum(axis=1)
    y = np.where(own + rng.normal(size=3000) > 0.5, 1, -1)
    distances = 3 - own - rng.normal(size=3000)
    model = calibrated(distances, y, "logistic")
    alone = report(model, distances, y, groups=np.arange(6000).reshape(-1, 2)).reliability
    shared = report(model, distances, y, groups=units).reliability
    assert_array_equal(shared.observed, alone.observed)
    assert np.mean(shared.high - shared.low) > 1.3 * np.mean(alone.high - alone.low)
    assert np.all((shared.low <= shared.observed) & (shared.observed <= shared.high))
