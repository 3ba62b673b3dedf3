"""Displays for verification: reliability diagrams."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import binom
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

from tatml import PairThreshold
from tatml.plotting import ReliabilityDisplay

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def assert_nothing_is_cut_off(figure):
    """Everything that is drawn lies inside the figure."""
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert -0.01 <= drawn.x0 <= drawn.x1 <= width + 0.01
    assert -0.01 <= drawn.y0 <= drawn.y1 <= height + 0.01


def reliable(n_pairs, seed=0):
    """Probabilities, and labels ±1 that are drawn with them."""
    rng = np.random.default_rng(seed)
    probability = expit(2 * rng.normal(size=n_pairs))
    return probability, np.where(rng.random(n_pairs) < probability, 1, -1)


# Reliability


def test_bins_are_those_of_the_pairs():
    probability, y = reliable(400)
    display = ReliabilityDisplay.from_predictions(probability, y, n_bins=7)
    assert display.counts.sum() == 400
    assert len(display.counts) == 7
    assert np.all(np.diff(display.predicted) > 0)
    assert_allclose(display.counts @ display.predicted, probability.sum())
    assert_allclose(display.counts @ display.observed, np.sum(y > 0))
    line = display.ax_.containers[0].lines[0]
    assert_array_equal(line.get_xdata(), display.predicted)
    assert_array_equal(line.get_ydata(), display.observed)
    assert_nothing_is_cut_off(display.figure_)


def test_one_bin_for_each_probability_is_the_curve_of_scikit_learn():
    rng = np.random.default_rng(0)
    probability = rng.choice([0.05, 0.35, 0.65, 0.95], 200)
    y = np.where(rng.random(200) < probability, 1, -1)
    display = ReliabilityDisplay.from_predictions(probability, y, n_bins=50)
    share, predicted = calibration_curve(y, probability, n_bins=4)
    assert_allclose(display.observed, share)
    assert_allclose(display.predicted, predicted)


def test_intervals_of_reliable_probabilities_cover_the_diagonal():
    covered = []
    for seed in range(40):
        display = ReliabilityDisplay.from_predictions(*reliable(300, seed))
        covered += list((display.low <= display.predicted) & (display.predicted <= display.high))
        plt.close("all")
    assert len(covered) > 350
    assert np.mean(covered) > 0.95


def test_ends_of_intervals_are_exact():
    """P(at least k) at the lower end and P(at most k) at the upper end are (1 − level) / 2."""
    probability, y = np.repeat([0.2, 0.8], 10), np.repeat([1, -1, 1, -1], [3, 7, 10, 0])
    display = ReliabilityDisplay.from_predictions(probability, y, confidence_level=0.9)
    assert_array_equal(display.counts, [10, 10])
    assert binom.sf(2, 10, display.low[0]) == pytest.approx(0.05)
    assert binom.cdf(3, 10, display.high[0]) == pytest.approx(0.05)
    assert binom.sf(9, 10, display.low[1]) == pytest.approx(0.05)
    assert display.high[1] == 1


def test_probabilities_for_another_rate_are_judged_at_that_rate():
    """Leaving out most of the similar pairs must not make reliable probabilities unreliable."""
    probability, y = reliable(40_000)
    rate = float(np.mean(y > 0))
    kept = (y < 0) | (np.arange(len(y)) % 10 == 0)
    whole = ReliabilityDisplay.from_predictions(probability, y, n_bins=5)
    part = ReliabilityDisplay.from_predictions(probability[kept], y[kept], same_rate=rate, n_bins=5)
    wrong = ReliabilityDisplay.from_predictions(probability[kept], y[kept], n_bins=5)
    for display, largest in ((whole, 0.02), (part, 0.05)):
        assert np.max(np.abs(display.observed - display.predicted)) < largest
    assert np.max(np.abs(wrong.observed - wrong.predicted)) > 0.3


def test_an_estimator_gives_its_probabilities_and_its_rate():
    rng = np.random.default_rng(0)
    distances = rng.uniform(0, 4, 500)
    y = np.where(rng.random(500) < expit(2 - 1.5 * distances), 1, -1)
    judge = PairThreshold("precomputed").fit(distances, y)
    with pytest.raises(AttributeError, match="has no probabilities: call calibrate_probability"):
        ReliabilityDisplay.from_estimator(judge, distances, y)
    judge.calibrate_probability(distances, y, same_rate=0.2)
    display = ReliabilityDisplay.from_estimator(judge, distances, y, name="Pairs")
    assert_array_equal(display.probability, judge.pair_probability(distances))
    assert (display.same_rate, display.ax_.get_title()) == (0.2, "Pairs")
    axis = plt.subplots()[1]
    assert display.plot(axis).ax_ is axis


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"probability": [0.1, 1.2]}, ValueError, "probability: expected numbers from 0 to 1, got"),
        ({"probability": [0.1, -0.2]}, ValueError, "probability: expected .*got -0.2"),
        ({"y": [1, 1]}, ValueError, "y: expected similar"),
        ({"y": [1, -1, 1]}, ValueError, "y: expected one value for each of the 2"),
        ({"n_bins": 1}, ValueError, "n_bins: expected .*got 1"),
        ({"n_bins": 2.5}, TypeError, "n_bins: expected"),
        ({"same_rate": 0}, ValueError, "same_rate: expected a number between 0 and 1, got 0"),
        ({"confidence_level": 1}, ValueError, "confidence_level: expected .*got 1"),
    ],
)
def test_wrong_probabilities_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        ReliabilityDisplay.from_predictions(**{"probability": [0.1, 0.9], "y": [-1, 1]} | given)


def test_other_estimators_are_refused():
    fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(AttributeError, match="pair_probability, got LogisticRegression"):
        ReliabilityDisplay.from_estimator(fitted, [0.1], [1])
