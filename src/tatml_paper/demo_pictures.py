"""The pictures of the story of `make demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from tatml import TATML, Euclidean, Result
from tatml.plotting import ConvergenceDisplay
from tatml.verification import error_rates

from .extras import pyplot
from .pairs import Floats
from .report.figures import draw_histograms, make_subplots, save_png
from .report.story import StoryPicture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .demo import Part

SIMILAR, DISSIMILAR, THRESHOLD = "#0072b2", "#d55e00", "#222222"  # as in `tatml.plotting`
N_SHOWN = 6  # pairs of each kind
# Ends of the axes of distances and of maps, in multiples of the threshold, for both distances.
END, MAP_END = 2.2, 1.7


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> percent(0.0314), percent(0.05, 0)
    ('3.1 %', '5 %')
    """
    return f"{100 * share:.{digits}f} %"


def draw_pairs(folder: Path, test: Part) -> StoryPicture:
    """Draw some pairs of one digit and of two digits."""
    chosen = [np.flatnonzero(test.labels == kind)[::600][:N_SHOWN] for kind in (1, -1)]
    gap = np.full((8, 1), np.nan)

    def make_figure() -> Figure:
        figure, axes = make_subplots(1.7, 2, N_SHOWN)
        for row, places, title in zip(
            axes, chosen, ("same digit", "different digits"), strict=True
        ):
            for ax, place in zip(row, places, strict=True):
                first, second = test.images[test.pairs[place]].reshape(2, 8, 8)
                ax.imshow(np.hstack([first, gap, second]), cmap="gray_r", vmin=0, vmax=16)
                ax.set(xticks=[], yticks=[])
            row[0].set_title(title, loc="left", fontsize=9)
        return figure

    return StoryPicture(
        save_png(folder, "pairs.png", make_figure, colours=32),
        f"{N_SHOWN} pairs of images of one digit, and {N_SHOWN} of two digits.",
        "Pairs of test images.",
    )


def draw_distances(folder: Path, metric: TATML | Euclidean, test: Part, title: str) -> StoryPicture:
    """Draw the distances of test pairs in multiples of the threshold."""
    ratios = metric.pair_distance(test.pairs, test.images) / metric.threshold_
    rates: list[float] = []

    def make_figure() -> Figure:
        figure, axes = make_subplots(3.6, 1)
        name = title.capitalize()
        shown = draw_histograms(axes[0, 0], ratios, test.labels, end=END, threshold=1.0, name=name)
        rates.extend(shown.error_rates)
        axes[0, 0].set(xlabel="distance / threshold", ylim=(0, 2.6))
        return figure

    file = save_png(folder, f"distances-{title.split()[0]}.png", make_figure)
    return StoryPicture(
        file,
        f"Histograms of the {title} of test pairs: {percent(rates[0])} of the pairs of one digit "
        f"lie above the threshold, {percent(rates[1])} of those of two digits below.",
        f"The {title} of test pairs, divided by its threshold. The less the two histograms "
        "overlap, the better.",
    )


def draw_map(folder: Path, metric: TATML | Euclidean, test: Part, title: str) -> StoryPicture:
    """Draw the test images in the plane in which their distances vary most."""
    points = PCA(2).fit_transform(metric.transform(test.images)) / metric.threshold_

    def make_figure() -> Figure:
        figure, axes = make_subplots(4.2, 1)
        ax, colours = axes[0, 0], pyplot().get_cmap("tab10").colors
        for (x, y), digit in zip(points, test.digits, strict=True):
            ax.text(x, y, str(digit), color=colours[digit], fontsize=7, ha="center", va="center")
        ends = (-MAP_END, MAP_END)
        ax.set(xlim=ends, ylim=ends, aspect="equal", title=title.capitalize())
        ax.set(xlabel="first axis / threshold", ylabel="second axis / threshold")
        return figure

    return StoryPicture(
        save_png(folder, f"map-{title.split()[0]}.png", make_figure),
        f"The test images as points, each drawn as its digit, by the {title}.",
        f"Each test image as its digit, in the two directions in which the {title} varies most "
        "(principal components).",
    )


def draw_certificate(folder: Path, result: Result) -> StoryPicture:
    """Draw how objective and lower bound meet."""

    def make_figure() -> Figure:
        figure, axes = make_subplots(4.4, 2)
        spare, by_seconds = make_subplots(2.0, 1)  # the gap by seconds is not shown
        every = [*axes[:, 0], by_seconds[0, 0]]
        ConvergenceDisplay.from_result(result, axes=every, name="Objective")
        pyplot().close(spare)
        return figure

    return StoryPicture(
        save_png(folder, "certificate.png", make_figure, colours=32),
        f"Objective and lower bound meet after {result.n_iter} steps; the gap is {result.gap:.1e}.",
        "The objective and its lower bound by iteration, and the gap between them.",
    )


def share_below(distances: Floats, thresholds: Floats) -> Floats:
    """Return the share of the distances that are below each threshold.

    Examples
    --------
    >>> share_below(np.array([3.0, 1.0]), np.array([0.5, 2.0, 4.0]))
    array([0. , 0.5, 1. ])
    """
    return np.searchsorted(np.sort(distances), thresholds) / len(distances)


def draw_guarantee(
    folder: Path, metric: TATML, test: Part, learnt: float, max_rate: float
) -> StoryPicture:
    """Draw both error rates of test pairs by threshold, with both thresholds and the promise."""
    distances = metric.pair_distance(test.pairs, test.images)
    thresholds = np.linspace(0, 2 * learnt, 400)
    same, different = (share_below(distances[test.labels == kind], thresholds) for kind in (1, -1))
    found = error_rates(metric, test.pairs, test.labels, X=test.images).false_match

    def make_figure() -> Figure:
        figure, axes = make_subplots(3.9, 1)
        ax: Any = axes[0, 0]
        ax.plot(thresholds, 100 * (1 - same), color=SIMILAR, label="same, judged different")
        ax.plot(thresholds, 100 * different, color=DISSIMILAR, label="different, judged the same")
        ends = 100 * np.array([[found.value - found.low], [found.high - found.value]])
        style = {
            "fmt": "o",
            "color": DISSIMILAR,
            "capsize": 4,
            "label": "on test pairs, 95 % limits",
        }
        ax.errorbar(metric.threshold_, 100 * found.value, ends, **style)
        ax.axhline(
            100 * max_rate,
            color=DISSIMILAR,
            ls=":",
            label=f"promised: at most {percent(max_rate, 0)}",
        )
        ax.axvline(learnt, color=THRESHOLD, ls="--", lw=1, label=f"learnt threshold {learnt:.3f}")
        name = f"calibrated threshold {metric.threshold_:.3f}"
        ax.axvline(metric.threshold_, color=THRESHOLD, lw=1.5, label=name)
        ax.set(xlabel="threshold", ylabel="wrong decisions, %", ylim=(0, 60))
        ax.set(xlim=(0.4 * learnt, 1.6 * learnt), title="Errors by threshold")
        figure.legend(loc="outside lower center", fontsize=7, ncols=2, frameon=False)
        return figure

    return StoryPicture(
        save_png(folder, "guarantee.png", make_figure),
        f"Both error rates by threshold. At the calibrated threshold {percent(found.value)} of the "
        f"pairs of two digits pass, with limits {percent(found.low)} and {percent(found.high)}.",
        f"Both kinds of errors by threshold. The calibrated threshold keeps false matches below "
        f"{percent(max_rate, 0)}.",
    )
