"""The plots of the page: SVG in data URIs, small enough for a phone."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..cells import FIXED, Cell, Scores, cell_of, method_title, printed_numbers
from ..extras import pyplot
from ..format import format_number
from ..standings import Mark, deviation, mark_column, mean_score
from ..store import Record, grouped
from .html import HtmlFigure, data_uri
from .results import Results, as_number, word_of
from .values import with_mark

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

WIDTH = 4.6  # width of a plot in inches, about its size on a phone
STYLE = {
    "font.size": 9,
    "svg.fonttype": "path",
    "svg.hashsalt": "tatml",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
OUR_COLOUR, FIXED_COLOUR, PAPER_COLOUR = "#0072b2", "#d55e00", "#222222"
# Colour, marker and line of each method, so that they can be told apart without colour.
LOOKS = [
    ("#d55e00", "o", "-"),
    ("#0072b2", "s", "--"),
    ("#009e73", "^", "-."),
    ("#cc79a7", "D", ":"),
    ("#000000", "v", (0, (5, 1))),
    ("#7a5c00", "P", (0, (1, 1))),
]


def drawing_style() -> AbstractContextManager[None]:
    """Return the context that gives all plots the same style."""
    return pyplot().rc_context(STYLE)


def new_figure(height: float, n_rows: int = 1) -> tuple[Drawing, NDArray[np.object_]]:
    """Return a figure without a window, and its axes."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.subplots(n_rows, 1, sharex=n_rows > 1, squeeze=False)[:, 0]


def set_title(figure: Drawing, cell: Cell) -> None:
    """Write the title of a cell over the whole width, because the labels take part of the axes."""
    figure.suptitle(shorten(cell.title, 58), x=0.01, ha="left", fontsize=10)


def as_svg(figure: Drawing) -> str:
    """Return a plot as a data URI, with the same bytes for the same plot."""
    content = io.BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return data_uri(content.getvalue(), "image/svg+xml")


def accuracy_figures(results: Results, cells: Iterable[Cell]) -> list[HtmlFigure]:
    """Plot the methods of each cell with means, error bars and printed numbers.

    The cells of one data set have equal axes.
    """
    cells = list(cells)
    ends = {
        name: _common_ends({c: results.scores[c] for c in cells if c.dataset == name})
        for name in {cell.dataset for cell in cells}
    }
    with drawing_style():
        return [_accuracy(results.scores[cell], cell, ends[cell.dataset]) for cell in cells]


def _common_ends(columns: Mapping[Cell, Mapping[str, Scores]]) -> tuple[float, float]:
    """Return the ends of an axis that shows all means, bars and printed numbers."""
    values = [number for cell in columns for number in printed_numbers(cell).values()]
    for column in columns.values():
        for own in column.values():
            spread = np.nan_to_num(deviation(own))
            values += [mean_score(own) - spread, mean_score(own) + spread]
    room = 0.04 * (max(values) - min(values)) or 1.0
    return min(values) - room, max(values) + room


def _accuracy(scores: dict[str, Scores], cell: Cell, ends: tuple[float, float]) -> HtmlFigure:
    paper = printed_numbers(cell)
    means = {method: mean_score(own) for method, own in scores.items()}
    methods = sorted(scores, key=means.__getitem__)
    figure, (ax,) = new_figure(0.9 + 0.24 * len(methods))
    for place, method in enumerate(methods):
        colour, marker = (FIXED_COLOUR, "D") if method == FIXED else (OUR_COLOUR, "o")
        spread = np.nan_to_num(deviation(scores[method]))
        style = {"color": colour, "markersize": 5, "capsize": 3, "linewidth": 1.4}
        ax.errorbar(means[method], place, xerr=spread, fmt=marker, **style)
        if method in paper:
            ax.plot(
                paper[method], place, "|", color=PAPER_COLOUR, markersize=12, markeredgewidth=2.2
            )
    marks = mark_column(scores)  # the marks of the tables
    names = [with_mark(shorten(method_title(m)), marks[m]) for m in methods]
    ax.set_yticks(range(len(methods)), names)
    for label, method in zip(ax.get_yticklabels(), methods, strict=True):
        label.set_fontweight("bold" if marks[method] is Mark.HIGHEST else "normal")
        label.set_color(FIXED_COLOUR if method == FIXED else PAPER_COLOUR)
    ax.set_xlim(*ends)
    ax.set_ylim(-0.7, len(methods) - 0.3)
    ax.grid(axis="x", color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.set_xlabel("accuracy, %")
    set_title(figure, cell)
    listed = "; ".join(
        f"{method_title(method)} {format_number(means[method])}"
        + (f" (paper {format_number(paper[method])})" if method in paper else "")
        for method in reversed(methods)
    )
    bars = "Dots: means over our repeats, the highest in bold; bars: one standard deviation"
    caption = f"{cell.title}. {bars}{'; vertical lines: the paper' if paper else ''}."
    return HtmlFigure(as_svg(figure), f"Accuracy in per cent, {cell.title}: {listed}.", caption)


def shorten(name: str, most: int = 28) -> str:
    """Shorten a name to leave room for the plot, and escape the $ of mathematics."""
    return (name if len(name) <= most else name[: most - 1] + "…").replace("$", r"\$")


# Sensitivity: one curve per method over the values of one parameter

LABELS = {
    "c0": "c0, weight of the threshold's prior",
    "mu0": "μ0, prior of the squared threshold",
    "b0": "b0, fixed squared threshold",
    "C": "c, weight of the pairs",
    "n_pairs": "number of pairs per class",
}


def sensitivity_figures(records: Sequence[Record]) -> list[HtmlFigure]:
    """Plot accuracy and b0 over the values of each parameter that was moved alone."""
    moved = [record for record in records if record["setting"].get("moves")]
    studies = grouped(moved, lambda r: (cell_of(r), str(r["setting"]["moves"])))
    with drawing_style():
        drawn = [_sensitivity(*study, group) for study, group in studies.items()]
        for cell in {cell for cell, _ in studies}:
            places = [place for place, (own, _) in enumerate(studies) if own == cell]
            _equalise([drawn[place][0] for place in places])
        return [HtmlFigure(as_svg(figure), *texts) for figure, texts in drawn]


def _equalise(figures: Sequence[Drawing]) -> None:
    """Give the axes of accuracy the same ends in all figures, and those of b0 too."""
    for row in range(2):
        ends = np.array([figure.axes[row].get_ylim() for figure in figures])
        for figure in figures:
            figure.axes[row].set_ylim(ends[:, 0].min(), ends[:, 1].max())


def curves(group: Sequence[Record], parameter: str, key: str) -> dict[str, np.ndarray]:
    """Return rows of (value of the parameter, mean, standard deviation) of a field, by method."""
    found: dict[str, dict[float, list[float]]] = {}
    for record in group:
        value = as_number(record.get(key))
        if np.isfinite(value):
            by_value = found.setdefault(word_of(record, "method"), {})
            by_value.setdefault(as_number(record["setting"].get(parameter)), []).append(value)
    return {
        method: np.array([[x, np.mean(v), np.std(v)] for x, v in sorted(by_value.items())])
        for method, by_value in found.items()
    }


def _sensitivity(
    cell: Cell, parameter: str, group: Sequence[Record]
) -> tuple[Drawing, tuple[str, str]]:
    """Return the plot of one parameter, and its description and caption."""
    figure, axes = new_figure(4.6, n_rows=2)
    accuracy, thresholds = (curves(group, parameter, key) for key in ("accuracy", "b0"))
    methods = list(dict.fromkeys([*accuracy, *thresholds]))
    for place, method in enumerate(methods):
        colour, marker, line = LOOKS[place % len(LOOKS)]
        style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
        for ax, found in zip(axes, (accuracy, thresholds), strict=True):
            if method in found:
                x, middle, spread = found[method].T
                ax.plot(x, middle, label=shorten(method_title(method)), **style)
                ax.fill_between(x, middle - spread, middle + spread, color=colour, alpha=0.12, lw=0)
    name = LABELS.get(parameter, parameter)
    axes[0].set(ylabel="accuracy, %")
    set_title(figure, cell)
    axes[1].set(ylabel="b0", xlabel=shorten(name, 50), yscale="log", xscale="log")
    for ax in axes:
        ax.grid(color="#dddddd", linewidth=0.7)
    axes[0].legend(fontsize=8, frameon=False)
    ends = {method: (rows[:, 1].min(), rows[:, 1].max()) for method, rows in accuracy.items()}
    summary = "; ".join(
        f"{method_title(method)} from {format_number(low)} to {format_number(high)}"
        for method, (low, high) in ends.items()
    )
    caption = (
        f"{cell.title}: accuracy (above) and b0 (below) over {name}; bands: standard deviations."
    )
    alternative = f"Accuracy over {name}, {cell.title}: {summary} per cent."
    return figure, (alternative, caption)
