"""The plots of the page: what is drawn, and that it can be read."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from report_helpers import make_record, sensitivity_records, table_records

from tatml_paper.cells import Cell
from tatml_paper.report import plots
from tatml_paper.report.results import Results
from tatml_paper.settings import PRINTED


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are turned into SVG, in their order."""
    figures, as_svg = [], plots.as_svg

    def spy(figure):
        figures.append(figure)
        return as_svg(figure)

    monkeypatch.setattr(plots, "as_svg", spy)
    return figures


def test_methods_are_sorted_and_printed_numbers_are_marked(drawn):
    results = Results(table_records())
    cells = results.cells
    assert len(plots.accuracy_figures(results, cells)) == len(cells) == len(drawn) == 9
    for figure, cell in zip(drawn, cells, strict=True):
        (ax,) = figure.axes
        means = [container.lines[0].get_xdata().item() for container in ax.containers]
        assert means == sorted(means)
        assert len(means) == len(ax.get_yticks()) == len(ax.get_yticklabels())
        marks = [line for line in ax.lines if line.get_markersize() == 12]
        assert len(marks) == len(PRINTED[cell.dataset])
        assert ax.get_xlabel()
        assert figure.get_suptitle()


def test_the_cells_of_a_data_set_have_equal_axes(drawn):
    results = Results(table_records())
    plots.accuracy_figures(results, results.cells)
    ends = {}
    for figure, cell in zip(drawn, results.cells, strict=True):
        (ax,) = figure.axes
        ends.setdefault(cell.dataset, set()).add(ax.get_xlim())
        low, high = ax.get_xlim()
        shown = np.concatenate([line.get_xdata() for line in ax.lines])
        assert low < shown.min() < shown.max() < high  # nothing is cut off
    assert [len(found) for found in ends.values()] == [1, 1, 1]
    assert len(set().union(*ends.values())) == 3


def test_the_parameters_of_a_study_have_equal_axes(drawn):
    records = sensitivity_records()
    moved = [
        {
            **record,
            "accuracy": 70.0,
            "b0": 0.01,
            "setting": {"study": "decades", "moves": "mu0", "mu0": record["setting"]["c0"]},
        }
        for record in records
        if record["setting"]["study"] == "decades"
    ]
    plots.sensitivity_figures([*records, *moved])
    assert len(drawn) == 2
    for row in range(2):
        first, second = (figure.axes[row].get_ylim() for figure in drawn)
        assert first == second
        values = [line.get_ydata() for figure in drawn for line in figure.axes[row].lines]
        assert first[0] < np.min(values) < np.max(values) < first[1]


def test_each_method_has_a_dot_a_bar_and_the_printed_number(drawn):
    """The best is on top; the fixed configuration has a colour, a marker and bold letters."""
    cell = Cell("virus", "halves", "M=1;(1)")
    scores = {"euc": [58.0, 60.0], "tatml_star": [70.0], "lda": [60.0, 61.0, 65.0]}
    records = [
        make_record(method, repeat, value)
        for method, values in scores.items()
        for repeat, value in enumerate(values)
    ]
    (shown,) = plots.accuracy_figures(Results(records), [cell])
    (figure,) = drawn
    assert_allclose(figure.get_size_inches(), [4.6, 0.9 + 3 * 0.24])
    (ax,) = figure.axes
    names = ["Euc °", "LDA + 3-NN", "TATML* °"]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == [
        *("normal", "bold", "normal")  # the marks of the tables
    ]
    assert [label.get_color() for label in ax.get_yticklabels()] == [
        *("#222222", "#222222", "#d55e00")
    ]
    assert ax.get_ylim() == (-0.7, 2.7)
    for place, (bars, values) in enumerate(
        zip(ax.containers, ([58, 60], [60, 61, 65], [70]), strict=True)
    ):
        dot, caps, (spread,) = bars.lines
        assert dot.get_ydata() == [place]
        assert dot.get_xdata().item() == pytest.approx(np.mean(values))
        half = np.std(values, ddof=1) if len(values) > 1 else 0
        ends = np.asarray(spread.get_segments()[0][:, 0], dtype=float)
        assert_allclose(ends, np.mean(values) + np.array([-half, half]))
        assert (dot.get_marker(), dot.get_color()) == [
            *[("o", "#0072b2")] * 2,
            ("D", "#d55e00"),
        ][place]
        assert dot.get_markersize() == 5
        assert {cap.get_markersize() for cap in caps} == {6}  # twice the size of the cap
        assert_allclose(spread.get_linewidth(), 1.4)
    (mark,) = [line for line in ax.lines if line.get_marker() == "|" and line.get_markersize() > 6]
    assert (mark.get_xdata(), mark.get_ydata()) == ([58.13], [0])
    assert mark.get_markeredgewidth() == 2.2
    assert mark.get_color() == "#222222"
    assert ax.get_xgridlines()[0].get_linewidth() == 0.7
    assert ax.get_xgridlines()[0].get_visible()
    assert not ax.get_ygridlines()[0].get_visible()
    assert ax.get_axisbelow() is True
    assert not ax.spines["top"].get_visible()
    assert not ax.spines["right"].get_visible()
    title = figure._suptitle
    assert (title.get_position()[0], title.get_fontsize(), title.get_ha()) == (0.01, 10, "left")
    assert shown.alternative == (
        "Accuracy in per cent, Virus, one scale (100 %): TATML* 70.00; LDA + 3-NN 62.00; "
        "Euc 59.00 (paper 58.13)."
    )
    assert shown.caption.endswith("one standard deviation; vertical lines: the paper.")


def test_plots_of_other_data_have_no_printed_numbers():
    record = make_record(dataset="digits", features="vector")
    cell = Cell("digits", "halves", "vector")
    (shown,) = plots.accuracy_figures(Results([record]), [cell])
    assert shown.caption.endswith("bars: one standard deviation.")
    assert "paper" not in shown.alternative


def test_long_names_end_with_an_ellipsis_and_dollars_are_escaped():
    assert plots.shorten("a" * 28) == "a" * 28
    assert plots.shorten("a" * 29) == "a" * 27 + "…"
    assert plots.shorten("abcd", 3) == "ab…"
    assert plots.shorten("$x$") == r"\$x\$"


def test_curves_of_several_methods_differ_in_colour_marker_and_line(drawn):
    methods = ["tatml", "maz", "a", "b", "c", "d", "e"]
    records = [
        {
            **make_record(method, repeat, 80.0 + place + 2 * repeat, experiment="sensitivity"),
            "setting": {"study": "decades", "moves": "c0", "c0": c0},
            "b0": 4.0,
        }
        for place, method in enumerate(methods)
        for repeat in range(2)
        for c0 in (1.0, 10.0)
    ]
    still = make_record("tatml", experiment="sensitivity", setting={"study": "grid"})
    (shown,) = plots.sensitivity_figures([*records, still])
    (figure,) = drawn
    assert_allclose(figure.get_size_inches(), [4.6, 4.6])
    above, below = figure.axes
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in above.lines]
    assert len(set(looks)) == 6
    assert looks[6] == looks[0] == ("#d55e00", "o", "-")  # six looks, then the first again
    assert {line.get_markersize() for line in above.lines} == {4}
    assert above.get_shared_x_axes().joined(above, below)
    assert_allclose(above.lines[0].get_ydata(), [81.0, 81.0])
    band = above.collections[0]
    assert band.get_alpha() == 0.12
    assert_allclose(band.get_linewidth(), 0)
    heights = band.get_paths()[0].vertices[:, 1]
    assert_allclose([heights.min(), heights.max()], [80.0, 82.0])
    assert not above.get_legend().get_frame_on()
    assert {text.get_fontsize() for text in above.get_legend().get_texts()} == {8}
    for ax in figure.axes:
        assert ax.get_xgridlines()[0].get_linewidth() == 0.7
    assert below.get_xlabel() == "c0, weight of the threshold's prior"
    assert below.get_legend() is None
    assert "TATML from 81.00 to 81.00; Maz from 82.00 to 82.00" in shown.alternative


def test_the_study_draws_accuracy_and_threshold_with_a_legend(drawn):
    figures = plots.sensitivity_figures(sensitivity_records())
    assert len(figures) == len(drawn) >= 1
    for figure in drawn:
        accuracy, threshold = figure.axes
        labels = [line.get_label() for line in accuracy.lines]
        shown = [text.get_text() for text in accuracy.get_legend().get_texts()]
        assert shown == labels
        assert accuracy.get_ylabel() == "accuracy, %"
        assert threshold.get_ylabel() == "b0"
        assert threshold.get_xlabel()
        assert (threshold.get_xscale(), threshold.get_yscale()) == ("log", "log")
        assert len(accuracy.collections) == len(labels)  # bands of one standard deviation
        for ax in (accuracy, threshold):
            assert any(line.get_visible() for line in ax.get_ygridlines())


def test_curves_are_means_and_standard_deviations():
    records = [
        {"method": "tatml", "setting": {"c0": c0}, "accuracy": accuracy}
        for c0, accuracy in ((1.0, 80.0), (0.1, 70.0), (1.0, 84.0), (0.1, None))
    ]
    (rows,) = plots.curves(records, "c0", "accuracy").values()
    assert_allclose(rows, [[0.1, 70.0, 0.0], [1.0, 82.0, np.std([80, 84])]])
