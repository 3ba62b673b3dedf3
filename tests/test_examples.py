"""The examples of the gallery run without a warning, and draw figures that can be read."""

import re
import warnings
from itertools import chain, pairwise
from pathlib import Path

import pytest
from test_plotting import assert_nothing_is_cut_off

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))
LIBRARIES = {
    "plot_dask": "distributed",
    "plot_midpoint_search": "faiss",
    "plot_search_faiss": "faiss",
}


def import_quietly(name):
    """Import a library; what it warns of while it is imported is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def cells_of(text):
    """Return the cells of an example, each with its line numbers."""
    starts = [0, *(found.start() for found in re.finditer("^# %%", text, re.MULTILINE)), len(text)]
    return ["\n" * text.count("\n", 0, a) + text[a:b] for a, b in pairwise(starts)]


def run_by_cells(path):
    """Run an example as the gallery does, and yield the figures at the end of each cell.

    What a later cell draws on an earlier figure would not be in the gallery.
    """
    values = {"__name__": "__main__"}
    for cell in cells_of(path.read_text(encoding="utf-8")):
        exec(compile(cell, str(path), "exec"), values)
        yield [plt.figure(number) for number in plt.get_fignums()]
        plt.close("all")


def says_what_y_is(ax):
    """Return whether the y-axis has a label, or names as ticks."""
    ticks = " ".join(tick.get_text() for tick in ax.get_yticklabels())
    return bool(ax.get_ylabel() or re.search(r"[a-zA-Z]{2}", ticks))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_draws_figures_with_labels(path, capsys):
    plt.close("all")
    if path.stem in LIBRARIES:
        import_quietly(LIBRARIES[path.stem])
    n_labelled = 0
    for figure in chain.from_iterable(run_by_cells(path)):
        assert all(ax.has_data() for ax in figure.axes), "axes that a later cell was to fill"
        assert any([figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)])
        assert max(len(ax.get_title()) for ax in figure.axes) <= 60
        assert_nothing_is_cut_off(figure)
        n_labelled += sum(
            bool(ax.axison and ax.get_xlabel() and says_what_y_is(ax)) for ax in figure.axes
        )
    assert n_labelled
    assert "nan" not in capsys.readouterr().out.lower().split()


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_examples_have_the_form_of_a_gallery(path):
    """Title underlined by =, an introduction, cells with text; no guard, no network."""
    text = path.read_text(encoding="utf-8")
    title, line, introduction = re.match(
        r'"""\n([^\n]+)\n(=+)\n\n(.+?)\n"""\n', text, re.DOTALL
    ).groups()
    assert len(line) == len(title), path.stem
    assert len(introduction.split()) >= 25, path.stem
    assert len(re.findall(r"^# %%\n# \S", text, re.MULTILINE)) >= 2, path.stem
    assert "__name__" not in text, path.stem
    assert not re.search(r"fetch_|urllib|requests|http", text), path.stem


def test_the_gallery_shows_what_the_library_can_do():
    assert len(EXAMPLES) >= 15
    text = "\n".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    for word in (
        *("EmbeddingDisplay", "PairDistanceDisplay", "FeatureShareDisplay", "BlockShareDisplay"),
        *("PermutationImportanceDisplay", "MetricDisplay", "DetDisplay", "ConvergenceDisplay"),
        *("ReliabilityDisplay", "FilterBankCovariance", 'kernel="rbf"', "clip_outliers"),
        *("TATMLTriplets", "TATMLCV", "Compute(max_memory", "Compute(client", "faiss"),
        *("ITML(", "Maz(", "GMML(", "LinearDiscriminantAnalysis", "threshold_interval"),
        "midpoint=True",
    ):
        assert word in text, word
