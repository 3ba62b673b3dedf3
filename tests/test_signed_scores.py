"""Judging pairs by scores of any sign: thresholds, probabilities, reports and displays."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit
from signed_helpers import SignedJudge, known_pairs, pairs_of
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from tatml import Euclidean, PairThreshold
from tatml._verification.calibration import equal_error_rate
from tatml._verification.probabilities import fit_log_likelihood_ratio
from tatml.inspection import threshold_interval
from tatml.io import load_model, save_model
from tatml.plotting import DetDisplay, ErrorRateDisplay, PairDistanceDisplay, ReliabilityDisplay
from tatml.verification import error_rates, report

MAPS = [(1.0, 0.0), (1.0, -7.0), (3.0, 40.0), (1e-6, -1e-6), (1e6, 0.0)]  # (factor, offset)
TARGETS = {
    "accuracy": {},
    "f_beta": {"beta": 0.5},
    "max_tpr": {"min_rate": 0.9},
    "max_tnr": {"min_rate": 0.9},
    "false_match_rate": {"max_rate": 0.05},
    "false_non_match_rate": {"max_rate": 0.1},
    "precision": {"min_rate": 0.6, "same_rate": 0.5},
}


@pytest.fixture(params=MAPS, ids=str)
def mapped(request):
    """A factor and an offset: no decision depends on the zero or on the unit of scores."""
    return request.param


def precomputed(q, y, **options):
    return PairThreshold("precomputed", **options).fit(q, y)


# What all judges share


def test_scores_of_any_sign_are_compared_with_the_threshold():
    q, _ = known_pairs(0)
    judge, pairs = SignedJudge().fit(), pairs_of(q)
    assert_array_equal(judge.pair_score(pairs), -q)
    for threshold in (-1.5, 0.0, 0.7):
        assert judge.set_threshold(threshold).threshold_ == threshold
        assert_array_equal(judge.predict_pairs(pairs), np.where(q < threshold, 1, -1))


def test_a_threshold_of_distances_is_not_negative():
    metric = Euclidean().fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    with pytest.raises(ValueError, match=r"threshold: expected .* at least 0, got -1"):
        metric.set_threshold(-1.0)
    with pytest.raises(ValueError, match="threshold: expected a finite number, got inf"):
        SignedJudge().fit().set_threshold(np.inf)


# Thresholds


@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("strategy", TARGETS)
def test_a_calibrated_threshold_moves_with_the_scores(strategy, promised, mapped):
    factor, offset = mapped
    q, y = known_pairs(1)
    options = dict(TARGETS[strategy])
    if "max_rate" in options:
        options["confidence"] = 0.9 if promised else None
    plain, moved = (
        SignedJudge(*scale).fit().calibrate_threshold(pairs_of(q), y, strategy, **options)
        for scale in ((1.0, 0.0), mapped)
    )
    expected = factor * plain.threshold_ + offset
    assert_allclose(moved.threshold_, expected, rtol=1e-9, atol=1e-9 * factor)
    assert_array_equal(moved.predict_pairs(pairs_of(q)), plain.predict_pairs(pairs_of(q)))
    assert moved.calibration_ == plain.calibration_


@pytest.mark.parametrize("confidence", [None, 0.95])
@pytest.mark.parametrize("kind", [1, -1])
def test_a_promised_rate_holds_on_the_pairs_and_the_threshold_is_the_best_one(kind, confidence):
    q, y = known_pairs(2)
    strategy = "false_match_rate" if kind < 0 else "false_non_match_rate"
    judge = SignedJudge().fit()
    judge.calibrate_threshold(pairs_of(q), y, strategy, max_rate=0.05, confidence=confidence)
    wrong = np.sum((q[y == kind] < judge.threshold_) != (kind > 0))
    assert wrong == judge.calibration_.n_errors
    assert 0 < wrong <= 0.05 * np.sum(y == kind)
    if confidence is None:
        assert wrong == int(0.05 * np.sum(y == kind))


@pytest.mark.parametrize("offset", [-100.0, 0.0, 100.0])
def test_where_no_pair_should_be_the_same_none_is(offset):
    """All similar pairs have the lowest scores."""
    q = np.array([3.0, 4.0, 1.0, 2.0]) + offset
    y = np.array([1, 1, -1, -1])
    judge = SignedJudge().fit()
    judge.calibrate_threshold(pairs_of(q), y, "false_match_rate", max_rate=0.1, confidence=None)
    assert not np.any(q < judge.threshold_)
    judge.calibrate_threshold(pairs_of(q), y, "max_tpr", min_rate=1.0)
    assert not np.any(q < judge.threshold_)


@pytest.mark.parametrize("distances", [np.array([0.0, 1.0, 2.0]), np.array([2.0, 3.0, 5.0])])
def test_thresholds_of_distances_stay_at_least_zero(distances):
    judge = PairThreshold("precomputed").fit(distances, [1, -1, -1])
    judge.calibrate_threshold(distances[::-1], [1, -1, -1], "max_tpr", min_rate=1.0)
    assert judge.threshold_ >= 0
    assert not np.any(distances < judge.threshold_)


# Probabilities


def regression(q, similar, weights):
    """Return a and b of least log loss with Platt's targets, by a general minimiser."""
    totals = [weights[kind].sum() for kind in (similar, ~similar)]
    shares = np.where(similar, weights / totals[0], weights / totals[1])
    counts = [1 / np.sum(shares[kind] ** 2) for kind in (similar, ~similar)]
    targets = np.where(similar, 1 - 1 / (counts[0] + 2), 1 / (counts[1] + 2))

    def loss(parameters):
        odds = parameters[0] - parameters[1] * q
        return np.sum(shares * (np.logaddexp(0, odds) - targets * odds))

    return minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-10}).x


@pytest.mark.parametrize("offset", [-9.0, -0.5, 0.0, 9.0])
def test_the_likelihood_ratio_is_a_regression_on_values_of_any_sign(offset):
    q, y = known_pairs(3)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(q))
    found = fit_log_likelihood_ratio(q + offset, y > 0, weights)
    assert_allclose(found, regression(q + offset, y > 0, weights), rtol=1e-4, atol=1e-4)
    assert found[1] > 0


def test_the_likelihood_ratio_of_a_pair_does_not_depend_on_units(mapped):
    factor, offset = mapped
    q, y = known_pairs(3)
    plain, moved = (
        SignedJudge(*scale).fit().calibrate_probability(pairs_of(q), y, same_rate=0.1)
        for scale in ((1.0, 0.0), mapped)
    )
    a, b = plain.likelihood_ratio_
    expected = [a + b * offset / factor, b / factor]
    assert_allclose(moved.likelihood_ratio_, expected, rtol=1e-6, atol=1e-6)
    ratio = moved.pair_log_likelihood_ratio(pairs_of(q))
    assert_allclose(ratio, a - b * q, rtol=1e-5, atol=1e-5)
    probability = moved.pair_probability(pairs_of(q))
    assert_allclose(probability, expit(a - b * q + np.log(1 / 9)), rtol=1e-5)


@pytest.mark.parametrize("q", [np.full(6, -2.0), np.zeros(6), np.array([3.0, 2, 1, -1, -2, -3])])
def test_scores_without_order_have_no_likelihood_ratio(q):
    similar = np.repeat([True, False], 3)
    assert_array_equal(fit_log_likelihood_ratio(q, similar, np.ones(6)), [0, 0])


def test_separated_scores_have_finite_ratios():
    q = np.array([-5.0, -4.0, -3.0, -1.0, -0.5, -0.1])
    a, b = fit_log_likelihood_ratio(q, np.repeat([True, False], 3), np.ones(6))
    assert 0 < b < 100
    assert -3 < a / b < -1


# Error rates, reports and displays


def test_error_rates_do_not_depend_on_units(mapped):
    q, y = known_pairs(4, n_similar=900, n_dissimilar=2100)
    judge = SignedJudge(*mapped).fit().set_threshold(mapped[0] * -0.2 + mapped[1])
    rates = error_rates(judge, pairs_of(q), y, by=np.arange(len(q)) % 2)
    assert rates.false_match.value == np.mean(q[y < 0] < -0.2)
    assert rates.false_non_match.value == np.mean(q[y > 0] >= -0.2)
    even = slice(0, None, 2)
    assert rates.by[0].false_match.value == np.mean(q[even][y[even] < 0] < -0.2)


def test_reports_do_not_depend_on_units(mapped):
    factor, offset = mapped
    q, y = known_pairs(5)
    plain, moved = (
        SignedJudge(*scale).fit().calibrate_probability(pairs_of(q), y, same_rate=0.2)
        for scale in ((1.0, 0.0), mapped)
    )
    one, other = (report(judge, pairs_of(q), y) for judge in (plain, moved))
    assert one.auc == other.auc == roc_auc_score(y, -q)
    assert other.equal_error_rate == equal_error_rate(q, y > 0) == one.equal_error_rate
    assert other.log_loss == pytest.approx(one.log_loss, rel=1e-5)
    assert other.least_cost == one.least_cost
    names = [point.name for point in one.points]
    assert names == [point.name for point in other.points]
    for a, b in zip(one.points, other.points, strict=True):
        expected = factor * a.threshold + offset
        assert_allclose(b.threshold, expected, rtol=1e-5, atol=1e-5 * factor)
        if a.name != "probability":  # its threshold is rounded otherwise
            assert (a.false_match.n_errors, a.cost) == (b.false_match.n_errors, b.cost)
    text = str(other)
    assert f"{other['estimator'].threshold:.6g}" in text


def test_the_scores_of_probabilities_are_scikit_learns():
    q, y = known_pairs(6, n_similar=400, n_dissimilar=600)
    judge = SignedJudge(1.0, -3.0).fit().calibrate_probability(pairs_of(q), y)
    found = report(judge, pairs_of(q), y)
    probability = judge.pair_probability(pairs_of(q))
    assert found.brier == pytest.approx(brier_score_loss(y > 0, probability))
    assert found.log_loss == pytest.approx(log_loss(y > 0, probability))


@pytest.mark.parametrize(
    "display", [DetDisplay, ErrorRateDisplay, PairDistanceDisplay, ReliabilityDisplay]
)
def test_displays_of_values_of_any_sign(display):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    q, y = known_pairs(7)
    judge = SignedJudge(2.0, -3.0).fit().calibrate_probability(pairs_of(q), y)
    drawn = display.from_estimator(judge, pairs_of(q), y)
    if display is PairDistanceDisplay:
        assert_array_equal(drawn.distances, 2 * q - 3)
        below = 2 * q - 3 < judge.threshold_
        assert drawn.error_rates == (np.mean(~below[y > 0]), np.mean(below[y < 0]))
        assert drawn.ax_.get_xlabel() == "minus the score"
    if display is ReliabilityDisplay:
        assert drawn.same_rate == judge.same_rate_
    pyplot.close(drawn.figure_)


# PairThreshold


@pytest.mark.parametrize("class_weight", ["balanced", None, {-1: 3.0, 1: 1.0}])
def test_the_threshold_of_values_of_any_sign_moves_with_them(class_weight, mapped):
    factor, offset = mapped
    q, y = known_pairs(8)
    moved = factor * q + offset
    if not np.any(moved < 0):
        moved = moved - 2 * offset
    judge, other = (precomputed(v, y, class_weight=class_weight) for v in (q, moved))
    assert_array_equal(other.predict(moved), judge.predict(q))
    expected = factor * judge.threshold_ + (moved - factor * q)[0]
    assert_allclose(other.threshold_, expected, rtol=1e-6, atol=1e-6 * factor)
    assert judge.b0_ == judge.threshold_


def test_the_threshold_is_where_a_regression_finds_both_kinds_equally_likely():
    q, y = known_pairs(8)
    similar, weights = y > 0, np.ones(len(q))
    a, b = regression(q, similar, weights)
    assert precomputed(q, y).threshold_ == pytest.approx(a / b, abs=1e-4)
    odds = np.log(np.sum(similar) / np.sum(~similar))  # as they are given
    none = precomputed(q, y, class_weight=None).threshold_
    assert none == pytest.approx((a + odds) / b, abs=1e-4)
    assert none < precomputed(q, y).threshold_  # most pairs are different


def test_normal_values_have_the_threshold_half_way():
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], 20_000)
    q = rng.normal(np.where(y > 0, -3.0, 1.0), 1.5)
    assert precomputed(q, y).threshold_ == pytest.approx(-1.0, abs=0.05)


def test_weights_count_as_repeated_pairs():
    q, y = known_pairs(9)
    counts = np.random.default_rng(0).integers(0, 3, size=len(q))
    weighted = PairThreshold("precomputed").fit(q, y, sample_weight=counts)
    repeated = precomputed(np.repeat(q, counts), np.repeat(y, counts))
    assert weighted.threshold_ == pytest.approx(
        repeated.threshold_, abs=5e-3
    )  # but Platt's targets


def test_values_in_the_wrong_order_have_their_mean_as_threshold():
    q, y = known_pairs(10)
    assert precomputed(-q, y, class_weight=None).threshold_ == pytest.approx(np.mean(-q))
    balanced = precomputed(-q, y).threshold_
    assert balanced == pytest.approx((np.mean(-q[y > 0]) + np.mean(-q[y < 0])) / 2)


def test_a_refit_to_distances_has_squares_again():
    q, y = known_pairs(11)
    judge = precomputed(q, y)
    assert judge.set_threshold(-0.7).threshold_ == -0.7
    assert_array_equal(judge.pair_distance(q), q)
    judge.fit(np.abs(q), y)
    assert judge.b0_ > 0
    with pytest.raises(ValueError, match=r"threshold: expected .* at least 0, got -0.7"):
        judge.set_threshold(-0.7)
    with pytest.raises(ValueError, match=r"pairs: expected finite distances of at least 0, got -1"):
        judge.predict([-1.0])
    assert (judge.fit(q, y).any_sign_, judge.b0_) == (True, judge.threshold_)


def test_the_interval_of_the_threshold_of_values_of_any_sign():
    q, y = known_pairs(11)
    judge = precomputed(q, y).calibrate_probability(q, y)
    found = threshold_interval(judge, q, y, n_resamples=20, random_state=0)
    assert found.low < judge.threshold_ == found.value < found.high
    moved = threshold_interval(precomputed(q - 3, y), q - 3, y, n_resamples=20, random_state=0)
    assert_allclose(moved.distribution, found.distribution - 3, rtol=1e-6)
    with pytest.raises(ValueError, match="whose threshold was learnt in fit"):
        threshold_interval(judge.set_threshold(-0.1), q, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold_prior": 1.0}, "threshold_prior: expected None for values of any sign"),
        ({"margin": (0.4, 2.0)}, r"margin: expected \(0.5, 2.0\) for values of any sign"),
    ],
)
def test_what_only_distances_have_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        precomputed([-1.0, 1.0], [1, -1], **options)
    precomputed([1.0, 2.0], [1, -1], **options)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(wrong):
    with pytest.raises(ValueError, match=r"pairs: expected finite|pairs: .*(NaN|infinity)"):
        precomputed([wrong, -1.0, 1.0], [1, -1, -1])


@pytest.mark.parametrize("metric", ["cosine", lambda a, b: a[0] - b[0]], ids=["cosine", "own"])
def test_other_metrics_are_distances(metric):
    """A function of two samples has no negative values either."""
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(20, 2, 3)), np.repeat([1, -1], 10)
    if metric == "cosine":
        assert PairThreshold(metric).fit(pairs, y).b0_ > 0
    else:
        with pytest.raises(ValueError, match="metric: expected finite distances of at least 0"):
            PairThreshold(metric).fit(pairs, y)


def test_a_judge_of_values_of_any_sign_is_saved(tmp_path):
    pytest.importorskip("skops")
    q, y = known_pairs(12)
    judge = precomputed(q, y).calibrate_probability(q, y)
    found = load_model(save_model(judge, tmp_path / "judge.skops")).estimator
    assert_array_equal(found.predict_proba(q), judge.predict_proba(q))
    assert found.set_threshold(-2.0).threshold_ == -2.0
    of_distances = precomputed(np.abs(q), y)
    of_distances.threshold_ = -1.0
    with pytest.raises(ValueError, match=r"threshold_: expected .* at least 0, got -1"):
        save_model(of_distances, tmp_path / "judge.skops")
