"""Displays for verification: reliability diagrams, DET curves and error rates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import binomtest, norm
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

from tatml import PairThreshold
from tatml.plotting import DetDisplay, ErrorRateDisplay, ReliabilityDisplay
from tatml.verification import report

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("closed_figures")


def assert_nothing_is_cut_off(figure):
    """Everything that is drawn lies inside the figure."""
    figure.draw_without_rendering()
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
    (diagonal,) = (line for line in display.ax_.lines if line.get_label() == "reliable")
    assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    same, different = (line for line in display.ax_.lines if line.get_alpha() == 0.3)
    for marks, kind, place in ((same, y > 0, 1.02), (different, y < 0, -0.02)):
        assert_array_equal(marks.get_xdata(), probability[kind])
        assert set(marks.get_ydata()) == {place}
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


@pytest.mark.parametrize("n_same", [(3, 10), (0, 9), (1, 7), (2, 8)])
def test_ends_of_intervals_are_exact(n_same):
    """Those of Clopper and Pearson."""
    probability = np.repeat([0.2, 0.8], 10)
    y = np.concatenate([np.repeat([1, -1], [k, 10 - k]) for k in n_same])
    display = ReliabilityDisplay.from_predictions(probability, y, confidence_level=0.9)
    assert_array_equal(display.counts, [10, 10])
    for k, low, high in zip(n_same, display.low, display.high, strict=True):
        assert_allclose([low, high], binomtest(k, 10).proportion_ci(0.9), atol=1e-12)


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
    with pytest.raises(TypeError, match="pair_probability, got LogisticRegression"):
        ReliabilityDisplay.from_estimator(fitted, [0.1], [1])


# DET curves and error rates


def a_report(n_similar=300, n_dissimilar=3000):
    """The report of a threshold on other pairs, with calibrated probabilities."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [2 * n_similar, 2 * n_dissimilar])
    distances = np.abs(rng.normal(np.where(y > 0, 1.0, 3.0), 0.7))
    judge = PairThreshold("precomputed").fit(distances[::2], y[::2])
    judge.calibrate_probability(distances[::2], y[::2])
    return report(judge, distances[1::2], y[1::2]), judge, distances[1::2], y[1::2]


def test_a_det_curve_has_the_rates_of_its_thresholds():
    found, _, distances, y = a_report()
    display = DetDisplay.from_report(found, n_points=24)
    line = next(line for line in display.ax_.lines if len(line.get_xdata()) > 10)
    fmr, fnmr = norm.cdf(line.get_xdata()), norm.cdf(line.get_ydata())
    assert np.all(np.diff(fmr) >= 0)
    assert np.all(np.diff(fnmr) <= 0)
    points = [(np.mean(distances[y < 0] < t), np.mean(distances[y > 0] >= t)) for t in distances]
    for point in zip(fmr, fnmr, strict=True):
        assert np.min(np.abs(np.subtract(points, point)).max(axis=1)) < 1e-3
    assert_nothing_is_cut_off(display.figure_)


def test_a_det_curve_marks_thresholds_with_both_limits():
    found, *_ = a_report()
    display = DetDisplay.from_report(found)
    marked = [bars.get_label() for bars in display.ax_.containers]
    assert marked == [f"{point.name}: {point.threshold:.4g}" for point in display.marked]
    assert [point.name for point in display.marked][:3] == [
        *("estimator", "probability", "equal error rate")
    ]
    for point, bars in zip(display.marked, display.ax_.containers, strict=True):
        horizontal, vertical = (segment.get_segments()[0] for segment in bars.lines[2])
        rate = point.false_match
        ends = np.clip([rate.low, rate.high], 0.5 / 3000, 1)
        assert_allclose(norm.cdf(horizontal[:, 0]), ends, rtol=1e-9)
        rate = point.false_non_match
        assert_allclose(norm.cdf(vertical[:, 1]), [rate.low, rate.high], rtol=1e-9)


def test_a_det_curve_and_its_ticks_go_down_to_the_smallest_rate():
    """Half an error: 0.01 of 50 pairs, and 0.05 of 10 pairs."""
    ax = DetDisplay.from_report(a_report(n_similar=10, n_dissimilar=50)[0]).ax_
    for axis, smallest in ((ax.xaxis, 0.01), (ax.yaxis, 0.05)):
        rates = [float(label.get_text()) for label in axis.get_ticklabels()]
        assert rates[0] == smallest
        assert_allclose(axis.get_ticklocs(), norm.ppf(rates))
        low, high = norm.cdf(axis.get_view_interval())
        assert low == pytest.approx(smallest)
        assert 0.99 < high < 1


def test_bands_of_a_det_curve_contain_it():
    found, *_ = a_report()
    display = DetDisplay.from_report(found)
    line = next(line for line in display.ax_.lines if len(line.get_xdata()) > 10)
    (band,) = (part for part in display.ax_.collections if part.get_label() == "95% limits")
    path = band.get_paths()[0]
    inside = path.contains_points(line.get_xydata()[1:-1], radius=1e-6)
    assert np.mean(inside) > 0.9


def test_error_rates_are_drawn_by_threshold():
    found, judge, distances, y = a_report()
    display = ErrorRateDisplay.from_estimator(judge, distances, y, name="Pairs", n_points=30)
    assert display.report == found
    densities, rates = display.axes_
    lines = {line.get_label(): line for line in rates.lines}
    for label, kind in (("false match rate", y < 0), ("false non-match rate", y > 0)):
        for threshold, rate in lines[label].get_xydata():
            same = distances[kind] < threshold
            expected = np.mean(same if label == "false match rate" else ~same)
            assert rate == pytest.approx(expected)
    missed, wrong = (band.get_paths()[0].vertices for band in rates.collections)
    assert [band.get_linewidth().tolist() for band in rates.collections] == [[0], [0]]
    for point in display.curve:
        for corners, rate in ((missed, point.false_non_match), (wrong, point.false_match)):
            drawn = corners[corners[:, 0] == point.threshold, 1]
            ends = np.clip([rate.low, rate.high], 0.5 / rate.n_pairs, 1 - 0.5 / rate.n_pairs)
            assert_allclose([drawn.min(), drawn.max()], ends)
    for point in display.marked:
        line = lines[f"{point.name}: {point.threshold:.4g}"]
        assert_array_equal(line.get_xdata(), point.threshold)
    areas = [sum(p.get_width() * p.get_height() for p in bars) for bars in densities.containers]
    assert_allclose(areas, 1)
    assert (densities.get_title(), rates.get_yscale()) == ("Pairs", "log")
    assert_nothing_is_cut_off(display.figure_)


def test_displays_of_a_report_draw_on_given_axes():
    found, *_ = a_report(40, 60)
    axes = plt.subplots(1, 3)[1]
    assert DetDisplay.from_report(found, ax=axes[0]).ax_ is axes[0]
    assert list(ErrorRateDisplay.from_report(found, axes=axes[1:]).axes_) == list(axes[1:])
    with pytest.raises(ValueError, match=r"n_points: expected .*got 3"):
        DetDisplay.from_report(found, n_points=3)


def test_separated_pairs_are_drawn():
    """No error at any threshold between: there is no curve, but there are limits."""
    distances, y = np.r_[np.linspace(0, 1, 50), np.linspace(2, 3, 50)], np.repeat([1, -1], 50)
    judge = PairThreshold("precomputed").fit(distances, y)
    display = DetDisplay.from_estimator(judge, distances, y)
    assert len(display.ax_.lines[0].get_xdata()) == 0
    assert_nothing_is_cut_off(display.figure_)
    assert_nothing_is_cut_off(ErrorRateDisplay.from_estimator(judge, distances, y).figure_)


def test_the_axes_of_the_reliability_say_what_they_show():
    similar = np.arange(60) % 2 == 0
    display = ReliabilityDisplay.from_predictions(
        np.linspace(0.0, 1.0, 60), np.where(similar, 1, -1), name="a verifier"
    )
    axes = display.ax_
    assert axes.get_xlabel() == "predicted probability"
    assert axes.get_ylabel() == "share of pairs that are the same"
    assert axes.get_title() == "a verifier"
    assert_allclose([axes.get_xlim(), axes.get_ylim()], [(-0.05, 1.05)] * 2)
    plt.close("all")
