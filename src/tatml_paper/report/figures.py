"""Figures as wide as a phone, saved as small PNG files; histograms of distances among them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tatml.plotting import PairDistanceDisplay

from ..extras import pyplot
from ..files import replaced_whole
from .html import HtmlFigure, data_uri

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, DPI = 4.6, 130  # width in inches, about that of a phone, and dots per inch
STYLE = {"font.size": 9}
SHOWN = 0.995  # share of the pairs that the axis always shows
BINS, MOST_BINS = 40, 2000


@dataclass(frozen=True)
class Picture:
    """A picture in a folder, with the text that the page shows with it.

    `dataset` and `title` say what a picture of an experiment shows, and below which heading.
    """

    file: str
    alternative: str
    caption: str
    drawing: bool = True
    dataset: str = ""
    title: str = ""

    def read(self, folder: Path) -> HtmlFigure:
        """Return the picture as an element of the page."""
        source = data_uri((folder / self.file).read_bytes(), "image/png")
        return HtmlFigure(source, self.alternative, self.caption, self.drawing)


@contextmanager
def drawn_png(
    path: Path, height: float, n_rows: int = 1, n_columns: int = 1, colours: int = 128
) -> Iterator[NDArray]:
    """Yield the axes of a figure as wide as a phone, and save it when the block ends."""
    with drawing_style():
        figure, axes = make_subplots(height, n_rows, n_columns)
        yield axes
        save_png(path, figure, colours)


def drawing_style() -> AbstractContextManager[None]:
    """Return the context in which all figures are drawn."""
    return pyplot().rc_context(STYLE)


def save_png(path: Path, figure: Figure, colours: int = 128) -> None:
    """Save a figure with few colours, to keep the page small, and close it."""
    from PIL import Image  # a dependency of matplotlib

    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI, metadata={"Software": None})
    pyplot().close(figure)
    image = Image.open(content).convert("RGB").quantize(colours)
    with replaced_whole(path) as file:
        image.save(file, format="png", optimize=True)


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
