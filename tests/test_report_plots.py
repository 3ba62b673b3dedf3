"""The plots of the page: what is drawn, and that it can be read."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from report_helpers import sensitivity_records, table_records

from tatml.experiments._report import plots
from tatml.experiments._report.results import Results
from tatml.experiments._settings import PRINTED


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
