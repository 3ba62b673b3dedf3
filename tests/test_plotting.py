"""Displays: what they draw, and that it can be read."""

import sys
from itertools import pairwise
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import as_list, labelled, labelled_pairs, squared_distances
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import DetCurveDisplay, RocCurveDisplay, roc_curve
from sklearn.pipeline import make_pipeline

from tatml import GMML, TATML, Euclidean, Newton, PairThreshold, TATMLPairs, learn_metric
from tatml.plotting import BlockShareDisplay, ConvergenceDisplay, MetricDisplay, PairDistanceDisplay

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("closed_figures")

FEW = {"n_pairs_per_class": 40, "random_state": 0}


def fitted(make=TATML, kind="vectors", **options):
    """Return a fitted estimator, samples, and pairs with labels."""
    X, y = labelled(kind)
    return make(**FEW | options).fit(X, y), X, *labelled_pairs(y)


def lines_at(ax):
    """Return the positions of the vertical lines by their labels, without numbers."""
    return {line.get_label().rstrip("0123456789.e- "): line.get_xdata() for line in ax.lines}


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def assert_nothing_is_cut_off(figure):
    """Everything that is drawn lies inside the figure."""
    figure.draw_without_rendering()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert -0.01 <= drawn.x0 <= drawn.x1 <= width + 0.01
    assert -0.01 <= drawn.y0 <= drawn.y1 <= height + 0.01


# Histograms


def test_the_histograms_are_densities_of_the_distances():
    bins = 12
    metric, X, pairs, y = fitted()
    display = PairDistanceDisplay.from_estimator(metric, pairs, y, X, bins=bins)
    distances = metric.pair_distance(pairs, X)
    assert_array_equal(display.distances, distances)
    assert_array_equal(display.similar, y > 0)
    edges = np.linspace(distances.min(), distances.max(), bins + 1)
    assert len(display.ax_.containers) == 2
    for bars, label, word in zip(display.ax_.containers, (1, -1), ("similar", "diss"), strict=True):
        heights = np.array([bar.get_height() for bar in bars])
        assert_allclose([bar.get_x() for bar in bars], edges[:-1], atol=1e-12)
        assert_allclose(heights, np.histogram(distances[y == label], edges, density=True)[0])
        assert_allclose(np.sum(heights * np.diff(edges)), 1)
        assert bars[0].get_label().startswith(word)


LOW, HIGH = "margin of similar pairs", "margin of dissimilar pairs"


@pytest.mark.parametrize("make", [TATML, GMML])
def test_the_lines_are_the_threshold_and_the_margins(make):
    metric, X, pairs, y = fitted(make, margin=(0.4, 1.7))
    display = PairDistanceDisplay.from_estimator(metric, pairs, y, X)
    lines = lines_at(display.ax_)
    assert set(lines) == {LOW, HIGH, "threshold"}
    assert_allclose(lines["threshold"], metric.threshold_)
    assert_allclose(lines[LOW], sqrt(0.4 * metric.b0_))
    assert_allclose(lines[HIGH], sqrt(1.7 * metric.b0_))
    assert lines[LOW][0] < lines["threshold"][0] < lines[HIGH][0]


def test_given_distances_need_no_estimator():
    distances, y = np.array([0.1, 0.5, 0.9, 0.4, 1.2, 2.0]), np.array([1, 1, 1, -1, -1, -1])
    display = PairDistanceDisplay.from_predictions(distances, y, threshold=0.5)
    assert list(lines_at(display.ax_)) == ["threshold"]
    assert display.error_rates == pytest.approx((2 / 3, 1 / 3))  # 0.5 is not below 0.5
    assert "66.7%" in texts(display.ax_.get_legend())[0]
    assert "33.3%" in texts(display.ax_.get_legend())[1]
    with_margins = PairDistanceDisplay.from_predictions(
        distances, y, threshold=0.5, b0=0.36, margin=(0.25, 4.0)
    )
    lines = lines_at(with_margins.ax_)
    assert_allclose([lines[LOW][0], lines[HIGH][0]], [0.3, 1.2])


def test_the_error_rates_are_those_of_the_predictions():
    metric, X, pairs, y = fitted(threshold=0.7)
    verdict = metric.predict_pairs(pairs, X)
    display = PairDistanceDisplay.from_estimator(metric, pairs, y, X)
    expected = np.mean(verdict[y > 0] < 0), np.mean(verdict[y < 0] > 0)
    assert display.error_rates == pytest.approx(expected)
    assert min(expected) > 0
    metric.set_threshold(1e-6)
    display = PairDistanceDisplay.from_estimator(metric, pairs, y, X)
    assert display.error_rates == (1.0, 0.0)
    assert_allclose(lines_at(display.ax_)["threshold"], 1e-6)


def test_pair_estimators_are_drawn_too():
    X, y = labelled()
    pairs, labels = labelled_pairs(y)
    verifier = TATMLPairs(preprocessor=X).fit(pairs, labels)
    judge = PairThreshold("precomputed").fit(verifier.pair_distance(pairs), labels)
    first = PairDistanceDisplay.from_estimator(verifier, pairs, labels)
    second = PairDistanceDisplay.from_estimator(judge, verifier.pair_distance(pairs), labels)
    assert_array_equal(first.distances, second.distances)
    assert first.threshold == verifier.threshold_
    assert second.threshold == judge.threshold_


def test_distances_without_a_threshold_are_refused():
    X, y = labelled()
    pairs, labels = labelled_pairs(y)
    with pytest.raises(NotFittedError):
        PairDistanceDisplay.from_estimator(TATML(), pairs, labels, X)
    with pytest.raises(TypeError, match="got Euclidean without threshold_, b0_"):
        PairDistanceDisplay.from_estimator(Euclidean().fit(X), pairs, labels, X)
    with pytest.raises(ValueError, match="distances: expected"):
        PairDistanceDisplay.from_predictions([-1.0, 2.0], [1, -1], threshold=1.0)
    with pytest.raises(ValueError, match="y: expected"):
        PairDistanceDisplay.from_predictions([1.0, 2.0], [1, 0], threshold=1.0)


def test_histograms_have_forty_bins_from_zero_and_room_above():
    """The y-axis ends 35 % above matplotlib's own limit, which is 5 % above the tallest bar."""
    distances = np.linspace(0.0, 2.0, 41)
    y = np.where(distances < 0.8, 1, -1)
    display = PairDistanceDisplay.from_predictions(distances, y, threshold=0.8, b0=0.64)
    ax = display.ax_
    assert [len(bars) for bars in ax.containers] == [40, 40]
    tallest = max(bar.get_height() for bars in ax.containers for bar in bars)
    assert_allclose(ax.get_ylim(), [0.0, 1.35 * 1.05 * tallest])
    assert ax.get_xlim()[0] < 0 < 2 < ax.get_xlim()[1]
    lines = lines_at(ax)  # the margins are 1/2 and 2 if none are given
    assert_allclose([lines[LOW][0], lines[HIGH][0]], np.sqrt([0.32, 1.28]))
    assert [line.get_color() for line in ax.lines] == ["#222222", "#0072b2", "#d55e00"]
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "--"]
    assert ax.lines[0].get_linewidth() == 2
    assert [bars[0].get_alpha() for bars in ax.containers] == [0.55, 0.55]
    assert ax.get_legend()._ncols == 2
    assert ax.get_legend().get_frame().get_alpha() == 1


def test_negative_b0_has_margins_at_zero():
    """Maz may learn a negative b0: then no distance is below the threshold."""
    display = PairDistanceDisplay.from_predictions([0.1, 0.4], [1, -1], threshold=0.0, b0=-1.0)
    assert display.margin_distances == (0.0, 0.0)


def test_sizes_of_figures():
    """One heat map has 5 inches at least; bars have 0.55 inches per block."""
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    history = history_of([3.0, 2.0], [1.0, 1.9])
    for display, size in (
        (PairDistanceDisplay.from_predictions([0.1, 1.0], [1, -1], threshold=0.5), (6.4, 4.0)),
        (ConvergenceDisplay(history, 1e-6).plot(), (12.0, 3.6)),
        (MetricDisplay([np.eye(2)]).plot(), (5.0, 7.0)),
        (MetricDisplay([np.eye(2)] * 3).plot(), (13.8, 7.0)),
        (BlockShareDisplay(shares).plot(), (6.4, 1.9 + 3 * 0.55)),
        (BlockShareDisplay(shares[:, :1]).plot(), (6.4, 1.9 + 0.55)),
    ):
        assert_allclose(display.figure_.get_size_inches(), size)
        assert display.figure_.get_layout_engine() is not None  # "constrained"


# Convergence

TWO_STEPS = Newton(max_iter=2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options", [{}, {"solver": TWO_STEPS}, {"solver": "dykstra", "tol": 1e-2}, {"C": 0.3}]
)
def test_the_curves_are_the_history(options):
    metric, *_ = fitted(**{"C": 20.0} | options)
    history, tol = metric.result_.history, metric.result_.tol
    assert len(history["gap"]) > 1
    assert (history["primal"][-1] < 1) == ("C" in options)  # the tolerance is then absolute
    display = ConvergenceDisplay.from_estimator(metric)
    objective, by_step, by_second = display.axes_
    curves = {line.get_label().split()[0]: line for line in objective.lines}
    for name in ("primal", "dual"):
        assert_array_equal(curves[name].get_xdata(), history["iteration"])
        assert_allclose(curves[name].get_ydata(), history[name])
    assert np.all(curves["dual"].get_ydata() <= curves["primal"].get_ydata())
    for ax, name in ((by_step, "iteration"), (by_second, "seconds")):
        gap, goal = ax.lines
        assert ax.get_yscale() == "log"
        assert_array_equal(gap.get_xdata(), history[name])
        assert_allclose(gap.get_ydata(), np.maximum(history["gap"], 1e-17))
        assert_array_equal(goal.get_xdata(), history[name])
        assert_allclose(goal.get_ydata(), tol * np.maximum(1, np.abs(history["primal"])))
        assert ax.get_xlabel() == name
    converged = gap.get_ydata()[-1] <= goal.get_ydata()[-1]
    assert converged == metric.result_.converged == (options.get("solver") != TWO_STEPS)


def test_results_of_the_function_are_drawn_too():
    result = learn_metric([[0.0], [0.1], [2.0]], [[0, 1], [1, 2]], [True, False], tol=1e-12)
    display = ConvergenceDisplay.from_result(result, name="three samples")
    assert display.axes_[0].get_title() == "three samples"
    assert_array_equal(display.axes_[0].lines[0].get_ydata(), result.history["primal"])
    for make in (GMML, Euclidean):  # they have no iterations
        with pytest.raises(TypeError, match=f"got {make.__name__} without result_"):
            ConvergenceDisplay.from_estimator(fitted(make)[0])
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(TATML())


def history_of(primal, dual):
    primal, dual = np.array(primal), np.array(dual)
    steps = np.arange(len(primal))
    gap = primal - dual
    return {"iteration": steps, "seconds": 0.1 * steps, "primal": primal, "dual": dual, "gap": gap}


SPIKES = [
    ([1e8, 1e5, 30.0, 21.0, 20.0], [5.0, 6.0, 12.0, 19.0, 19.9], "2 not shown, up to 1e+08"),
    ([70.0, 30.0, 20.0], [-7e4, 12.0, 19.9], "1 not shown, up to -7e+04"),
    ([1e8, 1e8, 20.0], [-1e9, -1e9, 20.0], "4 not shown, up to -1e+09"),
    ([70.0, 30.0, 20.0], [-30.0, 12.0, 19.9], ""),
    ([80.1, 79.9, 20.0], [-30.0, 12.0, 19.9], ""),
]


def test_a_spike_does_not_flatten_the_last_values():
    """Values near the last one fill the axis; the others are cut off, and counted."""
    _, axes = plt.subplots(1, 3)
    for primal, dual, note in SPIKES:
        for ax in axes:
            ax.clear()
        ax = ConvergenceDisplay(history_of(primal, dual), 1e-6).plot(axes).axes_[0]
        low, high = ax.get_ylim()
        values = np.array([*primal, *dual])
        shown = (low <= values) & (values <= high)
        assert ax.get_legend().get_title().get_text() == note
        assert np.sum(~shown) == (int(note.split()[0]) if note else 0), note
        assert shown[len(primal) - 1], note
        assert np.ptp(values[shown]) > 0.8 * (high - low) or np.ptp(values[shown]) == 0, note
        assert_array_equal(ax.lines[0].get_ydata(), primal)  # zooming out shows all values


LIMITS = [  # (primal, dual, limits of the y-axis, note)
    ([70.0, 30.0, 20.0], [-7e4, 12.0, 19.9], (12 - 2.9, 70 + 2.9), "1 not shown, up to -7e+04"),
    ([81.0, 80.0, 20.0], [-40.0, 12.0, 19.9], (-46.0, 86.0), ""),  # 80 and -40 are just near
    ([1e8, 1e8, 20.0], [-1e9, -1e9, 20.0], (18.0, 22.0), "4 not shown, up to -1e+09"),
    ([5.0, 3.0, 0.0], [-9.0, -3.0, 0.0], (-3.3, 3.3), "2 not shown, up to -9"),  # 3 · 1, not 3 · 0
    ([5.0, 0.0], [-9.0, 0.0], (-0.1, 0.1), "2 not shown, up to -9"),
    ([-80.1, -20.0], [-99.0, -21.0], (-21.05, -19.95), "2 not shown, up to -99"),
]


@pytest.mark.parametrize(("primal", "dual", "limits", "note"), LIMITS)
def test_the_objective_is_cut_off_three_times_its_last_value_away(primal, dual, limits, note):
    """5 % of room above and below; 10 % of the last value if all values near it are equal."""
    ax = ConvergenceDisplay(history_of(primal, dual), 1e-6).plot().axes_[0]
    assert_allclose(ax.get_ylim(), limits, err_msg=str(primal))
    assert ax.get_legend().get_title().get_text() == note


def test_a_gap_of_zero_is_drawn_at_the_smallest_gap():
    ax = ConvergenceDisplay(history_of([3.0, 2.0], [1.0, 2.0]), 1e-6).plot().axes_[1]
    assert_array_equal(ax.lines[0].get_ydata(), [2.0, 1e-17])


def test_iterations_have_integer_ticks():
    display = ConvergenceDisplay(history_of([3.0, 2.0], [1.0, 1.9]), 1e-6).plot()
    for ax in display.axes_[:2]:
        low, high = ax.get_xlim()
        ticks = ax.xaxis.get_ticklocs()
        assert set(ticks[(low <= ticks) & (ticks <= high)]) == {0.0, 1.0}
    assert [ax.get_title() for ax in display.axes_] == [
        "Objective",
        "Duality gap by iteration",
        "Duality gap by seconds",
    ]


# Matrices


@pytest.mark.parametrize(
    ("kind", "make", "relative"),
    [
        ("vectors", GMML, False),
        ("vectors", TATML, True),
        ("three blocks", TATML, True),
        ("two blocks", Euclidean, True),
    ],
)
def test_heat_maps_are_the_matrices_and_curves_their_spectra(kind, make, relative):
    metric, *_ = fitted(make, kind)
    display = MetricDisplay.from_estimator(metric, relative=relative)
    components = as_list(metric.components_)
    M = len(components)
    assert display.axes_.shape == (2, M)
    for m, A in enumerate(components):
        expected = A.T @ A
        if relative and make is not Euclidean:  # which has no prior
            spread = np.sqrt(np.diagonal(as_list(metric.prior_)[m]) / M)
            expected = np.diag(1 / spread) @ expected @ np.diag(1 / spread)
        (image,) = display.axes_[0, m].images
        assert_allclose(image.get_array(), expected, rtol=1e-9, atol=1e-15)
        assert_allclose(image.get_clim(), [-np.abs(expected).max(), np.abs(expected).max()])
        (spectrum,) = display.axes_[1, m].lines
        assert_array_equal(spectrum.get_xdata(), np.arange(1, len(expected) + 1))
        assert_allclose(spectrum.get_ydata(), np.linalg.eigvalsh(expected)[::-1], rtol=1e-9)
        assert display.axes_[1, m].get_yscale() == "log"


@pytest.mark.parametrize(("kind", "prior"), [("vectors", "covariance"), ("two blocks", "auto")])
def test_the_prior_itself_has_ones_on_the_diagonal(kind, prior):
    """With a tiny C nothing is learnt."""
    metric, *_ = fitted(kind=kind, C=1e-9, prior=prior)
    for matrix in MetricDisplay.from_estimator(metric).matrices:
        assert_allclose(np.diagonal(matrix), 1, rtol=1e-6)


def test_a_matrix_of_low_rank_is_drawn():
    metric = TATML(**FEW, n_components=2).fit(*load_wine(return_X_y=True))
    display = MetricDisplay.from_estimator(metric)
    ax = display.axes_[1, 0]
    assert_allclose(ax.lines[0].get_ydata()[:2], np.linalg.eigvalsh(display.matrices[0])[:-3:-1])
    assert ax.get_ylim()[0] > 1e-20 * ax.get_ylim()[1]  # the positive eigenvalues can be seen
    assert_nothing_is_cut_off(display.figure_)


def test_ticks_of_rows_are_integers():
    metric, *_ = fitted(kind="three blocks")
    for ax in MetricDisplay.from_estimator(metric).axes_.ravel():
        axes = [ax.xaxis, ax.yaxis] if ax.images else [ax.xaxis]
        for axis in axes:
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_ticklocs()
            seen = ticks[(ticks >= low) & (ticks <= high)]
            assert_array_equal(seen, np.round(seen))


def test_colour_bars_have_labels():
    for make, expected in ((TATML, "entry (the prior's diagonal is 1)"), (Euclidean, "entry")):
        display = MetricDisplay.from_estimator(fitted(make, "two blocks")[0])
        own = set(display.axes_.ravel())
        scales = [ax for ax in display.figure_.axes if ax not in own]
        assert [ax.get_ylabel() for ax in scales] == [expected] * 2
    assert (
        MetricDisplay([np.eye(2)], entry="metres").plot().figure_.axes[2].get_ylabel() == "metres"
    )


@pytest.mark.parametrize("values", [[3.0, 1.5], [1e5, 10.0, 0.5, 1e-3]])
def test_the_numbers_of_a_spectrum_can_be_read(values):
    """At least two labelled numbers, and not so many that they touch."""
    display = MetricDisplay([np.diag(values)]).plot()
    display.figure_.draw_without_rendering()
    axis = display.axes_[1, 0].yaxis
    low, high = axis.get_view_interval()
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    seen = [label for place, label in ticks if low <= place <= high]
    assert all(label.get_text() for label in seen)
    assert not any(label.get_text() for label in axis.get_ticklabels(minor=True))
    boxes = sorted(label.get_window_extent().intervaly.tolist() for label in seen)
    assert len(boxes) >= 2
    assert all(below[1] < above[0] for below, above in pairwise(boxes))


def test_names_of_columns_are_names_of_rows():
    X, y = labelled()
    columns = ["length", "width", "weight", "age"]
    metric = TATML(**FEW).fit(pd.DataFrame(X, columns=columns), y)
    ax = MetricDisplay.from_estimator(metric).axes_[0, 0]
    assert [label.get_text() for label in ax.get_xticklabels()] == columns
    assert [label.get_text() for label in ax.get_yticklabels()] == columns
    ax = MetricDisplay.from_estimator(metric, names=[["a", "b", "c", "d"]]).axes_[0, 0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c", "d"]


def test_matrices_are_numbered_if_there_are_several():
    titles = [
        [ax.get_title() for ax in MetricDisplay([np.eye(2)] * n).plot().axes_[0]] for n in (1, 2)
    ]
    assert titles == [["Learnt matrix"], ["Block 0", "Block 1"]]


def test_up_to_forty_rows_are_named():
    for n, named in ((40, True), (41, False)):
        names = [f"row {i}" for i in range(n)]
        ax = MetricDisplay([np.eye(n)], [names]).plot().axes_[0, 0]
        assert ([label.get_text() for label in ax.get_xticklabels()] == names) == named, n
        assert ([label.get_text() for label in ax.get_yticklabels()] == names) == named, n
    ax = MetricDisplay([np.eye(2)], [["a", "b"]]).plot().axes_[0, 0]
    assert_array_equal(ax.get_xticks(), [0, 1])
    assert [label.get_rotation() for label in ax.get_xticklabels()] == [90, 90]
    assert {label.get_fontsize() for label in ax.get_xticklabels() + ax.get_yticklabels()} == {7}
    wrong = MetricDisplay([np.eye(3)], [["a", "b"]]).plot().axes_[0, 0]  # two names of three rows
    assert "a" not in [label.get_text() for label in wrong.get_xticklabels()]


def test_spectra_leave_out_rounding_errors_and_label_small_ranges():
    """Eigenvalues below 1e-15 times the largest one are left out."""
    cut = MetricDisplay([np.diag([4.0, 1.0, 4 * 1.5e-15, 4 * 0.9e-15, 0.0])]).plot().axes_[1, 0]
    assert_allclose(cut.lines[0].get_ydata(), [4.0, 1.0, 6e-15])
    for ratio, subs in ((99.0, [1.0, 2.0, 5.0]), (100.0, [1.0]), (101.0, [1.0])):
        display = MetricDisplay([np.diag([ratio, 1.0])]).plot()
        axis = display.axes_[1, 0].yaxis
        assert_allclose(axis.get_major_locator()._subs, subs, err_msg=str(ratio))
        text = axis.get_major_formatter()(10.0)
        assert (text == "10") == (ratio < 100)
    heights = [ax.get_gridspec().get_height_ratios() for ax in display.axes_[:, 0]]
    assert [list(ratios) for ratios in heights] == [[3, 1.6], [3, 1.6]]
    grid = display.axes_[1, 0].yaxis.get_gridlines()[0]
    assert grid.get_visible()
    assert grid.get_alpha() == 0.3
    assert not display.axes_[1, 0].xaxis.get_gridlines()[0].get_visible()
    assert display.axes_[1, 0].lines[0].get_markersize() == 4


# Blocks


def test_bars_of_a_block_lie_side_by_side():
    ax = BlockShareDisplay(np.array([[0.6, 0.4], [0.2, 0.8]])).plot().ax_
    for bars, shift in zip(ax.containers, (-0.2, 0.2), strict=True):
        assert_allclose([bar.get_height() for bar in bars], 0.38)
        centres = [bar.get_y() + bar.get_height() / 2 for bar in bars]
        assert_allclose(centres, [shift, 1 + shift])
    assert ax.get_ylim() == (1.6, -1.0)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["block 0", "block 1"]
    assert ax.get_legend()._ncols == 2


def test_shares_are_those_of_the_mean_squared_distance():
    metric, X, pairs, y = fitted(kind="three blocks")
    display = BlockShareDisplay.from_estimator(metric, pairs, y, X)
    M = X.n_blocks
    assert display.shares.shape == (2, M)
    for row, label in enumerate((1, -1)):
        total = squared_distances(X, metric.result_.W, pairs[y == label]).mean()
        for m in range(M):
            alone = [W * (n == m) for n, W in enumerate(metric.result_.W)]
            part = squared_distances(X, alone, pairs[y == label]).mean()
            assert_allclose(display.shares[row, m], part / total, rtol=1e-9)
        bars = display.ax_.containers[row]
        assert_allclose([bar.get_width() for bar in bars], display.shares[row])
        assert_allclose(display.shares[row].sum(), 1)
    assert texts(display.ax_.get_legend()) == ["similar pairs", "dissimilar pairs"]


def test_a_block_of_noise_has_the_larger_share_of_similar_pairs():
    X, y = labelled("two blocks")
    noise = np.random.default_rng(0).normal(size=(60, 3, 2))
    X = type(X)(noise, X.arrays[1])
    pairs, labels = labelled_pairs(y)
    shares = BlockShareDisplay.from_estimator(TATML(**FEW).fit(X, y), pairs, labels, X).shares
    assert shares[0, 0] > shares[1, 0]
    names = ["noise", "signal"]
    ax = BlockShareDisplay(shares, names).plot().ax_
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert_allclose(ax.containers[0][0].get_y() + 0.19, -0.2)  # the first block is at the top
    assert ax.yaxis_inverted()


# All displays


def draw_all(**options):
    metric, X, pairs, y = fitted(kind="two blocks")
    return [
        PairDistanceDisplay.from_estimator(metric, pairs, y, X, **options),
        ConvergenceDisplay.from_estimator(metric, **options),
        MetricDisplay.from_estimator(metric, **options),
        BlockShareDisplay.from_estimator(metric, pairs, y, X, **options),
    ]


def axes_of(display):
    return np.ravel(display.axes_ if hasattr(display, "axes_") else display.ax_)


def test_every_axis_has_a_title_and_names():
    for display in draw_all():
        own = axes_of(display)
        assert display.figure_ is own[0].figure
        assert_nothing_is_cut_off(display.figure_)
        for ax in own:
            assert ax.get_title()
            assert ax.images or ax.get_xlabel()
            legend = ax.get_legend()
            if legend is not None:  # covers no bars
                extent = legend.get_window_extent()
                assert not any(extent.overlaps(bar.get_window_extent()) for bar in ax.patches)


def test_the_title_can_be_given():
    assert {axes_of(display)[0].get_title() for display in draw_all(name="A")} == {"A"}


def test_wrong_names_of_rows_are_refused():
    metric = Euclidean().fit(labelled()[0])
    for names, error, found in (
        ("", TypeError, "got ''"),
        ({}, ValueError, "got 0"),
        ([["a"], ["b"]], ValueError, "got 2"),
        (3, TypeError, "got 3"),
    ):
        message = f"^names: expected one list of names, or None, for each of 1 blocks, {found}$"
        with pytest.raises(error, match=message):
            MetricDisplay.from_estimator(metric, names)


def test_estimators_that_are_no_metrics_are_named():
    X, y = labelled()
    pairs, labels = labelled_pairs(y)
    for make, missing in (
        (PairDistanceDisplay, "pair_distance"),
        (BlockShareDisplay, "components_"),
    ):
        message = f"estimator: .*LogisticRegression without.*{missing}"
        with pytest.raises(TypeError, match=message):
            make.from_estimator(LogisticRegression().fit(X, y), pairs, labels, X)
    with pytest.raises(TypeError, match="Pipeline without components_, block_shapes_"):
        MetricDisplay.from_estimator(make_pipeline(TATML(**FEW)).fit(X, y))


def test_given_axes_are_drawn_on():
    metric, X, pairs, y = fitted(kind="two blocks")
    figure, axes = plt.subplots(1, 5)
    before = plt.get_fignums()
    histogram = PairDistanceDisplay.from_estimator(metric, pairs, y, X, ax=axes[0])
    shares = BlockShareDisplay.from_estimator(metric, pairs, y, X, ax=axes[1])
    curves = ConvergenceDisplay.from_estimator(metric, axes=axes[2:])
    assert plt.get_fignums() == before
    assert histogram.ax_ is axes[0]
    assert shares.ax_ is axes[1]
    assert list(curves.axes_) == list(axes[2:])
    assert {display.figure_ for display in (histogram, shares, curves)} == {figure}
    assert all(ax.has_data() for ax in axes)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    metric, X, pairs, y = fitted(kind="two blocks")
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    draws = [
        lambda: PairDistanceDisplay.from_estimator(metric, pairs, y, X),
        lambda: ConvergenceDisplay.from_estimator(metric),
        lambda: MetricDisplay.from_estimator(metric),
        lambda: BlockShareDisplay.from_estimator(metric, pairs, y, X),
    ]
    for draw in draws:
        with pytest.raises(ImportError, match=r'pip install "\.\[plot\]"'):
            draw()


# ROC and DET curves of scikit-learn


def test_curves_of_pair_estimators_are_those_of_scikit_learn():
    X, y = labelled()
    pairs, labels = labelled_pairs(y)
    verifier = TATMLPairs().fit(X[pairs[:80]], labels[:80])
    judge = PairThreshold().fit(X[pairs[:80]], labels[:80])
    for estimator in (verifier, judge):
        scores = estimator.pair_score(X[pairs[80:]])
        roc = RocCurveDisplay.from_estimator(estimator, X[pairs[80:]], labels[80:])
        assert roc.roc_auc == pytest.approx(estimator.score(X[pairs[80:]], labels[80:]))
        assert_allclose(roc.line_.get_xdata(), roc_curve(labels[80:], scores)[0])
        det = DetCurveDisplay.from_estimator(estimator, X[pairs[80:]], labels[80:])
        same, different = scores[labels[80:] > 0], scores[labels[80:] < 0]
        points = {(np.mean(different >= t), np.mean(same < t)) for t in scores}
        for point in zip(det.fpr, det.fnr, strict=True):
            assert min(np.abs(np.subtract(point, other)).max() for other in points) < 1e-12


def test_curves_of_label_estimators_come_from_their_scores():
    metric, X, pairs, y = fitted()
    scores = metric.pair_score(pairs, X)
    roc = RocCurveDisplay.from_predictions(y, scores)
    assert 0.8 < roc.roc_auc < 1
    same, different = scores[y > 0], scores[y < 0]
    assert roc.roc_auc == pytest.approx(np.mean(same[:, None] > different))
    det = DetCurveDisplay.from_predictions(y, scores)
    assert len(det.fpr) == len(det.fnr) > 3
