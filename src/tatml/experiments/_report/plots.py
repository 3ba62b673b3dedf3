"""The plots of the report: small drawings that stay readable on a phone, as SVG in data URIs."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...plotting import _pyplot
from .html import Figure, embed, number
from .results import (
    FIXED_NAME,
    Cell,
    Record,
    Results,
    Score,
    as_number,
    cell_of,
    method_title,
    numbers_of,
    text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["accuracy_figures", "sensitivity_figures"]

WIDTH = 4.6  # inches: on a phone this is about one to one
STYLE = {
    "font.size": 9,
    "svg.fonttype": "path",
    "svg.hashsalt": "tatml",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
OURS, FIXED, PAPER = "#0072b2", "#d55e00", "#222222"
# Told apart without colour: marker and line differ from one method to the next.
LOOKS = [
    ("#d55e00", "o", "-"),
    ("#0072b2", "s", "--"),
    ("#009e73", "^", "-."),
    ("#cc79a7", "D", ":"),
    ("#000000", "v", (0, (5, 1))),
    ("#7a5c00", "P", (0, (1, 1))),
]


def drawing_style() -> AbstractContextManager[None]:
    """A context in which drawings look alike."""
    return _pyplot().rc_context(STYLE)


def new_figure(height: float, n_rows: int = 1) -> tuple[Drawing, NDArray[np.object_]]:
    """A figure without a window, and its axes."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.subplots(n_rows, 1, sharex=n_rows > 1, squeeze=False)[:, 0]


def as_svg(figure: Drawing) -> str:
    """The drawing as a data URI, the same bytes for the same drawing."""
    content = io.BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return embed(content.getvalue(), "image/svg+xml")


def accuracy_figures(results: Results, cells: Iterable[Cell]) -> list[Figure]:
    """For each cell the methods with their means, error bars and printed numbers."""
    with drawing_style():
        return [_accuracy(results.scores[cell], cell) for cell in cells]


def _accuracy(scores: dict[str, Score], cell: Cell) -> Figure:
    paper = numbers_of(cell)
    methods = sorted(scores, key=lambda method: scores[method].mean)
    figure, (ax,) = new_figure(0.9 + 0.24 * len(methods))
    for place, method in enumerate(methods):
        score = scores[method]
        colour, marker = (FIXED, "D") if method == FIXED_NAME else (OURS, "o")
        spread = np.nan_to_num(score.deviation)
        style = {"color": colour, "markersize": 5, "capsize": 3, "linewidth": 1.4}
        ax.errorbar(score.mean, place, xerr=spread, fmt=marker, **style)
        if method in paper:
            ax.plot(paper[method], place, "|", color=PAPER, markersize=12, markeredgewidth=2.2)
    ax.set_yticks(range(len(methods)), [shorten(method_title(method)) for method in methods])
    for label, method in zip(ax.get_yticklabels(), methods, strict=True):
        label.set_fontweight("bold" if method == FIXED_NAME else "normal")
    ax.set_ylim(-0.7, len(methods) - 0.3)
    ax.grid(axis="x", color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.set_xlabel("accuracy, %")
    ax.set_title(shorten(cell.title, 50), fontsize=10, loc="left")
    listed = "; ".join(
        f"{method_title(method)} {number(scores[method].mean)}"
        + (f" (paper {number(paper[method])})" if method in paper else "")
        for method in reversed(methods)
    )
    bars = "dots: means of our repeats, bars: one standard deviation"
    caption = f"{cell.title}: {bars}{', upright strokes: the paper' if paper else ''}."
    return Figure(as_svg(figure), f"Accuracy in per cent, {cell.title}: {listed}.", caption)


def shorten(name: str, most: int = 28) -> str:
    """A name that leaves room for the plot, without mathematics in it."""
    return (name if len(name) <= most else name[: most - 1] + "…").replace("$", r"\$")


# Sensitivity: one curve a method over the decades of one parameter

LABELS = {
    "c0": "c0, weight of the threshold's prior",
    "mu0": "μ0, prior of the squared threshold",
    "b0": "b0, fixed squared threshold",
    "C": "c, weight of the pairs",
    "n_pairs": "pairs a class",
}


def sensitivity_figures(records: Sequence[Record]) -> list[Figure]:
    """Accuracy and b0 over the values of each parameter that was moved alone."""
    studies: dict[tuple[Cell, str], list[Record]] = {}
    for record in records:
        moved = (record.get("setting") or {}).get("moves")
        if moved:
            studies.setdefault((cell_of(record), str(moved)), []).append(record)
    with drawing_style():
        return [_sensitivity(*study, group) for study, group in studies.items()]


def curves(group: Sequence[Record], parameter: str, key: str) -> dict[str, np.ndarray]:
    """By method: rows of (value of the parameter, mean, standard deviation) of a key."""
    found: dict[str, dict[float, list[float]]] = {}
    for record in group:
        value = as_number(record.get(key))
        if np.isfinite(value):
            by_value = found.setdefault(text(record, "method"), {})
            by_value.setdefault(as_number(record["setting"].get(parameter)), []).append(value)
    return {
        method: np.array([[x, np.mean(v), np.std(v)] for x, v in sorted(by_value.items())])
        for method, by_value in found.items()
    }


def _sensitivity(cell: Cell, parameter: str, group: Sequence[Record]) -> Figure:
    figure, axes = new_figure(4.6, n_rows=2)
    accuracy, thresholds = (curves(group, parameter, key) for key in ("accuracy", "b0"))
    methods = list(dict.fromkeys([*accuracy, *thresholds]))
    for place, method in enumerate(methods):
        colour, marker, line = LOOKS[place % len(LOOKS)]
        style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
        for ax, found in zip(axes, (accuracy, thresholds), strict=True):
            if method in found:
                x, mean, spread = found[method].T
                ax.plot(x, mean, label=shorten(method_title(method)), **style)
                ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
    name = LABELS.get(parameter, parameter)
    axes[0].set(ylabel="accuracy, %")
    axes[0].set_title(shorten(cell.title, 50), fontsize=10, loc="left")
    axes[1].set(ylabel="b0", xlabel=shorten(name, 50), yscale="log", xscale="log")
    for ax in axes:
        ax.grid(color="#dddddd", linewidth=0.7)
    axes[0].legend(fontsize=8, frameon=False)
    summary = "; ".join(
        f"{method_title(method)} from {number(rows[:, 1].min())} to {number(rows[:, 1].max())}"
        for method, rows in accuracy.items()
    )
    caption = (
        f"{cell.title}: accuracy (above) and b0 (below) over {name}; bands: standard deviations."
    )
    alternative = f"Accuracy over {name}, {cell.title}: {summary} per cent."
    return Figure(as_svg(figure), alternative, caption)
