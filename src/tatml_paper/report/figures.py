"""Figures as wide as a phone, saved as small PNG files; histograms of distances among them."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tatml.plotting import PairDistanceDisplay

from ..extras import pyplot
from ..files import replaced_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, DPI = 4.6, 130  # width in inches, about that of a phone, and dots per inch
STYLE = {"font.size": 9}
SHOWN = 0.995  # share of the pairs that the axis always shows
BINS, MOST_BINS = 40, 2000


def save_png(folder: Path, name: str, make_figure: Callable[[], Figure], colours: int = 128) -> str:
    """Save a figure with few colours, to keep the page small; return its name."""
    from PIL import Image  # a dependency of matplotlib

    plt = pyplot()
    with plt.rc_context(STYLE):
        figure = make_figure()
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DPI, metadata={"Software": None})
        plt.close(figure)
    image = Image.open(content).convert("RGB").quantize(colours)
    with replaced_whole(folder / name) as file:
        image.save(file, format="png", optimize=True)
    return name


def make_subplots(height: float, n_rows: int, n_columns: int = 1) -> tuple[Figure, NDArray]:
    """Return a figure as wide as a phone, and its axes."""
    options = {"figsize": (WIDTH, height), "layout": "constrained", "squeeze": False}
    return pyplot().subplots(n_rows, n_columns, **options)


def last_shown(distances: NDArray[np.float64], threshold: float) -> float:
    """Return where the axis ends: behind nearly all distances, and behind the threshold.

    Examples
    --------
    >>> last_shown(np.append(np.ones(999), 1000.0), threshold=0.5)
    1.05
    """
    wanted = max(1.05 * float(np.quantile(distances, SHOWN)), 1.2 * threshold)
    return min(wanted, 1.05 * max(float(np.max(distances)), threshold))


def draw_histograms(
    ax: Axes,
    distances: NDArray[np.float64],
    labels: NDArray[np.int_],
    *,
    end: float | None = None,
    **options: Any,
) -> PairDistanceDisplay:
    """Draw both histograms with about 40 bins on the part of the axis that is shown.

    `end` is where the axis ends, by default behind nearly all distances; `options` are those of
    `PairDistanceDisplay.from_predictions`. The legend goes below the axes.
    """
    if end is None:
        end = last_shown(distances, options["threshold"])
    width = float(np.ptp(distances))
    bins = min(MOST_BINS, max(1, ceil(BINS * width / end)))
    shown = PairDistanceDisplay.from_predictions(distances, labels, ax=ax, bins=bins, **options)
    ax.set_xlim(0, end)
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()  # replaced by one below the axes
    ax.figure.legend(loc="outside lower center", fontsize=7, ncols=2, frameon=False)
    return shown
